//! What a declarative tool's call notes for the people who keep the tool, and why it failed.

use core::fmt;

use dalsegno_tools::{ActionStatus, ErrorCode};
use serde_json::Value;

use crate::event::ToolReturn;

/// One line that an action of a declarative tool leaves for people: that of a `log` action, or a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note<'a> {
    /// How important it is.
    pub level: NoteLevel,
    /// The action's place in its document, such as `actions[2]`.
    pub action: &'a str,
    /// The line.
    pub text: &'a str,
}

/// How important a note is. A warning of the engine, such as a path that is missing, is a `Warn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoteLevel {
    /// For who looks for a fault.
    Debug,
    /// For who follows what happens.
    Info,
    /// Something is odd.
    Warn,
    /// Something is wrong.
    Error,
}

impl NoteLevel {
    /// The level as text, such as `info`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for NoteLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ToolReturn {
    /// Returns what the actions of a declarative tool noted, in their order; nothing for other tools.
    pub fn notes(&self) -> impl Iterator<Item = Note<'_>> {
        self.actions.iter().flat_map(|trace| {
            let action = trace.place.action.as_str();
            let text = |name: &str| trace.details.get(name).and_then(Value::as_str);
            let level = match text("level") {
                Some("debug") => NoteLevel::Debug,
                Some("warn") => NoteLevel::Warn,
                Some("error") => NoteLevel::Error,
                Some(_) | None => NoteLevel::Info,
            };
            let line = text("message").filter(|_| trace.place.kind == "log");
            let line = line.map(|text| Note { level, action, text });
            let warnings = trace.warnings.iter();
            warnings.map(move |text| Note { level: NoteLevel::Warn, action, text }).chain(line)
        })
    }

    /// Returns the code of a tool that failed: that of a declarative tool's own error, such as `http_error`, else `tool_failed`.
    pub fn error_code(&self) -> Option<&'static str> {
        if !self.is_error {
            return None;
        }
        let failed = self.actions.iter().find(|trace| trace.status == ActionStatus::Failed);
        let of_action = failed.and_then(|trace| trace.error.as_ref()).map(|error| error.code.as_str());
        // A call that was refused before its first action has no trace. Only a declarative tool writes this form.
        let written = || serde_json::from_str::<Value>(&self.text).ok();
        let of_text = || {
            let code = written()?["error"]["code"].as_str()?.parse::<ErrorCode>().ok()?;
            (self.structured.is_none() && self.actions.is_empty()).then(|| code.as_str())
        };
        Some(of_action.or_else(of_text).unwrap_or("tool_failed"))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use serde_json::json;

    use super::*;

    fn returned(value: Value) -> ToolReturn {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn lines_and_warnings_are_noted_at_their_level_in_order() {
        let returned = returned(json!({"actions": [
            {"action": "actions[0]", "type": "log", "status": "ok", "warnings": ["`params.x` is missing"],
             "details": {"level": "error", "message": "so far"}},
            {"action": "actions[1]", "type": "api_call", "status": "ok", "details": {"level": "debug", "message": "no line"}},
        ]}));
        let notes: Vec<_> =
            returned.notes().map(|note| (note.level.as_str(), note.action, note.text)).collect();
        let expected = [("warn", "actions[0]", "`params.x` is missing"), ("error", "actions[0]", "so far")];
        assert_eq!(notes, expected);
    }

    #[test]
    fn a_failure_has_the_code_of_the_action_that_failed() {
        let error = json!({"code": "timeout", "message": "m"});
        let action = json!({"action": "actions[0]", "type": "api_call", "status": "failed", "error": error});
        assert_eq!(returned(json!({"is_error": true, "actions": [action]})).error_code(), Some("timeout"));
        let text = json!({"ok": false, "error": {"code": "invalid_arguments"}}).to_string();
        assert_eq!(returned(json!({"is_error": true, "text": text})).error_code(), Some("invalid_arguments"));
        assert_eq!(returned(json!({"is_error": true, "text": "no disk"})).error_code(), Some("tool_failed"));
        assert_eq!(returned(json!({"text": text})).error_code(), None);
    }
}
