//! Declarative tools: the core performs them, and asks for what they need part by part.
//!
//! A tool's call is an operation of its step like any other, but no shell attempts it. What it asks for are operations
//! below it, one at a time; each goes through gates, attempts and the journal by itself. So a call that is cut off between
//! two parts goes on at the right one, and a replay needs none of them.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use dalsegno_tools::{
    ApiResponse, Call, CallInfo, Context, EffectFailure, EffectOutcome, EffectRequest, ErrorCode, Finished,
    HandoffTo, Next, SessionContext, Tool as Document, ToolError, ToolOutcome, ToolRequest,
};
use serde_json::{Value, json};

use super::admit::{Admitted, Refusal, admit_tool};
use super::budget;
use super::calls::AGENT_TERMS;
use super::plan::{OwnWords, own_words};
use super::result::missing;
use crate::action::{Continuation, open};
use crate::config::{AgentConfig, Budget, SEMANTICS, Tool, ToolKind};
use crate::event::{Failure, FailureCode, Outcome, ToolReturn};
use crate::id::{AgentName, OperationId, Timestamp, ToolName};
use crate::join::{Begun, Join, Pending, Then};
use crate::operation::{AgentCall, Gate, GateState, Operation, Request, Terms};
use crate::response::{RunError, RunErrorCode, Status};
use crate::state::{AgentState, Phase};

/// How deep tools may call tools. A tool that calls itself would never end.
pub const TOOL_DEPTH_MAX: usize = 8;

/// Lets every declarative tool of the step continue that can. A part of a tool that ends with its part is not told of: neither
/// was it asked for.
pub(crate) fn advance(config: &AgentConfig, mut state: AgentState) -> Continuation {
    let phase = core::mem::replace(&mut state.phase, Phase::Start);
    let Phase::Waiting(mut join) = phase else {
        state.phase = phase;
        return Continuation::unchanged(state);
    };
    let before: BTreeSet<OperationId> = open(&join.operations).collect();
    loop {
        if let Some(place) = join.part_that_came() {
            let part = join.operations.remove(place);
            returned(config, part, &mut join, &mut state);
        } else if let Some(place) = join.beginning() {
            begin(config, place, &mut join, &mut state);
        } else {
            break;
        }
    }
    state.phase = Phase::Waiting(join);
    Continuation::moved(state, &before)
}

/// Counts what the tools and the child runs of a group wrote and said, in request order, and takes it out of them. Says
/// whom the first tool hands over to that hands over.
pub(crate) fn fold(config: &AgentConfig, state: &mut AgentState) -> Option<HandoffTo> {
    let AgentState { phase: Phase::Waiting(join), session, request, said, .. } = state else { return None };
    let mut tools = core::mem::take(&mut join.tools);
    let mut handoff = None;
    for pending in &mut join.operations {
        if pending.parent.is_some() {
            // What a part brought counts as its tool's.
            continue;
        }
        let Some(told) = count(pending, &mut tools, session, &request.user) else { continue };
        let is_kept = told.writes_kept;
        if is_kept || config.has_second_rules() {
            said.extend(told.said);
        }
        handoff = handoff.or(told.handoff.filter(|_| is_kept));
    }
    if config.has_second_rules() {
        // The run ends while these are under way: the user has heard them.
        said.extend(tools.iter().flat_map(Begun::saying).map(String::from));
    }
    handoff
}

/// What a declarative tool of a group told besides its result.
pub(crate) struct Told {
    pub(crate) said: Vec<String>,
    pub(crate) handoff: Option<HandoffTo>,
    /// What it wrote is in the session. Otherwise it has failed after all.
    writes_kept: bool,
}

/// Counts what an operation that has ended wrote into the session, and takes it out of it. Returns what it told besides, where it is
/// a declarative tool.
pub(crate) fn count(
    pending: &mut Pending,
    tools: &mut Vec<Begun>,
    session: &mut SessionContext,
    user: &Value,
) -> Option<Told> {
    let Pending { operation, outcome, .. } = pending;
    if let Some(Outcome::AgentReturned(returned)) = outcome {
        let writes = core::mem::take(&mut returned.writes);
        if let Err(error) = session.apply(user, &writes) {
            returned.status = Status::Failed;
            returned.error = Some(RunError {
                code: RunErrorCode::ToolFailed,
                message: alloc::format!("what it wrote into the session cannot be kept: {error}"),
                help: "let agents that run at the same time write to different places".into(),
            });
        }
    }
    let ended = |begun: &Begun| begun.of == operation.id && begun.finished.is_some();
    let place = tools.iter().position(ended)?;
    let Finished { outcome: told, writes } = tools.remove(place).finished?;
    let kept = session.apply(user, &writes);
    if let Err(error) = &kept {
        // A sibling wrote what does not go together with it: this one has failed after all.
        *outcome = Some(Outcome::Failed(Failure::new(FailureCode::ToolFailed, error.to_string())));
    }
    Some(Told { said: told.said, handoff: told.handoff, writes_kept: kept.is_ok() })
}

