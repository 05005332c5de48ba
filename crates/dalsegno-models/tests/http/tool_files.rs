//! Files that tools return: where they stand over each wire, in the forms that the providers document.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{Digest, ModelReply};
use dalsegno_models::{CompletionRequest, HttpModel, HttpModelSettings, Model, ModelError, ToolFiles, Wire};
use serde_json::{Value, json};

use crate::double::{Answer, Double};
use crate::requests::{hello, key, plain, sent, settings};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const PNG_BASE64: &str = "iVBORw0KGgo=";
const JPEG: &[u8] = b"\xff\xd8\xff\xe0";
const JPEG_BASE64: &str = "/9j/4A==";
const PDF: &[u8] = b"%PDF-1.7";
const PDF_BASE64: &str = "JVBERi0xLjc=";
const WAV: &[u8] = b"RIFF\x24\0\0\0WAVE";
const WAV_BASE64: &str = "UklGRiQAAABXQVZF";

type File = (&'static str, &'static str, &'static [u8]);

const SHOT: File = ("image.png", "image/png", PNG);
const PHOTO: File = ("photo.jpeg", "image/jpeg", JPEG);
const PAPER: File = ("paper.pdf", "application/pdf", PDF);
const SOUND: File = ("audio.wav", "audio/wav", WAV);

fn digest(bytes: &[u8]) -> Digest {
    dalsegno_core::digest_json(&json!(bytes))
}

fn named(files: &[File]) -> Value {
    let file = |(name, media_type, bytes): &File| json!({"name": name, "media_type": media_type, "digest": digest(bytes), "bytes": bytes.len()});
    files.iter().map(file).collect()
}

fn result(id: &str, name: &str, content: &str, files: &[File]) -> Value {
    let mut result = json!({"call_id": id, "name": name, "content": content, "is_error": false});
    if !files.is_empty() {
        result["files"] = named(files);
    }
    json!({"tool_result": result})
}

/// A conversation of two calls, the results of which have these files, with what comes behind them.
fn looked(first: &[File], second: &[File], behind: Value) -> CompletionRequest {
    let call = |id: &str, name: &str| json!({"call": {"call_id": id, "name": name, "arguments": "{}"}});
    let calls = json!([call("c1", "shot"), call("c2", "plot")]);
    let mut entries = vec![
        json!({"user": "Look."}),
        json!({"assistant": {"parts": calls, "stop": "tool_calls"}}),
        result("c1", "shot", "one", first),
        result("c2", "plot", "two", second),
    ];
    entries.extend(behind.as_array().unwrap().iter().cloned());
    let mut request = plain(Value::Array(entries));
    let files = [SHOT, PHOTO, PAPER, SOUND].map(|(_, _, bytes)| (digest(bytes), Arc::from(bytes)));
    request.attachments = Arc::new(BTreeMap::from(files));
    request
}

/// A model of this name over a wire, and what it is sent.
async fn sent_to(wire: Wire, name: &str, request: &CompletionRequest) -> Value {
    with(wire, request, |settings| name.clone_into(&mut settings.model)).await
}

async fn with(wire: Wire, request: &CompletionRequest, change: impl FnOnce(&mut HttpModelSettings)) -> Value {
    let double = Double::start([Answer::of(wire, hello(wire), 4096)]).await;
    let mut settings = settings(wire, &double);
    change(&mut settings);
    HttpModel::new(settings, key()).unwrap().complete(request, &()).await.unwrap();
    double.only().body
}

#[tokio::test]
async fn over_chat_they_follow_all_results_as_a_message_of_the_user() {
    let request = looked(&[SHOT, PAPER, SOUND], &[PHOTO], json!([]));
    let body = sent(Wire::OpenaiChat, &request).await;
    let image = |url: String| json!({"type": "image_url", "image_url": {"url": url}});
    let expected = json!([
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "user", "content": [
            {"type": "text", "text": "[Files that `shot` returned to the call c1]"},
            image(format!("data:image/png;base64,{PNG_BASE64}")),
            {"type": "file", "file": {
                "filename": "paper.pdf", "file_data": format!("data:application/pdf;base64,{PDF_BASE64}")
            }},
            {"type": "input_audio", "input_audio": {"data": WAV_BASE64, "format": "wav"}},
            {"type": "text", "text": "[Files that `plot` returned to the call c2]"},
            image(format!("data:image/jpeg;base64,{JPEG_BASE64}")),
        ]},
    ]);
    assert_eq!(body["messages"].as_array().unwrap()[2..], expected.as_array().unwrap()[..]);
    // The same place when the conversation continues.
    let more = looked(
        &[SHOT, PAPER, SOUND],
        &[PHOTO],
        json!([{"assistant": {"parts": [{"text": "Seen."}], "stop": "end"}}, {"user": "And?"}]),
    );
    let later = sent(Wire::OpenaiChat, &more).await;
    let before = body["messages"].as_array().unwrap();
    assert_eq!(later["messages"].as_array().unwrap()[..before.len()], before[..]);
    assert_eq!(later["messages"].as_array().unwrap().len(), before.len() + 2);
}

