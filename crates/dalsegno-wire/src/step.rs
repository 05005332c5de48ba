//! A step of a run: what was asked for and why, what came of it, and what the agent knew.

use dalsegno_core::{AgentResponse, OperationId, Outcome, Request, RunId, Usage};
use dalsegno_history::{Change, OperationView, Scene};
use dalsegno_store::Record;
use serde::Serialize;
use serde_json::Value;

use crate::operation::{attempts, by_operation, elapsed};
#[cfg(feature = "openapi")]
use crate::schema;

/// A step of a run, or its end. The keys are a promise.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Step))]
pub struct ShownStep {
    /// The run.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RunId))]
    run_id: RunId,
    /// The step, by its number.
    step: u64,
    /// Why the agent asked for what it asked.
    decisions: Vec<String>,
    /// What it asked for, and what came of it.
    operations: Vec<StepOperation>,
    /// The state when the step was asked for.
    state: Value,
    /// How it differs from the state when the step before was asked for.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::Change>))]
    changes: Vec<Change>,
    /// What the run had used before.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Usage))]
    used_before: Usage,
    /// What the step used; none before its outcomes were folded.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Usage>, required))]
    used: Option<Usage>,
    /// How the run ended; at its end only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    response: Option<AgentResponse>,
}

/// An operation of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct StepOperation {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::OperationId))]
    operation: OperationId,
    /// The operation that it is a part of.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::OperationId>, required))]
    parent: Option<OperationId>,
    /// What it is called in the timeline.
    label: String,
    /// The run that it started.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RunId>, required))]
    child_run: Option<RunId>,
    /// What was asked for.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    request: Request,
    /// How often it was tried.
    attempts: u32,
    /// How long it took, in milliseconds; none before it has an outcome.
    #[cfg_attr(feature = "openapi", schema(required))]
    elapsed_ms: Option<u64>,
    /// How many of the last messages of a prompt the completion before was not sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_messages: Option<usize>,
    /// What came of it: an object with one key, or a word where there is no more to say of it, such as `timer_fired`; none while it is
    /// open.
    #[cfg_attr(feature = "openapi", schema(value_type = Value, required))]
    outcome: Option<Outcome>,
}

impl ShownStep {
    /// A step of this run.
    pub fn of(run: RunId, scene: &Scene) -> Self {
        let records = by_operation(&scene.records);
        let operation = |one: &OperationView| {
            let own = records.get(&one.operation).map(Vec::as_slice).unwrap_or_default();
            StepOperation::of(one, scene, own)
        };
        Self {
            run_id: run,
            step: scene.view.step,
            decisions: scene.view.decisions.clone(),
            operations: scene.view.operations.iter().map(operation).collect(),
            state: scene.visible(),
            changes: scene.changes(),
            used_before: scene.state.usage(),
            used: scene.spent(),
            response: scene.response.clone(),
        }
    }
}

impl StepOperation {
    fn of(one: &OperationView, scene: &Scene, own: &[&Record]) -> Self {
        let attempts = attempts(own.iter().copied());
        let elapsed = elapsed(own.iter().copied());
        let is_completion = matches!(one.request, Request::ModelCompletion(_));
        Self {
            operation: one.operation,
            parent: one.parent,
            label: one.label.clone(),
            child_run: one.child().filter(|_| attempts > 0),
            request: one.request.clone(),
            attempts,
            elapsed_ms: elapsed.map(|elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)),
            new_messages: is_completion.then(|| scene.new_messages(one.operation)),
            outcome: one.outcome.clone(),
        }
    }
}
