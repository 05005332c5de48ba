//! What a provider's own tools did, as it stands in the parts of a reply that are sent back untouched.

use dalsegno_core::ReplyPart;
use serde_json::Value;

/// A call that a provider made by itself while it replied.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderCall<'r> {
    /// The tool, in the provider's words: `web_search`, `code_execution`.
    pub tool: &'r str,
    /// What it was given, such as `{"query": "…"}`; null where the provider does not tell.
    pub input: &'r Value,
}

/// Reads a part of a reply as a call of a tool that the provider ran; none for all other parts, results among them.
pub fn provider_call(part: &ReplyPart) -> Option<ProviderCall<'_>> {
    let ReplyPart::Opaque { data, .. } = part else { return None };
    // Gemini's parts stand below a key of our own, which says which model made them.
    let data = data.get("part").unwrap_or(data);
    if let Some(input) = data.get("executableCode") {
        return Some(ProviderCall { tool: "code_execution", input });
    }
    match data["type"].as_str()? {
        "server_tool_use" => Some(ProviderCall { tool: data["name"].as_str()?, input: &data["input"] }),
        "web_search_call" => Some(ProviderCall { tool: "web_search", input: &data["action"] }),
        "code_interpreter_call" => Some(ProviderCall { tool: "code_execution", input: &data["code"] }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(provider: &str, data: Value) -> Option<(String, Value)> {
        let part = ReplyPart::Opaque { provider: provider.to_owned(), data };
        provider_call(&part).map(|call| (call.tool.to_owned(), call.input.clone()))
    }

    #[test]
    fn calls_of_each_wire_are_read_and_nothing_else_is_one() {
        // As the providers' documentation has them.
        let search = json!({
            "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "claude shannon"},
        });
        assert_eq!(
            read("anthropic", search),
            Some(("web_search".to_owned(), json!({"query": "claude shannon"})))
        );
        let search = json!({
            "type": "web_search_call", "id": "ws_1", "status": "completed",
            "action": {"type": "search", "query": "positive news"},
        });
        assert_eq!(
            read("openai-responses", search),
            Some(("web_search".to_owned(), json!({"type": "search", "query": "positive news"})))
        );
        let code = json!({
            "type": "code_interpreter_call", "id": "ci_1", "status": "completed", "container_id": "cntr_1",
            "code": "print(1)", "outputs": null,
        });
        assert_eq!(read("openai-responses", code), Some(("code_execution".to_owned(), json!("print(1)"))));
        let code = json!({
            "model": "gemini-3-flash",
            "part": {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        });
        assert_eq!(
            read("gemini", code),
            Some(("code_execution".to_owned(), json!({"language": "PYTHON", "code": "print(1)"})))
        );
        for (provider, other) in [
            ("anthropic", json!({"type": "thinking", "thinking": "…", "signature": "s"})),
            (
                "anthropic",
                json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}),
            ),
            ("anthropic", json!({"type": "server_tool_use", "input": {}})),
            ("openai-responses", json!({"type": "reasoning", "encrypted_content": "x"})),
            ("gemini", json!({"model": "m", "part": {"codeExecutionResult": {"outcome": "OUTCOME_OK"}}})),
            ("gemini", json!(["server_tool_use"])),
        ] {
            assert_eq!(read(provider, other.clone()), None, "{other}");
        }
        assert_eq!(provider_call(&ReplyPart::Text("server_tool_use".to_owned())), None);
    }
}
