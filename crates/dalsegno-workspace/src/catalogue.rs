//! The tools that exist: what servers and the engine itself offer.

use std::collections::BTreeMap;

use dalsegno_core::{EffectClass, JsonSchema, OnIndeterminate, ToolKind, ToolName};
use serde_json::{Value, json};

use crate::toolkit::DeclaredTool;

/// Every tool that exists, by name.
pub type Catalogue = BTreeMap<ToolName, CatalogueTool>;

/// One tool, as whoever offers it describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogueTool {
    /// What it does, for a model.
    pub description: String,
    /// JSON Schema of the arguments; an object.
    pub input_schema: JsonSchema,
    /// JSON Schema of the structured result.
    pub output_schema: Option<Value>,
    /// Who performs it.
    pub kind: ToolKind,
    /// The server says that it changes nothing.
    pub read_only: Option<bool>,
    /// The server says that twice is the same as once.
    pub idempotent: Option<bool>,
    /// The server says that it may destroy something.
    pub destructive: Option<bool>,
    /// What may repeat, where the engine knows it: built-in tools, and tools registered in process.
    pub declared: Option<EffectClass>,
    /// What happens when it is not known whether it took place, unless the agent's file says so; the engine's usual way where this is none.
    pub on_indeterminate: Option<OnIndeterminate>,
    /// The document that it is a tool of, where it is a declarative one.
    pub document: Option<DeclaredTool>,
    /// Whether what the server says may make the engine less careful: the server's `trust_annotations`.
    pub trusted: bool,
}

impl CatalogueTool {
    /// A tool of which nothing but its description is known.
    pub fn new(description: impl Into<String>, input_schema: impl Into<JsonSchema>) -> Self {
        Self {
            description: description.into(),
            input_schema: input_schema.into(),
            output_schema: None,
            kind: ToolKind::External,
            read_only: None,
            idempotent: None,
            destructive: None,
            declared: None,
            on_indeterminate: None,
            document: None,
            trusted: false,
        }
    }

    /// What may repeat, before an agent's own setting: the declared class, else `unsafe`, else what a trusted
    /// server says. Words that contradict each other count for nothing.
    pub(crate) fn class(&self) -> EffectClass {
        if let Some(declared) = self.declared {
            return declared;
        }
        let is_contradictory = self.read_only == Some(true) && self.destructive == Some(true);
        if !self.trusted || is_contradictory {
            EffectClass::Unsafe
        } else if self.read_only == Some(true) {
            EffectClass::Read
        } else if self.idempotent == Some(true) {
            EffectClass::Idempotent
        } else {
            EffectClass::Unsafe
        }
    }
}

/// The tools that the engine offers itself.
pub fn builtin_tools() -> Catalogue {
    let search = CatalogueTool {
        kind: ToolKind::MemorySearch,
        declared: Some(EffectClass::Read),
        ..CatalogueTool::new(
            "Searches the memory for what was observed before. Returns the best hits first, each with its entity, \
             text, score and metadata.",
            json!({
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "minLength": 1,
                        "description": "What to search for, in plain words.",
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": 100,
                        "default": 5,
                        "description": "The most hits to return.",
                    },
                },
                "required": ["query"],
                "additionalProperties": false,
            }),
        )
    };
    let create = CatalogueTool {
        kind: ToolKind::MemoryCreate,
        declared: Some(EffectClass::Keyed),
        ..CatalogueTool::new(
            "Adds one observation about an entity to the memory.",
            json!({
                "type": "object",
                "properties": {
                    "entity": {
                        "type": "string",
                        "minLength": 1,
                        "description": "The name of what was observed; a new name makes a new entity.",
                    },
                    "content": {
                        "type": "string",
                        "minLength": 1,
                        "description": "What was observed.",
                    },
                    "type": {
                        "type": "string",
                        "minLength": 1,
                        "default": "note",
                        "description": "What kind of entity it is, such as `incident`.",
                    },
                },
                "required": ["entity", "content"],
                "additionalProperties": false,
            }),
        )
    };
    let traverse = CatalogueTool {
        kind: ToolKind::MemoryTraverse,
        declared: Some(EffectClass::Read),
        ..CatalogueTool::new(
            "Follows relations in the memory from one entity. Returns the entities that were reached, nearest first, \
             and the relations between them.",
            json!({
                "type": "object",
                "properties": {
                    "from": {
                        "type": "string",
                        "minLength": 1,
                        "description": "The name of the entity to begin at.",
                    },
                    "relation": {
                        "type": "string",
                        "minLength": 1,
                        "description": "Follow only relations of this type, such as `caused_by`.",
                    },
                    "depth": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": 8,
                        "default": 2,
                        "description": "The most relations in a row.",
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": 1000,
                        "default": 50,
                        "description": "The most entities to return.",
                    },
                },
                "required": ["from"],
                "additionalProperties": false,
            }),
        )
    };
    [("memory.search", search), ("memory.create", create), ("memory.traverse", traverse)]
        .into_iter()
        .map(|(name, tool)| (name.parse().expect("a tool name"), tool))
        .collect()
}

