//! Documents of runs: where one stands, its line in a listing, what came of a replay.

use dalsegno_core::{AgentResponse, AgentState, Gate, OperationId, RunId, Status, Usage};
use dalsegno_history::{Inspection, Latest, Moment, OperationView, Pause, ReplayReport, WaitingOperation};
use dalsegno_runtime::{RunEnd, RunReport};
use dalsegno_store::{Foreign, RunStatus, RunSummary};
use serde::Serialize;
use serde_json::Value;

use crate::event::{Event, Events};
use crate::lineage::Lineage;
use crate::operation::{attempts, by_operation, elapsed};
#[cfg(feature = "openapi")]
use crate::schema;
use crate::time;

/// What `run`, `resume` and `show` tell about a run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Run {
    /// The run.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RunId))]
    run_id: RunId,
    /// The name of its agent.
    agent: String,
    /// Where it stands.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RunStatus))]
    status: &'static str,
    /// Its answer as text, once it has one.
    #[cfg_attr(feature = "openapi", schema(required))]
    answer: Option<String>,
    /// Its answer as a value, if its agent has a schema for it.
    #[cfg_attr(feature = "openapi", schema(required))]
    output: Option<Value>,
    /// The operations that wait for an answer.
    waiting_for: Vec<Waiting>,
    /// Who paused it, until it continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<Paused>,
    /// When it can resume by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Time>))]
    wake_at: Option<String>,
    /// When a question without an answer is answered with a no.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Time>))]
    answer_by: Option<String>,
    /// The number of its steps so far.
    steps: u64,
    /// What it used.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Usage))]
    usage: Usage,
    /// Why it did not complete.
    #[cfg_attr(feature = "openapi", schema(required))]
    error: Option<RunError>,
}

/// An operation that waits for an answer.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Waiting {
    /// The run that waits; for a child run, that one.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RunId))]
    run_id: RunId,
    /// What is waited for.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WaitingKind))]
    kind: &'static str,
    /// The operation to name in an answer.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::OperationId))]
    operation: OperationId,
    /// The question, for a person.
    question: String,
    /// The JSON Schema of the answer, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Value>,
    /// Why the operation is in doubt.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The arguments of the call.
    #[cfg_attr(feature = "openapi", schema(required))]
    arguments: Option<Value>,
    /// The agent's rule by which it waits for an approval, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// What `resume --shown` names.
    shown: String,
}

/// A person paused the run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct Paused {
    /// Who did it, if that is known.
    #[cfg_attr(feature = "openapi", schema(required))]
    by: Option<String>,
    /// Why, if a reason was given.
    #[cfg_attr(feature = "openapi", schema(required))]
    reason: Option<String>,
}

impl Paused {
    fn of(pause: &Pause) -> Self {
        Self { by: pause.by.clone(), reason: pause.reason.clone() }
    }
}

/// Why a run did not complete.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct RunError {
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RunErrorCode))]
    code: &'static str,
    /// What was wrong.
    message: String,
    /// What to do next.
    help: String,
    /// What the people who keep the tools that failed have to know, and models are not told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
}

impl Run {
    /// The run as its process let go of it; `causes` are those of its error.
    pub fn of(report: &RunReport, causes: &[String]) -> Self {
        let (status, response, waiting) = match &report.end {
            RunEnd::Ended(response) => (end(response.status), Some(response), &[][..]),
            RunEnd::Suspended { waiting, .. } => ("suspended", None, waiting.as_slice()),
            RunEnd::Paused { waiting, .. } => ("suspended", None, waiting.as_slice()),
            RunEnd::Interrupted => ("interrupted", None, &[][..]),
        };
        let mut run = Self::new(report.run, report.agent.to_string(), status, response, waiting);
        if let Some(error) = &mut run.error {
            error.causes = causes.to_vec();
        }
        let (wake_at, answer_by) = match &report.end {
            RunEnd::Suspended { wake_at, answer_by, .. } => (*wake_at, *answer_by),
            RunEnd::Ended(_) | RunEnd::Paused { .. } | RunEnd::Interrupted => (None, None),
        };
        run.paused = match &report.end {
            RunEnd::Paused { pause, .. } => Some(Paused::of(pause)),
            RunEnd::Ended(_) | RunEnd::Suspended { .. } | RunEnd::Interrupted => None,
        };
        let (wake_at, answer_by) = (wake_at.map(time::exact), answer_by.map(time::exact));
        Self { wake_at, answer_by, steps: report.steps, usage: report.usage, ..run }
    }

