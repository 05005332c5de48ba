//! What must hold of a cell.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::cell::{Cell, Column, Ended, attached};
use crate::row::{Manner, Turn};
use crate::server::{Asked, Server};
use crate::wire::{Reply, SIGNATURE, Usage, Wire};

/// Checks everything. `first` is how the run ended, `last` how its fork did where there is one, else the same.
///
/// # Errors
/// A request cannot be read.
pub(crate) fn all(
    cell: &Cell,
    turns: &[Turn],
    first: &Ended,
    last: &Ended,
    server: &Server,
) -> anyhow::Result<Vec<String>> {
    let mut wrong = server.trouble();
    end(cell, last, &mut wrong);
    if cell.column == Column::Forked {
        end(cell, first, &mut wrong);
    }
    let asked = server.asked();
    let expected = cell.requests(turns);
    if asked.len() != expected {
        wrong.push(format!("{} requests, expected {expected}", asked.len()));
    }
    let effects = server.effects();
    let must = if cell.expected().is_refused { Vec::new() } else { cell.effects() };
    if effects != must {
        wrong.push(format!("the tool took effect with {effects:?}, expected {must:?}"));
    }
    if cell.expected().is_refused || !wrong.is_empty() {
        return Ok(wrong);
    }
    if let Some(place) = Cell::waits(turns) {
        let gap = asked[place + 1].at.duration_since(asked[place].at);
        if gap < Duration::from_millis(990) {
            wrong.push(format!("it asked again after {gap:?}, though Retry-After was 1 s"));
        }
    }
    repeats(cell, turns, &asked, &mut wrong);
    let bodies = asked
        .iter()
        .map(|asked| serde_json::from_str(&asked.body).context("a request is no JSON"))
        .collect::<anyhow::Result<Vec<Value>>>()?;
    if let Some(file) = cell.row.attachment {
        let base64 = base64(attached(file));
        for (number, body) in bodies.iter().enumerate() {
            if !attachments(cell.wire, body).iter().any(|data| data.ends_with(&base64)) {
                wrong.push(format!("request {} lacks `{file}`", number + 1));
            }
        }
    }
    sent_back(cell, turns, &asked, &bodies, &mut wrong);
    tokens(turns, last, &mut wrong);
    Ok(wrong)
}

/// The end of a run.
fn end(cell: &Cell, ended: &Ended, wrong: &mut Vec<String>) {
    let expected = &cell.expected();
    let report = &ended.report;
    let code = i32::from(expected.status != "completed");
    if ended.code != Some(code) {
        wrong.push(format!("exit code {:?}, expected {code}", ended.code));
    }
    if report["status"] != expected.status {
        wrong.push(format!(
            "status {}, expected `{}`: {}",
            report["status"], expected.status, report["error"]
        ));
    }
    if let Some(answer) = expected.answer
        && report["answer"] != answer
    {
        wrong.push(format!("the answer is {}, expected `{answer}`", report["answer"]));
    }
    if let Some((code, words)) = expected.error {
        let (found, said) =
            (&report["error"]["code"], report["error"]["message"].as_str().unwrap_or_default());
        if *found != code || !said.contains(words) {
            wrong.push(format!("the error is {}, expected `{code}` with `{words}`", report["error"]));
        }
    }
}

/// What is sent again must be the same, byte for byte: after a failure, a kill and in a fork.
fn repeats(cell: &Cell, turns: &[Turn], asked: &[Asked], wrong: &mut Vec<String>) {
    let mut same = |one: usize, other: usize, when: &str| {
        if asked[one].body != asked[other].body {
            wrong.push(format!(
                "the request is another one {when}: {}",
                difference(&asked[one].body, &asked[other].body)
            ));
        }
    };
    for (number, turn) in turns.iter().enumerate() {
        if matches!(turn.manner, Manner::Cut | Manner::TooOften | Manner::Overloaded) {
            same(number, number + 1, "after a failure");
        }
    }
    match cell.column {
        Column::Killed => same(turns.len() - 1, turns.len(), "after a kill"),
        Column::Forked => same(turns.len() - 1, turns.len(), "in a fork"),
        Column::Straight | Column::Approved => {}
    }
}

/// Where two texts differ, with what follows.
fn difference(one: &str, other: &str) -> String {
    let place = one.bytes().zip(other.bytes()).position(|(one, other)| one != other);
    let place = place.unwrap_or(one.len().min(other.len()));
    let from =
        |text: &str| String::from_utf8_lossy(&text.as_bytes()[place..]).chars().take(60).collect::<String>();
    format!("at byte {place}, `{}` and `{}`", from(one), from(other))
}

