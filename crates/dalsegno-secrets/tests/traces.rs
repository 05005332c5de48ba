//! What is left where: no value in any file or message, and nothing at all of what was removed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod common;

use std::collections::HashSet;
use std::fmt::Write;

use common::{Folder, NOW, contains, name, put, tenant};
use dalsegno_secrets::{
    Expect, MasterKey, Put, Rotation, Secret, SecretStore, SqliteSecrets, VALUE_BYTES_MAX, Version,
};
use rusqlite::Connection;

const CANARY: &str = "canary-2f9d61c0-never-to-be-seen";

#[test]
fn a_value_is_in_no_byte_of_the_files_and_in_no_message() {
    let folder = Folder::new();
    let mut shown = String::new();
    common::wait(async {
        let store = folder.open();
        for value in [CANARY.to_owned(), CANARY.repeat(300), format!("x{CANARY}")] {
            put(&store, "acme", "a", &value).await;
        }
        assert!(!contains(&folder.bytes(), CANARY.as_bytes()), "with the log still there");
        assert!(contains(&folder.bytes(), b"acme"), "names are in clear, as the documentation says");

        let secret = Put { expires_at: Some(NOW), ..Put::new(Secret::new(CANARY), NOW - 1) };
        writeln!(shown, "{secret:?} {store:?}").unwrap();
        store.put(&tenant("acme"), &name("b"), secret.clone()).await.unwrap();
        writeln!(shown, "{:?}", store.get(&tenant("acme"), &name("b"), 0).await.unwrap().unwrap()).unwrap();
        writeln!(shown, "{:?}", store.list(&tenant("acme")).await.unwrap()).unwrap();
        let in_memory = common::in_memory();
        in_memory.put(&tenant("acme"), &name("b"), secret).await.unwrap();
        writeln!(shown, "{in_memory:?}").unwrap();

        let too_long = Put::new(Secret::new(&CANARY.repeat(VALUE_BYTES_MAX)), NOW);
        let expect = Expect::Newest(Version::from_number(99));
        let conflicting = Put { expect, ..Put::new(Secret::new(CANARY), NOW) };
        for refused in [too_long, conflicting] {
            let error = store.put(&tenant("acme"), &name("a"), refused).await.unwrap_err();
            writeln!(shown, "{error} {error:?}").unwrap();
        }
        folder.tamper("UPDATE secret SET sealed = zeroblob(40) WHERE name = 'b'");
        let error = store.get(&tenant("acme"), &name("b"), 0).await.unwrap_err();
        writeln!(shown, "{error} {error:?}").unwrap();
    });
    assert!(shown.contains("Secret(…)"), "{shown}");
    assert!(!shown.contains("canary"), "{shown}");
    assert!(!contains(&folder.bytes(), CANARY.as_bytes()), "after closing");
    let error = SqliteSecrets::open(folder.path(), &MasterKey::generate().unwrap()).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("canary"));
}

/// Parts of everything that is encrypted under `condition`: the nonce, and pieces of each sealed value.
fn pieces(folder: &Folder, condition: &str) -> Vec<[u8; 16]> {
    let connection = Connection::open(folder.path()).unwrap();
    let mut statement =
        connection.prepare(&format!("SELECT nonce, sealed FROM secret WHERE {condition}")).unwrap();
    let rows = statement.query_map([], |row| Ok([row.get::<_, Vec<u8>>(0)?, row.get(1)?])).unwrap();
    let bytes = rows.flat_map(Result::unwrap);
    bytes
        .flat_map(|bytes| bytes.chunks_exact(16).map(|piece| piece.try_into().unwrap()).collect::<Vec<_>>())
        .collect()
}

/// How many of the pieces stand somewhere in the files.
fn found(folder: &Folder, pieces: &[[u8; 16]]) -> usize {
    let bytes = folder.bytes();
    let windows: HashSet<&[u8]> = bytes.windows(16).collect();
    pieces.iter().filter(|piece| windows.contains(&piece[..])).count()
}

#[test]
fn what_was_removed_is_in_no_byte_of_the_files() {
    let folder = Folder::new();
    common::wait(async {
        let store = folder.open();
        // Of many sizes, so that pages fill, split and merge.
        for number in 0..160_usize {
            let value = "v".repeat(number * number * 7 % 5_000 + 1);
            let of = ["acme", "bravo", "charlie"][number % 3];
            put(&store, of, &format!("n{}", number * 37 % 160), &value).await;
        }
        let mut gone = Vec::new();
        for number in (0..160).step_by(2) {
            let condition = format!("name = 'n{number}'");
            gone.extend(pieces(&folder, &condition));
            for of in ["acme", "bravo", "charlie"] {
                store.remove(&tenant(of), &name(&format!("n{number}"))).await.unwrap();
            }
        }
        assert!(gone.len() > 5_000, "{}", gone.len());
        assert_eq!(found(&folder, &gone), 0, "removed one by one");

        gone = pieces(&folder, "tenant = 'bravo'");
        assert!(!gone.is_empty());
        store.remove_tenant(&tenant("bravo")).await.unwrap();
        assert_eq!(found(&folder, &gone), 0, "removed with their tenant");

        let put = Put { expires_at: Some(NOW), ..Put::new(Secret::new(&"v".repeat(3_000)), 0) };
        store.put(&tenant("acme"), &name("expiring"), put).await.unwrap();
        gone = pieces(&folder, "name = 'expiring'");
        assert!(found(&folder, &gone) > 0);
        assert_eq!(store.remove_expired(NOW).await.unwrap(), 1);
        assert_eq!(found(&folder, &gone), 0, "expired");

        let kept = pieces(&folder, "true");
        // Long values go over several pages, which cut a few pieces in two.
        assert!(found(&folder, &kept) > kept.len() / 10 * 9, "what is there is found");
        store.rotate_key(&MasterKey::generate().unwrap(), Rotation::Everything).await.unwrap();
        assert_eq!(found(&folder, &kept), 0, "encrypted with the former data key");
    });
}

#[test]
fn after_a_rotation_nothing_is_left_that_the_old_key_opens() {
    for rotation in [Rotation::Wrapping, Rotation::Everything] {
        let folder = Folder::new();
        common::wait(async {
            let store = folder.open();
            put(&store, "acme", "a", "value").await;
            let wrapped: Vec<u8> = Connection::open(folder.path())
                .unwrap()
                .query_row("SELECT data_key FROM store", [], |row| row.get(0))
                .unwrap();
            assert!(contains(&folder.bytes(), &wrapped[..16]));
            store.rotate_key(&MasterKey::generate().unwrap(), rotation).await.unwrap();
            for piece in wrapped.chunks_exact(16) {
                assert!(!contains(&folder.bytes(), piece));
            }
        });
    }
}
