//! What a worker may take: found by indexes that hold only such runs, however many others there are.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};
use segno_core::{RunId, Timestamp};

use super::Fault;
use super::read::bytes;
use crate::error::ReadError;
use crate::owner::{Owner, OwnerId, Witness};
use crate::run::RunStatus;

/// The next owner of runs that go on.
const NEXT_OWNER: &str =
    "SELECT owner FROM run INDEXED BY run_owner WHERE status = 0 AND owner > ?1 ORDER BY owner LIMIT 1";
/// The runs that go on and that this owner, or nobody, has.
const RUNS_OF: &str = "SELECT run FROM run INDEXED BY run_owner WHERE status = 0 AND owner IS ?1 LIMIT ?2";
/// The suspended runs whose time has come.
const DUE: &str = "SELECT run, owner FROM run WHERE wake_at <= ?1 ORDER BY wake_at";
/// The earliest of those times.
const NEXT_WAKE: &str = "SELECT min(wake_at) FROM run WHERE wake_at IS NOT NULL";
/// The next run with messages.
const NEXT_INBOX: &str = "SELECT run FROM inbox WHERE run > ?1 ORDER BY run LIMIT 1";

/// Finds runs that nobody living owns and that can go on.
pub(super) fn takeable(
    connection: &Connection,
    owner: &Owner,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<RunId>, Fault<ReadError>> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut witness = Witness::new(owner);
    let mut found = BTreeSet::new();
    runs_of(connection, None, limit, &mut found)?;
    let mut last: Vec<u8> = Vec::new();
    while found.len() < limit {
        let next: Option<Vec<u8>> =
            connection.prepare_cached(NEXT_OWNER)?.query_row([&last], |row| row.get(0)).optional()?;
        let Some(next) = next else { break };
        // Of an owner whose id is damaged nobody knows whether it lives, so it does.
        if let Ok(id) = next.as_slice().try_into()
            && !witness.sees_alive(OwnerId::from_bytes(id))
        {
            runs_of(connection, Some(&next), limit - found.len(), &mut found)?;
        }
        last = next;
    }
    let by = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(DUE)?;
    let mut due = statement.query([by])?;
    while found.len() < limit
        && let Some(row) = due.next()?
    {
        found.extend(bytes(row.get_ref(0)?).map(RunId::from_bytes).filter(|_| free(row, 1, &mut witness)));
    }
    let mut last = i64::MIN;
    while found.len() < limit {
        let next = connection.prepare_cached(NEXT_INBOX)?.query_row([last], |row| row.get(0)).optional()?;
        let Some(next) = next else { break };
        connection
            .prepare_cached("SELECT run, owner FROM run WHERE id = ?1 AND status = ?2")?
            .query_row(params![next, RunStatus::Suspended as u8], |row| {
                let run = bytes(row.get_ref(0)?).map(RunId::from_bytes);
                found.extend(run.filter(|_| free(row, 1, &mut witness)));
                Ok(())
            })
            .optional()?;
        last = next;
    }
    Ok(found.into_iter().collect())
}

fn runs_of(
    connection: &Connection,
    owner: Option<&[u8]>,
    limit: usize,
    found: &mut BTreeSet<RunId>,
) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare_cached(RUNS_OF)?;
    let mut rows = statement.query(params![owner, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    while let Some(row) = rows.next()? {
        found.extend(bytes(row.get_ref(0)?).map(RunId::from_bytes));
    }
    Ok(())
}

/// Says whether nobody living owns the run of this row.
fn free(row: &rusqlite::Row<'_>, column: usize, witness: &mut Witness<'_>) -> bool {
    match row.get::<_, Option<[u8; 16]>>(column) {
        Ok(owner) => owner.is_none_or(|owner| !witness.sees_alive(OwnerId::from_bytes(owner))),
        Err(_) => false,
    }
}

/// Finds the time at which the first suspended run wakes.
pub(super) fn next_wake(connection: &Connection) -> Result<Option<Timestamp>, Fault<ReadError>> {
    let found: Option<i64> = connection.prepare_cached(NEXT_WAKE)?.query_row([], |row| row.get(0))?;
    Ok(found.map(|at| Timestamp::from_millis(at.cast_unsigned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_question_of_a_worker_looks_at_runs_that_are_not_its_answer() {
        let folder = tempfile::tempdir().unwrap();
        let connection = super::super::open::open_writer(&folder.path().join("journal.db")).unwrap();
        for sql in [NEXT_OWNER, RUNS_OF, DUE, NEXT_WAKE, NEXT_INBOX] {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let parameters = vec![rusqlite::types::Value::Integer(1); statement.parameter_count()];
            let plan = statement
                .query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>(3))
                .unwrap()
                .collect::<Result<Vec<_>, _>>()
                .unwrap();
            let searches = plan.iter().all(|step| {
                step.starts_with("SEARCH") && step.contains("INDEX") || step.contains("PRIMARY KEY")
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