/// What went back with each turn after calls: signatures byte for byte, ids, results in the order of their calls, and
/// everything that was sent before, unchanged.
fn sent_back(cell: &Cell, turns: &[Turn], asked: &[Asked], bodies: &[Value], wrong: &mut Vec<String>) {
    let replied = turns.iter().enumerate().filter(|(_, turn)| !turn.reply.calls.is_empty());
    for (number, turn) in replied {
        // The last reply comes twice in some columns, and it has no calls.
        let Some(body) = bodies.get(number + 1) else { continue };
        let sent = spoken(cell.wire, body);
        let before = spoken(cell.wire, &bodies[number]);
        let expected = expected(cell, &turn.reply);
        if sent.get(..before.len()) != Some(&before[..]) {
            wrong.push(format!("request {} does not begin with the one before it", number + 2));
            continue;
        }
        let added = &sent[before.len()..];
        let is_broken = |(_, text): &(&str, String)| serde_json::from_str::<Value>(text).is_err();
        let added: Vec<Value> = if turn.reply.calls.iter().any(is_broken) {
            added.iter().map(without_words).collect()
        } else {
            added.to_vec()
        };
        if added != expected {
            wrong.push(format!(
                "request {} adds {}, expected {}",
                number + 2,
                Value::from(added),
                Value::from(expected)
            ));
        }
        if turn.reply.thinks && !asked[number + 1].body.contains(SIGNATURE) {
            wrong.push(format!("request {} lacks the signature, byte for byte", number + 2));
        }
    }
}

/// A result whose words are the engine's own, about arguments that are no JSON: only that it speaks of them.
fn without_words(item: &Value) -> Value {
    let mut item = item.clone();
    for place in
        ["/content", "/output", "/functionResponse/response/error", "/block/toolResult/content/0/text"]
    {
        if let Some(said) = item.pointer_mut(place)
            && let Some(text) = said.as_str()
        {
            *said = json!(text.contains("arguments"));
        }
    }
    item
}

/// The messages or items, one block each, without marks for a cache.
fn spoken(wire: Wire, body: &Value) -> Vec<Value> {
    let list = |name: &str| body[name].as_array().cloned().unwrap_or_default();
    match wire {
        Wire::Chat => list("messages"),
        Wire::Responses => list("input"),
        Wire::Anthropic => {
            let blocks = list("messages").into_iter().flat_map(|message| {
                let role = message["role"].clone();
                message["content"].as_array().cloned().unwrap_or_default().into_iter().map(
                    move |mut block| {
                        if let Some(block) = block.as_object_mut() {
                            block.remove("cache_control");
                            block.insert("role".to_owned(), role.clone());
                        }
                        block
                    },
                )
            });
            blocks.collect()
        }
        Wire::Gemini => {
            let parts = list("contents").into_iter().flat_map(|content| {
                let role = content["role"].clone();
                content["parts"].as_array().cloned().unwrap_or_default().into_iter().map(move |mut part| {
                    part["role"] = role.clone();
                    part
                })
            });
            parts.collect()
        }
        Wire::Bedrock => {
            let blocks = list("messages").into_iter().flat_map(|message| {
                let role = message["role"].clone();
                let blocks = message["content"].as_array().cloned().unwrap_or_default();
                blocks
                    .into_iter()
                    .filter(|block| block.get("cachePoint").is_none())
                    .map(move |block| json!({ "role": role, "block": block }))
            });
            blocks.collect()
        }
    }
}

