//! The operations that read, each within one read transaction.

use dalsegno_core::{AgentName, Digest, RunId, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use super::write::FOLLOWABLE;
use super::{Fault, rows};
use crate::blob::digest_bytes;
use crate::bytes::{Checksum, Link};
use crate::chain::{Head, Row, Verifier, checksum};
use crate::copies::Copies;
use crate::error::{Damage, Flaw, ReadError};
use crate::origin::Foreign;
use crate::owner::OwnerId;
use crate::page::Page;
use crate::record::{Record, RecordKind};
use crate::run::{
    Change, FOUND_MAX, Progress, Recent, RunFilter, RunStatus, RunSummary, Snapshot, prefix_range,
};
use crate::snapshot::StoredSnapshot;
use crate::waiting::WaitingSet;

type Result<T> = std::result::Result<T, Fault<ReadError>>;

/// Reads and verifies a run's records from `from` on, and what its entry repeats of them.
pub(super) fn records(connection: &Connection, run: RunId, from: u64) -> Result<Vec<Record>> {
    let entry = entry(connection, run)?;
    read(connection, run, &entry, from)
}

/// Reads and verifies some of a run's records, up to the first that cannot be read.
pub(super) fn page(connection: &Connection, run: RunId, from: u64, most: usize) -> Result<Page> {
    page_of(connection, run, &entry(connection, run)?, from, most)
}

fn page_of(connection: &Connection, run: RunId, entry: &Entry, from: u64, most: usize) -> Result<Page> {
    let from = from.min(entry.head.next_seq);
    let previous = match from.checked_sub(1) {
        None => Link::default(),
        Some(seq) => match link_of(connection, entry.id, seq)? {
            Some(link) => link,
            None => {
                let damage = Damage { run, seq, what: Flaw::Missing, intact: seq };
                return Ok(Page { records: Vec::new(), fault: Some(damage.into()) });
            }
        },
    };
    let (first, last) = rows::keys(entry.id, from);
    let sql = format!("SELECT {} FROM record WHERE key BETWEEN ?1 AND ?2 ORDER BY key", rows::COLUMNS);
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map([first, last], |row| rows::load(connection, row))?;
    Ok(Page::fill(Verifier::new(run, from, previous), found, entry.head, most)?)
}

/// The number of records of each of these runs that is there.
pub(super) fn heads(connection: &Connection, runs: &[RunId]) -> Result<Vec<(RunId, u64)>> {
    let mut statement = connection.prepare_cached("SELECT next_seq FROM run WHERE run = ?1")?;
    let mut heads = Vec::with_capacity(runs.len());
    for run in runs {
        let found: Option<i64> = statement.query_row([run.as_bytes()], |row| row.get(0)).optional()?;
        heads.extend(found.map(|next| (*run, next.cast_unsigned())));
    }
    Ok(heads)
}

/// Says whether content of a run was erased.
pub(super) fn has_erased(connection: &Connection, run: RunId) -> Result<bool> {
    Ok(rows::has_erased(connection, entry(connection, run)?.id)?)
}

/// Reads a run's first record, and verifies its entry.
pub(super) fn first_record(connection: &Connection, run: RunId) -> Result<Record> {
    let entry = verify(connection, run)?;
    first(connection, run, &entry)
}

/// Verifies a run's entry by its first and its last records.
pub(super) fn verify(connection: &Connection, run: RunId) -> Result<Entry> {
    let entry = entry(connection, run)?;
    read(connection, run, &entry, entry.head.next_seq)?;
    Ok(entry)
}

fn read(connection: &Connection, run: RunId, entry: &Entry, from: u64) -> Result<Vec<Record>> {
    let from = from.min(entry.head.next_seq);
    match verified(connection, run, entry, from) {
        // Only what verifies from the beginning says what can be saved, and whether an end explains the status.
        Err(Fault::Refused(ReadError::Damaged(_))) if from > 0 => {
            let records = verified(connection, run, entry, 0)?;
            Ok(since(records, from))
        }
        result => result,
    }
}

/// Verifies the first record, those from `from` on or from the last one that decides about the status, and the copies.
fn verified(connection: &Connection, run: RunId, entry: &Entry, from: u64) -> Result<Vec<Record>> {
    let start = from.min(last_that_decides(connection, entry)?);
    let previous = match start.checked_sub(1) {
        None => Link::default(),
        Some(seq) => link_of(connection, entry.id, seq)?
            .ok_or(ReadError::Damaged(Damage { run, seq, what: Flaw::Missing, intact: seq }))
            .map_err(Fault::Refused)?,
    };
    let mut records = Vec::new();
    chain(connection, run, entry, Verifier::new(run, start, previous), |_, record| records.push(record))?;
    let first = match records.first() {
        Some(record) if start == 0 => record.clone(),
        _ => first(connection, run, entry)?,
    };
    entry.copies.check(run, &first, &records).map_err(Fault::Refused)?;
    Ok(since(records, from))
}

fn since(mut records: Vec<Record>, from: u64) -> Vec<Record> {
    records.retain(|record| record.seq >= from);
    records
}

/// A run's rows as they are stored, and its records, all verified from the beginning.
pub(super) fn rows(connection: &Connection, run: RunId, entry: &Entry) -> Result<(Vec<Row>, Vec<Record>)> {
    let (mut rows, mut records) = (Vec::new(), Vec::new());
    chain(connection, run, entry, Verifier::new(run, 0, Link::default()), |row, record| {
        rows.push(row);
        records.push(record);
    })?;
    let first = first(connection, run, entry)?;
    entry.copies.check(run, &first, &records).map_err(Fault::Refused)?;
    Ok((rows, records))
}

/// The same up to the first damage.
pub(super) fn intact_rows(
    connection: &Connection,
    run: RunId,
    entry: &Entry,
) -> Result<(Vec<Row>, Vec<Record>, Option<Damage>)> {
    let (mut rows, mut records) = (Vec::new(), Vec::new());
    let whole = chain(connection, run, entry, Verifier::new(run, 0, Link::default()), |row, record| {
        rows.push(row);
        records.push(record);
    });
    match whole {
        Ok(()) => Ok((rows, records, None)),
        Err(Fault::Refused(ReadError::Damaged(damage))) if !rows.is_empty() => {
            Ok((rows, records, Some(damage)))
        }
        Err(fault) => Err(fault),
    }
}

/// Reads and verifies the rows from where the verifier stands up to the head.
fn chain(
    connection: &Connection,
    run: RunId,
    entry: &Entry,
    mut verifier: Verifier,
    mut keep: impl FnMut(Row, Record),
) -> Result<()> {
    let head = entry.head;
    let start = verifier.next();
    let (first, last) = rows::keys(entry.id, start);
    let sql = format!("SELECT {} FROM record WHERE key BETWEEN ?1 AND ?2 ORDER BY key", rows::COLUMNS);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([first, last])?;
    while let Some(row) = rows.next()? {
        let row = rows::load(connection, row)?.map_err(|flaw| Fault::Refused(verifier.damage(flaw)))?;
        if row.seq >= head.next_seq {
            let damage = Damage { run, seq: head.next_seq, what: Flaw::Unknown, intact: head.next_seq };
            return Err(Fault::Refused(damage.into()));
        }
        let record = verifier.check(&row).map_err(Fault::Refused)?;
        keep(row, record);
    }
    verifier.finish(head).map_err(Fault::Refused)
}

/// Reads and verifies the first record.
fn first(connection: &Connection, run: RunId, entry: &Entry) -> Result<Record> {
    let damage = |what| Fault::Refused(Damage { run, seq: 0, what, intact: 0 }.into());
    let sql = format!("SELECT {} FROM record WHERE key = ?1", rows::COLUMNS);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([rows::keys(entry.id, 0).0])?;
    let row = rows.next()?.ok_or_else(|| damage(Flaw::Missing))?;
    let row = rows::load(connection, row)?.map_err(damage)?;
    Verifier::check_first(run, &row).map_err(Fault::Refused)
}

/// Finds the last record that is not late. Its kind is verified when the chain from it on is.
fn last_that_decides(connection: &Connection, entry: &Entry) -> Result<u64> {
    let mut statement = connection.prepare_cached(
        "SELECT key FROM record WHERE key BETWEEN ?1 AND ?2 AND kind <> ?3 ORDER BY key DESC LIMIT 1",
    )?;
    let first = rows::keys(entry.id, 0).0;
    let last = rows::keys(entry.id, entry.head.next_seq.saturating_sub(1)).0;
    let found: Option<i64> =
        statement.query_row(params![first, last, RecordKind::Late as u8], |row| row.get(0)).optional()?;
    Ok(found.map_or(0, |key| rows::split(key).1))
}

fn link_of(connection: &Connection, id: i64, seq: u64) -> Result<Option<Link>> {
    let mut statement = connection.prepare_cached("SELECT link FROM record WHERE key = ?1")?;
    let link = statement.query_row([rows::keys(id, seq).0], |row| Ok(bytes(row.get_ref(0)?))).optional()?;
    Ok(link.flatten().map(Link::from_bytes))
}

/// A run's entry.
pub(super) struct Entry {
    pub(super) id: i64,
    pub(super) head: Head,
    pub(super) copies: Copies,
    /// Where the run came from; none for one of this journal's own.
    pub(super) foreign: Option<Foreign>,
}

/// Reads a run's entry. Nothing is verified.
pub(super) fn entry(connection: &Connection, run: RunId) -> Result<Entry> {
    let sql = format!(
        "SELECT id, next_seq, head, agent, tenant, session, config, start_key, started_at, updated_at, status, wake_at,
            parent, waiting, seal, origin, {}
         FROM run WHERE run = ?1",
        rows::SEALED
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([run.as_bytes()])?;
    match rows.next()? {
        None => Err(Fault::Refused(ReadError::UnknownRun { run })),
        Some(row) => {
            let entry = parse_entry(row)?.ok_or_else(|| Fault::Refused(damaged_row(run)))?;
            if rows::is_sealed(row, 16, row.get_ref(14)?)? {
                return Ok(entry);
            }
            Err(Fault::Refused(Damage { run, seq: 0, what: Flaw::Seal, intact: 0 }.into()))
        }
    }
}

fn parse_entry(row: &rusqlite::Row<'_>) -> std::result::Result<Option<Entry>, rusqlite::Error> {
    let (Some(link), Some(agent), Some(tenant), Some(session), Some(config), Some(status)) = (
        bytes(row.get_ref(2)?),
        text(row.get_ref(3)?),
        text(row.get_ref(4)?),
        text(row.get_ref(5)?),
        bytes(row.get_ref(6)?),
        status(row.get(10)?),
    ) else {
        return Ok(None);
    };
    let (Some(start_key), Some(parent), Some(foreign)) = (
        optional(row.get_ref(7)?, text),
        optional(row.get_ref(12)?, |value| bytes(value).map(RunId::from_bytes)),
        optional(row.get_ref(15)?, origin),
    ) else {
        return Ok(None);
    };
    let next_seq: i64 = row.get(1)?;
    let Some(waiting) = WaitingSet::from_number(row.get(13)?).filter(|_| next_seq > 0) else {
        return Ok(None);
    };
    let copies = Copies {
        agent,
        tenant,
        session,
        parent,
        config: Digest::from_bytes(config),
        start_key,
        started_at: time(row.get(8)?),
        updated_at: time(row.get(9)?),
        progress: Progress { status, wake_at: row.get::<_, Option<i64>>(11)?.map(time), waiting },
    };
    let head = Head { next_seq: next_seq.cast_unsigned(), link: Link::from_bytes(link) };
    Ok(Some(Entry { id: row.get(0)?, head, copies, foreign }))
}

fn origin(value: ValueRef<'_>) -> Option<Foreign> {
    value.as_blob().ok().and_then(Foreign::from_bytes)
}

/// A field that may be absent: none if it is there in another form.
pub(super) fn optional<T>(
    value: ValueRef<'_>,
    read: impl FnOnce(ValueRef<'_>) -> Option<T>,
) -> Option<Option<T>> {
    match value {
        ValueRef::Null => Some(None),
        value => read(value).map(Some),
    }
}

pub(super) fn bytes<const N: usize>(value: ValueRef<'_>) -> Option<[u8; N]> {
    match value {
        ValueRef::Blob(bytes) => bytes.try_into().ok(),
        _ => None,
    }
}

fn text(value: ValueRef<'_>) -> Option<String> {
    value.as_str().ok().map(str::to_owned)
}

pub(super) fn status(number: i64) -> Option<RunStatus> {
    RunStatus::ALL.iter().copied().find(|known| i64::from(*known as u8) == number)
}

const fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis.cast_unsigned())
}

pub(super) fn damaged_row(run: RunId) -> ReadError {
    ReadError::Damaged(Damage { run, seq: 0, what: Flaw::Row, intact: 0 })
}

const SUMMARY: &str = "SELECT run, agent, tenant, session, status, started_at, updated_at, next_seq, config, wake_at, owner, parent, waiting, origin, changed FROM run";

/// Reads one line of the listing.
pub(super) fn summary(connection: &Connection, run: RunId) -> Result<RunSummary> {
    let sql = format!("{SUMMARY} WHERE run = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([run.as_bytes()])?;
    match rows.next()? {
        Some(row) => parse_summary(row),
        None => Err(Fault::Refused(ReadError::UnknownRun { run })),
    }
}

/// Lists the runs whose status has changed since a change, in the order of their latest changes.
pub(super) fn changed(connection: &Connection, after: u64, limit: u32) -> Result<Vec<Change>> {
    let sql = format!("{SUMMARY} WHERE changed > ?1 ORDER BY changed LIMIT ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![i64::try_from(after).unwrap_or(i64::MAX), limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Change { number: row.get::<_, i64>(14)?.cast_unsigned(), run: parse_summary(row)? });
    }
    Ok(found)
}

/// The number of the latest change.
pub(super) fn last_change(connection: &Connection) -> Result<u64> {
    let mut statement = connection.prepare_cached("SELECT max(number) FROM change")?;
    let number: Option<i64> = statement.query_row([], |row| row.get(0))?;
    Ok(number.unwrap_or(0).cast_unsigned())
}

/// Lists runs, the newest first.
pub(super) fn runs(connection: &Connection, filter: &RunFilter) -> Result<Vec<RunSummary>> {
    let sql = format!(
        "{SUMMARY} WHERE (?1 IS NULL OR agent = ?1) AND (?2 IS NULL OR status = ?2) AND (?3 IS NULL OR tenant = ?3)
         AND {} AND {} AND {} AND {} AND {} AND {} AND {} AND {} AND {} AND {} ORDER BY id DESC LIMIT ?7",
        // Spelled apart, since only a plain comparison can use an index.
        if filter.wake_by.is_some() { "wake_at <= ?4 AND origin IS NULL" } else { "?4 IS NULL" },
        if filter.session.is_some() { "session = ?5" } else { "?5 IS NULL" },
        match filter.parent {
            Some(_) if filter.roots_only => "parent = ?6 AND parent IS NULL",
            Some(_) => "parent = ?6",
            None if filter.roots_only => "?6 IS NULL AND parent IS NULL",
            None => "?6 IS NULL",
        },
        match filter.waiting {
            None => "TRUE".to_owned(),
            // As the index says it.
            Some(kind) => format!("waiting & {}", kind as u8),
        },
        if filter.waits { "(status = 1 OR waiting <> 0)" } else { "TRUE" },
        match filter.foreign {
            None => "TRUE",
            Some(true) => "origin IS NOT NULL",
            Some(false) => "origin IS NULL",
        },
        if filter.followable { FOLLOWABLE } else { "TRUE" },
        if filter.since.is_some() { "started_at >= ?8" } else { "?8 IS NULL" },
        if filter.until.is_some() { "started_at < ?9" } else { "?9 IS NULL" },
        if filter.after.is_some() { "id < (SELECT id FROM run WHERE run = ?10)" } else { "?10 IS NULL" },
    );
    let millis = |at: Timestamp| i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![
        filter.agent.as_ref().map(AgentName::as_str),
        filter.status.map(|status| status as u8),
        filter.tenant,
        filter.wake_by.map(millis),
        filter.session,
        filter.parent.as_ref().map(RunId::as_bytes),
        filter.limit,
        filter.since.map(millis),
        filter.until.map(millis),
        filter.after.as_ref().map(RunId::as_bytes),
    ])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(parse_summary(row)?);
    }
    Ok(found)
}

