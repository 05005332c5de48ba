//! The operations that write, each within a transaction of the writer.

use dalsegno_core::{Digest, RunId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Fault;
use super::inbox;
use super::read::{self, Entry};
use super::rows::{PackedFile, Stored, has_blob, insert, insert_blob, pack_files, reseal};
use crate::bytes::Link;
use crate::chain::{Head, checksum, seal};
use crate::copies::Copies;
use crate::error::{AcquireError, AppendError, BlobError, CreateError, SnapshotError};
use crate::lease::{Holds, Lease, Tells};
use crate::origin::Foreign;
use crate::owner::{Owner, OwnerId};
use crate::record::NewRecord;
use crate::run::{self, Created, Existing, Follows, NewRun, Progress, RunStatus};
use crate::snapshot::StoredSnapshot;
use crate::waiting::WaitingSet;

/// Creates a run with its first rows.
pub(super) fn create(
    connection: &Connection,
    new: &NewRun,
    rows: &[Stored],
    blobs: &[PackedFile],
    holds: &Holds,
) -> Result<Created, Fault<CreateError>> {
    let (started_at, started) = new.started().map_err(Fault::Refused)?;
    if let Some(existing) = find_existing(connection, new)? {
        return new.is_start_of(&existing).map(Created::Existing).map_err(Fault::Refused);
    }
    let copies = new.copies(started_at, started);
    if copies.is_open_root()
        && let Some(run) = open_root(connection, &copies)?
    {
        return Err(Fault::Refused(CreateError::SessionBusy { session: copies.session, run }));
    }
    if new.follows != Follows::Any {
        let last = last_root(connection, &copies)?;
        new.check_follows(&copies.session, last).map_err(Fault::Refused)?;
    }
    insert_config(connection, new.config, &new.config_json)?;
    for (digest, form, bytes) in blobs {
        insert_blob(connection, *digest, *form, bytes)?;
    }
    for digest in rows.iter().flat_map(Stored::needed) {
        if !has_blob(connection, *digest)? {
            return Err(Fault::Refused(CreateError::Blob(BlobError::Missing { digest: *digest })));
        }
    }
    let link = rows.last().map(Stored::link).unwrap_or_default();
    let head = Head { next_seq: rows.len() as u64, link };
    let entry = NewEntry { run: new.run, request_digest: new.request_digest, copies: &copies, head, rows };
    let row = insert_run(connection, &entry, Entering::Owned(new.owner))?;
    Ok(Created::New(Lease::new(new.run, 1, new.owner, head, row, holds)))
}

/// Finds the root run that goes on in the session of another one.
pub(super) fn open_root(connection: &Connection, copies: &Copies) -> Result<Option<RunId>, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT run FROM run WHERE tenant = ?1 AND session = ?2 AND parent IS NULL AND status < 2
                AND origin IS NULL LIMIT 1",
        )?
        .query_row(params![copies.tenant, copies.session], |row| row.get(0).map(RunId::from_bytes))
        .optional()
}

/// What a row of `run` must be for the next run of its session to follow it.
pub(super) const FOLLOWABLE: &str =
    "status BETWEEN 2 AND 5 AND NOT EXISTS (SELECT 1 FROM record INDEXED BY record_erased
    WHERE form = 3 AND key BETWEEN run.id << 32 AND (run.id << 32) + 4294967295)";

/// Finds the root run that was created last in the session of another one, of those that can be followed.
fn last_root(connection: &Connection, copies: &Copies) -> Result<Option<RunId>, rusqlite::Error> {
    let sql = format!(
        "SELECT run FROM run WHERE session = ?2 AND tenant = ?1 AND parent IS NULL AND origin IS NULL AND {FOLLOWABLE}
            ORDER BY id DESC LIMIT 1"
    );
    connection
        .prepare_cached(&sql)?
        .query_row(params![copies.tenant, copies.session], |row| row.get(0).map(RunId::from_bytes))
        .optional()
}

/// Keeps a configuration, unless it is there.
pub(super) fn insert_config(
    connection: &Connection,
    digest: Digest,
    json: &str,
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "INSERT INTO config (digest, json, checksum) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        )?
        .execute(params![digest.as_bytes(), json, checksum(json.as_bytes()).as_bytes()])?;
    Ok(())
}

