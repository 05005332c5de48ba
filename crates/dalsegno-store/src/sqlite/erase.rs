//! Erasure in the file: bodies, parts, files, the snapshot; then the bytes themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use dalsegno_core::{OperationId, RunId};
use rusqlite::{Connection, OptionalExtension, params};

use super::gc::{Room, forks};
use super::open::BUSY_TIMEOUT;
use super::read::{bytes, damaged_row, status};
use super::write::next_change;
use super::{Fault, rows};
use crate::chain::Verifier;
use crate::erase::{EraseError, Erased, Kin, has_content};
use crate::error::ReadError;
use crate::pack::Form;
use crate::record::{Body, Record, RecordKind};
use crate::waiting::Waiting;

/// An erasure under way. Each of its transactions holds the write lock for some milliseconds; one that is killed in between
/// leaves a run that can be erased again.
pub(super) struct Work {
    run: RunId,
    id: i64,
    /// The keys of the records that still have content, the last one first.
    keys: Vec<i64>,
    erased: Erased,
    /// Files that are not erased since other records use them too.
    shared: BTreeSet<Vec<u8>>,
}

impl Work {
    /// Finds what is to be erased: all of an ended run, or one operation of it and those below it.
    pub(super) fn plan(
        connection: &Connection,
        run: RunId,
        operation: Option<OperationId>,
    ) -> Result<Self, Fault<EraseError>> {
        let id = ended(connection, run)?;
        let mut keys = select(connection, run, id, operation)?;
        keys.reverse();
        Ok(Self { run, id, keys, erased: Erased::default(), shared: BTreeSet::new() })
    }

    /// Erases the content of some records. Says whether there is more to do.
    pub(super) fn perform(&mut self, connection: &Connection) -> Result<bool, Fault<EraseError>> {
        // It may have been deleted since it was looked at.
        ended(connection, self.run)?;
        let mut room = Room::new();
        while !room.is_empty()
            && let Some(key) = self.keys.pop()
        {
            room.take(self.erase(connection, key)?);
        }
        let id = self.id;
        connection.prepare_cached("DELETE FROM snapshot WHERE run = ?1")?.execute([id])?;
        connection.prepare_cached("DELETE FROM inbox WHERE run = ?1")?.execute([id])?;
        // Without its content nobody can say any more what was in doubt.
        let was_waiting = connection
            .prepare_cached("UPDATE run SET waiting = 0 WHERE id = ?1 AND waiting != 0")?
            .execute([id])?;
        if was_waiting == 1 {
            connection
                .prepare_cached("UPDATE run SET changed = ?2 WHERE id = ?1")?
                .execute([id, next_change(connection)?])?;
        }
        rows::reseal(connection, id)?;
        Ok(!self.keys.is_empty())
    }

    /// Erases the content of a record, and returns how many bytes that were.
    fn erase(&mut self, connection: &Connection, key: i64) -> Result<u64, rusqlite::Error> {
        let bytes: Option<i64> = connection
            .prepare_cached("SELECT coalesce(length(body), 0) FROM record WHERE key = ?1")?
            .query_row([key], |row| row.get(0))
            .optional()?;
        connection
            .prepare_cached("UPDATE record SET form = ?2, body = NULL WHERE key = ?1")?
            .execute(params![key, Form::Erased as u8])?;
        self.erased.records += 1;
        let mut files = BTreeSet::new();
        drop_references(connection, key, key, &mut files)?;
        let mut bytes = bytes.unwrap_or_default().cast_unsigned();
        for digest in files {
            match delete_unused(connection, &digest)? {
                Some(length) => {
                    self.erased.files += 1;
                    self.shared.remove(&digest);
                    bytes += length;
                }
                None => drop(self.shared.insert(digest)),
            }
        }
        Ok(bytes)
    }

