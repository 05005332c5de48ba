//! Gemini, field by field: bodies as its guides and its reference show them.

use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{ModelControl, ModelReply, Reasoning, ReplyPart, StopReason, ToolChoice, Validation};
use dalsegno_models::{CompletionRequest, HttpModel, Model, ModelError, ModelErrorKind, Retry, Wire};
use dalsegno_secrets::Secret;
use serde_json::{Value, json};

use crate::double::{Answer, Double, End, Received};
use crate::requests::{
    Deltas, FILES, KEY, after, ask, calls, conversation, key, opaque, plain, schema, sent, settings, valid,
    with_files, with_tools,
};

const WIRE: Wire = Wire::Gemini;

/// With the characters that an encoder may change.
const SIGNATURE: &str =
    "CpcHAdHtim9/+q4rstcbvQC0ic4x1/vqQlCJWgE+UZ6dTLYGHMMBkF/AxqL5UmP6SY46uYC8t4BTFiXG5zkw6EMJ==";

fn stream(pieces: &[Value]) -> String {
    pieces.iter().map(|piece| format!("data: {piece}\r\n\r\n")).collect()
}

/// A piece of a reply; the last one says why it ended.
fn piece(parts: Value, stop: Value) -> Value {
    let mut piece = json!({
        "candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 120, "candidatesTokenCount": 7, "totalTokenCount": 137, "thoughtsTokenCount": 10,
            "cachedContentTokenCount": 64, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 120}]},
        "modelVersion": "gemini-3-pro-preview",
        "responseId": "RvmpafXBLZ-xvdIP9t6LoQ8",
    });
    if !stop.is_null() {
        piece["candidates"][0]["finishReason"] = stop;
    }
    piece
}

fn call(id: &str, name: &str, args: Value) -> Value {
    json!({"functionCall": {"id": id, "name": name, "args": args}})
}

fn signed(mut part: Value) -> Value {
    part["thoughtSignature"] = json!(SIGNATURE);
    part
}

/// Thoughts, a text and two parallel calls, of which the first is signed.
fn calls_stream(stop: &str) -> String {
    stream(&[
        piece(json!([{"text": "Is it? ", "thought": true}]), Value::Null),
        piece(json!([{"text": "Grüße 🦀", "thought": true}]), Value::Null),
        piece(json!([{"text": "Grüße 🦀, "}]), Value::Null),
        piece(json!([{"text": "I look."}]), Value::Null),
        piece(
            json!([
                signed(call("8f2b1a3c", "risk__score", json!({"n": 3}))),
                call("", "disk__free", json!({"n": "4"}))
            ]),
            Value::Null,
        ),
        piece(json!([{"text": ""}]), json!(stop)),
    ])
}

/// Asks a model of this name.
async fn ask_model(
    name: &str,
    request: &CompletionRequest,
    answer: Answer,
) -> (Received, Result<ModelReply, ModelError>) {
    let double = Double::start([answer]).await;
    let mut settings = settings(WIRE, &double);
    settings.model = name.to_owned();
    let deltas = Deltas::default();
    let reply = HttpModel::new(settings, key()).unwrap().complete(request, &deltas).await;
    if let Ok(reply) = &reply {
        assert_eq!(deltas.joined(), reply.text());
    }
    (double.only(), reply)
}

async fn sent_to(name: &str, request: &CompletionRequest) -> Value {
    ask_model(name, request, Answer::events(crate::requests::hello(WIRE), 4096)).await.0.body
}

async fn reply(pieces: impl AsRef<[Value]>) -> Result<ModelReply, ModelError> {
    ask(WIRE, &with_tools(json!([{"user": "hi"}])), Answer::events(&stream(pieces.as_ref()), 64)).await.1
}

async fn failure(status: &str, body: Value) -> ModelError {
    ask(WIRE, &plain(json!([])), Answer::failure(status, &body.to_string())).await.1.unwrap_err()
}

fn part(data: Value) -> ReplyPart {
    ReplyPart::Opaque { provider: "gemini".to_owned(), data }
}

