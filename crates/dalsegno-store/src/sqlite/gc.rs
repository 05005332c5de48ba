//! Pruning the file: a plan from one read transaction, then many short write transactions.
//!
//! What belongs together is a session: its runs go on from one another and perform one another's operations. So it goes
//! whole or stays whole, and a fork in another session keeps the one that it was taken from.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::RunId;
use rusqlite::{Connection, OptionalExtension, params};

use super::erase::{delete_all_unused, delete_unused, drop_references};
use super::{Fault, rows};
use crate::codec::decode_body;
use crate::error::{Damage, Flaw, ReadError};
use crate::gc::{GcError, GcOptions, GcReport};
use crate::record::Body;

/// Most records, files or configurations that one transaction deletes: some milliseconds, so that nobody waits long.
pub(super) const BATCH: usize = 1_000;
/// Most bytes of them, about, since whatever is deleted is overwritten.
const BATCH_BYTES: u64 = 4 << 20;

/// What one transaction may still do.
#[derive(Debug)]
pub(super) struct Room {
    rows: usize,
    bytes: u64,
}

impl Room {
    pub(super) const fn new() -> Self {
        Self { rows: BATCH, bytes: BATCH_BYTES }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }

    pub(super) const fn take(&mut self, bytes: u64) {
        self.rows = self.rows.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// What is to be deleted.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The row numbers of the runs. They go from the last on, so that whoever needs another goes before it.
    runs: Vec<i64>,
    /// The last fork that the plan knows.
    last_fork: i64,
    /// What it comes to.
    pub(super) report: GcReport,
}

type SessionKey = (String, String);

/// Finds what may be deleted.
pub(super) fn plan(connection: &Connection, options: &GcOptions) -> Result<Plan, Fault<ReadError>> {
    let before = before(options);
    let mut sessions: BTreeMap<SessionKey, Vec<i64>> = BTreeMap::new();
    let mut doomed: BTreeMap<i64, SessionKey> = BTreeMap::new();
    {
        let mut statement = connection.prepare(
            "SELECT id, tenant, session FROM run INDEXED BY run_ended
             WHERE (status >= 2 OR origin IS NOT NULL) AND updated_at < ?1",
        )?;
        let mut rows = statement.query([before])?;
        while let Some(row) = rows.next()? {
            let (id, session): (i64, SessionKey) = (row.get(0)?, (row.get(1)?, row.get(2)?));
            sessions.entry(session.clone()).or_default().push(id);
            doomed.insert(id, session);
        }
    }
    let mut kept: BTreeSet<SessionKey> = BTreeSet::new();
    for run in &options.keep {
        kept.extend(session_of(connection, *run)?.map(|(_, session)| session));
    }
    for session in sessions.keys() {
        if goes_on(connection, session, before)? {
            kept.insert(session.clone());
        }
    }
    let forks = forks(connection, i64::MIN)?;
    loop {
        doomed.retain(|_, session| !kept.contains(session));
        let known = kept.len();
        for (fork, source) in &forks {
            if !doomed.contains_key(&rows::split(*fork).0) {
                kept.extend(session_of(connection, *source)?.map(|(_, session)| session));
            }
        }
        for (id, session) in &doomed {
            if family(connection, *id)?.iter().any(|other| !doomed.contains_key(other)) {
                kept.insert(session.clone());
            }
        }
        if kept.len() == known {
            break;
        }
    }
    let mut plan = Plan {
        runs: doomed.keys().copied().collect(),
        last_fork: forks.last().map_or(i64::MIN, |(fork, _)| *fork),
        report: GcReport::default(),
    };
    plan.report = account(connection, &doomed)?;
    Ok(plan)
}

/// The time before which runs must have ended, as the file numbers it.
fn before(options: &GcOptions) -> i64 {
    i64::try_from(options.before.as_millis()).unwrap_or(i64::MAX)
}

fn session_of(connection: &Connection, run: RunId) -> Result<Option<(i64, SessionKey)>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT id, tenant, session FROM run WHERE run = ?1")?
        .query_row([run.as_bytes()], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))
        .optional()
}

