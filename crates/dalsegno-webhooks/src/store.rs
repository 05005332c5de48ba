//! The endpoints of a workspace, in a file of its private folder.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use data_encoding::HEXLOWER;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use crate::endpoint::{Endpoint, NewEndpoint, Off, OffReason};
use crate::error::{OpenError, WebhookError};
use crate::event::Event;
use crate::schema;
use crate::secret::{KEY_FILE, RootKey, Secret};
use crate::turn::Turn;

/// Most endpoints of a tenant, and most of those that are about all tenants.
pub const ENDPOINTS: u32 = 20;
/// How long the secret before the last one signs as well, in milliseconds.
pub const BOTH_SIGN: u64 = 24 * 60 * 60 * 1_000;
/// The name of the file with the key, beside that of the endpoints.
const KEY: &str = "webhooks.key";
/// The longest name of an endpoint, in characters.
const NAME_MAX: usize = 64;

/// The endpoints of a workspace, and what is still to be delivered to them. Clones share one connection; several processes may use
/// the same file.
#[derive(Clone)]
pub struct WebhookStore {
    inner: Arc<Inner>,
}

struct Inner {
    connection: Mutex<Connection>,
    key: RootKey,
    path: PathBuf,
}

impl std::fmt::Debug for WebhookStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookStore").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

const SELECT: &str = "SELECT id, name, url, tenant, events, agent, root, content, generation, rotated_at, created_at, position,
    off_at, off_reason, failing_since, resume_at, failed_at, failure, delivered_at, delivered, given_up,
    (SELECT count(*) FROM delivery WHERE endpoint = endpoint.id) FROM endpoint";

