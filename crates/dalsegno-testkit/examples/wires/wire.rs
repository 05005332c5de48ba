//! The wires, and a reply as each of them sends it.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use serde_json::{Value, json};

/// A wire of the table. Another one needs a name, an address and its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Chat,
    Responses,
    Anthropic,
    Gemini,
    Bedrock,
}

/// A reply, before it is that of a wire.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    pub(crate) text: &'static str,
    /// The id and the arguments of each call of the tool.
    pub(crate) calls: Vec<(&'static str, String)>,
    /// The tool's name; `note` where it is empty.
    pub(crate) tool: &'static str,
    /// Whether it begins with signed thinking.
    pub(crate) thinks: bool,
    pub(crate) stop: Stop,
    pub(crate) usage: Usage,
    /// Whether characters beyond ASCII are escapes, those beyond the basic plane in two events.
    pub(crate) escaped: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stop {
    #[default]
    End,
    Length,
    Refusal,
}

/// What a reply counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Usage {
    /// 100 tokens sent, 20 received.
    #[default]
    Plain,
    /// 1,050 tokens sent, of which 900 were cached, and 20 received.
    Cached,
    Missing,
}

/// Signed thinking, with the characters that an encoder may change: `+`, `/` and `=`.
pub(crate) const SIGNATURE: &str = "EqQBCgIYAhIMx+/9Zk0u1+/AbCdEfGhIjKlMnOpQrStUvWxYz0123456789+/w==";

/// The tool of a server, by the name that models see.
pub(crate) const SERVED: &str = "desk__note";

impl Reply {
    /// The name of the tool that it calls.
    pub(crate) const fn tool(&self) -> &'static str {
        if self.tool.is_empty() { "note" } else { self.tool }
    }
}

impl Wire {
    pub(crate) const ALL: [Self; 5] =
        [Self::Chat, Self::Responses, Self::Anthropic, Self::Gemini, Self::Bedrock];

    /// The name that a workspace gives as `provider`.
    pub(crate) const fn provider(self) -> &'static str {
        match self {
            Self::Chat => "openai",
            Self::Responses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock",
        }
    }

    /// What stands behind the server's address in `base_url`.
    pub(crate) const fn base(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => "/v1",
            Self::Anthropic | Self::Bedrock => "",
            Self::Gemini => "/v1beta",
        }
    }

    /// The status and the body with which the provider says that it has too much to do.
    pub(crate) const fn overloaded(self) -> (&'static str, &'static str) {
        match self {
            Self::Chat | Self::Responses => (
                "503 Service Unavailable",
                r#"{"error":{"message":"The engine is currently overloaded, please try again later","type":"server_error","param":null,"code":null}}"#,
            ),
            Self::Anthropic => (
                "529 Overloaded",
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            ),
            Self::Gemini => (
                "503 Service Unavailable",
                r#"{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#,
            ),
            Self::Bedrock => {
                ("503 Service Unavailable", r#"{"message":"Bedrock is unable to process your request."}"#)
            }
        }
    }

    /// The head and the body with which the provider refuses a request that came a second too soon.
    pub(crate) const fn too_often(self) -> (&'static str, &'static str) {
        const HEAD: &str = "retry-after: 1\r\n";
        match self {
            Self::Chat | Self::Responses => (
                HEAD,
                r#"{"error":{"message":"Rate limit reached for requests","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#,
            ),
            Self::Anthropic => (
                HEAD,
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit"}}"#,
            ),
            // It says it in the body alone.
            Self::Gemini => (
                "",
                r#"{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1s"}]}}"#,
            ),
            Self::Bedrock => (HEAD, r#"{"message":"Too many requests, please wait before trying again."}"#),
        }
    }

    /// The thinking as it must go back: over Chat the value of `reasoning_details`, over Gemini a part, whose signature is on the first
    /// call, else a block or an item.
    pub(crate) fn thinking(self) -> Value {
        match self {
            Self::Chat => {
                json!([{ "type": "reasoning.text", "text": "Let me see.", "signature": SIGNATURE, "format": "anthropic-claude-v1", "index": 0 }])
            }
            Self::Responses => {
                json!({ "id": "rs_1", "type": "reasoning", "summary": [{ "type": "summary_text", "text": "Let me see." }], "encrypted_content": SIGNATURE })
            }
            Self::Anthropic => {
                json!({ "type": "thinking", "thinking": "Let me see.", "signature": SIGNATURE })
            }
            Self::Gemini => json!({ "text": "Let me see.", "thought": true }),
            Self::Bedrock => {
                json!({ "reasoningContent": { "reasoningText": { "text": "Let me see.", "signature": SIGNATURE } } })
            }
        }
    }

    /// The whole stream of a reply.
    pub(crate) fn stream(self, reply: &Reply) -> Vec<u8> {
        let escaped = |text: String| if reply.escaped { escape(&text) } else { text };
        match self {
            Self::Chat => escaped(chat(reply)).into_bytes(),
            Self::Responses => escaped(responses(reply)).into_bytes(),
            Self::Anthropic => escaped(anthropic(reply)).into_bytes(),
            Self::Gemini => escaped(gemini(reply)).into_bytes(),
            Self::Bedrock => {
                let frames = bedrock(reply).into_iter();
                frames.flat_map(|(name, event)| frame(name, &escaped(event.to_string()))).collect()
            }
        }
    }

    /// The media type of the stream.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses | Self::Anthropic | Self::Gemini => {
                "text/event-stream; charset=utf-8"
            }
            Self::Bedrock => "application/vnd.amazon.eventstream",
        }
    }
}

