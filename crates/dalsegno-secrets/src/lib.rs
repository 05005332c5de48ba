//! Keeps secrets: encrypted in a file of their own, by tenant and name, versioned, deletable.
//!
//! A [`SecretStore`] holds what must be in no journal and no export: credentials of tools, secrets that came with
//! a request, OAuth tokens as they rotate. [`SqliteSecrets`] keeps them in one SQLite file that nobody but its owner
//! may read; [`MemorySecrets`] is the same without a file, for tests.
//!
//! # Values
//! A [`Secret`] cannot be printed and is overwritten when it is dropped. It belongs to a [`Tenant`] and has a
//! [`SecretName`]; no operation reaches from one tenant to another. Each [`put`](SecretStore::put) makes a new
//! [`Version`], never used twice within a tenant, also not after a removal: a reference that was written down with its
//! version never comes to mean another value. The latest four versions of a secret are kept. A put can demand
//! the version that it replaces ([`Expect`]), so that of several processes that renew a token one wins.
//!
//! # Readers
//! A client that needs a secret gets a [`Reveal`]: a handle that reads this one secret whenever it is needed.
//!
//! # Keys
//! The file has a random data key, which encrypts the values with XChaCha20-Poly1305. A [`MasterKey`] from outside
//! wraps the data key: [`EnvKey`] takes it from the environment, [`KeyFile`] from a file, and any [`KeySource`] from
//! elsewhere. Another key is refused with the [`KeyId`] of the right one.
//! [`rotate_key`](SecretStore::rotate_key) changes keys in one transaction: whenever the process is killed, either the
//! old or the new master key opens everything.
//!
//! # What somebody who has the file can do
//! Read the names of tenants and secrets, versions, times, and the lengths of values; not the values.
//! Whoever can also write it can destroy it, and can put back an earlier state of the whole file: nothing inside a
//! file can witness against that. Everything less is refused as [`SecretError::Damaged`]: a changed byte, a row that
//! was exchanged, added, taken away or brought back from an earlier state, or moved to another name, version, tenant or
//! file. This is checked when the store is opened and whenever another connection has written since.
//!
//! # What is gone
//! Before a removal is acknowledged, the file is written anew without it and the write-ahead log is emptied. Copies that
//! file systems, disks and backups make for themselves are out of reach; there, only the loss of the key helps, and
//! [`Rotation::Everything`] loses it. The time at which a secret expires is a promise about answers, kept by the
//! bytes once [`remove_expired`](SecretStore::remove_expired) is called. Versions that were replaced go with the next removal.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! use dalsegno_secrets::{KeyFile, KeySource, Put, Secret, SecretName, SecretStore, SqliteSecrets, Tenant};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let key = KeyFile::create(folder.join("secrets.key"))?;
//! let store = SqliteSecrets::open(folder.join("secrets.db"), &key.master_key()?)?;
//! let tenant: Tenant = "acme".parse()?;
//! let name: SecretName = "crm.token".parse()?;
//!
//! let now = 1_700_000_000_000;
//! let version = store.put(&tenant, &name, Put::new(Secret::new("s3cr3t-t0ken"), now)).await?;
//! let stored = store.get(&tenant, &name, now).await?.expect("it was put there");
//! assert_eq!(stored.version, version);
//! assert_eq!(stored.value.expose(), "s3cr3t-t0ken");
//! assert_eq!(format!("{:?}", stored.value), "Secret(…)");
//!
//! assert!(store.remove(&tenant, &name).await?);
//! assert!(store.get(&tenant, &name, now).await?.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod command;
mod error;
mod guard;
mod key;
mod memory;
mod name;
mod reveal;
mod scrub;
mod seal;
mod secret;
mod sqlite;
mod store;

pub use command::{CommandSecret, CommandSettings};
pub use error::{DamagedPart, OpenError, SecretError};
pub use guard::TooOpen;
pub use key::{EnvKey, KEY_VARIABLE, KeyError, KeyFile, KeyId, KeySource, MasterKey};
pub use memory::MemorySecrets;
pub use name::{NAME_BYTES_MAX, NameError, SecretName, TENANT_BYTES_MAX, Tenant};
pub use reveal::{MaybeSecret, Reveal, RevealError};
pub use scrub::{SCRUBBED, SHORTEST};
pub use secret::Secret;
pub use sqlite::SqliteSecrets;
pub use store::{
    Expect, Put, Rotated, Rotation, SECRETS_MAX, SecretEntry, SecretStore, Stored, VALUE_BYTES_MAX,
    VERSIONS_KEPT, Version, VersionEntry,
};
