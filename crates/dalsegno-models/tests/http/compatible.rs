//! Liberties of servers that speak a provider's wire, in bodies that they were seen to send.

use dalsegno_core::StopReason;
use dalsegno_models::{ModelErrorKind, Retry, Wire};
use serde_json::{Value, json};

use crate::double::Answer;
use crate::requests::{after, ask, calls, plain, sent, valid, with_tools};

const CHAT: Wire = Wire::OpenaiChat;

/// A stream of chunks, each with one choice.
fn chunks(deltas: &[Value]) -> String {
    let chunks =
        deltas.iter().map(|delta| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}));
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let events = chunks.chain([end]).map(|chunk| format!("data: {chunk}\n\n"));
    events.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn call() -> Value {
    json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "disk__free", "arguments": "{\"n\":1}"}}]})
}

/// The message that goes back after these chunks, which end with a call or not.
async fn sent_back(deltas: &[Value]) -> Value {
    let request = with_tools(json!([{"user": "hi"}]));
    let reply = ask(CHAT, &request, Answer::events(&chunks(deltas), 7)).await.1.unwrap();
    let next = match calls(&reply).is_empty() {
        true => json!([{"user": "And now?"}]),
        false => {
            json!([{"tool_result": {"call_id": "c1", "name": "disk__free", "content": "1", "is_error": false}}])
        }
    };
    sent(CHAT, &after(&request, &reply, next)).await["messages"][1].clone()
}

/// Ollama, Groq, Cerebras, vLLM.
#[tokio::test]
async fn reasoning_goes_back_under_the_name_that_it_came_with() {
    let piece = |text: &str| json!({"role": "assistant", "content": "", "reasoning": text});
    let message = sent_back(&[piece("It may "), piece("be full."), call()]).await;
    assert_eq!(message["reasoning"], "It may be full.");
    assert!(message.get("reasoning_content").is_none());
    let message = sent_back(&[piece("hm"), json!({"content": "Yes."})]).await;
    assert_eq!(message, json!({"role": "assistant", "content": "Yes."}));
    // A server on its way from one name to the other sends both.
    let both = json!({"reasoning": "hm", "reasoning_content": "hm"});
    let message = sent_back(&[both, call()]).await;
    assert_eq!((&message["reasoning_content"], message.get("reasoning")), (&json!("hm"), None));
}

/// OpenRouter: https://openrouter.ai/docs/use-cases/reasoning-tokens
#[tokio::test]
async fn details_of_reasoning_go_back_whole_with_their_signatures() {
    let details = |text: &str, details: Value| json!({"content": "", "reasoning": text, "reasoning_details": [details]});
    let entry = |more: Value| {
        let mut entry = json!({"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    };
    let encrypted = json!({"type": "reasoning.encrypted", "data": "gAAA+/==", "id": "rs_1", "format": "openai-responses-v1", "index": 1});
    let deltas = [
        details("It may ", entry(json!({"text": "It may "}))),
        details("be full.", entry(json!({"text": "be full.", "signature": null}))),
        details("", entry(json!({"signature": "EqQB+/=="}))),
        json!({"reasoning_details": [encrypted]}),
    ];
    let expected = json!([entry(json!({"text": "It may be full.", "signature": "EqQB+/=="})), encrypted]);
    let with_call = [&deltas[..], &[call()]].concat();
    let message = sent_back(&with_call).await;
    assert_eq!((&message["reasoning_details"], message.get("reasoning")), (&expected, None));
    let message = sent_back(&[&deltas[..], &[json!({"content": "Yes."})]].concat()).await;
    assert_eq!((&message["reasoning_details"], &message["content"]), (&expected, &json!("Yes.")));
}

/// LiteLLM in front of Claude: https://docs.litellm.ai/docs/reasoning_content
#[tokio::test]
async fn thinking_blocks_keep_the_signature_of_their_thinking() {
    let piece = |thinking: &str, signature: Value| json!({"reasoning_content": thinking, "thinking_blocks": [{"type": "thinking", "thinking": thinking, "signature": signature}]});
    let deltas = [
        piece("Is it? ", json!(null)),
        piece("Perhaps.", json!(null)),
        piece("", json!("EqQB+/==")),
        piece("And then.", json!("EqQC+/==")),
        json!({"thinking_blocks": [{"type": "redacted_thinking", "data": "EmwK"}]}),
        call(),
    ];
    let message = sent_back(&deltas).await;
    let expected = json!([
        {"type": "thinking", "thinking": "Is it? Perhaps.", "signature": "EqQB+/=="},
        {"type": "thinking", "thinking": "And then.", "signature": "EqQC+/=="},
        {"type": "redacted_thinking", "data": "EmwK"},
    ]);
    assert_eq!(message["thinking_blocks"], expected);
    assert_eq!(message["reasoning_content"], "Is it? Perhaps.And then.");
}

/// Magistral: https://docs.mistral.ai/capabilities/reasoning
#[tokio::test]
async fn content_in_parts_is_text_and_thinking() {
    let thinking =
        |text: &str| json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]});
    let deltas = [
        json!({"role": "assistant", "content": ""}),
        thinking("The disk "),
        thinking("is full."),
        json!({"content": [{"type": "text", "text": "Yes"}, {"type": "reference", "reference_ids": [1]}]}),
        json!({"content": "."}),
    ];
    let request = plain(json!([{"user": "hi"}]));
    let reply = ask(CHAT, &request, Answer::events(&chunks(&deltas), 7)).await.1.unwrap();
    assert_eq!(reply.text(), "Yes.");
    let message = sent_back(&deltas).await;
    let thinking = json!({"type": "thinking", "thinking": [{"type": "text", "text": "The disk is full."}]});
    assert_eq!(message["content"], json!([thinking, {"type": "text", "text": "Yes."}]));
}

