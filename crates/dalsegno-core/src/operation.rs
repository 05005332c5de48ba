//! What a run asks for: operations, their identity, their terms, their gates.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use dalsegno_tools::{ApiCall, Email, Transfer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::{Canonical, Digest};
use crate::config::{Budget, ModelSettings, OnIndeterminate, PartTerms};
use crate::event::Outcome;
use crate::id::{AgentName, OperationId, RunId, Timestamp, ToolName};
use crate::schema::JsonSchema;

/// One thing that a run asks its shell to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The operation's identity, derived from the run, the step, the ordinal and the digest.
    pub id: OperationId,
    /// Its place within the step: `[i]` in a group, `[plan step, i]` in a `for_each`.
    pub ordinal: Vec<u32>,
    /// The digest of the request as it was minted; a run that asks for something else has another. Arguments that a
    /// person edits afterwards do not change it.
    pub digest: Digest,
    /// What to do.
    pub request: Request,
    /// On which terms.
    pub terms: Terms,
    /// Whether something must be answered first.
    pub gate: GateState,
}

impl Operation {
    pub(crate) fn mint(
        namespace: RunId,
        step: u64,
        ordinal: Vec<u32>,
        request: Request,
        terms: Terms,
    ) -> Self {
        let digest = request.digest();
        let mut canonical = Canonical::new("operation");
        canonical.bytes(namespace.as_bytes()).number(step).number(ordinal.len() as u64);
        for index in &ordinal {
            canonical.number(u64::from(*index));
        }
        canonical.bytes(digest.as_bytes());
        let id = OperationId::from_bytes(canonical.finish().truncated());
        Self { id, ordinal, digest, request, terms, gate: GateState::Open }
    }

    /// Says whether the operation is the call of a declarative tool: the core performs it, step by step, and asks for its
    /// parts. A shell attempts only those.
    pub fn is_declarative(&self) -> bool {
        self.terms.class == EffectClass::Composite && matches!(self.request, Request::ToolCall(_))
    }
}

/// What an operation does. Payloads are shared, so that an action and a state can both hold them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Asks the model for a reply.
    ModelCompletion(Arc<ModelCompletion>),
    /// Searches the memory.
    MemorySearch(Arc<MemorySearch>),
    /// Adds to the memory.
    MemoryCreate(Arc<MemoryCreate>),
    /// Follows relations in the memory.
    MemoryTraverse(Arc<MemoryTraverse>),
    /// Calls a tool.
    ToolCall(Arc<ToolCall>),
    /// Calls an HTTP endpoint, for a declarative tool.
    ApiCall(Arc<ApiCall>),
    /// Sends a mail, for a declarative tool.
    Email(Arc<Email>),
    /// Has the call that the run is transferred, for a declarative tool.
    Transfer(Arc<Transfer>),
    /// Starts a child run, whose answer comes back.
    AgentCall(Arc<AgentCall>),
    /// Asks a person.
    Input(Arc<Input>),
    /// Waits for a time.
    Timer(Timer),
}

impl Request {
    /// The tool call, where the request is one.
    pub fn as_tool_call(&self) -> Option<&ToolCall> {
        match self {
            Self::ToolCall(call) => Some(call),
            Self::ModelCompletion(_)
            | Self::MemorySearch(_)
            | Self::MemoryCreate(_)
            | Self::MemoryTraverse(_)
            | Self::ApiCall(_)
            | Self::Email(_)
            | Self::Transfer(_)
            | Self::AgentCall(_)
            | Self::Input(_)
            | Self::Timer(_) => None,
        }
    }

    /// The timer, where the request is one.
    pub fn as_timer(&self) -> Option<&Timer> {
        match self {
            Self::Timer(timer) => Some(timer),
            Self::ModelCompletion(_)
            | Self::MemorySearch(_)
            | Self::MemoryCreate(_)
            | Self::MemoryTraverse(_)
            | Self::ToolCall(_)
            | Self::ApiCall(_)
            | Self::Email(_)
            | Self::Transfer(_)
            | Self::AgentCall(_)
            | Self::Input(_) => None,
        }
    }