#[tokio::test]
async fn every_field_and_header_is_what_the_wire_has() {
    let thought = json!({"text": "Is it?", "thought": true});
    let data = [
        json!({"model": "some-model", "part": thought}),
        json!({"model": "some-model", "thoughtSignature": SIGNATURE}),
    ];
    let mut request = with_tools(conversation(opaque("gemini", &data)));
    request.settings.temperature = Some(0.25);
    request.settings.max_output_tokens = Some(300);
    let control = ModelControl {
        top_p: Some(0.5),
        seed: Some(7),
        stop: vec!["END".to_owned()],
        ..ModelControl::default()
    };
    request.settings.control = control.into();
    let (received, reply) = ask(WIRE, &request, Answer::events(&calls_stream("STOP"), 4096)).await;
    reply.unwrap();
    assert_eq!(received.line, "POST /v1beta/models/some-model:streamGenerateContent?alt=sse HTTP/1.1");
    let tool = |name: &str, description: &str| json!({"name": name, "description": description, "parametersJsonSchema": schema()});
    let text = |text: &str| json!({"text": text});
    let expected = json!({
        "systemInstruction": {"parts": [text("Be brief.")]},
        "contents": [
            {"role": "user", "parts": [text("Is the disk full?")]},
            {"role": "model", "parts": [
                thought,
                signed(text("Let me look.")),
                call("c1", "risk__score", json!({"n": 3})),
                call("c2", "disk__free", json!({"INVALID_JSON": "{\"n"})),
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "c1", "name": "risk__score", "response": {"output": "7"}}},
                {"functionResponse": {"id": "c2", "name": "disk__free", "response": {"error": "no JSON"}}},
            ]},
            {"role": "model", "parts": [text("Yes.")]},
            {"role": "user", "parts": [text("And now?")]},
        ],
        "tools": [{"functionDeclarations": [tool("disk__free", "Does disk.free."), tool("risk__score", "Does risk.score.")]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {"temperature": 0.25, "topP": 0.5, "seed": 7, "maxOutputTokens": 300, "stopSequences": ["END"]},
    });
    assert_eq!(received.body, expected);
    assert_eq!(received.headers["x-goog-api-key"], KEY);
    assert_eq!(received.headers["accept"], "text/event-stream");
    assert_eq!(received.headers["content-type"], "application/json");
    assert_eq!(received.headers.len(), 6, "{:?}", received.headers);
}

#[tokio::test]
async fn what_is_not_set_is_not_sent() {
    let body = sent(WIRE, &plain(json!([{"user": "hi"}]))).await;
    assert_eq!(body, json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}));
    let control = ModelControl {
        service_tier: Some("flex".to_owned()),
        parallel_tool_calls: Some(true),
        ..ModelControl::default()
    };
    let mut request = plain(json!([{"user": "hi"}]));
    request.settings.control = control.into();
    assert_eq!(sent(WIRE, &request).await["serviceTier"], "flex");
}

#[tokio::test]
async fn a_query_of_the_address_is_kept() {
    for (base, line) in [
        ("/v1?tenant=7", "POST /v1/models/some-model:streamGenerateContent?tenant=7&alt=sse HTTP/1.1"),
        ("/v1/?alt=sse", "POST /v1/models/some-model:streamGenerateContent?alt=sse HTTP/1.1"),
    ] {
        let double = Double::start([Answer::events(crate::requests::hello(WIRE), 64)]).await;
        let mut settings = settings(WIRE, &double);
        settings.base_url = Some(double.url(base));
        HttpModel::new(settings, None).unwrap().complete(&plain(json!([])), &()).await.unwrap();
        assert_eq!(double.only().line, line);
    }
}

