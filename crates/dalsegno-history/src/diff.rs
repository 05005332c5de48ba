//! Two runs side by side: where they part, and what is different from there on.

mod calls;

use serde::Serialize;
use serde_json::{Value, json};

use dalsegno_core::{AgentName, AgentState, Operation, Outcome, Pending, Reading, Request, RunId, Usage};
use dalsegno_store::{Body, RunStatus};

use crate::compare::{self, Change};
use crate::error::HistoryError;
use crate::fold::End;
use crate::journal::Journal;

/// Two runs side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunDiff {
    /// The first run.
    pub left: Side,
    /// The second run.
    pub right: Side,
    /// Whether both asked for the same, had the same outcomes and came to the same end; ids and times do not count.
    pub identical: bool,
    /// The first difference.
    pub first: Option<FirstDifference>,
    /// How the states differ when the next step after the first difference was asked for, or at the end.
    pub state: Vec<Change>,
    /// How the prompts differ of the first model call that is not the same.
    pub prompt: Option<PlaceDiff>,
    /// How the arguments differ of the first call of the same tool that is not the same.
    pub arguments: Option<PlaceDiff>,
}

/// One of two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// The run.
    #[serde(rename = "run_id")]
    pub run: RunId,
    /// Its agent.
    pub agent: AgentName,
    /// Where it stands.
    pub status: RunStatus,
    /// Its steps.
    pub steps: u64,
    /// What it used.
    pub usage: Usage,
    /// What it answered, or why it did not complete.
    pub end: Option<String>,
}

/// Where two runs part.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FirstDifference {
    /// The step.
    pub step: u64,
    /// The turn of a call, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// What differs: `request`, `outcome`, `decision` or `end`; between two calls `words`, `call`, `effect` or `end`.
    pub kind: &'static str,
    /// What it is about, such as ``tool `risk.score` ``.
    pub label: String,
    /// Each place that differs.
    pub changes: Vec<Change>,
}

/// The places at which two operations differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlaceDiff {
    /// The step.
    pub step: u64,
    /// What it is, such as ``tool `risk.score` ``.
    pub label: String,
    /// Each place that differs.
    pub changes: Vec<Change>,
}

/// What one run asked for in one step, and what came of it.
struct Stage {
    step: u64,
    state: Value,
    asked: Vec<Asked>,
}

struct Asked {
    operation: Operation,
    reading: Option<Reading>,
    outcome: Option<Outcome>,
}

struct Course {
    side: Side,
    stages: Vec<Stage>,
    last: Value,
}

impl Journal {
    /// Compares two runs. Nothing is performed.
    ///
    /// # Errors
    /// When a run is unknown, its journal is damaged, or it does not replay.
    pub async fn diff(&self, left: RunId, right: RunId) -> Result<RunDiff, HistoryError> {
        let calls = (self.conversation(left).await?, self.conversation(right).await?);
        let (left, right) = (self.course(left).await?, self.course(right).await?);
        if let (Some(a), Some(b)) = calls {
            let first = calls::part(&a, &b).or_else(|| end_of_calls(&left, &right));
            let identical = first.is_none();
            let (state, prompt, arguments) = (Vec::new(), None, None);
            let (left, right) = (left.side, right.side);
            return Ok(RunDiff { left, right, identical, first, state, prompt, arguments });
        }
        let parts = left.stages.iter().zip(&right.stages).position(|(a, b)| part(a, b).is_some());
        let shorter = left.stages.len().min(right.stages.len());
        let first = match parts {
            Some(index) => part(&left.stages[index], &right.stages[index]),
            None => end(&left, &right),
        };
        let from = parts.unwrap_or(shorter);
        let state = first.as_ref().map_or_else(Vec::new, |_| {
            let at = |course: &Course| {
                course.stages.get(from + 1).map_or_else(|| course.last.clone(), |stage| stage.state.clone())
            };
            compare::values(&at(&left), &at(&right))
        });
        let later = || left.stages.iter().zip(&right.stages).skip(from);
        let prompt = later().find_map(|(a, b)| place(a, b, |one| one.reading.is_some()));
        let arguments = later().find_map(|(a, b)| place(a, b, |one| one.operation.arguments().is_some()));
        let identical = first.is_none();
        Ok(RunDiff { left: left.side, right: right.side, identical, first, state, prompt, arguments })
    }

