//! Replies that come later: each wire's batches, as its reference shows them.

use dalsegno_models::{CompletionRequest, HttpModel, Later, LaterError, Model, ModelErrorKind, Wire};
use serde_json::{Value, json};

use crate::double::{Answer, Double, Received};
use crate::requests::{KEY, calls, key, model, sent, settings, with_tools};

const WIRES: [Wire; 4] = [Wire::OpenaiChat, Wire::OpenaiResponses, Wire::Anthropic, Wire::Gemini];

fn ok(body: &Value) -> Answer {
    Answer::failure("200 OK", &body.to_string())
}

fn lines(lines: &[Value]) -> Answer {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Answer::failure("200 OK", &text)
}

fn request() -> CompletionRequest {
    with_tools(json!([{"user": "hi"}]))
}

fn operation() -> String {
    request().operation.to_string()
}

/// A reply with a text and a call, as each wire has it where it does not stream.
fn reply(wire: Wire) -> Value {
    let arguments = json!({"n": 3});
    match wire {
        Wire::OpenaiChat => json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "some-model",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "Grüße 🦀",
                "refusal": null, "tool_calls": [{"id": "call_1", "type": "function",
                    "function": {"name": "risk__score", "arguments": arguments.to_string()}}]}}],
            "usage": {"prompt_tokens": 120, "completion_tokens": 17, "total_tokens": 137,
                "prompt_tokens_details": {"cached_tokens": 64}},
        }),
        Wire::OpenaiResponses => json!({
            "id": "resp_1", "object": "response", "status": "completed", "error": null,
            "output": [
                {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": "Grüße 🦀", "annotations": []}]},
                {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "risk__score",
                    "arguments": arguments.to_string(), "status": "completed"},
            ],
            "usage": {"input_tokens": 120, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 17},
        }),
        Wire::Anthropic => json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "some-model", "stop_sequence": null,
            "content": [{"type": "text", "text": "Grüße 🦀"},
                {"type": "tool_use", "id": "call_1", "name": "risk__score", "input": arguments}],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 56, "cache_read_input_tokens": 64, "output_tokens": 17},
        }),
        Wire::Gemini => json!({
            "candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
                {"text": "Grüße 🦀"}, {"functionCall": {"id": "call_1", "name": "risk__score", "args": arguments}}]}}],
            "usageMetadata": {"promptTokenCount": 120, "candidatesTokenCount": 17, "totalTokenCount": 137,
                "cachedContentTokenCount": 64},
        }),
        Wire::Bedrock => unreachable!("it has no batches"),
    }
}

/// What the provider answers while a batch is made of a request.
fn taken(wire: Wire) -> Vec<Answer> {
    match wire {
        Wire::OpenaiChat | Wire::OpenaiResponses => vec![
            ok(&json!({"object": "list", "data": [], "has_more": false})),
            ok(&json!({"id": "file-1", "object": "file", "purpose": "batch"})),
            ok(&json!({"id": "batch_1", "object": "batch", "status": "validating"})),
        ],
        Wire::Anthropic => vec![ok(&json!({"id": "msgbatch_1", "processing_status": "in_progress"}))],
        Wire::Gemini => vec![
            ok(&json!({})),
            ok(&json!({"name": "batches/1", "metadata": {"state": "BATCH_STATE_PENDING"}})),
        ],
        Wire::Bedrock => unreachable!("it has no batches"),
    }
}

fn id(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenaiChat | Wire::OpenaiResponses => "batch_1",
        Wire::Anthropic => "msgbatch_1",
        Wire::Gemini => "batches/1",
        Wire::Bedrock => unreachable!("it has no batches"),
    }
}

/// What it answers about a batch that it works on.
fn working(wire: Wire) -> Answer {
    ok(&match wire {
        Wire::OpenaiChat | Wire::OpenaiResponses => json!({"id": "batch_1", "status": "in_progress"}),
        Wire::Anthropic => {
            json!({"id": "msgbatch_1", "processing_status": "in_progress", "results_url": null})
        }
        Wire::Gemini => json!({"name": "batches/1", "metadata": {"state": "BATCH_STATE_RUNNING"}}),
        Wire::Bedrock => unreachable!("it has no batches"),
    })
}

