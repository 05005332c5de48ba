//! The outline of a run: its steps and their operations, read from records without a fold.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{OperationId, Outcome, RunId, Timestamp};
use dalsegno_store::{Body, Record, RecordKind, Start};

/// The outline of a run, as far as its records were read.
#[derive(Debug, Clone, Default)]
pub struct Outline {
    /// The steps that are the run's own.
    pub steps: Vec<StepOutline>,
    /// How the run ended.
    pub ending: Option<Ending>,
    /// The run with which it shares the steps before this one, if it is a fork or was adopted.
    pub shares: Option<(RunId, u64)>,
    /// When the run began.
    pub started: Timestamp,
    /// Each label once: a long run asks for the same over and over.
    labels: BTreeMap<String, Arc<str>>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOutline {
    /// Its number, from 1.
    pub step: u64,
    /// The record of its first request.
    pub first: u64,
    /// When it was asked for.
    pub at: Timestamp,
    /// Its operations in the order of their requests.
    pub operations: Vec<OperationOutline>,
}

/// One operation of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationOutline {
    /// The operation.
    pub operation: OperationId,
    /// The call of a declarative tool that asks for it.
    pub parent: Option<OperationId>,
    /// What it is, without values that may be personal, such as ``tool `risk.score` ``.
    pub label: Arc<str>,
    /// Where it stands.
    pub standing: Standing,
    /// Attempts so far.
    pub attempts: u32,
    /// When its first attempt began; before it has one, when it was asked for.
    pub at: Timestamp,
    /// The time that it took from its first attempt on, in milliseconds.
    pub elapsed_ms: Option<u64>,
    /// The tokens of a model's reply.
    pub tokens: u64,
}

/// Where an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It may be under way.
    Open,
    /// It has not started, or was put off.
    Deferred,
    /// It waits for a person.
    Waiting,
    /// It has an outcome.
    Done,
    /// It has an outcome that is an error.
    Failed,
    /// It has an outcome that came too late to be used, or the run ended first.
    Late,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The record that says so.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Which record it is.
    pub kind: RecordKind,
}

impl Outline {
    /// Takes the next record.
    pub(super) fn take(&mut self, record: &Record) {
        match &record.body {
            Body::Started(_) => self.started = record.at,
            Body::Forked { run, step, .. } | Body::Adopted { run, step, .. } => {
                self.shares = Some((*run, *step));
            }
            Body::Requested { step, label, start, .. } => {
                let Some(operation) = record.operation else { return };
                if self.steps.last().is_none_or(|last| last.step != *step) {
                    let (first, at) = (record.seq, record.at);
                    self.steps.push(StepOutline { step: *step, first, at, operations: Vec::new() });
                }
                let label = self.label(label);
                let standing = if *start == Start::Now { Standing::Open } else { Standing::Deferred };
                let attempts = u32::from(*start == Start::Now);
                let (parent, elapsed_ms, tokens) = (record.parent, None, 0);
                let at = record.at;
                let one =
                    OperationOutline { operation, parent, label, standing, attempts, at, elapsed_ms, tokens };
                if let Some(step) = self.steps.last_mut() {
                    step.operations.push(one);
                }
            }
            Body::Completed { .. }
            | Body::Failed { .. }
            | Body::Cancelled { .. }
            | Body::HandedOff { .. }
            | Body::Abandoned { .. } => {
                self.ending = Some(Ending { seq: record.seq, at: record.at, kind: record.body.kind() });
                // Nothing of the last step is under way any more, nor waits.
                for one in self.steps.iter_mut().rev().take(1).flat_map(|step| &mut step.operations) {
                    if matches!(one.standing, Standing::Open | Standing::Deferred | Standing::Waiting) {
                        one.standing = Standing::Late;
                    }
                }
            }
            body => {
                if let Some(one) = record.operation.and_then(|id| self.operation_mut(id)) {
                    one.take(body, record.at);
                }
            }
        }
    }

    fn label(&mut self, label: &str) -> Arc<str> {
        if let Some(known) = self.labels.get(label) {
            return Arc::clone(known);
        }
        let new: Arc<str> = label.into();
        self.labels.insert(label.to_owned(), Arc::clone(&new));
        new
    }

    /// Finds an operation: nearly always it is one of the last step.
    fn operation_mut(&mut self, id: OperationId) -> Option<&mut OperationOutline> {
        let mut all = self.steps.iter_mut().rev().flat_map(|step| step.operations.iter_mut().rev());
        all.find(|one| one.operation == id)
    }

    /// The step and the place within it of an operation.
    pub fn find(&self, id: OperationId) -> Option<(usize, usize)> {
        self.steps.iter().enumerate().rev().find_map(|(place, step)| {
            let within = step.operations.iter().position(|one| one.operation == id)?;
            Some((place, within))
        })
    }

    /// The number of places that a walk stops at: every step, and the end.
    pub fn places(&self) -> usize {
        self.steps.len() + usize::from(self.ending.is_some())
    }

    /// The place of the step with this number, or of the first one after it.
    pub fn place_of(&self, step: u64) -> usize {
        self.steps.partition_point(|one| one.step < step)
    }
}

impl OperationOutline {
    fn take(&mut self, body: &Body, at: Timestamp) {
        match body {
            Body::Attempted { attempt, start: Start::Now, .. } => {
                if self.attempts == 0 {
                    self.at = at;
                }
                self.attempts = *attempt;
                self.standing = Standing::Open;
            }
            Body::Attempted { start: Start::Deferred, .. } => self.standing = Standing::Deferred,
            Body::Waiting { .. } => self.standing = Standing::Waiting,
            Body::Answered { answer } => {
                // Where it continues, a record of its next attempt follows.
                self.standing = answer.outcome().map_or(Standing::Deferred, |outcome| standing(&outcome));
            }
            Body::Resolved { outcome, attempts, elapsed_ms } => {
                self.standing = standing(outcome);
                self.attempts = *attempts;
                self.elapsed_ms = Some(*elapsed_ms);
                if let Outcome::ModelReplied(reply) = outcome {
                    self.tokens = reply.input_tokens.saturating_add(reply.output_tokens);
                }
            }
            Body::Late { .. } => self.standing = Standing::Late,
            _ => {}
        }
    }
}

fn standing(outcome: &Outcome) -> Standing {
    let is_error = match outcome {
        Outcome::Failed(_) => true,
        Outcome::ToolReturned(returned) => returned.is_error,
        Outcome::AgentReturned(returned) => returned.error.is_some(),
        Outcome::ApiAnswered(response) => response.status >= 400,
        Outcome::ModelReplied(_)
        | Outcome::MemoryFound(_)
        | Outcome::MemoryCreated(_)
        | Outcome::MemoryTraversed(_)
        | Outcome::EmailSent(_)
        | Outcome::TransferRequested
        | Outcome::InputGiven(_)
        | Outcome::TimerFired => false,
    };
    if is_error { Standing::Failed } else { Standing::Done }
}