    /// What was erased.
    pub(super) fn finish(self, connection: &Connection) -> Result<Erased, Fault<EraseError>> {
        let mut erased = self.erased;
        for digest in self.shared {
            // One that is not here at all is used by no record.
            erased.shared_files += u64::from(
                connection
                    .prepare_cached("SELECT EXISTS (SELECT 1 FROM blob WHERE digest = ?1)")?
                    .query_row([digest], |row| row.get::<_, bool>(0))?,
            );
        }
        Ok(erased)
    }
}

/// The number of the row of a run, which must have ended or be foreign. No parent may have to read its end still.
fn ended(connection: &Connection, run: RunId) -> Result<i64, Fault<EraseError>> {
    /// What decides whether it may be erased.
    struct Found {
        id: i64,
        status: i64,
        is_foreign: bool,
        /// The run above it that has not ended.
        above: Option<[u8; 16]>,
        /// Its process may record what an effect did.
        is_under_way: bool,
    }
    let found = connection
        .prepare_cached(
            "SELECT run.id, run.status, run.origin IS NOT NULL, above.run, run.owner IS NOT NULL AND run.waiting & ?2 FROM run \
             LEFT JOIN run above ON above.run = run.parent AND above.status < 2 AND above.origin IS NULL WHERE run.run = ?1",
        )?
        .query_row(params![run.as_bytes(), Waiting::InDoubt as u8], |row| {
            let (id, status, is_foreign, above) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(Found { id, status, is_foreign, above, is_under_way: row.get(4)? })
        })
        .optional()?;
    let Found { id, status: number, is_foreign, above, is_under_way } =
        found.ok_or(Fault::Refused(EraseError::UnknownRun { run }))?;
    match status(number) {
        None => Err(Fault::Refused(EraseError::Unreadable(damaged_row(run)))),
        Some(status) if !status.is_end() && !is_foreign => {
            Err(Fault::Refused(EraseError::NotEnded { run, status }))
        }
        Some(_) if is_under_way => Err(Fault::Refused(EraseError::UnderWay { run })),
        Some(_) => match above.filter(|_| !is_foreign) {
            Some(parent) => {
                Err(Fault::Refused(EraseError::Needed { run, parent: RunId::from_bytes(parent) }))
            }
            None => Ok(id),
        },
    }
}

/// The keys of the records that still have content, in order.
fn select(
    connection: &Connection,
    run: RunId,
    id: i64,
    operation: Option<OperationId>,
) -> Result<Vec<i64>, Fault<EraseError>> {
    let (first, last) = rows::keys(id, 0);
    let mut statement = connection.prepare_cached(
        "SELECT key, kind, operation, parent, form FROM record WHERE key BETWEEN ?1 AND ?2 ORDER BY key",
    )?;
    let mut found = statement.query([first, last])?;
    let mut family: BTreeSet<OperationId> = operation.into_iter().collect();
    let (mut keys, mut known) = (Vec::new(), operation.is_none());
    while let Some(row) = found.next()? {
        let id = |index| Ok::<_, rusqlite::Error>(bytes(row.get_ref(index)?).map(OperationId::from_bytes));
        let (of, below) = (id(2)?, id(3)?);
        if operation.is_some() {
            if !of.is_some_and(|of| family.contains(&of))
                && !below.is_some_and(|below| family.contains(&below))
            {
                continue;
            }
            family.extend(of);
            known = true;
        }
        let number: i64 = row.get(1)?;
        let kind = RecordKind::ALL.iter().find(|kind| i64::from(**kind as u8) == number);
        // Of a damaged kind nobody knows what it holds.
        if kind.is_none_or(|kind| has_content(*kind))
            && row.get::<_, i64>(4)? != i64::from(Form::Erased as u8)
        {
            keys.push(row.get(0)?);
        }
    }
    match operation {
        Some(operation) if !known => Err(Fault::Refused(EraseError::UnknownOperation { run, operation })),
        _ => Ok(keys),
    }
}