/// The text in small pieces, as a model writes it.
fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(4).map(|piece| piece.iter().collect()).collect()
}

/// Writes what is not ASCII as escapes of JSON.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    let mut units = [0; 2];
    for character in text.chars() {
        if character.is_ascii() {
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut units) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped
}

fn chat(reply: &Reply) -> String {
    let mut deltas = vec![json!({ "role": "assistant", "content": "" })];
    if reply.thinks {
        deltas.push(json!({ "reasoning": "Let me see.", "reasoning_details": Wire::Chat.thinking() }));
    }
    let name = if reply.stop == Stop::Refusal { "refusal" } else { "content" };
    deltas.extend(pieces(reply.text).into_iter().map(|piece| json!({ name: piece })));
    for (index, (id, arguments)) in reply.calls.iter().enumerate() {
        let function = json!({ "name": reply.tool(), "arguments": "" });
        deltas.push(
            json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": function }] }),
        );
        deltas.extend(
            pieces(arguments).into_iter().map(
                |piece| json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] }),
            ),
        );
    }
    let reason = match reply.stop {
        Stop::Length => "length",
        Stop::End if !reply.calls.is_empty() => "tool_calls",
        Stop::End | Stop::Refusal => "stop",
    };
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_764_000_000, "model": "some-model", "choices": choices, "usage": usage });
        format!("data: {chunk}\n\n")
    };
    let mut stream: String = deltas
        .into_iter()
        .map(|delta| chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]), Value::Null))
        .collect();
    stream += &chunk(json!([{ "index": 0, "delta": {}, "finish_reason": reason }]), Value::Null);
    let usage = match reply.usage {
        Usage::Plain => json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 }),
        Usage::Cached => {
            json!({ "prompt_tokens": 1050, "completion_tokens": 20, "total_tokens": 1070, "prompt_tokens_details": { "cached_tokens": 900 } })
        }
        Usage::Missing => Value::Null,
    };
    if !usage.is_null() {
        stream += &chunk(json!([]), usage);
    }
    stream + "data: [DONE]\n\n"
}