/// What it answers about one that it has worked off; an answer to the request is a reply, or an error in its words.
fn done(wire: Wire, answer: Result<Value, Value>) -> Vec<Answer> {
    match wire {
        Wire::OpenaiChat | Wire::OpenaiResponses => {
            let (field, status, body) = match answer {
                Ok(body) => ("output_file_id", 200, body),
                Err(error) => ("error_file_id", 400, json!({"error": error})),
            };
            let other = json!({"id": "x", "custom_id": "another", "response": {"status_code": 200, "body": {}}, "error": null});
            let line = json!({"id": "batch_req_1", "custom_id": operation(),
                "response": {"status_code": status, "request_id": "req_1", "body": body}, "error": null});
            let mut batch = json!({"id": "batch_1", "status": "completed", "output_file_id": null, "error_file_id": null});
            batch[field] = json!("file-2");
            vec![ok(&batch), lines(&[other, line])]
        }
        Wire::Anthropic => {
            let result = match answer {
                Ok(message) => json!({"type": "succeeded", "message": message}),
                Err(error) => json!({"type": "errored", "error": {"type": "error", "error": error}}),
            };
            vec![
                ok(
                    &json!({"id": "msgbatch_1", "processing_status": "ended", "results_url": "https://elsewhere.example/r"}),
                ),
                lines(&[json!({"custom_id": operation(), "result": result})]),
            ]
        }
        Wire::Gemini => {
            let one = match answer {
                Ok(response) => json!({"response": response, "metadata": {"key": operation()}}),
                Err(error) => json!({"error": error}),
            };
            vec![ok(&json!({"name": "batches/1", "done": true,
                "metadata": {"state": "BATCH_STATE_SUCCEEDED", "output": {"inlinedResponses": {"inlinedResponses": [one]}}}}))]
        }
        Wire::Bedrock => unreachable!("it has no batches"),
    }
}

fn later(model: &HttpModel) -> &dyn Later {
    model.later().unwrap()
}

/// The body of the one request, without what is around it; and the address that it is for.
fn inner(wire: Wire, received: &[Received]) -> Value {
    match wire {
        Wire::OpenaiChat | Wire::OpenaiResponses => {
            let upload = &received[1];
            assert!(upload.headers["content-type"].starts_with("multipart/form-data; boundary="));
            assert!(upload.text.contains("name=\"purpose\"\r\n\r\nbatch\r\n"), "{}", upload.text);
            let line = upload.text.lines().find(|line| line.starts_with('{')).unwrap();
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&line["custom_id"], &line["method"]), (&json!(operation()), &json!("POST")));
            let batch = &received[2].body;
            assert_eq!(batch["input_file_id"], "file-1");
            assert_eq!(batch["endpoint"], line["url"]);
            assert_eq!(batch["metadata"]["dalsegno_operation"], json!(operation()));
            line["body"].clone()
        }
        Wire::Anthropic => {
            assert_eq!(received[0].body["requests"][0]["custom_id"], json!(operation()));
            received[0].body["requests"][0]["params"].clone()
        }
        Wire::Gemini => {
            let batch = &received[1].body["batch"];
            assert_eq!(batch["displayName"], json!(operation()));
            batch["inputConfig"]["requests"]["requests"][0]["request"].clone()
        }
        Wire::Bedrock => unreachable!("it has no batches"),
    }
}

#[tokio::test]
async fn a_batch_carries_the_request_and_brings_the_reply() {
    for wire in WIRES {
        let answers = taken(wire).into_iter().chain([working(wire)]).chain(done(wire, Ok(reply(wire))));
        let double = Double::start(answers).await;
        let model = model(wire, &double);
        let request = request();
        assert_eq!(later(&model).submit(&request).await.unwrap(), id(wire), "{wire}");
        assert_eq!(later(&model).collect(&request, id(wire)).await.unwrap(), None, "{wire}");
        let found = later(&model).collect(&request, id(wire)).await.unwrap().unwrap();
        assert_eq!(found.text(), "Grüße 🦀", "{wire}");
        assert_eq!((found.input_tokens, found.output_tokens), (120, 17), "{wire}");
        assert_eq!(found.details.cached_input_tokens, 64, "{wire}");
        let called = calls(&found);
        assert_eq!(
            (called[0].call_id.as_str(), called[0].name.as_str()),
            ("call_1", "risk__score"),
            "{wire}"
        );
        let received = double.received();
        // Each request carries the key, in its header alone, and goes to the endpoint of the settings.
        for request in &received {
            assert_eq!(
                request.headers.values().filter(|value| value.contains(KEY)).count(),
                1,
                "{request:?}"
            );
            assert!(!request.line.contains(KEY) && !request.text.contains(KEY), "{request:?}");
        }
        // What is asked is what a stream would have been asked, but for the stream.
        let mut plain = sent(wire, &request).await;
        for field in ["stream", "stream_options"] {
            plain.as_object_mut().unwrap().remove(field);
        }
        assert_eq!(inner(wire, &received), plain, "{wire}");
    }
}