    /// The request's kind and object in a few words, such as ``tool `risk.score` ``.
    pub fn label(&self) -> String {
        match self {
            Self::ModelCompletion(_) => "model completion".into(),
            Self::MemorySearch(_) => "memory search".into(),
            Self::MemoryCreate(_) => "memory create".into(),
            Self::MemoryTraverse(_) => "memory traverse".into(),
            Self::ToolCall(call) => alloc::format!("tool `{}`", call.tool_name),
            Self::ApiCall(call) => alloc::format!("{} {}", call.method.as_str(), call.url),
            Self::Email(mail) => alloc::format!("mail to {}", mail.to.join(", ")),
            Self::Transfer(transfer) => alloc::format!("transfer to {}", transfer.target),
            Self::AgentCall(call) => alloc::format!("agent `{}`", call.agent),
            Self::Input(_) => "question".into(),
            Self::Timer(_) => "timer".into(),
        }
    }

    /// The same without what may be personal: an address loses its path, a mail its recipients. A journal keeps these words
    /// with the request.
    pub fn label_without_values(&self) -> String {
        match self {
            Self::ApiCall(call) => {
                alloc::format!("{} {}", call.method.as_str(), origin(&alloc::format!("{}", call.url)))
            }
            Self::Email(mail) => match mail.to.len() {
                1 => "mail to 1 recipient".into(),
                count => alloc::format!("mail to {count} recipients"),
            },
            Self::Transfer(_) => "transfer".into(),
            Self::ModelCompletion(_)
            | Self::MemorySearch(_)
            | Self::MemoryCreate(_)
            | Self::MemoryTraverse(_)
            | Self::ToolCall(_)
            | Self::AgentCall(_)
            | Self::Input(_)
            | Self::Timer(_) => self.label(),
        }
    }

    /// The digest of the request. Terms are not part of it: they say how, not what.
    pub fn digest(&self) -> Digest {
        let mut canonical = Canonical::new("request");
        match self {
            Self::ModelCompletion(completion) => {
                canonical.tag(0).bytes(completion.chain.as_bytes());
                completion.tool_choice.feed(&mut canonical);
                completion.feed_rest(&mut canonical);
            }
            Self::MemorySearch(search) => {
                canonical.tag(1).text(&search.query).number(u64::from(search.limit));
                canonical.number(search.min_score.to_bits());
            }
            Self::MemoryCreate(create) => {
                canonical.tag(2).text(&create.entity).text(&create.entity_type).text(&create.content);
                for RelationTo { relation, to } in &create.relations {
                    canonical.text(relation).text(to);
                }
            }
            Self::ToolCall(call) => {
                canonical.tag(3).text(call.tool_name.as_str()).json(&call.parameters);
            }
            Self::MemoryTraverse(traverse) => {
                canonical.tag(4).text(&traverse.from);
                canonical.tag(u8::from(traverse.relation.is_some()));
                canonical.text(traverse.relation.as_deref().unwrap_or_default());
                canonical.number(u64::from(traverse.depth)).number(u64::from(traverse.limit));
            }
            Self::AgentCall(call) => {
                canonical.tag(5).text(call.agent.as_str()).text(&call.text).json(&call.data);
                call.budget.feed(&mut canonical);
            }
            Self::Input(input) => {
                canonical.tag(6).text(&input.question);
                canonical.json(input.schema.as_ref().unwrap_or(&Value::Null));
            }
            Self::Timer(timer) => {
                canonical.tag(7).number(timer.until.as_millis());
            }
            Self::ApiCall(call) => {
                canonical.tag(8).json(&plain(call));
            }
            Self::Email(mail) => {
                canonical.tag(9).json(&plain(mail));
            }
            Self::Transfer(transfer) => {
                canonical.tag(10).text(&transfer.target);
            }
        }
        canonical.finish()
    }

