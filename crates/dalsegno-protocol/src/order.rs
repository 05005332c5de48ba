//! The order of the keys of argument schemas, which models follow.
//!
//! The types of the SDK hold a schema in a map that sorts. So the text of each schema whose keys are not sorted is added to
//! the tool's `_meta` before the SDK reads the message, and read from there afterwards.

use std::borrow::Cow;
use std::sync::Arc;

use dalsegno_core::{JsonSchema, OrderedJson};
use rmcp::model::MetaObject;
use serde_json::{Map, Value};

/// Keeps the order of the keys in a message's argument schemas, if it lists tools. Any other message is returned as it is.
pub fn keep_order(message: &[u8]) -> Cow<'_, [u8]> {
    if !message.windows(LISTED.len()).any(|window| window == LISTED) {
        return Cow::Borrowed(message);
    }
    match serde_json::from_slice(message).ok().and_then(annotated) {
        Some(annotated) => Cow::Owned(annotated.to_string().into_bytes()),
        None => Cow::Borrowed(message),
    }
}

/// The argument schema of a tool, in its author's order where that was kept.
pub(crate) fn read(meta: Option<&MetaObject>, schema: &Arc<Map<String, Value>>) -> JsonSchema {
    let value = Value::Object((**schema).clone());
    let kept = meta.and_then(|meta| meta.get(KEPT)).and_then(Value::as_str);
    // A server can write the member itself, and must not describe other arguments by it.
    let kept = kept.and_then(|text| text.parse::<JsonSchema>().ok()).filter(|kept| *kept == value);
    kept.unwrap_or_else(|| value.into())
}

/// The message with the texts, or nothing where there is none to add.
fn annotated(mut message: OrderedJson) -> Option<OrderedJson> {
    let OrderedJson::Array(tools) = member(member(&mut message, "result")?, "tools")? else { return None };
    let mut is_changed = false;
    for tool in tools {
        let Some(schema) = tool.get("inputSchema") else { continue };
        let text = schema.to_string();
        if text == OrderedJson::sorted(&schema.clone().into_value()).to_string() {
            continue;
        }
        if member(tool, "_meta").is_none()
            && let OrderedJson::Object(members) = tool
        {
            members.push(("_meta".to_owned(), OrderedJson::Object(Vec::new())));
        }
        if let Some(OrderedJson::Object(meta)) = member(tool, "_meta") {
            meta.retain(|(name, _)| name != KEPT);
            meta.push((KEPT.to_owned(), text.into()));
            is_changed = true;
        }
    }
    is_changed.then_some(message)
}

fn member<'j>(json: &'j mut OrderedJson, name: &str) -> Option<&'j mut OrderedJson> {
    let OrderedJson::Object(members) = json else { return None };
    members.iter_mut().find(|(member, _)| member == name).map(|(_, value)| value)
}

/// What a message that lists tools holds.
const LISTED: &[u8] = b"\"inputSchema\"";

/// The member of a tool's `_meta` with the text of its argument schema.
const KEPT: &str = "dalsegno/inputSchema";

#[cfg(test)]
mod tests {
    use rmcp::model::{ServerJsonRpcMessage, ServerResult, Tool};

    use super::*;

    const SCHEMA: &str =
        r#"{"type":"object","properties":{"reasoning":{"type":"string"},"answer":{"type":"string"}}}"#;

    fn listed(tool: &str) -> Vec<Tool> {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tool}]}}}}"#);
        let message: ServerJsonRpcMessage = serde_json::from_slice(&keep_order(line.as_bytes())).unwrap();
        let ServerJsonRpcMessage::Response(response) = message else { panic!("{line}") };
        let ServerResult::ListToolsResult(result) = response.result else { panic!("{line}") };
        result.tools
    }

    fn schema(tool: &str) -> String {
        let tools = listed(tool);
        read(tools[0].meta.as_ref(), &tools[0].input_schema).to_string()
    }

    #[test]
    fn the_order_of_a_schema_survives_the_sdk() {
        assert_eq!(schema(&format!(r#"{{"name":"a","inputSchema":{SCHEMA}}}"#)), SCHEMA);
        let with_meta = format!(r#"{{"name":"a","_meta":{{"own":1}},"inputSchema":{SCHEMA}}}"#);
        assert_eq!(schema(&with_meta), SCHEMA);
        assert_eq!(listed(&with_meta)[0].meta.as_ref().unwrap().get("own"), Some(&1.into()));
    }

    #[test]
    fn a_server_cannot_describe_other_arguments_by_it() {
        let other = r#"{"type":"object","properties":{}}"#;
        let forged = serde_json::json!({ KEPT: SCHEMA });
        assert_eq!(
            schema(&format!(r#"{{"name":"a","_meta":{forged},"input\u0053chema":{other}}}"#)),
            sorted(other)
        );
        assert_eq!(schema(&format!(r#"{{"name":"a","_meta":{forged},"inputSchema":{other}}}"#)), other);
        assert_eq!(
            schema(&format!(r#"{{"name":"a","_meta":{forged},"inputSchema":{}}}"#, sorted(other))),
            sorted(other)
        );
    }

    fn sorted(text: &str) -> String {
        JsonSchema::from(serde_json::from_str::<Value>(text).unwrap()).to_string()
    }

    #[test]
    fn other_messages_are_left_alone() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"inputSchema":{"b":1,"a":2}}}}"#,
            r#"{"inputSchema""#,
            "",
        ] {
            assert!(matches!(keep_order(text.as_bytes()), Cow::Borrowed(_)), "{text}");
        }
    }
}