    fn new(
        run_id: RunId,
        agent: String,
        status: &'static str,
        response: Option<&AgentResponse>,
        waiting: &[WaitingOperation],
    ) -> Self {
        let error = response.and_then(|response| response.error.as_ref()).map(|error| RunError {
            code: error.code.as_str(),
            message: error.message.clone(),
            help: error.help.clone(),
            causes: Vec::new(),
        });
        Self {
            run_id,
            agent,
            status,
            answer: response.and_then(|response| response.answer.clone()),
            output: response.and_then(|response| response.output.clone()),
            waiting_for: waiting.iter().map(Waiting::of).collect(),
            paused: None,
            wake_at: None,
            answer_by: None,
            steps: 0,
            usage: Usage::default(),
            error,
        }
    }
}

impl Waiting {
    /// The operation as it waits.
    pub fn of(waiting: &WaitingOperation) -> Self {
        Self {
            run_id: waiting.run,
            kind: waiting.kind(),
            operation: waiting.operation,
            question: waiting.question.clone(),
            schema: waiting.schema.clone(),
            reason: match &waiting.gate {
                Gate::Approval | Gate::Input | Gate::Secret { .. } | Gate::Elicitation { .. } => None,
                Gate::InDoubt { reason } => Some(reason.clone()),
            },
            arguments: waiting.arguments.clone(),
            rule: waiting.rule.clone(),
            shown: waiting.shown(),
        }
    }
}

/// Where a run stands, as its journal says.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Standing {
    #[serde(flatten)]
    run: Run,
    /// Where it came from, if an archive brought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Foreign>))]
    foreign: Option<Foreign>,
    /// The tenant that it belongs to.
    tenant: String,
    /// Its session.
    session: String,
    #[serde(flatten)]
    lineage: Lineage,
    /// When it began.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Time))]
    started: String,
    /// When its last record was made.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Time))]
    updated: String,
}

impl Standing {
    /// The run as it was inspected.
    pub fn of(inspection: &Inspection, lineage: Lineage) -> Self {
        let Inspection { summary, state, response, waiting, paused, .. } = inspection;
        Self::new(summary, state, response.as_ref(), waiting, lineage).paused(paused.as_ref())
    }

    /// The same of a run of which only the latest state was read.
    pub fn of_latest(latest: &Latest, lineage: Lineage) -> Self {
        let Latest { summary, state, response, waiting, paused, .. } = latest;
        Self::new(summary, state, response.as_ref(), waiting, lineage).paused(paused.as_ref())
    }

    fn paused(mut self, pause: Option<&Pause>) -> Self {
        self.run.paused = pause.map(Paused::of);
        self
    }

    fn new(
        summary: &RunSummary,
        state: &AgentState,
        response: Option<&AgentResponse>,
        waiting: &[WaitingOperation],
        lineage: Lineage,
    ) -> Self {
        let status = summary.status.as_str();
        let run = Run::new(summary.run, summary.agent.to_string(), status, response, waiting);
        Self {
            run: Run {
                steps: state.step(),
                usage: state.usage(),
                wake_at: summary.wake_at.map(time::exact),
                ..run
            },
            foreign: summary.foreign,
            tenant: summary.tenant.clone(),
            session: summary.session.clone(),
            lineage,
            started: time::exact(summary.started_at),
            updated: time::exact(summary.updated_at),
        }
    }
}

/// What `show` tells about a run.
#[derive(Debug, Serialize)]
pub struct Shown<'i> {
    #[serde(flatten)]
    standing: Standing,
    /// The operations in full, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    operations: Option<Vec<Value>>,
    /// What was said and done in a call, in order; none for a run that is no call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    call: Vec<Moment>,
    events: Vec<Event>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'i AgentState>,
}

impl<'i> Shown<'i> {
    /// The run as it was inspected, with its state if that is wanted; the events of one step or of all.
    pub fn of(inspection: &'i Inspection, lineage: Lineage, with_state: bool, step: Option<u64>) -> Self {
        Self {
            standing: Standing::of(inspection, lineage),
            operations: None,
            call: Vec::new(),
            events: Events::of(inspection.summary.run, &inspection.records)
                .filter(|event| step.is_none_or(|step| event.is_of(step)))
                .collect(),
            state: with_state.then_some(&inspection.state),
        }
    }

    /// The same with what was said and done in the call that the run is.
    #[must_use]
    pub fn with_call(self, call: Vec<Moment>) -> Self {
        Self { call, ..self }
    }