#[tokio::test]
async fn a_call_can_be_demanded_or_forbidden() {
    for (choice, expected) in [
        (ToolChoice::Auto, json!({"mode": "AUTO"})),
        (ToolChoice::None, json!({"mode": "NONE"})),
        (ToolChoice::Required, json!({"mode": "ANY"})),
        (
            ToolChoice::Tool("disk.free".parse().unwrap()),
            json!({"mode": "ANY", "allowedFunctionNames": ["disk__free"]}),
        ),
        (ToolChoice::Tool("secret.read".parse().unwrap()), json!({"mode": "ANY"})),
    ] {
        let request = CompletionRequest { tool_choice: choice, ..with_tools(json!([{"user": "hi"}])) };
        let body = sent(WIRE, &request).await;
        assert_eq!(body["toolConfig"], json!({"functionCallingConfig": expected}));
        assert_eq!(body["tools"][0]["functionDeclarations"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_reply_is_the_same_wherever_the_stream_is_cut() {
    for size in [1, 2, 3, 7, 64, 100_000] {
        let request = with_tools(json!([{"user": "hi"}]));
        let reply = ask(WIRE, &request, Answer::events(&calls_stream("STOP"), size)).await.1.unwrap();
        assert_eq!(reply.text(), "Grüße 🦀, I look.");
        assert_eq!((reply.input_tokens, reply.output_tokens), (120, 17));
        assert_eq!((reply.details.cached_input_tokens, reply.details.reasoning_tokens), (64, 10));
        assert_eq!(reply.stop, StopReason::ToolCalls);
        let calls = calls(&reply);
        assert_eq!((&*calls[0].call_id, &calls[0].validation), ("8f2b1a3c", &valid(json!({"n": 3}))));
        // It gave no id, so the result finds its call by ours.
        assert_eq!((&*calls[1].call_id, &calls[1].validation), ("call_0_4", &valid(json!({"n": 4}))));
    }
}

#[tokio::test]
async fn thoughts_and_signatures_go_back_untouched_on_their_parts() {
    for model in ["gemini-3-pro-preview", "gemini-2.5-flash"] {
        let request = with_tools(json!([{"user": "hi"}]));
        let reply = ask_model(model, &request, Answer::events(&calls_stream("STOP"), 13)).await.1.unwrap();
        let thought = json!({"text": "Is it? Grüße 🦀", "thought": true});
        assert_eq!(reply.parts[0], part(json!({"model": model, "part": thought})));
        assert_eq!(reply.parts[2], part(json!({"model": model, "thoughtSignature": SIGNATURE})));
        let id = &calls(&reply)[1].call_id;
        let results = json!([
            {"tool_result": {"call_id": "8f2b1a3c", "name": "risk__score", "content": "1", "is_error": false}},
            {"tool_result": {"call_id": id, "name": "disk__free", "content": "2", "is_error": false}},
        ]);
        let body = sent_to(model, &after(&request, &reply, results)).await;
        let unnamed = json!({"functionCall": {"name": "disk__free", "args": {"n": "4"}}});
        let said = json!([
            thought,
            {"text": "Grüße 🦀, I look."},
            signed(call("8f2b1a3c", "risk__score", json!({"n": 3}))),
            unnamed,
        ]);
        let heard = json!([
            {"functionResponse": {"id": "8f2b1a3c", "name": "risk__score", "response": {"output": "1"}}},
            {"functionResponse": {"name": "disk__free", "response": {"output": "2"}}},
        ]);
        assert_eq!(body["contents"][1], json!({"role": "model", "parts": said}), "{model}");
        assert_eq!(body["contents"][2], json!({"role": "user", "parts": heard}), "{model}");
    }
}

/// The last piece may have nothing but a signature, and a signed text is never joined with another one.
#[tokio::test]
async fn a_signature_of_a_text_stays_where_it_was() {
    let reply = reply([
        piece(json!([{"text": "One, "}]), Value::Null),
        piece(json!([{"text": "two, "}]), Value::Null),
        piece(json!([signed(json!({"text": "three"}))]), Value::Null),
        piece(json!([{"text": " and four."}]), Value::Null),
        piece(json!([signed(json!({"text": ""}))]), json!("STOP")),
    ]);
    let reply = reply.await.unwrap();
    assert_eq!((reply.text().as_str(), reply.stop), ("One, two, three and four.", StopReason::End));
    let next = after(&plain(json!([{"user": "Count."}])), &reply, json!([{"user": "Go on."}]));
    let expected = json!([
        {"text": "One, two, "},
        signed(json!({"text": "three"})),
        {"text": " and four."},
        signed(json!({"text": ""})),
    ]);
    assert_eq!(sent(WIRE, &next).await["contents"][1]["parts"], expected);
}

/// Only the model that signed takes its signatures back, and since Gemini 3 a call needs one.
#[tokio::test]
async fn calls_of_another_model_have_the_word_that_stands_for_a_signature() {
    let request = with_tools(json!([{"user": "hi"}]));
    let reply =
        ask_model("gemini-3-pro", &request, Answer::events(&calls_stream("STOP"), 64)).await.1.unwrap();
    let next = after(&request, &reply, json!([{"user": "Go on."}]));
    for (model, expected) in [
        ("gemini-3-pro", json!(SIGNATURE)),
        ("gemini-3-flash", json!("skip_thought_signature_validator")),
        ("gemini-flash-latest", json!("skip_thought_signature_validator")),
        ("gemini-2.5-flash", Value::Null),
        ("gemma-4-31b-it", Value::Null),
    ] {
        let body = sent_to(model, &next).await;
        let parts = body["contents"][1]["parts"].as_array().unwrap();
        let calls: Vec<&Value> = parts.iter().filter(|part| part.get("functionCall").is_some()).collect();
        assert_eq!(calls[0].get("thoughtSignature").cloned().unwrap_or_default(), expected, "{model}");
        assert_eq!(calls[1].get("thoughtSignature"), None, "{model}");
        let thinks = parts.iter().any(|part| part["thought"] == true);
        assert_eq!(thinks, model == "gemini-3-pro", "{model}");
    }
    // Nor is it sent over another wire.
    assert!(!sent(Wire::OpenaiChat, &next).await.to_string().contains(SIGNATURE));
}

#[tokio::test]
async fn thinking_is_a_level_or_a_budget() {
    let thinking = async |model: &str, reasoning, limit| {
        let mut request = plain(json!([{"user": "hi"}]));
        request.settings.control =
            ModelControl { reasoning: Some(reasoning), ..ModelControl::default() }.into();
        request.settings.max_output_tokens = limit;
        sent_to(model, &request).await["generationConfig"]["thinkingConfig"].clone()
    };
    for (model, reasoning, limit, expected) in [
        ("gemini-3-pro", Reasoning::Low, None, json!({"thinkingLevel": "LOW", "includeThoughts": true})),
        (
            "gemini-flash-latest",
            Reasoning::High,
            Some(9),
            json!({"thinkingLevel": "HIGH", "includeThoughts": true}),
        ),
        ("gemini-3-flash", Reasoning::None, None, json!({"thinkingLevel": "MINIMAL"})),
        (
            "gemini-3-pro",
            Reasoning::MaxTokens(2000),
            None,
            json!({"thinkingBudget": 2000, "includeThoughts": true}),
        ),
        ("gemini-2.5-pro", Reasoning::Medium, None, json!({"thinkingBudget": 8192, "includeThoughts": true})),
        (
            "gemini-2.5-pro",
            Reasoning::Medium,
            Some(3000),
            json!({"thinkingBudget": 1500, "includeThoughts": true}),
        ),
        ("gemini-2.5-flash", Reasoning::None, Some(300), json!({"thinkingBudget": 0})),
        (
            "gemini-2.5-flash",
            Reasoning::MaxTokens(2000),
            Some(9000),
            json!({"thinkingBudget": 2000, "includeThoughts": true}),
        ),
    ] {
        assert_eq!(thinking(model, reasoning, limit).await, expected, "{model} {reasoning:?}");
    }
}

#[tokio::test]
async fn a_schema_of_the_answer_is_enforced_or_told_in_words() {
    let mut request = plain(json!([{"instructions": "Be brief."}, {"user": "hi"}]));
    request.output_schema = Some(Arc::new(schema().into()));
    let enforced = json!({"responseMimeType": "application/json", "responseJsonSchema": schema()});
    for model in ["gemini-2.5-flash", "gemini-3-pro"] {
        assert_eq!(sent_to(model, &request).await["generationConfig"], enforced, "{model}");
    }
    request.tools = with_tools(json!([])).tools;
    assert_eq!(sent_to("gemini-3-pro", &request).await["generationConfig"], enforced);
    let body = sent_to("gemini-2.5-flash", &request).await;
    assert_eq!(body.get("generationConfig"), None, "it takes no schema beside tools");
    let words = body["systemInstruction"]["parts"][1]["text"].as_str().unwrap();
    assert!(
        words.ends_with(
            "\n{\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"],\"type\":\"object\"}"
        ),
        "{words}"
    );

    request.tools = Arc::default();
    let stream = stream(&[
        piece(json!([{"text": "{\"n\":"}]), Value::Null),
        piece(json!([{"text": " 3}"}]), json!("STOP")),
    ]);
    let reply = ask(WIRE, &request, Answer::events(&stream, 64)).await.1.unwrap();
    assert_eq!(reply.output, valid(json!({"n": 3})));
}

#[tokio::test]
async fn files_stand_after_the_text_that_they_belong_to() {
    let sound: (&str, &str, &[u8]) = ("d.wav", "audio/wav", b"RIFF");
    let video: (&str, &str, &[u8]) = ("e.mp4", "video/mp4", b"ftyp");
    let files: Vec<_> = FILES.iter().copied().chain([sound, video]).collect();
    let body = sent(WIRE, &with_files(&files)).await;
    let inline = |kind: &str, data: &str| json!({"inlineData": {"mimeType": kind, "data": data}});
    let expected = json!([
        {"text": "Look at these."},
        inline("image/png", "iVBORw=="),
        inline("application/pdf", "JVBERi0xLjc="),
        {"text": "The file `c.md`:\n\n# ü"},
        inline("audio/wav", "UklGRg=="),
        inline("video/mp4", "ZnR5cA=="),
    ]);
    assert_eq!(body["contents"], json!([{"role": "user", "parts": expected}]));
}

#[tokio::test]
async fn blank_text_is_left_out_and_neighbours_are_one_content() {
    let entries = json!([
        {"instructions": " "},
        {"user": "a"},
        {"assistant": {"parts": [{"text": " \n"}], "stop": "end"}},
        {"user": ""},
        {"user": "b"},
    ]);
    let body = sent(WIRE, &plain(entries)).await;
    assert_eq!(body, json!({"contents": [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]}));
}

#[tokio::test]
async fn one_call_alone_and_four_at_once() {
    let one = reply([piece(json!([signed(call("a1", "disk__free", json!({"n": 1})))]), json!("STOP"))])
        .await
        .unwrap();
    assert_eq!((calls(&one).len(), one.stop, one.text().as_str()), (1, StopReason::ToolCalls, ""));
    // In one piece or in several, with ids that come twice or not at all.
    let four: Vec<Value> =
        ["a1", "a1", "", "a2"].iter().map(|id| call(id, "disk__free", json!({"n": 1}))).collect();
    let pieces: Vec<Value> = four.iter().map(|call| piece(json!([call]), Value::Null)).collect();
    let end = piece(json!([]), json!("STOP"));
    for stream in [vec![piece(json!(four), json!("STOP"))], [pieces, vec![end]].concat()] {
        let reply = reply(&stream).await.unwrap();
        let ids: Vec<&str> = calls(&reply).iter().map(|call| &*call.call_id).collect();
        assert_eq!(ids, ["a1", "call_0_1", "call_0_2", "a2"]);
        let next = after(&plain(json!([])), &reply, json!([]));
        let body = sent(WIRE, &next).await;
        let sent = |index: usize| body["contents"][0]["parts"][index]["functionCall"].get("id");
        assert_eq!(
            [sent(0), sent(1), sent(2), sent(3)],
            [Some(&json!("a1")), None, None, Some(&json!("a2"))]
        );
    }
}

#[tokio::test]
async fn broken_arguments_are_judged_and_shown_to_the_model() {
    for (args, arguments, sent_back) in [
        (json!([1]), "[1]", json!({"INVALID_JSON": "[1]"})),
        (json!("{\"n"), "{\"n", json!({"INVALID_JSON": "{\"n"})),
        (json!({"n": "many"}), "{\"n\":\"many\"}", json!({"n": "many"})),
    ] {
        let reply = reply([piece(json!([call("a1", "disk__free", args)]), json!("STOP"))]).await.unwrap();
        let call = calls(&reply)[0];
        assert_eq!(call.arguments, arguments);
        assert!(!matches!(call.validation, Some(Validation::Valid { .. })), "{call:?}");
        let body = sent(WIRE, &after(&plain(json!([])), &reply, json!([]))).await;
        assert_eq!(body["contents"][0]["parts"][0]["functionCall"]["args"], sent_back);
    }
    let bare = json!({"functionCall": {"name": "disk__free"}});
    let reply = reply([piece(json!([bare]), json!("STOP"))]).await.unwrap();
    assert_eq!(calls(&reply)[0].arguments, "{}");
}

#[tokio::test]
async fn an_end_is_what_it_says() {
    for (stop, expected) in [
        ("STOP", StopReason::End),
        ("SOMETHING_NEW", StopReason::End),
        ("MAX_TOKENS", StopReason::Length),
        ("SAFETY", StopReason::Refusal),
        ("RECITATION", StopReason::Refusal),
        ("PROHIBITED_CONTENT", StopReason::Refusal),
        ("BLOCKLIST", StopReason::Refusal),
        ("SPII", StopReason::Refusal),
    ] {
        let reply = reply([piece(json!([{"text": "This is"}]), json!(stop))]).await.unwrap();
        assert_eq!((reply.text().as_str(), reply.stop), ("This is", expected), "{stop}");
        assert_eq!((reply.input_tokens, reply.output_tokens), (120, 17), "{stop}");
    }
    // A refusal may be empty, of the reply or of the request.
    let mut empty = piece(Value::Null, json!("SAFETY"));
    empty["candidates"][0].as_object_mut().unwrap().remove("content");
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 120}});
    for piece in [empty, blocked] {
        let reply = reply([piece]).await.unwrap();
        assert_eq!((reply.parts.len(), reply.stop, reply.input_tokens), (0, StopReason::Refusal, 120));
    }
    let reply =
        ask(WIRE, &with_tools(json!([])), Answer::events(&calls_stream("MAX_TOKENS"), 64)).await.1.unwrap();
    assert_eq!(
        (reply.stop, &calls(&reply)[1].validation),
        (StopReason::Length, &Some(Validation::Truncated))
    );
}