    /// Says whether `outcome` is an answer to this kind of request; a failure answers all.
    pub(crate) fn accepts(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::ModelReplied(_) => matches!(self, Self::ModelCompletion(_)),
            Outcome::MemoryFound(_) => matches!(self, Self::MemorySearch(_)),
            Outcome::MemoryCreated(_) => matches!(self, Self::MemoryCreate(_)),
            Outcome::MemoryTraversed(_) => matches!(self, Self::MemoryTraverse(_)),
            Outcome::ToolReturned(_) => matches!(self, Self::ToolCall(_)),
            Outcome::ApiAnswered(_) => matches!(self, Self::ApiCall(_)),
            Outcome::EmailSent(_) => matches!(self, Self::Email(_)),
            Outcome::TransferRequested => matches!(self, Self::Transfer(_)),
            Outcome::AgentReturned(_) => matches!(self, Self::AgentCall(_)),
            Outcome::InputGiven(_) => matches!(self, Self::Input(_)),
            Outcome::TimerFired => matches!(self, Self::Timer(_)),
            Outcome::Failed(_) => true,
        }
    }
}

/// The scheme, host and port of an address.
fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    alloc::format!("{scheme}://{host}")
}

/// A request as JSON. Secrets stand in it as references, so that a secret that changes changes no digest.
fn plain<T: Serialize>(request: &T) -> Value {
    serde_json::to_value(request).expect("a request is plain data with text keys")
}

/// A model is to reply to the transcript as it stands.
///
/// It names a range instead of carrying text, so that a step costs the same at turn 10 and at turn 10,000: the shell
/// reads the entries from the state's transcript, the settings and tools from the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCompletion {
    /// The first transcript entry that the previous completion did not have.
    pub new_from: u64,
    /// The number of transcript entries that the model reads.
    pub entries: u64,
    /// The chained digest of settings, tools and all those entries.
    pub chain: Digest,
    /// Whether the model may call tools.
    pub tool_choice: ToolChoice,
    /// Which model: 0 for the agent's own, then its fallbacks in order.
    #[serde(default, skip_serializing_if = "crate::reply::is_zero")]
    pub fallback: u32,
    /// A bound on the reply that is tighter than the model's settings, so that a limit of tokens or cost holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// What is set aside of the run's limits for each attempt; one that was lost is charged with it.
    #[serde(default)]
    pub reserved: Reserved,
    /// What the reply is for.
    #[serde(default, skip_serializing_if = "Purpose::is_reply")]
    pub purpose: Purpose,
}

impl ModelCompletion {
    /// Feeds what an ordinary completion does not have, so that the digest of an ordinary one never changes.
    fn feed_rest(&self, canonical: &mut Canonical) {
        if self.fallback > 0 {
            canonical.tag(1).number(u64::from(self.fallback));
        }
        if let Some(most) = self.max_output_tokens {
            canonical.tag(2).number(u64::from(most));
        }
        match &self.purpose {
            Purpose::Reply => {}
            Purpose::Summary { until } => {
                canonical.tag(3).number(*until);
            }
            Purpose::Step(prompt) => {
                prompt.model.feed(canonical.tag(4));
                canonical.tag(u8::from(prompt.instructions.is_some()));
                canonical.text(prompt.instructions.as_deref().unwrap_or_default()).text(&prompt.text);
                feed_schema(prompt.schema.as_ref(), canonical);
            }
        }
    }
}

/// Feeds the form of an answer, where there is one.
pub(crate) fn feed_schema(schema: Option<&JsonSchema>, canonical: &mut Canonical) {
    match schema {
        Some(schema) => schema.feed(canonical),
        None => {
            canonical.json(&Value::Null);
        }
    }
}

/// Tokens that are set aside for a model's reply, by estimate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Most tokens of the reply.
    pub output_tokens: u64,
}

/// What a model's reply is for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The agent goes on with it.
    #[default]
    Reply,
    /// It stands for the oldest entries of the transcript from then on.
    Summary {
        /// The number of entries that it covers, those before an earlier summary included.
        until: u64,
    },
    /// It is the result of a plan's step, which brings its own prompt.
    Step(Arc<Prompt>),
}

impl Purpose {
    fn is_reply(&self) -> bool {
        matches!(self, Self::Reply)
    }
}

/// The prompt of a plan's model step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// Which model, and how it is asked.
    pub model: ModelSettings,
    /// The system prompt.
    pub instructions: Option<String>,
    /// The message.
    pub text: String,
    /// The form of a structured answer.
    pub schema: Option<JsonSchema>,
}

