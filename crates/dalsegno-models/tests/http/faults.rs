//! What goes wrong on each wire, and what the caller is told.

use std::time::{Duration, SystemTime};

use dalsegno_core::{FailureCode, ModelReply};
use dalsegno_models::{HttpModel, HttpModelSettings, Model, ModelError, ModelErrorKind, Retry, Wire};
use dalsegno_secrets::{Reveal, RevealError, Secret};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::double::{Answer, Double, End};
use crate::requests::{KEY, ask, hello, key, model, plain, settings, with_files};

async fn asked(wire: Wire, answer: Answer) -> Result<ModelReply, ModelError> {
    ask(wire, &plain(json!([{"user": "hi"}])), answer).await.1
}

/// Asks a model with smaller bounds.
async fn bounded(
    wire: Wire,
    answer: Answer,
    bound: impl FnOnce(&mut HttpModelSettings),
) -> Result<ModelReply, ModelError> {
    let double = Double::start([answer]).await;
    let mut settings = settings(wire, &double);
    bound(&mut settings);
    HttpModel::new(settings, key()).unwrap().complete(&plain(json!([])), &()).await
}

fn marker(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenaiChat => "[DONE]",
        Wire::OpenaiResponses => "response.completed",
        Wire::Anthropic => "message_stop",
        Wire::Gemini => "finishReason",
        Wire::Bedrock => "messageStop",
    }
}

/// An error in the middle of a stream, as each wire has it.
fn error_event(wire: Wire, code: &str) -> String {
    let error = json!({"type": code, "message": "Overloaded"});
    let event = match wire {
        Wire::OpenaiChat | Wire::Gemini => json!({"error": error}),
        Wire::OpenaiResponses => {
            json!({"type": "error", "code": code, "message": "Overloaded", "param": null})
        }
        Wire::Anthropic => json!({"type": "error", "error": error}),
        Wire::Bedrock => json!({"exception": {"code": code, "said": {"message": "Overloaded"}}}),
    };
    format!("data: {event}\n\n")
}

/// Asserts that a reply failed and how.
fn fails(reply: Result<ModelReply, ModelError>, kind: ModelErrorKind, retry: Retry, words: &str) {
    let error = reply.unwrap_err();
    assert_eq!((error.kind, error.retry), (kind, retry), "{error}");
    assert!(error.message.contains(words), "{:?} lacks {words:?}", error.message);
}

#[tokio::test]
async fn a_stream_that_ends_early_is_not_a_reply() {
    for wire in Wire::ALL {
        let stream = hello(wire);
        // Everything before the event that ends the reply; a lost connection and a body that just ends are alike.
        let ends = stream[..stream.len() - 2].rfind("data: ").unwrap();
        let ends = if wire == Wire::OpenaiChat { stream.find("\n\n").unwrap() - 1 } else { ends };
        for cut in [0, 5, ends / 2, ends] {
            for end in [End::Clean, End::Cut] {
                let answer = Answer::of(wire, &stream[..cut], 16).end(end);
                let words = format!("the stream ended before `{}`", marker(wire));
                fails(asked(wire, answer).await, ModelErrorKind::Protocol, Retry::Now, &words);
            }
        }
    }
}

#[tokio::test]
async fn an_endpoint_that_was_asked_too_often_says_when_to_come_back() {
    let body = json!({"error": {"type": "rate_limit_error", "message": "Slow down."}}).to_string();
    for wire in Wire::ALL {
        let answer = Answer::failure("429 Too Many Requests", &body);
        fails(asked(wire, answer.clone()).await, ModelErrorKind::RateLimited, Retry::Now, "429");
        let later = Retry::After(Duration::from_secs(7));
        let seconds = answer.clone().header("retry-after", "7");
        fails(asked(wire, seconds).await, ModelErrorKind::RateLimited, later, "Slow down.");
        let far = Retry::After(Duration::from_secs(300));
        let hour = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3600));
        let date = answer.header("retry-after", hour);
        fails(asked(wire, date).await, ModelErrorKind::RateLimited, far, "Slow down.");
    }
}

