//! The JSON documents of the verbs that tell about runs. The keys are a promise to scripts.

use dalsegno_core::{AgentResponse, AgentState, Gate, OperationId, RunId, Status, Usage};
use dalsegno_runtime::{Inspection, ReplayReport, RunEnd, RunReport, WaitingOperation};
use dalsegno_store::{Foreign, RunStatus, RunSummary};
use serde::Serialize;
use serde_json::Value;

use super::journal::{Event, Events};
use super::text;

/// What `run`, `resume` and `show` tell about a run.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    run_id: RunId,
    agent: String,
    status: &'static str,
    answer: Option<String>,
    output: Option<Value>,
    waiting_for: Vec<Waiting>,
    /// When it can go on by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    wake_at: Option<String>,
    steps: u64,
    usage: Usage,
    error: Option<RunError>,
}

/// An operation that waits for an answer.
#[derive(Debug, Serialize)]
struct Waiting {
    run_id: RunId,
    kind: &'static str,
    operation: OperationId,
    question: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    arguments: Option<Value>,
    /// What `resume --shown` names.
    shown: String,
}

/// Why a run did not complete.
#[derive(Debug, Serialize)]
struct RunError {
    code: &'static str,
    message: String,
    help: String,
}

impl Run {
    /// The run as its process let go of it.
    pub(crate) fn of(report: &RunReport) -> Self {
        let (status, response, waiting) = match &report.end {
            RunEnd::Ended(response) => (end(response.status), Some(response), &[][..]),
            RunEnd::Suspended { waiting, .. } => ("suspended", None, waiting.as_slice()),
            RunEnd::Interrupted => ("interrupted", None, &[][..]),
        };
        let run = Self::new(report.run, report.agent.to_string(), status, response, waiting);
        let wake_at = match &report.end {
            RunEnd::Suspended { wake_at, .. } => wake_at.map(text::exact_time),
            RunEnd::Ended(_) | RunEnd::Interrupted => None,
        };
        Self { wake_at, steps: report.steps, usage: report.usage, ..run }
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
        });
        Self {
            run_id,
            agent,
            status,
            answer: response.and_then(|response| response.answer.clone()),
            output: response.and_then(|response| response.output.clone()),
            waiting_for: waiting.iter().map(Waiting::of).collect(),
            wake_at: None,
            steps: 0,
            usage: Usage::default(),
            error,
        }
    }
}

impl Waiting {
    fn of(waiting: &WaitingOperation) -> Self {
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
            shown: waiting.shown(),
        }
    }
}

/// What `show` tells about a run.
#[derive(Debug, Serialize)]
pub(crate) struct Shown<'i> {
    #[serde(flatten)]
    run: Run,
    /// Where it came from, if an archive brought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign: Option<Foreign>,
    started: String,
    updated: String,
    events: Vec<Event>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'i AgentState>,
}

impl<'i> Shown<'i> {
    /// The run as it was inspected, with its state if that is wanted; the events of one step or of all.
    pub(crate) fn of(inspection: &'i Inspection, with_state: bool, step: Option<u64>) -> Self {
        let Inspection { summary, state, response, waiting, records, .. } = inspection;
        let status = summary.status.as_str();
        let run = Run::new(summary.run, summary.agent.to_string(), status, response.as_ref(), waiting);
        Self {
            run: Run { steps: state.step(), usage: state.usage(), ..run },
            foreign: summary.foreign,
            started: text::exact_time(summary.started_at),
            updated: text::exact_time(summary.updated_at),
            events: Events::of(summary.run, records)
                .filter(|event| step.is_none_or(|step| event.is_of(step)))
                .collect(),
            state: with_state.then_some(state),
        }
    }
}

/// What `runs` tells about a run.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    run_id: RunId,
    agent: String,
    tenant: String,
    session: String,
    status: RunStatus,
    started: String,
    updated: String,
    records: u64,
    /// Where it came from, if an archive brought it: nothing of it is performed.
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign: Option<Foreign>,
}

impl Listed {
    /// A line of the listing.
    pub(crate) fn of(summary: &RunSummary) -> Self {
        Self {
            run_id: summary.run,
            agent: summary.agent.to_string(),
            tenant: summary.tenant.clone(),
            session: summary.session.clone(),
            status: summary.status,
            started: text::exact_time(summary.started_at),
            updated: text::exact_time(summary.updated_at),
            records: summary.records,
            foreign: summary.foreign,
        }
    }
}

/// What `replay` tells.
#[derive(Debug, Serialize)]
pub(crate) struct Replayed {
    run_id: RunId,
    identical: bool,
    steps: u64,
    records: u64,
    divergence: Option<Value>,
}

impl Replayed {
    /// What came of a replay.
    pub(crate) fn of(report: &ReplayReport) -> Self {
        let divergence = report.divergence.as_ref().map(|divergence| {
            serde_json::json!({ "step": divergence.step, "expected": divergence.expected, "got": divergence.got })
        });
        let ReplayReport { run, identical, steps, records, .. } = *report;
        Self { run_id: run, identical, steps, records, divergence }
    }
}

/// The end of a run in a word.
pub(crate) fn end(status: Status) -> &'static str {
    match status {
        Status::Completed => "completed",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
        Status::HandedOff => "handed_off",
    }
}
