//! A new run from any step of another, with a changed outcome, configuration or model.

use std::collections::BTreeMap;

use serde_json::Value;

use dalsegno_core::{
    AgentConfig, AgentReturn, CallRequest, MemoryCreated, MemoryTraversal, Mind, ModelReply, OperationId,
    Outcome, ReplyPart, Request, RunId, Status, StopReason, ToolReturn, Usage,
};
use dalsegno_store::{Body, NewRecord, Record};

use crate::declared;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::handle::RunHandle;
use crate::inspect::OperationView;
use crate::start::Beginning;

/// How a run is forked.
#[derive(Debug, Clone, Default)]
pub struct ForkOptions {
    /// The step that is asked for anew, from 1; the step after those whose outcomes are replaced when absent.
    pub at: Option<u64>,
    /// Outcomes of the step before, by operation, in place of those that the run had; see [`Engine::fork`].
    pub set: Vec<(OperationId, Value)>,
    /// The configuration that goes on: the run's own when absent.
    pub config: Option<AgentConfig>,
    /// The model that goes on, by its name in dalsegno.toml.
    pub model: Option<String>,
    /// Effects that may not be repeated happen without asking a person first.
    pub live_effects: bool,
}

/// Where a fork parts from its run.
pub(crate) struct Point {
    /// The run whose records are shared.
    pub(crate) run: RunId,
    /// How many of them.
    pub(crate) seq: u64,
    /// The step that is asked for anew.
    pub(crate) step: u64,
    pub(crate) replaced: BTreeMap<OperationId, Outcome>,
}

impl Engine {
    /// Forks a run: shares its records up to a step, asks for that step anew under ids of its own, and goes on in a new
    /// session. From there on a person is asked before each unsafe or keyed effect, unless `live_effects` is set.
    ///
    /// A replaced outcome is the result as JSON: what a tool returned, the text of a model's reply or
    /// `{"text": …, "calls": [{"name", "arguments"}]}`, the hits of a search, an answer; or any outcome as the journal
    /// has it, as `{"outcome": …}`, such as `{"outcome": {"failed": {"code": "timeout", "message": "…"}}}`.
    ///
    /// Of a foreign run only what was recorded is shared: the agent that goes on is this workspace's, whatever the options
    /// say, and so is what it knows of the user and the tenant.
    ///
    /// # Errors
    /// When there is no such run, step or operation, an outcome does not fit, this workspace does not have the agent of a
    /// foreign run, or the new run cannot be written down.
    pub async fn fork(&self, run: RunId, options: ForkOptions) -> Result<RunHandle, EngineError> {
        let ForkOptions { at, set, config, model, live_effects } = options;
        let (own, records) = self.journal_of(run).await?;
        let point = self.point(run, &own, &records, at, set).await?;
        let source = self.started(point.run).await?;
        let foreign = self.store().summary(point.run).await?.foreign.is_some();
        let (mut config, modules) = if foreign {
            self.resolve(&self.agent(&source.agent)?, &source.request.tenant).await?
        } else {
            (config.unwrap_or_else(|| (*own).clone()), last_modules(&records))
        };
        if let Some(model) = model {
            change_model(&mut config, &model).map_err(|message| EngineError::Fork { run, message })?;
        }
        let new = self.new_run_id();
        let paths = &self.bindings().settings().secret_paths;
        let request =
            if foreign { declared::without_what_is_ours(source.request, paths) } else { source.request };
        let beginning = Beginning {
            ask_effects: !live_effects,
            budget: source.budget,
            pinned: Some((config, modules)),
            ..Beginning::new(new, source.agent, request, new.to_string())
        };
        let (overrides, mut outcomes): (Vec<OperationId>, Vec<Outcome>) = point.replaced.into_iter().unzip();
        outcomes.iter_mut().for_each(|outcome| self.bindings().secrets().scrub(outcome));
        let (seq, step, ask_effects) = (point.seq, point.step, !live_effects);
        let forked = Body::Forked { run: point.run, seq, overrides, step, outcomes, ask_effects, foreign };
        self.begin_run(beginning, Some(NewRecord::new(self.now(), forked))).await
    }

