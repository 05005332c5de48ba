//! Anthropic Messages, field by field.

use std::sync::Arc;

use dalsegno_core::{ReplyPart, StopReason, ToolChoice, Validation};
use dalsegno_models::{Cache, HttpModel, HttpModelSettings, Model, Wire};
use serde_json::{Value, json};

use crate::double::{Answer, Double};
use crate::requests::{
    FILES, KEY, after, ask, calls, conversation, hello, opaque, plain, schema, sent, settings, valid,
    with_files, with_tools,
};

const WIRE: Wire = Wire::Anthropic;

fn thinking() -> Value {
    json!({"type": "thinking", "thinking": "Is it? Grüße 🦀", "signature": "EqQBCgIYAhIM+/=="})
}

fn redacted() -> Value {
    json!({"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4a"})
}

fn stream(events: &[Value]) -> String {
    let events =
        events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    events.collect()
}

fn calls_stream(stop: &str) -> String {
    let start = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let end = |index: u64| json!({"type": "content_block_stop", "index": index});
    let usage = json!({"input_tokens": 40, "cache_creation_input_tokens": 16, "cache_read_input_tokens": 64, "output_tokens": 1});
    stream(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m", "stop_reason": null, "usage": usage}}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "thinking_delta", "thinking": "Is it? "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Grüße 🦀"})),
        delta(0, json!({"type": "signature_delta", "signature": "EqQBCgIYAhIM+/=="})),
        end(0),
        start(1, redacted()),
        end(1),
        start(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "Grüße 🦀, "})),
        delta(2, json!({"type": "text_delta", "text": "I look."})),
        end(2),
        start(3, json!({"type": "tool_use", "id": "toolu_a", "name": "risk__score", "input": {}})),
        delta(3, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(3, json!({"type": "input_json_delta", "partial_json": "{\"n\""})),
        delta(3, json!({"type": "input_json_delta", "partial_json": ": 3}"})),
        end(3),
        start(4, json!({"type": "tool_use", "id": "toolu_b", "name": "disk__free", "input": {}})),
        delta(4, json!({"type": "input_json_delta", "partial_json": "{\"n\":\"4\"}"})),
        end(4),
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 17}}),
        json!({"type": "message_stop"}),
    ])
}

