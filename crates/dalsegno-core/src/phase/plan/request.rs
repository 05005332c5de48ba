//! An operation of a plan becomes a request: templates are rendered, limits set aside, gates closed.

use alloc::string::{String, ToString};
use alloc::sync::Arc;

use dalsegno_expr::{Scope, Template, ValueTemplate};
use dalsegno_tools::absent_arguments;
use serde_json::Value;

use super::allowance::Allowance;
use super::place::Place;
use super::wait::{self, LONGEST_WAIT_MS};
use crate::canonical::{Canonical, print_json};
use crate::config::{AgentConfig, Approve, PlanCall, PlanOperation, RelationTemplate, Tool, ToolKind};
use crate::id::{AgentName, ToolName};
use crate::operation::{
    AgentCall, Gate, GateState, Input, MemoryCreate, MemorySearch, MemoryTraverse, ModelCompletion, Prompt,
    Purpose, RelationTo, Request, Terms, Timer, ToolCall, ToolChoice, feed_schema,
};
use crate::phase::Stop;
use crate::phase::calls::AGENT_TERMS;
use crate::phase::start::MEMORY_TIMEOUT_MS;
use crate::response::RunErrorCode;
use crate::state::{AgentState, Decision};
use crate::tokens::estimate_tokens;

/// What becomes of an operation.
pub(super) enum Drawn {
    /// It is asked for.
    Asked(Draft),
    /// Its result is known already.
    Known(Value),
}

/// An operation that is asked for once all of its step are drawn up.
pub(super) struct Draft {
    pub(super) request: Request,
    pub(super) terms: Terms,
    pub(super) gate: GateState,
    /// The rule about the arguments by which a person must agree first.
    rule: Option<String>,
}

impl Draft {
    fn open(request: Request, terms: Terms) -> Drawn {
        Drawn::Asked(Self { request, terms, gate: GateState::Open, rule: None })
    }

    pub(super) fn into_parts(self) -> (Request, Terms, GateState) {
        (self.request, self.terms, self.gate)
    }
}

/// Notes each tool that waits for a person, once.
pub(super) fn note_approvals<'d>(drafts: impl Iterator<Item = &'d Draft>, state: &mut AgentState) {
    let mut noted: Option<&ToolName> = None;
    for draft in drafts {
        if let (GateState::Waiting(Gate::Approval), Request::ToolCall(call)) = (&draft.gate, &draft.request)
            && noted != Some(&call.tool_name)
        {
            noted = Some(&call.tool_name);
            let (name, rule) = (call.tool_name.to_string(), draft.rule.clone());
            state.decide(Decision::AskApproval { name, rule });
        }
    }
}