/// The agent that a document names; `-` and `_` mean the same.
pub(crate) fn target<'c>(config: &'c AgentConfig, handoff: &HandoffTo) -> Option<&'c AgentName> {
    config.agents.keys().find(|agent| plain(agent.as_str()) == plain(&handoff.target_agent))
}

/// The documents and settings of a declarative tool.
struct Declared<'c> {
    tool: &'c Tool,
    document: &'c Document,
    config: &'c Value,
}

fn declared<'c>(config: &'c AgentConfig, operation: &Operation) -> Option<Declared<'c>> {
    let Request::ToolCall(call) = &operation.request else { return None };
    let tool = config.tools.tools.get(&call.tool_name)?;
    let ToolKind::Declarative { toolkit, tool: name } = &tool.kind else { return None };
    let toolkit = config.toolkits.get(toolkit)?;
    Some(Declared { tool, document: toolkit.toolkit().tool(name)?, config: toolkit.config() })
}

/// Begins the tool at a place of the group.
fn begin(config: &AgentConfig, place: usize, join: &mut Join, state: &mut AgentState) {
    let Some(Pending { operation, .. }) = join.operations.get(place) else { return };
    let id = operation.id;
    let Request::ToolCall(call) = &operation.request else { return };
    let Some(declared) = declared(config, operation) else {
        let message = alloc::format!("the tool `{}` is not among the agent's documents", call.tool_name);
        join.settle(id, Outcome::Failed(Failure::new(FailureCode::Unavailable, message)));
        return;
    };
    let (call, at) = (Arc::clone(call), join.time(state.now));
    let given = Given::new(config, id, at, join, state);
    let call =
        Call::begin(declared.document, &call.parameters, &given.context(config, declared.config, state));
    join.tools.push(Begun { of: id, at, call, inner: Vec::new(), finished: None });
    go_on(config, id, join, state);
}

/// Gives a part's outcome to the tool that asked for it.
fn returned(config: &AgentConfig, part: Pending, join: &mut Join, state: &mut AgentState) {
    let Pending { operation, outcome, parent } = part;
    let Some(parent) = parent else { return };
    // A tool that this one called has ended: what it wrote and said counts as this one's.
    let inner = join.tools.iter().position(|begun| begun.of == operation.id);
    let inner = inner.and_then(|place| join.tools.remove(place).finished);
    join.drop_parts(operation.id);
    let mut outcome = outcome;
    // So does what an agent wrote that it called.
    let inner = match &mut outcome {
        Some(Outcome::AgentReturned(returned)) => {
            Some(Finished::wrote(core::mem::take(&mut returned.writes)))
        }
        _ => inner,
    };
    let outcome = answer(config, &operation.request, outcome, state);
    let Some(begun) = join.tools.iter_mut().find(|begun| begun.of == parent) else { return };
    begun.inner.extend(inner);
    take(begun, outcome);
    go_on(config, parent, join, state);
}

/// Lets a tool go on to its next part, or to its end.
fn go_on(config: &AgentConfig, id: OperationId, join: &mut Join, state: &mut AgentState) {
    loop {
        let Some(of) = join.operations.iter().find(|pending| pending.operation.id == id) else { return };
        let (operation, ordinal) = (&of.operation, of.operation.ordinal.clone());
        let Some(place) = join.tools.iter().position(|begun| begun.of == id) else { return };
        let Some(Declared { tool, document, config: own }) = declared(config, operation) else { return };
        let given = Given::new(config, id, join.tools[place].at, join, state);
        let begun = &mut join.tools[place];
        match begun.call.advance(document, &given.context(config, own, state)) {
            Next::Done(finished) => {
                let finished = ended(config, core::mem::take(&mut begun.inner), *finished);
                let outcome = told(config, &finished.outcome);
                begun.finished = Some(finished);
                join.settle(id, outcome);
                return;
            }
            Next::Effect(effect) => {
                let deep = depth(join, id);
                let place_of_part = effect.ordinal;
                match request(config, tool, effect.request, deep, join, state) {
                    Ok((request, terms, gate)) => {
                        let mut ordinal = ordinal;
                        ordinal.push(place_of_part);
                        let part = Operation::mint(state.namespace, state.step, ordinal, request, terms);
                        let gate = state.gate(gate, &part.terms);
                        let operation = Operation { gate, ..part };
                        join.operations.push(Pending { operation, outcome: None, parent: Some(id) });
                        return;
                    }
                    Err(refusal) => {
                        take(&mut join.tools[place], EffectOutcome::Failed(refusal));
                    }
                }
            }
        }
    }
}

