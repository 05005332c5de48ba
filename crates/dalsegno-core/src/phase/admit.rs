//! Which of a model's calls leave the core, and as what.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde_json::{Value, json};

use crate::canonical::print_json;
use crate::config::{AgentConfig, Tool, ToolKind};
use crate::event::{Failure, FailureCode};
use crate::id::{AgentName, ToolName};
use crate::join::Settled;
use crate::operation::{MemoryCreate, MemorySearch, MemoryTraverse, RelationTo, Request, Terms, ToolCall};
use crate::phase::start::MEMORY_TIMEOUT_MS;
use crate::reply::{CallRequest, Validation, Violation};
use crate::state::AgentState;

/// Hits of a `memory.search` that names no limit.
const DEFAULT_HITS: u32 = 5;

/// Relations in a row of a `memory.traverse` that names no depth, and the most that it may name.
const DEPTH: (u32, u32) = (2, 8);

/// Entities of a `memory.traverse` that names no limit, and the most that it may name.
const ENTITIES: (u32, u32) = (50, 1_000);

/// What is said of a call of `call.hang_up` outside of calls.
pub(crate) const NO_CALL: &str = "there is no call that could be hung up";

/// What a call that may leave the core asks for.
pub(crate) enum Admitted {
    Request(Request),
    /// A child run, which may use what is left when its turn comes.
    Agent {
        agent: AgentName,
        text: String,
        data: Value,
    },
    Handoff {
        agent: AgentName,
        message: Option<String>,
    },
    /// The call is to end.
    HangUp,
}

/// A call that may leave the core.
pub(crate) struct Allowed<'a> {
    pub(crate) name: &'a ToolName,
    pub(crate) tool: &'a Tool,
    pub(crate) admitted: Admitted,
    /// The rule about its arguments by which a person must agree first.
    pub(crate) rule: Option<String>,
}

/// Why a call never leaves the core, or failed; the model reads it and goes on.
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) violations: Vec<Violation>,
}

impl Refusal {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), violations: Vec::new() }
    }

    /// What the model reads: an object, so that it looks the same for every tool.
    pub(crate) fn into_settled(self) -> Settled {
        let mut error = json!({ "code": self.code, "message": self.message });
        if !self.violations.is_empty() {
            error["violations"] = json!(self.violations);
        }
        let content = print_json(&json!({ "ok": false, "error": error }));
        Settled { is_error: true, ..Settled::text(content) }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code.as_str(), message: failure.message, violations: failure.violations }
    }
}

impl AgentConfig {
    /// Returns why a call of the agent's model never leaves the core, as a code such as `tool_not_found`, whatever else its reply
    /// holds; none for a call that does.
    pub fn refuses(&self, call: &CallRequest) -> Option<&'static str> {
        admit(self, call, None).err().map(|refusal| refusal.code)
    }
}

/// Turns a call into what it asks for, unless it must not leave the core.
///
/// Without a state, what it asks for is known, and not whether a person must agree to where its arguments come from.
pub(crate) fn admit<'a>(
    config: &'a AgentConfig,
    call: &CallRequest,
    state: Option<&AgentState>,
) -> Result<Allowed<'a>, Refusal> {
    let Some((name, tool)) = config.tools.find(&call.name) else {
        if config.tools.is_forbidden(&call.name) {
            let message = alloc::format!("the tool `{}` is not allowed for this agent", call.name);
            return Err(Refusal::new("not_permitted", message));
        }
        let known: Vec<String> =
            config.tools.tools.keys().map(|tool| config.tools.model_name(tool)).collect();
        let message = alloc::format!("there is no tool `{}`; the tools are: {}", call.name, known.join(", "));
        return Err(Refusal::new("tool_not_found", message));
    };
    let arguments = match &call.validation {
        Some(Validation::Valid { arguments }) => arguments,
        Some(Validation::Invalid { violations }) => {
            let message = "the arguments do not fit the tool's schema; correct them and call again";
            let violations = violations.clone();
            return Err(Refusal { violations, ..Refusal::new("invalid_arguments", message) });
        }
        Some(Validation::Malformed { message }) => {
            let message = alloc::format!("the arguments are not a JSON object: {message}");
            return Err(Refusal::new("invalid_arguments", message));
        }
        Some(Validation::Truncated) => {
            let message = "the call was cut off at the reply's length limit and was not executed";
            return Err(Refusal::new("invalid_arguments", message));
        }
        None => {
            let message = "the arguments were not checked, so the call was not executed";
            return Err(Refusal::new("invalid_arguments", message));
        }
    };
    let admitted = admit_tool(config, name, tool, arguments)?;
    let rule = state.and_then(|state| tool.asks_in(config, state, arguments));
    Ok(Allowed { name, tool, admitted, rule })
}

