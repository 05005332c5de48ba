//! What only the inside can see: states in the middle of a rotation, and a tenant that is full.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::{SECRETS_MAX, Secret, VersionEntry};

/// SQLite's page, and the page with its head in the log.
const PAGE: usize = 4096;
const FRAME: usize = PAGE + 24;
const LOG_HEAD: usize = 32;

const SECRETS: usize = 40;

fn tenant(number: usize) -> Tenant {
    format!("tenant {}", number % 3).parse().unwrap()
}

fn name(number: usize) -> SecretName {
    format!("n{number}").parse().unwrap()
}

fn value(number: usize) -> String {
    format!("value {number} ").repeat(number * 3 + 1)
}

fn log_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", path.display()))
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// The two files of a store, as a crash would leave them.
#[derive(Clone)]
struct Files {
    file: Vec<u8>,
    log: Vec<u8>,
}

impl Files {
    fn of(path: &Path) -> Self {
        Self { file: fs::read(path).unwrap(), log: fs::read(log_of(path)).unwrap() }
    }

    /// Says which of the keys opens the files; with it, everything must be there.
    fn key(&self, old: &MasterKey, new: &MasterKey) -> &'static str {
        let opens = |key: &MasterKey| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("secrets.db");
            drop(dalsegno_files::create_new(&path).unwrap());
            fs::write(&path, &self.file).unwrap();
            fs::write(log_of(&path), &self.log).unwrap();
            let store = match SqliteSecrets::open(&path, key) {
                Ok(store) => store,
                Err(OpenError::WrongKey { .. }) => return false,
                Err(other) => panic!("{other:?}"),
            };
            wait(async {
                assert_eq!(store.verify().await.unwrap(), SECRETS as u64);
                for number in 0..SECRETS {
                    let stored = store.get(&tenant(number), &name(number), 0).await.unwrap().unwrap();
                    assert_eq!(stored.value.expose(), value(number));
                }
            });
            true
        };
        match (opens(old), opens(new)) {
            (true, false) => "old",
            (false, true) => "new",
            both => panic!("{both:?}"),
        }
    }
}

#[test]
fn at_each_step_of_a_rotation_one_key_opens_everything() {
    for rotation in [Rotation::Wrapping, Rotation::Everything] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.db");
        let (old, new) = (MasterKey::generate().unwrap(), MasterKey::generate().unwrap());
        let store = SqliteSecrets::open(&path, &old).unwrap();
        wait(async {
            for number in 0..SECRETS {
                let put = Put::new(Secret::new(&value(number)), 0);
                store.put(&tenant(number), &name(number), put).await.unwrap();
            }
        });
        let mut inner = store.inner.lock().unwrap();
        inner.empty_log().unwrap();
        // So small that pages go to the log long before the commit, as in a large store.
        inner.connection.pragma_update(None, "cache_size", 2).unwrap();
        let before = Files::of(&path);
        assert_eq!(before.key(&old, &new), "old");

        let mut steps = Vec::new();
        let done = inner.transact(TransactionBehavior::Immediate, |session| {
            session.rotate(&new, rotation, || steps.push(Files::of(&path)))
        });
        done.unwrap();
        let spilled = steps.iter().filter(|files| !files.log.is_empty()).count();
        assert_eq!(spilled > 10, rotation == Rotation::Everything, "{spilled}");
        for files in &steps {
            assert_eq!(files.key(&old, &new), "old");
        }

        // The commit itself, cut off after each of its pages and in the middle of each.
        let committed = Files::of(&path);
        assert_eq!(committed.file, before.file);
        assert_eq!(committed.key(&old, &new), "new");
        let mut cuts = Vec::new();
        for cut in (0..committed.log.len()).step_by(FRAME / 2) {
            let log = committed.log[..(cut + LOG_HEAD).min(committed.log.len() - 1)].to_vec();
            cuts.push(Files { log, ..committed.clone() }.key(&old, &new));
        }
        assert!(cuts.iter().all(|key| *key == "old"), "{cuts:?}");

        // The log is moved into the file page by page, and emptied at the end.
        inner.master = new.clone();
        inner.empty_log().unwrap();
        let after = Files::of(&path);
        assert_eq!(after.log.len(), 0);
        assert_eq!(after.key(&old, &new), "new");
        for moved in 0..after.file.len() / PAGE {
            let mut file = before.file.clone();
            file.resize(after.file.len().max(file.len()), 0);
            file[..moved * PAGE].copy_from_slice(&after.file[..moved * PAGE]);
            assert_eq!(Files { file, ..committed.clone() }.key(&old, &new), "new");
        }
    }
}

#[test]
fn a_full_tenant_in_a_file_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let key = MasterKey::generate().unwrap();
    let store = SqliteSecrets::open(folder.path().join("secrets.db"), &key).unwrap();
    let full: Tenant = "full".parse().unwrap();
    let value = Secret::new("value");
    let filled = store.inner.lock().unwrap().transact(TransactionBehavior::Immediate, |session| {
        for number in 1..=SECRETS_MAX {
            let version = Version::from_number(number as u64);
            session.insert(
                &full,
                &name(number),
                &VersionEntry { version, put_at: 0, expires_at: None },
                &value,
            )?;
        }
        session.attest(&full, SECRETS_MAX as u64)
    });
    filled.unwrap();
    wait(async {
        let put = || Put::new(value.clone(), 0);
        let refused = store.put(&full, &name(0), put()).await;
        assert!(matches!(refused, Err(SecretError::TooMany)), "{refused:?}");
        let version = store.put(&full, &name(1), put()).await.unwrap();
        assert_eq!(version.as_number(), SECRETS_MAX as u64 + 1);
        store.put(&tenant(0), &name(0), put()).await.unwrap();
        assert!(store.remove(&full, &name(2)).await.unwrap());
        store.put(&full, &name(0), put()).await.unwrap();
        assert_eq!(store.list(&full).await.unwrap().len(), SECRETS_MAX);
        assert_eq!(store.verify().await.unwrap(), SECRETS_MAX as u64 + 2);
    });
}
