//! What was in doubt, found out by asking a tool that only reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{
    Answer, EffectClass, Gate, GateState, OnIndeterminate, Operation, OperationId, Outcome, Request, Terms,
    ToolCall, ToolKind, ToolName, ToolReturn, Verify,
};
use dalsegno_store::{Body, Evidence, NewRecord};
use serde_json::{Value, json};

use super::running::Running;
use super::{Driver, Input};
use crate::error::RunFailure;
use crate::grant::Leave;
use crate::run::attempt::Attempt;
use crate::run::context::{DocumentCall, RunContext};

/// What a tool is asked about an operation in doubt.
pub(super) struct Question {
    operation: OperationId,
    attempts: u32,
    /// How often a tool has answered before.
    round: u32,
    verify: Verify,
    /// One attempt for each try, or why there is none.
    asks: Result<Vec<Attempt>, String>,
    names: BTreeMap<String, Value>,
}

/// What a tool said of an operation in doubt.
pub(super) struct Found {
    tool: ToolName,
    tries: u32,
    evidence: Evidence,
    result: Option<Value>,
    error: Option<String>,
    /// What the call returned, as far as the tool knows.
    returned: Option<Value>,
}

impl Driver {
    /// Asks whether an operation in doubt took place, where its tool's settings say whom. The question starts after the
    /// commit that says so: a tool that brings its process down is not asked for ever, and one that always denies is not
    /// believed for ever. A person is asked then.
    pub(super) fn verify(&mut self, id: OperationId) {
        if self.stopping || self.ended.is_some() {
            return;
        }
        let Some(operation) = self.missing().find(|operation| operation.id == id).cloned() else { return };
        let Some((tool, verify, arguments)) = self.verify_of(&operation) else { return };
        let progress = self.progress.get(&id).copied().unwrap_or_default();
        if !progress.may_ask(operation.terms.retries) {
            return;
        }
        let key = match &operation.request {
            Request::ApiCall(call) => call.idempotency_key.clone(),
            _ => id.to_string(),
        };
        let about = json!({ "id": id.to_string(), "key": key, "tool": tool, "arguments": arguments });
        let (attempts, round) = (progress.attempts, progress.verifications);
        let names = BTreeMap::from([("operation".to_owned(), about)]);
        let asks = match verify.with.render(&names) {
            Err(error) => Err(format!("the arguments of `verify` cannot be computed: {error}")),
            Ok(parameters) => match self.asks(id, round, &verify, parameters) {
                Some(asks) => Ok(asks),
                None => return,
            },
        };
        let (tool, evidence) = (verify.tool.clone(), Evidence::Unknown);
        let body = Body::Verified { tool, tries: 0, evidence, result: None, error: None };
        self.outbox.push(NewRecord::of(self.now(), id, body));
        self.progress.entry(id).or_default().asks();
        self.questions.push(Question { operation: id, attempts, round, verify, asks, names });
    }

    /// Starts the questions that the last commit announced.
    pub(super) fn ask_questions(&mut self) {
        for question in std::mem::take(&mut self.questions) {
            let context = Arc::clone(&self.context);
            let Question { operation, attempts, round, verify, asks, names } = question;
            self.running.spawn(Running::busy(asking(operation, round), 1, true), async move {
                let found = match asks {
                    Ok(asks) => found_out(&context, &verify, asks, names).await,
                    Err(error) => Found::unknown(&verify, 1, None, Some(error)),
                };
                Input::Verified { operation, attempts, found }
            });
        }
    }

    /// The tool whose operation it is, whom to ask, and with which arguments the tool was called.
    fn verify_of(&self, operation: &Operation) -> Option<(ToolName, Verify, Value)> {
        let tool = match &operation.request {
            Request::ToolCall(call) => call.tool_name.clone(),
            Request::ApiCall(_) | Request::Email(_) => self.tool_above(operation.id)?,
            _ => return None,
        };
        let verify = self.context.config.tools.tools.get(&tool)?.verify.clone()?;
        let state = self.machine.state();
        let call = match &operation.request {
            Request::ToolCall(call) => call.parameters.clone(),
            _ => {
                let above = state.parent_of(operation.id)?;
                let mut pending = state.pending().iter();
                match &pending.find(|pending| pending.operation.id == above)?.operation.request {
                    Request::ToolCall(call) => call.parameters.clone(),
                    _ => Value::Null,
                }
            }
        };
        Some((tool, verify, call))
    }

    /// One attempt for each try; none where today's workspace does not let the agent call the tool.
    fn asks(
        &mut self,
        id: OperationId,
        round: u32,
        verify: &Verify,
        parameters: Value,
    ) -> Option<Vec<Attempt>> {
        let timeout_ms =
            self.context.config.tools.tools.get(&verify.tool).map_or(30_000, |tool| tool.timeout_ms);
        let request =
            Request::ToolCall(Arc::new(ToolCall { tool_name: verify.tool.clone(), parameters, input: None }));
        let operation = Operation {
            id: asking(id, round),
            ordinal: Vec::new(),
            digest: request.digest(),
            request,
            terms: Terms {
                class: EffectClass::Read,
                timeout_ms,
                retries: 0,
                on_indeterminate: OnIndeterminate::Retry,
                pace: None,
            },
            gate: GateState::Open,
        };
        if self.granted(&operation) != Leave::Granted {
            return None;
        }
        let asker = self.asker(&verify.tool);
        let asks = (1..=verify.tries.max(1)).map(|attempt| {
            let tasking = self.tasking(operation.id);
            Attempt { asker: asker.clone(), ..self.task(&operation, attempt, tasking) }
        });
        Some(asks.collect())
    }

