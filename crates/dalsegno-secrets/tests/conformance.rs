//! What every store must do, asked of a file and of memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[macro_use]
mod common;

use common::{NOW, in_memory, name, put, tenant, value};
use dalsegno_secrets::{
    Expect, MasterKey, Put, Rotated, Rotation, SECRETS_MAX, Secret, SecretEntry, SecretError, SecretStore,
    VALUE_BYTES_MAX, VERSIONS_KEPT, Version, VersionEntry,
};

conformance!(
    a_value_comes_back_with_its_version_and_times,
    versions_grow_and_are_never_used_again,
    the_latest_versions_are_kept_and_no_more,
    a_put_can_demand_what_it_replaces,
    of_many_puts_that_replace_the_same_version_one_wins,
    an_expired_value_is_not_given_out,
    removing_what_has_expired_brings_no_earlier_value_back,
    a_list_shows_names_versions_and_times_in_order,
    tenants_do_not_see_each_other,
    a_removed_tenant_leaves_the_others_alone,
    values_out_of_bounds_are_refused,
    a_rotation_changes_nothing_for_readers,
);

async fn a_value_comes_back_with_its_version_and_times(store: impl SecretStore) {
    let written = Put { expires_at: Some(NOW + 5), ..Put::new(Secret::new("wert ü\0\n"), NOW - 1) };
    let version = store.put(&tenant("acme"), &name("a"), written).await.unwrap();
    let stored = store.get(&tenant("acme"), &name("a"), NOW).await.unwrap().unwrap();
    assert_eq!(stored.value.expose(), "wert ü\0\n");
    assert_eq!((stored.version, stored.put_at, stored.expires_at), (version, NOW - 1, Some(NOW + 5)));
    assert_eq!(value(&store, "acme", "b").await, None);
    assert_eq!(value(&store, "other", "a").await, None);
}

async fn versions_grow_and_are_never_used_again(store: impl SecretStore) {
    let first = put(&store, "acme", "a", "one").await;
    let second = put(&store, "acme", "a", "two").await;
    let other = put(&store, "acme", "b", "else").await;
    assert!(first < second && second < other);
    assert!(store.remove(&tenant("acme"), &name("a")).await.unwrap());
    assert!(!store.remove(&tenant("acme"), &name("a")).await.unwrap());
    assert!(put(&store, "acme", "a", "three").await > other);
    for gone in [first, second] {
        let version = Version::from_number(gone);
        assert!(store.get_version(&tenant("acme"), &name("a"), version, NOW).await.unwrap().is_none());
    }
}

async fn the_latest_versions_are_kept_and_no_more(store: impl SecretStore) {
    let mut versions = Vec::new();
    for number in 0..VERSIONS_KEPT + 2 {
        versions.push(put(&store, "acme", "a", &format!("value {number}")).await);
        put(&store, "acme", "untouched", "same").await;
    }
    for (number, version) in versions.iter().enumerate() {
        let version = Version::from_number(*version);
        let stored = store.get_version(&tenant("acme"), &name("a"), version, NOW).await.unwrap();
        let expected = (number >= 2).then(|| format!("value {number}"));
        assert_eq!(stored.map(|stored| stored.value.expose().to_owned()), expected);
    }
    for strange in [0, 9_999, u64::MAX] {
        let version = Version::from_number(strange);
        assert!(store.get_version(&tenant("acme"), &name("a"), version, NOW).await.unwrap().is_none());
    }
    assert_eq!(value(&store, "acme", "untouched").await.as_deref(), Some("same"));
}

async fn a_put_can_demand_what_it_replaces(store: impl SecretStore) {
    let (acme, token) = (tenant("acme"), name("token"));
    let demand = |expect, value| Put { expect, ..Put::new(Secret::new(value), NOW) };
    let conflict = |result| match result {
        Err(SecretError::Conflict { expected, found }) => (expected, found),
        other => panic!("{other:?}"),
    };

    let missing = Expect::Newest(Version::from_number(1));
    let result = store.put(&acme, &token, demand(missing, "x")).await;
    assert_eq!(conflict(result), (missing, None));
    let first = store.put(&acme, &token, demand(Expect::Absent, "one")).await.unwrap();
    let result = store.put(&acme, &token, demand(Expect::Absent, "x")).await;
    assert_eq!(conflict(result), (Expect::Absent, Some(first)));
    let second = store.put(&acme, &token, demand(Expect::Newest(first), "two")).await.unwrap();
    let result = store.put(&acme, &token, demand(Expect::Newest(first), "x")).await;
    assert_eq!(conflict(result), (Expect::Newest(first), Some(second)));
    assert_eq!(value(&store, "acme", "token").await.as_deref(), Some("two"));

    // What has expired is absent, and can still be named as what is replaced.
    let expiring = Put { expires_at: Some(NOW), ..demand(Expect::Newest(second), "three") };
    let third = store.put(&acme, &token, expiring.clone()).await.unwrap();
    let expiring = Put { expect: Expect::Absent, ..expiring };
    let fourth = store.put(&acme, &token, expiring).await.unwrap();
    assert!(fourth > third);
    store.put(&acme, &token, demand(Expect::Newest(fourth), "five")).await.unwrap();
    assert_eq!(value(&store, "acme", "token").await.as_deref(), Some("five"));
}