/// What a reply with calls and their results add to the next request.
fn expected(cell: &Cell, reply: &Reply) -> Vec<Value> {
    let mut sent = Vec::new();
    // A provider takes nothing but an object as arguments, and the model must see what it wrote.
    let whole = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!({ "INVALID_JSON": text }));
    let result = |text: &str| match serde_json::from_str::<Value>(text) {
        Ok(value) => json!({ "written": value["text"] }).to_string().into(),
        Err(_) => Value::Bool(true),
    };
    let thinking = reply.thinks.then(|| cell.wire.thinking());
    let name = reply.tool();
    let files = returned(cell);
    // Where files do not stand in the results, they stand behind all of them.
    let behind = |of_text: fn(String) -> Value| {
        let of_call = |(id, _): &(&str, String)| {
            [of_text(format!("[Files that `{name}` returned to the call {id}]")), files.clone()]
        };
        reply.calls.iter().filter(|_| !files.is_null()).flat_map(of_call).collect::<Vec<_>>()
    };
    let is_inside = cell.row.returned.is_some_and(|returned| returned.inside);
    match cell.wire {
        Wire::Chat => {
            let calls: Vec<Value> = reply
                .calls
                .iter()
                .map(|(id, text)| {
                    let arguments = whole(text).to_string();
                    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
                })
                .collect();
            let mut message = json!({ "role": "assistant", "tool_calls": calls });
            if let Some(thinking) = thinking {
                message["reasoning_details"] = thinking;
            }
            sent.push(message);
            sent.extend(
                reply
                    .calls
                    .iter()
                    .map(|(id, text)| json!({ "role": "tool", "tool_call_id": id, "content": result(text) })),
            );
            let files = behind(|text| json!({ "type": "text", "text": text }));
            if !files.is_empty() {
                sent.push(json!({ "role": "user", "content": files }));
            }
        }
        Wire::Responses => {
            sent.extend(thinking);
            sent.extend(reply.calls.iter().map(|(id, text)| {
                json!({ "type": "function_call", "call_id": id, "name": name, "arguments": whole(text).to_string() })
            }));
            sent.extend(reply.calls.iter().map(|(id, text)| {
                let output = match files.is_null() {
                    true => result(text),
                    false => json!([{ "type": "input_text", "text": result(text) }, files]),
                };
                json!({ "type": "function_call_output", "call_id": id, "output": output })
            }));
        }
        Wire::Anthropic => {
            sent.extend(thinking);
            sent.extend(reply.calls.iter().map(
                |(id, text)| json!({ "type": "tool_use", "id": id, "name": name, "input": whole(text) }),
            ));
            for block in &mut sent {
                block["role"] = json!("assistant");
            }
            sent.extend(reply.calls.iter().map(|(id, text)| {
                let content = match files.is_null() {
                    true => result(text),
                    false => json!([{ "type": "text", "text": result(text) }, files]),
                };
                let mut block =
                    json!({ "role": "user", "type": "tool_result", "tool_use_id": id, "content": content });
                if serde_json::from_str::<Value>(text).is_err() {
                    block["is_error"] = json!(true);
                }
                block
            }));
        }
        Wire::Gemini => {
            let is_signed = thinking.is_some();
            sent.extend(thinking);
            sent.extend(reply.calls.iter().enumerate().map(|(index, (id, text))| {
                let call = json!({ "id": id, "name": name, "args": whole(text) });
                let mut part = json!({ "functionCall": call });
                if is_signed && index == 0 {
                    part["thoughtSignature"] = json!(SIGNATURE);
                }
                part
            }));
            for part in &mut sent {
                part["role"] = json!("model");
            }
            sent.extend(reply.calls.iter().map(|(id, text)| {
                let is_read = serde_json::from_str::<Value>(text).is_ok();
                let said = if is_read { "output" } else { "error" };
                let mut response = json!({ "id": id, "name": name, "response": { said: result(text) } });
                if is_inside && !files.is_null() {
                    response["parts"] = json!([files]);
                }
                json!({ "role": "user", "functionResponse": response })
            }));
            if !is_inside {
                sent.extend(behind(|text| json!({ "text": text })).into_iter().map(|mut part| {
                    part["role"] = json!("user");
                    part
                }));
            }
        }
        Wire::Bedrock => {
            let said = |block: Value| json!({ "role": "assistant", "block": block });
            sent.extend(thinking.map(said));
            sent.extend(reply.calls.iter().map(|(id, text)| {
                said(json!({ "toolUse": { "toolUseId": id, "name": name, "input": whole(text) } }))
            }));
            sent.extend(reply.calls.iter().map(|(id, text)| {
                let mut found = json!({ "toolUseId": id, "content": [{ "text": result(text) }] });
                if is_inside && let Some(content) = found["content"].as_array_mut() {
                    content.extend(Some(files.clone()).filter(|files| !files.is_null()));
                }
                if serde_json::from_str::<Value>(text).is_err() {
                    found["status"] = json!("error");
                }
                json!({ "role": "user", "block": { "toolResult": found } })
            }));
            if !is_inside {
                let parts = behind(|text| json!({ "text": text })).into_iter();
                sent.extend(parts.map(|block| json!({ "role": "user", "block": block })));
            }
        }
    }
    sent
}