#[tokio::test]
async fn mistral_takes_images_in_results_and_nothing_behind_them() {
    let request = looked(&[SHOT, PAPER], &[], json!([]));
    let body = sent_to(Wire::OpenaiChat, "mistral-medium-latest", &request).await;
    let expected = json!([
        {"role": "tool", "tool_call_id": "c1", "content": [
            {"type": "text", "text": "one"},
            {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG_BASE64}")}},
        ]},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
    ]);
    assert_eq!(body["messages"].as_array().unwrap()[2..], expected.as_array().unwrap()[..]);
}

#[tokio::test]
async fn over_responses_they_stand_in_the_output() {
    let request = looked(&[SHOT, PAPER, SOUND], &[], json!([]));
    let body = sent(Wire::OpenaiResponses, &request).await;
    let expected = json!([
        {"type": "function_call_output", "call_id": "c1", "output": [
            {"type": "input_text", "text": "one"},
            {"type": "input_image", "detail": "auto", "image_url": format!("data:image/png;base64,{PNG_BASE64}")},
            {"type": "input_file", "filename": "paper.pdf",
             "file_data": format!("data:application/pdf;base64,{PDF_BASE64}")},
        ]},
        {"type": "function_call_output", "call_id": "c2", "output": "two"},
    ]);
    assert_eq!(body["input"].as_array().unwrap()[3..], expected.as_array().unwrap()[..]);
}

#[tokio::test]
async fn over_anthropic_they_stand_in_the_result() {
    let request = looked(&[SHOT, PAPER, SOUND], &[], json!([]));
    let body = with(Wire::Anthropic, &request, |settings| settings.cache = dalsegno_models::Cache::Off).await;
    let source = |kind: &str, data: &str| json!({"type": "base64", "media_type": kind, "data": data});
    let expected = json!([
        {"type": "tool_result", "tool_use_id": "c1", "content": [
            {"type": "text", "text": "one"},
            {"type": "image", "source": source("image/png", PNG_BASE64)},
            {"type": "document", "source": source("application/pdf", PDF_BASE64), "title": "paper.pdf"},
        ]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "two"},
    ]);
    assert_eq!(body["messages"][2], json!({"role": "user", "content": expected}));
    // The wire refuses blank text.
    let mut request = looked(&[SHOT], &[], json!([]));
    let entries: Vec<Value> = request.transcript.iter().map(|entry| json!(entry)).collect();
    let mut entries = json!(entries);
    entries[2]["tool_result"]["content"] = json!(" ");
    request.transcript = crate::requests::transcript(entries);
    let body = sent(Wire::Anthropic, &request).await;
    let content = &body["messages"][2]["content"][0]["content"];
    assert_eq!(content, &json!([{"type": "image", "source": source("image/png", PNG_BASE64)}]));
}

