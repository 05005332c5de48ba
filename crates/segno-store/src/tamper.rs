//! Forges a journal so well that only a replay can tell.

use std::path::Path;

use rusqlite::{Connection, params};
use segno_core::RunId;

use crate::bytes::Link;
use crate::chain::{Row, checksum, link};
use crate::codec::{DecodeError, EncodeError, decode_body, encode_body};
use crate::record::Body;
use crate::run::Progress;
use crate::sqlite::parse;

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
        let mut statement = transaction.prepare(
            "SELECT seq, at, kind, operation, parent, body, checksum, link FROM record WHERE run = ?1 ORDER BY seq",
        )?;
        let rows = statement.query_map([id], parse)?.collect::<Result<Option<Vec<_>>, _>>()?;
        rows.unwrap_or_default()
    };
    let row = rows.iter_mut().find(|row| row.seq == seq).ok_or(TamperError::UnknownRecord { run, seq })?;
    let mut body = decode_body(&row.body)?;
    change(&mut body);
    row.kind = body.kind() as u8;
    row.body = encode_body(&body)?;
    row.checksum = checksum(&row.body);
    let mut previous = Link::default();
    for row in &mut rows {
        row.link = link(run, previous, row);
        previous = row.link;
        transaction.execute(
            "UPDATE record SET kind = ?3, body = ?4, checksum = ?5, link = ?6 WHERE run = ?1 AND seq = ?2",
            params![
                id,
                row.seq.cast_signed(),
                row.kind,
                row.body,
                row.checksum.as_bytes(),
                row.link.as_bytes()
            ],
        )?;
    }
    transaction.execute("UPDATE run SET head = ?2 WHERE id = ?1", params![id, previous.as_bytes()])?;
    forge_entry(&transaction, id, &rows)?;
    Ok(transaction.commit()?)
}

/// Makes what the run's entry repeats of its records fit.
fn forge_entry(connection: &Connection, id: i64, rows: &[Row]) -> Result<(), TamperError> {
    let bodies = rows.iter().map(|row| decode_body(&row.body)).collect::<Result<Vec<_>, _>>()?;
    let progress = Progress::of(&bodies).unwrap_or(Progress::BEGUN);
    connection.execute(
        "UPDATE run SET status = ?2, wake_at = ?3 WHERE id = ?1",
        params![id, progress.status as u8, progress.wake_at.map(|at| at.as_millis().cast_signed())],
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