/// Turns arguments of an allowed tool into what they ask for.
pub(crate) fn admit_tool(
    config: &AgentConfig,
    name: &ToolName,
    tool: &Tool,
    arguments: &Value,
) -> Result<Admitted, Refusal> {
    if let Some(rule) = tool.denies(arguments) {
        let message = alloc::format!("the agent's rules deny this call of `{name}`: {rule}");
        return Err(Refusal::new("not_permitted", message));
    }
    match &tool.kind {
        ToolKind::Agent { agent } => {
            known(config, agent)?;
            let data = arguments.get("data").cloned().unwrap_or_default();
            Ok(Admitted::Agent { agent: agent.clone(), text: text(arguments, "text")?, data })
        }
        ToolKind::Handoff { agent } => {
            known(config, agent)?;
            if tool.approve || tool.has_rules() {
                let message = "a handoff cannot wait for an approval";
                return Err(Refusal::new("not_permitted", message));
            }
            Ok(Admitted::Handoff { agent: agent.clone(), message: optional(arguments, "message")? })
        }
        ToolKind::HangUp => {
            if tool.approve || tool.has_rules() {
                let message = "hanging up cannot wait for an approval";
                return Err(Refusal::new("not_permitted", message));
            }
            Ok(Admitted::HangUp)
        }
        ToolKind::External
        | ToolKind::Declarative { .. }
        | ToolKind::MemorySearch
        | ToolKind::MemoryCreate
        | ToolKind::MemoryTraverse => Ok(Admitted::Request(tool.request(name, arguments)?)),
    }
}

impl Tool {
    /// Returns what a call with these arguments asks for. The agent's rules about calls are not applied here.
    ///
    /// # Errors
    ///
    /// When an argument of a memory tool is missing or has another type, or when the tool is an agent: only a run can call
    /// one.
    pub fn request(&self, name: &ToolName, arguments: &Value) -> Result<Request, Failure> {
        Ok(match &self.kind {
            ToolKind::External | ToolKind::Declarative { .. } => Request::ToolCall(Arc::new(ToolCall {
                tool_name: name.clone(),
                parameters: arguments.clone(),
                input: None,
            })),
            ToolKind::MemorySearch => Request::MemorySearch(Arc::new(MemorySearch {
                query: text(arguments, "query")?,
                limit: number(arguments, "limit").unwrap_or(DEFAULT_HITS),
                min_score: 0.0,
            })),
            ToolKind::MemoryCreate => Request::MemoryCreate(Arc::new(MemoryCreate {
                entity: text(arguments, "entity")?,
                entity_type: optional(arguments, "type")?.unwrap_or_else(|| "note".to_string()),
                content: text(arguments, "content")?,
                relations: relations(arguments)?,
            })),
            ToolKind::MemoryTraverse => Request::MemoryTraverse(Arc::new(MemoryTraverse {
                from: text(arguments, "from")?,
                relation: optional(arguments, "relation")?,
                depth: number(arguments, "depth").unwrap_or(DEPTH.0).clamp(1, DEPTH.1),
                limit: number(arguments, "limit").unwrap_or(ENTITIES.0).clamp(1, ENTITIES.1),
            })),
            ToolKind::Agent { agent } | ToolKind::Handoff { agent } => {
                let message = alloc::format!("`{name}` is the agent `{agent}`, and only a run can call it");
                return Err(Failure::new(FailureCode::NotPermitted, message));
            }
            ToolKind::HangUp => return Err(Failure::new(FailureCode::NotPermitted, NO_CALL)),
        })
    }

    /// Returns the terms on which a request of this tool runs. The memory has terms of its own.
    pub fn terms_of(&self, request: &Request) -> Terms {
        match request {
            Request::MemorySearch(_) | Request::MemoryTraverse(_) => Terms::read(MEMORY_TIMEOUT_MS),
            Request::MemoryCreate(_) => Terms::keyed(MEMORY_TIMEOUT_MS),
            Request::ModelCompletion(_)
            | Request::ToolCall(_)
            | Request::ApiCall(_)
            | Request::Email(_)
            | Request::Transfer(_)
            | Request::AgentCall(_)
            | Request::Input(_)
            | Request::Timer(_) => self.terms(),
        }
    }
}

fn known(config: &AgentConfig, agent: &AgentName) -> Result<(), Refusal> {
    if config.agents.contains_key(agent) {
        return Ok(());
    }
    let message = alloc::format!("the agent `{agent}` is not among those that this agent may call");
    Err(Refusal::new("not_permitted", message))
}

fn invalid(key: &str, what: &str) -> Failure {
    Failure::new(FailureCode::InvalidArguments, alloc::format!("`{key}` is {what}"))
}

fn text(arguments: &Value, key: &str) -> Result<String, Failure> {
    arguments[key].as_str().map(ToString::to_string).ok_or_else(|| invalid(key, "missing or not a string"))
}

fn optional(arguments: &Value, key: &str) -> Result<Option<String>, Failure> {
    match &arguments[key] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(invalid(key, "not a string"))
        }
    }
}

fn number(arguments: &Value, key: &str) -> Option<u32> {
    arguments[key].as_u64().and_then(|number| u32::try_from(number).ok())
}

fn relations(arguments: &Value) -> Result<Vec<RelationTo>, Failure> {
    let wrong = || invalid("relations", "not a list of objects with the texts `relation` and `to`");
    match &arguments["relations"] {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items
            .iter()
            .map(|item| match (&item["relation"], &item["to"]) {
                (Value::String(relation), Value::String(to)) => {
                    Ok(RelationTo { relation: relation.clone(), to: to.clone() })
                }
                _ => Err(wrong()),
            })
            .collect(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => Err(wrong()),
    }
}