/// The runs that hold content of this one.
pub(super) fn heirs(connection: &Connection, run: RunId) -> Result<Vec<RunId>, Fault<ReadError>> {
    let (mut all, mut names) = (Vec::new(), BTreeMap::new());
    let mut statement =
        connection.prepare_cached("SELECT id, run, tenant, session, parent FROM run ORDER BY id")?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let id: i64 = row.get(0)?;
        let kin = bytes(row.get_ref(1)?).map(RunId::from_bytes).unwrap_or(RunId::from_bytes([0; 16]));
        let session = (row.get(2)?, row.get(3)?);
        let predecessor = predecessor(connection, kin, id)?;
        names.insert(id, kin);
        let parent = bytes(row.get_ref(4)?).map(RunId::from_bytes);
        all.push(Kin { run: kin, session, parent, predecessor });
    }
    if !all.iter().any(|kin| kin.run == run) {
        return Err(Fault::Refused(ReadError::UnknownRun { run }));
    }
    let forks = forks(connection, i64::MIN)?.into_iter();
    let forks: Vec<(RunId, RunId)> =
        forks.filter_map(|(key, source)| Some((*names.get(&rows::split(key).0)?, source))).collect();
    Ok(crate::erase::heirs(run, &all, &forks))
}

/// The run before one; the outer one is none where the content that says so was erased, or is damaged.
fn predecessor(
    connection: &Connection,
    run: RunId,
    id: i64,
) -> Result<Option<Option<RunId>>, Fault<ReadError>> {
    let sql = format!("SELECT {} FROM record WHERE key = ?1", rows::COLUMNS);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = statement.query([rows::keys(id, 0).0])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let Ok(row) = rows::load(connection, row)? else { return Ok(None) };
    match Verifier::check_first(run, &row) {
        Ok(Record { body: Body::Started(started), .. }) => Ok(Some(started.predecessor)),
        _ => Ok(None),
    }
}

/// What became of files that records do not use any more.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// Forgets which files these records use, and says which they were.
pub(super) fn drop_references(
    connection: &Connection,
    first: i64,
    last: i64,
    files: &mut BTreeSet<Vec<u8>>,
) -> Result<(), rusqlite::Error> {
    let mut statement =
        connection.prepare_cached("DELETE FROM reference WHERE record BETWEEN ?1 AND ?2 RETURNING digest")?;
    let mut rows = statement.query([first, last])?;
    while let Some(row) = rows.next()? {
        files.insert(row.get(0)?);
    }
    Ok(())
}

/// Deletes those of these files that nobody uses any more.
pub(super) fn delete_all_unused(
    connection: &Connection,
    files: &BTreeSet<Vec<u8>>,
) -> Result<Dropped, rusqlite::Error> {
    let mut dropped = Dropped::default();
    for digest in files {
        if let Some(bytes) = delete_unused(connection, digest)? {
            dropped.files += 1;
            dropped.bytes += bytes;
        }
    }
    Ok(dropped)
}

/// Deletes a file that no record uses, and returns how many bytes it took; none if it is used or gone.
pub(super) fn delete_unused(connection: &Connection, digest: &[u8]) -> Result<Option<u64>, rusqlite::Error> {
    let bytes: Option<i64> = connection
        .prepare_cached(
            "DELETE FROM blob WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM reference WHERE reference.digest = ?1)
             RETURNING length(bytes)",
        )?
        .query_row([digest], |row| row.get(0))
        .optional()?;
    Ok(bytes.map(i64::cast_unsigned))
}

/// One page of the file.
const PAGE: &str = "SELECT data FROM sqlite_dbpage WHERE pgno = ?1";
/// Most pages that one transaction cleans: a mebibyte.
const PAGES: usize = 256;
/// Most pages that are looked at within one read.
const PAGES_READ: i64 = 4_096;
/// How long a checkpoint waits for readers while others who write wait for it.
const PATIENCE: Duration = Duration::from_millis(20);

/// Says whether pages can be cleaned one by one: SQLite was built with its table of pages, as this workspace builds it.
pub(super) fn has_pages(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM pragma_module_list WHERE name = 'sqlite_dbpage')",
        [],
        |row| row.get(0),
    )
}

