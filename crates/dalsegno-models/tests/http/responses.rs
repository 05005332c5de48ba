//! OpenAI Responses, field by field.

use std::sync::Arc;

use dalsegno_core::{ReplyPart, StopReason, ToolChoice, Validation};
use dalsegno_models::Wire;
use serde_json::{Value, json};

use crate::double::Answer;
use crate::requests::{
    FILES, KEY, after, ask, calls, conversation, opaque, plain, schema, sent, valid, with_files, with_tools,
};

const WIRE: Wire = Wire::OpenaiResponses;

fn reasoning(id: &str, secret: &str) -> Value {
    json!({
        "id": id,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Gr\u{fc}ße"}],
        "encrypted_content": secret,
    })
}

/// A stream of these events, each with its name.
fn stream(events: &[Value]) -> String {
    let events = events.iter().enumerate().map(|(number, event)| {
        let mut event = event.clone();
        event["sequence_number"] = number.into();
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
    });
    events.collect()
}

fn calls_stream(end: Value) -> String {
    let item = |index: u64, item: Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
    let call = |id: &str, name: &str, arguments: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments, "status": "completed"});
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "phase": "commentary",
        "content": [{"type": "output_text", "text": "Grüße 🦀, I look.", "annotations": [], "logprobs": []}],
    });
    stream(&[
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Grüße"}),
        item(0, reasoning("rs_1", "gAAAA+/=")),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Grüße 🦀, "}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "I look."}),
        item(1, message),
        json!({"type": "response.function_call_arguments.delta", "output_index": 3, "delta": "{\"n"}),
        // Items may be done in another order than they stand in.
        item(4, call("call_b", "disk__free", "{\"n\":\"4\"}")),
        item(3, call("call_a", "risk__score", "{\"n\": 3}")),
        item(2, reasoning("rs_2", "gBBBB+/=")),
        end,
    ])
}

fn completed() -> Value {
    let usage = json!({
        "input_tokens": 120, "input_tokens_details": {"cached_tokens": 64},
        "output_tokens": 17, "output_tokens_details": {"reasoning_tokens": 9}, "total_tokens": 137,
    });
    let response = json!({"id": "resp_1", "status": "completed", "error": null, "incomplete_details": null, "output": [], "usage": usage});
    json!({"type": "response.completed", "response": response})
}

#[tokio::test]
async fn every_field_and_header_is_what_the_wire_has() {
    let (one, two) = (reasoning("rs_1", "gAAAA+/="), reasoning("rs_2", "gBBBB+/="));
    let mut request = with_tools(conversation(opaque("openai-responses", &[one.clone(), two.clone()])));
    request.settings.temperature = Some(0.25);
    request.settings.max_output_tokens = Some(300);
    request.output_schema = Some(Arc::new(schema().into()));
    let (received, reply) = ask(WIRE, &request, Answer::events(&calls_stream(completed()), 4096)).await;
    reply.unwrap();
    assert_eq!(received.line, "POST /v1/responses HTTP/1.1");
    let function = |name: &str, description: &str| json!({"type": "function", "name": name, "description": description, "parameters": schema(), "strict": false});
    let user = |text: &str| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
    let assistant = |text: &str| json!({"type": "message", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]});
    let closed = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
    let expected = json!({
        "model": "some-model",
        "instructions": "Be brief.",
        "input": [
            user("Is the disk full?"),
            one,
            two,
            assistant("Let me look."),
            {"type": "function_call", "call_id": "c1", "name": "risk__score", "arguments": "{\"n\": 3}"},
            {"type": "function_call", "call_id": "c2", "name": "disk__free", "arguments": "{\"INVALID_JSON\":\"{\\\"n\"}"},
            {"type": "function_call_output", "call_id": "c1", "output": "7"},
            {"type": "function_call_output", "call_id": "c2", "output": "no JSON"},
            assistant("Yes."),
            user("And now?"),
        ],
        "stream": true,
        "store": false,
        "temperature": 0.25,
        "max_output_tokens": 300,
        "tools": [function("disk__free", "Does disk.free."), function("risk__score", "Does risk.score.")],
        "tool_choice": "auto",
        "text": {"format": {"type": "json_schema", "name": "output", "schema": closed, "strict": true}},
    });
    let mut body = received.body.clone();
    for message in body["input"].as_array_mut().unwrap().iter_mut().filter(|item| item["role"] == "assistant")
    {
        // Servers that check requests by the types of OpenAI's SDK want an id.
        let id = message.as_object_mut().unwrap().remove("id").unwrap();
        assert!(id.as_str().is_some_and(|id| id.starts_with("msg_") && id.len() == 36), "{id}");
    }
    assert_eq!(body, expected);
    assert_eq!(received.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(received.headers["accept"], "text/event-stream");
    assert_eq!(received.headers["content-type"], "application/json");
    assert_eq!(received.headers.len(), 6, "{:?}", received.headers);
}