/// The tool by which the live model of a call ends it.
pub(crate) const HANG_UP: &str = "call.hang_up";

/// The tool by which the live model of a call presses keys on the caller's line.
pub(crate) const SEND_DIGITS: &str = "call.send_digits";

/// The engine's tools about the workspace, its runs and a call. No `*` covers them: an agent has those that its file names.
pub fn engine_tools() -> Catalogue {
    let tool = |class, description: &str, properties: Value, required: Value| CatalogueTool {
        declared: Some(class),
        ..CatalogueTool::new(
            description,
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }),
        )
    };
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "The most runs to return.",
    });
    let describe = tool(
        EffectClass::Read,
        "Describes the workspace as it is now: its agents, and the declarative tools of this tenant.",
        json!({}),
        json!([]),
    );
    let agents = tool(
        EffectClass::Read,
        "Lists the agents of the workspace, each with its description and its capabilities.",
        json!({ "capability": { "type": "string", "minLength": 1, "description": "Only agents with this capability." } }),
        json!([]),
    );
    let runs = tool(
        EffectClass::Read,
        "Lists the runs of this tenant, the newest first.",
        json!({
            "agent": { "type": "string", "minLength": 1, "description": "Only runs of this agent." },
            "status": {
                "enum": ["running", "suspended", "completed", "failed", "cancelled", "handed_off"],
                "description": "Only runs that stand here.",
            },
            "limit": limit,
        }),
        json!([]),
    );
    let cancel = tool(
        EffectClass::Idempotent,
        "Ends a run of this tenant that is not over. The run that calls cannot end itself.",
        json!({
            "run": { "type": "string", "pattern": "^[0-9a-f]{32}$", "description": "The run's id." },
            "reason": { "type": "string", "maxLength": 500, "description": "Why; it is recorded." },
        }),
        json!(["run"]),
    );
    let metrics = tool(
        EffectClass::Read,
        "Counts the latest runs of this tenant, by agent and by how they stand.",
        json!({}),
        json!([]),
    );
    let hang_up = CatalogueTool {
        kind: ToolKind::HangUp,
        ..tool(
            EffectClass::Idempotent,
            "Ends the call, once the caller has heard your last words. Say goodbye first.",
            json!({}),
            json!([]),
        )
    };
    let send_digits = CatalogueTool {
        // Who could settle it hears no more than the live model does.
        on_indeterminate: Some(OnIndeterminate::Report),
        ..tool(
            EffectClass::Unsafe,
            "Presses keys on the line of the call, one after the other: to choose from a menu, or to enter a number.",
            json!({ "digits": {
                "type": "string",
                "pattern": "^[0-9*#A-D]{1,32}$",
                "description": "The keys, each `0` to `9`, `*`, `#` or `A` to `D`.",
            } }),
            json!(["digits"]),
        )
    };
    [
        (HANG_UP, hang_up),
        (SEND_DIGITS, send_digits),
        ("workspace.describe", describe),
        ("agents.list", agents),
        ("runs.list", runs),
        ("runs.cancel", cancel),
        ("metrics.read", metrics),
    ]
    .into_iter()
    .map(|(name, tool)| (name.parse().expect("a tool name"), tool))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(trusted: bool, read_only: Option<bool>, idempotent: Option<bool>) -> CatalogueTool {
        CatalogueTool { trusted, read_only, idempotent, ..CatalogueTool::new("", json!({})) }
    }

    #[test]
    fn an_untrusted_server_cannot_make_the_engine_less_careful() {
        assert_eq!(annotated(false, Some(true), Some(true)).class(), EffectClass::Unsafe);
        assert_eq!(annotated(true, Some(true), None).class(), EffectClass::Read);
        assert_eq!(annotated(true, Some(false), Some(true)).class(), EffectClass::Idempotent);
        assert_eq!(annotated(true, None, None).class(), EffectClass::Unsafe);
    }

    #[test]
    fn a_trusted_server_that_contradicts_itself_is_not_believed() {
        let tool = CatalogueTool { destructive: Some(true), ..annotated(true, Some(true), None) };
        assert_eq!(tool.class(), EffectClass::Unsafe);
    }

    #[test]
    fn a_declared_class_stands() {
        let tool = CatalogueTool { declared: Some(EffectClass::Keyed), ..annotated(true, Some(true), None) };
        assert_eq!(tool.class(), EffectClass::Keyed);
    }
}