#[tokio::test]
async fn an_endpoint_in_trouble_is_asked_again() {
    for status in
        ["408 Request Timeout", "409 Conflict", "500 Internal Server Error", "503 Busy", "529 Overloaded"]
    {
        for wire in Wire::ALL {
            let answer = Answer::failure(status, "{\"error\":{\"message\":\"It broke.\"}}");
            let code = &status[..3];
            fails(asked(wire, answer.clone()).await, ModelErrorKind::Unavailable, Retry::Now, code);
            let later = answer.header("retry-after", "2");
            let pause = Retry::After(Duration::from_secs(2));
            fails(asked(wire, later).await, ModelErrorKind::Unavailable, pause, "It broke.");
        }
    }
}

#[tokio::test]
async fn a_refusal_is_final_and_says_what_to_check() {
    let cases = [
        ("400 Bad Request", "check the model's name, its settings and `extra`"),
        ("401 Unauthorized", "check the model's key"),
        ("402 Payment Required", "check the account's balance"),
        ("403 Forbidden", "check the model's key"),
        ("404 Not Found", "check the model's name and its `base_url`"),
        ("422 Unprocessable Entity", "check the model's name, its settings and `extra`"),
    ];
    for (status, advice) in cases {
        for wire in Wire::ALL {
            let body = json!({"error": {"message": format!("Wrong: {KEY}")}}).to_string();
            let answer = Answer::failure(status, &body).header("retry-after", "2");
            let reply = asked(wire, answer).await;
            assert!(reply.as_ref().unwrap_err().message.contains("Wrong: [secret]"), "{reply:?}");
            fails(reply, ModelErrorKind::Refused, Retry::Never, advice);
        }
    }
}

#[tokio::test]
async fn an_endpoints_words_are_found_in_any_form_and_bounded() {
    let cases = [
        (json!({"error": {"message": "one"}}).to_string(), "Bad Request: one;"),
        (json!({"error": "two"}).to_string(), "Bad Request: two;"),
        (json!({"message": "three"}).to_string(), "Bad Request: three;"),
        (json!({"detail": "four"}).to_string(), "Bad Request: four;"),
        ("five\u{1b}[2J".to_owned(), "Bad Request: five [2J;"),
        (String::new(), "Bad Request;"),
    ];
    for (body, words) in cases {
        let answer = Answer::failure("400 Bad Request", &body);
        fails(asked(Wire::OpenaiChat, answer).await, ModelErrorKind::Refused, Retry::Never, words);
    }
    let long = asked(Wire::OpenaiChat, Answer::failure("400 Bad Request", &"é".repeat(100_000))).await;
    assert!(long.unwrap_err().message.chars().count() < 800);
}

#[tokio::test]
async fn a_used_up_quota_is_no_reason_to_ask_again() {
    let body = json!({"error": {"message": "No quota.", "code": "insufficient_quota"}}).to_string();
    let answer = Answer::failure("429 Too Many Requests", &body).header("retry-after", "2");
    let words = "check the account's plan and balance";
    fails(asked(Wire::OpenaiChat, answer).await, ModelErrorKind::Refused, Retry::Never, words);
}

#[tokio::test]
async fn an_error_in_the_stream_is_what_it_says() {
    let cases = [
        ("overloaded_error", ModelErrorKind::Protocol),
        ("server_error", ModelErrorKind::Protocol),
        ("rate_limit_error", ModelErrorKind::RateLimited),
        ("429", ModelErrorKind::RateLimited),
        ("502", ModelErrorKind::Protocol),
        ("invalid_request_error", ModelErrorKind::Refused),
        ("context_length_exceeded", ModelErrorKind::LimitExceeded),
        ("insufficient_quota", ModelErrorKind::Refused),
        ("something_new", ModelErrorKind::Protocol),
    ];
    for wire in Wire::ALL {
        for (code, kind) in cases {
            let stream = error_event(wire, code);
            let reply = asked(wire, Answer::of(wire, &stream, 16)).await;
            fails(reply, kind, kind.retry(), &format!("`{code}` in its stream: Overloaded"));
        }
    }
    let error = json!({"code": "server_error", "message": "It broke."});
    let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": error}});
    let reply = asked(Wire::OpenaiResponses, Answer::events(&format!("data: {failed}\n\n"), 16)).await;
    fails(reply, ModelErrorKind::Protocol, Retry::Now, "It broke.");
}