impl WebhookStore {
    /// Opens the file, or makes it with its folder, both for their owner only; beside it the key that the secrets are derived from.
    ///
    /// # Errors
    /// When one of them cannot be opened, belongs to another user or program, is of a newer release, or the key is another one.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let mut connection = schema::FORMAT.open(&path)?;
        let place = path.with_file_name(KEY);
        let key = RootKey::open(&place)?;
        // With another key every receiver would refuse what it gets.
        let known = claim(&mut connection, &key).map_err(|source| schema::FORMAT.failed(&path, source))?;
        if known != key.digest() {
            return Err(OpenError::OtherKey { path: place });
        }
        Ok(Self { inner: Arc::new(Inner { connection: Mutex::new(connection), key, path }) })
    }

    /// Makes an endpoint, `now` in milliseconds since the epoch.
    ///
    /// # Errors
    /// When it wants nothing, its name is none, there are too many, or the file cannot be written.
    pub fn add(&self, new: &NewEndpoint, now: u64) -> Result<(Endpoint, Secret), WebhookError> {
        if new.events.is_empty() {
            return Err(WebhookError::NoEvent);
        }
        let is_name = |name: &str| {
            (1..=NAME_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control)
        };
        if new.name.as_deref().is_some_and(|name| !is_name(name)) {
            return Err(WebhookError::Name);
        }
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|source| WebhookError::Random { source })?;
        let id = HEXLOWER.encode(&bytes);
        let mut connection = self.connection();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let number: u32 = transaction
            .prepare_cached("SELECT count(*) FROM endpoint WHERE tenant IS ?1")?
            .query_row([&new.tenant], |row| row.get(0))?;
        if number >= ENDPOINTS {
            return Err(WebhookError::TooMany { most: ENDPOINTS });
        }
        let events: Vec<&str> = new.events.iter().map(|event| event.as_str()).collect();
        transaction.execute(
            "INSERT INTO endpoint (id, name, url, tenant, events, agent, root, content, generation, created_at, position, failures,
                delivered, given_up) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?10, 0, 0, 0)",
            params![
                id,
                new.name,
                new.url.as_str(),
                new.tenant,
                events.join(" "),
                new.agent,
                new.root,
                new.content,
                now.cast_signed(),
                new.position.cast_signed(),
            ],
        )?;
        let endpoint = known(&transaction, &id)?;
        transaction.commit()?;
        let secret = self.inner.key.secret(&id, endpoint.generation);
        Ok((endpoint, secret))
    }

    /// Lists the endpoints after this id, in the order of their ids: those of a tenant, or all. A damaged one is left out, with an
    /// error in the log.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn list(
        &self,
        tenant: Option<&str>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Endpoint>, WebhookError> {
        let connection = self.connection();
        let sql =
            format!("{SELECT} WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR id > ?2) ORDER BY id");
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![tenant, after])?;
        let mut found = Vec::new();
        while found.len() < limit as usize
            && let Some(row) = rows.next()?
        {
            found.extend(unless_damaged(endpoint(row), "a webhook is not listed")?);
        }
        Ok(found)
    }

    /// Finds an endpoint by its id.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn find(&self, id: &str) -> Result<Option<Endpoint>, WebhookError> {
        find(&self.connection(), id)
    }

    /// Finds an endpoint by its id or the beginning of it.
    ///
    /// # Errors
    /// When there is no such endpoint, several begin so, or the file cannot be read.
    pub fn find_by_prefix(&self, prefix: &str) -> Result<Endpoint, WebhookError> {
        let all = self.list(None, None, u32::MAX)?;
        let mut found: Vec<Endpoint> = match prefix {
            "" => Vec::new(),
            prefix => all.into_iter().filter(|one| one.id.starts_with(prefix)).collect(),
        };
        match (found.pop(), found.is_empty()) {
            (Some(one), true) => Ok(one),
            (Some(one), false) => Err(WebhookError::Ambiguous {
                id: prefix.to_owned(),
                found: found.into_iter().chain([one]).map(|one| one.id).collect(),
            }),
            (None, _) => Err(WebhookError::Unknown { id: prefix.to_owned() }),
        }
    }

    /// Removes an endpoint with all that waits for it.
    ///
    /// # Errors
    /// When there is no such endpoint, or the file cannot be written.
    pub fn remove(&self, id: &str) -> Result<Endpoint, WebhookError> {
        self.change(id, |transaction| {
            let removed = known(transaction, id)?;
            transaction.execute("DELETE FROM delivery WHERE endpoint = ?1", [id])?;
            transaction.execute("DELETE FROM endpoint WHERE id = ?1", [id])?;
            Ok(removed)
        })
    }

    /// Gives an endpoint another secret. The one before signs as well for a day, so that the receiver has time to take the new one.
    ///
    /// # Errors
    /// When there is no such endpoint, or the file cannot be written.
    pub fn rotate(&self, id: &str, now: u64) -> Result<(Endpoint, Secret), WebhookError> {
        let endpoint = self.change(id, |transaction| {
            transaction.execute(
                "UPDATE endpoint SET generation = generation + 1, rotated_at = ?2 WHERE id = ?1",
                params![id, now.cast_signed()],
            )?;
            known(transaction, id)
        })?;
        let secret = self.inner.key.secret(id, endpoint.generation);
        Ok((endpoint, secret))
    }

    /// Turns an endpoint on again. What waited is tried at once, and what happened meanwhile is delivered as well, from the journal.
    ///
    /// # Errors
    /// When there is no such endpoint, or the file cannot be written.
    pub fn enable(&self, id: &str, now: u64) -> Result<Endpoint, WebhookError> {
        self.change(id, |transaction| {
            transaction.execute(
                "UPDATE endpoint SET off_at = NULL, off_reason = NULL, failing_since = NULL, failures = 0, resume_at = NULL
                 WHERE id = ?1",
                [id],
            )?;
            transaction.execute(
                "UPDATE delivery SET attempts = 0, failed_at = NULL, next_at = ?2 WHERE endpoint = ?1",
                params![id, now.cast_signed()],
            )?;
            known(transaction, id)
        })
    }

    /// The secrets that sign for an endpoint now: the current one, and for a day after an exchange the one before.
    pub fn secrets(&self, endpoint: &Endpoint, now: u64) -> Vec<Secret> {
        let secret = |generation| self.inner.key.secret(&endpoint.id, generation);
        let before = endpoint.rotated_at.filter(|at| now < at.saturating_add(BOTH_SIGN));
        let before = before.map(|_| secret(endpoint.generation.saturating_sub(1)));
        [secret(endpoint.generation)].into_iter().chain(before).collect()
    }

    /// Copies the file as of this moment to a new one, while others write to it, with the key of the secrets beside it, and examines
    /// the copy. Copied before the journal, it lets nothing out: what the copy of the journal has further is delivered, perhaps again.
    ///
    /// # Errors
    /// When something stands there already, it cannot be written, or the copy is damaged.
    pub fn copy(&self, target: &Path) -> Result<(), OpenError> {
        let place = target.with_file_name(KEY);
        let what = KEY_FILE;
        let file = |source| dalsegno_database::OpenError::File { what, path: place.clone(), source };
        let key = std::fs::read(self.inner.path.with_file_name(KEY)).map_err(file)?;
        dalsegno_files::write_new(&place, &key).map_err(file)?;
        schema::FORMAT.copy(&self.connection(), target)?;
        // With the key it is opened as any other.
        Self::open(target).map(drop)
    }

    /// Takes the turn to deliver; none while another process, or another part of this one, has it.
    ///
    /// # Errors
    /// When the file of the lock cannot be used.
    pub fn take_turn(&self) -> std::io::Result<Option<Turn>> {
        Turn::take(&self.inner.path.with_file_name("webhooks.lock"))
    }

    fn change(
        &self,
        id: &str,
        work: impl FnOnce(&Transaction<'_>) -> Result<Endpoint, WebhookError>,
    ) -> Result<Endpoint, WebhookError> {
        let mut connection = self.connection();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if find(&transaction, id)?.is_none() {
            return Err(WebhookError::Unknown { id: id.to_owned() });
        }
        let changed = work(&transaction)?;
        transaction.commit()?;
        Ok(changed)
    }

    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.inner.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes down whose secrets these are, once; returns what was written first.
fn claim(connection: &mut Connection, key: &RootKey) -> Result<Vec<u8>, rusqlite::Error> {
    connection.execute("INSERT OR IGNORE INTO root (id, digest) VALUES (1, ?1)", [key.digest()])?;
    connection.query_row("SELECT digest FROM root", [], |row| row.get(0))
}

fn find(connection: &Connection, id: &str) -> Result<Option<Endpoint>, WebhookError> {
    let mut statement = connection.prepare_cached(&format!("{SELECT} WHERE id = ?1"))?;
    statement.query_row([id], |row| Ok(endpoint(row))).optional()?.transpose()
}

/// An endpoint that is there.
fn known(connection: &Connection, id: &str) -> Result<Endpoint, WebhookError> {
    find(connection, id)?.ok_or_else(|| WebhookError::Unknown { id: id.to_owned() })
}

/// All endpoints that are on. A damaged one must not hinder the others.
pub(crate) fn on(connection: &Connection) -> Result<Vec<Endpoint>, WebhookError> {
    let mut statement = connection.prepare_cached(&format!("{SELECT} WHERE off_at IS NULL ORDER BY id"))?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(unless_damaged(endpoint(row), "a webhook gets nothing")?);
    }
    Ok(found)
}