/// Draws up one operation.
pub(super) fn draw(
    config: &AgentConfig,
    place: Place<'_>,
    operation: &PlanOperation,
    scope: &dyn Scope,
    state: &AgentState,
    allowance: &mut Allowance<'_>,
) -> Result<Drawn, Stop> {
    let drawn = match &operation.call {
        PlanCall::MemorySearch { query, limit, min_score } => {
            let query = place.text(query, scope)?;
            let search = MemorySearch { query, limit: *limit, min_score: *min_score };
            Draft::open(Request::MemorySearch(Arc::new(search)), Terms::read(MEMORY_TIMEOUT_MS))
        }
        PlanCall::MemoryCreate { entity, entity_type, content, relations } => {
            let relation = |RelationTemplate { relation, to }: &RelationTemplate| {
                Ok(RelationTo { relation: relation.clone(), to: place.text(to, scope)? })
            };
            let create = MemoryCreate {
                entity: place.text(entity, scope)?,
                entity_type: entity_type.clone(),
                content: place.text(content, scope)?,
                relations: relations.iter().map(relation).collect::<Result<_, Stop>>()?,
            };
            Draft::open(Request::MemoryCreate(Arc::new(create)), Terms::keyed(MEMORY_TIMEOUT_MS))
        }
        PlanCall::MemoryTraverse { from, relation, depth, limit } => {
            let from = place.text(from, scope)?;
            let traverse = MemoryTraverse { from, relation: relation.clone(), depth: *depth, limit: *limit };
            Draft::open(Request::MemoryTraverse(Arc::new(traverse)), Terms::read(MEMORY_TIMEOUT_MS))
        }
        PlanCall::Agent { agent, text, data } => {
            agent_call(config, place, agent, text.as_ref(), data.as_ref(), scope, state)?
        }
        PlanCall::Model { model, instructions, prompt, schema } => {
            let instructions =
                instructions.as_ref().map(|template| place.text(template, scope)).transpose()?;
            let text = place.text(prompt, scope)?;
            // A stored `null` reads back as none, so it is none from the beginning.
            let schema = schema.clone().filter(|schema| !schema.is_null());
            let prompt = Prompt { model: model.clone(), instructions, text, schema };
            completion(place, prompt, state, allowance)?
        }
        PlanCall::Ask { question, schema } => {
            let schema = schema.clone().filter(|schema| !schema.is_null());
            let input = Input { question: place.text(question, scope)?, schema };
            Drawn::Asked(Draft {
                request: Request::Input(Arc::new(input)),
                terms: Terms::patient(LONGEST_WAIT_MS),
                gate: GateState::Waiting(Gate::Input),
                rule: None,
            })
        }
        PlanCall::Wait(wait) => {
            let until = wait::until(place, wait, scope, state.now)?;
            if until <= state.now {
                return Ok(Drawn::Known(state.now.as_millis().into()));
            }
            Draft::open(Request::Timer(Timer { until }), Terms::patient(LONGEST_WAIT_MS))
        }
        PlanCall::Tool { tool: name, with, approve } => {
            let tool = allowed(config, place, name)?;
            let mut parameters = place.value(with, scope)?;
            if config.has_third_rules() {
                leave_out(tool, with.source(), &mut parameters);
            }
            let asked = match approve {
                Approve::AsConfigured => false,
                Approve::Always => true,
                Approve::When(condition) => place.is_true(condition, scope)?,
            };
            Drawn::Asked(tool_call(config, place, name, parameters, asked, state)?)
        }
    };
    if let Drawn::Asked(draft) = &drawn {
        allowance.request(place, &draft.request)?;
    }
    Ok(drawn)
}

/// Draws up the call of the tool that stands in for one that failed, with the same arguments. Its own settings say
/// whether a person must agree.
pub(super) fn stand_in(
    config: &AgentConfig,
    place: Place<'_>,
    name: &ToolName,
    parameters: Value,
    state: &AgentState,
    allowance: &mut Allowance<'_>,
) -> Result<Draft, Stop> {
    allowed(config, place, name)?;
    allowance.call(place)?;
    let draft = tool_call(config, place, name, parameters, false, state)?;
    allowance.request(place, &draft.request)?;
    Ok(draft)
}

/// Finds a tool that the plan may call.
fn allowed<'c>(config: &'c AgentConfig, place: Place<'_>, name: &ToolName) -> Result<&'c Tool, Stop> {
    let found = config
        .tools
        .tools
        .get(name)
        .filter(|tool| matches!(tool.kind, ToolKind::External | ToolKind::Declarative { .. }));
    found.filter(|_| !config.tools.forbidden.contains(name)).ok_or_else(|| {
        place.stop(
            RunErrorCode::ToolFailed,
            format_args!("the tool `{name}` is not among the agent's tools"),
            "add it to `[tools] allow`, or look at the server that should offer it",
        )
    })
}

/// Leaves out the arguments that came to nothing, but for those that the tool requires.
fn leave_out(tool: &Tool, written: &Value, parameters: &mut Value) {
    let absent = absent_arguments(written, parameters);
    if let Value::Object(parameters) = parameters {
        for name in absent.iter().filter(|name| !tool.requires(name)) {
            parameters.remove(name);
        }
    }
}