#[tokio::test]
async fn what_is_not_set_is_not_sent() {
    let body = sent(WIRE, &plain(json!([{"user": "hi"}]))).await;
    let content = json!([{"type": "input_text", "text": "hi"}]);
    let expected = json!({
        "model": "some-model",
        "input": [{"type": "message", "role": "user", "content": content}],
        "stream": true,
        "store": false,
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn without_a_choice_the_tools_are_still_listed() {
    let auto = with_tools(json!([{"user": "hi"}]));
    let mut none = auto.clone();
    none.tool_choice = ToolChoice::None;
    let (auto, none) = (sent(WIRE, &auto).await, sent(WIRE, &none).await);
    assert_eq!(none["tool_choice"], "none");
    assert_eq!(auto["tools"], none["tools"]);
}

#[tokio::test]
async fn a_reply_is_the_same_wherever_the_stream_is_cut() {
    for size in [1, 2, 3, 7, 64, 100_000] {
        let request = with_tools(json!([{"user": "hi"}]));
        let stream = calls_stream(completed());
        let reply = ask(WIRE, &request, Answer::events(&stream, size)).await.1.unwrap();
        assert_eq!(reply.text(), "Grüße 🦀, I look.");
        assert_eq!((reply.input_tokens, reply.output_tokens), (120, 17));
        assert_eq!(reply.stop, StopReason::ToolCalls);
        let calls = calls(&reply);
        assert_eq!((&*calls[0].call_id, &calls[0].validation), ("call_a", &valid(json!({"n": 3}))));
        assert_eq!((&*calls[1].call_id, &calls[1].validation), ("call_b", &valid(json!({"n": 4}))));
    }
}

#[tokio::test]
async fn encrypted_reasoning_goes_back_untouched_at_its_place() {
    let request = with_tools(json!([{"user": "hi"}]));
    let stream = calls_stream(completed());
    let reply = ask(WIRE, &request, Answer::events(&stream, 11)).await.1.unwrap();
    let provider = "openai-responses".to_owned();
    let data = reasoning("rs_1", "gAAAA+/=");
    assert_eq!(reply.parts[0], ReplyPart::Opaque { provider, data });
    let results = json!([
        {"tool_result": {"call_id": "call_a", "name": "risk__score", "content": "1", "is_error": false}},
        {"tool_result": {"call_id": "call_b", "name": "disk__free", "content": "2", "is_error": false}},
    ]);
    let body = sent(WIRE, &after(&request, &reply, results)).await;
    let text = json!([{"type": "output_text", "text": "Grüße 🦀, I look.", "annotations": []}]);
    let id = &body["input"][2]["id"];
    let expected = json!([
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        reasoning("rs_1", "gAAAA+/="),
        {"type": "message", "role": "assistant", "status": "completed", "id": id, "phase": "commentary", "content": text},
        reasoning("rs_2", "gBBBB+/="),
        {"type": "function_call", "call_id": "call_a", "name": "risk__score", "arguments": "{\"n\": 3}"},
        {"type": "function_call", "call_id": "call_b", "name": "disk__free", "arguments": "{\"n\":\"4\"}"},
        {"type": "function_call_output", "call_id": "call_a", "output": "1"},
        {"type": "function_call_output", "call_id": "call_b", "output": "2"},
    ]);
    assert_eq!(body["input"], expected);
}

#[tokio::test]
async fn files_stand_after_the_text_that_they_belong_to() {
    let body = sent(WIRE, &with_files(FILES)).await;
    let expected = json!([
        {"type": "input_text", "text": "Look at these."},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw=="},
        {"type": "input_file", "filename": "b.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc="},
        {"type": "input_text", "text": "The file `c.md`:\n\n# ü"},
    ]);
    assert_eq!(body["input"], json!([{"type": "message", "role": "user", "content": expected}]));
}

#[tokio::test]
async fn an_incomplete_response_says_why() {
    let end = |reason: &str| {
        let details = json!({"reason": reason});
        json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": details}})
    };
    let stream = calls_stream(end("max_output_tokens"));
    let reply = ask(WIRE, &with_tools(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!(reply.stop, StopReason::Length);
    assert_eq!(calls(&reply)[1].validation, Some(Validation::Truncated));
    let stream = calls_stream(end("content_filter"));
    let reply = ask(WIRE, &with_tools(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!(reply.stop, StopReason::Refusal);
}

#[tokio::test]
async fn a_refusal_is_text_and_a_stop() {
    let content = json!([{"type": "refusal", "refusal": "I can't."}]);
    let item = json!({"type": "message", "role": "assistant", "content": content});
    let stream = stream(&[
        json!({"type": "response.refusal.delta", "delta": "I can't."}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        completed(),
    ]);
    let reply = ask(WIRE, &plain(json!([])), Answer::events(&stream, 9)).await.1.unwrap();
    assert_eq!((reply.text().as_str(), reply.stop), ("I can't.", StopReason::Refusal));
}

#[tokio::test]
async fn a_server_that_sends_items_only_at_the_end_is_understood() {
    let mut end = completed();
    let content = json!([{"type": "output_text", "text": "Hi"}]);
    end["response"]["output"] = json!([{"type": "message", "content": content}]);
    let delta = json!({"type": "response.output_text.delta", "delta": "Hi"});
    let reply = ask(WIRE, &plain(json!([])), Answer::events(&stream(&[delta, end]), 64)).await.1.unwrap();
    assert_eq!(reply.parts, [ReplyPart::Text("Hi".to_owned())]);
}

/// Nothing is stored, so that an item that is sent back by its id alone is not found.
#[tokio::test]
async fn reasoning_that_is_not_encrypted_is_not_sent_back() {
    let bare = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let null = json!({"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": null});
    let plain_text = json!({"type": "reasoning", "id": "rs_3", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]});
    let request = with_tools(conversation(opaque("openai-responses", &[bare, null, plain_text.clone()])));
    let body = sent(WIRE, &request).await;
    let reasoning: Vec<&Value> =
        body["input"].as_array().unwrap().iter().filter(|item| item["type"] == "reasoning").collect();
    assert_eq!(reasoning, [&plain_text], "what is whole in itself goes back");
}