/// What was read; none where it is damaged, which the log says.
fn unless_damaged(
    read: Result<Endpoint, WebhookError>,
    what: &str,
) -> Result<Option<Endpoint>, WebhookError> {
    match read {
        Err(error @ WebhookError::Damaged { .. }) => {
            tracing::error!(%error, "{what}");
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// Reads one row; an endpoint whose row does not make sense gets nothing.
fn endpoint(row: &Row<'_>) -> Result<Endpoint, WebhookError> {
    match read(row) {
        Ok(Some(endpoint)) => Ok(endpoint),
        // A value that does not fit its place is damage of this row alone.
        Ok(None)
        | Err(
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..),
        ) => {
            let id = row.get_ref(0)?.as_bytes().map(String::from_utf8_lossy).unwrap_or_default();
            Err(WebhookError::Damaged { id: id.into_owned() })
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads one row; none where a word of it is unknown.
fn read(row: &Row<'_>) -> Result<Option<Endpoint>, rusqlite::Error> {
    let id: String = row.get(0)?;
    let number =
        |index: usize| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(index)?.map(i64::cast_unsigned));
    let events: String = row.get(4)?;
    let Ok(events) = events.split(' ').map(str::parse::<Event>).collect::<Result<_, _>>() else {
        return Ok(None);
    };
    let off = match (number(12)?, row.get::<_, Option<String>>(13)?) {
        (None, _) => None,
        (Some(at), reason) => {
            let Some(reason) = reason.as_deref().and_then(OffReason::from_name) else { return Ok(None) };
            Some(Off { at, reason })
        }
    };
    Ok(Some(Endpoint {
        name: row.get(1)?,
        url: row.get(2)?,
        tenant: row.get(3)?,
        events,
        agent: row.get(5)?,
        root: row.get(6)?,
        content: row.get(7)?,
        generation: row.get(8)?,
        rotated_at: number(9)?,
        created_at: number(10)?.unwrap_or_default(),
        position: number(11)?.unwrap_or_default(),
        off,
        failing_since: number(14)?,
        resume_at: number(15)?,
        failed: number(16)?.zip(row.get(17)?),
        delivered_at: number(18)?,
        delivered: number(19)?.unwrap_or_default(),
        given_up: number(20)?.unwrap_or_default(),
        waiting: number(21)?.unwrap_or_default(),
        id,
    }))
}
