//! The operations that every store of secrets offers.

use std::fmt;

use async_trait::async_trait;

use crate::{KeyId, MasterKey, Secret, SecretError, SecretName, Tenant};

/// The longest value, in bytes: enough for certificates and token bundles. What is longer is a file.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;

/// How many versions of a secret are kept, the newest among them. An operation that began with an earlier one can
/// still be finished with it, and a token that rotates every hour does not pile up.
pub const VERSIONS_KEPT: usize = 4;

/// How many secrets a tenant can have: one for each of many runs at once, and an end to what a loop can fill.
pub const SECRETS_MAX: usize = 10_000;

/// Keeps secrets by tenant and name.
///
/// Implementations may be shared and called at the same time. Dropping a future does not undo a write that had begun.
/// Times are milliseconds since 1970-01-01T00:00:00Z and come from the caller, as everywhere.
#[async_trait]
pub trait SecretStore: Send + Sync {
    /// Writes a value as the newest version of its secret, which is made when there is none.
    ///
    /// Of its versions the latest [`VERSIONS_KEPT`] are kept. Versions grow within a tenant and are never used
    /// again there, also not after a removal.
    ///
    /// # Errors
    /// [`SecretError::Value`], [`SecretError::Time`] and [`SecretError::TooMany`] for what is out of bounds,
    /// [`SecretError::Conflict`] when [`Put::expect`] does not hold, otherwise trouble with the key or the storage.
    /// Nothing was written then.
    async fn put(&self, tenant: &Tenant, name: &SecretName, put: Put) -> Result<Version, SecretError>;

    /// Returns the newest version of a secret; none when there is no such secret, or it has expired at `now`.
    ///
    /// # Errors
    /// Trouble with the key or the storage.
    async fn get(&self, tenant: &Tenant, name: &SecretName, now: u64) -> Result<Option<Stored>, SecretError>;

    /// Returns one version of a secret; none when it is not kept any more, never was, or has expired at `now`.
    ///
    /// # Errors
    /// Trouble with the key or the storage.
    async fn get_version(
        &self,
        tenant: &Tenant,
        name: &SecretName,
        version: Version,
        now: u64,
    ) -> Result<Option<Stored>, SecretError>;

    /// Lists the secrets of a tenant in the order of their names, expired ones too; never a value.
    ///
    /// # Errors
    /// Trouble with the key or the storage.
    async fn list(&self, tenant: &Tenant) -> Result<Vec<SecretEntry>, SecretError>;

    /// Removes a secret with all its versions, and says whether there was one. Its bytes are gone then.
    ///
    /// # Errors
    /// [`SecretError::NotErased`] when nobody can read it any more, but its encrypted bytes may still stand in the
    /// log; the same call may be made again. Otherwise trouble with the key or the storage.
    async fn remove(&self, tenant: &Tenant, name: &SecretName) -> Result<bool, SecretError>;

    /// Removes all secrets of a tenant and the tenant itself, and returns how many secrets there were.
    ///
    /// Meant for a tenant's end: if it ever comes back, its versions begin anew.
    ///
    /// # Errors
    /// Those of [`SecretStore::remove`].
    async fn remove_tenant(&self, tenant: &Tenant) -> Result<u64, SecretError>;

    /// Removes every version, of all tenants, that has expired at `now`, and returns how many those were.
    ///
    /// A secret whose newest version has expired goes with all its versions: an earlier value never comes back.
    ///
    /// # Errors
    /// Those of [`SecretStore::remove`].
    async fn remove_expired(&self, now: u64) -> Result<u64, SecretError>;

    /// Makes `new` the master key, in one transaction. What is kept does not change for readers.
    ///
    /// `new` must already be kept somewhere that survives a crash: from the commit on nothing else opens the store.
    /// Other processes that have it open with the old key are refused from then on.
    ///
    /// # Errors
    /// [`SecretError::WrongKey`] when another process was faster, [`SecretError::NotErased`] when the new key
    /// counts but bytes that the old one opens may still stand in the log, otherwise trouble with the storage.
    async fn rotate_key(&self, new: &MasterKey, rotation: Rotation) -> Result<Rotated, SecretError>;
}

/// What to write, and under which condition.
#[derive(Clone, Debug)]
pub struct Put {
    /// The value, 1 to [`VALUE_BYTES_MAX`] bytes.
    pub value: Secret,
    /// The time of writing.
    pub at: u64,
    /// From when on the version is not given out any more; by default never.
    pub expires_at: Option<u64>,
    /// What must stand there; by default anything.
    pub expect: Expect,
}

impl Put {
    /// A write without a condition, of a value that does not expire.
    pub fn new(value: Secret, at: u64) -> Self {
        Self { value, at, expires_at: None, expect: Expect::Anything }
    }

    /// Checks what can be known without the store.
    pub(crate) fn check(&self) -> Result<(), SecretError> {
        let bytes = self.value.expose().len();
        if bytes == 0 || bytes > VALUE_BYTES_MAX {
            return Err(SecretError::Value { bytes });
        }
        match [Some(self.at), self.expires_at]
            .into_iter()
            .flatten()
            .find(|time| i64::try_from(*time).is_err())
        {
            Some(given) => Err(SecretError::Time { given }),
            None => Ok(()),
        }
    }
}

/// What must stand in a store for a write to happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Nothing is demanded.
    #[default]
    Anything,
    /// There must be no such secret, or it must have expired.
    Absent,
    /// This must be the newest version, expired or not.
    Newest(Version),
}

impl Expect {
    /// Compares with the newest version, at the time of the write.
    pub(crate) fn check(self, newest: Option<&VersionEntry>, at: u64) -> Result<(), SecretError> {
        let holds = match self {
            Self::Anything => true,
            Self::Absent => newest.is_none_or(|newest| newest.has_expired(at)),
            Self::Newest(version) => newest.is_some_and(|newest| newest.version == version),
        };
        if holds {
            return Ok(());
        }
        Err(SecretError::Conflict { expected: self, found: newest.map(|newest| newest.version) })
    }
}

/// The version of a secret's value. A later one of the same tenant is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// A version from its number.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn as_number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A value as it was found.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The value.
    pub value: Secret,
    /// Its version.
    pub version: Version,
    /// When it was written.
    pub put_at: u64,
    /// From when on it is not given out any more.
    pub expires_at: Option<u64>,
}

/// What a list says about a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretEntry {
    /// Its name.
    pub name: SecretName,
    /// The versions that are kept, at least one; the newest comes first.
    pub versions: Vec<VersionEntry>,
}

/// What a list says about a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionEntry {
    /// The version.
    pub version: Version,
    /// When it was written.
    pub put_at: u64,
    /// From when on it is not given out any more.
    pub expires_at: Option<u64>,
}

impl VersionEntry {
    /// Says whether the version has expired at `now`.
    pub fn has_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|time| time <= now)
    }
}

/// How much a new master key changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Only the wrapping of the data key, whatever the size of the store. Enough when the old key goes out of use but
    /// not into wrong hands: together with an old copy of the file it still gives the data key.
    Wrapping,
    /// A new data key is drawn as well, and every value is encrypted anew. Whoever has the old key, and old copies of
    /// the file, can read those copies and nothing that is written from now on.
    Everything,
}

/// What a rotation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The key that counted before.
    pub from: KeyId,
    /// The key that counts now.
    pub to: KeyId,
    /// How many versions were encrypted anew.
    pub resealed: u64,
}
