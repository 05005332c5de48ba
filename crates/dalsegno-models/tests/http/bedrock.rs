//! Amazon Bedrock's Converse, field by field.

use std::collections::BTreeSet;
use std::sync::Arc;

use dalsegno_core::{ModelControl, Reasoning, ReplyPart, StopReason, ToolChoice, Validation};
use dalsegno_models::{CompletionRequest, HttpModel, Model, ModelErrorKind, Retry, Wire};
use serde_json::{Value, json};

use crate::double::{Answer, Double};
use crate::frames::{exception, of_json};
use crate::requests::{
    FILES, KEY, after, ask, calls, conversation, hello, opaque, plain, schema, sent, settings, valid,
    with_files, with_tools,
};

const WIRE: Wire = Wire::Bedrock;

const CLAUDE: &str = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0";

fn signed() -> Value {
    json!({"reasoningContent": {"reasoningText": {"text": "Is it? Grüße 🦀", "signature": "EqQBCgIYAhIM+/=="}}})
}

fn redacted() -> Value {
    json!({"reasoningContent": {"redactedContent": "EmwKAhgBEgy3va3pzix/LafPsn4a"}})
}

fn frames(events: &[Value]) -> Vec<u8> {
    events.iter().flat_map(of_json).collect()
}

fn pieces(bytes: &[u8], size: usize) -> Answer {
    Answer::frames(Vec::new()).chunks(bytes.chunks(size).map(<[u8]>::to_vec).collect())
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}})
}

fn call(index: u64, id: &str, name: &str) -> Value {
    json!({"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": id, "name": name}}}})
}

fn stop(index: u64) -> Value {
    json!({"contentBlockStop": {"contentBlockIndex": index}})
}

/// A reply of a model that reasons and calls, as the reference of ConverseStream has it.
fn events(reason: &str) -> Vec<Value> {
    let reasoning = |index: u64, content: Value| delta(index, json!({"reasoningContent": content}));
    let usage = json!({"inputTokens": 40, "outputTokens": 17, "totalTokens": 137, "cacheReadInputTokens": 64,
        "cacheWriteInputTokens": 16});
    vec![
        json!({"messageStart": {"p": "abcdefghijk", "role": "assistant"}}),
        reasoning(0, json!({"text": "Is it? "})),
        reasoning(0, json!({"text": "Grüße 🦀"})),
        reasoning(0, json!({"signature": "EqQBCgIYAhIM+/=="})),
        stop(0),
        reasoning(1, json!({"redactedContent": "EmwKAhgBEgy3va3p"})),
        reasoning(1, json!({"redactedContent": "zix/LafPsn4a"})),
        stop(1),
        json!({"contentBlockStart": {"contentBlockIndex": 2, "start": {}}}),
        delta(2, json!({"text": "Grüße 🦀, "})),
        delta(2, json!({"text": "I look."})),
        delta(2, json!({"citation": {"title": "not kept"}})),
        stop(2),
        call(3, "tooluse_a", "risk__score"),
        delta(3, json!({"toolUse": {"input": ""}})),
        delta(3, json!({"toolUse": {"input": "{\"n\""}})),
        delta(3, json!({"toolUse": {"input": ": 3}"}})),
        stop(3),
        call(4, "tooluse_b", "disk__free"),
        delta(4, json!({"toolUse": {"input": "{\"n\":\"4\"}"}})),
        stop(4),
        json!({"contentBlockStart": {"contentBlockIndex": 5, "start": {"toolResult": {"toolUseId": "x"}}}}),
        delta(5, json!({"toolResult": [{"text": "of a tool that the provider performs"}]})),
        json!({"contentBlockStart": {"contentBlockIndex": 6, "start": {"toolUse": {"toolUseId": "x", "name": "nova_grounding", "type": "server_tool_use"}}}}),
        delta(6, json!({"toolUse": {"input": "{}"}})),
        json!({"somethingNew": {"any": 1}}),
        json!({"messageStop": {"stopReason": reason}}),
        json!({"metadata": {"usage": usage, "metrics": {"latencyMs": 812}}}),
    ]
}