fn parse_summary(row: &rusqlite::Row<'_>) -> Result<RunSummary> {
    let run = bytes(row.get_ref(0)?).map(RunId::from_bytes);
    // A row whose id is damaged is named by what is left of it: the id of zeros.
    let damaged = || Fault::Refused(damaged_row(run.unwrap_or(RunId::from_bytes([0; 16]))));
    let column = |index| Ok::<_, rusqlite::Error>(text(row.get_ref(index)?));
    let owner =
        optional(row.get_ref(10)?, |value| bytes(value).map(OwnerId::from_bytes)).ok_or_else(damaged)?;
    let parent =
        optional(row.get_ref(11)?, |value| bytes(value).map(RunId::from_bytes)).ok_or_else(damaged)?;
    let foreign = optional(row.get_ref(13)?, origin).ok_or_else(damaged)?;
    Ok(RunSummary {
        run: run.ok_or_else(damaged)?,
        agent: column(1)?.and_then(|agent| agent.parse().ok()).ok_or_else(damaged)?,
        tenant: column(2)?.ok_or_else(damaged)?,
        session: column(3)?.ok_or_else(damaged)?,
        status: status(row.get(4)?).ok_or_else(damaged)?,
        started_at: time(row.get(5)?),
        updated_at: time(row.get(6)?),
        records: row.get::<_, i64>(7)?.cast_unsigned(),
        config: Digest::from_bytes(bytes(row.get_ref(8)?).ok_or_else(damaged)?),
        wake_at: row.get::<_, Option<i64>>(9)?.map(time),
        owner,
        parent,
        waiting: WaitingSet::from_number(row.get(12)?).ok_or_else(damaged)?.kinds(),
        foreign,
    })
}

