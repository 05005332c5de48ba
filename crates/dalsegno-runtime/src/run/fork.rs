//! A new run from any step of another, with a changed outcome, configuration or model.

use std::collections::BTreeMap;

use serde_json::Value;

use dalsegno_core::{
    AgentConfig, AgentRequest, AgentReturn, CallRequest, MemoryCreated, MemoryTraversal, Mind, ModelReply,
    OperationId, Outcome, ReplyPart, Request, RunId, Status, StopReason, Surface, ToolReturn, Usage,
};
use dalsegno_history::{ForkPoint, HistoryError, OperationView, child_run, is_call};
use dalsegno_store::{Body, Created, NewRecord, Record};

use crate::engine::Engine;
use crate::error::{EngineError, RunFailure};
use crate::request;
use crate::run::answers;
use crate::run::converse::{Conversation, Line};
use crate::run::handle::RunHandle;
use crate::run::start::Beginning;

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
        let (beginning, forked) = self.forked(run, options, None).await?;
        self.begin_run(beginning, Some(forked)).await
    }

    /// Forks a call, as [`fork`](Self::fork) does with other runs: before a turn, or right after an outcome that is replaced. The new
    /// call continues over this surface with what was said and done until there; nothing of what was under way continues.
    ///
    /// # Errors
    /// As for [`fork`](Self::fork), and when the run is no call.
    pub async fn fork_call(
        &self,
        run: RunId,
        surface: Surface,
        options: ForkOptions,
    ) -> Result<Conversation, EngineError> {
        let (line, (news, commands, stay)) = Line::new();
        let (beginning, forked) = self.forked(run, options, Some(surface)).await?;
        let beginning = Beginning { line: Some(line), ..beginning };
        let handle = Box::pin(self.begin_run(beginning, Some(forked))).await?;
        Ok(Conversation { handle, news, commands, stay })
    }

    /// Forks a run and performs nothing of the new one: a worker does, or [`resume`](Self::resume).
    ///
    /// # Errors
    /// As for [`fork`](Self::fork).
    pub async fn fork_only(&self, run: RunId, options: ForkOptions) -> Result<RunId, EngineError> {
        let (beginning, forked) = self.forked(run, options, None).await?;
        let mut prepared = self.prepare(beginning, None).await?;
        prepared.new.records.push(forked);
        // What it begins with is folded first: nothing is written down when that does not fit.
        Box::pin(self.journal().origin_of(&mut prepared.new)).await?;
        match self.store().create(prepared.new).await? {
            Created::New(lease) => {
                let new = lease.run();
                let released = self.store().release(lease).await;
                released.map_err(|source| RunFailure::Append { run: new, source })?;
                Ok(new)
            }
            Created::Existing(run) => Ok(run),
        }
    }

    /// How a fork begins; of a call, over which surface.
    async fn forked(
        &self,
        run: RunId,
        options: ForkOptions,
        surface: Option<Surface>,
    ) -> Result<(Beginning, NewRecord), EngineError> {
        let ForkOptions { at, set, config, model, live_effects } = options;
        let (own, records) = self.journal().journal_of(run).await?;
        if surface.is_some() != is_call(&records) {
            let message = match surface {
                Some(_) => "it is no call",
                None => "it is a call, which continues where somebody speaks: fork it with `dalsegno fork`",
            };
            return Err(HistoryError::Fork { run, message: message.to_owned() }.into());
        }
        let mut point = self.journal().fork_point(run, &own, &records, at, set, &outcome).await?;
        let source = self.journal().started(point.run).await?;
        let foreign = self.store().summary(point.run).await?.foreign.is_some();
        let (mut config, modules) = if foreign {
            self.resolve(&self.agent(&source.agent)?, &source.request.tenant).await?
        } else {
            (config.unwrap_or_else(|| (*own).clone()), last_modules(&records))
        };
        if let Some(model) = model {
            let changed = self.workspace().change_model(&mut config, &model);
            changed.map_err(|message| HistoryError::Fork { run, message })?;
        }
        let new = self.new_run_id();
        let paths = &self.bindings().settings().secret_paths;
        let request =
            if foreign { request::without_what_is_ours(source.request, paths) } else { source.request };
        let request = AgentRequest { surface, ..request };
        let beginning = Beginning {
            ask_effects: !live_effects,
            budget: source.budget,
            pinned: Some((config, modules)),
            ..Beginning::new(new, source.agent, request, new.to_string())
        };
        let (overrides, mut outcomes): (Vec<OperationId>, Vec<Outcome>) =
            std::mem::take(&mut point.replaced).into_iter().unzip();
        outcomes.iter_mut().for_each(|outcome| self.bindings().secrets().scrub(outcome));
        let ForkPoint { run, seq, within, step, replaced: _ } = point;
        let ask_effects = !live_effects;
        let forked = Body::Forked { run, seq, within, overrides, step, outcomes, ask_effects, foreign };
        Ok((beginning, NewRecord::new(self.now(), forked)))
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

/// Reads an outcome for a request.
pub(crate) fn outcome(config: &AgentConfig, view: &OperationView, value: Value) -> Result<Outcome, String> {
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
            let run = child_run(view.operation);
            let (status, error, usage) = (Status::Completed, None, Usage::default());
            let writes = Vec::new();
            Outcome::AgentReturned(AgentReturn { run, status, answer, output, error, usage, writes })
        }
        Request::Input(input) => Outcome::InputGiven(answers::fit_schema(input.schema.as_ref(), value)?),
        Request::ApiCall(_) | Request::Email(_) | Request::Transfer(_) => {
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