#[tokio::test]
async fn a_call_that_the_provider_could_not_read_is_asked_for_again() {
    for stop in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"] {
        let mut end = piece(json!([]), json!(stop));
        end["candidates"][0]["finishMessage"] =
            json!("Malformed function call: print(default_api.disk__free(");
        let error = reply([end]).await.unwrap_err();
        assert_eq!((error.kind, error.retry), (ModelErrorKind::Protocol, Retry::Now));
        let words = format!("ended the reply with `{stop}`: Malformed function call: print(");
        assert!(error.message.contains(&words), "{error}");
    }
    // Where there is a call, the model learns that there is no such tool.
    let unknown = call("a1", "disk__format", json!({}));
    let reply = reply([piece(json!([unknown]), json!("UNEXPECTED_TOOL_CALL"))]).await.unwrap();
    assert_eq!((reply.stop, &*calls(&reply)[0].name), (StopReason::ToolCalls, "disk__format"));
}

#[tokio::test]
async fn parts_that_only_the_provider_understands_go_back_as_they_came() {
    let code = json!({"executableCode": {"id": "x", "language": "PYTHON", "code": "print(1)"}});
    let result = json!({"codeExecutionResult": {"id": "x", "outcome": "OUTCOME_OK", "output": "1\n"}});
    let reply = reply([
        piece(json!([signed(code.clone()), result]), Value::Null),
        piece(json!([{"text": "It is 1."}]), json!("STOP")),
    ]);
    let reply = reply.await.unwrap();
    assert_eq!((reply.text().as_str(), reply.parts.len()), ("It is 1.", 3));
    let body = sent(WIRE, &after(&plain(json!([])), &reply, json!([{"user": "Go on."}]))).await;
    assert_eq!(body["contents"][0]["parts"], json!([signed(code), result, {"text": "It is 1."}]));
}

