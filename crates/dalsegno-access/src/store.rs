//! The keys of a workspace, in a file of its private folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dalsegno_database::OpenError;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::access::{Access, Reach};
use crate::error::{KeyError, Refused};
use crate::key::{Key, KeyEntry, KeyState, NewKey, digest, new_id, parse};
use crate::schema;
use crate::seal::Seals;
use crate::ticket::{SESSIONS, session_of};

/// How often the last use of a key is written down, in milliseconds.
const BETWEEN_USES: u64 = 60_000;
/// The longest name of a key.
const NAME_MAX: usize = 64;

/// The keys of a workspace. Clones share one connection; several processes may use the same file, and each check reads it: so
/// a key that another process revokes is refused from then on.
///
/// Its calls take microseconds, but that those which write wait for other writers, for seconds at most.
#[derive(Clone)]
pub struct KeyStore {
    inner: Arc<Inner>,
}

struct Inner {
    connection: Mutex<Connection>,
    /// When each key was used, as far as it is written down.
    used: Mutex<BTreeMap<String, u64>>,
    path: PathBuf,
}

impl std::fmt::Debug for KeyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyStore").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

const COLUMNS: &str = "id, name, tenant, scopes, created_at, expires_at, used_at, revoked_at, digest";

impl KeyStore {
    /// Opens the file, or makes it with its folder, both for their owner only.
    ///
    /// # Errors
    /// When it cannot be opened, belongs to another user or program, or is of a newer release.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let connection = schema::FORMAT.open(&path)?;
        let inner = Inner { connection: Mutex::new(connection), used: Mutex::default(), path };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What seals numbers for clients of the workspace, from a file beside that of the keys.
    ///
    /// # Errors
    /// As for [`Seals::open`].
    pub fn seals(&self) -> Result<Seals, OpenError> {
        Seals::open(&self.inner.path.with_file_name("positions.key"))
    }