/// Whether a model may call tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No calls. The tools are still listed, so that the prompt's prefix stays what it was.
    None,
    /// At least one call.
    Required,
    /// A call of this tool.
    Tool(ToolName),
}

impl ToolChoice {
    fn feed(&self, canonical: &mut Canonical) {
        match self {
            Self::Auto => canonical.tag(0),
            Self::None => canonical.tag(1),
            Self::Required => canonical.tag(2),
            Self::Tool(name) => canonical.tag(3).text(name.as_str()),
        };
    }
}

/// A search in the agent's memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemorySearch {
    /// What to search for.
    pub query: String,
    /// Most hits.
    pub limit: u32,
    /// Hits below this score, from 0 to 1, are left out.
    pub min_score: f64,
}

/// An observation for the agent's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryCreate {
    /// The name of the entity, which is made when it is new.
    pub entity: String,
    /// The entity's type.
    pub entity_type: String,
    /// What was observed.
    pub content: String,
    /// How the entity relates to others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relations: Vec<RelationTo>,
}

/// A relation of an entity to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationTo {
    /// The type of the relation, such as `caused_by`.
    pub relation: String,
    /// The other entity's name.
    pub to: String,
}

/// A walk along the relations of the agent's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryTraverse {
    /// The entity to begin at.
    pub from: String,
    /// Only relations of this type; all when absent.
    pub relation: Option<String>,
    /// Most relations in a row.
    pub depth: u32,
    /// Most entities.
    pub limit: u32,
}

/// A child run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentCall {
    /// The agent.
    pub agent: AgentName,
    /// What it is asked.
    pub text: String,
    /// Its structured input.
    pub data: Value,
    /// What it may use at most: the smaller of its own limits and its fair share of what this run has left.
    pub budget: Budget,
}

/// How deep runs may start runs. An agent that calls itself would never end.
pub const RUN_DEPTH_MAX: u32 = 8;

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// The question.
    pub question: String,
    /// JSON Schema of the answer; text when absent.
    pub schema: Option<Value>,
}

/// A time to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// The time.
    pub until: Timestamp,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The tool.
    pub tool_name: ToolName,
    /// Its arguments, an object.
    pub parameters: Value,
    /// Answers to what its server asked before it would go on; none until it has asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<ToolInput>,
}

/// Answers to what a tool's server asked in the middle of a call, which goes on with them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolInput {
    /// The answers by the server's own names for its questions, as the Model Context Protocol writes them.
    pub responses: BTreeMap<String, Value>,
    /// What the server wants back with them, unread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
}

/// On which terms an operation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// What may repeat.
    pub class: EffectClass,
    /// Longest time for one attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Attempts after the first, where the class allows them. A completion has no more than its run's limits of tokens
    /// and cost have room for, so a shell that keeps to this number keeps to the limits. One that asks once more after a
    /// crash asks [`AgentState::has_room`](crate::AgentState::has_room) first.
    pub retries: u32,
    /// What happens when nobody knows whether the effect took place.
    pub on_indeterminate: OnIndeterminate,
    /// How attempts follow each other, where whoever asks says so; else the shell's own way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
}

/// How attempts follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// The pause before the second attempt, in milliseconds; each further one doubles it.
    pub first_pause_ms: u64,
    /// Longest time over all attempts, in milliseconds: after it no further one is begun.
    pub most_ms: u64,
}

/// Longest time of an attempt at a transfer, in milliseconds.
const TRANSFER_MS: u64 = 15_000;

impl Terms {
    /// The terms of a call that a declarative tool makes: what the agent's file says of the tool's parts, else its
    /// document's. What the document's author says is tolerated, is, unless the agent's file says what a doubt leads to.
    pub fn of_api_call(call: &ApiCall, on_indeterminate: OnIndeterminate, parts: PartTerms) -> Self {
        let by_document = if call.repeats_tolerated { OnIndeterminate::Retry } else { on_indeterminate };
        Self {
            class: match call.class {
                dalsegno_tools::EffectClass::Read => EffectClass::Read,
                dalsegno_tools::EffectClass::Idempotent => EffectClass::Idempotent,
                dalsegno_tools::EffectClass::Keyed => EffectClass::Keyed,
                dalsegno_tools::EffectClass::Unsafe => EffectClass::Unsafe,
            },
            timeout_ms: parts.timeout_ms.unwrap_or(call.timeout_ms),
            retries: parts.retries.unwrap_or(call.retries),
            on_indeterminate: parts.on_indeterminate.unwrap_or(by_document),
            pace: Some(Pace { first_pause_ms: call.retry_delay_ms, most_ms: call.max_elapsed_ms }),
        }
    }

