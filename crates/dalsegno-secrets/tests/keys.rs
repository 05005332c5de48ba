//! Where the master key comes from, and what happens with a wrong one.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{Folder, put, value, wait};
use dalsegno_secrets::{
    EnvKey, KEY_VARIABLE, KeyError, KeyFile, KeySource, MasterKey, OpenError, Rotation, SecretError,
    SecretStore, SqliteSecrets,
};

#[test]
fn a_wrong_key_is_told_which_one_is_right_and_changes_nothing() {
    let folder = Folder::new();
    wait(put(&folder.open(), "acme", "a", "value"));
    let before = fs::read(folder.path()).unwrap();
    let wrong = MasterKey::generate().unwrap();
    let error = SqliteSecrets::open(folder.path(), &wrong).unwrap_err();
    let OpenError::WrongKey { expected, given, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*expected, *given), (folder.key.id(), wrong.id()));
    assert!(error.to_string().contains(&folder.key.id().to_string()), "{error}");
    assert_eq!(fs::read(folder.path()).unwrap(), before);
    assert_eq!(wait(value(&folder.open(), "acme", "a")).as_deref(), Some("value"));
}

#[test]
fn after_a_rotation_only_the_new_key_opens() {
    for rotation in [Rotation::Wrapping, Rotation::Everything] {
        let mut folder = Folder::new();
        let new = MasterKey::generate().unwrap();
        wait(async {
            let (store, stale) = (folder.open(), folder.open());
            put(&store, "acme", "a", "value").await;
            store.rotate_key(&new, rotation).await.unwrap();
            assert_eq!(value(&store, "acme", "a").await.as_deref(), Some("value"));
            // Another opening is told, and can neither read nor write nor rotate.
            let expected = new.id();
            let refused =
                |error| matches!(error, SecretError::WrongKey { expected: id, .. } if id == expected);
            assert!(refused(common::get(&stale, "acme", "a").await.unwrap_err()));
            assert!(refused(stale.remove_expired(0).await.unwrap_err()));
            assert!(refused(stale.rotate_key(&folder.key, rotation).await.unwrap_err()));
        });
        assert!(matches!(folder.refusal(), OpenError::WrongKey { .. }));
        folder.key = new;
        assert_eq!(wait(value(&folder.open(), "acme", "a")).as_deref(), Some("value"));
    }
}

#[test]
fn a_key_file_is_made_once_and_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.key");
    assert!(matches!(KeyFile::new(&path).master_key(), Err(KeyError::File { action: "read", .. })));
    assert!(!path.exists(), "only `create` makes it");
    let file = KeyFile::create(&path).unwrap();
    let key = file.master_key().unwrap();
    assert_eq!(KeyFile::new(&path).master_key().unwrap().id(), key.id());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(matches!(KeyFile::create(&path), Err(KeyError::Exists { .. })));
    assert_eq!(file.master_key().unwrap().id(), key.id());
    for mode in [0o640, 0o604, 0o620, 0o660, 0o644, 0o601, 0o777] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let error = file.master_key().unwrap_err();
        let KeyError::TooOpen { problem, .. } = &error else { panic!("{error:?}") };
        assert_eq!(problem.mode, mode);
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
    fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
    file.master_key().unwrap();
}

#[test]
fn what_is_no_key_is_refused_without_being_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.key");
    drop(KeyFile::create(&path).unwrap());
    let good = MasterKey::generate().unwrap();
    let good = good.to_base64();
    let good = good.expose();
    let long = "hunter2 ".repeat(200);
    for bad in [
        "",
        "hunter2",
        "aHVudGVyMg==",
        &good[..43],
        &long,
        &format!("{good}{good}"),
        &format!("{}=", "A".repeat(43)),
    ] {
        fs::write(&path, bad).unwrap();
        let error = KeyFile::new(&path).master_key().unwrap_err();
        assert!(matches!(error, KeyError::Malformed { .. }), "{error:?}");
        let shown = format!("{error} {error:?}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("aHVudGVy") && !shown.contains(&good[..43]),
            "{shown}"
        );
    }
    fs::write(&path, [0xff; 44]).unwrap();
    assert!(matches!(KeyFile::new(&path).master_key(), Err(KeyError::Malformed { .. })));
    fs::write(&path, format!("\n {good}\r\n")).unwrap();
    KeyFile::new(&path).master_key().unwrap();
    assert!(matches!(
        KeyFile::new(folder.path()).master_key(),
        Err(KeyError::TooOpen { .. } | KeyError::Malformed { .. })
    ));
}

#[test]
fn a_key_cannot_be_printed() {
    let key = MasterKey::generate().unwrap();
    assert_eq!(format!("{key:?}"), format!("MasterKey({})", key.id()));
    assert_eq!(key.id().to_string().len(), 16);
    let again = MasterKey::from_base64(key.to_base64().expose(), "here").unwrap();
    assert_eq!(again.id(), key.id());
    assert_ne!(MasterKey::generate().unwrap().id(), key.id());
}

#[test]
fn the_environment_gives_a_key() {
    const CHILD: &str = "DALSEGNO_SECRETS_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let shown = match EnvKey::default().master_key() {
            Ok(key) => format!("key {}", key.id()),
            Err(error) => format!("error {error} {error:?}"),
        };
        println!("\n<{shown}>");
        return;
    }
    let child = |value: Option<&str>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_environment_gives_a_key", "--nocapture"]).env(CHILD, "1");
        command.env_remove(KEY_VARIABLE).envs(value.map(|value| (KEY_VARIABLE, value)));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let key = MasterKey::generate().unwrap();
    assert!(child(Some(key.to_base64().expose())).contains(&format!("<key {}>", key.id())));
    assert!(child(None).contains("<error the environment variable `DALSEGNO_SECRETS_KEY` is not set"));
    let malformed = child(Some("hunter2"));
    assert!(malformed.contains("`DALSEGNO_SECRETS_KEY` is not base64"), "{malformed}");
    assert!(!malformed.contains("hunter2"), "{malformed}");
}
