//! OpenAI Chat Completions, field by field.

use dalsegno_core::{ReplyPart, StopReason, ToolChoice, Validation};
use dalsegno_models::Wire;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::double::Answer;
use crate::requests::{
    FILES, KEY, after, ask, calls, conversation, opaque, plain, schema, sent, valid, with_files, with_tools,
};

const WIRE: Wire = Wire::OpenaiChat;

/// As `api.openai.com` sends them, with a second choice that nobody asked for and an emoji to cut.
const CALLS: &str = concat!(
    ": keep-alive\r\n\r\n",
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"service_tier\":\"default\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Grüße 🦀, \"},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"other\"},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"I look.\"},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_a\",\"type\":\"function\",\"function\":{\"name\":\"risk__score\",\"arguments\":\"\"}}]},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"n\\\"\"}}]},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"call_b\",\"type\":\"function\",\"function\":{\"name\":\"disk__free\",\"arguments\":\"{\\\"n\\\":\\\"4\\\"}\"}}]},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\": 3}\"}}]},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\r\n\r\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":17,\"total_tokens\":137,\"prompt_tokens_details\":{\"cached_tokens\":64}}}\r\n\r\n",
    "data: [DONE]\r\n\r\n",
);

#[tokio::test]
async fn every_field_and_header_is_what_the_wire_has() {
    let mut request = with_tools(conversation(json!([])));
    request.settings.temperature = Some(0.25);
    request.settings.max_output_tokens = Some(300);
    request.output_schema = Some(Arc::new(schema().into()));
    let (received, reply) = ask(WIRE, &request, Answer::events(CALLS, 4096)).await;
    reply.unwrap();
    assert_eq!(received.line, "POST /v1/chat/completions HTTP/1.1");
    let function = |name: &str, description: &str| {
        let function = json!({"name": name, "description": description, "parameters": schema()});
        json!({"type": "function", "function": function})
    };
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let mut closed = schema();
    closed["additionalProperties"] = json!(false);
    let expected = json!({
        "model": "some-model",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Is the disk full?"},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [
                call("c1", "risk__score", "{\"n\": 3}"),
                call("c2", "disk__free", "{\"INVALID_JSON\":\"{\\\"n\"}"),
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "7"},
            {"role": "tool", "tool_call_id": "c2", "content": "no JSON"},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": "And now?"},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
        "temperature": 0.25,
        "max_tokens": 300,
        "tools": [function("disk__free", "Does disk.free."), function("risk__score", "Does risk.score.")],
        "tool_choice": "auto",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": closed, "strict": true}
        },
    });
    assert_eq!(received.body, expected);
    let mut headers = received.headers;
    headers.remove("host").unwrap();
    headers.remove("content-length").unwrap();
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let authorization = format!("Bearer {KEY}");
    let agent = format!("dalsegno/{}", env!("CARGO_PKG_VERSION"));
    let expected = [
        ("accept", "text/event-stream"),
        ("authorization", &authorization),
        ("content-type", "application/json"),
        ("user-agent", &agent),
    ];
    assert_eq!(headers, expected);
}