/// Finds runs by the beginning of their ids.
pub(super) fn find_runs(connection: &Connection, prefix: &str) -> Result<Vec<RunId>> {
    let Some((first, last)) = prefix_range(prefix) else { return Ok(Vec::new()) };
    let mut statement =
        connection.prepare_cached("SELECT run FROM run WHERE run BETWEEN ?1 AND ?2 ORDER BY run LIMIT ?3")?;
    let found = statement.query_map(params![first.as_bytes(), last.as_bytes(), FOUND_MAX as i64], |row| {
        row.get(0).map(RunId::from_bytes)
    })?;
    Ok(found.collect::<std::result::Result<_, _>>()?)
}

/// Reads a configuration.
pub(super) fn config(connection: &Connection, digest: Digest) -> Result<String> {
    let found: Option<(String, Option<[u8; 16]>)> = connection
        .prepare_cached("SELECT json, checksum FROM config WHERE digest = ?1")?
        .query_row([digest.as_bytes()], |row| Ok((row.get(0)?, bytes(row.get_ref(1)?))))
        .optional()?;
    match found {
        None => Err(Fault::Refused(ReadError::UnknownConfig { digest })),
        Some((json, stored)) if stored.map(Checksum::from_bytes) == Some(checksum(json.as_bytes())) => {
            Ok(json)
        }
        Some(_) => Err(Fault::Refused(ReadError::DamagedConfig { digest })),
    }
}