#[tokio::test]
async fn another_candidate_is_not_read() {
    let mut piece = piece(json!([{"text": "One."}]), json!("STOP"));
    let other = json!({"index": 1, "content": {"parts": [{"text": "Two."}]}, "finishReason": "SAFETY"});
    piece["candidates"].as_array_mut().unwrap().push(other);
    let reply = reply([piece]).await.unwrap();
    assert_eq!((reply.text().as_str(), reply.stop), ("One.", StopReason::End));
}

#[tokio::test]
async fn a_hostile_number_of_parts_is_refused() {
    let parts: Vec<Value> = (0..1025).map(|_| signed(json!({"text": "x"}))).collect();
    let error = reply([piece(json!(parts), json!("STOP"))]).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Protocol);
    assert!(error.message.contains("more than 1024 parts"), "{error}");
    let error = reply([piece(json!([{"functionCall": {"args": {}}}]), json!("STOP"))]).await.unwrap_err();
    assert!(error.message.contains("a call without a name"), "{error}");
    let error = reply([piece(json!([{"functionCall": 7}]), json!("STOP"))]).await.unwrap_err();
    assert!(error.message.contains("the wire `gemini` does not have"), "{error}");
}

#[tokio::test]
async fn a_stream_that_is_cut_is_no_reply_and_one_that_stays_open_is() {
    let whole = calls_stream("STOP");
    let end = whole.rfind("data: ").unwrap();
    let error = ask(WIRE, &with_tools(json!([])), Answer::events(&whole[..end], 64).end(End::Cut))
        .await
        .1
        .unwrap_err();
    assert_eq!((error.kind, error.retry), (ModelErrorKind::Protocol, Retry::Now));
    assert!(error.message.contains("the stream ended before `finishReason`"), "{error}");
    // Long before the time of the attempt.
    let silent = Answer::events(&whole, 64).end(End::Silence);
    let request = with_tools(json!([]));
    let asked = ask(WIRE, &request, silent);
    let reply = tokio::time::timeout(Duration::from_secs(30), asked).await.unwrap().1.unwrap();
    assert_eq!(reply.stop, StopReason::ToolCalls);
}