/// The file that the tool returns, as a part of the wire; null where there is none, or the wire does not carry it.
fn returned(cell: &Cell) -> Value {
    let Some(file) = cell.row.returned.map(|returned| returned.file) else { return Value::Null };
    let data = base64(attached(file));
    let kind = match file.rsplit('.').next() {
        Some("png") => "image/png",
        Some("pdf") => "application/pdf",
        _ => "audio/wav",
    };
    let url = format!("data:{kind};base64,{data}");
    let source = json!({ "type": "base64", "media_type": kind, "data": data });
    match (cell.wire, kind) {
        (Wire::Gemini, _) => json!({ "inlineData": { "mimeType": kind, "data": data } }),
        (Wire::Chat, "audio/wav") => {
            json!({ "type": "input_audio", "input_audio": { "data": data, "format": "wav" } })
        }
        (Wire::Bedrock, "audio/wav") => json!({ "audio": { "format": "wav", "source": { "bytes": data } } }),
        (_, "audio/wav") => Value::Null,
        (Wire::Chat, "image/png") => json!({ "type": "image_url", "image_url": { "url": url } }),
        (Wire::Chat, _) => json!({ "type": "file", "file": { "filename": file, "file_data": url } }),
        (Wire::Responses, "image/png") => {
            json!({ "type": "input_image", "detail": "auto", "image_url": url })
        }
        (Wire::Responses, _) => json!({ "type": "input_file", "filename": file, "file_data": url }),
        (Wire::Anthropic, "image/png") => json!({ "type": "image", "source": source }),
        (Wire::Anthropic, _) => json!({ "type": "document", "source": source, "title": file }),
        (Wire::Bedrock, "image/png") => json!({ "image": { "format": "png", "source": { "bytes": data } } }),
        (Wire::Bedrock, _) => {
            json!({ "document": { "format": "pdf", "name": "paper pdf", "source": { "bytes": data } } })
        }
    }
}

/// The attachments of the last message of the user, as `data:` addresses or plain base64.
fn attachments(wire: Wire, body: &Value) -> Vec<String> {
    let blocks = spoken(wire, body).into_iter().flat_map(|message| match wire {
        Wire::Chat | Wire::Responses => message["content"].as_array().cloned().unwrap_or_default(),
        Wire::Anthropic | Wire::Gemini | Wire::Bedrock => vec![message],
    });
    let places = [
        "/block/image/source/bytes",
        "/block/document/source/bytes",
        "/block/audio/source/bytes",
        "/image_url/url",
        "/input_audio/data",
        "/file/file_data",
        "/image_url",
        "/file_data",
        "/source/data",
        "/inlineData/data",
    ];
    let data = blocks.filter_map(|block| {
        places.iter().find_map(|place| block.pointer(place)?.as_str().map(str::to_owned))
    });
    data.collect()
}

/// The tokens that the run counts. Failed and killed requests counted none.
fn tokens(turns: &[Turn], ended: &Ended, wrong: &mut Vec<String>) {
    let usage = &ended.report["usage"];
    let replies = turns.iter().filter(|turn| matches!(turn.manner, Manner::Plain | Manner::Pieces(_)));
    let mut expected = [0, 0, 0];
    let mut is_estimated = false;
    for turn in replies {
        let [input, cached, output] = match turn.reply.usage {
            Usage::Plain => [100, 0, 20],
            Usage::Cached => [1050, 900, 20],
            Usage::Missing => {
                is_estimated = true;
                [0, 0, 0]
            }
        };
        expected = [expected[0] + input, expected[1] + cached, expected[2] + output];
    }
    let count = |name: &str| usage[name].as_u64().unwrap_or_default();
    let cached = usage["details"]["cached_input_tokens"].as_u64().unwrap_or_default();
    let found = [count("input_tokens"), cached, count("output_tokens")];
    if is_estimated {
        let marked = usage.to_string().contains("estimated");
        if !marked || found[0] <= expected[0] || found[2] <= expected[2] {
            wrong.push(format!("the provider counted nothing, and the run has no estimate: {usage}"));
        }
        return;
    }
    if found != expected {
        wrong.push(format!(
            "counted {found:?} tokens (sent, cached, received), expected {expected:?}: {usage}"
        ));
    }
    // Prices of the workspace: 1, 0.1 and 10 dollars a million.
    let cost = (expected[0] - expected[1]) * 1_000 + expected[1] * 100 + expected[2] * 10_000;
    if count("cost_nano_usd") != cost {
        wrong.push(format!("costs {} billionths of a dollar, expected {cost}", usage["cost_nano_usd"]));
    }
}

/// Base64 as all providers want it.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for index in 0..4_usize {
            let letter = LETTERS[(bits >> (18 - 6 * index) & 63) as usize];
            text.push(if index <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}