/// Reads a file.
pub(super) fn blob(connection: &Connection, digest: Digest) -> Result<Option<Vec<u8>>> {
    match rows::blob(connection, digest)? {
        None => Ok(None),
        Some(Some(bytes)) if digest_bytes(&bytes) == digest => Ok(Some(bytes)),
        Some(_) => Err(Fault::Refused(ReadError::DamagedBlob { digest })),
    }
}

/// Reads a run's latest snapshot, if it can be trusted.
pub(super) fn snapshot(connection: &Connection, run: RunId) -> Result<Option<Snapshot>> {
    snapshot_of(connection, run, &entry(connection, run)?)
}

fn snapshot_of(connection: &Connection, run: RunId, entry: &Entry) -> Result<Option<Snapshot>> {
    let found = stored_snapshot(connection, entry.id)?;
    Ok(found.and_then(|stored| open_snapshot(connection, run, entry.head.next_seq, &stored)))
}

/// Reads what tells where a run stands, if it belongs to this tenant.
pub(super) fn recent(connection: &Connection, run: RunId, tenant: Option<&str>) -> Result<Recent> {
    let summary = summary(connection, run)?;
    if tenant.is_some_and(|tenant| tenant != summary.tenant) {
        return Err(Fault::Refused(ReadError::UnknownRun { run }));
    }
    let config = config(connection, summary.config)?;
    let entry = entry(connection, run)?;
    let snapshot = snapshot_of(connection, run, &entry)?;
    let from = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
    let records = read(connection, run, &entry, from)?;
    let second = match from {
        0 | 1 => None,
        _ => {
            page_of(connection, run, &entry, 1, 1)?.into_records().map_err(Fault::Refused)?.into_iter().next()
        }
    };
    Ok(Recent { summary, config, snapshot, records, second })
}

