//! What counts as a reply: one that is complete is kept, however little it says and whatever happens after it.

use std::time::Duration;

use dalsegno_core::{ModelReply, ReplyPart, StopReason};
use dalsegno_models::{HttpModel, Model, ModelError, ModelErrorKind, Retry, Wire};
use serde_json::{Value, json};

use crate::double::{Answer, Double, End};
use crate::requests::{after, ask, hello, key, plain, sent, settings, with_tools};

/// What follows the end of a reply.
const LOST: [End; 2] = [End::Cut, End::Silence];

/// Asks an endpoint that may fall silent.
async fn impatient(wire: Wire, answer: Answer) -> Result<ModelReply, ModelError> {
    let double = Double::start([answer]).await;
    let mut settings = settings(wire, &double);
    settings.idle_timeout = Some(Duration::from_millis(40));
    HttpModel::new(settings, key()).unwrap().complete(&plain(json!([])), &()).await
}

fn event(value: Value) -> String {
    format!("data: {value}\n\n")
}

/// A reply without a word that the provider counted; `stop` is one of the wire's own.
fn nothing(wire: Wire, stop: &str) -> String {
    match wire {
        Wire::OpenaiChat => {
            let usage = json!({"prompt_tokens": 9, "completion_tokens": 2});
            event(json!({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": stop}]}))
                + &event(json!({"choices": [], "usage": usage}))
                + "data: [DONE]\n\n"
        }
        Wire::OpenaiResponses => {
            let (status, details) = match stop {
                "max_output_tokens" => ("incomplete", json!({"reason": stop})),
                _ => ("completed", Value::Null),
            };
            let usage = json!({"input_tokens": 9, "output_tokens": 2});
            let response =
                json!({"status": status, "incomplete_details": details, "output": [], "usage": usage});
            event(json!({"type": format!("response.{status}"), "response": response}))
        }
        Wire::Anthropic => {
            let usage = json!({"input_tokens": 9, "output_tokens": 2});
            event(json!({"type": "message_start", "message": {"usage": usage}}))
                + &event(json!({"type": "message_delta", "delta": {"stop_reason": stop}}))
                + &event(json!({"type": "message_stop"}))
        }
        Wire::Gemini => {
            let usage = json!({"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11});
            event(json!({"candidates": [{"finishReason": stop, "index": 0}], "usageMetadata": usage}))
        }
        Wire::Bedrock => {
            let usage = json!({"inputTokens": 9, "outputTokens": 2, "totalTokens": 11});
            event(json!({"messageStart": {"role": "assistant"}}))
                + &event(json!({"messageStop": {"stopReason": stop}}))
                + &event(json!({"metadata": {"usage": usage}}))
        }
    }
}

#[tokio::test]
async fn a_complete_reply_without_a_word_is_a_reply_with_its_tokens() {
    let cases = [
        (Wire::OpenaiChat, "stop", "length"),
        (Wire::OpenaiResponses, "completed", "max_output_tokens"),
        (Wire::Anthropic, "end_turn", "max_tokens"),
        (Wire::Gemini, "STOP", "MAX_TOKENS"),
        (Wire::Bedrock, "end_turn", "max_tokens"),
    ];
    for (wire, end, length) in cases {
        for (stop, expected) in [(end, StopReason::End), (length, StopReason::Length)] {
            let answer = Answer::of(wire, &nothing(wire, stop), 64);
            let reply = ask(wire, &plain(json!([{"user": "hi"}])), answer).await.1.unwrap();
            assert_eq!((reply.parts.len(), reply.stop), (0, expected), "{wire}");
            assert_eq!((reply.input_tokens, reply.output_tokens), (9, 2), "{wire}");
        }
        let reply =
            ask(wire, &plain(json!([])), Answer::of(wire, &hello(wire).replace("Hello", ""), 64)).await.1;
        assert_eq!(reply.unwrap().text(), "", "{wire}");
    }
}

#[tokio::test]
async fn a_connection_that_is_lost_after_the_end_takes_nothing_with_it() {
    for wire in Wire::ALL {
        for end in LOST {
            let reply = impatient(wire, Answer::of(wire, hello(wire), 4096).end(end)).await;
            assert_eq!(reply.unwrap().text(), "Hello", "{wire}, {end:?}");
        }
        let flood = format!("{}{}", hello(wire), ": more\n".repeat(10_000));
        let answer = Answer::of(wire, &flood, hello(wire).len()).end(End::Flood);
        assert_eq!(impatient(wire, answer).await.unwrap().text(), "Hello", "{wire}");
    }
}

#[tokio::test]
async fn a_lost_marker_takes_nothing_with_it_once_the_usage_is_there() {
    let words = event(json!({"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}));
    let usage = event(json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}));
    for end in LOST {
        let whole = format!("{words}{usage}");
        let reply = impatient(Wire::OpenaiChat, Answer::events(&whole, 4096).end(end)).await.unwrap();
        assert_eq!((reply.text().as_str(), reply.stop), ("Hello", StopReason::End), "{end:?}");
        assert_eq!((reply.input_tokens, reply.output_tokens), (9, 2), "{end:?}");
        // Before the usage the connection may as well have been lost in the middle of the bill.
        let error = impatient(Wire::OpenaiChat, Answer::events(&words, 4096).end(end)).await.unwrap_err();
        assert_eq!(error.retry, Retry::Now, "{error}");
        // Servers that count as they go have a usage long before the end.
        let early = format!("{usage}{}", event(json!({"choices": [{"delta": {"content": "Hel"}}]})));
        let error = impatient(Wire::OpenaiChat, Answer::events(&early, 4096).end(end)).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Protocol, "{error}");
    }
}

/// What was paid for is not thrown away for the sake of an event that says nothing.
#[tokio::test]
async fn a_message_that_lacks_only_its_stop_is_a_reply_once_its_usage_is_there() {
    let whole = |usage: Value| {
        let start = event(json!({"type": "message_start", "message": {"usage": {"input_tokens": 9}}}));
        let block = json!({"type": "text", "text": "Hello"});
        let block = event(json!({"type": "content_block_start", "index": 0, "content_block": block}));
        let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
        format!("{start}{block}{}", event(end))
    };
    for end in [End::Cut, End::Silence, End::Clean] {
        let answer = Answer::events(&whole(json!({"output_tokens": 2})), 4096).end(end);
        let reply = impatient(Wire::Anthropic, answer).await.unwrap();
        assert_eq!((reply.text().as_str(), reply.stop), ("Hello", StopReason::End), "{end:?}");
        assert_eq!((reply.input_tokens, reply.output_tokens), (9, 2), "{end:?}");
        let answer = Answer::events(&whole(Value::Null), 4096).end(end);
        let error = impatient(Wire::Anthropic, answer).await.unwrap_err();
        assert_eq!((error.kind, error.retry), (ModelErrorKind::Protocol, Retry::Now), "{error}");
    }
}

/// Providers refuse reasoning that nothing follows.
#[tokio::test]
async fn reasoning_that_led_nowhere_is_kept_but_not_sent_back() {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "EqQ="});
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
    let thought = json!({"text": "hm", "thought": true, "thoughtSignature": "EqQ="});
    let streams = [
        (
            Wire::Anthropic,
            event(json!({"type": "message_start", "message": {}}))
                + &event(json!({"type": "content_block_start", "index": 0, "content_block": thinking}))
                + &event(json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}))
                + &event(json!({"type": "message_stop"})),
            thinking,
        ),
        (
            Wire::OpenaiResponses,
            event(json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning}))
                + &event(json!({"type": "response.incomplete", "response": {"status": "incomplete"}})),
            reasoning,
        ),
        (
            Wire::Gemini,
            event(json!({"candidates": [{"content": {"parts": [thought]}, "finishReason": "MAX_TOKENS"}]})),
            json!({"model": "some-model", "part": thought}),
        ),
        (
            Wire::Bedrock,
            event(
                json!({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "hm"}}}}),
            ) + &event(
                json!({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "EqQ="}}}}),
            ) + &event(json!({"messageStop": {"stopReason": "max_tokens"}})),
            json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "EqQ="}}}),
        ),
    ];
    for (wire, stream, data) in streams {
        let request = with_tools(json!([{"user": "hi"}]));
        let reply = ask(wire, &request, Answer::of(wire, &stream, 64)).await.1.unwrap();
        assert_eq!(reply.stop, StopReason::Length);
        let kept = ReplyPart::Opaque { provider: wire.provider().to_owned(), data };
        assert_eq!(reply.parts, [kept], "{wire}");
        let body = sent(wire, &after(&request, &reply, json!([{"user": "Go on."}]))).await.to_string();
        assert!(body.contains("Go on.") && !body.contains("EqQ=") && !body.contains("gAAA"), "{body}");
    }
}