#[tokio::test]
async fn a_batch_that_is_worked_on_already_is_found_again() {
    let chat = json!({"data": [
        {"id": "batch_0", "status": "failed", "metadata": {"dalsegno_operation": operation()}},
        {"id": "batch_8", "status": "in_progress", "metadata": {"dalsegno_operation": "another"}},
        {"id": "batch_9", "status": "in_progress", "metadata": {"dalsegno_operation": operation()}},
    ]});
    let gemini = json!({"operations": [
        {"name": "batches/0", "metadata": {"displayName": operation(), "state": "BATCH_STATE_CANCELLED"}},
        {"name": "batches/9", "metadata": {"displayName": operation(), "state": "BATCH_STATE_RUNNING"}},
    ]});
    for (wire, listed, found) in [
        (Wire::OpenaiChat, chat.clone(), "batch_9"),
        (Wire::OpenaiResponses, chat, "batch_9"),
        (Wire::Gemini, gemini, "batches/9"),
    ] {
        let double = Double::start([ok(&listed)]).await;
        assert_eq!(later(&model(wire, &double)).submit(&request()).await.unwrap(), found);
    }
}

#[tokio::test]
async fn an_error_of_the_request_is_the_end_of_it() {
    for wire in WIRES {
        let error =
            json!({"type": "invalid_request_error", "code": 400, "message": format!("no such tool {KEY}")});
        let double = Double::start(done(wire, Err(error))).await;
        let failed = later(&model(wire, &double)).collect(&request(), id(wire)).await.unwrap_err();
        let LaterError::Ended(error) = failed else { panic!("{wire}: {failed:?}") };
        assert!(error.message.contains("no such tool") && !error.message.contains(KEY), "{wire}: {error:?}");
    }
}

#[tokio::test]
async fn a_batch_that_expired_may_be_tried_again_and_one_that_was_cancelled_not() {
    let ends = |wire: Wire, expired: bool| match wire {
        Wire::OpenaiChat | Wire::OpenaiResponses => {
            vec![ok(&json!({"id": "batch_1", "status": if expired { "expired" } else { "cancelled" }}))]
        }
        Wire::Anthropic => vec![
            ok(&json!({"id": "msgbatch_1", "processing_status": "ended"})),
            lines(&[
                json!({"custom_id": operation(), "result": {"type": if expired { "expired" } else { "canceled" }}}),
            ]),
        ],
        Wire::Gemini => {
            let state = if expired { "BATCH_STATE_EXPIRED" } else { "BATCH_STATE_CANCELLED" };
            vec![ok(&json!({"name": "batches/1", "metadata": {"state": state}}))]
        }
        Wire::Bedrock => unreachable!("it has no batches"),
    };
    for wire in WIRES {
        for (expired, kind) in [(true, ModelErrorKind::Unavailable), (false, ModelErrorKind::Refused)] {
            let double = Double::start(ends(wire, expired)).await;
            let failed = later(&model(wire, &double)).collect(&request(), id(wire)).await.unwrap_err();
            let LaterError::Ended(error) = failed else { panic!("{wire}: {failed:?}") };
            assert_eq!(error.kind, kind, "{wire}: {error:?}");
        }
    }
}