/// What is sent to a model of this name.
async fn sent_to(name: &str, extra: Value, request: &CompletionRequest) -> Value {
    let double = Double::start([Answer::of(WIRE, hello(WIRE), 4096)]).await;
    let mut settings = settings(WIRE, &double);
    settings.model = name.to_owned();
    settings.extra = extra.as_object().unwrap().clone();
    HttpModel::new(settings, None).unwrap().complete(request, &()).await.unwrap();
    double.only().body
}

#[tokio::test]
async fn every_field_and_header_is_what_the_wire_has() {
    let mut request = with_tools(conversation(opaque("bedrock", &[signed(), redacted()])));
    request.settings.temperature = Some(0.25);
    request.settings.max_output_tokens = Some(300);
    request.settings.control = ModelControl {
        top_p: Some(0.5),
        stop: vec!["END".to_owned()],
        service_tier: Some("flex".to_owned()),
        ..ModelControl::default()
    }
    .into();
    let (received, reply) = ask(WIRE, &request, pieces(&frames(&events("tool_use")), 4096)).await;
    reply.unwrap();
    assert_eq!(received.line, "POST /model/some-model/converse-stream HTTP/1.1");
    let tool = |name: &str, description: &str| json!({"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema()}}});
    let text = |text: &str| json!({"text": text});
    let result = |id: &str, words: &str| json!({"toolUseId": id, "content": [text(words)]});
    let mut failed = result("c2", "no JSON");
    failed["status"] = json!("error");
    let expected = json!({
        "system": [text("Be brief.")],
        "messages": [
            {"role": "user", "content": [text("Is the disk full?")]},
            {"role": "assistant", "content": [
                signed(),
                redacted(),
                text("Let me look."),
                {"toolUse": {"toolUseId": "c1", "name": "risk__score", "input": {"n": 3}}},
                {"toolUse": {"toolUseId": "c2", "name": "disk__free", "input": {"INVALID_JSON": "{\"n"}}},
            ]},
            {"role": "user", "content": [{"toolResult": result("c1", "7")}, {"toolResult": failed}]},
            {"role": "assistant", "content": [text("Yes.")]},
            {"role": "user", "content": [text("And now?")]},
        ],
        "inferenceConfig": {"maxTokens": 300, "temperature": 0.25, "topP": 0.5, "stopSequences": ["END"]},
        "toolConfig": {"tools": [tool("disk__free", "Does disk.free."), tool("risk__score", "Does risk.score.")]},
        "serviceTier": {"type": "flex"},
    });
    assert_eq!(received.body, expected);
    assert_eq!(received.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(received.headers["accept"], "application/vnd.amazon.eventstream");
    assert_eq!(received.headers["content-type"], "application/json");
    assert_eq!(received.headers.len(), 6, "{:?}", received.headers);
}

#[tokio::test]
async fn what_is_not_set_is_not_sent() {
    let body = sent(WIRE, &plain(json!([{"user": "hi"}]))).await;
    assert_eq!(body, json!({"messages": [{"role": "user", "content": [{"text": "hi"}]}]}));
}

#[tokio::test]
async fn a_reply_is_the_same_wherever_the_stream_is_cut() {
    let bytes = frames(&events("tool_use"));
    for size in [1, 2, 3, 7, 64, 100_000] {
        let request = with_tools(json!([{"user": "hi"}]));
        let reply = ask(WIRE, &request, pieces(&bytes, size)).await.1.unwrap();
        assert_eq!(reply.text(), "Grüße 🦀, I look.");
        assert_eq!((reply.input_tokens, reply.output_tokens), (120, 17));
        assert_eq!((reply.details.cached_input_tokens, reply.details.cache_write_tokens), (64, 16));
        assert_eq!(reply.stop, StopReason::ToolCalls);
        let calls = calls(&reply);
        assert_eq!((&*calls[0].call_id, &calls[0].validation), ("tooluse_a", &valid(json!({"n": 3}))));
        assert_eq!((&*calls[1].call_id, &calls[1].validation), ("tooluse_b", &valid(json!({"n": 4}))));
    }
}

#[tokio::test]
async fn signed_reasoning_goes_back_untouched_at_its_place() {
    let request = with_tools(json!([{"user": "hi"}]));
    let reply = ask(WIRE, &request, pieces(&frames(&events("tool_use")), 13)).await.1.unwrap();
    let part = |data| ReplyPart::Opaque { provider: "bedrock".to_owned(), data };
    assert_eq!(reply.parts[..2], [part(signed()), part(redacted())]);
    let results = json!([
        {"tool_result": {"call_id": "tooluse_a", "name": "risk__score", "content": "1", "is_error": false}},
        {"tool_result": {"call_id": "tooluse_b", "name": "disk__free", "content": "", "is_error": false}},
    ]);
    let body = sent(WIRE, &after(&request, &reply, results)).await;
    let content = body["messages"][1]["content"].as_array().unwrap();
    assert_eq!(content[..2], [signed(), redacted()]);
    assert_eq!(content[2], json!({"text": "Grüße 🦀, I look."}));
    assert_eq!(content[3]["toolUse"]["toolUseId"], "tooluse_a");
    let results = json!([
        {"toolResult": {"toolUseId": "tooluse_a", "content": [{"text": "1"}]}},
        {"toolResult": {"toolUseId": "tooluse_b", "content": [{"text": "(empty)"}]}},
    ]);
    assert_eq!(body["messages"][2]["content"], results);
}

/// The wire refuses reasoning without a signature, which other models write.
#[tokio::test]
async fn reasoning_without_a_signature_is_kept_but_not_sent_back() {
    let unsigned = json!({"reasoningContent": {"reasoningText": {"text": "hm"}}});
    let reasoning = delta(0, json!({"reasoningContent": {"text": "hm"}}));
    let events =
        [reasoning, delta(1, json!({"text": "Yes."})), json!({"messageStop": {"stopReason": "end_turn"}})];
    let request = plain(json!([{"user": "hi"}]));
    let reply = ask(WIRE, &request, pieces(&frames(&events), 64)).await.1.unwrap();
    assert_eq!(reply.parts[0], ReplyPart::Opaque { provider: "bedrock".to_owned(), data: unsigned });
    assert!(reply.estimated, "nobody counted");
    let body = sent(WIRE, &after(&request, &reply, json!([{"user": "Sure?"}]))).await;
    assert_eq!(body["messages"][1]["content"], json!([{"text": "Yes."}]));
}

#[tokio::test]
async fn a_stop_is_what_it_says() {
    let words = |reason: &str| {
        frames(&[
            delta(0, json!({"text": "Hello"})),
            json!({"messageStop": {"stopReason": reason}}),
            json!({"metadata": {"usage": {"inputTokens": 9, "outputTokens": 2}}}),
        ])
    };
    for (reason, expected) in [
        ("end_turn", StopReason::End),
        ("stop_sequence", StopReason::End),
        ("tool_use", StopReason::End),
        ("something_new", StopReason::End),
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("guardrail_intervened", StopReason::Refusal),
        ("content_filtered", StopReason::Refusal),
    ] {
        let reply = ask(WIRE, &plain(json!([{"user": "hi"}])), pieces(&words(reason), 64)).await.1.unwrap();
        assert_eq!((reply.stop, reply.text().as_str()), (expected, "Hello"), "{reason}");
        assert_eq!((reply.input_tokens, reply.output_tokens), (9, 2));
    }
    // Nothing can be made of it, and another attempt may do better.
    let error = ask(WIRE, &plain(json!([])), pieces(&words("malformed_tool_use"), 64)).await.1.unwrap_err();
    assert_eq!((error.kind, error.retry), (ModelErrorKind::Protocol, Retry::Now));
    assert!(error.message.contains("a call of a tool that the provider could not read"), "{error}");
}

#[tokio::test]
async fn a_call_that_is_cut_or_broken_is_no_call_to_perform() {
    for (reason, input, expected) in [
        ("max_tokens", "{\"n\": 3", Validation::Truncated),
        ("tool_use", "", Validation::Valid { arguments: json!({}) }),
        ("malformed_tool_use", "{\"n", Validation::Truncated),
    ] {
        let events = [
            call(0, "tooluse_a", "risk__score"),
            delta(0, json!({"toolUse": {"input": input}})),
            json!({"messageStop": {"stopReason": reason}}),
        ];
        let request = with_tools(json!([{"user": "hi"}]));
        let reply = ask(WIRE, &request, pieces(&frames(&events), 5)).await.1.unwrap();
        let found = calls(&reply)[0].validation.clone().unwrap();
        match expected {
            Validation::Truncated if reason == "max_tokens" => assert_eq!(found, expected),
            Validation::Truncated => assert!(matches!(found, Validation::Malformed { .. }), "{found:?}"),
            _ => assert!(matches!(found, Validation::Invalid { .. }), "`n` is missing: {found:?}"),
        }
    }
}

#[tokio::test]
async fn four_calls_at_once_are_kept_apart() {
    let mut events = Vec::new();
    for index in 0..4 {
        events.push(call(index, &format!("tooluse_{index}"), "disk__free"));
    }
    // The pieces of all of them in turn.
    for piece in ["{\"n\"", ": "] {
        events.extend((0..4).map(|index| delta(index, json!({"toolUse": {"input": piece}}))));
    }
    events.extend((0..4).map(|index| delta(index, json!({"toolUse": {"input": format!("{index}}}")}}))));
    events.push(json!({"messageStop": {"stopReason": "tool_use"}}));
    let request = with_tools(json!([{"user": "hi"}]));
    let reply = ask(WIRE, &request, pieces(&frames(&events), 11)).await.1.unwrap();
    for (index, call) in calls(&reply).iter().enumerate() {
        assert_eq!(call.call_id, format!("tooluse_{index}"));
        assert_eq!(call.validation, valid(json!({"n": index})));
    }
    assert_eq!(calls(&reply).len(), 4);
}

#[tokio::test]
async fn exceptions_in_the_stream_are_what_they_say() {
    let begun = frames(&[json!({"messageStart": {"role": "assistant"}}), delta(0, json!({"text": "Hel"}))]);
    use ModelErrorKind::{LimitExceeded, Protocol, RateLimited, Refused};
    for (name, words, kind) in [
        ("throttlingException", "Too many tokens, please wait before trying again.", RateLimited),
        ("modelStreamErrorException", "The system encountered an unexpected error", Protocol),
        ("serviceUnavailableException", "Try again.", Protocol),
        ("internalServerException", "It broke.", Protocol),
        ("validationException", "The tool config is wrong.", Refused),
        ("validationException", "Input is too long for requested model.", LimitExceeded),
        ("somethingNew", "Hm.", Protocol),
    ] {
        let mut bytes = begun.clone();
        bytes.extend(exception(name, &json!({"message": words}).to_string()));
        let double = Double::start([pieces(&bytes, 9)]).await;
        let model = HttpModel::new(settings(WIRE, &double), None).unwrap();
        let error = model.complete(&plain(json!([])), &()).await.unwrap_err();
        assert_eq!((error.kind, error.retry), (kind, kind.retry()), "{error}");
        assert_eq!(error.message, format!("the endpoint reported the error `{name}` in its stream: {words}"));
    }
}

#[tokio::test]
async fn a_damaged_stream_is_not_a_reply() {
    let mut bytes = frames(&events("tool_use"));
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    let double = Double::start([pieces(&bytes, 64)]).await;
    let model = HttpModel::new(settings(WIRE, &double), None).unwrap();
    let error = model.complete(&plain(json!([])), &()).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ModelErrorKind::Protocol, Retry::Now));
    assert!(error.message.starts_with("the answer is not a stream of events of AWS: "), "{error}");
}

#[tokio::test]
async fn events_that_do_not_fit_together_are_refused() {
    for (events, words) in [
        (vec![delta(9, json!({"toolUse": {"input": "x"}}))], "block 9, which has not begun"),
        (
            vec![delta(0, json!({"text": "x"})), delta(0, json!({"toolUse": {"input": "x"}}))],
            "as another kind of block",
        ),
        (vec![delta(0, json!({"reasoningContent": {"redactedContent": "?"}}))], "not in base64"),
        ((0..1025).map(|index| delta(index, json!({"text": "x"}))).collect(), "more than 1024 blocks"),
        (vec![json!({"messageStop": {}})], "the wire `bedrock` does not have: missing field `stopReason`"),
    ] {
        let error = ask(WIRE, &plain(json!([])), pieces(&frames(&events), 64)).await.1.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Protocol);
        assert!(error.message.contains(words), "{error}");
    }
}

