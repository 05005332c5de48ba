//! What a run asks for: operations, their identity, their terms, their gates.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::{Canonical, Digest};
use crate::config::OnIndeterminate;
use crate::event::Outcome;
use crate::id::{OperationId, RunId, ToolName};

/// One thing that a run asks its shell to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The operation's identity, derived from the run, the step, the ordinal and the digest.
    pub id: OperationId,
    /// Its place within the step: `[i]` in a group.
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
    /// Calls a tool.
    ToolCall(Arc<ToolCall>),
}

impl Request {
    /// The request's kind and object in a few words, such as ``tool `risk.score` ``.
    pub fn label(&self) -> String {
        match self {
            Self::ModelCompletion(_) => "model completion".into(),
            Self::MemorySearch(_) => "memory search".into(),
            Self::MemoryCreate(_) => "memory create".into(),
            Self::ToolCall(call) => alloc::format!("tool `{}`", call.tool_name),
        }
    }

    /// The digest of the request. Terms are not part of it: they say how, not what.
    pub fn digest(&self) -> Digest {
        let mut canonical = Canonical::new("request");
        match self {
            Self::ModelCompletion(completion) => {
                canonical.tag(0).bytes(completion.chain.as_bytes()).tag(completion.tool_choice as u8);
            }
            Self::MemorySearch(search) => {
                canonical.tag(1).text(&search.query).number(u64::from(search.limit));
                canonical.number(search.min_score.to_bits());
            }
            Self::MemoryCreate(create) => {
                canonical.tag(2).text(&create.entity).text(&create.entity_type).text(&create.content);
            }
            Self::ToolCall(call) => {
                canonical.tag(3).text(call.tool_name.as_str()).json(&call.parameters);
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
            Outcome::ToolReturned(_) => matches!(self, Self::ToolCall(_)),
            Outcome::Failed(_) => true,
        }
    }
}

/// A model is to reply to the transcript as it stands.
///
/// It names a range instead of carrying text, so that a step costs the same at turn 10 and at turn 10,000: the shell
/// reads the entries from the state's transcript, the settings and tools from the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCompletion {
    /// The first transcript entry that the previous completion did not have.
    pub new_from: u64,
    /// The number of transcript entries that the model reads.
    pub entries: u64,
    /// The chained digest of settings, tools and all those entries.
    pub chain: Digest,
    /// Whether the model may call tools.
    pub tool_choice: ToolChoice,
}

/// Whether a model may call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No calls. The tools are still listed, so that the prompt's prefix stays what it was.
    None,
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
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The tool.
    pub tool_name: ToolName,
    /// Its arguments, an object.
    pub parameters: Value,
}

/// On which terms an operation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// What may repeat.
    pub class: EffectClass,
    /// Longest time for one attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Attempts after the first, where the class allows them.
    pub retries: u32,
    /// What happens when nobody knows whether the effect took place.
    pub on_indeterminate: OnIndeterminate,
}

impl Terms {
    /// Terms for something that only reads: repeated freely, twice after the first attempt.
    pub(crate) const fn read(timeout_ms: u64) -> Self {
        Self { class: EffectClass::Read, timeout_ms, retries: 2, on_indeterminate: OnIndeterminate::Retry }
    }

    /// Terms for a write that carries its operation id as a key.
    pub(crate) const fn keyed(timeout_ms: u64) -> Self {
        Self { class: EffectClass::Keyed, timeout_ms, retries: 2, on_indeterminate: OnIndeterminate::Ask }
    }
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
    /// The effect was possibly received and nobody knows: a person must say.
    InDoubt {
        /// What is known.
        reason: String,
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