#[tokio::test]
async fn what_is_not_set_is_not_sent() {
    let body = sent(WIRE, &plain(json!([{"user": "hi"}]))).await;
    let expected = json!({
        "model": "some-model",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": true,
        "stream_options": {"include_usage": true},
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
    assert_eq!(auto["tools"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_reply_is_the_same_wherever_the_stream_is_cut() {
    for size in [1, 2, 3, 7, 64, 100_000] {
        let request = with_tools(json!([{"user": "hi"}]));
        let reply = ask(WIRE, &request, Answer::events(CALLS, size)).await.1.unwrap();
        assert_eq!(reply.text(), "Grüße 🦀, I look.");
        assert_eq!((reply.input_tokens, reply.output_tokens), (120, 17));
        assert_eq!(reply.stop, StopReason::ToolCalls);
        let calls = calls(&reply);
        assert_eq!((&*calls[0].call_id, &*calls[0].name), ("call_a", "risk__score"));
        assert_eq!((&*calls[0].arguments, &calls[0].validation), ("{\"n\": 3}", &valid(json!({"n": 3}))));
        assert_eq!((&*calls[1].call_id, &calls[1].validation), ("call_b", &valid(json!({"n": 4}))));
    }
}

#[tokio::test]
async fn files_stand_after_the_text_that_they_belong_to() {
    let sounds: [(&str, &str, &[u8]); 2] = [("d.wav", "audio/wav", b"RIFF"), ("e.mp3", "audio/mpeg", b"ID3")];
    let files: Vec<_> = FILES.iter().copied().chain(sounds).collect();
    let body = sent(WIRE, &with_files(&files)).await;
    let expected = json!([
        {"type": "text", "text": "Look at these."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
        {"type": "file", "file": {"filename": "b.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc="}},
        {"type": "text", "text": "The file `c.md`:\n\n# ü"},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
    ]);
    assert_eq!(body["messages"], json!([{"role": "user", "content": expected}]));
}

#[tokio::test]
async fn what_only_some_servers_send_goes_back_with_the_calls_it_came_with() {
    let stream = concat!(
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"It may \"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"be full.\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"x\",\"function\":{\"name\":\"disk__free\",\"arguments\":\"{\\\"n\\\":1}\"},\"extra_content\":{\"google\":{\"thought_signature\":\"c2ln+/==\"}}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n",
    );
    let request = with_tools(json!([{"user": "hi"}]));
    let reply = ask(WIRE, &request, Answer::events(stream, 5)).await.1.unwrap();
    assert_eq!(reply.stop, StopReason::ToolCalls, "the calls decide, whatever the server says");
    let result =
        json!([{"tool_result": {"call_id": "x", "name": "disk__free", "content": "1", "is_error": false}}]);
    let body = sent(WIRE, &after(&request, &reply, result)).await;
    let call = json!({
        "id": "x",
        "type": "function",
        "function": {"name": "disk__free", "arguments": "{\"n\":1}"},
        "extra_content": {"google": {"thought_signature": "c2ln+/=="}},
    });
    let expected = json!({"role": "assistant", "reasoning_content": "It may be full.", "tool_calls": [call]});
    assert_eq!(body["messages"][1], expected);
}

#[tokio::test]
async fn reasoning_without_calls_is_kept_but_not_sent() {
    let reasoning = opaque("openai", &[json!({"reasoning_content": "hm"})]);
    let mut parts = reasoning.as_array().unwrap().clone();
    parts.push(json!({"text": "Yes."}));
    let entries = json!([{"user": "a"}, {"assistant": {"parts": parts, "stop": "end"}}, {"user": "b"}]);
    let body = sent(WIRE, &plain(entries)).await;
    assert_eq!(body["messages"][1], json!({"role": "assistant", "content": "Yes."}));
}

#[tokio::test]
async fn a_length_stop_leaves_the_last_call_unjudged() {
    let stream = CALLS.replace("\"finish_reason\":\"tool_calls\"", "\"finish_reason\":\"length\"");
    let reply = ask(WIRE, &with_tools(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!(reply.stop, StopReason::Length);
    assert_eq!(calls(&reply)[0].validation, valid(json!({"n": 3})));
    assert_eq!(calls(&reply)[1].validation, Some(Validation::Truncated));
}

#[tokio::test]
async fn a_refusal_is_text_and_a_stop() {
    let stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"refusal\":\"I can't.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let reply = ask(WIRE, &plain(json!([])), Answer::events(stream, 9)).await.1.unwrap();
    assert_eq!((reply.text().as_str(), reply.stop), ("I can't.", StopReason::Refusal));
}

#[tokio::test]
async fn a_structured_answer_is_judged() {
    let mut request = plain(json!([{"user": "hi"}]));
    let strict = json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": false,
    });
    request.output_schema = Some(Arc::new(strict.into()));
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"{\\\"n\\\": 5}\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let (received, reply) = ask(WIRE, &request, Answer::events(stream, 64)).await;
    assert_eq!(received.body["response_format"]["json_schema"]["strict"], true);
    assert_eq!(reply.unwrap().output, valid(json!({"n": 5})));
}

#[tokio::test]
async fn a_missing_marker_after_the_end_is_forgiven() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    let reply = ask(WIRE, &plain(json!([])), Answer::events(stream, 64)).await.1.unwrap();
    assert_eq!(reply.parts, [ReplyPart::Text("Hi".to_owned())]);
    assert_eq!(Value::from(reply.input_tokens), json!(0));
}

#[tokio::test]
async fn parallel_calls_that_share_an_index_stay_apart() {
    let call = |id: &str, arguments: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"{id}\",\"function\":\
             {{\"name\":\"risk__score\",\"arguments\":{arguments:?}}}}}]}},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let stream = format!("{}{}{end}", call("a", "{\"n\":1}"), call("b", "{\"n\":2}"));
    let reply = ask(WIRE, &with_tools(json!([])), Answer::events(&stream, 64)).await.1.unwrap();
    let calls: Vec<_> = calls(&reply).iter().map(|call| (&*call.call_id, &*call.arguments)).collect();
    assert_eq!(calls, [("a", "{\"n\":1}"), ("b", "{\"n\":2}")]);
}