/// Says whether a session has a run that goes on or that is too young.
fn goes_on(connection: &Connection, session: &SessionKey, before: i64) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM run WHERE session = ?2 AND tenant = ?1
                AND NOT ((status >= 2 OR origin IS NOT NULL) AND updated_at < ?3))",
        )?
        .query_row(params![session.0, session.1, before], |row| row.get(0))
}

/// The run's parent and children, in whatever session.
fn family(connection: &Connection, id: i64) -> Result<Vec<i64>, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT other.id FROM run JOIN run other ON other.run = run.parent WHERE run.id = ?1
             UNION ALL SELECT other.id FROM run JOIN run other ON other.parent = run.run WHERE run.id = ?1",
        )?
        .query_map([id], |row| row.get(0))?
        .collect()
}

/// The records that say of which run theirs is a fork, after this one: their keys and those runs.
pub(super) fn forks(connection: &Connection, after: i64) -> Result<Vec<(i64, RunId)>, Fault<ReadError>> {
    let sql = format!(
        "SELECT {} FROM record INDEXED BY record_sources WHERE kind IN (9, 20) AND key > ?1 ORDER BY key",
        rows::COLUMNS
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = statement.query([after])?;
    let mut forks = Vec::new();
    while let Some(row) = found.next()? {
        let key: i64 = row.get(0)?;
        let (id, seq) = rows::split(key);
        let damage = |what| {
            let run = connection.query_row("SELECT run FROM run WHERE id = ?1", [id], |row| row.get(0));
            let run = RunId::from_bytes(run.unwrap_or_default());
            Fault::Refused(ReadError::Damaged(Damage { run, seq, what, intact: seq }))
        };
        let row = rows::load(connection, row)?.map_err(damage)?;
        // An erased fork needs its source no longer: it cannot be replayed.
        let Some(body) = row.body else { continue };
        match decode_body(&body) {
            Ok(Body::Forked { run, .. } | Body::Adopted { run, .. }) => forks.push((key, run)),
            _ => return Err(damage(Flaw::Kind)),
        }
    }
    Ok(forks)
}

/// Counts what goes with these runs.
fn account(connection: &Connection, doomed: &BTreeMap<i64, SessionKey>) -> Result<GcReport, rusqlite::Error> {
    let mut report = GcReport { runs: doomed.len() as u64, ..GcReport::default() };
    let gone = |record: i64| doomed.contains_key(&rows::split(record).0);
    for id in doomed.keys() {
        let (first, last) = rows::keys(*id, 0);
        let (records, bytes): (i64, i64) = connection
            .prepare_cached(
                "SELECT count(*), coalesce(sum(length(body)), 0) FROM record WHERE key BETWEEN ?1 AND ?2",
            )?
            .query_row([first, last], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let snapshot: Option<i64> = connection
            .prepare_cached("SELECT length(state) FROM snapshot WHERE run = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        report.records += records.cast_unsigned();
        report.snapshots += u64::from(snapshot.is_some());
        report.bytes += (bytes + snapshot.unwrap_or_default()).cast_unsigned();
    }
    // Records that an interrupted pruning left.
    let mut left = connection
        .prepare("SELECT doomed.run FROM doomed LEFT JOIN run ON run.id = doomed.run WHERE run.id IS NULL")?;
    let left: BTreeSet<i64> = left.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for id in &left {
        let (first, last) = rows::keys(*id, 0);
        let (records, bytes): (i64, i64) = connection.query_row(
            "SELECT count(*), coalesce(sum(length(body)), 0) FROM record WHERE key BETWEEN ?1 AND ?2",
            [first, last],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        report.records += records.cast_unsigned();
        report.bytes += bytes.cast_unsigned();
    }
    let gone = |record: i64| gone(record) || left.contains(&rows::split(record).0);
    let mut statement = connection.prepare("SELECT digest, length(bytes) FROM blob")?;
    let mut blobs = statement.query([])?;
    while let Some(row) = blobs.next()? {
        let mut users = connection.prepare_cached("SELECT record FROM reference WHERE digest = ?1")?;
        let mut users = users.query([row.get::<_, Vec<u8>>(0)?])?;
        let mut used = false;
        while let Some(user) = users.next()?
            && !used
        {
            used = !gone(user.get(0)?);
        }
        if !used {
            report.files += 1;
            report.bytes += row.get::<_, i64>(1)?.cast_unsigned();
        }
    }
    let mut statement = connection.prepare("SELECT digest, length(json) FROM config")?;
    let mut configs = statement.query([])?;
    while let Some(row) = configs.next()? {
        let mut users = connection.prepare_cached("SELECT id FROM run WHERE config = ?1")?;
        let mut users = users.query([row.get::<_, Vec<u8>>(0)?])?;
        let mut used = false;
        while let Some(user) = users.next()?
            && !used
        {
            used = !doomed.contains_key(&user.get(0)?);
        }
        if !used {
            report.configs += 1;
            report.bytes += row.get::<_, i64>(1)?.cast_unsigned();
        }
    }
    Ok(report)
}

/// What a pruning does next.
#[derive(Debug)]
pub(super) struct Work {
    options: GcOptions,
    plan: Plan,
    stage: Stage,
    pub(super) report: GcReport,
}

#[derive(Debug, Default)]
enum Stage {
    /// Records of runs that are gone.
    #[default]
    Rest,
    Runs,
    /// Files, after the one in this row.
    Files(i64),
    /// Configurations, after the one with this digest.
    Configs(Vec<u8>),
    Done,
}

impl Work {
    pub(super) fn new(options: GcOptions, plan: Plan) -> Self {
        Self { options, plan, stage: Stage::default(), report: GcReport::default() }
    }

    /// Does one transaction's worth. Says whether there is more.
    pub(super) fn perform(&mut self, connection: &Connection) -> Result<bool, Fault<GcError>> {
        self.stage = match std::mem::take(&mut self.stage) {
            Stage::Rest => {
                if self.delete_rest(connection)? {
                    Stage::Rest
                } else {
                    Stage::Runs
                }
            }
            Stage::Runs => {
                self.delete_runs(connection)?;
                if self.plan.runs.is_empty() { Stage::Files(i64::MIN) } else { Stage::Rest }
            }
            Stage::Files(after) => match self.delete_files(connection, after)? {
                Some(last) => Stage::Files(last),
                None => Stage::Configs(Vec::new()),
            },
            Stage::Configs(after) => match self.delete_configs(connection, &after)? {
                Some(last) => Stage::Configs(last),
                None => Stage::Done,
            },
            Stage::Done => Stage::Done,
        };
        Ok(!matches!(self.stage, Stage::Done))
    }

    fn delete_rest(&mut self, connection: &Connection) -> Result<bool, rusqlite::Error> {
        let id: Option<i64> = connection
            .prepare_cached(
                "SELECT doomed.run FROM doomed LEFT JOIN run ON run.id = doomed.run WHERE run.id IS NULL LIMIT 1",
            )?
            .query_row([], |row| row.get(0))
            .optional()?;
        let Some(id) = id else { return Ok(false) };
        if self.delete_records(connection, id, &mut Room::new())? {
            connection.prepare_cached("DELETE FROM doomed WHERE run = ?1")?.execute([id])?;
        }
        Ok(true)
    }

    fn delete_runs(&mut self, connection: &Connection) -> Result<(), Fault<GcError>> {
        let before = before(&self.options);
        let mut needed = BTreeSet::new();
        for (_, source) in forks(connection, self.plan.last_fork).map_err(Fault::within)? {
            needed.extend(session_of(connection, source)?.map(|(_, session)| session));
        }
        let mut room = Room::new();
        while !room.is_empty()
            && let Some(id) = self.plan.runs.pop()
        {
            let session: Option<SessionKey> = connection
                .prepare_cached(
                    "SELECT tenant, session FROM run
                     WHERE id = ?1 AND (status >= 2 OR origin IS NOT NULL) AND updated_at < ?2",
                )?
                .query_row(params![id, before], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some(session) = session else { continue };
            // What came since the plan was made.
            if needed.contains(&session) || goes_on(connection, &session, before)? {
                continue;
            }
            self.delete_run(connection, id, &mut room)?;
        }
        Ok(())
    }

    /// Deletes a run and as many of its records as there is room for; the rest of them are left for later.
    fn delete_run(
        &mut self,
        connection: &Connection,
        id: i64,
        room: &mut Room,
    ) -> Result<(), rusqlite::Error> {
        let snapshot: Option<i64> = connection
            .prepare_cached("DELETE FROM snapshot WHERE run = ?1 RETURNING length(state)")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        self.report.snapshots += u64::from(snapshot.is_some());
        let bytes = snapshot.unwrap_or_default().cast_unsigned();
        self.report.bytes += bytes;
        room.take(bytes);
        connection.prepare_cached("DELETE FROM inbox WHERE run = ?1")?.execute([id])?;
        connection.prepare_cached("DELETE FROM run WHERE id = ?1")?.execute([id])?;
        self.report.runs += 1;
        if !self.delete_records(connection, id, room)? {
            connection.prepare_cached("INSERT INTO doomed (run) VALUES (?1)")?.execute([id])?;
        }
        Ok(())
    }

    /// Deletes the first records of a run, as many as there is room for, with the files that only they use. Says
    /// whether none is left.
    fn delete_records(
        &mut self,
        connection: &Connection,
        id: i64,
        room: &mut Room,
    ) -> Result<bool, rusqlite::Error> {
        let (first, end) = rows::keys(id, 0);
        let mut last = first - 1;
        let all = {
            let mut statement = connection.prepare_cached(
                "SELECT key, coalesce(length(body), 0)
                    + (SELECT coalesce(sum(length(bytes)), 0) FROM reference JOIN blob USING (digest)
                       WHERE reference.record = record.key)
                 FROM record WHERE key BETWEEN ?1 AND ?2 ORDER BY key",
            )?;
            let mut found = statement.query([first, end])?;
            loop {
                let Some(row) = found.next()? else { break true };
                if room.is_empty() {
                    break false;
                }
                last = row.get(0)?;
                room.take(row.get::<_, i64>(1)?.cast_unsigned());
            }
        };
        let last = if all { end } else { last };
        let mut files = BTreeSet::new();
        drop_references(connection, first, last, &mut files)?;
        let dropped = delete_all_unused(connection, &files)?;
        self.report.files += dropped.files;
        self.report.bytes += dropped.bytes;
        let bytes: i64 = connection
            .prepare_cached("SELECT coalesce(sum(length(body)), 0) FROM record WHERE key BETWEEN ?1 AND ?2")?
            .query_row([first, last], |row| row.get(0))?;
        let deleted = connection
            .prepare_cached("DELETE FROM record WHERE key BETWEEN ?1 AND ?2")?
            .execute([first, last])?;
        self.report.bytes += bytes.cast_unsigned();
        self.report.records += deleted as u64;
        Ok(all)
    }

    fn delete_files(&mut self, connection: &Connection, after: i64) -> Result<Option<i64>, rusqlite::Error> {
        let files = connection
            .prepare_cached("SELECT rowid, digest FROM blob WHERE rowid > ?1 ORDER BY rowid LIMIT ?2")?
            .query_map(params![after, BATCH as i64], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
            })?
            .collect::<Result<Vec<_>, _>>()?;
        let (mut room, mut last) = (Room::new(), None);
        for (rowid, digest) in files {
            if room.is_empty() {
                break;
            }
            let deleted = delete_unused(connection, &digest)?;
            self.report.files += u64::from(deleted.is_some());
            self.report.bytes += deleted.unwrap_or_default();
            room.take(deleted.unwrap_or_default());
            last = Some(rowid);
        }
        Ok(last)
    }

    fn delete_configs(
        &mut self,
        connection: &Connection,
        after: &[u8],
    ) -> Result<Option<Vec<u8>>, rusqlite::Error> {
        let configs = connection
            .prepare_cached("SELECT digest FROM config WHERE digest > ?1 ORDER BY digest LIMIT ?2")?
            .query_map(params![after, BATCH as i64], |row| row.get::<_, Vec<u8>>(0))?
            .collect::<Result<Vec<_>, _>>()?;
        let (mut room, mut last) = (Room::new(), None);
        for digest in configs {
            if room.is_empty() {
                break;
            }
            let deleted: Option<i64> = connection
                .prepare_cached(
                    "DELETE FROM config WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM run WHERE run.config = ?1)
                     RETURNING length(json)",
                )?
                .query_row([&digest], |row| row.get(0))
                .optional()?;
            let bytes = deleted.unwrap_or_default().cast_unsigned();
            self.report.configs += u64::from(deleted.is_some());
            self.report.bytes += bytes;
            room.take(bytes);
            last = Some(digest);
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use dalsegno_core::Timestamp;

    use super::*;

    /// Row counts of what a pruning deletes.
    fn left(connection: &Connection) -> [i64; 3] {
        ["record", "blob", "config"].map(|table| {
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
        })
    }

    #[test]
    fn no_transaction_of_a_pruning_deletes_much_more_than_its_share() {
        const LARGE: i64 = 512 << 10;
        let folder = tempfile::tempdir().unwrap();
        let connection = super::super::open::open_writer(&folder.path().join("journal.db")).unwrap();
        // Records with large bodies, records with large files, files of nobody, configurations of nobody.
        let fill = format!(
            "INSERT INTO doomed (run) VALUES (1);
             WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 29)
             INSERT INTO record (key, at, kind, form, body, checksum, link)
                SELECT (1 << 32) + n, 1, 4, 0, zeroblob(iif(n < 15, {LARGE}, 1)), x'', x'' FROM n;
             WITH RECURSIVE n(n) AS (SELECT 15 UNION ALL SELECT n + 1 FROM n WHERE n < 44)
             INSERT INTO blob (digest, form, bytes) SELECT CAST(n AS BLOB), 0, zeroblob({LARGE}) FROM n;
             INSERT INTO reference (record, place, digest)
                SELECT key, 0, CAST(key - (1 << 32) AS BLOB) FROM record WHERE length(body) = 1;
             WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2500)
             INSERT INTO config (digest, json, checksum)
                SELECT CAST(n AS BLOB), iif(n < 20, hex(zeroblob({LARGE} / 2)), '{{}}'), x'' FROM n;"
        );
        connection.execute_batch(&fill).unwrap();
        assert_eq!(left(&connection), [30, 30, 2500]);
        let mut work = Work::new(GcOptions::new(Timestamp::from_millis(0)), Plan::default());
        let (mut steps, mut before) = (0, left(&connection));
        let most = i64::try_from(BATCH_BYTES).unwrap() / LARGE + 1;
        while work.perform(&connection).unwrap_or_else(|_| panic!("a step failed")) {
            let after = left(&connection);
            let [records, files, configs] = [0, 1, 2].map(|table| before[table] - after[table]);
            assert!(records <= most && files <= most && configs <= 1_000, "{before:?} {after:?}");
            steps += 1;
            before = after;
        }
        assert_eq!(left(&connection), [0, 0, 0]);
        let GcReport { records, files, configs, bytes, .. } = work.report;
        assert_eq!((records, files, configs), (30, 30, 2500));
        assert_eq!(bytes, (15 + 30 + 19) * LARGE.cast_unsigned() + 15 + 2 * (2500 - 19));
        assert!(steps >= 4 + 2 + 4, "{steps} steps");
    }
}
