//! What replies cost: documented usage bodies, and the arithmetic by which their providers bill them.

use dalsegno_core::{LongContext, ModelReply, Price, Rates};
use dalsegno_models::Wire;
use serde_json::{Value, json};

use crate::double::Answer;
use crate::requests::{ask, hello, plain};

/// A short reply with this usage.
pub(crate) async fn reply(wire: Wire, usage: Value) -> ModelReply {
    let event = |value: Value| format!("data: {value}\n\n");
    let stream = match wire {
        Wire::OpenaiChat => {
            event(json!({"choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}]}))
                + &event(json!({"choices": [], "usage": usage}))
                + "data: [DONE]\n\n"
        }
        Wire::OpenaiResponses => {
            let content = json!([{"type": "output_text", "text": "Hello"}]);
            let item = json!({"type": "message", "content": content});
            event(json!({"type": "response.output_text.delta", "delta": "Hello"}))
                + &event(json!({"type": "response.output_item.done", "output_index": 0, "item": item}))
                + &event(
                    json!({"type": "response.completed", "response": {"status": "completed", "usage": usage}}),
                )
        }
        Wire::Anthropic => {
            let block = json!({"type": "text", "text": ""});
            let delta = json!({"type": "text_delta", "text": "Hello"});
            event(json!({"type": "message_start", "message": {"usage": usage}}))
                + &event(json!({"type": "content_block_start", "index": 0, "content_block": block}))
                + &event(json!({"type": "content_block_delta", "index": 0, "delta": delta}))
                + &event(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}))
                + &event(json!({"type": "message_stop"}))
        }
        Wire::Gemini => {
            let parts = json!([{"text": "Hello"}]);
            let candidate = json!({"content": {"role": "model", "parts": parts}, "finishReason": "STOP"});
            event(json!({"candidates": [candidate], "usageMetadata": usage}))
        }
        Wire::Bedrock => {
            event(json!({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hello"}}}))
                + &event(json!({"messageStop": {"stopReason": "end_turn"}}))
                + &event(json!({"metadata": {"usage": usage, "metrics": {"latencyMs": 7}}}))
        }
    };
    ask(wire, &plain(json!([{"user": "hi"}])), Answer::of(wire, &stream, 4096)).await.1.unwrap()
}

/// Prices in US dollars a million tokens.
fn price(input: f64, cached: f64, output: f64) -> Price {
    let rate = |dollars: f64| (dollars * 1e6).round() as u64;
    let rates = Rates { cached_input: Some(rate(cached)), ..Price::new(rate(input), rate(output)).rates };
    Price { rates, ..Price::default() }
}

/// Anthropic's prices of Claude Sonnet 4, with those above 200,000 tokens.
fn sonnet() -> Price {
    let writes = |price: Price, five_minutes, hour| Rates {
        cache_write: Some(five_minutes),
        cache_write_1h: Some(hour),
        ..price.rates
    };
    let long = writes(price(6.0, 0.6, 22.5), 7_500_000, 12_000_000);
    Price {
        rates: writes(price(3.0, 0.3, 15.0), 3_750_000, 6_000_000),
        long_context: vec![LongContext { above: 200_000, rates: long }],
        web_search: Some(10_000_000),
    }
}

/// Each with what the provider bills, in millionths of a US dollar, by its published prices.
fn bills() -> Vec<(&'static str, Wire, Value, Price, f64)> {
    use Wire::{Anthropic, Bedrock, Gemini, OpenaiChat, OpenaiResponses};
    vec![
        (
            "OpenAI, guide to prompt caching, gpt-4o",
            OpenaiChat,
            json!({"prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,
                "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0, "accepted_prediction_tokens": 0}}),
            price(2.5, 1.25, 10.0),
            86.0 * 2.5 + 1920.0 * 1.25 + 300.0 * 10.0,
        ),
        (
            "OpenAI, guide to reasoning, gpt-5",
            OpenaiResponses,
            json!({"input_tokens": 75, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1186,
                "output_tokens_details": {"reasoning_tokens": 1024}, "total_tokens": 1261}),
            price(1.25, 0.125, 10.0),
            75.0 * 1.25 + 1186.0 * 10.0,
        ),
        (
            "OpenAI, reference of responses, gpt-4.1",
            OpenaiResponses,
            json!({"input_tokens": 36, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 87,
                "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 123}),
            price(2.0, 0.5, 8.0),
            36.0 * 2.0 + 87.0 * 8.0,
        ),
        (
            "OpenAI, a cached prefix over Responses, gpt-5-mini",
            OpenaiResponses,
            json!({"input_tokens": 4096, "input_tokens_details": {"cached_tokens": 3072}, "output_tokens": 512,
                "output_tokens_details": {"reasoning_tokens": 256}, "total_tokens": 4608}),
            price(0.25, 0.025, 2.0),
            1024.0 * 0.25 + 3072.0 * 0.025 + 512.0 * 2.0,
        ),
        (
            "Anthropic, cookbook of prompt caching, first call",
            Anthropic,
            json!({"cache_creation_input_tokens": 188_086, "cache_read_input_tokens": 0, "input_tokens": 21,
                "output_tokens": 393}),
            sonnet(),
            188_086.0 * 3.75 + 21.0 * 3.0 + 393.0 * 15.0,
        ),
        (
            "Anthropic, cookbook of prompt caching, second call",
            Anthropic,
            json!({"cache_creation_input_tokens": 0, "cache_read_input_tokens": 188_086, "input_tokens": 21,
                "output_tokens": 393}),
            sonnet(),
            188_086.0 * 0.3 + 21.0 * 3.0 + 393.0 * 15.0,
        ),
        (
            "Anthropic, two lifetimes in one request",
            Anthropic,
            json!({"input_tokens": 2048, "cache_read_input_tokens": 1800, "cache_creation_input_tokens": 248,
                "output_tokens": 503,
                "cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100}}),
            sonnet(),
            2048.0 * 3.0 + 1800.0 * 0.3 + 148.0 * 3.75 + 100.0 * 6.0 + 503.0 * 15.0,
        ),
        (
            "Anthropic, above 200,000 tokens with what the cache had",
            Anthropic,
            json!({"input_tokens": 50_000, "cache_read_input_tokens": 190_000, "cache_creation_input_tokens": 10_000,
                "output_tokens": 1000,
                "cache_creation": {"ephemeral_5m_input_tokens": 10_000, "ephemeral_1h_input_tokens": 0}}),
            sonnet(),
            50_000.0 * 6.0 + 190_000.0 * 0.6 + 10_000.0 * 7.5 + 1000.0 * 22.5,
        ),
        (
            "Bedrock, user guide to prompt caching: what the cache had is not among the input",
            Bedrock,
            json!({"inputTokens": 4, "outputTokens": 208, "totalTokens": 1549, "cacheReadInputTokens": 1337,
                "cacheWriteInputTokens": 0}),
            sonnet(),
            4.0 * 3.0 + 1337.0 * 0.3 + 208.0 * 15.0,
        ),
        (
            "DeepSeek, reference of chat completions",
            OpenaiChat,
            json!({"prompt_tokens": 1000, "prompt_cache_hit_tokens": 640, "prompt_cache_miss_tokens": 360,
                "completion_tokens": 100, "total_tokens": 1100,
                "completion_tokens_details": {"reasoning_tokens": 40}}),
            price(0.28, 0.028, 0.42),
            360.0 * 0.28 + 640.0 * 0.028 + 100.0 * 0.42,
        ),
        (
            "xAI, guide to reasoning: the completion lacks it, the total has it",
            OpenaiChat,
            json!({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135,
                "prompt_tokens_details": {"text_tokens": 32, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 6},
                "completion_tokens_details": {"reasoning_tokens": 94, "audio_tokens": 0}}),
            price(3.0, 0.75, 15.0),
            26.0 * 3.0 + 6.0 * 0.75 + 103.0 * 15.0,
        ),
        (
            "Gemini 2.5 Flash over its compatible endpoint: thoughts only in the total",
            OpenaiChat,
            json!({"prompt_tokens": 9, "completion_tokens": 27, "total_tokens": 436}),
            price(0.3, 0.03, 2.5),
            9.0 * 0.3 + 427.0 * 2.5,
        ),
        (
            "Gemini, guide to thinking, 2.5 Pro",
            Gemini,
            json!({"promptTokenCount": 36, "candidatesTokenCount": 810, "totalTokenCount": 2038, "thoughtsTokenCount": 1192,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 36}]}),
            price(1.25, 0.31, 10.0),
            36.0 * 1.25 + 2002.0 * 10.0,
        ),
        (
            "Gemini, guide to caching, 2.5 Flash: the prompt has what the cache had",
            Gemini,
            json!({"promptTokenCount": 696_219, "cachedContentTokenCount": 696_190, "candidatesTokenCount": 214,
                "totalTokenCount": 696_433}),
            price(0.3, 0.03, 2.5),
            29.0 * 0.3 + 696_190.0 * 0.03 + 214.0 * 2.5,
        ),
        (
            "Gemini, a search of its own: what it found was sent, and only the total has the thoughts",
            Gemini,
            json!({"promptTokenCount": 20, "toolUsePromptTokenCount": 100, "candidatesTokenCount": 50, "totalTokenCount": 200}),
            price(0.3, 0.03, 2.5),
            120.0 * 0.3 + 80.0 * 2.5,
        ),
        (
            "OpenRouter, usage accounting, a write of Claude's cache",
            OpenaiChat,
            json!({"prompt_tokens": 10_339, "completion_tokens": 60, "total_tokens": 10_399, "cost": 0.0396555,
                "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 10_318},
                "completion_tokens_details": {"reasoning_tokens": 0}}),
            sonnet(),
            39_655.5,
        ),
        (
            "LiteLLM before Claude",
            OpenaiChat,
            json!({"prompt_tokens": 2000, "completion_tokens": 10, "total_tokens": 2010,
                "prompt_tokens_details": {"cached_tokens": 500}, "cache_read_input_tokens": 500,
                "cache_creation_input_tokens": 1000}),
            sonnet(),
            500.0 * 3.0 + 500.0 * 0.3 + 1000.0 * 3.75 + 10.0 * 15.0,
        ),
        (
            "Anthropic, guide to the web search tool: 10 dollars a thousand searches",
            Anthropic,
            json!({"input_tokens": 105, "output_tokens": 6039, "cache_read_input_tokens": 7123,
                "cache_creation_input_tokens": 7345, "server_tool_use": {"web_search_requests": 1}}),
            sonnet(),
            105.0 * 3.0 + 7123.0 * 0.3 + 7345.0 * 3.75 + 6039.0 * 15.0 + 10_000.0,
        ),
        (
            "Groq, guide to prompt caching, gpt-oss-20b",
            OpenaiChat,
            json!({"queue_time": 0.026, "prompt_tokens": 4641, "prompt_time": 0.009, "completion_tokens": 1817,
                "completion_time": 5.57, "total_tokens": 6458, "total_time": 5.58,
                "prompt_tokens_details": {"cached_tokens": 4608}}),
            price(0.075, 0.0375, 0.3),
            33.0 * 0.075 + 4608.0 * 0.0375 + 1817.0 * 0.3,
        ),
    ]
}

#[tokio::test]
async fn a_reply_costs_what_its_provider_bills() {
    for (name, wire, usage, price, bill) in bills() {
        let reply = reply(wire, usage).await;
        let cost = price.nano_usd(reply.input_tokens, reply.output_tokens, &reply.details) as f64 / 1_000.0;
        assert!((cost - bill).abs() <= 0.001 * bill, "{name}: {cost}, billed {bill}: {reply:?}");
        assert!(!reply.estimated, "{name}");
    }
}

#[tokio::test]
async fn what_the_cache_and_the_reasoning_took_is_recorded_over_each_wire() {
    let chat = json!({"prompt_tokens": 9, "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 5}});
    let responses = json!({"input_tokens": 9, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 5}});
    let anthropic = json!({"input_tokens": 3, "output_tokens": 7, "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 2, "cache_creation": {"ephemeral_1h_input_tokens": 1}});
    let gemini = json!({"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 2,
        "thoughtsTokenCount": 5, "totalTokenCount": 16});
    let bedrock = json!({"inputTokens": 3, "outputTokens": 7, "totalTokens": 16, "cacheReadInputTokens": 4,
        "cacheWriteInputTokens": 2, "cacheDetails": [{"ttl": "1h", "inputTokens": 1}, {"ttl": "5m", "inputTokens": 1}]});
    for (wire, usage, expected) in [
        (Wire::OpenaiChat, chat, [4, 2, 0, 5]),
        (Wire::OpenaiResponses, responses, [4, 0, 0, 5]),
        (Wire::Anthropic, anthropic, [4, 2, 1, 0]),
        (Wire::Gemini, gemini, [4, 0, 0, 5]),
        (Wire::Bedrock, bedrock, [4, 2, 1, 0]),
    ] {
        let reply = reply(wire, usage).await;
        assert_eq!((reply.input_tokens, reply.output_tokens), (9, 7), "{wire}");
        let details = reply.details;
        let found = [
            details.cached_input_tokens,
            details.cache_write_tokens,
            details.cache_write_1h_tokens,
            details.reasoning_tokens,
        ];
        assert_eq!(found, expected, "{wire}");
    }
}

/// To open a page that a search found is no search; neither is what the model calls by itself.
#[tokio::test]
async fn searches_of_the_provider_are_counted_over_each_wire_that_has_them() {
    let event = |value: Value| format!("data: {value}\n\n");
    let actions = [json!({"type": "search", "query": "disk"}), json!({"type": "open_page"}), Value::Null];
    let mut responses = String::new();
    for (index, action) in actions.into_iter().enumerate() {
        let item = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action});
        responses +=
            &event(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    let usage = json!({"input_tokens": 9, "output_tokens": 7});
    responses +=
        &event(json!({"type": "response.completed", "response": {"status": "completed", "usage": usage}}));
    let piece = |queries: Value, stop: Option<&str>| {
        let content = json!({"role": "model", "parts": [{"text": "Full."}]});
        let candidate = json!({"content": content, "finishReason": stop,
            "groundingMetadata": {"webSearchQueries": queries}});
        event(
            json!({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 7}}),
        )
    };
    let gemini = piece(json!(["disk"]), None)
        + &piece(json!(["disk", "disk full"]), None)
        + &piece(Value::Null, Some("STOP"));
    for (wire, stream) in [(Wire::OpenaiResponses, responses), (Wire::Gemini, gemini)] {
        let answer = Answer::of(wire, &stream, 4096);
        let reply = ask(wire, &plain(json!([{"user": "hi"}])), answer).await.1.unwrap();
        assert_eq!(reply.details.web_searches, 2, "{wire}");
    }
    let chat = reply(Wire::OpenaiChat, json!({"prompt_tokens": 9, "completion_tokens": 7})).await;
    assert_eq!(chat.details.web_searches, 0);
}

#[tokio::test]
async fn counts_that_do_not_fit_together_are_lowered() {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": u64::MAX, "cache_write_tokens": u64::MAX},
        "completion_tokens_details": {"reasoning_tokens": u64::MAX}});
    let details = reply(Wire::OpenaiChat, usage).await.details;
    assert_eq!(
        (details.cached_input_tokens, details.cache_write_tokens, details.reasoning_tokens),
        (9, 0, 7)
    );
}

#[tokio::test]
async fn a_reply_that_nobody_counted_is_estimated_and_says_so() {
    for wire in Wire::ALL {
        let request = plain(json!([{"user": "a question of thirty-odd letters?"}]));
        let reply = ask(wire, &request, Answer::of(wire, hello(wire), 4096)).await.1.unwrap();
        assert!(reply.estimated, "{wire}");
        assert_eq!(reply.input_tokens, request.transcript.tokens(), "{wire}");
        assert_eq!((reply.output_tokens, reply.details.is_empty()), (2, true), "{wire}");
    }
}
