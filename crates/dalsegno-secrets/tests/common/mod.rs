//! What the tests share.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};

use dalsegno_secrets::{
    MasterKey, MemorySecrets, OpenError, Put, Secret, SecretError, SecretName, SecretStore, SqliteSecrets,
    Tenant,
};
use tempfile::TempDir;

/// A time at which nothing has expired.
pub(crate) const NOW: u64 = 1_700_000_000_000;

/// Runs each test with a store in a file and with one in memory.
#[macro_export]
macro_rules! conformance {
    ($($test:ident),+ $(,)?) => {
        mod in_a_file {
            $(#[test]
            fn $test() {
                let folder = $crate::common::Folder::new();
                $crate::common::wait(super::$test(folder.open()));
            })+
        }
        mod in_memory {
            $(#[test]
            fn $test() {
                $crate::common::wait(super::$test($crate::common::in_memory()));
            })+
        }
    };
}

/// A folder with a store, and its key.
pub(crate) struct Folder {
    pub(crate) folder: TempDir,
    pub(crate) key: MasterKey,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), key: MasterKey::generate().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("secrets.db")
    }

    pub(crate) fn open(&self) -> SqliteSecrets {
        SqliteSecrets::open(self.path(), &self.key).unwrap()
    }

    pub(crate) fn refusal(&self) -> OpenError {
        SqliteSecrets::open(self.path(), &self.key).expect_err("the store must be refused")
    }

    /// All bytes of the store's files, one after the other.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut files: Vec<_> =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.into_iter().flat_map(|file| fs::read(file).unwrap()).collect()
    }

    /// Copies the store's files elsewhere, as a crash would leave them.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self { folder: tempfile::tempdir().unwrap(), key: self.key.clone() };
        copy_store(&self.path(), &copy.path());
        copy
    }

    /// Changes the file as somebody without the key could.
    pub(crate) fn tamper(&self, sql: &str) {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection.execute_batch(sql).unwrap();
    }
}

pub(crate) fn copy_store(from: &Path, to: &Path) {
    for end in ["", "-wal"] {
        let with = |path: &Path| PathBuf::from(format!("{}{end}", path.display()));
        if with(from).exists() {
            fs::copy(with(from), with(to)).unwrap();
        }
    }
}

pub(crate) fn in_memory() -> MemorySecrets {
    MemorySecrets::new(&MasterKey::generate().unwrap())
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub(crate) fn tenant(name: &str) -> Tenant {
    name.parse().unwrap()
}

pub(crate) fn name(name: &str) -> SecretName {
    name.parse().unwrap()
}

pub(crate) async fn put(store: &impl SecretStore, of: &str, called: &str, value: &str) -> u64 {
    let put = Put::new(Secret::new(value), NOW);
    store.put(&tenant(of), &name(called), put).await.unwrap().as_number()
}

pub(crate) async fn get(
    store: &impl SecretStore,
    of: &str,
    called: &str,
) -> Result<Option<String>, SecretError> {
    let stored = store.get(&tenant(of), &name(called), NOW).await?;
    Ok(stored.map(|stored| stored.value.expose().to_owned()))
}

pub(crate) async fn value(store: &impl SecretStore, of: &str, called: &str) -> Option<String> {
    get(store, of, called).await.unwrap()
}

pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
