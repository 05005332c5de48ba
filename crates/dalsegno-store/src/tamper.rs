//! Forges a journal so well that only a replay can tell.

use std::path::Path;

use dalsegno_core::RunId;
use rusqlite::{Connection, params};

use crate::bytes::Link;
use crate::chain::{Row, checksum, link};
use crate::codec::{DecodeError, EncodeError, decode_body, encode_body};
use crate::record::Body;
use crate::run::Progress;
use crate::sqlite::{COLUMNS, Stored, keys, load, replace};

/// A forgery that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TamperError {
    /// There is no such record.
    #[error("run {run} has no record {seq}")]
    UnknownRecord {
        /// The run.
        run: RunId,
        /// The record.
        seq: u64,
    },
    /// The record cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The forged record has no stored form.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The database failed.
    #[error("cannot forge the journal")]
    Database(#[from] rusqlite::Error),
}

/// Changes a record's body in the SQLite journal at `path` and makes its checksum, all later links and the run's
/// entry fit, so that the journal verifies.
///
/// # Errors
/// When there is no such record, or the database fails.
pub fn tamper(path: &Path, run: RunId, seq: u64, change: impl FnOnce(&mut Body)) -> Result<(), TamperError> {
    let mut connection = Connection::open(path)?;
    let transaction = connection.transaction()?;
    let id: i64 =
        transaction.query_row("SELECT id FROM run WHERE run = ?1", [run.as_bytes()], |row| row.get(0))?;
    let mut rows = {
        let (first, last) = keys(id, 0);
        let mut statement = transaction
            .prepare(&format!("SELECT {COLUMNS} FROM record WHERE key BETWEEN ?1 AND ?2 ORDER BY key"))?;
        let rows = statement.query_map([first, last], |row| load(&transaction, row))?;
        rows.collect::<Result<Result<Vec<_>, _>, _>>()?.unwrap_or_default()
    };
    let row = rows.iter_mut().find(|row| row.seq == seq).ok_or(TamperError::UnknownRecord { run, seq })?;
    let mut body = decode_body(row.body.as_deref().unwrap_or_default())?;
    change(&mut body);
    row.kind = body.kind() as u8;
    let encoded = encode_body(&body)?;
    row.checksum = checksum(&encoded);
    row.body = Some(encoded);
    let mut previous = Link::default();
    for row in &mut rows {
        row.link = link(run, previous, row);
        previous = row.link;
        replace(&transaction, id, &Stored::new(row.clone()))?;
    }
    transaction.execute("UPDATE run SET head = ?2 WHERE id = ?1", params![id, previous.as_bytes()])?;
    forge_entry(&transaction, id, &rows)?;
    Ok(transaction.commit()?)
}

/// Makes what the run's entry repeats of its records fit.
fn forge_entry(connection: &Connection, id: i64, rows: &[Row]) -> Result<(), TamperError> {
    let bodies = rows
        .iter()
        .map(|row| decode_body(row.body.as_deref().unwrap_or_default()))
        .collect::<Result<Vec<_>, _>>()?;
    let progress = Progress::of(&bodies).unwrap_or(Progress::BEGUN);
    connection.execute(
        "UPDATE run SET status = ?2, wake_at = ?3, waiting = ?4 WHERE id = ?1",
        params![
            id,
            progress.status as u8,
            progress.wake_at.map(|at| at.as_millis().cast_signed()),
            progress.waiting.number()
        ],
    )?;
    if let Some(Body::Started(started)) = bodies.first() {
        connection.execute(
            "UPDATE run SET agent = ?2, tenant = ?3, session = ?4, config = ?5, start_key = ?6,
                parent = ?7
             WHERE id = ?1",
            params![
                id,
                started.agent.as_str(),
                started.request.tenant,
                started.session,
                started.config.as_bytes(),
                started.start_key,
                started.parent.as_ref().map(|parent| parent.run.as_bytes())
            ],
        )?;
    }
    Ok(())
}
