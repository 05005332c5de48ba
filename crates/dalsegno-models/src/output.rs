//! The validation of a structured answer.

use dalsegno_core::{ModelReply, ReplyPart, StopReason, Validation, Violation};
use serde_json::Value;

use crate::model::CompletionRequest;
use crate::validation::{MAX_ARGUMENT_BYTES, compiled, judge_any, too_large};

/// Judges the text of a reply that should be JSON of a schema.
///
/// One Markdown fence around the whole text is tolerated, since many models write one whatever they are told. A value
/// of any JSON type may fit; [`Validation::Valid`] holds it, coerced only where nothing is lost. The text may have
/// [`MAX_ARGUMENT_BYTES`], and the schema is compiled at its first use in this process.
pub fn judge_output(schema: &Value, text: &str) -> Validation {
    let text = unfenced(text.trim());
    if text.len() > MAX_ARGUMENT_BYTES {
        return Validation::Malformed { message: too_large("answer has", text.len()) };
    }
    match serde_json::from_str(text) {
        Ok(value) => judge_any(schema, value),
        Err(error) => Validation::Malformed { message: format!("the answer is not JSON: {error}") },
    }
}

/// Each place at which a tool's structured result breaks the schema that its server promised.
///
/// A schema that cannot be used promises nothing; whoever lists the tool is told. It is compiled at its first use in this
/// process.
pub fn judge_result(schema: &Value, result: &Value) -> Vec<Violation> {
    match &*compiled(schema) {
        Ok(schema) => schema.violations(result),
        Err(_) => Vec::new(),
    }
}

/// The validation of a reply's text, where a structured answer is asked for and the reply is one.
pub(crate) fn judge_reply(request: &CompletionRequest, reply: &ModelReply) -> Option<Validation> {
    let schema = request.output_schema.as_ref()?;
    if reply.parts.iter().any(|part| matches!(part, ReplyPart::Call(_))) {
        return None;
    }
    match reply.stop {
        StopReason::End | StopReason::ToolCalls => Some(judge_output(schema, &reply.text())),
        StopReason::Length => Some(Validation::Truncated),
        StopReason::Refusal => None,
    }
}

/// The text inside a fence, if the whole of it stands in one.
fn unfenced(text: &str) -> &str {
    let inside = || {
        let (language, rest) = text.strip_prefix("```")?.split_once('\n')?;
        let known = matches!(language.trim(), "" | "json" | "JSON" | "jsonc" | "json5");
        known.then_some(rest)?.strip_suffix("```")
    };
    inside().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judge(text: &str) -> Validation {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        judge_output(&schema, text)
    }

    #[test]
    fn json_counts_with_and_without_one_fence() {
        for text in ["{\"n\": 3}", " {\"n\":3}\n", "```json\n{\"n\": 3}\n```", "```\n{\"n\": \"3\"}```\n"] {
            assert_eq!(judge(text), Validation::Valid { arguments: json!({"n": 3}) }, "{text}");
        }
    }

    #[test]
    fn anything_around_it_does_not_count() {
        for text in
            ["", "Here: {\"n\": 3}", "```python\n{\"n\": 3}\n```", "```json {\"n\": 3}```", "```\n", "```"]
        {
            assert!(matches!(judge(text), Validation::Malformed { .. }), "{text}");
        }
        let large = format!("{{\"n\": {}3}}", " ".repeat(MAX_ARGUMENT_BYTES));
        let Validation::Malformed { message } = judge(&large) else { panic!() };
        assert!(message.starts_with("the answer has"), "{message}");
    }

    #[test]
    fn a_value_of_any_type_may_fit_or_not() {
        assert_eq!(
            judge_output(&json!({"type": "array"}), "[1]"),
            Validation::Valid { arguments: json!([1]) }
        );
        let Validation::Invalid { violations } = judge("{\"n\": \"many\"}") else { panic!() };
        assert_eq!(violations[0].path, "/n");
        let Validation::Invalid { violations } = judge_output(&json!({"type": 7}), "1") else { panic!() };
        assert!(violations[0].message.starts_with("no answer can fit"), "{violations:?}");
    }
}
