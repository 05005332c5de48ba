//! The store in one SQLite file.

mod head;
mod list;
mod rows;
mod schema;
mod session;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use self::session::{Attested, Trust};
use crate::{
    MasterKey, OpenError, Put, Rotated, Rotation, SecretEntry, SecretError, SecretName, SecretStore, Stored,
    Tenant, Version, guard,
};

/// A [`SecretStore`] in one SQLite file, encrypted, with the mode 0600.
///
/// Clones share one connection, one call at a time; calls run on Tokio's blocking threads. Several processes may have
/// the same file open: writes take turns, and a write that was answered survives a power cut. When one of them rotates
/// the key, the others get [`SecretError::WrongKey`] and open it again with the new one.
///
/// What is checked costs time in proportion to the number of a tenant's secrets with each write, and with the first
/// read after another connection's write. A removal writes the whole file anew, since SQLite leaves copies of rows
/// behind when it moves them; with thousands of long values it is felt.
#[derive(Clone)]
pub struct SqliteSecrets {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    connection: Connection,
    master: MasterKey,
    trust: Trust,
    /// Whether something was deleted since the file was last written anew.
    unerased: bool,
}

impl SqliteSecrets {
    /// Opens the file, or makes it; its folder must exist. Blocks for a moment.
    ///
    /// The lists of all secrets are checked, not yet their values: [`SqliteSecrets::verify`] does that.
    ///
    /// # Errors
    /// Says whether the file cannot be opened, may be used by others than its owner, needs another key, is damaged,
    /// belongs to another program, comes from a newer version of this one, or is held by another process. Such a file
    /// is left as it is.
    pub fn open(path: impl AsRef<Path>, key: &MasterKey) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let at = |source: rusqlite::Error| OpenError::at(path.to_owned(), source);
        guard_file(path)?;
        // Without the flag that makes a file: it is there, with the right mode, or has just been taken away.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // To SQLite some names mean something else than a file; none of them begins with a folder.
        let file = Path::new(".").join(path);
        let mut connection = Connection::open_with_flags(file, flags).map_err(at)?;
        schema::prepare(&mut connection, path, key)?;
        let mut inner = Inner { connection, master: key.clone(), trust: Trust::default(), unerased: false };
        let checked = inner.transact(TransactionBehavior::Deferred, |session| session.check());
        checked.map_err(|source| OpenError::at(path.to_owned(), source))?;
        // A process that was killed may have left what it was about to erase. Another one that is reading now does the
        // same when it writes.
        match inner.empty_log() {
            Ok(()) | Err(SecretError::NotErased) => {}
            Err(source) => return Err(OpenError::at(path.to_owned(), source)),
        }
        Ok(Self { inner: Arc::new(Mutex::new(inner)) })
    }

    /// Opens every value of every tenant, as a check of the whole file, and returns how many versions there are.
    ///
    /// # Errors
    /// [`SecretError::Damaged`] names the first part that is not as it was written; otherwise trouble with the key or
    /// the storage.
    pub async fn verify(&self) -> Result<u64, SecretError> {
        self.read(|session| session.verify()).await
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Attested<'_>) -> Result<T, SecretError> + Send + 'static,
    ) -> Result<T, SecretError> {
        self.blocking(move |inner| inner.transact(TransactionBehavior::Deferred, work)).await
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Attested<'_>) -> Result<T, SecretError> + Send + 'static,
    ) -> Result<T, SecretError> {
        self.blocking(move |inner| inner.transact(TransactionBehavior::Immediate, work)).await
    }

    /// Writes, and leaves no bytes of what stood there before if `work` says that it deleted something.
    async fn erase<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Attested<'_>) -> Result<(T, bool), SecretError> + Send + 'static,
    ) -> Result<T, SecretError> {
        self.blocking(move |inner| {
            let (done, deleted) = inner.transact(TransactionBehavior::Immediate, work)?;
            inner.unerased |= deleted;
            if inner.unerased {
                inner.rebuild()?;
            }
            Ok(done)
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Inner) -> Result<T, SecretError> + Send + 'static,
    ) -> Result<T, SecretError> {
        let inner = Arc::clone(&self.inner);
        let task = tokio::task::spawn_blocking(move || {
            // A panic in between rolled its transaction back, so that the connection is as good as before; what was noted
            // about the file is not.
            let mut inner = inner.lock().unwrap_or_else(|poisoned| {
                let mut inner = poisoned.into_inner();
                inner.trust = Trust::default();
                inner
            });
            work(&mut inner)
        });
        task.await.unwrap_or_else(|source| Err(SecretError::Stopped { source }))
    }
}

impl Inner {
    fn transact<T>(
        &mut self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&mut Attested<'_>) -> Result<T, SecretError>,
    ) -> Result<T, SecretError> {
        let done = self.attempt(behavior, work);
        if done.is_err() {
            // What was noted in a transaction that was rolled back is not so.
            self.trust = Trust::default();
        }
        done
    }