/// A provider that took the request may have worked on it: such a failure is no "cannot be reached", which is free.
#[tokio::test]
async fn an_attempt_that_was_sent_counts_as_paid_for() {
    for wire in Wire::ALL {
        // It hangs up before it answers anything.
        let reply = asked(wire, Answer::bytes(Vec::new()).end(End::HangUp)).await;
        assert_eq!(reply.as_ref().unwrap_err().kind.code(), FailureCode::Protocol);
        fails(reply, ModelErrorKind::Protocol, Retry::Now, "did not answer the request: ");
        // A gateway stops waiting for it.
        for status in ["504 Gateway Timeout", "524 A Timeout Occurred"] {
            let answer = Answer::failure(status, "");
            fails(asked(wire, answer.clone()).await, ModelErrorKind::Protocol, Retry::Now, &status[..3]);
            let (pause, later) = (Retry::After(Duration::from_secs(2)), answer.header("retry-after", "2"));
            fails(asked(wire, later).await, ModelErrorKind::Protocol, pause, &status[..3]);
        }
    }
}

#[tokio::test]
async fn a_reply_over_the_limit_is_refused_while_it_arrives() {
    for wire in Wire::ALL {
        let stream = hello(wire);
        let reply =
            bounded(wire, Answer::of(wire, stream, 64), |settings| settings.max_reply_bytes = 4).await;
        fails(reply, ModelErrorKind::LimitExceeded, Retry::Never, "more than 4 bytes of text");
        let enough =
            bounded(wire, Answer::of(wire, stream, 64), |settings| settings.max_reply_bytes = 5).await;
        assert_eq!(enough.unwrap().text(), "Hello");
    }
}