/// Finds pages, from this one on, that hold bytes between their cells. Returns them and the first page that it has not
/// looked at; none when it has looked at all.
///
/// SQLite overwrites what is deleted (`secure_delete`), but a page that was filled anew may keep a copy between its
/// rows of what once was moved out of it.
pub(super) fn unclean(
    connection: &Connection,
    from: i64,
) -> Result<(Vec<i64>, Option<i64>), rusqlite::Error> {
    let end = (from + PAGES_READ).min(pages(connection)? + 1);
    // The table answers quickly only for one page at a time.
    let mut statement = connection.prepare_cached(PAGE)?;
    let mut found = Vec::new();
    for number in from..end {
        let is_unclean = |row: &rusqlite::Row<'_>| {
            Ok(row.get_ref(0)?.as_blob().is_ok_and(|page| gap(number, page).is_some()))
        };
        if statement.query_row([number], is_unclean).optional()?.unwrap_or_default() {
            found.push(number);
        }
    }
    Ok((found, (end == from + PAGES_READ).then_some(end)))
}

/// Overwrites the bytes between the cells of some of these pages, and leaves the others.
pub(super) fn clean(connection: &Connection, pages: &mut Vec<i64>) -> Result<(), rusqlite::Error> {
    for number in pages.split_off(pages.len().saturating_sub(PAGES)) {
        let page: Option<Vec<u8>> =
            connection.prepare_cached(PAGE)?.query_row([number], |row| row.get(0)).optional()?;
        let Some(mut page) = page else { continue };
        // Others may have written it since it was looked at.
        let Some(gap) = gap(number, &page) else { continue };
        page[gap].fill(0);
        connection
            .prepare_cached("UPDATE sqlite_dbpage SET data = ?2 WHERE pgno = ?1")?
            .execute(params![number, page])?;
    }
    Ok(())
}

/// The bytes of a page of a tree between the places of its cells and the first cell, unless all of them are zero.
fn gap(number: i64, page: &[u8]) -> Option<Range<usize>> {
    // The database's own header is in front of that of its first page.
    let header = if number == 1 { 100 } else { 0 };
    let word = |at: usize| Some(usize::from(u16::from_be_bytes([*page.get(at)?, *page.get(at + 1)?])));
    // Pages of no tree begin with the number of another page: below 2^25 pages their first byte is 0 or 1.
    let places = match page.get(header)? {
        2 | 5 => 12,
        10 | 13 => 8,
        _ => return None,
    };
    let first = match word(header + 5)? {
        0 => 65_536,
        first => first,
    };
    let gap = header + places + 2 * word(header + 3)?..first;
    page.get(gap.clone())?.iter().any(|byte| *byte != 0).then_some(gap)
}

/// Most pages of a file whose pages can be told apart by their first bytes: 128 GiB.
pub(super) const PAGES_MAX: i64 = 1 << 25;

/// The number of pages of the file.
pub(super) fn pages(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "page_count", |row| row.get(0))
}

/// Writes the whole file anew, without what was deleted. Others who write wait for that.
pub(super) fn vacuum(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute_batch("VACUUM")
}

/// Moves the log into the file and empties it, unless a reader of an older state is in the way. Says whether it is empty.
pub(super) fn empty_log(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection.busy_timeout(PATIENCE)?;
    let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(emptied? == 0)
}

#[cfg(test)]
mod tests {
    use super::super::gc::BATCH;
    use super::super::open::open_writer;
    use super::*;