/// As the guide to rate limits and users' reports have it.
fn exhausted(quota: &str) -> Value {
    json!({"error": {
        "code": 429,
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
                {"quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests", "quotaId": quota, "quotaValue": "5"},
            ]},
            {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37.25s"},
        ],
    }})
}

#[tokio::test]
async fn the_pause_that_an_error_asks_for_is_kept() {
    let minute = exhausted("GenerateRequestsPerMinutePerProjectPerModel-FreeTier");
    let later = Retry::After(Duration::from_millis(37_250));
    // A stream that fails at once may be a list.
    for body in [minute.clone(), json!([minute])] {
        let error = failure("429 Too Many Requests", body).await;
        assert_eq!((error.kind, error.retry), (ModelErrorKind::RateLimited, later), "{error}");
    }
    let answer = Answer::failure("429 Too Many Requests", &minute.to_string()).header("retry-after", "2");
    let error = ask(WIRE, &plain(json!([])), answer).await.1.unwrap_err();
    assert_eq!(error.retry, Retry::After(Duration::from_secs(2)), "the header is nearer");
    let error = reply([minute]).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ModelErrorKind::RateLimited, later), "in the stream: {error}");
    for hostile in ["-1s", "NaNs", "soon", "1e400s", ""] {
        let body = json!({"error": {"code": 429, "message": "No.", "details": [{"retryDelay": hostile}, 7, {"violations": 8}]}});
        assert_eq!(failure("429 Too Many Requests", body).await.retry, Retry::Now, "{hostile}");
    }
    let far = json!({"error": {"code": 429, "message": "No.", "details": [{"retryDelay": "86400s"}]}});
    assert_eq!(failure("429 Too Many Requests", far).await.retry, Retry::After(Duration::from_secs(300)));
}

