//! A plan: the steps of an agent that needs no model.

use alloc::string::String;
use alloc::vec::Vec;

use segno_expr::{Expression, Template, ValueTemplate};
use serde::{Deserialize, Serialize};

use super::OnFailure;
use crate::id::{StepId, ToolName};

/// The steps of a plan-driven agent, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<PlanStep>,
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
    /// Adds to what the agent answers.
    Respond(Template),
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
    },
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