fn responses(reply: &Reply) -> String {
    let mut stream = String::new();
    let mut number = 0;
    let mut event = |mut event: Value| {
        event["sequence_number"] = number.into();
        number += 1;
        stream += &format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    };
    event(
        json!({ "type": "response.created", "response": { "id": "resp_1", "object": "response", "status": "in_progress", "output": [] } }),
    );
    let mut output = Vec::new();
    if reply.thinks {
        let item = Wire::Responses.thinking();
        event(json!({ "type": "response.output_item.done", "output_index": output.len(), "item": item }));
        output.push(item);
    }
    if !reply.text.is_empty() {
        let (kind, member) = match reply.stop {
            Stop::Refusal => ("refusal", "refusal"),
            Stop::End | Stop::Length => ("output_text", "text"),
        };
        for piece in pieces(reply.text) {
            event(
                json!({ "type": format!("response.{kind}.delta"), "item_id": "msg_1", "output_index": output.len(), "content_index": 0, "delta": piece }),
            );
        }
        let mut content = json!({ "type": kind, member: reply.text });
        if reply.stop != Stop::Refusal {
            content["annotations"] = json!([]);
        }
        let status = if reply.stop == Stop::Length { "incomplete" } else { "completed" };
        let item = json!({ "id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": [content] });
        event(json!({ "type": "response.output_item.done", "output_index": output.len(), "item": item }));
        output.push(item);
    }
    for (id, arguments) in &reply.calls {
        for piece in pieces(arguments) {
            event(
                json!({ "type": "response.function_call_arguments.delta", "item_id": format!("fc_{id}"), "output_index": output.len(), "delta": piece }),
            );
        }
        let item = json!({ "id": format!("fc_{id}"), "type": "function_call", "status": "completed", "call_id": id, "name": reply.tool(), "arguments": arguments });
        event(json!({ "type": "response.output_item.done", "output_index": output.len(), "item": item }));
        output.push(item);
    }
    let usage = match reply.usage {
        Usage::Plain => json!({ "input_tokens": 100, "output_tokens": 20, "total_tokens": 120 }),
        Usage::Cached => {
            json!({ "input_tokens": 1050, "input_tokens_details": { "cached_tokens": 900 }, "output_tokens": 20, "total_tokens": 1070 })
        }
        Usage::Missing => Value::Null,
    };
    let (status, details) = match reply.stop {
        Stop::Length => ("incomplete", json!({ "reason": "max_output_tokens" })),
        Stop::End | Stop::Refusal => ("completed", Value::Null),
    };
    event(
        json!({ "type": format!("response.{status}"), "response": { "id": "resp_1", "object": "response", "status": status, "incomplete_details": details, "output": output, "usage": usage } }),
    );
    stream
}

fn anthropic(reply: &Reply) -> String {
    let mut stream = String::new();
    let mut event = |event: Value| {
        stream += &format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    };
    let usage = match reply.usage {
        Usage::Plain => json!({ "input_tokens": 100, "output_tokens": 1 }),
        Usage::Cached => {
            json!({ "input_tokens": 150, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 0, "output_tokens": 1 })
        }
        Usage::Missing => Value::Null,
    };
    event(
        json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "role": "assistant", "model": "some-model", "content": [], "stop_reason": null, "usage": usage } }),
    );
    event(json!({ "type": "ping" }));
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        event(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        for delta in deltas {
            event(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        event(json!({ "type": "content_block_stop", "index": index }));
        index += 1;
    };
    if reply.thinks {
        let mut deltas: Vec<Value> = pieces("Let me see.")
            .into_iter()
            .map(|piece| json!({ "type": "thinking_delta", "thinking": piece }))
            .collect();
        deltas.push(json!({ "type": "signature_delta", "signature": SIGNATURE }));
        block(json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas);
    }
    if !reply.text.is_empty() {
        let deltas =
            pieces(reply.text).into_iter().map(|piece| json!({ "type": "text_delta", "text": piece }));
        block(json!({ "type": "text", "text": "" }), deltas.collect());
    }
    for (id, arguments) in &reply.calls {
        let deltas = pieces(arguments)
            .into_iter()
            .map(|piece| json!({ "type": "input_json_delta", "partial_json": piece }));
        block(json!({ "type": "tool_use", "id": id, "name": reply.tool(), "input": {} }), deltas.collect());
    }
    let reason = match reply.stop {
        Stop::Length => "max_tokens",
        Stop::Refusal => "refusal",
        Stop::End if !reply.calls.is_empty() => "tool_use",
        Stop::End => "end_turn",
    };
    let mut end =
        json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null } });
    if reply.usage != Usage::Missing {
        end["usage"] = json!({ "output_tokens": 20 });
    }
    event(end);
    event(json!({ "type": "message_stop" }));
    stream
}