#[tokio::test]
async fn files_are_sent_as_the_wire_has_them() {
    let recordings: [(&str, &str, &[u8]); 9] = [
        ("d", "audio/wav", b"RIFF"),
        ("e", "audio/mpeg", b"ID3"),
        ("f", "audio/ogg", b"OggS"),
        ("g", "audio/flac", b"fLaC"),
        ("h", "audio/aac", b"aac"),
        ("i", "video/mp4", b"ftyp"),
        ("j", "video/mpeg", b"mpeg"),
        ("k", "video/quicktime", b"qt"),
        ("l", "video/webm", b"webm"),
    ];
    let files: Vec<_> = FILES.iter().copied().chain(recordings).collect();
    let body = sent(WIRE, &with_files(&files)).await;
    let sound = |format: &str, data: &str| json!({"audio": {"format": format, "source": {"bytes": data}}});
    let video = |format: &str, data: &str| json!({"video": {"format": format, "source": {"bytes": data}}});
    let expected = json!([
        {"text": "Look at these."},
        {"image": {"format": "png", "source": {"bytes": "iVBORw=="}}},
        {"text": "The file `b.pdf`:"},
        {"document": {"format": "pdf", "name": "b pdf", "source": {"bytes": "JVBERi0xLjc="}}},
        {"text": "The file `c.md`:\n\n# ü"},
        sound("wav", "UklGRg=="),
        sound("mp3", "SUQz"),
        sound("ogg", "T2dnUw=="),
        sound("flac", "ZkxhQw=="),
        sound("aac", "YWFj"),
        video("mp4", "ZnR5cA=="),
        video("mpeg", "bXBlZw=="),
        video("mov", "cXQ="),
        video("webm", "d2VibQ=="),
    ]);
    assert_eq!(body["messages"][0]["content"], expected);
}

