//! What can go wrong when a store is opened or used. No text here ever holds a value.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

use crate::guard::TooOpen;
use crate::store::{Expect, SECRETS_MAX, VALUE_BYTES_MAX, Version};
use crate::{KeyId, SecretName, Tenant};

/// Why an operation did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The value is empty or too long.
    #[error("the value has {bytes} bytes, expected 1 to {VALUE_BYTES_MAX}; keep longer ones in a file")]
    Value {
        /// Its length.
        bytes: usize,
    },
    /// A time does not fit into the store.
    #[error("the time {given} is too large, expected milliseconds since 1970 up to {}", i64::MAX)]
    Time {
        /// The time.
        given: u64,
    },
    /// The tenant has as many secrets as it may have.
    #[error("the tenant has {SECRETS_MAX} secrets, the maximum; remove those that are no longer needed")]
    TooMany,
    /// Something else stands there than the write demanded. Read the secret again and decide anew.
    #[error("{}; read it again before you replace it", conflict(*.expected, *.found))]
    Conflict {
        /// What was demanded.
        expected: Expect,
        /// The newest version that stands there.
        found: Option<Version>,
    },
    /// The store is encrypted with another master key.
    #[error(
        "the secret store is encrypted with the key `{expected}`, and this is the key `{given}`; use the first one"
    )]
    WrongKey {
        /// The key that opens the store.
        expected: KeyId,
        /// The key that was given.
        given: KeyId,
    },
    /// A part of the store is not as it was written.
    #[error("{part} is damaged, or another program changed it; restore the secret store from a backup")]
    Damaged {
        /// The smallest part that is known to be affected.
        part: DamagedPart,
    },
    /// The file itself is damaged.
    #[error("the file of the secret store is damaged; restore it from a backup")]
    Corrupt {
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// It is done, but the bytes from before may still stand in the log, because another process is reading.
    #[error(
        "the change is made, but its old bytes could not be erased from the log yet; make the same call again"
    )]
    NotErased,
    /// Another process held the file for too long. The same call may be made again.
    #[error("the secret store is busy with another process; try again")]
    Busy {
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// Any other trouble with the storage, such as a full disk.
    #[error("the secret store could not be read or written")]
    Storage {
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The operating system gave no random numbers.
    #[error("the operating system returned no random numbers, so nothing can be encrypted; try again")]
    Random {
        /// What it said.
        source: getrandom::Error,
    },
    /// The work was given up because the program is shutting down or a thread failed.
    #[error("the secret store stopped before it answered; check whether the change was made")]
    Stopped {
        /// What ended the thread.
        source: tokio::task::JoinError,
    },
}

/// A part of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamagedPart {
    /// The definitions of the tables.
    #[error("the definition of the tables of the secret store")]
    Tables,
    /// The row that says with which key the store is encrypted.
    #[error("the head of the secret store")]
    Head,
    /// The list of tenants.
    #[error("the list of tenants")]
    Tenants,
    /// The list of a tenant's secrets.
    #[error("the list of secrets of the tenant `{tenant}`")]
    Tenant {
        /// The tenant.
        tenant: Tenant,
    },
    /// One value.
    #[error("version {version} of the secret `{name}` of the tenant `{tenant}`")]
    Secret {
        /// The tenant.
        tenant: Tenant,
        /// The secret.
        name: SecretName,
        /// The version.
        version: Version,
    },
}

impl From<rusqlite::Error> for SecretError {
    fn from(source: rusqlite::Error) -> Self {
        match source {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => return Self::Corrupt { source },
            _ => {}
        }
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { source },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt { source },
            _ => Self::Storage { source },
        }
    }
}

impl From<getrandom::Error> for SecretError {
    fn from(source: getrandom::Error) -> Self {
        Self::Random { source }
    }
}

/// Why a store did not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be opened or made.
    #[error("cannot open the secret store `{}`; check that its folder exists and is writable", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Others than the owner of the file may read or write it.
    #[error("the secret store `{}` {problem}", path.display())]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// What others may do, and the remedy.
        problem: TooOpen,
    },
    /// The file is a database of another program.
    #[error("`{}` is a SQLite file but not a secret store; name another path", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer version of this program.
    #[error(
        "`{}` has secret store format {found}, this release reads up to {known}; use a newer release",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: i64,
        /// The newest format that is known here.
        known: i64,
    },
    /// The store is encrypted with another master key.
    #[error(
        "the secret store `{}` is encrypted with the key `{expected}`, and this is the key `{given}`; use the first \
         one, or move the file away to start with an empty store",
        path.display()
    )]
    WrongKey {
        /// The file.
        path: PathBuf,
        /// The key that opens the store.
        expected: KeyId,
        /// The key that was given.
        given: KeyId,
    },
    /// The store is damaged, busy, or in other trouble.
    #[error("cannot open the secret store `{}`", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// The trouble.
        source: SecretError,
    },
}

impl OpenError {
    /// Says which file an error is about.
    pub(crate) fn at(path: PathBuf, source: impl Into<SecretError>) -> Self {
        match source.into() {
            SecretError::WrongKey { expected, given } => Self::WrongKey { path, expected, given },
            source => Self::Store { path, source },
        }
    }
}

fn conflict(expected: Expect, found: Option<Version>) -> String {
    let found = match found {
        Some(version) => format!("the secret has version {version}"),
        None => "there is no such secret".to_owned(),
    };
    match expected {
        Expect::Anything => found,
        Expect::Absent => format!("{found}, expected none"),
        Expect::Newest(version) => format!("{found}, expected version {version}"),
    }
}