fn tool_call(
    config: &AgentConfig,
    place: Place<'_>,
    name: &ToolName,
    parameters: Value,
    asked: bool,
    state: &AgentState,
) -> Result<Draft, Stop> {
    let tool = allowed(config, place, name)?;
    if let Some(rule) = tool.denies(&parameters) {
        return Err(place.stop(
            RunErrorCode::ToolFailed,
            format_args!("the agent's rules deny this call of `{name}`: {rule}"),
            "call the tool with other arguments, or change `deny` of `[tools]` in the agent file",
        ));
    }
    let rule = if asked || tool.approve { None } else { tool.asks_in(config, state, &parameters) };
    let asked = asked || tool.approve || rule.is_some();
    let gate = if asked { GateState::Waiting(Gate::Approval) } else { GateState::Open };
    let call = ToolCall { tool_name: name.clone(), parameters, input: None };
    Ok(Draft { request: Request::ToolCall(Arc::new(call)), terms: tool.terms(), gate, rule })
}

/// Draws up a child run, with its own limits: what it may use of them is shared out once all of the step are drawn up.
fn agent_call(
    config: &AgentConfig,
    place: Place<'_>,
    agent: &AgentName,
    text: Option<&Template>,
    data: Option<&ValueTemplate>,
    scope: &dyn Scope,
    state: &AgentState,
) -> Result<Drawn, Stop> {
    let text = match text {
        Some(template) => place.text(template, scope)?,
        None => state.request.text.clone(),
    };
    let data = match data {
        Some(template) => place.value(template, scope)?,
        None => Value::Null,
    };
    let budget = config.agents.get(agent).ok_or_else(|| unknown_agent(place, agent))?.budget;
    let call = AgentCall { agent: agent.clone(), text, data, budget };
    Ok(Draft::open(Request::AgentCall(Arc::new(call)), AGENT_TERMS))
}

pub(super) fn unknown_agent(place: Place<'_>, agent: &AgentName) -> Stop {
    place.stop(
        RunErrorCode::AgentFailed,
        format_args!("the agent `{agent}` is not among those that this one may start"),
        "look for its file in the workspace, or for an agent with the capability that the step asks for",
    )
}

/// Asks a model once, with a prompt of its own and without tools.
fn completion(
    place: Place<'_>,
    prompt: Prompt,
    state: &AgentState,
    allowance: &mut Allowance<'_>,
) -> Result<Drawn, Stop> {
    let schema = prompt.schema.as_ref().map(|schema| print_json(schema));
    let texts = [Some(&prompt.text), prompt.instructions.as_ref(), schema.as_ref()];
    let bytes: usize = texts.into_iter().flatten().map(String::len).sum();
    let entries = 1 + u64::from(prompt.instructions.is_some());
    let input_tokens = estimate_tokens(bytes as u64) + entries * MESSAGE_TOKENS;
    let reservation = allowance.completion(place, &prompt.model, input_tokens, state)?;
    let timeout_ms = prompt.model.timeout_ms;
    let completion = ModelCompletion {
        new_from: 0,
        entries,
        chain: chain(&prompt),
        tool_choice: ToolChoice::None,
        fallback: 0,
        max_output_tokens: reservation.max_output_tokens,
        reserved: reservation.reserved,
        purpose: Purpose::Step(Arc::new(prompt)),
    };
    let terms = Terms { retries: reservation.retries, ..Terms::patient(timeout_ms) };
    Ok(Draft::open(Request::ModelCompletion(Arc::new(completion)), terms))
}

fn chain(prompt: &Prompt) -> crate::canonical::Digest {
    let mut canonical = Canonical::new("prompt");
    prompt.model.feed(&mut canonical);
    canonical.tag(u8::from(prompt.instructions.is_some()));
    canonical.text(prompt.instructions.as_deref().unwrap_or_default()).text(&prompt.text);
    canonical.tag(u8::from(prompt.schema.is_some()));
    feed_schema(prompt.schema.as_ref(), &mut canonical);
    canonical.finish()
}

/// What a message takes besides its text: role and separators.
const MESSAGE_TOKENS: u64 = 4;