    /// The place of another file of the server, beside that of the keys.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.inner.path.with_file_name(name)
    }

    /// Makes a key, `now` in milliseconds since the epoch. The key itself is kept nowhere.
    ///
    /// # Errors
    /// When it would allow nothing, its name is none, or the file cannot be written.
    pub fn add(&self, new: &NewKey, now: u64) -> Result<(KeyEntry, Key), KeyError> {
        if new.scopes.is_empty() {
            return Err(KeyError::NoScope);
        }
        let is_name = |name: &str| {
            (1..=NAME_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control)
        };
        // The name of a session says that it is one.
        if new.name.as_deref().is_some_and(|name| !is_name(name) || name.starts_with(SESSIONS)) {
            return Err(KeyError::Name);
        }
        self.insert(new, now)
    }

    pub(crate) fn insert(&self, new: &NewKey, now: u64) -> Result<(KeyEntry, Key), KeyError> {
        let random = |source| KeyError::Random { source };
        let id = new_id().map_err(random)?;
        let key = Key::generate(&id).map_err(random)?;
        let scopes: Vec<&str> = new.scopes.iter().map(|scope| scope.as_str()).collect();
        let tenant = match &new.reach {
            Reach::Tenant(tenant) => Some(tenant.as_str()),
            Reach::All => None,
        };
        self.connection().execute(
            "INSERT INTO key (id, digest, name, tenant, scopes, created_at, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                id,
                digest(key.expose()).as_bytes(),
                new.name,
                tenant,
                scopes.join(" "),
                now.cast_signed(),
                new.expires_at.map(u64::cast_signed),
            ],
        )?;
        let entry = KeyEntry {
            id,
            name: new.name.clone(),
            tenant: new.reach.as_str().to_owned(),
            scopes: new.scopes.clone(),
            created_at: now,
            expires_at: new.expires_at,
            used_at: None,
            revoked_at: None,
        };
        Ok((entry, key))
    }

    /// Lists all keys, the oldest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn list(&self) -> Result<Vec<KeyEntry>, KeyError> {
        let connection = self.connection();
        let sql = format!("SELECT {COLUMNS} FROM key ORDER BY created_at, id");
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(stored(row)?.entry);
        }
        Ok(found)
    }

    /// Revokes a key by its id or the beginning of it, with the sessions of browsers that signed in with it. One that was revoked stays
    /// as it is. When it returns, no process accepts the key any more.
    ///
    /// # Errors
    /// When there is no such key, several begin so, or the file cannot be written.
    pub fn revoke(&self, id: &str, now: u64) -> Result<KeyEntry, KeyError> {
        let all = self.list()?;
        let mut found: Vec<KeyEntry> =
            all.into_iter().filter(|key| !id.is_empty() && key.id.starts_with(id)).collect();
        let (Some(mut entry), true) = (found.pop(), found.is_empty()) else {
            return Err(match found.is_empty() {
                true => KeyError::Unknown { id: id.to_owned() },
                false => KeyError::Ambiguous {
                    id: id.to_owned(),
                    found: found.into_iter().map(|key| key.id).collect(),
                },
            });
        };
        let at = entry.revoked_at.unwrap_or(now);
        self.connection().execute(
            "UPDATE key SET revoked_at = ?2 WHERE (id = ?1 OR name = ?3) AND revoked_at IS NULL",
            params![entry.id, at.cast_signed(), session_of(&entry.id)],
        )?;
        entry.revoked_at = Some(at);
        Ok(entry)
    }

    /// Says whether some key is good.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn has_active(&self, now: u64) -> Result<bool, KeyError> {
        Ok(self.list()?.iter().any(|key| key.state(now) == KeyState::Active))
    }

    /// Checks a key that a client showed, `now` in milliseconds since the epoch.
    ///
    /// # Errors
    /// When it is not good, or the file cannot be read.
    pub fn check(&self, key: &str, now: u64) -> Result<Access, Refused> {
        // A text without the form of a key is compared as well, so that nothing can be learned from the time it takes.
        let (id, shown) = parse(key).unwrap_or_else(|| ("", digest(key)));
        let stored = self.find(id).map_err(Refused::Unavailable)?;
        let kept = stored.as_ref().map_or_else(|| digest(""), |stored| stored.digest);
        // Hashes are compared in constant time.
        let is_same = kept == shown;
        let Some(Stored { entry, .. }) = stored.filter(|_| is_same) else { return Err(Refused::Unknown) };
        match entry.state(now) {
            KeyState::Revoked => Err(Refused::Revoked),
            KeyState::Expired => Err(Refused::Expired),
            KeyState::Active => {
                let reach = match entry.tenant.as_str() {
                    "*" => Reach::All,
                    _ => Reach::Tenant(entry.tenant),
                };
                Ok(Access { key: entry.id, name: entry.name, reach, scopes: entry.scopes, token_ends: None })
            }
        }
    }

    /// Says whether the key with this id is still good, `now` in milliseconds since the epoch. Where that cannot be read, it counts
    /// as good: the next request tells.
    pub fn is_active(&self, id: &str, now: u64) -> bool {
        match self.find(id) {
            Ok(found) => found.is_some_and(|stored| stored.entry.state(now) == KeyState::Active),
            Err(_) => true,
        }
    }

    /// Says whether the use of a key is to be written down: about once a minute. Then [`used`](Self::used) does so.
    pub fn is_use_news(&self, access: &Access, now: u64) -> bool {
        let mut used = self.inner.used.lock().unwrap_or_else(PoisonError::into_inner);
        match used.get(access.key()) {
            Some(before) if now < before.saturating_add(BETWEEN_USES) => false,
            _ => {
                used.insert(access.key().to_owned(), now);
                true
            }
        }
    }

    /// Writes down that a key was used.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn used(&self, access: &Access, now: u64) -> Result<(), KeyError> {
        self.connection().execute(
            "UPDATE key SET used_at = max(coalesce(used_at, 0), ?2) WHERE id = ?1",
            params![access.key(), now.cast_signed()],
        )?;
        Ok(())
    }

    pub(crate) fn find(&self, id: &str) -> Result<Option<Stored>, KeyError> {
        let connection = self.connection();
        let sql = format!("SELECT {COLUMNS} FROM key WHERE id = ?1");
        let mut statement = connection.prepare_cached(&sql)?;
        statement.query_row([id], |row| Ok(stored(row))).optional()?.transpose()
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.inner.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Stored {
    pub(crate) entry: KeyEntry,
    digest: blake3::Hash,
}

/// Reads one row; a key whose row does not make sense allows nothing.
fn stored(row: &Row<'_>) -> Result<Stored, KeyError> {
    let id: String = row.get(0)?;
    let damaged = || KeyError::Damaged { id: id.clone() };
    let scopes: String = row.get(3)?;
    let scopes = scopes.split(' ').map(str::parse).collect::<Result<_, _>>().map_err(|_| damaged())?;
    let digest: Vec<u8> = row.get(8)?;
    let digest = blake3::Hash::from_slice(&digest).map_err(|_| damaged())?;
    let time =
        |index: usize| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(index)?.map(i64::cast_unsigned));
    let entry = KeyEntry {
        name: row.get(1)?,
        tenant: row.get::<_, Option<String>>(2)?.unwrap_or_else(|| "*".to_owned()),
        scopes,
        created_at: time(4)?.unwrap_or_default(),
        expires_at: time(5)?,
        used_at: time(6)?,
        revoked_at: time(7)?,
        id,
    };
    Ok(Stored { entry, digest })
}