/// A run that enters the journal with these rows.
pub(super) struct NewEntry<'a> {
    pub(super) run: RunId,
    pub(super) request_digest: Digest,
    pub(super) copies: &'a Copies,
    pub(super) head: Head,
    pub(super) rows: &'a [Stored],
}

/// How a run enters the journal.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entering {
    /// As a run of this journal's own, in its first epoch.
    Owned(OwnerId),
    /// With an archive, before its first epoch.
    Foreign(Foreign),
}

/// Inserts a run and its rows, and returns the number of its row.
pub(super) fn insert_run(
    connection: &Connection,
    new: &NewEntry<'_>,
    entering: Entering,
) -> Result<i64, rusqlite::Error> {
    let NewEntry { run, request_digest, copies, head, rows } = new;
    let (owner, origin) = match entering {
        Entering::Owned(owner) => (Some(owner), None),
        Entering::Foreign(foreign) => (None, Some(foreign.to_bytes())),
    };
    connection
        .prepare_cached(
            "INSERT INTO run (run, agent, tenant, session, config, start_key, request_digest, status, wake_at,
                started_at, updated_at, owner, epoch, next_seq, head, parent, waiting, origin, changed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
        )?
        .execute(params![
            run.as_bytes(),
            copies.agent,
            copies.tenant,
            copies.session,
            copies.config.as_bytes(),
            copies.start_key,
            request_digest.as_bytes(),
            copies.progress.status as u8,
            copies.progress.wake_at.map(|at| at.as_millis().cast_signed()),
            copies.started_at.as_millis().cast_signed(),
            copies.updated_at.as_millis().cast_signed(),
            owner.as_ref().map(OwnerId::as_bytes),
            i64::from(owner.is_some()),
            head.next_seq.cast_signed(),
            head.link.as_bytes(),
            copies.parent.as_ref().map(RunId::as_bytes),
            copies.progress.waiting.number(),
            origin,
            next_change(connection)?,
        ])?;
    let row = connection.last_insert_rowid();
    reseal(connection, row)?;
    insert(connection, row, rows)?;
    Ok(row)
}

/// Writes the number of the latest change, and takes it back. The row is another one in between: of one that stays the same,
/// SQLite writes nothing.
pub(super) fn probe(connection: &Connection) -> Result<(), rusqlite::Error> {
    for step in [1, -1] {
        connection.prepare_cached("UPDATE change SET number = number + ?1")?.execute([step])?;
    }
    Ok(())
}

/// Draws the number of a change. A transaction that is given up gives it back.
pub(super) fn next_change(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection
        .prepare_cached("UPDATE change SET number = number + 1 RETURNING number")?
        .query_row([], |row| row.get(0))
}

/// Ends a run with a handover and creates the one that goes on.
pub(super) fn hand_off(
    connection: &Connection,
    ended: &Append,
    successor: &NewRun,
    rows: &[Stored],
    blobs: &[PackedFile],
    holds: &Holds,
) -> Result<Created, Fault<CreateError>> {
    append_rows(connection, ended).map_err(Fault::within)?;
    let entry = read::entry(connection, ended.run).map_err(|fault| match fault {
        Fault::Refused(error) => Fault::Refused(CreateError::Predecessor(error)),
        Fault::Storage(error) => Fault::Storage(error),
    })?;
    successor.goes_on_from(ended.run, &entry.copies).map_err(Fault::Refused)?;
    let created = create(connection, successor, rows, blobs, holds)?;
    inbox::pass_on(connection, ended.run, ended.row, successor.run)?;
    Ok(created)
}

