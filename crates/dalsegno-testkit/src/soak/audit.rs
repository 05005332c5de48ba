//! Whether a run that has ended kept every promise.

use dalsegno_core::{EffectClass, FailureCode, Outcome, Request, RunId};
use dalsegno_history::{Inspection, Journal, OperationView};
use dalsegno_store::RunFilter;

use super::book::{Family, hash_of};

/// What was found in a run and those below it.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) broken: Vec<String>,
    pub(super) steps: u64,
    /// How each of them ended.
    pub(super) ended: Vec<String>,
    /// How many records each of them has.
    pub(super) records: Vec<(RunId, u64)>,
}

/// Compares what the journals say with what was told, and with what took place. The family has ended.
pub(super) async fn audit(reader: &Journal, family: &Family) -> Found {
    let mut found = Found::default();
    for run in &family.runs {
        match reader.replay(*run).await {
            Ok(replay) if replay.identical => {}
            Ok(replay) => found.broken.push(format!("run {run} does not replay: {:?}", replay.divergence)),
            Err(error) => found.broken.push(format!("run {run} cannot be replayed: {error}: {error:?}")),
        }
        match reader.inspect(*run, None).await {
            Ok(inspection) => inspect(family, *run, &inspection, &mut found),
            Err(error) => found.broken.push(format!("run {run} cannot be inspected: {error}: {error:?}")),
        }
    }
    found
}

fn inspect(family: &Family, run: RunId, inspection: &Inspection, found: &mut Found) {
    found.steps += inspection.state.step();
    found.records.push((run, inspection.records.len() as u64));
    found.ended.push(inspection.summary.status.to_string());
    if !inspection.summary.status.is_end() {
        found.broken.push(format!("run {run} is left behind by its parent: {}", inspection.summary.status));
    }
    for ((_, seq), hash) in family.told.range((run, 0)..=(run, u64::MAX)) {
        let record = inspection.records.iter().find(|record| record.seq == *seq);
        if record.is_none_or(|record| hash_of(&record.body) != *hash) {
            found.broken.push(format!("run {run}: record {seq} was told and is not in the journal"));
        }
    }
    for operation in inspection.steps.iter().flat_map(|step| &step.operations) {
        if let Some(what) = took_place_as_told(family, operation) {
            let id = operation.operation;
            let records = inspection.records.iter().filter(|record| record.operation == Some(id));
            let words: Vec<String> = records.map(|record| format!("{:?}", record.body)).collect();
            found.broken.push(format!("run {run}, operation {id}: {what}; {}", words.join("; ")));
        }
    }
}

/// How a run and its children stand, in words.
pub(super) async fn standing(reader: &Journal, run: RunId) -> String {
    let children = RunFilter { parent: Some(run), ..RunFilter::default() };
    let below = reader.runs(&children).await.map(|runs| {
        let words: Vec<String> =
            runs.iter().map(|child| format!("{} {}", child.agent, child.status)).collect();
        words.join(", ")
    });
    match (reader.inspect(run, None).await, below) {
        (Ok(Inspection { summary, waiting, .. }), Ok(below)) => format!(
            "run {run} is {}, says that it waits for {:?}, waits for {} answers, wakes at {:?}, has the children [{below}]",
            summary.status,
            summary.waiting,
            waiting.len(),
            summary.wake_at,
        ),
        (Err(error), _) | (_, Err(error)) => format!("run {run} cannot be inspected: {error}: {error:?}"),
    }
}

/// Compares an operation's outcome with how often it took place.
fn took_place_as_told(family: &Family, operation: &OperationView) -> Option<String> {
    let Request::ToolCall(call) = &operation.request else { return None };
    let line = family.lines.get(&operation.operation);
    let effects = line.map_or(0, |line| line.effects);
    let class = super::agents::TOOLS.iter().find(|(name, _)| *name == call.tool_name.as_str())?.1;
    let outcome = operation.outcome.as_ref();
    let told = match (class, outcome) {
        (EffectClass::Keyed | EffectClass::Unsafe, Some(Outcome::ToolReturned(returned)))
            if !returned.is_error =>
        {
            effects == 1
        }
        (EffectClass::Unsafe, Some(Outcome::ToolReturned(_))) => effects == 0,
        (EffectClass::Keyed | EffectClass::Unsafe, Some(Outcome::Failed(failure)))
            if failure.code != FailureCode::Indeterminate =>
        {
            effects == 0
        }
        (_, None) => false,
        _ => true,
    };
    (!told)
        .then(|| format!("`{}` took place {effects} times, and its outcome is {outcome:?}", call.tool_name))
}
