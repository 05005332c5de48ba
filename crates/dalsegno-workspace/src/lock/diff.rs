//! What changed between two lock files, in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use dalsegno_core::{ModelName, OrderedJson, ToolName};
use serde_json::Value;

use super::{Lock, LockedTool};

/// One change of a server's catalogue, or of the name of a toolkit's action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockChange {
    /// The server, or the toolkit.
    pub server: String,
    /// The tool's own name; `None` where the server itself came or went.
    pub tool: Option<String>,
    /// What changed.
    pub kind: LockChangeKind,
}

/// What changed of a server or a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// The tool is described in other words.
    Description {
        /// The former words.
        old: String,
        /// The present ones.
        new: String,
    },
    /// The arguments have another form.
    InputSchema {
        /// The first difference, a JSON Pointer; empty for the whole schema.
        at: String,
    },
    /// The keys of the schema of the arguments are in another order, which models follow.
    InputOrder {
        /// The first object whose order changed, a JSON Pointer; empty for the whole schema.
        at: String,
    },
    /// The result has another form.
    OutputSchema {
        /// The first difference, a JSON Pointer; empty for the whole schema.
        at: String,
    },
    /// The server says something else about the tool, or it is another one of the same name.
    Annotation {
        /// Which of its words: `read_only`, `idempotent` or `destructive`; or `builtin`.
        name: &'static str,
        /// What it said; `None` if nothing.
        old: Option<bool>,
        /// What it says now; `None` if nothing.
        new: Option<bool>,
    },
    /// Models see the action of a toolkit under another name.
    Name {
        /// The pinned name; `None` if it was the long one.
        old: Option<ModelName>,
        /// The pinned name; `None` if it is the long one again, or the action is gone.
        new: Option<ModelName>,
    },
}

impl Lock {
    /// Says what changed from `old` to `new`: server by server and tool by tool, then name by name.
    pub fn diff(old: &Self, new: &Self) -> Vec<LockChange> {
        let mut changes = Vec::new();
        for server in union(&old.servers, &new.servers) {
            let mut add = |tool: Option<&String>, kind| {
                changes.push(LockChange { server: server.clone(), tool: tool.cloned(), kind });
            };
            let (before, after) = match (old.servers.get(server), new.servers.get(server)) {
                (Some(before), Some(after)) => (&before.tools, &after.tools),
                (None, _) => {
                    add(None, LockChangeKind::Added);
                    continue;
                }
                (_, None) => {
                    add(None, LockChangeKind::Removed);
                    continue;
                }
            };
            for tool in union(before, after) {
                match (before.get(tool), after.get(tool)) {
                    (Some(before), Some(after)) => {
                        for kind in tool_changes(before, after) {
                            add(Some(tool), kind);
                        }
                    }
                    (None, _) => add(Some(tool), LockChangeKind::Added),
                    (_, None) => add(Some(tool), LockChangeKind::Removed),
                }
            }
        }
        let names = union(&old.names, &new.names).into_iter();
        changes.extend(names.filter_map(|tool| renamed(tool, old.names.get(tool), new.names.get(tool))));
        changes
    }
}

fn renamed(tool: &ToolName, old: Option<&ModelName>, new: Option<&ModelName>) -> Option<LockChange> {
    let (toolkit, action) = tool.as_str().split_once('.').unwrap_or((tool.as_str(), ""));
    let kind = LockChangeKind::Name { old: old.cloned(), new: new.cloned() };
    (old != new).then(|| LockChange { server: toolkit.to_owned(), tool: Some(action.to_owned()), kind })
}

fn union<'m, K: Ord, V>(old: &'m BTreeMap<K, V>, new: &'m BTreeMap<K, V>) -> BTreeSet<&'m K> {
    old.keys().chain(new.keys()).collect()
}

