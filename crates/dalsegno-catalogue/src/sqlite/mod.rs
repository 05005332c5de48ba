//! Documents in a file that several processes share.

mod schema;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dalsegno_database::OpenError;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};

use crate::document::{Author, Document, DocumentId, DocumentKind, Version, VersionEntry};
use crate::error::{ChangeError, DocumentsError};
use crate::limits::Limits;
use crate::rules::{Before, Write, judge, kept};
use crate::store::{Change, Changed, DocumentSet, DocumentStore};
use crate::version::digest;

/// A [`DocumentStore`] in a file, which only its owner can read. Several processes may use the same file.
pub struct SqliteDocuments {
    limits: Limits,
    writer: Mutex<Connection>,
    /// What only reads waits for no writer.
    reader: Mutex<Connection>,
    path: PathBuf,
}

impl std::fmt::Debug for SqliteDocuments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteDocuments").field("path", &self.path).finish_non_exhaustive()
    }
}

const COLUMNS: &str = "tenant, kind, name, text, version, number, at, by_key, by_name";

impl SqliteDocuments {
    /// What the file is to its users, in an error.
    pub const WHAT: &str = schema::FORMAT.what;

    /// Opens the file, or makes it with its folder, both for their owner only.
    ///
    /// # Errors
    /// When it cannot be opened, belongs to another user or program, or is of a newer release.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path, Limits::default())
    }

    /// Opens the file, or makes it, with limits of its own.
    ///
    /// # Errors
    /// As [`open`](Self::open) has them.
    pub fn open_with(path: impl AsRef<Path>, limits: Limits) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let writer = Mutex::new(schema::FORMAT.open(&path)?);
        let reader = Mutex::new(schema::FORMAT.connect(&path)?);
        Ok(Self { limits, writer, reader, path })
    }

    /// Copies the file as of this moment to a new one, while others write to it, and examines the copy with every document in it.
    ///
    /// # Errors
    /// When something stands there already, it cannot be written, or the copy is damaged.
    pub fn copy(&self, target: &Path) -> Result<(), OpenError> {
        schema::FORMAT.copy(&self.reader(), target)?;
        let is_whole = Self::open(target)?.snapshot().is_ok();
        if is_whole { Ok(()) } else { Err(OpenError::Damaged { what: Self::WHAT, path: target.to_owned() }) }
    }

    fn reader(&self) -> MutexGuard<'_, Connection> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DocumentStore for SqliteDocuments {
    fn generation(&self) -> Result<u64, DocumentsError> {
        Ok(generation(&self.reader())?)
    }

    fn snapshot(&self) -> Result<DocumentSet, DocumentsError> {
        let mut connection = self.reader();
        // One transaction: the documents are those of the generation.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
        let generation = generation(&transaction)?;
        let sql = format!("SELECT {COLUMNS} FROM change WHERE is_last = 1 AND version IS NOT NULL");
        let mut documents = Vec::new();
        {
            let mut statement = transaction.prepare_cached(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                documents.push(document(row)?);
            }
        }
        documents.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(DocumentSet { generation, documents })
    }

    fn get(&self, id: &DocumentId) -> Result<Option<Document>, DocumentsError> {
        let connection = self.reader();
        let sql = format!(
            "SELECT {COLUMNS} FROM change
             WHERE tenant = ?1 AND kind = ?2 AND name = ?3 AND is_last = 1 AND version IS NOT NULL"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query(key(id))?;
        rows.next()?.map(document).transpose()
    }

    fn versions(&self, id: &DocumentId) -> Result<Vec<VersionEntry>, DocumentsError> {
        let connection = self.reader();
        let mut statement = connection.prepare_cached(
            "SELECT number, version, bytes, at, by_key, by_name FROM change
             WHERE tenant = ?1 AND kind = ?2 AND name = ?3 ORDER BY number DESC",
        )?;
        let mut rows = statement.query(key(id))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let version: Option<String> = row.get(1)?;
            found.push(VersionEntry {
                number: unsigned(row, 0)?,
                version: version.map(|version| version.parse().map_err(|_| damaged(id))).transpose()?,
                bytes: unsigned(row, 2)?,
                at: unsigned(row, 3)?,
                by: Author { key: row.get(4)?, name: row.get(5)? },
            });
        }
        Ok(found)
    }

    fn version(&self, id: &DocumentId, version: Version) -> Result<Option<String>, DocumentsError> {
        let connection = self.reader();
        let mut statement = connection.prepare_cached(
            "SELECT text FROM change WHERE tenant = ?1 AND kind = ?2 AND name = ?3 AND version = ?4
             ORDER BY number DESC LIMIT 1",
        )?;
        let [tenant, kind, name] = key(id);
        let found: Option<String> = statement
            .query_row(params![tenant, kind, name, version.to_string()], |row| row.get(0))
            .optional()?;
        if found.as_ref().is_some_and(|text| digest(text) != version.0) {
            return Err(damaged(id));
        }
        Ok(found)
    }

    fn change(&self, change: &Change<'_>) -> Result<Changed, ChangeError> {
        let mut connection = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // It waits for other writers here, and then sees all that they wrote.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (before, last) = before(&transaction, change.id)?;
        let (text, version) = match judge(change, &before, &self.limits)? {
            Write::Nothing => {
                let (version, generation) = (change.expected, before.generation);
                return Ok(Changed { version, number: last, generation, is_new: false });
            }
            Write::Text(text, version) => (Some(text), Some(version)),
            Write::Deletion => (None, None),
        };
        let (number, generation) = (last + 1, before.generation + 1);
        let [tenant, kind, name] = key(change.id);
        transaction.execute(
            "UPDATE change SET is_last = 0 WHERE tenant = ?1 AND kind = ?2 AND name = ?3 AND is_last = 1",
            params![tenant, kind, name],
        )?;
        transaction.execute(
            "INSERT INTO change (tenant, kind, name, number, generation, text, version, bytes, at, by_key, by_name, is_last)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1)",
            params![
                tenant,
                kind,
                name,
                number.cast_signed(),
                generation.cast_signed(),
                text,
                version.map(|version| version.to_string()),
                (text.as_ref().map_or(0, String::len) as u64).cast_signed(),
                change.at.cast_signed(),
                change.by.key,
                change.by.name,
            ],
        )?;
        transaction
            .execute("UPDATE state SET generation = ?1 WHERE id = 1", params![generation.cast_signed()])?;
        drop_old(&transaction, change.id, &self.limits)?;
        transaction.commit()?;
        Ok(Changed { version, number, generation, is_new: true })
    }
}

