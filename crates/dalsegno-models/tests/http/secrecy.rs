//! The key is in nothing that is told, wherever an endpoint repeats it and however it spells it.

use dalsegno_core::{ModelReply, ReplyPart};
use dalsegno_models::{ModelError, Wire};
use dalsegno_secrets::Secret;
use serde_json::{Value, json};

use crate::double::{Answer, Double};
use crate::requests::{KEY, ask, hello, model, plain};

/// The first part of the key, which a cut in its middle would leave.
const BEGINNING: &str = "sk-ca";

async fn asked(wire: Wire, answer: Answer) -> Result<ModelReply, ModelError> {
    ask(wire, &plain(json!([{"user": "hi"}])), answer).await.1
}

fn error_event(wire: Wire, words: &str) -> String {
    let event = match wire {
        Wire::OpenaiChat => json!({"error": {"type": words, "message": words}}),
        Wire::OpenaiResponses => json!({"type": "error", "code": words, "message": words}),
        Wire::Anthropic => json!({"type": "error", "error": {"type": words, "message": words}}),
        Wire::Gemini => json!({"error": {"code": words, "message": words, "status": words}}),
        Wire::Bedrock => json!({"exception": {"code": words, "said": {"message": words}}}),
    };
    format!("data: {event}\n\n")
}

/// Everything by which an endpoint can say these words in an error.
fn sayings(wire: Wire, words: &str) -> Vec<Answer> {
    let failure = |body: &Value| Answer::failure("400 Bad Request", &body.to_string());
    let page = Answer::failure("200 OK", words).header("content-type", "text/html");
    let item = json!({"type": "message", "content": [{"type": "output_text", "text": [words]}]});
    vec![
        failure(&json!({"error": {"message": words, "code": words}})),
        failure(&json!({"error": words})),
        failure(&json!({"nested": {"words": words}})),
        Answer::failure("400 Bad Request", words),
        Answer::failure("302 Found", "").header("location", format!("https://example.com/{words}")),
        page.clone(),
        page.header("content-type", format!("text/html; {words}")),
        Answer::of(wire, &error_event(wire, words), 64),
        Answer::of(wire, &format!("data: {words}\n\n"), 64),
        Answer::of(
            wire,
            &format!(
                "data: {{\"type\": \"{words}\", \"choices\": \"{words}\", \"candidates\": \"{words}\"}}\n\n"
            ),
            64,
        ),
        Answer::of(
            wire,
            &format!(
                "data: {}\n\n",
                json!({"candidates": [{"finishReason": "OTHER", "finishMessage": words}]})
            ),
            64,
        ),
        Answer::of(
            wire,
            &format!(
                "data: {}\n\ndata: {}\n\n",
                json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
                json!({"type": "response.completed", "response": {}})
            ),
            64,
        ),
    ]
}

#[tokio::test]
async fn a_key_across_a_cut_is_scrubbed_before_it_is_cut() {
    for wire in Wire::ALL {
        for before in (380..520).step_by(12) {
            let words = format!("{}{KEY}{}", "x".repeat(before), "y".repeat(600));
            for answer in sayings(wire, &words) {
                let error = asked(wire, answer.clone()).await.unwrap_err();
                let shown = format!("{error:?}");
                assert!(!shown.contains(BEGINNING), "{wire}, {before}: {shown}");
                assert!(shown.chars().count() < 3000, "{}", shown.len());
            }
        }
    }
}

#[tokio::test]
async fn a_key_is_found_however_it_is_spelled() {
    let escaped: String = KEY.chars().map(|c| format!("\\u{:04X}", u32::from(c))).collect();
    let percent: String = KEY.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mixed = KEY.replacen('-', "%2D", 1).replacen('-', "\\u002d", 1);
    for spelled in [KEY, &escaped, &percent, &mixed] {
        let answer = Answer::failure("400 Bad Request", &format!("Wrong key {spelled}!"));
        let error = asked(Wire::OpenaiChat, answer).await.unwrap_err();
        assert!(error.message.contains("Wrong key [secret]!"), "{error}");
    }
}

#[tokio::test]
async fn a_key_that_the_end_of_what_is_read_cuts_is_scrubbed_as_well() {
    // So long that few of it fill what is read of a failure, and what is left of them is shown.
    let key = format!("sk-canary-{}", "0123456789".repeat(3000));
    for before in [0, 5, 777, 5000] {
        let answer = Answer::failure("400 Bad Request", &format!("{}{key}", "x".repeat(before)).repeat(3));
        let double = Double::start([answer]).await;
        let mut settings = crate::requests::settings(Wire::OpenaiChat, &double);
        settings.model = "m".to_owned();
        let key = std::sync::Arc::new(Secret::new(&key));
        let model = dalsegno_models::HttpModel::new(settings, Some(key)).unwrap();
        let error = dalsegno_models::Model::complete(&model, &plain(json!([])), &()).await.unwrap_err();
        assert!(!error.message.contains(BEGINNING), "{before}: {error}");
    }
}

