//! Finds the run or the operation that somebody means: by its id, the beginning of it, or as the last one.

use dalsegno_core::{AgentRequest, OperationId, RunId};
use dalsegno_history::{Inspection, Journal, WaitingOperation};
use dalsegno_memory::{Found, Memory, ScopeSet};
use dalsegno_runtime::{Engine, EngineError};
use dalsegno_store::RunFilter;
use dalsegno_workspace::Workspace;

use super::eval;
use super::journal::Kept;
use crate::error::{AN_OBSERVATION, AN_OPERATION, Error};
use crate::render::text::short;

/// The fewest digits that may stand for an id: with fewer, a slip would often name another run.
const FEWEST_DIGITS: usize = 4;

/// Candidates that an error lists.
const LISTED: usize = 8;

/// Finds a run.
pub(super) async fn run(journal: &Journal, given: &str) -> Result<RunId, Error> {
    if given == "last" {
        // A child run begins after its parent, but it is the parent that somebody started.
        let filter = RunFilter { limit: 1, roots_only: true, ..RunFilter::default() };
        let newest = journal.runs(&filter).await?;
        return newest.first().map(|summary| summary.run).ok_or(Error::NoRuns);
    }
    let expected = "4 to 32 hexadecimal digits, or `last`";
    let prefix =
        digits(given).ok_or_else(|| Error::NotAnId { given: shown(given), what: "a run id", expected })?;
    match journal.find_runs(&prefix).await?.as_slice() {
        [] => Err(Error::UnknownRun { given: prefix }),
        [run] => Ok(*run),
        several => {
            let found = several.iter().take(LISTED).map(ToString::to_string).collect();
            Err(Error::AmbiguousRun { given: prefix, found })
        }
    }
}

/// Finds a run in the journal of the workspace; one that it does not have, in those of evals.
pub(super) async fn run_anywhere(kept: Kept, given: &str) -> Result<(Journal, RunId), Error> {
    let Kept { journal, settings, .. } = kept;
    let unknown = match run(&journal, given).await {
        Ok(found) => return Ok((journal, found)),
        Err(error @ Error::UnknownRun { .. }) => error,
        Err(error) => return Err(error),
    };
    let folders = std::fs::read_dir(eval::folders(&settings.store)).into_iter().flatten().flatten();
    for folder in folders {
        let Ok(journal) = Journal::open(&folder.path().join("journal.db")).await else { continue };
        if let Ok(found) = run(&journal, given).await {
            return Ok((journal, found));
        }
    }
    Err(unknown)
}

/// Finds the run that goes on in a session of a tenant, by default of the one that runs have which name none.
pub(super) async fn open_in(engine: &Engine, session: &str, tenant: Option<&str>) -> Result<RunId, Error> {
    self::tenant(&engine.workspace(), engine.journal(), tenant).await?;
    let tenant = tenant.map_or_else(|| AgentRequest::text("").tenant, str::to_owned);
    let filter = RunFilter {
        session: Some(session.to_owned()),
        tenant: Some(tenant),
        roots_only: true,
        foreign: Some(false),
        ..RunFilter::default()
    };
    let open = engine.journal().runs(&filter).await?.into_iter().find(|run| !run.status.is_end());
    open.map(|run| run.run).ok_or_else(|| Error::NothingOpen { session: shown(session) })
}

/// Refuses a tenant that is none. One whose file was removed counts while the journal has runs of it.
pub(super) async fn tenant(
    workspace: &Workspace,
    journal: &Journal,
    name: Option<&str>,
) -> Result<(), Error> {
    let Some(name) = name else { return Ok(()) };
    let Err(error) = workspace.check_tenant(name) else { return Ok(()) };
    let filter = RunFilter { tenant: Some(name.to_owned()), limit: 1, ..RunFilter::default() };
    match journal.runs(&filter).await?.is_empty() {
        true => Err(EngineError::from(error).into()),
        false => Ok(()),
    }
}

/// Finds an operation among those that a run waits for.
pub(super) fn operation(run: RunId, given: &str, waiting: &[WaitingOperation]) -> Result<OperationId, Error> {
    let expected = "4 to 32 hexadecimal digits";
    let prefix =
        digits(given).ok_or_else(|| Error::NotAnId { given: shown(given), what: AN_OPERATION, expected })?;
    let fits = |operation: &&WaitingOperation| operation.operation.to_string().starts_with(&prefix);
    match waiting.iter().filter(fits).collect::<Vec<_>>().as_slice() {
        [] => {
            let waiting = waiting.iter().map(|operation| short(operation.operation)).collect();
            Err(Error::UnknownOperation { run: short(run), given: prefix, waiting })
        }
        [operation] => Ok(operation.operation),
        several => {
            let found = several.iter().map(|operation| operation.operation.to_string()).collect();
            Err(Error::AmbiguousOperation { given: prefix, found })
        }
    }
}