/// The row of the snapshot of the run with this row number.
pub(super) fn stored_snapshot(
    connection: &Connection,
    id: i64,
) -> std::result::Result<Option<StoredSnapshot>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT seq, state, checksum FROM snapshot WHERE run = ?1")?
        .query_row([id], |row| {
            let checksum = bytes(row.get_ref(2)?).unwrap_or_default();
            let seq: i64 = row.get(0)?;
            Ok(StoredSnapshot {
                seq: seq.cast_unsigned(),
                state: row.get(1)?,
                checksum: Checksum::from_bytes(checksum),
            })
        })
        .optional()
}

/// Decodes a snapshot with the texts that it refers to, if all can be trusted.
pub(super) fn open_snapshot(
    connection: &Connection,
    run: RunId,
    records: u64,
    stored: &StoredSnapshot,
) -> Option<Snapshot> {
    stored.open(run, records, &mut |digest| blob(connection, digest).ok().flatten())
}

/// Says whether this is a part of a body of the run with this row number. A part stays as long as the record does.
pub(super) fn is_part(
    connection: &Connection,
    id: i64,
    digest: Digest,
) -> std::result::Result<bool, rusqlite::Error> {
    let (first, last) = rows::keys(id, 0);
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM reference
             WHERE digest = ?1 AND record BETWEEN ?2 AND ?3 AND place >= 0)",
        )?
        .query_row(params![digest.as_bytes(), first, last], |row| row.get(0))
}