/// What there is before a change, and the number of the document's last one.
fn before(transaction: &Transaction<'_>, id: &DocumentId) -> Result<(Before, u64), ChangeError> {
    let [tenant, kind, name] = key(id);
    let (documents, bytes) = transaction.query_row(
        "SELECT count(*), coalesce(sum(bytes), 0) FROM change
         WHERE tenant = ?1 AND kind = ?2 AND is_last = 1 AND version IS NOT NULL",
        params![tenant, kind],
        |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?)),
    )?;
    let last: Option<(u64, Option<String>, u64)> = transaction
        .query_row(
            "SELECT number, version, bytes FROM change
             WHERE tenant = ?1 AND kind = ?2 AND name = ?3 AND is_last = 1",
            params![tenant, kind, name],
            |row| Ok((unsigned(row, 0)?, row.get(1)?, unsigned(row, 2)?)),
        )
        .optional()?;
    let (number, current) = match last {
        None => (0, None),
        Some((number, None, _)) => (number, None),
        Some((number, Some(version), bytes)) => {
            (number, Some((version.parse().map_err(|_| damaged(id))?, bytes)))
        }
    };
    Ok((Before { generation: generation(transaction)?, current, documents, bytes }, number))
}

/// Drops versions of a document, and deleted documents of its kind, beyond the limits.
fn drop_old(transaction: &Transaction<'_>, id: &DocumentId, limits: &Limits) -> Result<(), rusqlite::Error> {
    let [tenant, kind, name] = key(id);
    let mut statement = transaction.prepare_cached(
        "SELECT bytes FROM change WHERE tenant = ?1 AND kind = ?2 AND name = ?3 ORDER BY number DESC",
    )?;
    let bytes: Vec<u64> = statement
        .query_map(params![tenant, kind, name], |row| unsigned(row, 0))?
        .collect::<Result<_, _>>()?;
    let kept = kept(bytes, limits);
    transaction.execute(
        "DELETE FROM change WHERE tenant = ?1 AND kind = ?2 AND name = ?3 AND number NOT IN (
             SELECT number FROM change WHERE tenant = ?1 AND kind = ?2 AND name = ?3
             ORDER BY number DESC LIMIT ?4)",
        params![tenant, kind, name, kept.cast_signed()],
    )?;
    transaction.execute(
        "DELETE FROM change WHERE tenant = ?1 AND kind = ?2 AND name IN (
             SELECT name FROM change
             WHERE tenant = ?1 AND kind = ?2 AND is_last = 1 AND version IS NULL
             ORDER BY generation DESC LIMIT -1 OFFSET ?3)",
        params![tenant, kind, limits.deleted.cast_signed()],
    )?;
    Ok(())
}

fn key(id: &DocumentId) -> [&str; 3] {
    [id.tenant().unwrap_or_default(), id.kind().as_str(), id.name()]
}

fn generation(connection: &Connection) -> Result<u64, rusqlite::Error> {
    let mut statement = connection.prepare_cached("SELECT generation FROM state WHERE id = 1")?;
    statement.query_row([], |row| unsigned(row, 0))
}

fn unsigned(row: &Row<'_>, index: usize) -> Result<u64, rusqlite::Error> {
    Ok(row.get::<_, i64>(index)?.cast_unsigned())
}

fn damaged(id: &DocumentId) -> DocumentsError {
    DocumentsError::Damaged { what: id.to_string() }
}

/// Reads a document in use; one that is not what was written is refused.
fn document(row: &Row<'_>) -> Result<Document, DocumentsError> {
    let (tenant, kind, name): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let unnamed = || DocumentsError::Damaged { what: "name of a document".to_owned() };
    let kind = DocumentKind::ALL.into_iter().find(|known| known.as_str() == kind).ok_or_else(unnamed)?;
    let tenant = Some(tenant.as_str()).filter(|tenant| !tenant.is_empty());
    let id = DocumentId::new(tenant, kind, &name).map_err(|_| unnamed())?;
    let (text, version): (String, String) = (row.get(3)?, row.get(4)?);
    let version: Version = version.parse().map_err(|_| damaged(&id))?;
    if digest(&text) != version.0 {
        return Err(damaged(&id));
    }
    let by = Author { key: row.get(7)?, name: row.get(8)? };
    Ok(Document { id, text, version, number: unsigned(row, 5)?, at: unsigned(row, 6)?, by })
}
