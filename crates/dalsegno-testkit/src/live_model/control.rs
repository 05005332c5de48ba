//! What is asked about calls of telephones: one request of HTTP a connection, checked against the published types.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{LiveControl, LiveRefer, LiveStage, Shared};

/// Most bytes of a request.
const REQUEST_BYTES: usize = 1 << 20;

/// The keys of a session with which a call is accepted.
const SESSION_KEYS: [&str; 14] = [
    "type",
    "audio",
    "include",
    "instructions",
    "max_output_tokens",
    "model",
    "output_modalities",
    "parallel_tool_calls",
    "prompt",
    "reasoning",
    "tool_choice",
    "tools",
    "tracing",
    "truncation",
];

/// A request.
struct Asked {
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// Answers the one request of a connection.
pub(super) async fn answer(mut stream: TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    let Some(asked) = read(&mut stream).await? else { return Ok(()) };
    if asked.path.ends_with("/accept") {
        let time = *shared.answered_after.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::time::sleep(time).await;
    }
    let Some((status, said)) = perform(&asked, shared) else { return Ok(()) };
    let body = said.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.shutdown().await
}

async fn read(stream: &mut TcpStream) -> std::io::Result<Option<Asked>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await? == 0 || bytes.len() > REQUEST_BYTES {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(end + 4);
    while body.len() < length && body.len() <= REQUEST_BYTES {
        if stream.read_buf(&mut body).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(Asked { path, headers, body }))
}

/// What it comes to; none where it is not answered.
fn perform(asked: &Asked, shared: &Arc<Shared>) -> Option<(u16, Value)> {
    let refused = |status: u16, why: &str| {
        (status, json!({ "error": { "message": why, "type": "invalid_request_error" } }))
    };
    if !shared.is_known(asked.headers.get("authorization").map(String::as_str)) {
        return Some(refused(401, "wrong key"));
    }
    let live = asked.path.strip_prefix("/v1/live/sessions/");
    let rest = live.or_else(|| asked.path.strip_prefix("/v1/realtime/calls/"));
    let Some((call, verb)) = rest.and_then(|rest| rest.split_once('/')) else {
        return Some(refused(404, "no such address"));
    };
    let is_json = asked.headers.get("content-type").is_some_and(|kind| kind == "application/json");
    let body: Value = match asked.body.as_slice() {
        [] => Value::Null,
        bytes if is_json => serde_json::from_slice(bytes).unwrap_or(json!("no JSON")),
        _ => json!("not application/json"),
    };
    let refer = *shared.refers.lock().unwrap_or_else(PoisonError::into_inner);
    let judged = match (live.is_some(), verb) {
        (true, "accept") => judge_live(&body),
        _ => judge(verb, &body),
    };
    let is_its = shared.stage(call) == Some(LiveStage::Gone) || shared.is_live(call) == live.is_some();
    let (status, said) = match (judged, shared.stage(call).filter(|_| is_its), verb) {
        (Err(why), ..) => refused(400, &why),
        (Ok(()), None | Some(LiveStage::Gone), _) => refused(404, "no such call"),
        (Ok(()), Some(LiveStage::Ringing), "accept") => {
            shared.accept(call, &body);
            (200, json!({}))
        }
        (Ok(()), Some(LiveStage::Ringing), "reject") | (Ok(()), Some(LiveStage::Accepted), "hangup") => {
            shared.end(call);
            (200, json!({}))
        }
        (Ok(()), Some(LiveStage::Accepted), "refer") => match refer {
            LiveRefer::Refused(status) => refused(status, "it cannot be transferred"),
            LiveRefer::NotAnswered => (200, json!({})),
            LiveRefer::Made | LiveRefer::Unanswered => {
                shared.end(call);
                (200, json!({}))
            }
        },
        (Ok(()), Some(LiveStage::Accepted), _) => refused(409, "the call was accepted already"),
        (Ok(()), Some(LiveStage::Ringing), _) => refused(404, "the call was not accepted"),
    };
    let (call, verb) = (call.to_owned(), verb.to_owned());
    let is_answered = (&*verb, refer) != ("refer", LiveRefer::Unanswered);
    shared.book().controls.push(LiveControl { call, verb, body, status });
    shared.changed.notify_waiters();
    is_answered.then_some((status, said))
}

/// Looks whether a body accepts a call of the Live API as the published types allow.
fn judge_live(body: &Value) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("wrong {what}"));
    let session = &body["session"];
    let keys = [
        "audio",
        "delegation",
        "input",
        "instructions",
        "model",
        "safety_identifier",
        "store",
        "triggers",
        "type",
    ];
    let Some(own) = session.as_object().filter(|_| body.as_object().is_some_and(|body| body.len() == 1))
    else {
        return wrong("body");
    };
    if let Some(key) = own.keys().find(|key| !keys.contains(&key.as_str())) {
        return wrong(key);
    }
    if session["type"] != "live" || !session["model"].is_string() || !session["instructions"].is_string() {
        return wrong("type, model or instructions");
    }
    if session["delegation"] == json!({ "type": "client" }) {
        return Ok(());
    }
    let backend = &session["delegation"]["responses"];
    if session["delegation"]["type"] != "responses" || !backend["model"].is_string() {
        return wrong("delegation");
    }
    let is_function = |tool: &Value| {
        tool["type"] == "function" && tool["name"].is_string() && tool["parameters"].is_object()
    };
    match backend["tools"].as_array().is_some_and(|tools| tools.iter().all(is_function)) {
        true => Ok(()),
        false => wrong("tools"),
    }
}

/// Looks whether a body is one that the published types allow.
fn judge(verb: &str, body: &Value) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("wrong {what}"));
    match verb {
        "accept" => {
            let Some(session) = body.as_object() else { return wrong("body") };
            if let Some(key) = session.keys().find(|key| !SESSION_KEYS.contains(&key.as_str())) {
                return wrong(key);
            }
            if body["type"] != "realtime" || !body["model"].is_string() || !body["instructions"].is_string() {
                return wrong("type, model or instructions");
            }
            if body["output_modalities"] != json!(["audio"]) {
                return wrong("output_modalities: a caller hears no text");
            }
            let is_function = |tool: &Value| {
                tool["type"] == "function" && tool["name"].is_string() && tool["parameters"].is_object()
            };
            if !body["tools"].as_array().is_some_and(|tools| tools.iter().all(is_function)) {
                return wrong("tools");
            }
            Ok(())
        }
        "reject" => match body["status_code"].as_u64() {
            Some(300..=699) => Ok(()),
            _ => wrong("status_code"),
        },
        "refer" => match body["target_uri"].as_str() {
            Some(uri) if uri.starts_with("tel:") || uri.starts_with("sip:") => Ok(()),
            _ => wrong("target_uri"),
        },
        "hangup" if body.is_null() => Ok(()),
        _ => wrong("address or body"),
    }
}
