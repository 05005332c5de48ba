//! A plan: the steps of an agent that needs no model.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use dalsegno_expr::{Expression, Template, ValueTemplate};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ModelSettings, OnFailure};
use crate::id::{AgentName, StepId, ToolName};
use crate::schema::JsonSchema;

/// The steps of a plan-driven agent, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<PlanStep>,
}

impl Plan {
    /// The models that its steps ask.
    pub(super) fn models(&self) -> impl Iterator<Item = &ModelSettings> {
        self.steps.iter().flat_map(|step| {
            let (one, branches) = match &step.action {
                StepAction::Operation(operation) => (Some(operation), None),
                StepAction::ForEach(each) => (Some(&each.operation), None),
                StepAction::Parallel(branches) => (None, Some(branches)),
                StepAction::Set(_)
                | StepAction::Respond(_)
                | StepAction::Output(_)
                | StepAction::Handoff(_) => (None, None),
            };
            let branches = branches.into_iter().flatten().map(|branch| &branch.operation);
            one.into_iter().chain(branches).filter_map(|operation| match &operation.call {
                PlanCall::Model { model, .. } => Some(model),
                _ => None,
            })
        })
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanStep {
    /// The step is skipped, and its results are null, unless this holds.
    #[serde(default)]
    pub when: Option<Expression>,
    /// What the step does.
    pub action: StepAction,
}

/// What a step of a plan does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepAction {
    /// One operation.
    Operation(PlanOperation),
    /// Operations that do not need each other, at the same time; the siblings finish when one fails.
    Parallel(Vec<Branch>),
    /// The same operation for each item of a list; its result is the list of results, in the order of the items.
    ForEach(ForEach),
    /// Sets plan variables, `vars.<name>`; each expression reads what was there before the step.
    Set(BTreeMap<String, Expression>),
    /// Adds to what the agent answers.
    Respond(Template),
    /// Sets the agent's structured answer; the last one stands.
    Output(ValueTemplate),
    /// Another agent goes on in the same session, and this run ends.
    Handoff(PlanHandoff),
}

/// The same operation for each item of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForEach {
    /// The list; at most [`ForEach::MAX_ITEMS`].
    pub list: Expression,
    /// How many run at the same time, 1 or more.
    pub concurrency: u32,
    /// The operation; its templates read `item` and `index`.
    pub operation: PlanOperation,
}

impl ForEach {
    /// Most items of a list: one step mints an operation for each.
    pub const MAX_ITEMS: usize = 1_000;
}

/// Another agent goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanHandoff {
    /// The agent.
    pub target: AgentName,
    /// What it is told; the text of this run's request when absent.
    pub message: Option<Template>,
    /// Its structured input; this run's own when absent.
    pub data: Option<ValueTemplate>,
}

/// One operation of a parallel step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    /// The branch is skipped, and its result is null, unless this holds.
    #[serde(default)]
    pub when: Option<Expression>,
    /// The operation.
    pub operation: PlanOperation,
}

/// One operation of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanOperation {
    /// The name under which later steps read the result, `steps.<id>`.
    #[serde(default)]
    pub id: Option<StepId>,
    /// What to do.
    pub call: PlanCall,
    /// What a failure does; the tool's own setting when absent, else the run fails.
    #[serde(default)]
    pub on_failure: Option<OnFailure>,
}

/// What an operation of a plan does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanCall {
    /// Searches the memory. The result is a list of hits.
    MemorySearch {
        /// What to search for.
        query: Template,
        /// Most hits.
        limit: u32,
        /// Hits below this score, from 0 to 1, are left out.
        min_score: f64,
    },
    /// Adds an observation to the memory.
    MemoryCreate {
        /// The name of the entity, which is made when it is new.
        entity: Template,
        /// The entity's type, such as `incident`.
        entity_type: String,
        /// What was observed.
        content: Template,
        /// How the entity relates to others.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        relations: Vec<RelationTemplate>,
    },
    /// Follows relations in the memory. The result is what was reached.
    MemoryTraverse {
        /// The entity to begin at.
        from: Template,
        /// Only relations of this type; all when absent.
        relation: Option<String>,
        /// Most relations in a row.
        depth: u32,
        /// Most entities.
        limit: u32,
    },
    /// Starts a child run. The result is its structured answer, else its text.
    Agent {
        /// The agent, one of [`AgentConfig::agents`](crate::AgentConfig::agents).
        agent: AgentName,
        /// What it is asked; the text of this run's request when absent.
        text: Option<Template>,
        /// Its structured input; none when absent.
        data: Option<ValueTemplate>,
    },
    /// Asks a model once, without tools. The result is the structured answer where a schema is given, else the text.
    Model {
        /// Which model, and how it is asked.
        model: ModelSettings,
        /// The system prompt.
        instructions: Option<Template>,
        /// The message.
        prompt: Template,
        /// The form of a structured answer; `null` is the same as none.
        schema: Option<JsonSchema>,
    },
    /// Asks a person. The result is the answer.
    Ask {
        /// The question.
        question: Template,
        /// The form of the answer; text when absent or `null`.
        schema: Option<Value>,
    },
    /// Waits. The result is the time at which it went on, in milliseconds since the epoch.
    Wait(Wait),
    /// Calls a tool. The result is its structured content, else its text parsed as JSON, else its text.
    Tool {
        /// The tool.
        tool: ToolName,
        /// The arguments.
        with: ValueTemplate,
        /// Whether a person must agree first.
        #[serde(default)]
        approve: Approve,
    },
}

impl PlanCall {
    /// Says whether it counts as a tool call: it calls a tool, or starts a child run.
    pub(crate) fn is_call(&self) -> bool {
        match self {
            Self::Tool { .. } | Self::Agent { .. } => true,
            Self::MemorySearch { .. }
            | Self::MemoryCreate { .. }
            | Self::MemoryTraverse { .. }
            | Self::Model { .. }
            | Self::Ask { .. }
            | Self::Wait(_) => false,
        }
    }
}

/// A relation of an entity to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RelationTemplate {
    /// The type of the relation, such as `caused_by`.
    pub relation: String,
    /// The other entity's name.
    pub to: Template,
}

/// How long a plan waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// This long, in milliseconds.
    For {
        /// The time.
        ms: u64,
    },
    /// Until this time: milliseconds since the epoch, or a date as `Date.parse` reads it. A time that has passed does
    /// not wait.
    Until(Expression),
}

/// Whether a person must agree to a plan's tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approve {
    /// As the tool's own setting says.
    #[default]
    AsConfigured,
    /// Always.
    Always,
    /// When this holds, or the tool's own setting says so.
    When(Expression),
}