/// Asks with a key of its own and says what is told of this answer.
async fn told(key: &str, said: &str) -> String {
    let double = Double::start([Answer::failure("400 Bad Request", said)]).await;
    let settings = crate::requests::settings(Wire::OpenaiChat, &double);
    let model =
        dalsegno_models::HttpModel::new(settings, Some(std::sync::Arc::new(Secret::new(key)))).unwrap();
    dalsegno_models::Model::complete(&model, &plain(json!([])), &()).await.unwrap_err().message
}

#[tokio::test]
async fn a_key_that_looks_like_an_escape_is_found_in_every_spelling() {
    for key in [r"sk-%25-canary", r"sk-\\-canary", r"sk-%2525%25-canary", r"\\\u005c\canary", "%%25%canary"] {
        let percent: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let code: String = key.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        let json = serde_json::to_string(key).unwrap();
        let mixed = key.replace('-', "%2d");
        let spellings = [key, &percent, &code, json.trim_matches('"'), &key.replace('%', "%25"), &mixed]
            .map(str::to_owned);
        for spelled in spellings {
            let message = told(key, &format!("Wrong key {spelled}!")).await;
            assert!(message.contains("Wrong key [secret]!"), "{key}, {spelled}: {message}");
            // The same at the end of what is read, cut anywhere after the first few characters of the key.
            for cut in 4 * 6..spelled.len() {
                let message = told(key, &format!("Wrong key {}", &spelled[..cut])).await;
                assert!(message.contains("Wrong key [secret];"), "{key}, {}: {message}", &spelled[..cut]);
            }
        }
    }
}

#[tokio::test]
async fn a_key_that_is_cut_within_an_escape_is_scrubbed_as_well() {
    let key = "sk-canary-12345-tail";
    for rest in ["%", "%3", "\\", "\\u", "\\u0", "\\u00", "\\u003"] {
        let message = told(key, &format!("Wrong key sk-canary-1234{rest}")).await;
        assert!(message.contains("Wrong key [secret];"), "{rest}: {message}");
        let message = told(key, &format!("Wrong key sk-canary-1234%2{rest}")).await;
        assert!(message.contains("sk-canary-1234%2"), "another text: {message}");
    }
    assert!(
        told(key, "Wrong key sk-canary-12345\\").await.contains("Wrong key [secret];"),
        "a dash may follow"
    );
    assert!(told(key, "Wrong key sk-canary-1234\\x").await.contains("sk-canary-1234\\x"), "no escape");
}

/// Signed and encrypted parts go back untouched, or are refused; plain reasoning is text like any other.
#[tokio::test]
async fn plain_reasoning_is_scrubbed() {
    let double = Double::start([Answer::events(
        &hello(Wire::OpenaiChat)
            .replace("\"content\"", &format!("\"reasoning_content\":\"They gave me {KEY}.\",\"content\"")),
        7,
    )])
    .await;
    let model = model(Wire::OpenaiChat, &double);
    let reply = dalsegno_models::Model::complete(&model, &plain(json!([])), &()).await.unwrap();
    let ReplyPart::Opaque { data, .. } = &reply.parts[0] else { panic!("{reply:?}") };
    assert_eq!(*data, json!({"reasoning_content": "They gave me [secret]."}));

    let thought = |text: &str| json!({"text": text, "thought": true});
    let mut signed = thought(&format!("Signed: {KEY}."));
    signed["thoughtSignature"] = json!("EqQ=");
    let thoughts =
        json!({"candidates": [{"content": {"parts": [thought(&format!("They gave me {KEY}.")), signed]}}]});
    let stream = format!("data: {thoughts}\n\n{}", hello(Wire::Gemini));
    let double = Double::start([Answer::events(&stream, 7)]).await;
    let model = crate::requests::model(Wire::Gemini, &double);
    let reply = dalsegno_models::Model::complete(&model, &plain(json!([])), &()).await.unwrap();
    let part = |part: Value| {
        let data = json!({"model": "some-model", "part": part});
        ReplyPart::Opaque { provider: "gemini".to_owned(), data }
    };
    assert_eq!(reply.parts[..2], [part(thought("They gave me [secret].")), part(signed)]);
}
