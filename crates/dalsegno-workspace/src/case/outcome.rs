//! Reads what comes of the requests of a case, and what people answer.

use dalsegno_core::{AgentName, FailureCode, ToolName};
use serde_json::Value;
use toml::Spanned;
use toml::de::DeValue;

use super::keys::{ANSWER, FAILURES, SAYS, SUBJECTS};
use super::read::replies;
use super::{Asked, CaseAnswer, CaseResult, Gives, Says};
use crate::agent::json;
use crate::code::Code;
use crate::names::list;
use crate::report::Report;
use crate::section::Section;
use crate::shape::Shape;

/// A value as it stands, as JSON.
pub(super) fn any(section: &Section<'_>, key: &str) -> Option<Value> {
    json(section.report, key, section.get(key)?, &mut |_, _| {})
}

/// Reads `[[results]]`. Those of a whole file are used as often as they are asked for.
pub(super) fn results(section: &Section<'_>, shared: bool, shape: &'static Shape) -> Vec<CaseResult> {
    let items = section.items("results", "a list of tables");
    items.iter().filter_map(|item| result(section.report, item, shared, shape)).collect()
}

fn result(
    report: &Report,
    item: &Spanned<DeValue<'_>>,
    shared: bool,
    shape: &'static Shape,
) -> Option<CaseResult> {
    let section = Section::of(report, "results", item, shape.what, shape)?;
    let subject = one_of(&section, SUBJECTS)?;
    let named = match subject {
        "memory" => {
            section.choice(subject, &["search", "create", "traverse"].map(|word| (word, word)))?.to_owned()
        }
        "tool" => section.parsed::<ToolName>(subject)?.value.to_string(),
        "agent" => section.parsed::<AgentName>(subject)?.value.to_string(),
        _ => section.string(subject)?.value,
    };
    let of = match subject {
        "tool" => Asked::Tool(named),
        "memory" => Asked::Memory(named),
        "http" => {
            check_http(&section, &named)?;
            Asked::Http(named)
        }
        "mail" => Asked::Mail(named),
        "transfer" => Asked::Transfer(named),
        _ => Asked::Agent(named),
    };
    check_keys(&section, &of);
    let gives = gives(&section)?;
    let with = any(&section, "with").unwrap_or_default();
    let repeat = section.boolean("repeat").unwrap_or(shared);
    let takes_ms = section.form("takes").and_then(|_| section.millis("takes")).unwrap_or_default();
    Some(CaseResult { of, with, gives, repeat, takes_ms, span: section.span })
}

/// What is asked over HTTP is a method and an address, or anything.
fn check_http(section: &Section<'_>, named: &str) -> Option<()> {
    let is_request = named.split_once(' ').is_some_and(|(method, url)| {
        let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
        is_method && !url.is_empty() && !url.contains(char::is_whitespace)
    });
    if named == "*" || is_request {
        return Some(());
    }
    let span = section.get("http")?.span();
    section
        .report
        .error(Code::InvalidValue, span, format!("`http` cannot be `{named}`"))
        .label("expected a method and an address, such as `POST https://api.example.com/refunds`, or `*`");
    None
}

/// Reports a key that means nothing for this kind of request.
fn check_keys(section: &Section<'_>, of: &Asked) {
    let (what, none): (&str, &[&str]) = match of {
        Asked::Tool(_) => ("a tool", &["status", "replies"]),
        Asked::Memory(word) if word == "create" => {
            ("a memory that is added to", &["returns", "text", "error", "status", "replies"])
        }
        Asked::Memory(_) => ("a memory", &["text", "error", "status", "replies"]),
        Asked::Http(_) => ("an HTTP request", &["error", "replies"]),
        Asked::Mail(_) => ("a mail", &["returns", "text", "error", "status", "replies"]),
        Asked::Transfer(_) => ("a transfer", &["returns", "text", "error", "status", "replies"]),
        Asked::Agent(_) => ("an agent", &["status"]),
    };
    for key in none.iter().filter(|key| section.form(key).is_some()) {
        if let Some(span) = section.key_span(key) {
            section
                .report
                .error(Code::NoEffect, span, format!("`{key}` has no meaning for the result of {what}"))
                .help("remove it");
        }
    }
}

