//! What a model replies.

use serde_json::{Value, json};

/// What a model replies, in the words of a script. Texts and strings of arguments are templates: `{{last}}` is the last result that the
/// model has read. Arguments that have a null somewhere are sent as they stand.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply(Value);

impl Reply {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self(json!({ "text": text.into() }))
    }

    /// A call of a tool with these arguments, an object.
    pub fn call(tool: &str, arguments: impl Into<Value>) -> Self {
        Self(json!({})).and_call(tool, arguments)
    }

    /// A further call in the same reply.
    #[must_use]
    pub fn and_call(mut self, tool: &str, arguments: impl Into<Value>) -> Self {
        let arguments = arguments.into();
        // A script is TOML, which has no null.
        self.push(match has_null(&arguments) {
            true => json!({ "name": tool, "arguments_text": arguments.to_string() }),
            false => json!({ "name": tool, "arguments": arguments }),
        });
        self
    }

    /// A call whose arguments are this text, which need not be JSON.
    #[must_use]
    pub fn broken_call(tool: &str, arguments: &str) -> Self {
        let mut reply = Self(json!({}));
        reply.push(json!({ "name": tool, "arguments_text": arguments }));
        reply
    }

    /// A text before the calls of the same reply.
    #[must_use]
    pub fn saying(mut self, text: &str) -> Self {
        self.0["text"] = text.into();
        self
    }

    /// A text with which the model refuses.
    pub fn refusal(text: &str) -> Self {
        Self(json!({ "text": text, "stop": "refusal" }))
    }

    /// A text that ends where the model ran out of tokens.
    pub fn cut_off(text: &str) -> Self {
        Self(json!({ "text": text, "stop": "length" }))
    }

    /// No reply: the model cannot be reached, at any attempt.
    pub fn unavailable(message: &str) -> Self {
        Self(json!({ "error": { "kind": "unavailable", "message": message } }))
    }

    /// A model that cannot be reached for this many attempts, before it replies this.
    #[must_use]
    pub fn after_attempts(mut self, attempts: u32) -> Self {
        self.0["error"] = json!({ "kind": "unavailable", "message": "busy", "attempts": attempts });
        self
    }

    /// The tokens that the reply takes, sent and received.
    #[must_use]
    pub fn tokens(mut self, input: u64, output: u64) -> Self {
        self.0["usage"] = json!({ "input": input, "output": output });
        self
    }

    /// A text that must be in what the model has read since its last reply; otherwise the test fails.
    #[must_use]
    pub fn when_read(mut self, text: &str) -> Self {
        self.0["when"] = text.into();
        self
    }

    /// Any reply, with the keys that `[[replies]]` of a script has.
    pub fn of(reply: Value) -> Self {
        Self(reply)
    }

    fn push(&mut self, call: Value) {
        match &mut self.0["calls"] {
            Value::Array(calls) => calls.push(call),
            none => *none = json!([call]),
        }
    }

    pub(crate) fn value(&self) -> Value {
        self.0.clone()
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