#[tokio::test]
async fn over_gemini_they_stand_in_the_result_since_its_third_generation_and_behind_all_results_before() {
    let request = looked(&[SHOT, PAPER, SOUND], &[PHOTO], json!([]));
    let inline = |kind: &str, data: &str| json!({"inlineData": {"mimeType": kind, "data": data}});
    let response =
        |id: &str, name: &str, said: &str| json!({"id": id, "name": name, "response": {"output": said}});
    let body = sent_to(Wire::Gemini, "gemini-3-flash-preview", &request).await;
    let mut first = response("c1", "shot", "one");
    first["parts"] = json!([inline("image/png", PNG_BASE64), inline("application/pdf", PDF_BASE64)]);
    let mut second = response("c2", "plot", "two");
    second["parts"] = json!([inline("image/jpeg", JPEG_BASE64)]);
    let expected = json!([
        {"functionResponse": first},
        {"functionResponse": second},
        {"text": "[Files that `shot` returned to the call c1]"},
        inline("audio/wav", WAV_BASE64),
    ]);
    assert_eq!(body["contents"][2], json!({"role": "user", "parts": expected}));
    let body = sent_to(Wire::Gemini, "gemini-2.5-pro", &request).await;
    let expected = json!([
        {"functionResponse": response("c1", "shot", "one")},
        {"functionResponse": response("c2", "plot", "two")},
        {"text": "[Files that `shot` returned to the call c1]"},
        inline("image/png", PNG_BASE64),
        inline("application/pdf", PDF_BASE64),
        inline("audio/wav", WAV_BASE64),
        {"text": "[Files that `plot` returned to the call c2]"},
        inline("image/jpeg", JPEG_BASE64),
    ]);
    assert_eq!(body["contents"][2], json!({"role": "user", "parts": expected}));
}

#[tokio::test]
async fn over_bedrock_they_stand_in_the_result_for_claude_and_nova_and_behind_all_results_for_others() {
    let request = looked(&[SHOT, PAPER, SOUND], &[PHOTO], json!([]));
    let image = |format: &str, data: &str| json!({"image": {"format": format, "source": {"bytes": data}}});
    let paper = json!({"document": {"format": "pdf", "name": "paper pdf", "source": {"bytes": PDF_BASE64}}});
    let found = |id: &str, content: Value| json!({"toolResult": {"toolUseId": id, "content": content}});
    for model in ["eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-pro-v1:0"] {
        let body = with(Wire::Bedrock, &request, |settings| {
            model.clone_into(&mut settings.model);
            settings.cache = dalsegno_models::Cache::Off;
        });
        let expected = json!([
            found("c1", json!([{"text": "one"}, image("png", PNG_BASE64), paper.clone()])),
            found("c2", json!([{"text": "two"}, image("jpeg", JPEG_BASE64)])),
            {"text": "[Files that `shot` returned to the call c1]"},
            {"audio": {"format": "wav", "source": {"bytes": WAV_BASE64}}},
        ]);
        assert_eq!(body.await["messages"][2], json!({"role": "user", "content": expected}), "{model}");
    }
    let body = sent_to(Wire::Bedrock, "meta.llama4-maverick-17b-instruct-v1:0", &request).await;
    let expected = json!([
        found("c1", json!([{"text": "one"}])),
        found("c2", json!([{"text": "two"}])),
        {"text": "[Files that `shot` returned to the call c1]"},
        image("png", PNG_BASE64),
        paper,
        {"audio": {"format": "wav", "source": {"bytes": WAV_BASE64}}},
        {"text": "[Files that `plot` returned to the call c2]"},
        image("jpeg", JPEG_BASE64),
    ]);
    assert_eq!(body["messages"][2], json!({"role": "user", "content": expected}));
}

/// The bytes of each file that a body carries, in base64.
fn carried(body: &Value) -> Vec<&'static str> {
    let body = body.to_string();
    [PNG_BASE64, JPEG_BASE64, PDF_BASE64, WAV_BASE64].into_iter().filter(|data| body.contains(data)).collect()
}

#[tokio::test]
async fn what_a_wire_does_not_carry_is_told_in_words_alone() {
    let request = looked(&[SHOT, PHOTO, PAPER, SOUND], &[], json!([]));
    for wire in Wire::ALL {
        let body = sent(wire, &request).await;
        let count = if matches!(wire, Wire::OpenaiResponses | Wire::Anthropic) { 3 } else { 4 };
        assert_eq!(carried(&body).len(), count, "{wire}");
    }
}

#[tokio::test]
async fn the_settings_of_a_model_say_which_files_it_reads() {
    let request = looked(&[SHOT, PAPER, SOUND], &[PHOTO], json!([]));
    let without = looked(&[], &[], json!([]));
    for wire in Wire::ALL {
        let images = with(wire, &request, |settings| settings.tool_files = ToolFiles::Images).await;
        assert_eq!(carried(&images), [PNG_BASE64, JPEG_BASE64], "{wire}");
        let off = with(wire, &request, |settings| settings.tool_files = ToolFiles::Off).await;
        assert_eq!(off, sent(wire, &without).await, "{wire}");
    }
}