async fn of_many_puts_that_replace_the_same_version_one_wins(store: impl SecretStore + 'static) {
    let store = std::sync::Arc::new(store);
    let first = Version::from_number(put(&*store, "acme", "token", "first").await);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let store = std::sync::Arc::clone(&store);
        tasks.spawn(async move {
            let value = format!("renewed {number}");
            let put = Put { expect: Expect::Newest(first), ..Put::new(Secret::new(&value), NOW) };
            store.put(&tenant("acme"), &name("token"), put).await.map(|_| value)
        });
    }
    let results = tasks.join_all().await;
    let mut won = Vec::new();
    for result in results {
        match result {
            Ok(value) => won.push(value),
            Err(SecretError::Conflict { found, .. }) => assert!(found > Some(first)),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(won.len(), 1);
    assert_eq!(value(&*store, "acme", "token").await.as_ref(), won.first());
}

async fn an_expired_value_is_not_given_out(store: impl SecretStore) {
    let (acme, token) = (tenant("acme"), name("token"));
    put(&store, "acme", "token", "earlier, for ever").await;
    let put = Put { expires_at: Some(NOW + 10), ..Put::new(Secret::new("short-lived"), NOW) };
    let version = store.put(&acme, &token, put).await.unwrap();
    for (now, there) in [(NOW, true), (NOW + 9, true), (NOW + 10, false), (u64::MAX, false)] {
        assert_eq!(store.get(&acme, &token, now).await.unwrap().is_some(), there, "{now}");
        assert_eq!(store.get_version(&acme, &token, version, now).await.unwrap().is_some(), there, "{now}");
    }
}

async fn removing_what_has_expired_brings_no_earlier_value_back(store: impl SecretStore) {
    let expiring = |value, time| Put { expires_at: Some(time), ..Put::new(Secret::new(value), NOW) };
    put(&store, "acme", "a", "earlier").await;
    store.put(&tenant("acme"), &name("a"), expiring("newest", NOW + 1)).await.unwrap();
    store.put(&tenant("acme"), &name("b"), expiring("earlier", NOW + 1)).await.unwrap();
    put(&store, "acme", "b", "newest").await;
    store.put(&tenant("other"), &name("c"), expiring("other", NOW + 1)).await.unwrap();
    store.put(&tenant("other"), &name("d"), expiring("later", NOW + 2)).await.unwrap();

    assert_eq!(store.remove_expired(NOW).await.unwrap(), 0);
    assert_eq!(store.remove_expired(NOW + 1).await.unwrap(), 4);
    assert_eq!(store.remove_expired(NOW + 1).await.unwrap(), 0);
    assert_eq!(value(&store, "acme", "a").await, None);
    assert_eq!(value(&store, "acme", "b").await.as_deref(), Some("newest"));
    let names = |entries: Vec<SecretEntry>| {
        entries.into_iter().map(|entry| (entry.name.to_string(), entry.versions.len())).collect::<Vec<_>>()
    };
    assert_eq!(names(store.list(&tenant("acme")).await.unwrap()), [("b".to_owned(), 1)]);
    assert_eq!(names(store.list(&tenant("other")).await.unwrap()), [("d".to_owned(), 1)]);
}

async fn a_list_shows_names_versions_and_times_in_order(store: impl SecretStore) {
    assert_eq!(store.list(&tenant("acme")).await.unwrap(), []);
    let mut versions = Vec::new();
    for (called, at, expires_at) in [("b", NOW, None), ("a.b", NOW, Some(1)), ("b", NOW + 7, Some(NOW + 9))] {
        let put = Put { expires_at, ..Put::new(Secret::new("listed?"), at) };
        versions.push(store.put(&tenant("acme"), &name(called), put).await.unwrap());
    }
    let entry =
        |index: usize, put_at, expires_at| VersionEntry { version: versions[index], put_at, expires_at };
    let expected = [
        SecretEntry { name: name("a.b"), versions: vec![entry(1, NOW, Some(1))] },
        SecretEntry {
            name: name("b"),
            versions: vec![entry(2, NOW + 7, Some(NOW + 9)), entry(0, NOW, None)],
        },
    ];
    assert_eq!(store.list(&tenant("acme")).await.unwrap(), expected);
}

async fn tenants_do_not_see_each_other(store: impl SecretStore) {
    let (acme, other) = (tenant("acme"), tenant("other"));
    let version = Version::from_number(put(&store, "acme", "same", "of acme").await);
    assert_eq!(put(&store, "other", "same", "of other").await, version.as_number(), "one counter each");
    assert_eq!(value(&store, "acme", "same").await.as_deref(), Some("of acme"));
    assert!(store.remove(&other, &name("same")).await.unwrap());
    let there = store.get_version(&acme, &name("same"), version, NOW).await.unwrap().unwrap();
    assert_eq!(there.value.expose(), "of acme");
    assert!(store.get_version(&other, &name("same"), version, NOW).await.unwrap().is_none());
    assert_eq!(store.list(&other).await.unwrap(), []);
}

async fn a_removed_tenant_leaves_the_others_alone(store: impl SecretStore) {
    for called in ["a", "b", "b"] {
        put(&store, "acme", called, "of acme").await;
        put(&store, "acme 2", called, "of acme 2").await;
    }
    assert_eq!(store.remove_tenant(&tenant("acme")).await.unwrap(), 2);
    assert_eq!(store.remove_tenant(&tenant("acme")).await.unwrap(), 0);
    assert_eq!(store.list(&tenant("acme")).await.unwrap(), []);
    assert_eq!(value(&store, "acme", "a").await, None);
    assert_eq!(value(&store, "acme 2", "b").await.as_deref(), Some("of acme 2"));
    put(&store, "acme", "a", "anew").await;
    assert_eq!(value(&store, "acme", "a").await.as_deref(), Some("anew"));
}

async fn values_out_of_bounds_are_refused(store: impl SecretStore) {
    for length in [0, VALUE_BYTES_MAX + 1] {
        let put = Put::new(Secret::new(&"v".repeat(length)), NOW);
        let refused = store.put(&tenant("acme"), &name("a"), put).await;
        assert!(matches!(refused, Err(SecretError::Value { bytes }) if bytes == length), "{refused:?}");
    }
    let put = Put { expires_at: Some(u64::MAX), ..Put::new(Secret::new("value"), NOW) };
    let refused = store.put(&tenant("acme"), &name("a"), put).await;
    assert!(matches!(refused, Err(SecretError::Time { given: u64::MAX })), "{refused:?}");
    assert_eq!(store.list(&tenant("acme")).await.unwrap(), []);
    let longest = "v".repeat(VALUE_BYTES_MAX);
    common::put(&store, "acme", "a", &longest).await;
    assert!(value(&store, "acme", "a").await == Some(longest));
}

async fn a_rotation_changes_nothing_for_readers(store: impl SecretStore) {
    let last = [("acme", "a"), ("acme", "b"), ("other", "a"), ("acme", "a")];
    for (index, (of, called)) in last.iter().enumerate() {
        put(&store, of, called, &format!("value {index}")).await;
    }
    store.remove(&tenant("acme"), &name("b")).await.unwrap();
    let before = (store.list(&tenant("acme")).await.unwrap(), store.list(&tenant("other")).await.unwrap());
    let (new, newer) = (MasterKey::generate().unwrap(), MasterKey::generate().unwrap());
    let first = store.rotate_key(&new, Rotation::Everything).await.unwrap();
    assert_eq!((first.to, first.resealed), (new.id(), 3));
    let second = store.rotate_key(&newer, Rotation::Wrapping).await.unwrap();
    assert_eq!(second, Rotated { from: new.id(), to: newer.id(), resealed: 0 });
    let after = (store.list(&tenant("acme")).await.unwrap(), store.list(&tenant("other")).await.unwrap());
    assert_eq!(before, after);
    assert_eq!(value(&store, "acme", "a").await.as_deref(), Some("value 3"));
    assert_eq!(put(&store, "acme", "c", "after").await, 4);
}

#[test]
fn a_tenant_has_only_so_many_secrets() {
    // Of the file this is asked in its own test, with rows that are made faster.
    common::wait(async {
        let store = in_memory();
        for number in 0..SECRETS_MAX {
            put(&store, "acme", &format!("n{number}"), "value").await;
        }
        let put = Put::new(Secret::new("value"), NOW);
        let refused = store.put(&tenant("acme"), &name("one-more"), put.clone()).await;
        assert!(matches!(refused, Err(SecretError::TooMany)), "{refused:?}");
        store.put(&tenant("acme"), &name("n0"), put.clone()).await.unwrap();
        store.put(&tenant("other"), &name("one-more"), put).await.unwrap();
    });
}
