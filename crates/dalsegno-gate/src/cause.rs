//! Which parts of two configurations differ, and what such a difference is called.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

/// What of an agent has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// What its model is told first: the instructions, the first message, what is recalled.
    Prompt,
    /// Which model it is, and how that is asked.
    ModelSettings,
    /// The form of its answer.
    OutputSchema,
    /// How much of the conversation the model is sent.
    Context,
    /// Its steps.
    Plan,
    /// What a tool takes and returns, and how it is described.
    ToolSchema,
    /// What a call of a tool may take, and what follows a failure.
    ToolTerms,
    /// What it may call, and what a person must approve first.
    Permission,
    /// The document of a declarative tool.
    ToolDocument,
    /// Other agents: which there are, and what they may use.
    Agents,
    /// Its limits.
    Limit,
    /// Where its memory reads and writes.
    Memory,
    /// The settings of a tenant.
    TenantSettings,
    /// The release of Dalsegno: rules by which steps are computed.
    Release,
    /// Its name or its version, which only informs.
    Name,
}

impl Cause {
    /// The cause in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::ModelSettings => "model settings",
            Self::OutputSchema => "output schema",
            Self::Context => "context",
            Self::Plan => "plan",
            Self::ToolSchema => "tool schema",
            Self::ToolTerms => "tool settings",
            Self::Permission => "permission",
            Self::ToolDocument => "tool document",
            Self::Agents => "agents",
            Self::Limit => "limit",
            Self::Memory => "memory",
            Self::TenantSettings => "tenant settings",
            Self::Release => "release of Dalsegno",
            Self::Name => "name",
        }
    }

    /// What a place in a configuration is about.
    fn of(path: &[String]) -> Self {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["mind", "model", "model" | "fallback", ..] => Self::ModelSettings,
            ["mind", "model", "output", ..] => Self::OutputSchema,
            ["mind", "model", "context", ..] => Self::Context,
            ["mind", "model", ..] => Self::Prompt,
            ["mind", ..] => Self::Plan,
            ["tools", "tools", _, "description" | "input_schema" | "output_schema"] => Self::ToolSchema,
            ["tools", "tools", _, "approve" | "approve_when" | "deny_when"] => Self::Permission,
            ["tools", "tools", _, _, ..] => Self::ToolTerms,
            ["tools", "names", ..] => Self::ToolSchema,
            ["tools", ..] => Self::Permission,
            ["toolkits", ..] => Self::ToolDocument,
            ["agents", ..] => Self::Agents,
            ["memory_scope", ..] => Self::Memory,
            ["limits", ..] => Self::Limit,
            ["semantics", ..] => Self::Release,
            _ => Self::Name,
        }
    }
}

/// A part of a configuration that differs between two.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfigPart {
    /// The way to it: names of members.
    path: Vec<String>,
    pub(crate) cause: Cause,
    /// What stands there in the second; nothing where it is not there.
    right: Option<Value>,
}

impl ConfigPart {
    /// The place, as a JSON Pointer.
    pub(crate) fn pointer(&self) -> String {
        let escaped = self.path.iter().map(|name| name.replace('~', "~0").replace('/', "~1"));
        escaped.map(|name| format!("/{name}")).collect()
    }
}

/// The parts in which two configurations differ.
pub(crate) fn parts(left: &Value, right: &Value) -> Vec<ConfigPart> {
    let mut found = Vec::new();
    collect(&mut Vec::new(), Some(left), Some(right), &mut found);
    found
}

fn collect(path: &mut Vec<String>, left: Option<&Value>, right: Option<&Value>, found: &mut Vec<ConfigPart>) {
    if left == right {
        return;
    }
    if let (Some(Value::Object(a)), Some(Value::Object(b))) = (left, right)
        && has_parts(path)
    {
        let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for name in names {
            path.push(name.clone());
            collect(path, a.get(name), b.get(name), found);
            path.pop();
        }
        return;
    }
    found.push(ConfigPart { path: path.clone(), cause: Cause::of(path), right: right.cloned() });
}

/// Says whether the members of what stands here are parts of their own. What is smaller is of no use to a reader.
fn has_parts(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(
        path.as_slice(),
        [] | ["mind" | "tools" | "toolkits" | "agents" | "limits"]
            | ["mind", "model"]
            | ["mind", "model", "model"]
            | ["tools", "tools" | "names"]
            | ["tools", "tools", _]
    )
}

/// A configuration with some parts of another one.
pub(crate) fn with_parts<'p>(left: &Value, parts: impl IntoIterator<Item = &'p ConfigPart>) -> Value {
    let mut made = left.clone();
    for part in parts {
        let Some((last, way)) = part.path.split_last() else { continue };
        let mut at = Some(&mut made);
        for name in way {
            at = at.and_then(|at| at.get_mut(name.as_str()));
        }
        let Some(members) = at.and_then(Value::as_object_mut) else { continue };
        match &part.right {
            Some(value) => drop(members.insert(last.clone(), value.clone())),
            None => drop(members.remove(last)),
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_of_another_configuration_can_be_taken_one_by_one() {
        let left = json!({
            "name": "a", "semantics": 3, "limits": { "max_steps": 5 },
            "mind": { "model": { "instructions": "x", "model": { "name": "m", "temperature": null } } },
            "tools": { "tools": { "t": { "description": "d", "approve": false } } },
        });
        let right = json!({
            "name": "a", "semantics": 3, "limits": { "max_steps": 6, "max_tokens": 9 },
            "mind": { "model": { "instructions": "y", "model": { "name": "m", "temperature": 0.5 } } },
            "tools": { "tools": { "t": { "description": "d", "approve": true }, "u/v": {} } },
        });
        let parts = parts(&left, &right);
        let named: Vec<_> = parts.iter().map(|part| (part.pointer(), part.cause)).collect();
        assert_eq!(
            named,
            [
                ("/limits/max_steps".to_owned(), Cause::Limit),
                ("/limits/max_tokens".to_owned(), Cause::Limit),
                ("/mind/model/instructions".to_owned(), Cause::Prompt),
                ("/mind/model/model/temperature".to_owned(), Cause::ModelSettings),
                ("/tools/tools/t/approve".to_owned(), Cause::Permission),
                ("/tools/tools/u~1v".to_owned(), Cause::Permission),
            ]
        );
        assert_eq!(with_parts(&left, &parts), right);
        assert_eq!(with_parts(&left, []), left);
        let one = with_parts(&left, &parts[2..3]);
        assert_eq!(one["mind"]["model"]["instructions"], "y");
        assert_eq!(one["limits"], left["limits"]);
        assert_eq!(with_parts(&right, &super::parts(&right, &left)), left);
    }

    #[test]
    fn another_kind_of_mind_is_one_part() {
        let (left, right) = (json!({ "mind": { "model": {} } }), json!({ "mind": { "plan": [] } }));
        let parts = parts(&left, &right);
        assert_eq!(parts.len(), 2);
        assert_eq!(with_parts(&left, &parts), right);
    }
}