#[tokio::test]
async fn a_quota_of_a_day_is_not_asked_for_again() {
    let error =
        failure("429 Too Many Requests", exhausted("GenerateRequestsPerDayPerProjectPerModel-FreeTier"))
            .await;
    assert_eq!((error.kind, error.retry), (ModelErrorKind::Refused, Retry::Never));
    assert!(error.message.ends_with("check the account's plan and balance"), "{error}");
}

#[tokio::test]
async fn errors_are_what_the_reference_says() {
    let body = |code: u16, status: &str, message: &str| json!({"error": {"code": code, "message": message, "status": status}});
    for (status, body, kind, words) in [
        (
            "503 Service Unavailable",
            body(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
            ModelErrorKind::Unavailable,
            "The model is overloaded.",
        ),
        (
            "504 Gateway Timeout",
            body(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
            ModelErrorKind::Protocol,
            "Deadline expired",
        ),
        (
            "400 Bad Request",
            body(
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ),
            ModelErrorKind::LimitExceeded,
            "send less",
        ),
        (
            "400 Bad Request",
            body(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
            ModelErrorKind::Refused,
            "check the model's name, its settings and `extra`",
        ),
        (
            "404 Not Found",
            body(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta"),
            ModelErrorKind::Refused,
            "check the model's name and its `base_url`",
        ),
    ] {
        let error = failure(status, body).await;
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

/// A wrong key is a bad request at this provider.
#[tokio::test]
async fn a_key_that_it_refuses_is_exchanged_once() {
    let wrong = |key: &str| {
        let details = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]);
        let message = format!("API key not valid: {key}. Please pass a valid API key.");
        let error =
            json!({"code": 400, "message": message, "status": "INVALID_ARGUMENT", "details": details});
        Answer::failure("400 Bad Request", &json!({"error": error}).to_string())
    };
    let error = ask(WIRE, &plain(json!([])), wrong(KEY)).await.1.unwrap_err();
    assert_eq!((error.kind, error.retry), (ModelErrorKind::Refused, Retry::Never));
    assert!(error.message.contains("not valid: [secret]. Please"), "{error}");
    assert!(error.message.ends_with("; check the model's key, and that it may use this model"), "{error}");

    /// A key with another one behind it.
    struct Two;
    #[async_trait::async_trait]
    impl dalsegno_secrets::Reveal for Two {
        async fn reveal(&self) -> Result<Secret, dalsegno_secrets::RevealError> {
            Ok(Secret::new("key-of-today-1"))
        }

        async fn renew(&self, _: &Secret) -> Result<Option<Secret>, dalsegno_secrets::RevealError> {
            Ok(Some(Secret::new("key-of-today-2")))
        }
    }
    let double =
        Double::start([wrong("key-of-today-1"), Answer::events(crate::requests::hello(WIRE), 64)]).await;
    let model = HttpModel::new(settings(WIRE, &double), Some(Arc::new(Two))).unwrap();
    assert_eq!(model.complete(&plain(json!([])), &()).await.unwrap().text(), "Hello");
    let shown: Vec<String> =
        double.received().iter().map(|sent| sent.headers["x-goog-api-key"].clone()).collect();
    assert_eq!(shown, ["key-of-today-1", "key-of-today-2"]);
}

/// Halves of a character, and names that no wire of Gemini takes.
#[tokio::test]
async fn a_character_in_two_halves_is_whole_and_a_strange_name_is_mended() {
    let halves = r#"data: {"candidates":[{"content":{"parts":[{"text":"a\ud83e"}]}}]}

data: {"candidates":[{"content":{"parts":[{"text":"\udd80b"}]},"finishReason":"STOP"}]}

"#;
    for size in [1, 7, 4096] {
        let reply = ask(WIRE, &plain(json!([])), Answer::events(halves, size)).await.1.unwrap();
        assert_eq!(reply.text(), "a🦀b");
    }
    let entries = json!([
        {"user": "hi"},
        {"assistant": {"parts": [{"call": {"call_id": "toolu_1", "name": "1 löschen", "arguments": "{}"}}], "stop": "tool_calls"}},
        {"tool_result": {"call_id": "toolu_1", "name": "1 löschen", "content": "no such tool", "is_error": true}},
    ]);
    let body = sent(WIRE, &with_tools(entries)).await;
    assert_eq!(body["contents"][1]["parts"][0], call("toolu_1", "_1_l_schen", json!({})));
    assert_eq!(body["contents"][2]["parts"][0]["functionResponse"]["name"], "_1_l_schen");
}
