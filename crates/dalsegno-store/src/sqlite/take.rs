//! What a worker may take: found by indexes that hold only such runs, however many others there are. A foreign run is in
//! none of them.

use dalsegno_core::{RunId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::Fault;
use super::inbox;
use super::read::bytes;
use crate::error::ReadError;
use crate::owner::{Owner, OwnerId, Witness};
use crate::run::RunStatus;
use crate::shares::deal;

/// The next owner of runs that go on.
const NEXT_OWNER: &str = "SELECT owner FROM run INDEXED BY run_owner WHERE status = 0 AND origin IS NULL AND owner > ?1 ORDER BY owner LIMIT 1";
/// The runs that go on and that this owner, or nobody, has, the oldest first.
const RUNS_OF: &str = "SELECT run FROM run INDEXED BY run_owner WHERE status = 0 AND origin IS NULL AND owner IS ?1 ORDER BY id LIMIT ?2";
/// The next owner of runs that are suspended, or have ended and leave something in doubt.
const NEXT_HOLDER: &str = "SELECT owner FROM run INDEXED BY run_held
     WHERE owner IS NOT NULL AND (status = 1 OR status >= 2 AND waiting <> 0) AND owner > ?1 ORDER BY owner LIMIT 1";
/// Such runs of this owner.
const HELD_BY: &str = "SELECT run FROM run INDEXED BY run_held
     WHERE owner IS NOT NULL AND (status = 1 OR status >= 2 AND waiting <> 0) AND owner = ?1 ORDER BY id LIMIT ?2";
/// The suspended runs whose time has come, the one that has waited longest first.
const DUE: &str = "SELECT run, owner FROM run WHERE wake_at <= ?1 AND origin IS NULL ORDER BY wake_at";
/// The earliest time of them that is still to come.
const NEXT_WAKE: &str = "SELECT min(wake_at) FROM run WHERE wake_at > ?1 AND origin IS NULL";
/// The next run with messages.
const NEXT_INBOX: &str = "SELECT run FROM inbox WHERE run > ?1 ORDER BY run LIMIT 1";
/// That run, if it is suspended.
const WAITING: &str = "SELECT run, owner FROM run WHERE id = ?1 AND status = ?2 AND origin IS NULL";

/// Finds runs that nobody living owns and that can go on: of each cause the first ones, dealt in turn.
pub(super) fn takeable(
    connection: &Connection,
    owner: &Owner,
    now: Timestamp,
    turn: usize,
    limit: u32,
) -> Result<Vec<RunId>, Fault<ReadError>> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut witness = Witness::new(owner);
    let causes = [
        runs_of(connection, RUNS_OF, None, limit)?,
        left_by_the_dead(connection, &mut witness, limit)?,
        due(connection, &mut witness, now, limit)?,
        called(connection, &mut witness, limit)?,
    ];
    Ok(deal(causes, turn, limit))
}

/// The runs that a question finds for this owner, or for those that have none.
fn runs_of(
    connection: &Connection,
    question: &str,
    owner: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<RunId>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(question)?;
    let mut rows = statement.query(params![owner, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(bytes(row.get_ref(0)?).map(RunId::from_bytes));
    }
    Ok(found)
}

/// Runs whose owner is dead: those that go on, then those that it had suspended or ended and did not release.
fn left_by_the_dead(
    connection: &Connection,
    witness: &mut Witness<'_>,
    limit: usize,
) -> Result<Vec<RunId>, rusqlite::Error> {
    let mut found = Vec::new();
    for (next_owner, runs) in [(NEXT_OWNER, RUNS_OF), (NEXT_HOLDER, HELD_BY)] {
        let mut last = Vec::new();
        while found.len() < limit {
            let next: Option<Vec<u8>> =
                connection.prepare_cached(next_owner)?.query_row([&last], |row| row.get(0)).optional()?;
            let Some(next) = next else { break };
            // Of an owner whose id is damaged nobody knows whether it lives, so it does.
            if let Ok(id) = next.as_slice().try_into()
                && !witness.sees_alive(OwnerId::from_bytes(id))
            {
                found.extend(runs_of(connection, runs, Some(&next), limit - found.len())?);
            }
            last = next;
        }
    }
    Ok(found)
}

/// Suspended runs whose time has come.
fn due(
    connection: &Connection,
    witness: &mut Witness<'_>,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<RunId>, rusqlite::Error> {
    let by = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(DUE)?;
    let mut rows = statement.query([by])?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        found.extend(bytes(row.get_ref(0)?).map(RunId::from_bytes).filter(|_| free(row, 1, witness)));
    }
    Ok(found)
}