/// A reply of "Hello" with something opaque of about a thousand bytes.
fn with_opaque(wire: Wire) -> Vec<String> {
    let secret = "s".repeat(1000);
    let before = |stream: &str, marker: &str, event: Value| {
        stream.replacen(marker, &format!("data: {event}\n\n{marker}"), 1)
    };
    let stream = hello(wire);
    match wire {
        Wire::OpenaiChat => {
            let reasoning = json!({"choices": [{"delta": {"reasoning_content": secret}}]});
            let function = json!({"name": "x", "arguments": "{}"});
            let call =
                json!({"index": 0, "id": "c", "function": function, "extra_content": {"sign": secret}});
            let call = json!({"choices": [{"delta": {"tool_calls": [call]}}]});
            vec![before(stream, "data: {", reasoning), before(stream, "data: {", call)]
        }
        Wire::OpenaiResponses => {
            let item = json!({"type": "reasoning", "encrypted_content": secret});
            let done = json!({"type": "response.output_item.done", "output_index": 1, "item": item});
            let hello = json!({"type": "message", "content": [{"type": "output_text", "text": "Hello"}]});
            let end = json!({"type": "response.completed", "response": {"output": [item, hello]}});
            let delta = json!({"type": "response.output_text.delta", "delta": "Hello"});
            vec![before(stream, "data: {", done), format!("data: {delta}\n\ndata: {end}\n\n")]
        }
        Wire::Anthropic => {
            let start =
                |block: Value| json!({"type": "content_block_start", "index": 1, "content_block": block});
            let marker = "data: {\"type\":\"message_delta\"";
            let kinds = [
                json!({"type": "redacted_thinking", "data": secret}),
                json!({"type": "thinking", "thinking": "", "signature": secret}),
                json!({"type": "something_new", "content": {"deep": [secret]}}),
            ];
            kinds.into_iter().map(|block| before(stream, marker, start(block))).collect()
        }
        Wire::Gemini => {
            let call = json!({"functionCall": {"name": "x", "args": {}}, "thoughtSignature": secret});
            let kinds = [
                json!({"text": secret, "thought": true}),
                json!({"text": "", "thoughtSignature": secret}),
                json!({"executableCode": {"code": secret}}),
                call,
            ];
            let part = |part: Value| json!({"candidates": [{"content": {"parts": [part]}}]});
            kinds.into_iter().map(|kind| before(stream, "data: {", part(kind))).collect()
        }
        Wire::Bedrock => {
            let delta = |delta: Value| json!({"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"reasoningContent": delta}}});
            let kinds =
                [json!({"redactedContent": secret}), json!({"signature": secret}), json!({"text": secret})];
            let marker = "data: {\"messageStop\"";
            kinds.into_iter().map(|kind| before(stream, marker, delta(kind))).collect()
        }
    }
}

#[tokio::test]
async fn opaque_parts_count_like_words() {
    for wire in Wire::ALL {
        for stream in with_opaque(wire) {
            let answer = Answer::of(wire, &stream, 4096);
            let reply = bounded(wire, answer.clone(), |settings| settings.max_reply_bytes = 1000).await;
            fails(reply, ModelErrorKind::LimitExceeded, Retry::Never, "more than 1000 bytes");
            let reply = bounded(wire, answer, |settings| settings.max_reply_bytes = 1200).await.unwrap();
            assert_eq!((reply.text().as_str(), reply.parts.len() > 1), ("Hello", true), "{wire}");
        }
    }
}

#[tokio::test]
async fn endless_streams_end_at_the_limit() {
    let endless_line = format!("data: {}", "a".repeat(60_000));
    let endless_comments = ": hm\n".repeat(10_000);
    let endless_events = "data: {\"type\":\"ping\",\"choices\":[]}\n\n".repeat(1000);
    let endless_frame = [&(16_u32 << 20).to_be_bytes()[..], &[0; 4], &[0; 60_000]].concat();
    let endless_frames = crate::frames::event("somethingNew", "{}").repeat(1000);
    let texts = [endless_line, endless_comments, endless_events];
    for wire in Wire::ALL {
        let answers: Vec<Answer> = match wire {
            Wire::Bedrock => {
                [&endless_frame, &endless_frames].map(|bytes| Answer::frames(bytes.clone())).into()
            }
            _ => texts.iter().map(|text| Answer::events(text, text.len())).collect(),
        };
        for answer in answers {
            let answer = answer.end(End::Flood);
            let reply = bounded(wire, answer, |settings| settings.max_response_bytes = 1 << 20).await;
            fails(reply, ModelErrorKind::LimitExceeded, Retry::Never, "more than 1048576 bytes");
        }
    }
}

#[tokio::test]
async fn an_endless_failure_is_not_read_to_its_end() {
    for status in ["500 Internal Server Error", "200 OK"] {
        let answer = Answer::failure(status, &"a".repeat(50_000)).end(End::Flood);
        assert!(asked(Wire::OpenaiChat, answer).await.is_err());
    }
}

#[tokio::test]
async fn garbage_is_not_a_reply() {
    for wire in Wire::ALL {
        for garbage in [
            "data: {\"choices\"\n\n",
            "data: [1, 2]\n\n",
            "data: {\"type\": 7, \"choices\": 8, \"candidates\": 9}\n\n",
        ] {
            let reply = asked(wire, Answer::of(wire, garbage, 5)).await;
            fails(reply, ModelErrorKind::Protocol, Retry::Now, &format!("the wire `{wire}` does not have"));
        }
        let text = hello(wire).as_bytes().to_vec();
        let mut stream = if wire == Wire::Bedrock { crate::frames::of_text(hello(wire)) } else { text };
        let at = stream.iter().position(|byte| *byte == b'H').unwrap();
        stream[at] = 0xff;
        let reply = asked(wire, Answer::bytes(stream)).await;
        fails(reply, ModelErrorKind::Protocol, Retry::Now, "not a stream of events");
    }
}

#[tokio::test]
async fn a_hostile_index_is_refused() {
    let call = json!({"index": usize::MAX, "id": "x", "function": {"name": "y", "arguments": ""}});
    let chunk = json!({"choices": [{"delta": {"tool_calls": [call]}}]});
    let reply = asked(Wire::OpenaiChat, Answer::events(&format!("data: {chunk}\n\n"), 64)).await;
    fails(reply, ModelErrorKind::Protocol, Retry::Now, "at most 256 calls");
    let delta =
        json!({"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "x"}});
    let reply = asked(Wire::Anthropic, Answer::events(&format!("data: {delta}\n\n"), 64)).await;
    fails(reply, ModelErrorKind::Protocol, Retry::Now, "block 9, which has not begun");
}

#[tokio::test]
async fn a_silent_endpoint_is_given_up() {
    for wire in Wire::ALL {
        let answer = Answer::of(wire, &hello(wire)[..20], 64).end(End::Silence);
        let reply =
            bounded(wire, answer, |settings| settings.idle_timeout = Some(Duration::from_millis(40))).await;
        fails(reply, ModelErrorKind::Protocol, Retry::Now, "sent nothing for 0.04 s");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for wire in Wire::ALL {
        let target = Double::start([]).await;
        let location = target.url("/v1/elsewhere?token=abc");
        let answer = Answer::failure("307 Temporary Redirect", "").header("location", location);
        let words = format!("points to `{}`, which is not followed", target.url("/v1/elsewhere"));
        fails(asked(wire, answer).await, ModelErrorKind::Refused, Retry::Never, &words);
        assert_eq!(target.connections(), 0);
    }
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for wire in Wire::ALL {
        let mut settings = HttpModelSettings::new(wire, "m");
        settings.base_url = Some(format!("http://{address}/v1?api-key={KEY}"));
        let model = HttpModel::new(settings, key()).unwrap();
        let reply = model.complete(&plain(json!([])), &()).await;
        assert!(!format!("{model:?} {reply:?}").contains(KEY), "{reply:?}");
        let words = format!("cannot reach `http://{address}/v1/");
        fails(reply, ModelErrorKind::Unavailable, Retry::Now, &words);
    }
}

#[tokio::test]
async fn a_page_is_not_a_stream() {
    for (media_type, body) in [("text/html", "<h1>Welcome</h1>"), ("application/json", "{\"choices\":[]}")] {
        let answer = Answer::failure("200 OK", body).header("content-type", media_type);
        let reply = asked(Wire::OpenaiChat, answer).await;
        fails(reply, ModelErrorKind::Protocol, Retry::Never, "where a stream of events was expected");
    }
}

#[tokio::test]
async fn a_file_that_models_do_not_read_is_refused_by_name() {
    let cases: &[(&str, &str, &[u8], &str)] = &[
        (
            "a.zip",
            "application/zip",
            b"PK",
            "`a.zip` is `application/zip`, which models do not read; attach `image/png`",
        ),
        ("b.txt", "text/plain", b"\xff\xfe", "`b.txt` is `text/plain` but not in UTF-8"),
    ];
    for wire in Wire::ALL {
        let double = Double::start([]).await;
        for (name, media_type, bytes, words) in cases {
            let request = with_files(&[(name, media_type, bytes)]);
            let reply = model(wire, &double).complete(&request, &()).await;
            fails(reply, ModelErrorKind::Refused, Retry::Never, words);
        }
        let mut request = with_files(&[("c.png", "image/png", b"\x89PNG")]);
        request.attachments = std::sync::Arc::default();
        let reply = model(wire, &double).complete(&request, &()).await;
        fails(reply, ModelErrorKind::Refused, Retry::Never, "`c.png` has no content");
        // What each wire carries is with the wires: this one is carried by one of them alone.
        let request = with_files(&[("d.aiff", "audio/aiff", b"FORM")]);
        if wire != Wire::Gemini {
            let reply = model(wire, &double).complete(&request, &()).await;
            let words = format!("`d.aiff` is `audio/aiff`, which the wire `{wire}` does not carry");
            fails(reply, ModelErrorKind::Refused, Retry::Never, &words);
        }
        assert_eq!(double.connections(), 0);
    }
}

/// A key that cannot be read.
struct Absent(RevealError);

#[async_trait::async_trait]
impl Reveal for Absent {
    async fn reveal(&self) -> Result<Secret, RevealError> {
        Err(self.0.clone())
    }
}

#[tokio::test]
async fn a_key_of_the_store_that_is_missing_is_named() {
    let missing = Some("openai".to_owned());
    let error = RevealError { missing: missing.clone(), ..RevealError::new("it is not there") };
    let double = Double::start([]).await;
    let key = std::sync::Arc::new(Absent(error));
    let model = HttpModel::new(settings(Wire::OpenaiChat, &double), Some(key)).unwrap();
    let error = model.complete(&plain(json!([])), &()).await.unwrap_err();
    assert_eq!(error.missing_secret, missing);
}

/// Keys of which each replaces the one before it.
struct Expiring(std::sync::Mutex<Vec<&'static str>>);

#[async_trait::async_trait]
impl Reveal for Expiring {
    async fn reveal(&self) -> Result<Secret, RevealError> {
        Ok(Secret::new(self.0.lock().unwrap()[0]))
    }

    async fn renew(&self, refused: &Secret) -> Result<Option<Secret>, RevealError> {
        let mut keys = self.0.lock().unwrap();
        assert_eq!(keys.remove(0), refused.expose());
        Ok(keys.first().map(|key| Secret::new(key)))
    }
}

#[tokio::test]
async fn a_key_that_expired_is_exchanged_once_and_the_request_is_sent_once_more() {
    let refused =
        || Answer::failure("401 Unauthorized", r#"{"error":{"message":"expired: key-of-today-1"}}"#);
    for wire in Wire::ALL {
        // The second key is good.
        let double = Double::start([refused(), Answer::of(wire, hello(wire), 64)]).await;
        let keys = vec!["key-of-today-1", "key-of-today-2", "key-of-today-3"];
        let key = std::sync::Arc::new(Expiring(keys.clone().into()));
        let model = HttpModel::new(settings(wire, &double), Some(key)).unwrap();
        assert_eq!(model.complete(&plain(json!([])), &()).await.unwrap().text(), "Hello");
        let sent = double.received();
        let shown: Vec<bool> =
            sent.iter().map(|sent| format!("{:?}", sent.headers).contains(keys[1])).collect();
        assert_eq!(shown, [false, true], "{wire}");

        // Neither is.
        let double = Double::start([refused(), refused()]).await;
        let key = std::sync::Arc::new(Expiring(keys.into()));
        let model = HttpModel::new(settings(wire, &double), Some(key)).unwrap();
        fails(model.complete(&plain(json!([])), &()).await, ModelErrorKind::Refused, Retry::Never, "401");
        assert_eq!(double.received().len(), 2);

        // There is no other.
        let double = Double::start([refused()]).await;
        let key = std::sync::Arc::new(Secret::new("key-of-today-1"));
        let model = HttpModel::new(settings(wire, &double), Some(key)).unwrap();
        let reply = model.complete(&plain(json!([])), &()).await;
        assert!(!format!("{reply:?}").contains("key-of-today"), "{reply:?}");
        fails(reply, ModelErrorKind::Refused, Retry::Never, "expired: [secret]");
    }
}

#[tokio::test]
async fn a_key_that_is_not_there_is_refused_before_anything_is_sent() {
    let double = Double::start([]).await;
    let absent = RevealError::new("set `OPENAI_API_KEY`");
    let keys: [(std::sync::Arc<dyn Reveal>, _); 2] = [
        (std::sync::Arc::new(Absent(absent)), "cannot read the key of the model: set `OPENAI_API_KEY`"),
        (
            std::sync::Arc::new(Secret::new(&format!("{KEY}\nsecond line"))),
            "characters that no header can hold",
        ),
    ];
    for (key, words) in keys {
        let model = HttpModel::new(settings(Wire::OpenaiChat, &double), Some(key)).unwrap();
        let reply = model.complete(&plain(json!([])), &()).await;
        assert!(!format!("{reply:?}").contains(KEY));
        fails(reply, ModelErrorKind::Refused, Retry::Never, words);
    }
    assert_eq!(double.connections(), 0);
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_whole_reply() {
    for wire in Wire::ALL {
        let double =
            Double::start([Answer::of(wire, hello(wire), 64), Answer::of(wire, hello(wire), 64)]).await;
        let model = model(wire, &double);
        for _ in 0..2 {
            model.complete(&plain(json!([])), &()).await.unwrap();
        }
        assert_eq!((double.received().len(), double.connections()), (2, 1));
    }
}

#[tokio::test]
async fn a_nameless_or_idless_call_is_refused_or_mended() {
    let call = |function: Value| {
        let chunk = json!({"choices": [{"delta": {"tool_calls": [{"function": function}]}, "finish_reason": "stop"}]});
        format!("data: {chunk}\n\ndata: [DONE]\n\n")
    };
    let nameless = call(json!({"arguments": "{}"}));
    let reply = asked(Wire::OpenaiChat, Answer::events(&nameless, 64)).await;
    fails(reply, ModelErrorKind::Protocol, Retry::Now, "a call without a name");
    let idless = call(json!({"name": "x", "arguments": "{}"}));
    let reply = asked(Wire::OpenaiChat, Answer::events(&idless, 64)).await.unwrap();
    assert_eq!(crate::requests::calls(&reply)[0].call_id, "call_0_0");
}