/// Gives a call the outcome that it waits for.
fn take(begun: &mut Begun, outcome: EffectOutcome) {
    if begun.call.resume(outcome).is_err() {
        // What somebody said in its place is of no use to it, and it cannot go on without any.
        let message = "what came of it does not answer what was asked for";
        let _ = begun.call.resume(EffectOutcome::Failed(refused(ErrorCode::Internal, message)));
    }
}

/// What a call reads besides its document.
struct Given {
    info: CallInfo,
    tenant: Value,
    now_ms: u64,
}

impl Given {
    fn new(config: &AgentConfig, id: OperationId, at: Timestamp, join: &Join, state: &AgentState) -> Self {
        let settings = &state.request.tenant_settings;
        Self {
            info: CallInfo {
                id: function_call(id, join).unwrap_or_else(|| id.to_string()),
                session: state.session_name.clone(),
                operation: id.to_string(),
                turn: config.has_second_rules().then(|| {
                    let heard = match &join.then {
                        Then::Live(live) => live.turns(),
                        _ => 0,
                    };
                    state.session.turn().saturating_add(heard)
                }),
            },
            tenant: json!({ "name": state.request.tenant, "settings": settings }),
            now_ms: at.as_millis(),
        }
    }

    fn context<'a>(&'a self, config: &'a AgentConfig, own: &'a Value, state: &'a AgentState) -> Context<'a> {
        Context {
            user: &state.request.user,
            tenant: &self.tenant,
            config: own,
            session: &state.session,
            agent: config.name.as_str(),
            call: &self.info,
            now_ms: self.now_ms,
            zone: state.request.tenant_settings["time_zone"].as_str(),
            first_rules: !config.has_second_rules(),
        }
    }
}

/// The model's own id of a call.
fn function_call(id: OperationId, join: &Join) -> Option<String> {
    // That of a tool which another one calls is its operation's: the model knows of one call only.
    join.operations.iter().find(|pending| pending.operation.id == id && pending.parent.is_none())?;
    join.call_id(id).map(String::from)
}

/// The end of a call, with what the tools wrote and said that it called. Refuses a handoff to somebody whom the agent may
/// not hand over to.
fn ended(config: &AgentConfig, inner: Vec<Finished>, own: Finished) -> Finished {
    let mut whole = own;
    if !whole.outcome.ok && config.has_second_rules() {
        // What they wrote is dropped, but what they said was heard.
        let mut said: Vec<String> = inner.into_iter().flat_map(|inner| inner.outcome.said).collect();
        said.append(&mut whole.outcome.said);
        whole.outcome.said = said;
    } else if whole.outcome.ok {
        let mut writes = Vec::new();
        let mut said = Vec::new();
        for Finished { outcome, writes: inner } in inner {
            writes.extend(inner);
            said.extend(outcome.said);
            whole.outcome.handoff = whole.outcome.handoff.or(outcome.handoff);
        }
        writes.append(&mut whole.writes);
        said.append(&mut whole.outcome.said);
        whole.writes = writes;
        whole.outcome.said = said;
    }
    permitted(config, whole)
}

/// How many tools stand above an operation, itself included.
fn depth(join: &Join, mut id: OperationId) -> usize {
    let mut depth = 1;
    while let Some(above) =
        join.operations.iter().find(|pending| pending.operation.id == id).and_then(|pending| pending.parent)
    {
        id = above;
        depth += 1;
    }
    depth
}