    fn attempt<T>(
        &mut self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&mut Attested<'_>) -> Result<T, SecretError>,
    ) -> Result<T, SecretError> {
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        let done = work(&mut Attested::begin(&transaction, &self.master, &mut self.trust)?)?;
        transaction.commit()?;
        Ok(done)
    }

    fn rotate(
        &mut self,
        new: &MasterKey,
        rotation: Rotation,
        step: impl FnMut(),
    ) -> Result<Rotated, SecretError> {
        let rotated =
            self.transact(TransactionBehavior::Immediate, |session| session.rotate(new, rotation, step))?;
        self.master = new.clone();
        match rotation {
            // The head is alone on its page, where it is overwritten.
            Rotation::Wrapping => self.empty_log()?,
            Rotation::Everything => {
                self.unerased = true;
                self.rebuild()?;
            }
        }
        Ok(rotated)
    }

    /// Writes the file anew. What is deleted is overwritten, but not the copies that SQLite leaves behind when it moves
    /// rows between pages.
    fn rebuild(&mut self) -> Result<(), SecretError> {
        self.connection.execute_batch("VACUUM").map_err(|source| match source.into() {
            SecretError::Busy { .. } => SecretError::NotErased,
            other => other,
        })?;
        self.empty_log()?;
        self.unerased = false;
        Ok(())
    }

    /// Moves the log into the file and empties it.
    fn empty_log(&mut self) -> Result<(), SecretError> {
        schema::wait_up_to(&mut self.connection, ERASE_TIMEOUT)?;
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy: Result<i64, _> = self.connection.query_row(sql, [], |row| row.get(0));
        schema::wait_up_to(&mut self.connection, schema::BUSY_TIMEOUT)?;
        if busy? == 0 { Ok(()) } else { Err(SecretError::NotErased) }
    }
}

impl fmt::Debug for SqliteSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteSecrets").finish_non_exhaustive()
    }
}

#[async_trait]
impl SecretStore for SqliteSecrets {
    async fn put(&self, tenant: &Tenant, name: &SecretName, put: Put) -> Result<Version, SecretError> {
        put.check()?;
        let (tenant, name) = (tenant.clone(), name.clone());
        self.write(move |session| session.put(&tenant, &name, &put)).await
    }

    async fn get(&self, tenant: &Tenant, name: &SecretName, now: u64) -> Result<Option<Stored>, SecretError> {
        let (tenant, name) = (tenant.clone(), name.clone());
        let stored = self.read(move |session| session.get(&tenant, &name)).await?;
        Ok(stored.filter(|stored| stored.expires_at.is_none_or(|time| time > now)))
    }

    async fn get_version(
        &self,
        tenant: &Tenant,
        name: &SecretName,
        version: Version,
        now: u64,
    ) -> Result<Option<Stored>, SecretError> {
        let (tenant, name) = (tenant.clone(), name.clone());
        let stored = self.read(move |session| session.version(&tenant, &name, version)).await?;
        Ok(stored.filter(|stored| stored.expires_at.is_none_or(|time| time > now)))
    }

    async fn list(&self, tenant: &Tenant) -> Result<Vec<SecretEntry>, SecretError> {
        let tenant = tenant.clone();
        self.read(move |session| session.list(&tenant)).await
    }

    async fn remove(&self, tenant: &Tenant, name: &SecretName) -> Result<bool, SecretError> {
        let (tenant, name) = (tenant.clone(), name.clone());
        self.erase(move |session| session.remove(&tenant, &name).map(|removed| (removed, removed))).await
    }

    async fn remove_tenant(&self, tenant: &Tenant) -> Result<u64, SecretError> {
        let tenant = tenant.clone();
        self.erase(move |session| session.remove_tenant(&tenant).map(|count| (count, count > 0))).await
    }

    async fn remove_expired(&self, now: u64) -> Result<u64, SecretError> {
        self.erase(move |session| session.remove_expired(now).map(|count| (count, count > 0))).await
    }

    async fn rotate_key(&self, new: &MasterKey, rotation: Rotation) -> Result<Rotated, SecretError> {
        let new = new.clone();
        self.blocking(move |inner| inner.rotate(&new, rotation, || ())).await
    }
}

/// Makes the file unless it is there, and refuses one that is not its owner's alone.
fn guard_file(path: &Path) -> Result<(), OpenError> {
    let unreadable = |source| OpenError::Unreadable { path: path.to_owned(), source };
    if dalsegno_files::reserve(path).map_err(unreadable)? {
        return Ok(());
    }
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    guard::check(&metadata).map_err(|problem| OpenError::TooOpen { path: path.to_owned(), problem })
}

/// How long an erasing waits for those who still read what was there before. They take milliseconds; one that takes
/// longer should not hold up an answer whose change is made.
const ERASE_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
