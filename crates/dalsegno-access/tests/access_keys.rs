//! Keys: what a file of them keeps, what it accepts, and what several processes see.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::Path;

use dalsegno_access::{KeyError, KeyState, KeyStore, NewKey, OpenError, Reach, Refused, Scope};

fn store(folder: &Path) -> KeyStore {
    KeyStore::open(folder.join("private/access.db")).unwrap()
}

fn acme(scopes: &[Scope]) -> NewKey {
    NewKey {
        name: Some("ci".to_owned()),
        reach: Reach::Tenant("acme".to_owned()),
        scopes: scopes.iter().copied().collect(),
        expires_at: Some(1_000),
    }
}

#[test]
fn a_key_gives_what_it_was_made_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (entry, key) = store.add(&acme(&[Scope::RunsRead, Scope::RunsList]), 7).unwrap();
    let access = store.check(key.expose(), 8).unwrap();
    assert_eq!((access.key(), access.tenant()), (entry.id.as_str(), Some("acme")));
    for scope in Scope::ALL {
        assert_eq!(access.may(*scope), matches!(scope, Scope::RunsRead | Scope::RunsList), "{scope}");
    }
    assert!(access.sees("acme") && !access.sees("acme2") && !access.sees("*") && !access.sees(""));
    assert_eq!(access.actor(), format!("ci (key {})", entry.id));
    assert_eq!(store.list().unwrap(), [entry]);
    // A key of all tenants sees all of them.
    let all = NewKey { scopes: [Scope::RunsList].into(), ..NewKey::default() };
    let (_, key) = store.add(&all, 7).unwrap();
    let access = store.check(key.expose(), u64::MAX).unwrap();
    assert!(access.sees("acme") && access.sees("other") && access.tenant().is_none());
}

#[test]
fn what_is_not_the_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (entry, key) = store.add(&acme(&[Scope::RunsRead]), 7).unwrap();
    let (_, other) = store.add(&acme(&[Scope::RunsRead]), 7).unwrap();
    let good = key.expose();
    // The id of one with the secret of the other.
    let (id, secret) = (&good[..26], &other.expose()[26..]);
    for wrong in [
        "",
        "dalsegno_",
        &good[1..],
        &good[..good.len() - 1],
        &format!("{good}0"),
        &good.to_uppercase(),
        &format!("{id}{secret}"),
        &format!("dalsegno_{}_{}", entry.id, "0".repeat(64)),
        &format!("{good}\0"),
    ] {
        assert!(matches!(store.check(wrong, 8), Err(Refused::Unknown)), "{wrong}");
    }
}

#[test]
fn a_key_ends_when_its_time_is_over_or_it_is_revoked_in_any_process() {
    let folder = tempfile::tempdir().unwrap();
    let (store, other) = (store(folder.path()), store(folder.path()));
    let (entry, key) = store.add(&acme(&[Scope::RunsRead]), 7).unwrap();
    assert!(other.check(key.expose(), 999).is_ok());
    assert!(matches!(other.check(key.expose(), 1_000), Err(Refused::Expired)));
    let revoked = other.revoke(&entry.id[..6], 20).unwrap();
    assert_eq!((revoked.revoked_at, revoked.state(21)), (Some(20), KeyState::Revoked));
    assert!(matches!(store.check(key.expose(), 8), Err(Refused::Revoked)));
    // It stays revoked since then.
    assert_eq!(store.revoke(&entry.id, 30).unwrap().revoked_at, Some(20));
    assert!(!store.has_active(8).unwrap());
    // Only who has the key learns that it was revoked.
    let guess = format!("dalsegno_{}_{}", entry.id, "0".repeat(64));
    assert!(matches!(store.check(&guess, 8), Err(Refused::Unknown)));
    assert!(matches!(store.revoke("", 9), Err(KeyError::Unknown { .. })));
    assert!(matches!(store.revoke("zz", 9), Err(KeyError::Unknown { .. })));
}

#[test]
fn the_last_use_is_written_down_once_a_minute() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (_, key) = store.add(&NewKey { expires_at: None, ..acme(&[Scope::RunsRead]) }, 7).unwrap();
    let access = store.check(key.expose(), 8).unwrap();
    assert!(store.is_use_news(&access, 100_000));
    store.used(&access, 100_000).unwrap();
    assert!(!store.is_use_news(&access, 159_999));
    assert!(store.is_use_news(&access, 160_000));
    // A clock that went back does not take a later use away.
    store.used(&access, 50).unwrap();
    assert_eq!(store.list().unwrap()[0].used_at, Some(100_000));
}

#[test]
fn a_key_that_would_allow_nothing_or_has_no_proper_name_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    assert!(matches!(store.add(&acme(&[]), 7), Err(KeyError::NoScope)));
    for name in ["", "a\nb", "\u{1b}[31m", &"x".repeat(65)] {
        let new = NewKey { name: Some(name.to_owned()), ..acme(&[Scope::RunsRead]) };
        assert!(matches!(store.add(&new, 7), Err(KeyError::Name)), "{name:?}");
    }
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn the_file_holds_no_key_and_only_its_owner_can_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (_, key) = store.add(&acme(&[Scope::RunsRead]), 7).unwrap();
    let secret = key.expose().rsplit('_').next().unwrap().to_owned();
    for file in std::fs::read_dir(folder.path().join("private")).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{}", path.display());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
    }
}

#[test]
fn another_programs_file_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE key (id TEXT)").unwrap();
    assert!(matches!(KeyStore::open(&path), Err(OpenError::Foreign { .. })));
    // One with the marks of a file of keys, and a trigger that would revoke nothing.
    let path = folder.path().join("keys.db");
    drop(KeyStore::open(&path).unwrap());
    let keys = rusqlite::Connection::open(&path).unwrap();
    keys.execute_batch("CREATE TRIGGER t BEFORE UPDATE ON key BEGIN SELECT raise(IGNORE); END").unwrap();
    drop(keys);
    assert!(matches!(KeyStore::open(&path), Err(OpenError::Foreign { .. })));
    let path = folder.path().join("text.db");
    std::fs::write(&path, "not a database, but a text that is long enough to be read as one".repeat(20))
        .unwrap();
    assert!(matches!(KeyStore::open(&path), Err(OpenError::Storage { .. })));
}

#[test]
fn a_damaged_entry_allows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.db");
    let store = KeyStore::open(&path).unwrap();
    let (_, key) = store.add(&acme(&[Scope::RunsRead]), 7).unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute("UPDATE key SET scopes = 'everything'", []).unwrap();
    assert!(matches!(store.check(key.expose(), 8), Err(Refused::Unavailable(KeyError::Damaged { .. }))));
}