fn gemini(reply: &Reply) -> String {
    let mut parts = Vec::new();
    if reply.thinks {
        parts.extend(
            pieces("Let me see.").into_iter().map(|piece| json!([{ "text": piece, "thought": true }])),
        );
    }
    parts.extend(pieces(reply.text).into_iter().map(|piece| json!([{ "text": piece }])));
    let calls = reply.calls.iter().enumerate().map(|(index, (id, arguments))| {
        // It has no text that is no JSON; a gateway may pass one on.
        let args = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
        let mut part = json!({ "functionCall": { "id": id, "name": reply.tool(), "args": args } });
        if reply.thinks && index == 0 {
            part["thoughtSignature"] = json!(SIGNATURE);
        }
        part
    });
    let calls: Vec<Value> = calls.collect();
    if !calls.is_empty() {
        parts.push(calls.into());
    }
    let reason = match reply.stop {
        Stop::End => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
    };
    let usage = match reply.usage {
        Usage::Plain => {
            json!({ "promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120 })
        }
        Usage::Cached => {
            json!({ "promptTokenCount": 1050, "cachedContentTokenCount": 900, "candidatesTokenCount": 15, "thoughtsTokenCount": 5, "totalTokenCount": 1070 })
        }
        Usage::Missing => Value::Null,
    };
    let last = parts.len().saturating_sub(1);
    let pieces = parts.into_iter().enumerate().map(|(index, parts)| {
        let mut candidate = json!({ "content": { "parts": parts, "role": "model" }, "index": 0 });
        if index == last {
            candidate["finishReason"] = json!(reason);
        }
        let mut piece =
            json!({ "candidates": [candidate], "modelVersion": "some-model", "responseId": "r1" });
        if !usage.is_null() {
            piece["usageMetadata"] = usage.clone();
        }
        format!("data: {piece}\r\n\r\n")
    });
    pieces.collect()
}

/// The events of a reply, by their names.
fn bedrock(reply: &Reply) -> Vec<(&'static str, Value)> {
    let mut events = vec![("messageStart", json!({ "role": "assistant" }))];
    let mut index = 0;
    let mut block = |start: Option<Value>, deltas: Vec<Value>| {
        events.extend(
            start.map(|start| ("contentBlockStart", json!({ "contentBlockIndex": index, "start": start }))),
        );
        events.extend(deltas.into_iter().map(|delta| {
            ("contentBlockDelta", json!({ "contentBlockIndex": index, "delta": delta, "p": "abcdefgh" }))
        }));
        events.push(("contentBlockStop", json!({ "contentBlockIndex": index })));
        index += 1;
    };
    if reply.thinks {
        let mut deltas: Vec<Value> = pieces("Let me see.")
            .into_iter()
            .map(|piece| json!({ "reasoningContent": { "text": piece } }))
            .collect();
        deltas.push(json!({ "reasoningContent": { "signature": SIGNATURE } }));
        block(None, deltas);
    }
    if !reply.text.is_empty() {
        block(None, pieces(reply.text).into_iter().map(|piece| json!({ "text": piece })).collect());
    }
    for (id, arguments) in &reply.calls {
        let deltas = pieces(arguments).into_iter().map(|piece| json!({ "toolUse": { "input": piece } }));
        block(Some(json!({ "toolUse": { "toolUseId": id, "name": reply.tool() } })), deltas.collect());
    }
    let reason = match reply.stop {
        Stop::Length => "max_tokens",
        Stop::Refusal => "guardrail_intervened",
        Stop::End if !reply.calls.is_empty() => "tool_use",
        Stop::End => "end_turn",
    };
    events.push(("messageStop", json!({ "stopReason": reason })));
    let usage = match reply.usage {
        Usage::Plain => json!({ "inputTokens": 100, "outputTokens": 20, "totalTokens": 120 }),
        Usage::Cached => {
            json!({ "inputTokens": 150, "cacheReadInputTokens": 900, "cacheWriteInputTokens": 0, "outputTokens": 20, "totalTokens": 1070 })
        }
        Usage::Missing => return events,
    };
    events.push(("metadata", json!({ "usage": usage, "metrics": { "latencyMs": 500 } })));
    events
}

/// An event in a frame of AWS.
fn frame(name: &'static str, payload: &str) -> Vec<u8> {
    let headers = [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    let headers = headers.map(|(name, value)| Header::new(name, HeaderValue::String(value.into())));
    let message = Message::new_from_parts(headers.to_vec(), payload.as_bytes().to_vec());
    let mut bytes = Vec::new();
    write_message_to(&message, &mut bytes).expect("the lengths of an event fit into a frame");
    bytes
}