/// Finds an operation among all that a run has asked for.
pub(super) fn operation_of(inspection: &Inspection, given: &str) -> Result<OperationId, Error> {
    let expected = "4 to 32 hexadecimal digits";
    let what = AN_OPERATION;
    let prefix = digits(given).ok_or_else(|| Error::NotAnId { given: shown(given), what, expected })?;
    let all = inspection.steps.iter().flat_map(|step| &step.operations);
    let mut found: Vec<OperationId> = all
        .map(|operation| operation.operation)
        .filter(|operation| operation.to_string().starts_with(&prefix))
        .collect();
    found.dedup();
    match found.as_slice() {
        [] => Err(Error::NoSuchOperation { run: short(inspection.summary.run), given: prefix }),
        [operation] => Ok(*operation),
        several => {
            let found = several.iter().map(ToString::to_string).collect();
            Err(Error::AmbiguousOperation { given: prefix, found })
        }
    }
}

/// Finds an observation of the scope that is written.
pub(super) async fn observation(memory: &dyn Memory, scopes: &ScopeSet, given: &str) -> Result<Found, Error> {
    let (what, expected) = (AN_OBSERVATION, "4 to 32 hexadecimal digits");
    let prefix = digits(given).ok_or_else(|| Error::NotAnId { given: shown(given), what, expected })?;
    let mut found = memory.find(scopes, &prefix).await?;
    match found.len() {
        0 => Err(Error::NotInScope {
            what: format!("an observation whose id begins with `{prefix}`"),
            scope: scopes.written(),
        }),
        1 => Ok(found.remove(0)),
        _ => {
            let found = found.iter().take(LISTED).map(|one| one.observation.to_string()).collect();
            Err(Error::AmbiguousObservation { given: prefix, found })
        }
    }
}

/// Refuses a model that the workspace does not have, before a run asks it.
pub(super) fn model(engine: &Engine, name: &str) -> Result<(), Error> {
    let workspace = engine.workspace();
    let models = &workspace.settings.models;
    if models.contains_key(name) {
        return Ok(());
    }
    Err(Error::UnknownModel { name: shown(name), known: models.keys().map(ToString::to_string).collect() })
}

/// The hexadecimal digits of an id or of its beginning, in lower case.
fn digits(given: &str) -> Option<String> {
    let all_digits = given.bytes().all(|byte| byte.is_ascii_hexdigit());
    (all_digits && (FEWEST_DIGITS..=32).contains(&given.len())).then(|| given.to_ascii_lowercase())
}

/// What was given, cut to a length that fits an error.
fn shown(given: &str) -> String {
    crate::render::text::brief(given, 40)
}

#[cfg(test)]
mod tests {
    use dalsegno_core::Gate;

    use super::*;

    fn waiting(ids: &[[u8; 16]]) -> Vec<WaitingOperation> {
        let waiting = |id: &[u8; 16]| WaitingOperation {
            rule: None,
            run: RunId::from_bytes([0; 16]),
            operation: OperationId::from_bytes(*id),
            gate: Gate::Approval,
            question: "?".into(),
            tool: None,
            arguments: None,
            schema: None,
        };
        ids.iter().map(waiting).collect()
    }

    #[test]
    fn the_beginning_of_an_id_is_enough_when_it_is_unique() {
        let run = RunId::from_bytes([0; 16]);
        let mut near = [0xab; 16];
        near[15] = 0;
        let all = waiting(&[[0xab; 16], near, [0xcd; 16]]);
        assert_eq!(operation(run, "CDCD", &all).unwrap(), OperationId::from_bytes([0xcd; 16]));
        assert!(matches!(operation(run, "abab", &all), Err(Error::AmbiguousOperation { .. })));
        assert!(matches!(operation(run, "eeee", &all), Err(Error::UnknownOperation { .. })));
        assert!(matches!(operation(run, "cd", &all), Err(Error::NotAnId { .. })));
        assert!(matches!(operation(run, "wxyz", &all), Err(Error::NotAnId { .. })));
    }
}