fn find_existing(connection: &Connection, new: &NewRun) -> Result<Option<Existing>, rusqlite::Error> {
    let read = |row: &rusqlite::Row<'_>, by_key| {
        let run = RunId::from_bytes(row.get(0)?);
        Ok(Existing { run, agent: row.get(1)?, request_digest: row.get(2)?, by_key, foreign: row.get(3)? })
    };
    if let Some(key) = &new.key {
        let existing = connection
            .prepare_cached(
                "SELECT run, agent, request_digest, FALSE FROM run
                 WHERE tenant = ?1 AND start_key = ?2 AND origin IS NULL",
            )?
            .query_row(params![new.tenant, key], |row| read(row, true))
            .optional()?;
        if existing.is_some() {
            return Ok(existing);
        }
    }
    connection
        .prepare_cached("SELECT run, agent, request_digest, origin IS NOT NULL FROM run WHERE run = ?1")?
        .query_row([new.run.as_bytes()], |row| read(row, false))
        .optional()
}

/// What an append writes, prepared by the caller so that the writer only writes.
pub(super) struct Append {
    pub(super) run: RunId,
    pub(super) row: i64,
    pub(super) epoch: u64,
    pub(super) next_seq: u64,
    pub(super) rows: Vec<Stored>,
    /// The files that come with them.
    pub(super) files: Vec<PackedFile>,
    pub(super) head: Link,
    pub(super) progress: Option<Progress>,
    /// A person is asked something in them.
    pub(super) asks: bool,
    /// What an ended run waits for after them; none when they say nothing about it.
    pub(super) late: Option<WaitingSet>,
    /// The numbers of the messages that leave the inbox.
    pub(super) consumed: Vec<u64>,
    /// The run that is told if this one ends.
    pub(super) tells: Option<Tells>,
}

impl Append {
    /// Prepares records to follow the lease's last one.
    pub(super) fn new(lease: &Lease, records: &[NewRecord], consumed: Vec<u64>) -> Result<Self, AppendError> {
        run::check_files(records)?;
        let Lease { run, row, epoch, next_seq, head, tells, waiting, .. } = *lease;
        let rows = seal(run, next_seq, head, records)?;
        let head = rows.last().map_or(head, |row| row.link);
        let progress = Progress::of(records.iter().map(|record| &record.body));
        let progress = progress.map(|progress| progress.awaiting(waiting));
        let late = run::late(records.iter().map(|record| &record.body));
        let rows = Stored::of_records(rows, records);
        let asks = run::asks(records);
        let files = pack_files(records.iter().flat_map(|record| &record.files));
        Ok(Self { run, row, epoch, next_seq, rows, files, head, progress, asks, late, consumed, tells })
    }

    /// The number of the run's records after it.
    pub(super) fn end(&self) -> u64 {
        self.next_seq + self.rows.len() as u64
    }
}

/// Appends rows, if the lease still holds. A run that ends with them loses what still waits for it, and the runs below it
/// are told to end.
pub(super) fn append(connection: &Connection, append: &Append) -> Result<(), Fault<AppendError>> {
    append_rows(connection, append)?;
    let status = append.progress.map(|progress| progress.status);
    if status.is_some_and(RunStatus::is_end) {
        inbox::clear(connection, append.row)?;
        inbox::end_children(connection, append.run)?;
    }
    if let (Some(tells), Some(status)) = (append.tells, status)
        && tells.tells_of(status)
    {
        inbox::tell(connection, tells)?;
    }
    Ok(())
}

/// Appends rows, if the lease still holds, and takes the consumed messages out of the inbox.
fn append_rows(connection: &Connection, append: &Append) -> Result<(), Fault<AppendError>> {
    if append.rows.is_empty() && append.consumed.is_empty() {
        return Ok(());
    }
    if !(move_head(connection, append)? || move_head_and_status(connection, append)?) {
        return Err(refusal(connection, append.run, append.row, append.epoch, append.next_seq)?);
    }
    for (digest, form, bytes) in &append.files {
        insert_blob(connection, *digest, *form, bytes)?;
    }
    for digest in append.rows.iter().flat_map(Stored::returned) {
        if !has_blob(connection, *digest)? {
            return Err(Fault::Refused(AppendError::Blob(BlobError::Absent { digest: *digest })));
        }
    }
    insert(connection, append.row, &append.rows)?;
    for number in &append.consumed {
        let changed = connection
            .prepare_cached("DELETE FROM inbox WHERE run = ?1 AND number = ?2")?
            .execute(params![append.row, number.cast_signed()])?;
        if changed == 0 {
            return Err(Fault::Refused(AppendError::UnknownMessage { run: append.run, number: *number }));
        }
    }
    Ok(())
}