fn gives(section: &Section<'_>) -> Option<Gives> {
    let answers = ["returns", "text", "status"].iter().any(|key| section.has(key));
    // What models reply in a property is made up.
    let is_run = section.form("replies").is_some() && section.has("replies");
    let kinds = [answers, section.has("error"), section.has("fails"), is_run];
    if kinds.iter().filter(|kind| **kind).count() > 1 {
        section
            .report
            .error(
                Code::InvalidValue,
                section.span.clone(),
                "a result is an answer, an error, a failure or the run of an agent, not several of them",
            )
            .help("keep `returns`, `text` and `status`, or `error`, or `fails`, or `replies`");
        return None;
    }
    if !section.has("fails")
        && let Some(span) = section.key_span("message")
    {
        section
            .report
            .error(Code::NoEffect, span, "`message` is that of a failure, and this result is none")
            .help("add `fails = \"…\"`, or remove it");
    }
    if is_run {
        return replies(section).map(Gives::Run);
    }
    if let Some(error) = section.string("error") {
        return Some(Gives::Error(error.value));
    }
    if section.has("fails") {
        let words: Vec<_> = FAILURES.iter().copied().zip(FailureCode::ALL.iter().copied()).collect();
        let code = section.choice("fails", &words)?;
        let message = section.string("message").map(|text| text.value);
        let message = message.unwrap_or_else(|| "it failed, as the case says".to_owned());
        return Some(Gives::Fails { code, message });
    }
    let returns = any(section, "returns");
    let text = section.string("text").map(|text| text.value);
    let status = section.integer("status").unwrap_or(200);
    Some(Gives::Answer { returns, text, status })
}

/// Reads `[[answers]]`.
pub(super) fn answers(section: &Section<'_>) -> Vec<CaseAnswer> {
    let items = section.items("answers", "a list of tables");
    items.iter().filter_map(|item| answer(section.report, item)).collect()
}

fn answer(report: &Report, item: &Spanned<DeValue<'_>>) -> Option<CaseAnswer> {
    let section = Section::of(report, "answers", item, ANSWER.what, &ANSWER)?;
    let to = section.string("to").map(|text| text.value);
    let kind = one_of(&section, SAYS)?;
    let says = match kind {
        "approve" => affirmed(&section, kind, Says::Approve)?,
        "not_done" => affirmed(&section, kind, Says::NotDone)?,
        "deny" => Says::Deny(section.string(kind)?.value),
        "edit" => {
            let value = any(&section, kind)?;
            if !value.is_object() {
                crate::section::wrong_type::<()>(report, kind, section.get(kind)?, "a table");
                return None;
            }
            Says::Edit(value)
        }
        "give" => Says::Give(any(&section, kind)?),
        _ => Says::Done(any(&section, kind)?),
    };
    let after_ms = section.millis("after").unwrap_or_default();
    Some(CaseAnswer { to, says, after_ms, span: section.span })
}

/// A key that says something by being `true`.
fn affirmed(section: &Section<'_>, key: &str, says: Says) -> Option<Says> {
    if section.boolean(key)? {
        return Some(says);
    }
    let span = section.get(key)?.span();
    section
        .report
        .error(Code::InvalidValue, span, format!("`{key}` cannot be `false`"))
        .label("expected `true`")
        .help("write `deny = \"why\"` for a no");
    None
}

/// The one key of several that is there; reports none and several.
pub(crate) fn one_of(section: &Section<'_>, keys: &[&'static str]) -> Option<&'static str> {
    let found: Vec<&'static str> = keys.iter().copied().filter(|key| section.has(key)).collect();
    match found[..] {
        [one] => Some(one),
        [] => {
            section
                .report
                .error(
                    Code::MissingKey,
                    section.span.clone(),
                    format!("{} lacks one of {}", section.what(), list(keys)),
                )
                .help(format!("add one of {}", list(keys)));
            None
        }
        [_, second, ..] => {
            let span = section.key_span(second).unwrap_or_else(|| section.span.clone());
            section
                .report
                .error(Code::InvalidValue, span, format!("{} has several of {}", section.what(), list(keys)))
                .help("keep one of them");
            None
        }
    }
}