    /// The same with the operations in full: of one step or of all, and of these one with its parts or all.
    pub fn with_operations(
        self,
        inspection: &Inspection,
        step: Option<u64>,
        only: Option<OperationId>,
    ) -> Self {
        let records = by_operation(&inspection.records);
        let views = inspection.steps.iter().filter(|view| step.is_none_or(|step| view.step == step));
        let all = views.flat_map(|view| view.operations.iter().map(|one| (view.step, one)));
        let is_meant =
            |one: &OperationView| only.is_none_or(|only| one.operation == only || one.parent == Some(only));
        let operations = all.filter(|(_, one)| is_meant(one)).map(|(step, one)| {
            let own = || records.get(&one.operation).into_iter().flatten().copied();
            let attempts = attempts(own());
            let elapsed = elapsed(own()).map(|elapsed| elapsed.as_millis() as u64);
            serde_json::json!({
                "step": step,
                "operation": one.operation,
                "parent": one.parent,
                "label": one.label,
                "child_run": one.child().filter(|_| attempts > 0),
                "request": one.request,
                "attempts": attempts,
                "elapsed_ms": elapsed,
                "outcome": one.outcome,
            })
        });
        Self { operations: Some(operations.collect()), ..self }
    }
}

/// What `runs` tells about a run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Listed {
    /// The run.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RunId))]
    run_id: RunId,
    /// The name of its agent.
    agent: String,
    /// The tenant that it belongs to.
    tenant: String,
    /// Its session.
    session: String,
    /// Where it stands.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RunStatus))]
    status: RunStatus,
    /// When it began.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Time))]
    started: String,
    /// When its last record was made.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Time))]
    updated: String,
    /// The number of its records.
    records: u64,
    /// What it was asked; none where that cannot be read.
    #[cfg_attr(feature = "openapi", schema(required))]
    text: Option<String>,
    /// The run that started it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RunId>))]
    parent: Option<RunId>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::WaitingKind>))]
    waiting: Vec<dalsegno_store::Waiting>,
    /// When it can resume by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Time>))]
    wake_at: Option<String>,
    /// No process performs it, though it is running.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    /// What it used, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Usage>))]
    usage: Option<Usage>,
    /// Where it came from, if an archive brought it: nothing of it is performed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Foreign>))]
    foreign: Option<Foreign>,
}

impl Listed {
    /// A line of the listing.
    pub fn of(summary: &RunSummary, asked: Option<&str>, interrupted: bool, usage: Option<Usage>) -> Self {
        Self {
            run_id: summary.run,
            agent: summary.agent.to_string(),
            tenant: summary.tenant.clone(),
            session: summary.session.clone(),
            status: summary.status,
            started: time::exact(summary.started_at),
            updated: time::exact(summary.updated_at),
            records: summary.records,
            text: asked.map(str::to_owned),
            parent: summary.parent,
            waiting: summary.waiting.clone(),
            wake_at: summary.wake_at.map(time::exact),
            interrupted,
            usage,
            foreign: summary.foreign,
        }
    }
}

/// What `show` tells about a run whose content was erased.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErasedRun {
    /// Always true: the content is gone.
    erased: bool,
    #[serde(flatten)]
    run: Listed,
}

impl ErasedRun {
    /// Its line in the listing, which is all that the journal keeps.
    pub fn of(summary: &RunSummary) -> Self {
        Self { erased: true, run: Listed::of(summary, None, false, None) }
    }
}

/// What `replay` tells.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Replayed {
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RunId))]
    run_id: RunId,
    /// Whether the replay came to the same requests and the same end.
    identical: bool,
    /// The steps that were replayed.
    steps: u64,
    /// The records that were read.
    records: u64,
    /// Where the replay differs first: the step, what the journal has and what was computed.
    #[cfg_attr(feature = "openapi", schema(required))]
    divergence: Option<Value>,
}

impl Replayed {
    /// What came of a replay.
    pub fn of(report: &ReplayReport) -> Self {
        let divergence = report.divergence.as_ref().map(|divergence| {
            serde_json::json!({ "step": divergence.step, "expected": divergence.expected, "got": divergence.got })
        });
        let ReplayReport { run, identical, steps, records, .. } = *report;
        Self { run_id: run, identical, steps, records, divergence }
    }
}

/// The end of a run in a word.
pub fn end(status: Status) -> &'static str {
    match status {
        Status::Completed => "completed",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
        Status::HandedOff => "handed_off",
    }
}