#[tokio::test]
async fn every_field_and_header_is_what_the_wire_has() {
    let mut request = with_tools(conversation(opaque("anthropic", &[thinking(), redacted()])));
    request.settings.temperature = Some(0.25);
    request.settings.max_output_tokens = Some(300);
    let (received, reply) = ask(WIRE, &request, Answer::events(&calls_stream("tool_use"), 4096)).await;
    reply.unwrap();
    assert_eq!(received.line, "POST /v1/messages HTTP/1.1");
    let tool = |name: &str, description: &str| json!({"name": name, "description": description, "input_schema": schema()});
    let text = |text: &str| json!({"type": "text", "text": text});
    let cached = |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let expected = json!({
        "model": "some-model",
        "max_tokens": 300,
        "system": [cached("Be brief.")],
        "messages": [
            {"role": "user", "content": [text("Is the disk full?")]},
            {"role": "assistant", "content": [
                thinking(),
                redacted(),
                text("Let me look."),
                {"type": "tool_use", "id": "c1", "name": "risk__score", "input": {"n": 3}},
                {"type": "tool_use", "id": "c2", "name": "disk__free", "input": {"INVALID_JSON": "{\"n"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "7"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "no JSON", "is_error": true,
                    "cache_control": {"type": "ephemeral"}},
            ]},
            {"role": "assistant", "content": [text("Yes.")]},
            {"role": "user", "content": [cached("And now?")]},
        ],
        "stream": true,
        "temperature": 0.25,
        "tools": [tool("disk__free", "Does disk.free."), tool("risk__score", "Does risk.score.")],
        "tool_choice": {"type": "auto"},
    });
    assert_eq!(received.body, expected);
    assert_eq!(received.headers["x-api-key"], KEY);
    assert_eq!(received.headers["anthropic-version"], "2023-06-01");
    assert_eq!(received.headers["accept"], "text/event-stream");
    assert_eq!(received.headers["content-type"], "application/json");
    assert_eq!(received.headers.len(), 7, "{:?}", received.headers);
}

#[tokio::test]
async fn what_is_not_set_is_not_sent() {
    let body = sent(WIRE, &plain(json!([{"user": "hi"}]))).await;
    let content = json!([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]);
    let expected = json!({
        "model": "some-model",
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": content}],
        "stream": true,
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn what_the_provider_keeps_and_how_long_is_a_setting() {
    let request = with_tools(conversation(json!([])));
    let marks = async |cache: Cache| {
        let double = Double::start([Answer::events(hello(WIRE), 4096)]).await;
        let settings = HttpModelSettings { cache, ..settings(WIRE, &double) };
        HttpModel::new(settings, None).unwrap().complete(&request, &()).await.unwrap();
        let body = double.only().body;
        let ends = ["/system/0", "/messages/2/content/1", "/messages/4/content/0"];
        ends.map(|end| body.pointer(end).unwrap().get("cache_control").cloned())
    };
    assert_eq!(marks(Cache::Off).await, [const { None }; 3]);
    let five = json!({"type": "ephemeral"});
    assert_eq!(marks(Cache::FiveMinutes).await, [(); 3].map(|()| Some(five.clone())));
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    assert_eq!(marks(Cache::OneHour).await, [(); 3].map(|()| Some(hour.clone())));
}

#[tokio::test]
async fn without_a_choice_the_tools_are_still_listed() {
    let auto = with_tools(json!([{"user": "hi"}]));
    let mut none = auto.clone();
    none.tool_choice = ToolChoice::None;
    let (auto, none) = (sent(WIRE, &auto).await, sent(WIRE, &none).await);
    assert_eq!(none["tool_choice"], json!({"type": "none"}));
    assert_eq!(auto["tools"], none["tools"]);
}

#[tokio::test]
async fn a_reply_is_the_same_wherever_the_stream_is_cut() {
    for size in [1, 2, 3, 7, 64, 100_000] {
        let request = with_tools(json!([{"user": "hi"}]));
        let stream = calls_stream("tool_use");
        let reply = ask(WIRE, &request, Answer::events(&stream, size)).await.1.unwrap();
        assert_eq!(reply.text(), "Grüße 🦀, I look.");
        assert_eq!((reply.input_tokens, reply.output_tokens), (120, 17));
        assert_eq!(reply.stop, StopReason::ToolCalls);
        let calls = calls(&reply);
        assert_eq!((&*calls[0].call_id, &calls[0].validation), ("toolu_a", &valid(json!({"n": 3}))));
        assert_eq!((&*calls[1].call_id, &calls[1].validation), ("toolu_b", &valid(json!({"n": 4}))));
    }
}

#[tokio::test]
async fn signed_thinking_goes_back_untouched_at_its_place() {
    let request = with_tools(json!([{"user": "hi"}]));
    let stream = calls_stream("tool_use");
    let reply = ask(WIRE, &request, Answer::events(&stream, 13)).await.1.unwrap();
    let part = |data| ReplyPart::Opaque { provider: "anthropic".to_owned(), data };
    assert_eq!(reply.parts[..2], [part(thinking()), part(redacted())]);
    let results = json!([
        {"tool_result": {"call_id": "toolu_a", "name": "risk__score", "content": "1", "is_error": false}},
        {"tool_result": {"call_id": "toolu_b", "name": "disk__free", "content": "2", "is_error": false}},
    ]);
    let body = sent(WIRE, &after(&request, &reply, results)).await;
    let expected = json!([
        thinking(),
        redacted(),
        {"type": "text", "text": "Grüße 🦀, I look."},
        {"type": "tool_use", "id": "toolu_a", "name": "risk__score", "input": {"n": 3}},
        {"type": "tool_use", "id": "toolu_b", "name": "disk__free", "input": {"n": "4"}},
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
}

#[tokio::test]
async fn files_stand_after_the_text_that_they_belong_to() {
    let body = sent(WIRE, &with_files(FILES)).await;
    let source =
        |media_type: &str, data: &str| json!({"type": "base64", "media_type": media_type, "data": data});
    let expected = json!([
        {"type": "text", "text": "Look at these."},
        {"type": "image", "source": source("image/png", "iVBORw==")},
        {"type": "document", "source": source("application/pdf", "JVBERi0xLjc="), "title": "b.pdf"},
        {"type": "text", "text": "The file `c.md`:\n\n# ü", "cache_control": {"type": "ephemeral"}},
    ]);
    assert_eq!(body["messages"], json!([{"role": "user", "content": expected}]));
}

#[tokio::test]
async fn at_the_length_limit_unsigned_thinking_is_dropped_and_a_call_unjudged() {
    let stream = calls_stream("max_tokens");
    let reply = ask(WIRE, &with_tools(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!(
        (reply.stop, &calls(&reply)[1].validation),
        (StopReason::Length, &Some(Validation::Truncated))
    );
    let block = json!({"type": "content_block_start", "index": 1, "content_block": {"type": "thinking", "thinking": "hm"}});
    let stream = hello(WIRE)
        .replace(
            "data: {\"type\":\"message_delta\"",
            &format!("data: {block}\n\ndata: {{\"type\":\"message_delta\""),
        )
        .replace("end_turn", "max_tokens");
    let reply = ask(WIRE, &plain(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!(reply.parts, [ReplyPart::Text("Hello".to_owned())]);
}

#[tokio::test]
async fn a_refusal_may_be_empty() {
    let stream = stream(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 3}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 0}}),
        json!({"type": "message_stop"}),
    ]);
    let reply = ask(WIRE, &plain(json!([])), Answer::events(&stream, 9)).await.1.unwrap();
    assert_eq!((reply.parts.len(), reply.stop, reply.input_tokens), (0, StopReason::Refusal, 3));
}

#[tokio::test]
async fn a_schema_goes_into_the_grammar_or_into_words() {
    let mut request = plain(json!([{"instructions": "Be brief."}, {"user": "hi"}]));
    let mut closed = schema();
    closed["additionalProperties"] = json!(false);
    request.output_schema = Some(Arc::new(closed.clone().into()));
    let body = sent(WIRE, &request).await;
    assert_eq!(body["output_config"], json!({"format": {"type": "json_schema", "schema": closed}}));
    request.output_schema = Some(Arc::new(schema().into()));
    let body = sent(WIRE, &request).await;
    assert_eq!(body["output_config"], json!({"format": {"type": "json_schema", "schema": closed}}));
    let open = json!({"type": "object", "additionalProperties": {"type": "string"}});
    request.output_schema = Some(Arc::new(open.clone().into()));
    let body = sent(WIRE, &request).await;
    assert!(body.get("output_config").is_none());
    let words = body["system"][1]["text"].as_str().unwrap();
    assert!(
        words.ends_with("\n{\"additionalProperties\":{\"type\":\"string\"},\"type\":\"object\"}"),
        "{words}"
    );
    assert_eq!(body["system"][1]["cache_control"], json!({"type": "ephemeral"}));
}

#[tokio::test]
async fn blank_text_is_left_out_and_neighbours_are_one_message() {
    let entries = json!([
        {"user": "a"},
        {"assistant": {"parts": [{"text": " \n"}], "stop": "end"}},
        {"user": ""},
        {"user": "b"},
    ]);
    let body = sent(WIRE, &plain(entries)).await;
    let content = json!([
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
    ]);
    assert_eq!(body["messages"], json!([{"role": "user", "content": content}]));
}

/// Sessions go on with models of other providers, whose ids this one refuses.
#[tokio::test]
async fn an_id_of_another_provider_is_mapped_in_the_call_and_its_result() {
    let long = "x".repeat(65);
    let ids = ["functions.Bash:0", "functions_Bash_0", "fc|1", "fc/1", "aufruf_ü", &long, "", "toolu_01Ab-9"];
    let call = |id: &&str| json!({"call": {"call_id": id, "name": "disk__free", "arguments": "{}", "verdict": {"valid": {"arguments": {}}}}});
    let result = |id: &&str| json!({"tool_result": {"call_id": id, "name": "disk__free", "content": id, "is_error": false}});
    let parts: Vec<Value> = ids.iter().map(call).collect();
    let mut entries =
        vec![json!({"user": "hi"}), json!({"assistant": {"parts": parts, "stop": "tool_calls"}})];
    entries.extend(ids.iter().rev().map(result));
    let request = with_tools(Value::Array(entries));
    let body = sent(WIRE, &request).await;
    let calls = body["messages"][1]["content"].as_array().unwrap();
    let results = body["messages"][2]["content"].as_array().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for (index, (call, id)) in calls.iter().zip(ids).enumerate() {
        let sent = call["id"].as_str().unwrap();
        assert!((1..=64).contains(&sent.len()), "{sent}");
        assert!(sent.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{sent}");
        assert!(seen.insert(sent), "two calls became `{sent}`");
        let result = &results[ids.len() - 1 - index];
        assert_eq!((&result["tool_use_id"], &result["content"]), (&json!(sent), &json!(id)));
    }
    assert_eq!((&calls[1]["id"], &calls[7]["id"]), (&json!(ids[1]), &json!(ids[7])));
    assert_eq!(sent(WIRE, &request).await, body, "the same request, the same bytes");
}