#[tokio::test]
async fn a_batch_that_the_provider_does_not_take_says_why() {
    let batch = json!({"id": "batch_1", "status": "failed", "errors": {"object": "list", "data": [
        {"code": "model_not_found", "message": "The provided model is not supported by the Batch API.", "param": "body.model", "line": 1}]}});
    let double = Double::start([ok(&batch)]).await;
    let failed = later(&model(Wire::OpenaiChat, &double)).collect(&request(), "batch_1").await.unwrap_err();
    let LaterError::Ended(error) = failed else { panic!("{failed:?}") };
    assert_eq!(error.kind, ModelErrorKind::Refused);
    assert!(error.message.contains("not supported by the Batch API"), "{error:?}");
    let full = json!({"id": "batch_1", "status": "failed", "errors": {"data": [
        {"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}]}});
    let double = Double::start([ok(&full)]).await;
    let failed = later(&model(Wire::OpenaiChat, &double)).collect(&request(), "batch_1").await.unwrap_err();
    let LaterError::Ended(error) = failed else { panic!("{failed:?}") };
    assert_eq!(error.kind, ModelErrorKind::RateLimited, "the queue has room again later");
}

#[tokio::test]
async fn what_is_no_answer_leaves_the_batch_as_it_is() {
    for wire in WIRES {
        for answer in [
            Answer::failure("503 Service Unavailable", "{}"),
            Answer::failure("429 Too Many Requests", "{}"),
            // A key may be renewed, and a gateway may err.
            Answer::failure("401 Unauthorized", "{}"),
            Answer::failure("403 Forbidden", "{}"),
            Answer::failure("404 Not Found", "{}"),
            Answer::failure("200 OK", "<html>"),
            Answer::failure("200 OK", "{\"status\": 7}"),
        ] {
            let double = Double::start([answer]).await;
            let failed = later(&model(wire, &double)).collect(&request(), id(wire)).await.unwrap_err();
            assert!(matches!(failed, LaterError::NotNow(_)), "{wire}: {failed:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_is_bounded_before_it_is_kept() {
    for wire in WIRES {
        let double = Double::start([Answer::failure("200 OK", &" ".repeat(4_096))]).await;
        let settings =
            dalsegno_models::HttpModelSettings { max_response_bytes: 1_024, ..settings(wire, &double) };
        let model = HttpModel::new(settings, key()).unwrap();
        let failed = later(&model).collect(&request(), id(wire)).await.unwrap_err();
        let LaterError::Ended(error) = failed else { panic!("{wire}: {failed:?}") };
        assert_eq!(error.kind, ModelErrorKind::LimitExceeded, "{wire}");
    }
}

#[tokio::test]
async fn a_batch_is_cancelled_where_it_is() {
    let lines = [
        (Wire::OpenaiChat, "POST /v1/batches/batch_1/cancel"),
        (Wire::OpenaiResponses, "POST /v1/batches/batch_1/cancel"),
        (Wire::Anthropic, "POST /v1/messages/batches/msgbatch_1/cancel"),
        (Wire::Gemini, "POST /v1beta/batches/1:cancel"),
    ];
    for (wire, line) in lines {
        let double = Double::start([ok(&json!({}))]).await;
        later(&model(wire, &double)).cancel(id(wire)).await.unwrap();
        assert!(double.only().line.starts_with(line), "{}", double.only().line);
    }
}

#[tokio::test]
async fn an_id_stays_one_part_of_an_address() {
    let double = Double::start([Answer::failure("404 Not Found", "{}")]).await;
    let hostile = "../files?x=1#y";
    let failed = later(&model(Wire::OpenaiChat, &double)).collect(&request(), hostile).await;
    assert!(failed.is_err());
    assert!(
        double.only().line.starts_with("GET /v1/batches/..%2Ffiles%3Fx=1%23y "),
        "{}",
        double.only().line
    );
    for id in ["batches/1/2", "files/1", "batches/"] {
        let double = Double::start([]).await;
        let failed = later(&model(Wire::Gemini, &double)).collect(&request(), id).await;
        assert!(matches!(failed, Err(LaterError::NotNow(_))), "{failed:?}");
        assert!(double.received().is_empty());
    }
}

#[tokio::test]
async fn a_wire_without_batches_says_so_by_having_no_later() {
    let double = Double::start([]).await;
    let mut settings = settings(Wire::Bedrock, &double);
    settings.region = Some("eu-central-1".to_owned());
    assert!(HttpModel::new(settings, key()).unwrap().later().is_none());
}