fn tool_changes(old: &LockedTool, new: &LockedTool) -> Vec<LockChangeKind> {
    let mut changes = Vec::new();
    if old.description != new.description {
        let (old, new) = (old.description.clone(), new.description.clone());
        changes.push(LockChangeKind::Description { old, new });
    }
    let schema = |old: Option<&Value>, new: Option<&Value>| match (old, new) {
        (Some(old), Some(new)) => difference(old, new),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => Some(String::new()),
    };
    if let Some(at) = schema(Some(&old.input_schema), Some(&new.input_schema)) {
        changes.push(LockChangeKind::InputSchema { at });
    } else if let Some(at) = another_order(&old.input_schema.ordered(), &new.input_schema.ordered()) {
        changes.push(LockChangeKind::InputOrder { at });
    }
    if let Some(at) = schema(old.output_schema.as_ref(), new.output_schema.as_ref()) {
        changes.push(LockChangeKind::OutputSchema { at });
    }
    let annotations = [
        ("read_only", old.read_only, new.read_only),
        ("idempotent", old.idempotent, new.idempotent),
        ("destructive", old.destructive, new.destructive),
        // Whether it is a built-in one, which no server says.
        ("builtin", Some(old.builtin), Some(new.builtin)),
    ];
    for (name, old, new) in annotations.into_iter().filter(|(_, old, new)| old != new) {
        changes.push(LockChangeKind::Annotation { name, old, new });
    }
    changes
}

/// Where two values first differ, as a JSON Pointer.
fn difference(old: &Value, new: &Value) -> Option<String> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
            names.into_iter().find_map(|name| {
                let below = match (old.get(name), new.get(name)) {
                    (Some(old), Some(new)) => difference(old, new)?,
                    (_, _) => String::new(),
                };
                Some(format!("/{}{below}", escaped(name)))
            })
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            let mut items = old.iter().zip(new).enumerate();
            items.find_map(|(index, (old, new))| Some(format!("/{index}{}", difference(old, new)?)))
        }
        (old, new) => (old != new).then(String::new),
    }
}

/// Where two schemas that are equal first have their keys in another order, as a JSON Pointer.
fn another_order(old: &OrderedJson, new: &OrderedJson) -> Option<String> {
    match (old, new) {
        (OrderedJson::Object(old), OrderedJson::Object(new)) => {
            if !old.iter().map(|(name, _)| name).eq(new.iter().map(|(name, _)| name)) {
                return Some(String::new());
            }
            let mut members = old.iter().zip(new);
            members.find_map(|((name, old), (_, new))| {
                let below = another_order(old, new)?;
                Some(format!("/{}{below}", escaped(name)))
            })
        }
        (OrderedJson::Array(old), OrderedJson::Array(new)) => {
            let mut items = old.iter().zip(new).enumerate();
            items.find_map(|(index, (old, new))| Some(format!("/{index}{}", another_order(old, new)?)))
        }
        _ => None,
    }
}

/// A name as a part of a JSON Pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

impl fmt::Display for LockChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tool {
            Some(tool) => write!(f, "tool `{}.{tool}`: ", self.server)?,
            None => write!(f, "server `{}`: ", self.server)?,
        }
        let schema = |f: &mut fmt::Formatter<'_>, whose: &str, at: &str| match at {
            "" => write!(f, "the schema of its {whose} changed"),
            at => write!(f, "the schema of its {whose} changed at `{at}`"),
        };
        match &self.kind {
            LockChangeKind::Added => f.write_str("is new"),
            LockChangeKind::Removed => f.write_str("was removed"),
            LockChangeKind::Description { old, new } => {
                write!(f, "was described as {old:?}, now as {new:?}")
            }
            LockChangeKind::InputSchema { at } => schema(f, "arguments", at),
            LockChangeKind::InputOrder { at } if at.is_empty() => {
                f.write_str("the keys of the schema of its arguments are in another order")
            }
            LockChangeKind::InputOrder { at } => {
                write!(f, "the keys of the schema of its arguments are in another order at `{at}`")
            }
            LockChangeKind::OutputSchema { at } => schema(f, "result", at),
            LockChangeKind::Annotation { name, old, new } => {
                write!(f, "`{name}` was {}, now {}", said(*old), said(*new))
            }
            LockChangeKind::Name { old: None, new: Some(new) } => write!(f, "models now see it as `{new}`"),
            LockChangeKind::Name { old: Some(old), new: Some(new) } => {
                write!(f, "models saw it as `{old}`, now as `{new}`")
            }
            LockChangeKind::Name { old, new: None } => {
                let old = old.as_ref().map_or("", ModelName::as_str);
                write!(f, "models no longer see it as `{old}`")
            }
        }
    }
}

fn said(annotation: Option<bool>) -> &'static str {
    match annotation {
        Some(true) => "true",
        Some(false) => "false",
        None => "not set",
    }
}