    /// Takes what a tool said of an operation in doubt. Where a person was faster, it comes too late.
    pub(super) fn verified(
        &mut self,
        id: OperationId,
        attempts: u32,
        found: Found,
    ) -> Result<(), RunFailure> {
        let waits = self.missing().any(|operation| {
            operation.id == id && matches!(operation.gate, GateState::Waiting(Gate::InDoubt { .. }))
        });
        let same = self.progress.get(&id).is_some_and(|progress| progress.attempts == attempts);
        if !waits || !same || self.ended.is_some() {
            return Ok(());
        }
        let Found { tool, tries, evidence, result, mut error, returned } = found;
        if let Some(error) = &mut error {
            self.context.bindings.secrets().text(error);
        }
        let (result, returned) = (result.map(|it| self.shown(it)), returned.map(|it| self.shown(it)));
        let by = Some(format!("verify: {tool}"));
        let body = Body::Verified { tool, tries, evidence, result, error };
        self.outbox.push(NewRecord::of(self.now(), id, body));
        self.progress.entry(id).or_default().verified();
        match evidence {
            Evidence::Happened => self.answer(id, Answer::Done { result: returned, error: None, by }),
            Evidence::NotHappened => self.answer(id, Answer::NotDone { by }),
            Evidence::Unknown => Ok(()),
        }
    }

    /// A value as it may be recorded; null where it cannot be.
    fn shown(&self, value: Value) -> Value {
        match self.presentable(Outcome::ToolReturned(ToolReturn::structured(value))) {
            Outcome::ToolReturned(returned) => returned.structured.unwrap_or_default(),
            _ => Value::Null,
        }
    }
}

impl Found {
    fn unknown(verify: &Verify, tries: u32, result: Option<Value>, error: Option<String>) -> Self {
        let (tool, evidence) = (verify.tool.clone(), Evidence::Unknown);
        Self { tool, tries, evidence, result, error, returned: None }
    }
}

/// Asks until the tool says that it took place, or has been asked often enough: a receiver may learn of its own work
/// late, so that only the last no counts.
async fn found_out(
    context: &Arc<RunContext>,
    verify: &Verify,
    asks: Vec<Attempt>,
    mut names: BTreeMap<String, Value>,
) -> Found {
    let mut last = Found::unknown(verify, 1, None, None);
    for (tries, ask) in (1..).zip(asks) {
        tokio::time::sleep(Duration::from_millis(verify.delay_ms)).await;
        last = match asked(context, ask).await {
            Ok(result) => {
                names.insert("result".to_owned(), result.clone());
                weighed(verify, tries, result, &names)
            }
            Err(error) => Found::unknown(verify, tries, None, Some(error)),
        };
        if last.evidence == Evidence::Happened {
            break;
        }
    }
    last
}

/// One call of the tool, within the limits that hold for every call.
async fn asked(context: &Arc<RunContext>, ask: Attempt) -> Result<Value, String> {
    let Request::ToolCall(call) = &ask.request else { return Err("it is no call".to_owned()) };
    let tool = context.config.tools.tools.get(&call.tool_name);
    if tool.is_none_or(|tool| !tool.only_reads(&context.config.toolkits)) {
        return Err(format!("`{}` does not only read", call.tool_name));
    }
    if let Some(ToolKind::Declarative { toolkit, tool }) = tool.map(|tool| &tool.kind) {
        return asked_document(context, &ask, toolkit, tool, &call.parameters).await;
    }
    match ask.in_turn().await.map_err(|error| error.failure.message)?.bounded() {
        Outcome::ToolReturned(ToolReturn { is_error: true, text, .. }) => {
            Err(format!("the tool answered with an error: {text}"))
        }
        outcome => outcome.into_value().map_err(|failure| failure.message),
    }
}

/// One call of a tool that is a document, which reads nothing of the session.
async fn asked_document(
    context: &Arc<RunContext>,
    ask: &Attempt,
    toolkit: &str,
    tool: &str,
    arguments: &Value,
) -> Result<Value, String> {
    let document = context.config.toolkits.get(toolkit).ok_or_else(|| format!("there is no `{toolkit}`"))?;
    let asker = ask.asker.clone().ok_or_else(|| format!("there is no `{toolkit}`"))?;
    let config = document.config().clone();
    let call = DocumentCall { asker, tool, arguments, config, operation: ask.operation };
    let outcome = context.runs.call_document(context, call).await?.outcome;
    match outcome.error {
        None => Ok(outcome.output),
        Some(error) => Err(format!("the tool failed: {}", error.message)),
    }
}

/// What a result says, by the author's expression.
fn weighed(verify: &Verify, tries: u32, result: Value, names: &BTreeMap<String, Value>) -> Found {
    let verdict = match verify.verdict.evaluate(names) {
        Ok(verdict) => verdict,
        Err(error) => {
            let error = format!("`verdict` cannot be computed: {error}");
            return Found::unknown(verify, tries, Some(result), Some(error));
        }
    };
    let evidence = match verdict.as_str() {
        Some("happened") => Evidence::Happened,
        Some("not_happened") => Evidence::NotHappened,
        _ => Evidence::Unknown,
    };
    let returned = match (&verify.result, evidence) {
        (Some(expression), Evidence::Happened) => match expression.evaluate(names) {
            Ok(returned) => Some(returned),
            Err(error) => {
                let error = format!("`result` cannot be computed: {error}");
                return Found::unknown(verify, tries, Some(result), Some(error));
            }
        },
        _ => None,
    };
    Found { evidence, returned, ..Found::unknown(verify, tries, Some(result), None) }
}

/// The id under which a tool is asked about an operation: the same in every process, and no operation of the run.
fn asking(id: OperationId, round: u32) -> OperationId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"verify").update(id.as_bytes()).update(&round.to_le_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    OperationId::from_bytes(bytes)
}
