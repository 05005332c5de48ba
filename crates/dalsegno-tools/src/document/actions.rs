//! Lists of actions.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::reader::{Fields, Reader};
use super::sources::Allowed;
use crate::action::{ActionKind, Level, OnError, ToolAction, ToolSource, WritePath};
use crate::json;
use crate::limits::{MAX_ACTIONS, MAX_NESTING};
use crate::name;
use crate::problem::{item, member};

/// The types of actions, the twelve and ours.
pub(super) const TYPES: [&str; 15] = [
    "context.set",
    "context.get",
    "context.delete",
    "flag.set",
    "flag.clear",
    "respond",
    "handoff",
    "api_call",
    "conditional",
    "validate",
    "transform",
    "log",
    "email.send",
    "tool",
    "call.transfer",
];

impl Reader<'_> {
    /// Reads a list of actions.
    pub(super) fn actions(&mut self, value: &Value, pointer: &str, depth: usize) -> Vec<ToolAction> {
        let Value::Array(items) = value else {
            self.problem(pointer, format!("this is {}", json::kind(value)), "expected an array of actions");
            return Vec::new();
        };
        if depth > MAX_NESTING {
            self.problem(
                pointer,
                "conditionals are nested too deeply",
                format!("expected at most {MAX_NESTING} levels: move the inner ones to a tool of their own"),
            );
            return Vec::new();
        }
        let mut actions = Vec::new();
        let mut handoff = None;
        for (index, value) in items.iter().enumerate() {
            self.actions += 1;
            if self.actions > MAX_ACTIONS {
                // Told once, however many there are.
                if self.actions == MAX_ACTIONS + 1 {
                    self.problem(
                        item(pointer, index),
                        "the document has too many actions",
                        format!("expected at most {MAX_ACTIONS}, nested ones included"),
                    );
                }
                return actions;
            }
            if let Some(handoff) = handoff.take() {
                self.warning(
                    item(pointer, index),
                    "this action is never reached",
                    format!("the `handoff` at {handoff} ends the list"),
                );
            }
            let Some(action) = self.action(value, &item(pointer, index), depth) else { continue };
            if matches!(action.kind, ActionKind::Handoff { .. }) {
                handoff = Some(item(pointer, index));
            }
            actions.push(action);
        }
        actions
    }

    fn action(&mut self, value: &Value, pointer: &str, depth: usize) -> Option<ToolAction> {
        let Value::Object(map) = value else {
            self.problem(
                pointer,
                format!("this is {}", json::kind(value)),
                "expected an object for an action",
            );
            return None;
        };
        let kind = match map.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(other) => {
                self.problem(
                    member(pointer, "type"),
                    format!("this is {}", json::kind(other)),
                    format!("expected one of: {}", TYPES.join(", ")),
                );
                return None;
            }
            None => {
                self.problem(pointer, "`type` is missing", format!("expected one of: {}", TYPES.join(", ")));
                return None;
            }
        };
        let kind = match kind {
            "context.set" => self.context_set(value, pointer),
            "context.get" => self.context_get(value, pointer),
            "context.delete" => self.context_delete(value, pointer),
            "flag.set" => self.flag_action(value, pointer, true),
            "flag.clear" => self.flag_action(value, pointer, false),
            "respond" => self.respond(value, pointer),
            "handoff" => self.handoff(value, pointer),
            "api_call" => self.api_call(value, pointer),
            "webhook" => self.webhook(value, pointer),
            "conditional" => self.conditional(value, pointer, depth),
            "validate" => self.validate(value, pointer),
            "transform" => self.transform(value, pointer),
            "log" => self.log(value, pointer),
            "email.send" => self.email(value, pointer),
            "tool" => self.tool_action(value, pointer),
            "call.transfer" => self.transfer(value, pointer),
            unknown => {
                self.unknown(&member(pointer, "type"), "action", unknown, &TYPES);
                None
            }
        };
        let id = self.id(map.get("id"), pointer);
        Some(ToolAction { id, kind: kind? })
    }

    fn id(&mut self, id: Option<&Value>, pointer: &str) -> Option<String> {
        let pointer = member(pointer, "id");
        let Value::String(text) = id? else {
            self.problem(pointer, "`id` is not a string", "expected a name");
            return None;
        };
        let name = self.name(&pointer, "an action", text)?;
        if name == "last" {
            self.problem(pointer, "`last` is no id", "`result.last` is what the last action gave");
            return None;
        }
        if self.known.ids.contains(&name) {
            self.warning(
                pointer,
                format!("the id `{name}` is used twice"),
                "the later result replaces the earlier",
            );
        } else {
            self.known.ids.push(name.clone());
        }
        Some(name)
    }

    fn context_set(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let fields = self.object(
            value,
            pointer,
            "`context.set`",
            &["type", "id", "path", "key", "value", "data", "persist"],
        )?;
        let persist = self.flag(&fields, "persist", false);
        let path = match (fields.get("path"), fields.get("key")) {
            (Some(_), Some(_)) => {
                self.problem(fields.at("key"), "`key` is another name for `path`", "give one of them");
                return None;
            }
            (Some(_), None) => Some("path"),
            (None, Some(_)) => Some("key"),
            (None, None) => None,
        };
        if fields.get("value").is_some() && fields.get("data").is_some() {
            self.problem(
                fields.at("data"),
                "`value` and `data` are both given",
                "expected `path` with `value`, or `data` as an object of paths and values",
            );
            return None;
        }
        let writes = match path {
            Some(name) => {
                let source = if fields.get("value").is_some() { "value" } else { "data" };
                let Some(given) = fields.get(source) else {
                    self.missing(&fields, "value", "the value to write");
                    return None;
                };
                let path = self.text(&fields, name).map(|text| self.write_path(&fields.at(name), text));
                let given = self.value(&fields.at(source), given);
                alloc::vec![(path??, given?)]
            }
            None => self.data(&fields)?,
        };
        Some(ActionKind::Set { writes, persist })
    }

    /// Reads `data`, a map of paths to values.
    fn data(&mut self, fields: &Fields<'_>) -> Option<Vec<(WritePath, crate::source::ValueSource)>> {
        let Some(data) = fields.get("data") else {
            self.missing(fields, "path", "`path` with `value`, or `data` as an object of paths and values");
            return None;
        };
        let Value::Object(map) = data else {
            self.problem(
                fields.at("data"),
                format!("this is {}", json::kind(data)),
                "expected an object of paths and values",
            );
            return None;
        };
        let pointer = fields.at("data");
        let mut writes = Vec::new();
        let mut is_whole = true;
        for (path, value) in json::sorted(map) {
            let pointer = member(&pointer, path);
            let path = self.write_path(&pointer, path);
            let value = self.value(&pointer, value);
            match (path, value) {
                (Some(path), Some(value)) => writes.push((path, value)),
                _ => is_whole = false,
            }
        }
        is_whole.then_some(writes)
    }

    fn context_get(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let fields =
            self.object(value, pointer, "`context.get`", &["type", "id", "path", "output_path", "default"])?;
        let path = self.required_text(&fields, "path", "a path such as `user.name`");
        let path = path.map(|text| self.read_path(&fields.at("path"), text));
        let output = self.optional_write(&fields, "output_path");
        let default = fields.get("default").map(|value| self.value(&fields.at("default"), value));
        Some(ActionKind::Get { path: path??, output: output?, default: transpose(default)? })
    }

    fn context_delete(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let fields = self.object(value, pointer, "`context.delete`", &["type", "id", "path", "persist"])?;
        let persist = self.flag(&fields, "persist", false);
        let text = self.required_text(&fields, "path", "a path such as `temp.draft`")?;
        let path = self.write_path(&fields.at("path"), text)?;
        if path.append {
            self.problem(fields.at("path"), "`[+]` appends", "expected a path without it");
            return None;
        }
        Some(ActionKind::Delete { path, persist })
    }

    fn flag_action(&mut self, value: &Value, pointer: &str, set: bool) -> Option<ActionKind> {
        let what = if set { "`flag.set`" } else { "`flag.clear`" };
        let fields = self.object(value, pointer, what, &["type", "id", "flag", "persist"])?;
        let persist = self.flag(&fields, "persist", false);
        let text = self.required_text(&fields, "flag", "the name of a flag")?;
        let flag = self.name(&fields.at("flag"), "a flag", text.strip_prefix("flags.").unwrap_or(text))?;
        Some(ActionKind::Flag { flag, value: set, persist })
    }

    fn respond(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let fields = self.object(value, pointer, "`respond`", &["type", "id", "message"])?;
        let text = self.required_text(&fields, "message", "what the agent says")?;
        Some(ActionKind::Respond { message: self.words(&fields.at("message"), text)? })
    }

    fn handoff(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let fields = self.object(value, pointer, "`handoff`", &["type", "id", "target_agent", "message"])?;
        let target = self.required_text(&fields, "target_agent", "the name of an agent")?;
        self.name(&fields.at("target_agent"), "an agent", target)?;
        let message = self.text(&fields, "message").map(|text| self.words(&fields.at("message"), text));
        Some(ActionKind::Handoff { target: target.to_owned(), message: transpose(message)? })
    }

    fn conditional(&mut self, value: &Value, pointer: &str, depth: usize) -> Option<ActionKind> {
        let fields = self.object(
            value,
            pointer,
            "`conditional`",
            &["type", "id", "condition", "then_actions", "else_actions"],
        )?;
        let condition = match fields.get("condition") {
            // A condition in a template's braces is a common slip; without them it is what was meant.
            Some(Value::String(text)) if is_wrapped(text) => {
                self.problem(
                    fields.at("condition"),
                    "a condition is an expression, not a template",
                    "write it without `{{` and `}}`",
                );
                None
            }
            _ => {
                let text =
                    self.required_text(&fields, "condition", "an expression such as `params.count > 3`");
                text.and_then(|text| self.expr(&fields.at("condition"), text, Allowed::default()))
            }
        };
        let then_actions = match fields.get("then_actions") {
            Some(list) => self.actions(list, &fields.at("then_actions"), depth + 1),
            None => {
                self.missing(&fields, "then_actions", "an array of actions");
                Vec::new()
            }
        };
        let else_actions = fields
            .get("else_actions")
            .map(|list| self.actions(list, &fields.at("else_actions"), depth + 1))
            .unwrap_or_default();
        Some(ActionKind::Conditional { condition: condition?, then_actions, else_actions })
    }

    fn log(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let fields = self.object(value, pointer, "`log`", &["type", "id", "level", "log_message"])?;
        let level = match fields.get("level") {
            Some(_) => self.choice(&fields, "level", &Level::ALL),
            None => Some(Level::Info),
        };
        let message = self
            .required_text(&fields, "log_message", "what is logged")
            .and_then(|text| self.words(&fields.at("log_message"), text));
        Some(ActionKind::Log { level: level?, message: message? })
    }

    fn tool_action(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let fields = self.object(
            value,
            pointer,
            "`tool`",
            &["type", "id", "name", "arguments", "with", "response_path", "on_error"],
        )?;
        let name = self.required_text(&fields, "name", "the name of a tool").and_then(|text| {
            let parts: Option<Vec<String>> = text.split('.').map(name::normalize).collect();
            match parts {
                Some(parts) if parts.len() <= 2 => Some(parts.join(".")),
                _ => {
                    let help = "expected a name such as `google_calendar.list_events`";
                    self.problem(
                        fields.at("name"),
                        format!("`{}` is not the name of a tool", json::excerpt(text)),
                        help,
                    );
                    None
                }
            }
        });
        let given = match (fields.get("arguments"), fields.get("with")) {
            (Some(_), Some(_)) => {
                self.problem(fields.at("with"), "`with` is another name for `arguments`", "give one of them");
                return None;
            }
            (Some(_), None) => "arguments",
            (None, _) => "with",
        };
        let empty = Value::Object(serde_json::Map::new());
        let arguments = fields.get(given).unwrap_or(&empty);
        if !arguments.is_object() {
            self.problem(
                fields.at(given),
                format!("this is {}", json::kind(arguments)),
                "expected an object",
            );
            return None;
        }
        let arguments = self.json(&fields.at(given), arguments, false, false);
        let response = self.optional_write(&fields, "response_path");
        let on_error = self.on_error(&fields);
        Some(ActionKind::Tool(Box::new(ToolSource {
            name: name?,
            arguments: arguments?,
            response: response?,
            on_error,
        })))
    }

    pub(super) fn on_error(&mut self, fields: &Fields<'_>) -> OnError {
        self.choice(fields, "on_error", &OnError::ALL).unwrap_or_default()
    }

    /// Reads a path that may be left out; `None` where it is wrong.
    pub(super) fn optional_write(&mut self, fields: &Fields<'_>, name: &str) -> Option<Option<WritePath>> {
        if fields.get(name).is_none() {
            return Some(None);
        }
        let text = self.text(fields, name)?;
        Some(Some(self.write_path(&fields.at(name), text)?))
    }
}

/// Turns what is absent or read into what is read or wrong.
pub(super) fn transpose<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(value) => Some(Some(value?)),
    }
}

fn is_wrapped(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("{{") && text.ends_with("}}")
}