fn permitted(config: &AgentConfig, mut finished: Finished) -> Finished {
    let Some(handoff) = &finished.outcome.handoff else { return finished };
    if target(config, handoff).is_some() {
        return finished;
    }
    let message = alloc::format!(
        "the agent `{}` is not among those that `{}` may hand over to",
        handoff.target_agent,
        config.name
    );
    let outcome = &mut finished.outcome;
    outcome.ok = false;
    outcome.output = Value::Null;
    outcome.handoff = None;
    outcome.error = Some(ToolError::new(ErrorCode::NotPermitted, message));
    finished.writes.clear();
    finished
}

/// What a plan and a model read of the end of a call, under the rules of the configuration.
fn told(config: &AgentConfig, outcome: &ToolOutcome) -> Outcome {
    let returned = ToolReturn::from(outcome);
    Outcome::ToolReturned(ToolReturn {
        code: returned.code.filter(|_| config.has_second_rules()),
        error: returned.error.filter(|_| config.has_third_rules()),
        ..returned
    })
}

impl From<&ToolOutcome> for ToolReturn {
    /// What a plan and a model read of the end of a declarative tool's call.
    fn from(outcome: &ToolOutcome) -> Self {
        let plain =
            outcome.ok && outcome.said.is_empty() && outcome.handoff.is_none() && outcome.coerced.is_empty();
        Self {
            structured: outcome.ok.then(|| outcome.output.clone()),
            text: if plain { String::new() } else { outcome.model_text() },
            is_error: !outcome.ok,
            code: outcome.error.as_ref().and_then(code),
            error: outcome.error.clone().map(Box::new),
            actions: outcome.actions.clone(),
            violations: Vec::new(),
            files: Vec::new(),
        }
    }
}

/// The code of a failure that whoever called the tool must know: it says more than that the tool failed.
fn code(error: &ToolError) -> Option<FailureCode> {
    let is_for =
        |code: FailureCode| error.details.get("reason").is_some_and(|reason| reason == code.as_str());
    match error.code {
        ErrorCode::Indeterminate => Some(FailureCode::Indeterminate),
        ErrorCode::ResultUnreadable => Some(FailureCode::ResultUnreadable),
        ErrorCode::ActionFailed if is_for(FailureCode::CrashLoop) => Some(FailureCode::CrashLoop),
        ErrorCode::NotPermitted if is_for(FailureCode::Denied) => Some(FailureCode::Denied),
        ErrorCode::NotPermitted => Some(FailureCode::NotPermitted),
        _ => None,
    }
}

/// What a part asks for, on which terms, and who must agree first.
fn request(
    config: &AgentConfig,
    tool: &Tool,
    request: EffectRequest,
    depth: usize,
    join: &Join,
    state: &mut AgentState,
) -> Result<(Request, Terms, GateState), EffectFailure> {
    match request {
        EffectRequest::ApiCall(call) => {
            let terms = Terms::of_api_call(&call, tool.on_indeterminate, tool.parts);
            Ok((Request::ApiCall(Arc::new(call)), terms, GateState::Open))
        }
        EffectRequest::Email(mail) => {
            let terms = Terms::of_email(&mail, tool.on_indeterminate, tool.parts);
            Ok((Request::Email(Arc::new(mail)), terms, GateState::Open))
        }
        EffectRequest::Transfer(transfer) => {
            may_transfer(join)?;
            let terms = Terms::of_transfer(tool.parts);
            Ok((Request::Transfer(Arc::new(transfer)), terms, GateState::Open))
        }
        EffectRequest::Tool(call) => tool_call(config, call, depth, join, state),
    }
}

/// Says whether the run is a call that can be transferred now.
fn may_transfer(join: &Join) -> Result<(), EffectFailure> {
    let Then::Live(live) = &join.then else {
        return Err(refused(ErrorCode::NotPermitted, "there is no call that could be transferred"));
    };
    // One that has an outcome was not looked at yet.
    match live.may_be_transferred() && !join.transfers() {
        true => Ok(()),
        false => Err(refused(ErrorCode::ActionFailed, "the call is being transferred already, or it ends")),
    }
}

/// A name in which `-` and `_` are the same, as in every document.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

/// The tool that a document names: the one of this very name before one that differs in `-` and `_`.
fn named<'c>(config: &'c AgentConfig, name: &str) -> Option<(&'c ToolName, &'c Tool)> {
    let alike = || {
        let tools = &config.tools;
        let mut alike = tools.tools.iter().filter(|(tool, _)| plain(tool.as_str()) == plain(name));
        alike.find(|(tool, _)| !tools.forbidden.contains(*tool))
    };
    config.tools.find_unpinned(name).or_else(alike)
}