/// Checks the condition and moves the head in one statement, when the status stays as it is and no person is asked anything: nearly
/// always. Nothing that an index covers is written then.
fn move_head(connection: &Connection, append: &Append) -> Result<bool, rusqlite::Error> {
    let stays = match append.progress {
        None if append.late.is_some() => return Ok(false),
        None => None,
        Some(progress) if progress.status == RunStatus::Running && !append.asks => Some(progress),
        Some(_) => return Ok(false),
    };
    let changed = connection
        .prepare_cached(
            "UPDATE run SET next_seq = ?4, head = ?5, updated_at = coalesce(?6, updated_at)
             WHERE id = ?1 AND epoch = ?2 AND next_seq = ?3 AND (?7 IS NULL OR status = ?7 AND wake_at IS NULL AND waiting = ?8)",
        )?
        .execute(params![
            append.row,
            append.epoch.cast_signed(),
            append.next_seq.cast_signed(),
            append.end().cast_signed(),
            append.head.as_bytes(),
            append.rows.last().map(|last| last.at().as_millis().cast_signed()),
            stays.map(|progress| progress.status as u8),
            stays.map(|progress| progress.waiting.number()),
        ])?;
    Ok(changed == 1)
}

/// The same, and changes the status. An end is final (statuses from 2 on): only what is in doubt changes after it.
fn move_head_and_status(connection: &Connection, append: &Append) -> Result<bool, rusqlite::Error> {
    let Some(last) = append.rows.last() else { return Ok(false) };
    let progress = append.progress;
    let changed = connection
        .prepare_cached(
            "UPDATE run SET next_seq = ?4, head = ?5, updated_at = ?6,
                wake_at = CASE WHEN status >= 2 OR ?7 IS NULL THEN wake_at ELSE ?8 END,
                waiting = CASE WHEN status >= 2 THEN coalesce(?10, waiting) WHEN ?7 IS NULL THEN waiting ELSE ?9 END,
                status = CASE WHEN status >= 2 THEN status ELSE coalesce(?7, status) END
             WHERE id = ?1 AND epoch = ?2 AND next_seq = ?3",
        )?
        .execute(params![
            append.row,
            append.epoch.cast_signed(),
            append.next_seq.cast_signed(),
            append.end().cast_signed(),
            append.head.as_bytes(),
            last.at().as_millis().cast_signed(),
            progress.map(|progress| progress.status as u8),
            progress.and_then(|progress| progress.wake_at).map(|at| at.as_millis().cast_signed()),
            progress.map(|progress| progress.waiting.number()),
            append.late.map(WaitingSet::number),
        ])?;
    if changed == 1 {
        connection
            .prepare_cached("UPDATE run SET changed = ?2 WHERE id = ?1")?
            .execute([append.row, next_change(connection)?])?;
    }
    Ok(changed == 1)
}

/// Finds out why a conditional write changed nothing.
fn refusal(
    connection: &Connection,
    run: RunId,
    row: i64,
    epoch: u64,
    expected: u64,
) -> Result<Fault<AppendError>, rusqlite::Error> {
    let found = connection
        .prepare_cached("SELECT epoch, next_seq FROM run WHERE id = ?1")?
        .query_row([row], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
        })
        .optional()?;
    Ok(Fault::Refused(match found {
        None => AppendError::UnknownRun { run },
        Some((current, _)) if current != epoch => AppendError::Fenced { run, epoch, current },
        Some((_, found)) => AppendError::SeqMismatch { run, expected, found },
    }))
}

/// A run that was taken, and from whom.
pub(super) struct Acquired {
    pub(super) lease: Lease,
    pub(super) from: Option<OwnerId>,
}

/// Takes a run that nobody alive owns.
pub(super) fn acquire(
    connection: &Connection,
    run: RunId,
    owner: &Owner,
    holds: &Holds,
) -> Result<Acquired, Fault<AcquireError>> {
    take(connection, run, owner, holds, |connection| {
        let Entry { id, head, .. } = read::verify(connection, run).map_err(Fault::within)?;
        Ok((id, head))
    })
}