#[tokio::test]
async fn a_file_of_the_user_is_sent_though_those_of_tools_are_not() {
    let attachment = &named(&[PHOTO])[0];
    let mut request = looked(&[PHOTO], &[SHOT], json!([{"user": "And this?"}, {"attachment": attachment}]));
    let only = |bytes: &'static [u8]| (digest(bytes), Arc::<[u8]>::from(bytes));
    request.attachments = Arc::new(BTreeMap::from([only(PHOTO.2), only(SHOT.2)]));
    for wire in Wire::ALL {
        let off = with(wire, &request, |settings| settings.tool_files = ToolFiles::Off).await;
        assert_eq!(carried(&off), [JPEG_BASE64], "{wire}");
    }
}

#[tokio::test]
async fn a_file_without_its_bytes_or_with_others_is_told_in_words_alone() {
    let mut lost = looked(&[SHOT], &[], json!([]));
    lost.attachments = Arc::default();
    let mut forged = looked(&[SHOT], &[], json!([]));
    forged.attachments = Arc::new(BTreeMap::from([(digest(PNG), Arc::from(&b"root:x:0:0"[..]))]));
    let without = looked(&[], &[], json!([]));
    for wire in Wire::ALL {
        let expected = sent(wire, &without).await;
        assert_eq!(sent(wire, &lost).await, expected, "{wire}");
        assert_eq!(sent(wire, &forged).await, expected, "{wire}");
    }
}

/// What a model is sent, request by request, and what becomes of it, if the provider answers with these failures first.
async fn after(
    wire: Wire,
    request: &CompletionRequest,
    failures: &[(&str, &str)],
) -> (Vec<Value>, Result<ModelReply, ModelError>) {
    let failures = failures.iter().map(|(status, words)| {
        Answer::failure(status, &json!({"error": {"message": words, "type": "a_type"}}).to_string())
    });
    let double = Double::start(failures.chain([Answer::of(wire, hello(wire), 4096)])).await;
    let model = HttpModel::new(settings(wire, &double), key()).unwrap();
    let reply = model.complete(request, &()).await;
    (double.received().into_iter().map(|received| received.body).collect(), reply)
}

#[tokio::test]
async fn what_a_provider_refuses_for_its_files_is_sent_again_without_them() {
    let (request, without) = (looked(&[SHOT], &[PHOTO], json!([])), looked(&[], &[], json!([])));
    for wire in Wire::ALL {
        let plain = sent(wire, &without).await;
        for (status, words) in [
            ("400 Bad Request", "Could not process image"),
            ("404 Not Found", "No endpoints found that support image input"),
            ("413 Payload Too Large", "too large"),
            ("500 Internal Server Error", "image input is not supported - hint: provide the mmproj"),
        ] {
            let (bodies, reply) = after(wire, &request, &[(status, words)]).await;
            assert_eq!(carried(&bodies[0]).len(), 2, "{wire}, {status}");
            assert_eq!(&bodies[1..], std::slice::from_ref(&plain), "{wire}, {status}");
            assert!(reply.unwrap().without_files, "{wire}, {status}");
        }
        let (bodies, reply) = after(wire, &request, &[]).await;
        assert!(bodies.len() == 1 && !reply.unwrap().without_files, "{wire}");
    }
}

#[tokio::test]
async fn a_request_is_sent_once_where_its_files_are_not_to_blame() {
    let request = looked(&[SHOT], &[], json!([]));
    for wire in Wire::ALL {
        for (status, words) in [
            ("401 Unauthorized", "no such key"),
            ("402 Payment Required", "no money"),
            ("429 Too Many Requests", "slow down"),
            ("400 Bad Request", "prompt is too long"),
            ("500 Internal Server Error", "a failure"),
            ("503 Service Unavailable", "image server overloaded"),
        ] {
            let (bodies, reply) = after(wire, &request, &[(status, words)]).await;
            assert!(bodies.len() == 1 && reply.is_err(), "{wire}, {status}");
        }
        // Without files of tools, nothing can be left out; and the second refusal stands.
        let refusal = ("400 Bad Request", "Could not process image");
        let (bodies, reply) = after(wire, &looked(&[], &[], json!([])), &[refusal]).await;
        assert!(bodies.len() == 1 && reply.is_err(), "{wire}");
        let again = ("400 Bad Request", "no such model");
        let (bodies, reply) = after(wire, &request, &[refusal, again]).await;
        assert!(bodies.len() == 2 && reply.unwrap_err().message.contains("no such model"), "{wire}");
    }
}