/// The call of another tool, which the agent itself must be allowed to call.
fn tool_call(
    config: &AgentConfig,
    mut call: ToolRequest,
    depth: usize,
    join: &Join,
    state: &mut AgentState,
) -> Result<(Request, Terms, GateState), EffectFailure> {
    if depth >= TOOL_DEPTH_MAX {
        let message = alloc::format!("tools call tools more than {TOOL_DEPTH_MAX} deep");
        return Err(refused(ErrorCode::LimitExceeded, message));
    }
    let left = match config.semantics {
        1 => budget::left(config, state),
        _ => budget::spare(config, state, join),
    };
    if left.max_tool_calls == 0 {
        return Err(refused(ErrorCode::LimitExceeded, "`limits.max_tool_calls` is reached"));
    }
    let Some((name, tool)) = named(config, &call.name) else {
        let name = &call.name;
        if config.tools.forbidden.iter().any(|tool| plain(tool.as_str()) == plain(name)) {
            let message = alloc::format!("the tool `{name}` is not allowed for this agent");
            return Err(refused(ErrorCode::NotPermitted, message));
        }
        let message = alloc::format!("there is no tool `{name}` for this agent: add it to `[tools] allow`");
        return Err(refused(ErrorCode::ToolNotFound, message));
    };
    if config.has_third_rules() {
        call.leave_out(|argument| tool.requires(argument));
    }
    let admitted = admit_tool(config, name, tool, &call.arguments).map_err(refusal)?;
    let (request, terms) = match admitted {
        Admitted::Request(request) => {
            let terms = tool.terms_of(&request);
            (request, terms)
        }
        Admitted::Agent { agent, text, data } => {
            let message = || alloc::format!("the agent `{agent}` is not among those that this one may start");
            let callee = config.agents.get(&agent);
            let callee = callee.ok_or_else(|| refused(ErrorCode::NotPermitted, message()))?;
            let call = AgentCall { agent, text, data, budget: callee.budget };
            let mut request = Request::AgentCall(Arc::new(call));
            // The call itself is one of those that are left; there is at least one.
            let itself = u64::from(config.has_second_rules());
            let left = Budget { max_tool_calls: left.max_tool_calls.saturating_sub(itself), ..left };
            budget::share(core::iter::once(&mut request), left);
            (request, AGENT_TERMS)
        }
        Admitted::Handoff { agent, .. } => {
            let message =
                alloc::format!("a tool hands over to `{agent}` by the action `handoff`, not by a call");
            return Err(refused(ErrorCode::NotPermitted, message));
        }
        Admitted::HangUp => {
            let message = alloc::format!("`{name}` is for the live model of a call, not for a tool");
            return Err(refused(ErrorCode::NotPermitted, message));
        }
    };
    state.usage.tool_calls = state.usage.tool_calls.saturating_add(1);
    let asked = tool.approve || tool.asks_in(config, state, &call.arguments).is_some();
    let gate = if asked { GateState::Waiting(Gate::Approval) } else { GateState::Open };
    Ok((request, terms, gate))
}

fn refused(code: ErrorCode, message: impl Into<String>) -> EffectFailure {
    EffectFailure::new(code, message)
}

fn refusal(refusal: Refusal) -> EffectFailure {
    let mut message = refusal.message;
    for violation in refusal.violations {
        message.push_str(&alloc::format!("; `{}` {}", violation.path, violation.message));
    }
    let code = if refusal.code == "invalid_arguments" {
        ErrorCode::InvalidArguments
    } else {
        ErrorCode::NotPermitted
    };
    refused(code, message)
}

/// A part's outcome in the words of the document's language; what it took is counted.
fn answer(
    config: &AgentConfig,
    request: &Request,
    outcome: Option<Outcome>,
    state: &mut AgentState,
) -> EffectOutcome {
    if let Some(Outcome::AgentReturned(returned)) = &outcome {
        state.usage.add(&returned.usage);
    }
    read(config.semantics, request, outcome.unwrap_or_else(|| Outcome::Failed(missing())))
}

impl Outcome {
    /// Returns what a document reads of it, where the document asked for `request`.
    pub fn into_effect_outcome(self, request: &Request) -> EffectOutcome {
        read(SEMANTICS, request, self)
    }
}

