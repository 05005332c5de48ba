//! Pruning the file: a plan from one read transaction, then many short write transactions.
//!
//! What belongs together is a session: its runs go on from one another and perform one another's operations. So it goes
//! whole or stays whole, and a fork in another session keeps the one that it was taken from.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, params};
use segno_core::RunId;

use super::erase::{delete_unused, drop_references};
use super::{Fault, rows};
use crate::codec::decode_body;
use crate::error::{Damage, Flaw, ReadError};
use crate::gc::{GcError, GcOptions, GcReport};
use crate::record::Body;

/// Most records that one transaction deletes: some milliseconds, so that nobody waits long.
const BATCH: usize = 1_000;

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

type Session = (String, String);

/// Finds what may be deleted.
pub(super) fn plan(connection: &Connection, options: &GcOptions) -> Result<Plan, Fault<ReadError>> {
    let before = options.before.as_millis().cast_signed();
    let mut sessions: BTreeMap<Session, Vec<i64>> = BTreeMap::new();
    let mut doomed: BTreeMap<i64, Session> = BTreeMap::new();
    {
        let mut statement = connection.prepare(
            "SELECT id, tenant, session FROM run INDEXED BY run_ended WHERE status >= 2 AND updated_at < ?1",
        )?;
        let mut rows = statement.query([before])?;
        while let Some(row) = rows.next()? {
            let (id, session): (i64, Session) = (row.get(0)?, (row.get(1)?, row.get(2)?));
            sessions.entry(session.clone()).or_default().push(id);
            doomed.insert(id, session);
        }
    }
    let mut kept: BTreeSet<Session> = BTreeSet::new();
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

fn session_of(connection: &Connection, run: RunId) -> Result<Option<(i64, Session)>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT id, tenant, session FROM run WHERE run = ?1")?
        .query_row([run.as_bytes()], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))
        .optional()
}

/// Says whether a session has a run that goes on or that is too young.
fn goes_on(connection: &Connection, session: &Session, before: i64) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM run WHERE session = ?2 AND tenant = ?1
                AND NOT (status >= 2 AND updated_at < ?3))",
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
fn forks(connection: &Connection, after: i64) -> Result<Vec<(i64, RunId)>, Fault<ReadError>> {
    let sql = format!(
        "SELECT {} FROM record INDEXED BY record_forked WHERE kind = 9 AND key > ?1 ORDER BY key",
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
            Ok(Body::Forked { run, .. }) => forks.push((key, run)),
            _ => return Err(damage(Flaw::Kind)),
        }
    }
    Ok(forks)
}

/// Counts what goes with these runs.
fn account(connection: &Connection, doomed: &BTreeMap<i64, Session>) -> Result<GcReport, rusqlite::Error> {
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

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Records of runs that are gone.
    Rest,
    Runs,
    /// Files, after the one in this row.
    Files(i64),
    Configs,
    Done,
}

impl Work {
    pub(super) fn new(options: GcOptions, plan: Plan) -> Self {
        Self { options, plan, stage: Stage::Rest, report: GcReport::default() }
    }

    /// Does one transaction's worth. Says whether there is more.
    pub(super) fn perform(&mut self, connection: &Connection) -> Result<bool, Fault<GcError>> {
        self.stage = match self.stage {
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
                None => Stage::Configs,
            },
            Stage::Configs => {
                self.delete_configs(connection)?;
                Stage::Done
            }
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
        if self.delete_records(connection, id, BATCH)? < BATCH {
            connection.prepare_cached("DELETE FROM doomed WHERE run = ?1")?.execute([id])?;
        }
        Ok(true)
    }

    fn delete_runs(&mut self, connection: &Connection) -> Result<(), Fault<GcError>> {
        let before = self.options.before.as_millis().cast_signed();
        let mut needed = BTreeSet::new();
        for (_, source) in forks(connection, self.plan.last_fork).map_err(Fault::within)? {
            needed.extend(session_of(connection, source)?.map(|(_, session)| session));
        }
        let mut room = BATCH;
        while room > 0
            && let Some(id) = self.plan.runs.pop()
        {
            let session: Option<Session> = connection
                .prepare_cached(
                    "SELECT tenant, session FROM run WHERE id = ?1 AND status >= 2 AND updated_at < ?2",
                )?
                .query_row(params![id, before], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some(session) = session else { continue };
            // What came since the plan was made.
            if needed.contains(&session) || goes_on(connection, &session, before)? {
                continue;
            }
            room = room.saturating_sub(self.delete_run(connection, id, room)?.max(1));
        }
        Ok(())
    }

    /// Deletes a run and at most so many of its records; the rest of them are left for later.
    fn delete_run(
        &mut self,
        connection: &Connection,
        id: i64,
        room: usize,
    ) -> Result<usize, rusqlite::Error> {
        let snapshot: Option<i64> = connection
            .prepare_cached("DELETE FROM snapshot WHERE run = ?1 RETURNING length(state)")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        self.report.snapshots += u64::from(snapshot.is_some());
        self.report.bytes += snapshot.unwrap_or_default().cast_unsigned();
        connection.prepare_cached("DELETE FROM inbox WHERE run = ?1")?.execute([id])?;
        connection.prepare_cached("DELETE FROM run WHERE id = ?1")?.execute([id])?;
        self.report.runs += 1;
        let deleted = self.delete_records(connection, id, room)?;
        if deleted == room {
            connection.prepare_cached("INSERT INTO doomed (run) VALUES (?1)")?.execute([id])?;
        }
        Ok(deleted)
    }

    fn delete_records(
        &mut self,
        connection: &Connection,
        id: i64,
        most: usize,
    ) -> Result<usize, rusqlite::Error> {
        let (first, end) = rows::keys(id, 0);
        let last: Option<i64> = connection
            .prepare_cached(
                "SELECT key FROM record WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT 1 OFFSET ?3",
            )?
            .query_row(params![first, end, most as i64 - 1], |row| row.get(0))
            .optional()?;
        let last = last.unwrap_or(end);
        let dropped = drop_references(connection, first, last)?;
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
        Ok(deleted)
    }

    fn delete_files(&mut self, connection: &Connection, after: i64) -> Result<Option<i64>, rusqlite::Error> {
        let files = connection
            .prepare_cached("SELECT rowid, digest FROM blob WHERE rowid > ?1 ORDER BY rowid LIMIT ?2")?
            .query_map(params![after, BATCH as i64], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
            })?
            .collect::<Result<Vec<_>, _>>()?;
        for (_, digest) in &files {
            if let Some(bytes) = delete_unused(connection, digest)? {
                self.report.files += 1;
                self.report.bytes += bytes;
            }
        }
        Ok(files.last().map(|(rowid, _)| *rowid))
    }

    fn delete_configs(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let mut statement = connection.prepare_cached(
            "DELETE FROM config WHERE NOT EXISTS (SELECT 1 FROM run WHERE run.config = config.digest)
             RETURNING length(json)",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.report.configs += 1;
            self.report.bytes += row.get::<_, i64>(0)?.cast_unsigned();
        }
        Ok(())
    }
}