    async fn course(&self, run: RunId) -> Result<Course, HistoryError> {
        let summary = self.store().summary(run).await?;
        let (config, records) = self.journal_of(run).await?;
        // The steps that a fork shares are those of the run that it was forked from, with the outcomes that it replaced.
        let mut stages = match records.get(1).map(|record| &record.body) {
            Some(Body::Forked { run, step, overrides, outcomes, .. }) => {
                let mut stages = Box::pin(self.course(*run)).await?.stages;
                stages.retain(|stage| stage.step < *step);
                for (id, outcome) in overrides.iter().zip(outcomes) {
                    let asked = stages.iter_mut().flat_map(|stage| &mut stage.asked);
                    for asked in asked.filter(|asked| asked.operation.id == *id) {
                        asked.outcome = Some(outcome.clone());
                    }
                }
                stages
            }
            Some(Body::Adopted { run, step, .. }) => {
                let mut stages = Box::pin(self.course(*run)).await?.stages;
                stages.retain(|stage| stage.step < *step);
                stages
            }
            _ => Vec::new(),
        };
        let mut fold = self.begin(run, std::sync::Arc::clone(&config), &records).await?;
        let mut shown = stages.last().map_or(0, |stage| stage.step);
        for record in &records[1..] {
            let outcome = match &record.body {
                Body::Resolved { outcome, .. } => Some(outcome.clone()),
                Body::Answered { answer } => answer.outcome(),
                _ => None,
            };
            if let (Some(outcome), Some(stage)) = (outcome, stages.last_mut()) {
                let about = |one: &&mut Asked| Some(one.operation.id) == record.operation;
                if let Some(asked) = stage.asked.iter_mut().find(about) {
                    asked.outcome = Some(outcome);
                }
            }
            fold.apply(record)?;
            let state = fold.state();
            if !matches!(record.body, Body::Requested { .. }) {
                continue;
            }
            let asked = |pending: &Pending| Asked {
                reading: match &pending.operation.request {
                    Request::ModelCompletion(completion) => state.reading(&config, completion).ok(),
                    _ => None,
                },
                operation: pending.operation.clone(),
                outcome: None,
            };
            let pending = state.pending().iter();
            if state.step() > shown && !state.pending().is_empty() {
                shown = state.step();
                stages.push(Stage { step: shown, state: view(state), asked: pending.map(asked).collect() });
            } else if let (Some(_), Some(stage)) = (record.parent, stages.last_mut()) {
                let new = pending.filter(|pending| Some(pending.operation.id) == record.operation);
                stage.asked.extend(new.map(asked));
            }
        }
        let state = fold.state();
        let end = fold.ended.as_ref().map(|end| match end {
            End::Response(response) => match &response.error {
                Some(error) => format!("{}: {}", error.code.as_str(), error.message),
                None => response.answer.clone().unwrap_or_default(),
            },
            End::Handoff(handoff) => format!("hands over to `{}`", handoff.target),
        });
        let (steps, usage) = (state.step(), state.usage());
        let side = Side { run, agent: summary.agent, status: summary.status, steps, usage, end };
        Ok(Course { side, stages, last: view(state) })
    }
}

/// What of a state two runs are compared by.
fn view(state: &AgentState) -> Value {
    json!({
        "request": { "text": state.request().text, "data": state.request().data },
        "steps": state.results(),
        "vars": state.vars(),
        "usage": state.usage(),
    })
}

/// Where two runs part in a step, if they do.
fn part(left: &Stage, right: &Stage) -> Option<FirstDifference> {
    let step = left.step;
    let labels = |stage: &Stage| {
        let labels = stage.asked.iter().map(|asked| asked.operation.request.label());
        labels.collect::<Vec<_>>().join(", ")
    };
    let (a, b) = (labels(left), labels(right));
    if a != b {
        let changes = compare::values(&json!({ "asks for": a }), &json!({ "asks for": b }));
        return Some(FirstDifference {
            step,
            turn: None,
            kind: "request",
            label: "another course".to_owned(),
            changes,
        });
    }
    for (a, b) in left.asked.iter().zip(&right.asked) {
        let label = a.operation.request.label();
        if a.operation.digest != b.operation.digest {
            return Some(FirstDifference {
                step,
                turn: None,
                kind: "request",
                label,
                changes: changes(a, b),
            });
        }
    }
    for (a, b) in left.asked.iter().zip(&right.asked) {
        if a.outcome != b.outcome {
            let json = |asked: &Asked| serde_json::to_value(&asked.outcome).unwrap_or_default();
            let changes = match (&a.outcome, &b.outcome) {
                (Some(_), Some(_)) => compare::values(&json(a), &json(b)),
                // One of them waits for it, which is no value.
                _ => {
                    let so_far = |asked: &Asked| match asked.outcome {
                        Some(_) => json!({ "outcome": json(asked) }),
                        None => json!({ "outcome": "none yet" }),
                    };
                    compare::values(&so_far(a), &so_far(b))
                }
            };
            let label = a.operation.request.label();
            return Some(FirstDifference { step, turn: None, kind: "outcome", label, changes });
        }
    }
    None
}

/// How two runs differ that were the same as far as the shorter one goes.
fn end(left: &Course, right: &Course) -> Option<FirstDifference> {
    let words = |course: &Course| {
        let mut words = json!({ "status": course.side.status, "steps": course.side.steps });
        if let Some(end) = &course.side.end {
            words["end"] = json!(end);
        }
        words
    };
    let changes = compare::values(&words(left), &words(right));
    let step = left.side.steps.min(right.side.steps);
    (!changes.is_empty()).then(|| FirstDifference {
        step,
        turn: None,
        kind: "end",
        label: "the end".to_owned(),
        changes,
    })
}

/// How two calls end differently in which the same was said and done. A fork has more steps, which is no difference.
fn end_of_calls(left: &Course, right: &Course) -> Option<FirstDifference> {
    let words = |course: &Course| json!({ "status": course.side.status, "end": course.side.end });
    let changes = compare::values(&words(left), &words(right));
    let label = "the end".to_owned();
    let first = FirstDifference { step: 1, turn: None, kind: "end", label, changes };
    (!first.changes.is_empty()).then_some(first)
}

fn changes(left: &Asked, right: &Asked) -> Vec<Change> {
    compare::requests(&left.operation, &right.operation, left.reading.as_ref(), right.reading.as_ref())
}

/// The first pair of operations of the same kind in a step that is not the same.
fn place(left: &Stage, right: &Stage, of: impl Fn(&Asked) -> bool) -> Option<PlaceDiff> {
    let mut pairs = left.asked.iter().zip(&right.asked).filter(|(a, b)| of(a) && of(b));
    let (a, b) = pairs.find(|(a, b)| {
        a.operation.request.label() == b.operation.request.label() && a.operation.digest != b.operation.digest
    })?;
    Some(PlaceDiff { step: left.step, label: a.operation.request.label(), changes: changes(a, b) })
}