/// Suspended runs for which messages wait that can be read. With another one a run could do nothing, and would be found
/// again at once.
fn called(
    connection: &Connection,
    witness: &mut Witness<'_>,
    limit: usize,
) -> Result<Vec<RunId>, rusqlite::Error> {
    let (mut found, mut last) = (Vec::new(), i64::MIN);
    while found.len() < limit {
        let next = connection.prepare_cached(NEXT_INBOX)?.query_row([last], |row| row.get(0)).optional()?;
        let Some(next) = next else { break };
        let run = connection
            .prepare_cached(WAITING)?
            .query_row(params![next, RunStatus::Suspended as u8], |row| {
                Ok(bytes(row.get_ref(0)?).map(RunId::from_bytes).filter(|_| free(row, 1, witness)))
            })
            .optional()?
            .flatten();
        if let Some(run) = run
            && inbox::has_readable(connection, run, next)?
        {
            found.push(run);
        }
        last = next;
    }
    Ok(found)
}

/// Says whether nobody living owns the run of this row.
fn free(row: &rusqlite::Row<'_>, column: usize, witness: &mut Witness<'_>) -> bool {
    match row.get::<_, Option<[u8; 16]>>(column) {
        Ok(owner) => owner.is_none_or(|owner| !witness.sees_alive(OwnerId::from_bytes(owner))),
        Err(_) => false,
    }
}

/// Finds the first time after this one at which a suspended run wakes.
pub(super) fn next_wake(
    connection: &Connection,
    after: Timestamp,
) -> Result<Option<Timestamp>, Fault<ReadError>> {
    let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
    let found: Option<i64> = connection.prepare_cached(NEXT_WAKE)?.query_row([after], |row| row.get(0))?;
    Ok(found.map(|at| Timestamp::from_millis(at.cast_unsigned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_question_of_a_worker_looks_at_runs_that_are_not_its_answer() {
        let folder = tempfile::tempdir().unwrap();
        let connection = super::super::open::open_writer(&folder.path().join("journal.db")).unwrap();
        for sql in [
            NEXT_OWNER,
            RUNS_OF,
            NEXT_HOLDER,
            HELD_BY,
            DUE,
            NEXT_WAKE,
            NEXT_INBOX,
            WAITING,
            inbox::OPEN_CHILDREN,
        ] {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let parameters = vec![rusqlite::types::Value::Integer(1); statement.parameter_count()];
            let plan = statement
                .query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>(3))
                .unwrap()
                .collect::<Result<Vec<_>, _>>()
                .unwrap();
            let searches = plan.iter().all(|step| {
                step.starts_with("SEARCH") && (step.contains("INDEX") || step.contains("PRIMARY KEY"))
            });
            assert!(searches, "{sql}: {plan:?}");
        }
        for kind in crate::Waiting::ALL {
            let sql = format!(
                "EXPLAIN QUERY PLAN SELECT run FROM run WHERE waiting & {} ORDER BY id DESC",
                *kind as u8
            );
            let plan: String = connection.query_row(&sql, [], |row| row.get(3)).unwrap();
            assert!(plan.contains(&format!("run_waits_{kind}")), "{plan}");
        }
    }
}