    /// Finds where to part. A step before a fork's own first is one of the run that it was forked from.
    pub(crate) async fn point(
        &self,
        run: RunId,
        config: &AgentConfig,
        records: &[Record],
        at: Option<u64>,
        set: Vec<(OperationId, Value)>,
    ) -> Result<Point, EngineError> {
        let failed = |message: String| EngineError::Fork { run, message };
        let steps = steps_of(records);
        let mut replaced = BTreeMap::new();
        let mut step = at;
        if !set.is_empty() {
            let views = self.inspect(run, None).await?.steps;
            for (id, value) in set {
                let operations = views.iter().flat_map(|view| &view.operations);
                let Some(view) = operations.into_iter().find(|view| view.operation == id) else {
                    return Err(failed(format!(
                        "it has no operation {id} of its own: `dalsegno show {run}` lists them"
                    )));
                };
                if let Some(tool) = view.parent {
                    return Err(failed(format!(
                        "operation {id} is a part of a declarative tool: replace the outcome of the tool, operation {tool}"
                    )));
                }
                let of = steps.get(&id).copied().unwrap_or_default();
                match step {
                    Some(step) if step != of + 1 => {
                        return Err(failed(format!(
                            "operation {id} belongs to step {of}, so the fork would be at step {}, not {step}",
                            of + 1
                        )));
                    }
                    _ => step = Some(of + 1),
                }
                let outcome = outcome(config, view, value).map_err(|message| {
                    failed(format!("the outcome of operation {id} does not fit: {message}"))
                })?;
                replaced.insert(id, outcome);
            }
        }
        let Some(step) = step.filter(|step| *step > 0) else {
            return Err(failed("say at which step, from 1, or which outcome to replace".to_owned()));
        };
        let (no_overrides, no_outcomes) = (Vec::new(), Vec::new());
        let forked = match records.get(1).map(|record| &record.body) {
            Some(Body::Adopted { run, seq, step, .. }) => {
                Some((*run, *seq, &no_overrides, &no_outcomes, *step))
            }
            Some(Body::Forked { run, seq, overrides, outcomes, step, .. }) => {
                Some((*run, *seq, overrides, outcomes, *step))
            }
            _ => None,
        };
        // A fork that has asked for nothing itself stands where it was forked.
        let begun = forked.map_or(0, |(_, _, _, _, first)| first.saturating_sub(1));
        let last = steps.values().copied().max().unwrap_or(begun);
        if step > last + 1 {
            return Err(failed(format!("its last step is {last}, so it cannot be forked at step {step}")));
        }
        match forked {
            Some((of, _, _, _, first)) if step < first => {
                let (config, records) = self.journal_of(of).await?;
                Box::pin(self.point(of, &config, &records, Some(step), Vec::new())).await
            }
            Some((of, seq, overrides, outcomes, first)) if step == first => {
                let replaced = overrides.iter().copied().zip(outcomes.iter().cloned()).collect();
                Ok(Point { run: of, seq, step, replaced })
            }
            Some(_) | None => Ok(Point { run, seq: boundary(records, &steps, step), step, replaced }),
        }
    }
}

/// The modules that a run's tool servers were bound to last.
fn last_modules(records: &[Record]) -> BTreeMap<String, String> {
    let mut modules = BTreeMap::new();
    for record in records {
        match &record.body {
            Body::Started(started) => modules.clone_from(&started.modules),
            Body::Rebound { server, digest } => {
                modules.insert(server.clone(), digest.clone());
            }
            _ => {}
        }
    }
    modules
}

/// The step of each operation.
fn steps_of(records: &[Record]) -> BTreeMap<OperationId, u64> {
    let requested = records.iter().filter_map(|record| match &record.body {
        Body::Requested { step, .. } => Some((record.operation?, *step)),
        _ => None,
    });
    requested.collect()
}