    /// The terms of a mail that a declarative tool sends. Two more attempts to reach the server; one that may have taken the
    /// mail is not repeated.
    pub fn of_email(mail: &Email, on_indeterminate: OnIndeterminate, parts: PartTerms) -> Self {
        Self {
            class: EffectClass::Unsafe,
            timeout_ms: parts.timeout_ms.unwrap_or(mail.timeout_ms),
            retries: parts.retries.unwrap_or(2),
            on_indeterminate: parts.on_indeterminate.unwrap_or(on_indeterminate),
            pace: None,
        }
    }

    /// The terms of a transfer that a declarative tool asks for. Two more attempts to reach the provider; one that may have been
    /// heard is not repeated, and nobody is asked about it: the end of the call shows whether it was.
    pub fn of_transfer(parts: PartTerms) -> Self {
        Self {
            class: EffectClass::Unsafe,
            timeout_ms: parts.timeout_ms.unwrap_or(TRANSFER_MS),
            retries: parts.retries.unwrap_or(2),
            on_indeterminate: OnIndeterminate::Report,
            pace: None,
        }
    }

    /// Terms for something that only reads: repeated freely, twice after the first attempt.
    pub(crate) const fn read(timeout_ms: u64) -> Self {
        Self { retries: 2, ..Self::patient(timeout_ms) }
    }

    /// Terms for a write that carries its operation id as a key.
    pub(crate) const fn keyed(timeout_ms: u64) -> Self {
        Self {
            class: EffectClass::Keyed,
            timeout_ms,
            retries: 2,
            on_indeterminate: OnIndeterminate::Ask,
            pace: None,
        }
    }

    /// Terms for what changes nothing and is waited for once.
    pub(crate) const fn patient(timeout_ms: u64) -> Self {
        Self {
            class: EffectClass::Read,
            timeout_ms,
            retries: 0,
            on_indeterminate: OnIndeterminate::Retry,
            pace: None,
        }
    }
}

/// Whether a request reached its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Certainly not: nothing of it was sent or read, or the receiver said that it did not take it.
    No,
    /// It may have been received, and may have been acted upon.
    Possibly,
}

/// What may repeat when nobody knows whether an effect took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Changes nothing: again.
    Read,
    /// Twice is the same as once: again.
    Idempotent,
    /// The receiver knows the operation's key: again with the same key, while the receiver remembers it.
    Keyed,
    /// Twice is wrong: only if nothing was sent, or the receiver said that it did not process it.
    Unsafe,
    /// Made of operations that have classes of their own; never in doubt itself, and taken up again where it stood.
    Composite,
}

impl EffectClass {
    /// Says whether an attempt that was possibly received may be repeated.
    pub fn may_repeat(self) -> bool {
        self != Self::Unsafe
    }
}

/// What must be answered before an operation goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// A person must agree.
    Approval,
    /// The operation is a question, and a person must answer it.
    Input,
    /// The effect was possibly received and nobody knows: a person must say.
    InDoubt {
        /// What is known.
        reason: String,
    },
    /// A secret that it needs is not in the secret store, and nothing was sent. An approval says that it is there now.
    Secret {
        /// The secret's name.
        name: String,
    },
    /// The server of a tool asks for more before it goes on with the call, and has not acted on it.
    Elicitation {
        /// The questions by the server's own names for them, as the Model Context Protocol writes them.
        requests: BTreeMap<String, Value>,
        /// What the server wants back with the answers, unread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_state: Option<String>,
    },
}

/// Where an operation stands with its gate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// Nothing to answer.
    #[default]
    Open,
    /// Waits for an answer; meanwhile its siblings run.
    Waiting(Gate),
    /// Answered: it may go on.
    Answered,
}