    #[test]
    fn no_transaction_of_an_erasure_erases_more_than_its_share() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("journal.db")).unwrap();
        let run = RunId::from_bytes([7; 16]);
        // Small records, large records, and records with a file each.
        connection
            .execute(
                "INSERT INTO run (id, run, agent, tenant, session, config, request_digest, status, started_at,
                    updated_at, epoch, next_seq, head)
                 VALUES (1, ?1, 'a', 't', 's', x'', x'', 2, 0, 0, 1, 3000, x'')",
                [run.as_bytes()],
            )
            .unwrap();
        let fill = "WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 2999)
             INSERT INTO record (key, at, kind, form, body, checksum, link)
                SELECT (1 << 32) + n, 1, 4, 0, zeroblob(iif(n < 20, 524288, 1)), x'', x'' FROM n;
             WITH RECURSIVE n(n) AS (SELECT 2900 UNION ALL SELECT n + 1 FROM n WHERE n < 2999)
             INSERT INTO blob (digest, form, bytes) SELECT CAST(n AS BLOB), 0, zeroblob(262144) FROM n;
             INSERT INTO reference (record, place, digest)
                SELECT key, 0, CAST(key - (1 << 32) AS BLOB) FROM record WHERE key >= (1 << 32) + 2900;";
        connection.execute_batch(fill).unwrap();
        let content = || -> (usize, i64) {
            let rows: i64 = connection
                .query_row("SELECT count(*) FROM record WHERE form <> 3", [], |row| row.get(0))
                .unwrap();
            let bytes = "SELECT (SELECT coalesce(sum(length(body)), 0) FROM record)
                + (SELECT coalesce(sum(length(bytes)), 0) FROM blob)";
            let bytes = connection.query_row(bytes, [], |row| row.get(0)).unwrap();
            (usize::try_from(rows).unwrap(), bytes)
        };
        let plan = Work::plan(&connection, run, None);
        let mut work = plan.unwrap_or_else(|_| panic!("nothing is in the way"));
        let (mut before, mut steps) = (content(), 0);
        loop {
            let more = work.perform(&connection).unwrap_or_else(|_| panic!("a step failed"));
            let after = content();
            let (rows, bytes) = (before.0 - after.0, before.1 - after.1);
            assert!(rows <= BATCH && bytes <= (4 << 20) + 524_288, "{rows} records, {bytes} bytes");
            (before, steps) = (after, steps + 1);
            if !more {
                break;
            }
        }
        assert_eq!(before, (0, 0));
        assert!(steps > 8, "{steps} steps");
        let erased = work.finish(&connection).unwrap_or_else(|_| panic!("it is over"));
        assert_eq!((erased.records, erased.files, erased.shared_files), (3_000, 100, 0));
    }

    #[test]
    fn what_is_left_between_the_cells_of_pages_is_overwritten_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("journal.db")).unwrap();
        assert!(has_pages(&connection).unwrap(), "this workspace builds SQLite with its table of pages");
        // Rows that are filled in between others, so that pages are split, and some that are deleted again.
        connection
            .execute_batch(
                "CREATE TABLE line (key INTEGER PRIMARY KEY, text TEXT);
                 WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 9999)
                 INSERT INTO line SELECT (n * 7919) % 10007, hex(randomblob(20 + n % 300)) FROM n;
                 DELETE FROM line WHERE key % 3 = 0;",
            )
            .unwrap();
        let sum = || -> (i64, i64, String) {
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            connection
                .query_row("SELECT count(*), sum(key * length(text)), max(text) FROM line", [], row)
                .unwrap()
        };
        let before = sum();
        let find = || {
            let (mut all, mut next) = (Vec::new(), Some(1));
            while let Some(from) = next {
                let (found, rest) = unclean(&connection, from).unwrap();
                all.extend(found);
                next = rest;
            }
            all
        };
        let mut found = find();
        assert!(found.len() > PAGES, "{} pages", found.len());
        while !found.is_empty() {
            let left = found.len();
            connection.execute_batch("BEGIN IMMEDIATE; SAVEPOINT work").unwrap();
            clean(&connection, &mut found).unwrap();
            connection.execute_batch("RELEASE work; COMMIT").unwrap();
            assert!(left - found.len() <= PAGES);
        }
        assert_eq!(find(), [] as [i64; 0]);
        assert_eq!(sum(), before);
        let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }
}