/// Takes a run that nobody alive owns, without a look at what it says.
pub(super) fn seize(
    connection: &Connection,
    run: RunId,
    owner: &Owner,
    holds: &Holds,
) -> Result<Acquired, Fault<AcquireError>> {
    take(connection, run, owner, holds, |connection| {
        let row = |row: &rusqlite::Row<'_>| {
            let link = read::bytes(row.get_ref(2)?).map(Link::from_bytes).unwrap_or_default();
            Ok((row.get(0)?, Head { next_seq: row.get::<_, i64>(1)?.cast_unsigned(), link }))
        };
        let mut statement = connection.prepare_cached("SELECT id, next_seq, head FROM run WHERE run = ?1")?;
        Ok(statement.query_row([run.as_bytes()], row)?)
    })
}

fn take(
    connection: &Connection,
    run: RunId,
    owner: &Owner,
    holds: &Holds,
    look: impl FnOnce(&Connection) -> Result<(i64, Head), Fault<AcquireError>>,
) -> Result<Acquired, Fault<AcquireError>> {
    let found = connection
        .prepare_cached("SELECT owner, epoch, origin IS NOT NULL FROM run WHERE run = ?1")?
        .query_row([run.as_bytes()], |row| {
            let by: Option<[u8; 16]> = row.get(0)?;
            Ok((by.map(OwnerId::from_bytes), row.get::<_, i64>(1)?.cast_unsigned(), row.get(2)?))
        })
        .optional()?;
    let Some((by, epoch, is_foreign)) = found else {
        return Err(Fault::Refused(AcquireError::UnknownRun { run }));
    };
    if is_foreign {
        return Err(Fault::Refused(AcquireError::Foreign { run }));
    }
    if let Some(by) = by {
        let lives = if by == owner.id() { holds.holds(run, epoch) } else { owner.sees_alive(by) };
        if lives {
            return Err(Fault::Refused(AcquireError::Owned { run, by }));
        }
    }
    let (row, head) = look(connection)?;
    let epoch = epoch + 1;
    connection.prepare_cached("UPDATE run SET owner = ?2, epoch = ?3 WHERE id = ?1")?.execute(params![
        row,
        owner.id().as_bytes(),
        epoch.cast_signed()
    ])?;
    reseal(connection, row)?;
    let lease = Lease::new(run, epoch, owner.id(), head, row, holds);
    Ok(Acquired { lease, from: by.filter(|by| *by != owner.id()) })
}

/// Gives a run back.
pub(super) fn release(connection: &Connection, lease: &Lease) -> Result<(), Fault<AppendError>> {
    let changed = connection
        .prepare_cached("UPDATE run SET owner = NULL WHERE id = ?1 AND epoch = ?2")?
        .execute(params![lease.row, lease.epoch.cast_signed()])?;
    if changed == 0 {
        return Err(refusal(connection, lease.run, lease.row, lease.epoch, lease.next_seq)?);
    }
    reseal(connection, lease.row)?;
    Ok(())
}

/// Replaces a run's snapshot, if the lease still holds.
pub(super) fn save_snapshot(
    connection: &Connection,
    run: RunId,
    row: i64,
    epoch: u64,
    snapshot: &StoredSnapshot,
) -> Result<(), Fault<SnapshotError>> {
    // The pages of the one before are free for this one: a row that is replaced gives its pages back afterwards.
    connection
        .prepare_cached("DELETE FROM snapshot WHERE run = (SELECT id FROM run WHERE id = ?1 AND epoch = ?2)")?
        .execute(params![row, epoch.cast_signed()])?;
    let changed = connection
        .prepare_cached(
            "INSERT INTO snapshot (run, seq, state, checksum)
             SELECT id, ?3, ?4, ?5 FROM run WHERE id = ?1 AND epoch = ?2",
        )?
        .execute(params![
            row,
            epoch.cast_signed(),
            snapshot.seq.cast_signed(),
            snapshot.state,
            snapshot.checksum.as_bytes()
        ])?;
    if changed == 0 { Err(Fault::Refused(SnapshotError::Fenced { run, epoch })) } else { Ok(()) }
}
