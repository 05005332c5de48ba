//! Whatever is done in whatever order: a file answers as memory does, and no tenant sees another one's values.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod common;

use common::{Folder, NOW, in_memory, name, tenant, wait};
use dalsegno_secrets::{Expect, MasterKey, Put, Rotation, Secret, SecretError, SecretStore, Tenant, Version};
use proptest::prelude::*;

/// Names that are each other's beginnings, or differ in case only, or hold what a pattern would take for a wildcard.
const TENANTS: [&str; 4] = ["a", "a%", "A", "a b"];
const NAMES: [&str; 4] = ["x", "x.y", "X", "x_y"];

#[derive(Clone, Debug)]
enum Change {
    Put { of: usize, called: usize, expires_in: Option<u64>, expect: Option<u64> },
    Remove { of: usize, called: usize },
    RemoveTenant { of: usize },
    RemoveExpired,
    Rotate(Rotation),
    Reopen,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Change>> {
    let (of, called) = (0..TENANTS.len(), 0..NAMES.len());
    let step = prop_oneof![
        8 => (of.clone(), called.clone(), proptest::option::weighted(0.3, 0..4_u64), proptest::option::weighted(0.3, 0..4_u64))
            .prop_map(|(of, called, expires_in, expect)| Change::Put { of, called, expires_in, expect }),
        2 => (of.clone(), called).prop_map(|(of, called)| Change::Remove { of, called }),
        1 => of.prop_map(|of| Change::RemoveTenant { of }),
        1 => Just(Change::RemoveExpired),
        1 => prop_oneof![Just(Rotation::Wrapping), Just(Rotation::Everything)].prop_map(Change::Rotate),
        1 => Just(Change::Reopen),
        2 => (0..3_u64).prop_map(Change::Wait),
    ];
    proptest::collection::vec(step, 1..24)
}

/// What a result says, without what differs between stores of the same content.
fn told<T: std::fmt::Debug>(result: Result<T, SecretError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.to_string(),
    }
}

/// Everything that a tenant can read.
async fn seen(store: &dyn SecretStore, of: &Tenant, now: u64) -> Vec<String> {
    let mut seen = vec![told(store.list(of).await)];
    for called in NAMES {
        let called = name(called);
        let newest = store.get(of, &called, now).await.unwrap();
        let mut values: Vec<_> = newest.into_iter().collect();
        for version in 0..6 {
            values.extend(store.get_version(of, &called, Version::from_number(version), now).await.unwrap());
        }
        for stored in values {
            let value = stored.value.expose();
            assert!(value.starts_with(&format!("{of}/{called}/")), "{of} reads {value} as {called}");
            seen.push(format!("{value} {} {} {:?}", stored.version, stored.put_at, stored.expires_at));
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_answers_as_memory_does_and_no_tenant_sees_another(steps in steps()) {
        wait(async {
            let (mut folder, mut now) = (Folder::new(), NOW);
            let (mut file, memory) = (folder.open(), in_memory());
            for (number, step) in steps.into_iter().enumerate() {
                let changed = match &step {
                    Change::Put { of, .. } | Change::Remove { of, .. } | Change::RemoveTenant { of } => Some(*of),
                    Change::RemoveExpired | Change::Rotate(_) | Change::Reopen | Change::Wait(_) => None,
                };
                let others: Vec<_> = (0..TENANTS.len()).filter(|of| changed.is_some_and(|changed| changed != *of)).collect();
                let mut before = Vec::new();
                for of in &others {
                    before.push(seen(&file, &tenant(TENANTS[*of]), now).await);
                }
                let both = match step {
                    Change::Put { of, called, expires_in, expect } => {
                        let (of, called) = (tenant(TENANTS[of]), name(NAMES[called]));
                        let put = Put {
                            value: Secret::new(&format!("{of}/{called}/{number}")),
                            at: now,
                            expires_at: expires_in.map(|time| now + time),
                            expect: match expect {
                                None => Expect::Anything,
                                Some(0) => Expect::Absent,
                                Some(version) => Expect::Newest(Version::from_number(version)),
                            },
                        };
                        [told(file.put(&of, &called, put.clone()).await), told(memory.put(&of, &called, put).await)]
                    }
                    Change::Remove { of, called } => {
                        let (of, called) = (tenant(TENANTS[of]), name(NAMES[called]));
                        [told(file.remove(&of, &called).await), told(memory.remove(&of, &called).await)]
                    }
                    Change::RemoveTenant { of } => {
                        let of = tenant(TENANTS[of]);
                        [told(file.remove_tenant(&of).await), told(memory.remove_tenant(&of).await)]
                    }
                    Change::RemoveExpired => [told(file.remove_expired(now).await), told(memory.remove_expired(now).await)],
                    Change::Rotate(rotation) => {
                        folder.key = MasterKey::generate().unwrap();
                        let rotated = |result: Result<dalsegno_secrets::Rotated, _>| told(result.map(|rotated| (rotated.to, rotated.resealed)));
                        [
                            rotated(file.rotate_key(&folder.key, rotation).await),
                            rotated(memory.rotate_key(&folder.key, rotation).await),
                        ]
                    }
                    Change::Reopen => {
                        drop(file);
                        file = folder.open();
                        [String::new(), String::new()]
                    }
                    Change::Wait(time) => {
                        now += time;
                        [String::new(), String::new()]
                    }
                };
                assert_eq!(both[0], both[1]);
                for (of, before) in others.into_iter().zip(before) {
                    assert_eq!(seen(&file, &tenant(TENANTS[of]), now).await, before, "{} changed", TENANTS[of]);
                }
                for of in TENANTS {
                    assert_eq!(seen(&file, &tenant(of), now).await, seen(&memory, &tenant(of), now).await);
                }
            }
            file.verify().await.unwrap();
        });
    }
}
