//! A request as a person reads it: all that is sent, and nothing of the form in which the engine keeps it.

use dalsegno_core::Request;
use dalsegno_history::WaitingOperation;
use serde_json::{Value, json};

use super::screen::inert;
use super::text::{count, time};

/// All of what a request asks for, in lines. No value can pass for another one: a text of several lines is indented below its
/// name, and a line break in any other value is escaped.
pub(crate) fn lines(request: &Request) -> Vec<String> {
    let lines = raw(request);
    lines.into_iter().map(|line| line.replace('\n', "\\n").replace('\t', "\\t")).collect()
}

fn raw(request: &Request) -> Vec<String> {
    let mut lines = Vec::new();
    match request {
        Request::ModelCompletion(completion) => {
            lines.push(format!("{}: `--prompt` shows them", count(completion.entries, "message")));
        }
        Request::MemorySearch(search) => {
            field("query", &search.query, &mut lines);
            lines.push(format!("limit: {}", search.limit));
            lines.push(format!("min_score: {}", search.min_score));
        }
        Request::MemoryCreate(create) => {
            lines.push(format!("entity: {} ({})", create.entity, create.entity_type));
            let relations = create.relations.iter();
            lines.extend(relations.map(|related| format!("relation: {} {}", related.relation, related.to)));
            field("content", &create.content, &mut lines);
        }
        Request::MemoryTraverse(walk) => {
            lines.push(format!("from: {}", walk.from));
            lines.extend(walk.relation.iter().map(|relation| format!("relation: {relation}")));
            lines.push(format!("depth: {}", walk.depth));
            lines.push(format!("limit: {}", walk.limit));
        }
        Request::ToolCall(call) => json_lines(&call.parameters, &mut lines),
        Request::ApiCall(call) => {
            let pairs: Vec<String> =
                call.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let query = match (pairs.is_empty(), call.url.to_string().contains('?')) {
                (true, _) => String::new(),
                (false, false) => format!("?{}", pairs.join("&")),
                (false, true) => format!("&{}", pairs.join("&")),
            };
            lines.push(format!("{} {}{query}", call.method.as_str(), call.url));
            lines.extend(call.headers.iter().map(|(name, value)| format!("{name}: {value}")));
            if let Some(body) = &call.body {
                let mut inner = Vec::new();
                value_lines(&body.value, &mut inner);
                lines.push("body:".to_owned());
                lines.extend(inner.into_iter().map(|line| format!("  {line}")));
            }
        }
        Request::Email(mail) => {
            lines.push(format!("from: {}", mail.from));
            for (name, addresses) in [("to", &mail.to), ("cc", &mail.cc), ("bcc", &mail.bcc)] {
                if !addresses.is_empty() {
                    lines.push(format!("{name}: {}", addresses.join(", ")));
                }
            }
            lines.extend(mail.reply_to.iter().map(|address| format!("reply-to: {address}")));
            lines.push(format!("subject: {}", mail.subject));
            lines.push(format!("server: {}:{}", mail.host, mail.port));
            field("text", &mail.body, &mut lines);
            if let Some(html) = &mail.html {
                field("html", html, &mut lines);
            }
        }
        Request::Transfer(transfer) => lines.push(format!("to: {}", transfer.target)),
        Request::AgentCall(call) => {
            field("text", &call.text, &mut lines);
            if !call.data.is_null() {
                lines.push("data:".to_owned());
                json_lines(&call.data, &mut lines);
            }
        }
        Request::Input(input) => {
            lines.extend(input.question.lines().map(str::to_owned));
            if let Some(schema) = &input.schema {
                lines.push("schema:".to_owned());
                json_lines(schema, &mut lines);
            }
        }
        Request::Timer(timer) => lines.push(format!("until: {}", time(timer.until))),
    }
    lines
}

/// The request of an operation that waits and is no tool call; none for a tool call, whose arguments are plain JSON.
pub(crate) fn waiting(operation: &WaitingOperation) -> Option<Request> {
    let arguments = operation.arguments.as_ref().filter(|_| operation.tool.is_none())?;
    let kinds = ["api_call", "email", "agent_call", "memory_create", "memory_search", "memory_traverse"];
    kinds.into_iter().find_map(|kind| serde_json::from_value(json!({ kind: arguments })).ok())
}

/// A value in lines: a text as it is, everything else as JSON.
pub(crate) fn value_lines(value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::String(text) => lines.extend(text.lines().map(str::to_owned)),
        other => json_lines(other, lines),
    }
}

fn json_lines(value: &Value, lines: &mut Vec<String>) {
    lines.extend(inert(&format!("{value:#}")).lines().map(str::to_owned));
}

/// A text behind its name, or below it where it has several lines.
fn field(name: &str, text: &str, lines: &mut Vec<String>) {
    if text.contains('\n') {
        lines.push(format!("{name}:"));
        lines.extend(text.lines().map(|line| format!("  {line}")));
    } else {
        lines.push(format!("{name}: {text}"));
    }
}
