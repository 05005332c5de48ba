//! What is left in the memory of the process: nothing, once the last clone of a value is dropped.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use common::{Folder, NOW, name, tenant, wait};
use dalsegno_secrets::{Put, Rotation, Secret, SecretStore};
use zeroize::{Zeroize, Zeroizing};

/// Makes it possible to know a value and not to have it.
const MASK: u8 = 0xa5;

/// How often the value whose masked bytes are given stands in memory that can be written.
fn copies(masked: &[u8]) -> usize {
    let memory = File::open("/proc/self/mem").unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut window = vec![0; 1 << 16];
    let own = window.as_ptr() as u64;
    let own = own..own + window.len() as u64;
    let mut found = 0;
    for line in maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|mode| mode.starts_with("rw")))
    {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [mut at, to] = [from, to].map(|address| u64::from_str_radix(address, 16).unwrap());
        while at < to {
            let length = usize::try_from(to - at).unwrap().min(window.len());
            let Ok(read) = memory.read_at(&mut window[..length], at) else { break };
            if read == 0 {
                break;
            }
            let positions = window[..read].windows(masked.len()).enumerate();
            // What was just read stands in the window as well.
            found += positions
                .filter(|(offset, _)| !own.contains(&(at + *offset as u64)))
                .filter(|(_, bytes)| bytes.iter().zip(masked).all(|(byte, masked)| byte ^ MASK == *masked))
                .count();
            // Windows overlap, so that nothing is cut in two; it may be counted twice.
            at += if read == length && length == window.len() {
                (read - masked.len()) as u64
            } else {
                read as u64
            };
        }
    }
    window.zeroize();
    found
}

#[test]
fn no_copy_of_a_value_is_left_in_the_process() {
    // Drawn here, so that it is no constant of the program.
    let masked: Vec<u8> = {
        let mut random = Zeroizing::new([0_u8; 24]);
        File::open("/dev/urandom").unwrap().read_exact_at(&mut *random, 0).unwrap();
        random.iter().map(|byte| (b'a' + byte % 26) ^ MASK).collect()
    };
    // Long enough to leave the places where short texts are kept, and in a vector that never grows.
    let make = || {
        let mut text = Zeroizing::new(String::with_capacity(4_096));
        for _ in 0..100 {
            for byte in &masked {
                text.push(char::from(byte ^ MASK));
            }
        }
        Secret::new(&text)
    };
    assert_eq!(copies(&masked), 0, "before");
    let secret = make();
    assert!(copies(&masked) >= 100, "the search finds what is there");

    let folder = Folder::new();
    let store = folder.open();
    let (acme, token) = (tenant("acme"), name("token"));
    wait(async {
        store.put(&acme, &token, Put::new(secret, NOW)).await.unwrap();
        let stored = store.get(&acme, &token, NOW).await.unwrap().unwrap();
        assert_eq!(stored.value.expose().len(), 2_400);
        drop(stored);
        store
            .rotate_key(&dalsegno_secrets::MasterKey::generate().unwrap(), Rotation::Everything)
            .await
            .unwrap();
        store.verify().await.unwrap();
    });
    assert_eq!(copies(&masked), 0, "after");
    drop(store);
    assert_eq!(copies(&masked), 0, "after closing");
}