/// Snowflake Cortex gives no reason for the end.
#[tokio::test]
async fn the_marker_alone_ends_a_reply_that_has_something() {
    let chunk = |delta: Value| {
        format!(
            "data: {}\n\n",
            json!({"choices": [{"delta": delta}], "usage": {"prompt_tokens": 3.0, "completion_tokens": 2}})
        )
    };
    let stream = format!("{}data: [DONE]\n\n", chunk(json!({"content": "Hi"})));
    let reply = ask(CHAT, &plain(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!((reply.text().as_str(), reply.stop), ("Hi", StopReason::End));
    assert_eq!((reply.input_tokens, reply.output_tokens), (3, 2), "one count is written with a point");
    let stream = format!("{}data: [DONE]\n\n", chunk(call()));
    let reply = ask(CHAT, &with_tools(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!(reply.stop, StopReason::ToolCalls);
    let error = ask(CHAT, &plain(json!([])), Answer::events("data: [DONE]\n\n", 64)).await.1.unwrap_err();
    assert_eq!((error.kind, error.retry), (ModelErrorKind::Protocol, Retry::Now));
}

#[tokio::test]
async fn arguments_may_be_an_object() {
    let call = |id: &str| json!({"tool_calls": [{"id": id, "function": {"name": "disk__free", "arguments": {"n": 1}}}]});
    let stream = chunks(&[call("a")]);
    let reply = ask(CHAT, &with_tools(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!(calls(&reply)[0].validation, valid(json!({"n": 1})));
    let item = json!({"type": "function_call", "call_id": "a", "name": "disk__free", "arguments": {"n": 1}});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let end = json!({"type": "response.completed", "response": {"status": "completed", "usage": {"input_tokens": 5.0}}});
    let stream = format!("data: {done}\n\ndata: {end}\n\n");
    let reply =
        ask(Wire::OpenaiResponses, &with_tools(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!(calls(&reply)[0].validation, valid(json!({"n": 1})));
    assert_eq!(reply.input_tokens, 5);
}

#[tokio::test]
async fn calls_with_one_id_get_ids_of_their_own() {
    let call = |index: u64| json!({"index": index, "id": "same", "function": {"name": "disk__free", "arguments": "{\"n\":1}"}});
    let stream = chunks(&[json!({"tool_calls": [call(0), call(1)]})]);
    let reply = ask(CHAT, &with_tools(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    let ids: Vec<_> = calls(&reply).iter().map(|call| &*call.call_id).collect();
    assert_eq!(ids, ["same", "call_0_1"]);
}

#[tokio::test]
async fn an_id_that_is_too_long_for_a_wire_becomes_its_digest() {
    let long = "toolu_".repeat(12);
    let entries = json!([
        {"user": "hi"},
        {"assistant": {"parts": [{"call": {"call_id": long, "name": "disk__free", "arguments": "{}"}}], "stop": "tool_calls"}},
        {"tool_result": {"call_id": long, "name": "disk__free", "content": "1", "is_error": false}},
    ]);
    let body = sent(CHAT, &with_tools(entries.clone())).await;
    let id = body["messages"][1]["tool_calls"][0]["id"].as_str().unwrap();
    assert_eq!((id.len(), &body["messages"][2]["tool_call_id"]), (37, &json!(id)));
    let body = sent(Wire::OpenaiResponses, &with_tools(entries)).await;
    assert_eq!((&body["input"][1]["call_id"], &body["input"][2]["call_id"]), (&json!(id), &json!(id)));
}

/// Some servers cut their text between the two halves of a character.
#[tokio::test]
async fn halves_of_a_character_are_joined() {
    let halves = [
        "{\"choices\":[{\"delta\":{\"content\":\"a\\ud83d\"}}]}",
        "{\"choices\":[{\"delta\":{\"content\":\"\\ude00b\"},\"finish_reason\":\"stop\"}]}",
    ];
    let stream = format!("data: {}\n\ndata: {}\n\ndata: [DONE]\n\n", halves[0], halves[1]);
    let reply = ask(CHAT, &plain(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!(reply.text(), "a\u{1f600}b");
    let block = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
    let delta = |text: &str| {
        format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
        )
    };
    let end = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
    let stream = format!("{block}{}{}{end}", delta("a\\ud83d"), delta("\\ude00"));
    let reply = ask(Wire::Anthropic, &plain(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!(reply.text(), "a\u{1f600}");
    let delta =
        |text: &str| format!("data: {{\"type\":\"response.output_text.delta\",\"delta\":\"{text}\"}}\n\n");
    let item = json!({"type": "message", "content": [{"type": "output_text", "text": "\u{1f600}"}]});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let end = json!({"type": "response.completed", "response": {"status": "completed"}});
    let stream = format!("{}{}data: {done}\n\ndata: {end}\n\n", delta("\\ud83d"), delta("\\ude00"));
    let reply = ask(Wire::OpenaiResponses, &plain(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!(reply.text(), "\u{1f600}");
}

/// What does not fit into the window is no matter of `extra`.
#[tokio::test]
async fn an_overflow_of_the_window_is_told_as_such() {
    for (status, body) in [
        (
            "400 Bad Request",
            json!({"error": {"message": "This model's maximum context length is 128000 tokens.", "type": "invalid_request_error", "code": "context_length_exceeded"}}),
        ),
        (
            "400 Bad Request",
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
        ),
        (
            "400 Bad Request",
            json!({"error": {"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error"}}),
        ),
    ] {
        let error =
            ask(CHAT, &plain(json!([])), Answer::failure(status, &body.to_string())).await.1.unwrap_err();
        assert_eq!((error.kind, error.retry), (ModelErrorKind::LimitExceeded, Retry::Never), "{error}");
        assert!(
            error
                .message
                .ends_with("set `[context] max_tokens` of the agent so that older messages are left out"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_endpoint_says_whether_to_ask_again() {
    let body = json!({"error": {"message": "no"}}).to_string();
    for (status, header, expected) in [
        ("500 Internal Server Error", "false", Retry::Never),
        ("400 Bad Request", "true", Retry::Now),
        ("500 Internal Server Error", "perhaps", Retry::Now),
    ] {
        let answer = Answer::failure(status, &body).header("x-should-retry", header);
        let error = ask(CHAT, &plain(json!([])), answer).await.1.unwrap_err();
        assert_eq!(error.retry, expected, "{status}, {header}");
    }
}