/// How many records stand before a step: all up to the last outcome of the step before it.
fn boundary(records: &[Record], steps: &BTreeMap<OperationId, u64>, step: u64) -> u64 {
    let before = records.iter().rev().find(|record| {
        let settles =
            matches!(record.body, Body::Resolved { .. } | Body::Answered { .. } | Body::Requested { .. });
        settles && record.operation.and_then(|id| steps.get(&id)).is_some_and(|of| *of < step)
    });
    // Without a step before it: what stands before the first request.
    before.map_or_else(
        || {
            let first = records.iter().find(|record| matches!(record.body, Body::Requested { .. }));
            first.map_or(records.len() as u64, |record| record.seq)
        },
        |record| record.seq + 1,
    )
}

/// Lets another model decide.
pub(crate) fn change_model(config: &mut AgentConfig, model: &str) -> Result<(), String> {
    match &mut config.mind {
        Mind::Model(mind) => {
            model.clone_into(&mut mind.model.name);
            Ok(())
        }
        Mind::Plan(_) => {
            Err("its agent is a plan: a model can be changed in an agent that has `[model]`".to_owned())
        }
    }
}

/// Reads an outcome for a request.
fn outcome(config: &AgentConfig, view: &OperationView, value: Value) -> Result<Outcome, String> {
    if let Value::Object(fields) = &value
        && fields.len() == 1
        && let Some(outcome) = fields.get("outcome")
    {
        return read(outcome.clone());
    }
    Ok(match &view.request {
        Request::ToolCall(_) => Outcome::ToolReturned(match value {
            Value::String(text) => ToolReturn { text, ..ToolReturn::default() },
            value => ToolReturn::structured(value),
        }),
        Request::ModelCompletion(_) => Outcome::ModelReplied(reply(config, value)?),
        Request::MemorySearch(_) => Outcome::MemoryFound(read(value)?),
        Request::MemoryCreate(_) => Outcome::MemoryCreated(read::<MemoryCreated>(value)?),
        Request::MemoryTraverse(_) => Outcome::MemoryTraversed(read::<MemoryTraversal>(value)?),
        Request::AgentCall(_) => {
            let (answer, output) = match value {
                Value::String(answer) => (Some(answer), None),
                output => (None, Some(output)),
            };
            let run = crate::start::child_run(view.operation);
            let (status, error, usage) = (Status::Completed, None, Usage::default());
            let writes = Vec::new();
            Outcome::AgentReturned(AgentReturn { run, status, answer, output, error, usage, writes })
        }
        Request::Input(_) => Outcome::InputGiven(value),
        Request::ApiCall(_) | Request::Email(_) => {
            return Err("it is a part of a declarative tool: replace the outcome of the tool".to_owned());
        }
        Request::Timer(_) => Outcome::TimerFired,
    })
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// A model's reply, with the validations that the shell gives on a real one.
fn reply(config: &AgentConfig, value: Value) -> Result<ModelReply, String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        #[serde(default)]
        text: String,
        #[serde(default)]
        calls: Vec<WrittenCall>,
    }
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct WrittenCall {
        name: String,
        #[serde(default)]
        arguments: Value,
    }
    let Written { text, calls } = match value {
        Value::String(text) => Written { text, calls: Vec::new() },
        value => read(value)?,
    };
    let mut parts = Vec::new();
    if !text.is_empty() {
        parts.push(ReplyPart::Text(text));
    }
    let stop = if calls.is_empty() { StopReason::End } else { StopReason::ToolCalls };
    for (index, WrittenCall { name, arguments }) in calls.into_iter().enumerate() {
        let arguments = if arguments.is_null() { String::new() } else { arguments.to_string() };
        let validation = dalsegno_models::judge_call(&config.tools, &name, &arguments, false);
        parts.push(ReplyPart::Call(CallRequest {
            call_id: format!("set-{index}"),
            name,
            arguments,
            validation: Some(validation),
        }));
    }
    let mut reply = ModelReply::new(parts, stop);
    if let (Mind::Model(mind), StopReason::End) = (&config.mind, stop)
        && let Some(output) = &mind.output
    {
        reply.output = Some(dalsegno_models::judge_output(&output.schema, &reply.text()));
    }
    Ok(reply)
}