fn read(semantics: u32, request: &Request, outcome: Outcome) -> EffectOutcome {
    let failed = |failure: Failure| {
        EffectOutcome::Failed(match semantics {
            1 => as_before(failure),
            _ => failure.into(),
        })
    };
    match (request, outcome) {
        // The end of the call shows whether it was made.
        (Request::Transfer(_), Outcome::Failed(failure)) if failure.code == FailureCode::Indeterminate => {
            EffectOutcome::Requested
        }
        (Request::Transfer(_), Outcome::Failed(failure)) if failure.code == FailureCode::NotPermitted => {
            EffectOutcome::Failed(EffectFailure {
                code: ErrorCode::NotPermitted,
                ..EffectFailure::from(failure)
            })
        }
        (_, Outcome::Failed(failure)) => failed(failure),
        (Request::ApiCall(_), Outcome::ApiAnswered(response)) => EffectOutcome::Response(response),
        // Somebody said that it was done, and perhaps what came of it.
        (Request::ApiCall(_), Outcome::ToolReturned(returned)) => EffectOutcome::Response(ApiResponse {
            status: 200,
            body: returned.into_value(),
            ..ApiResponse::default()
        }),
        (Request::Email(_), Outcome::EmailSent(receipt)) => {
            EffectOutcome::Sent { message_id: receipt.message_id }
        }
        (Request::Email(_), Outcome::ToolReturned(_)) => EffectOutcome::Sent { message_id: None },
        (Request::Transfer(_), Outcome::TransferRequested | Outcome::ToolReturned(_)) => {
            EffectOutcome::Requested
        }
        (_, outcome) => {
            let own = own_words(semantics, Some(&outcome));
            match (outcome.into_value(), own) {
                (Ok(output), _) => EffectOutcome::Returned { output },
                (Err(failure), None) => failed(failure),
                (Err(failure), Some(own)) => EffectOutcome::Failed(in_own_words(failure, own)),
            }
        }
    }
}

/// The failure of a tool that another one called: that something is in doubt or refused stays what it is.
fn in_own_words(failure: Failure, own: OwnWords) -> EffectFailure {
    let plain = EffectFailure::from(failure);
    match own {
        OwnWords::Declared(error) => {
            let own = EffectFailure::from(*error);
            let code = if plain.code == ErrorCode::ActionFailed { own.code } else { plain.code };
            EffectFailure { code, reason: own.reason.or(plain.reason), ends: plain.ends, ..own }
        }
        OwnWords::Said { text, data } => {
            let mut failure = EffectFailure { message: text, ..plain };
            if !data.is_null() {
                failure.details.insert("data".into(), data);
            }
            failure
        }
    }
}

/// A failure in the words of the rules of number 1.
fn as_before(failure: Failure) -> EffectFailure {
    let is_in_doubt = failure.code == FailureCode::Indeterminate;
    let mut failure = EffectFailure { ends: false, ..failure.into() };
    if is_in_doubt {
        failure.code = ErrorCode::ActionFailed;
    }
    failure
}

impl From<Failure> for EffectFailure {
    fn from(failure: Failure) -> Self {
        let code = match failure.code {
            FailureCode::Timeout => ErrorCode::Timeout,
            FailureCode::Unavailable | FailureCode::Overloaded | FailureCode::Protocol => {
                ErrorCode::HttpError
            }
            FailureCode::NotPermitted => ErrorCode::EgressDenied,
            FailureCode::Denied => ErrorCode::NotPermitted,
            FailureCode::InvalidArguments => ErrorCode::InvalidArguments,
            FailureCode::LimitExceeded => ErrorCode::LimitExceeded,
            FailureCode::Cancelled => ErrorCode::Cancelled,
            FailureCode::Indeterminate => ErrorCode::Indeterminate,
            FailureCode::ResultUnreadable => ErrorCode::ResultUnreadable,
            FailureCode::ToolFailed
            | FailureCode::CrashLoop
            | FailureCode::InvalidOutput
            | FailureCode::AgentFailed => ErrorCode::ActionFailed,
            FailureCode::Internal => ErrorCode::Internal,
        };
        // Whatever `on_error` says, neither a doubt nor a person's no is passed over.
        let ends = matches!(failure.code, FailureCode::Indeterminate | FailureCode::Denied);
        let reason = Some(failure.code.as_str().to_string());
        Self { reason, ends, ..Self::new(code, failure.message) }
    }
}