#[tokio::test]
async fn the_name_of_a_document_is_one_and_is_given_once() {
    let long = format!("{}.pdf", "x".repeat(300));
    let files: Vec<(&str, &str, &[u8])> =
        ["Q3  report_(final)[2].pdf", "a.pdf", "a.pdf", "a pdf", "ü/..", &long]
            .map(|name| (name, "application/pdf", &b"%PDF"[..]))
            .to_vec();
    let body = sent(WIRE, &with_files(&files)).await;
    let names: Vec<&str> = body["messages"][0]["content"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|block| block["document"]["name"].as_str())
        .collect();
    assert_eq!(names[..5], ["Q3 report (final)[2] pdf", "a pdf", "a pdf 2", "a pdf 3", "document"]);
    assert!(names[5].len() <= 200);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

#[tokio::test]
async fn a_call_can_be_demanded_and_forbidden() {
    let choose = async |choice: ToolChoice, entries: Value| {
        sent(WIRE, &CompletionRequest { tool_choice: choice, ..with_tools(entries) }).await
    };
    let hi = || json!([{"user": "hi"}]);
    let chosen = choose(ToolChoice::Required, hi()).await["toolConfig"]["toolChoice"].clone();
    assert_eq!(chosen, json!({"any": {}}));
    let chosen =
        choose(ToolChoice::Tool("disk.free".parse().unwrap()), hi()).await["toolConfig"]["toolChoice"]
            .clone();
    assert_eq!(chosen, json!({"tool": {"name": "disk__free"}}));
    let forbidden = choose(ToolChoice::Tool("secret.read".parse().unwrap()), hi()).await;
    assert_eq!(forbidden["toolConfig"]["toolChoice"], json!({"any": {}}));
    // Without calls in the conversation, no tools are listed; with some, the wire wants them listed.
    assert!(choose(ToolChoice::None, hi()).await.get("toolConfig").is_none());
    let with_calls = || conversation(json!([]));
    let (auto, none) =
        (choose(ToolChoice::Auto, with_calls()).await, choose(ToolChoice::None, with_calls()).await);
    assert_eq!(none["toolConfig"], auto["toolConfig"]);
    assert!(none["system"][1]["text"].as_str().unwrap().starts_with("Do not call a tool now."), "{none}");
    assert!(auto["system"].get(1).is_none());
}

#[tokio::test]
async fn claude_gets_cache_marks_after_the_system_prompt_and_at_the_end() {
    let request = with_tools(conversation(json!([])));
    let mark = json!({"cachePoint": {"type": "default"}});
    let body = sent_to(CLAUDE, json!({}), &request).await;
    assert_eq!(body["system"], json!([{"text": "Be brief."}, mark]));
    assert_eq!(
        body["messages"].as_array().unwrap().last().unwrap()["content"],
        json!([{"text": "And now?"}, mark])
    );
    // And where the request before ended.
    assert_eq!(body["messages"][2]["content"].as_array().unwrap().last().unwrap(), &mark);
    assert_eq!(body.to_string().matches("cachePoint").count(), 3);
    for name in [
        "amazon.nova-lite-v1:0",
        "anthropic.claude-3-haiku-20240307-v1:0",
        "anthropic.claude-3-5-sonnet-20240620-v1:0",
        "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/abc",
    ] {
        assert_eq!(
            sent_to(name, json!({}), &request).await.to_string().matches("cachePoint").count(),
            0,
            "{name}"
        );
    }
}

#[tokio::test]
async fn reasoning_is_asked_of_each_model_in_its_own_form() {
    let asked = async |name: &str, reasoning, limit: Option<u32>, extra: Value| {
        let mut request = plain(json!([{"user": "hi"}]));
        request.settings.control = ModelControl { reasoning, ..ModelControl::default() }.into();
        request.settings.max_output_tokens = limit;
        let body = sent_to(name, extra, &request).await;
        ["additionalModelRequestFields", "outputConfig", "inferenceConfig"].map(|field| body[field].clone())
    };
    let enabled = |tokens: u64| json!({"thinking": {"type": "enabled", "budget_tokens": tokens}});
    let none = Value::Null;
    assert_eq!(
        asked(CLAUDE, Some(Reasoning::High), None, json!({})).await,
        [json!({"thinking": {"type": "adaptive"}}), json!({"effort": "high"}), none.clone()]
    );
    assert_eq!(
        asked("openai.gpt-oss-120b-1:0", Some(Reasoning::Low), Some(300), json!({})).await,
        [none.clone(), json!({"effort": "low"}), json!({"maxTokens": 300})]
    );
    assert_eq!(
        asked(CLAUDE, Some(Reasoning::None), None, json!({})).await,
        [json!({"thinking": {"type": "disabled"}}), none.clone(), none.clone()]
    );
    let budget = Some(Reasoning::MaxTokens(16_000));
    assert_eq!(
        asked(CLAUDE, budget, None, json!({"additionalModelRequestFields": {"top_k": 7}})).await,
        [
            json!({"thinking": {"type": "enabled", "budget_tokens": 16_000}, "top_k": 7}),
            none.clone(),
            json!({"maxTokens": 24_192})
        ]
    );
    assert_eq!(
        asked(CLAUDE, budget, Some(8_000), json!({})).await,
        [enabled(6_976), none.clone(), json!({"maxTokens": 8_000})]
    );
    let written = json!({"additionalModelRequestFields": enabled(16_000)});
    assert_eq!(
        asked(CLAUDE, None, Some(8_000), written.clone()).await,
        [enabled(6_976), none.clone(), json!({"maxTokens": 8_000})]
    );
    assert_eq!(
        asked(CLAUDE, None, None, written).await,
        [enabled(16_000), none, json!({"maxTokens": 24_192})]
    );
}

#[tokio::test]
async fn an_answer_that_the_provider_makes_fit_is_asked_for() {
    let mut request = plain(json!([{"user": "hi"}]));
    let mut closed = schema();
    closed["additionalProperties"] = json!(false);
    request.output_schema = Some(Arc::new(closed.clone().into()));
    let words = sent(WIRE, &request).await;
    let text = words["system"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("Answer with nothing but a JSON value that fits this JSON Schema:\n{"),
        "{text}"
    );
    assert!(words.get("outputConfig").is_none());
    request.settings.control = ModelControl { strict: Some(true), ..ModelControl::default() }.into();
    let body = sent(WIRE, &request).await;
    let format = &body["outputConfig"]["textFormat"];
    assert_eq!((&format["type"], body.get("system")), (&json!("json_schema"), None));
    let definition = &format["structure"]["jsonSchema"];
    let schema: Value = serde_json::from_str(definition["schema"].as_str().unwrap()).unwrap();
    assert_eq!((schema, &definition["name"]), (closed, &json!("answer")));
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
    assert_eq!(body["messages"], json!([{"role": "user", "content": [{"text": "a"}, {"text": "b"}]}]));
}

#[tokio::test]
async fn ids_and_names_that_the_wire_refuses_are_mapped() {
    let long = "x".repeat(65);
    let ids = ["functions.Bash:0", "fc|1", "aufruf_ü", &long, "", "tooluse_01Ab-9"];
    let names = ["disk__free", "disk.free", "no such tool!", "", &long, "ü"];
    let call = |(id, name): (&&str, &str)| json!({"call": {"call_id": id, "name": name, "arguments": "{}", "verdict": {"valid": {"arguments": {}}}}});
    let result = |id: &&str| json!({"tool_result": {"call_id": id, "name": "disk__free", "content": id, "is_error": false}});
    let parts: Vec<Value> = ids.iter().zip(names).map(call).collect();
    let mut entries =
        vec![json!({"user": "hi"}), json!({"assistant": {"parts": parts, "stop": "tool_calls"}})];
    entries.extend(ids.iter().map(result));
    let request = with_tools(Value::Array(entries));
    for (model, others) in [("moonshot.kimi-k2-thinking", &b"_-.:"[..]), (CLAUDE, b"_-")] {
        let body = sent_to(model, json!({}), &request).await;
        let calls = body["messages"][1]["content"].as_array().unwrap();
        let results = body["messages"][2]["content"].as_array().unwrap();
        let mut seen = BTreeSet::new();
        for (call, result) in calls.iter().zip(results) {
            let (id, name) =
                (call["toolUse"]["toolUseId"].as_str().unwrap(), call["toolUse"]["name"].as_str().unwrap());
            let fits = |text: &str, others: &[u8]| {
                (1..=64).contains(&text.len())
                    && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
            };
            assert!(fits(id, others) && fits(name, b"_-"), "{id}, {name}");
            assert!(seen.insert(id), "two calls became `{id}`");
            assert_eq!(result["toolResult"]["toolUseId"], id);
        }
        let kept = calls[0]["toolUse"]["toolUseId"] == ids[0];
        assert_eq!((kept, &calls[5]["toolUse"]["toolUseId"]), (model != CLAUDE, &json!(ids[5])));
    }
}
