//! Reads a file of cases.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Value, json as value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{CASE, FILE, FILE_TEXTS, GIVEN, HOLDS, MESSAGE, OF_CALLS, PROPERTY, RESULT};
use super::outcome::{answers, any, one_of, results};
use super::turn::turns;
use super::{CaseAnswer, CaseResult, Draft, Message, Property, Replies, expect, form};
use crate::agent::json;
use crate::code::Code;
use crate::place::Place;
use crate::report::Report;
use crate::schema::REPLY;
use crate::section::{Located, Section, wrong_type};
use crate::settings::{Paths, Reach};
use crate::shape::Form;
use crate::workspace::Workspace;

/// What a file says for all of its cases.
struct Shared {
    agent: Option<Located<dalsegno_core::AgentName>>,
    tenant: Option<String>,
    user: Value,
    script: Option<PathBuf>,
    results: Vec<CaseResult>,
}

/// Reads the cases of a file that was just parsed. Those that have errors are left out, and reported.
pub(super) fn read(report: &Report, table: &DeTable<'_>, root: &Path) -> Vec<Draft> {
    report.set_absent(FILE_TEXTS.iter().copied().filter(|key| !table.contains_key(*key)));
    let paths = Paths { report, place: Place::on_disk(root), reach: Reach::Workspace };
    let file = Section::open(report, table, 0..0, FILE.what, &FILE);
    let shared = Shared {
        agent: file.parsed("agent"),
        tenant: file.string("tenant").map(|text| text.value),
        user: user(&file).unwrap_or_default(),
        script: script(&file, &paths),
        results: results(&file, true, &RESULT),
    };
    let items = |key| file.items(key, "a list of tables").iter();
    let cases = items("cases").filter_map(|item| case(report, item, &shared, &paths));
    let mut drafts: Vec<Draft> = cases.collect();
    drafts.extend(items("properties").filter_map(|item| property(report, item, &shared)));
    file.require_all();
    drafts
}

fn script(section: &Section<'_>, paths: &Paths<'_>) -> Option<PathBuf> {
    paths.file(section, "script", "create the script, or correct the path")
}

fn user(section: &Section<'_>) -> Option<Value> {
    let found = section.get("user")?;
    if !matches!(found.get_ref(), DeValue::Table(_)) {
        return wrong_type(section.report, "user", found, "a table");
    }
    any(section, "user")
}

/// What a case and a property have in common: who is asked, and what.
fn begin(section: &Section<'_>, shared: &Shared) -> Option<Draft> {
    let (report, what) = (section.report, section.what());
    let name = section.string("name");
    if let Some(name) = name.as_ref().filter(|name| name.value.trim().is_empty()) {
        report
            .error(Code::InvalidValue, name.span.clone(), format!("{what} has an empty name"))
            .help("say what it shows");
    }
    let messages = messages(section);
    let agent = match section.has("agent") {
        true => section.parsed("agent"),
        false => shared.agent.clone(),
    };
    if agent.is_none() && !section.has("agent") && !report.is_elsewhere("agent") {
        report
            .error(Code::MissingKey, section.span.clone(), format!("{what} has no `agent`"))
            .help("add `agent = \"…\"` to it, or at the top of the file for all cases");
    }
    let tenant = section.string("tenant").map(|text| text.value).or_else(|| shared.tenant.clone());
    let user = if section.has("user") { user(section) } else { Some(shared.user.clone()) };
    let draft = Draft {
        data: any(section, "data").unwrap_or_default(),
        tenant: tenant.unwrap_or_else(|| Workspace::DEFAULT_TENANT.to_owned()),
        user: user.unwrap_or_default(),
        turns: Vec::new(),
        replies: Replies::Written(Vec::new()),
        cassette: None,
        results: Vec::new(),
        shared: Vec::new(),
        answers: Vec::new(),
        expect: expect::bounds(section),
        property: None,
        agent: agent?,
        messages: messages?,
        name: name?,
    };
    Some(draft)
}

/// A case whose outcomes are made up. What a file gives to all of its cases is not given to a property.
fn property(report: &Report, item: &Spanned<DeValue<'_>>, shared: &Shared) -> Option<Draft> {
    let section = Section::of(report, "properties", item, PROPERTY.what, &PROPERTY)?;
    if !HOLDS.iter().any(|key| section.has(key)) {
        report.error(Code::MissingKey, section.span.clone(), "a property does not say what must hold").help(
            "add `never = [{ tool = \"…\", when = \"…\" }]`, `always = [\"…\"]` or `never_calls = [\"…\"]`",
        );
    }
    let runs = section.integer("runs").unwrap_or(Property::RUNS);
    let ends = expect::ways(&section, "ends");
    // They answer every request that they fit, in each of the runs.
    let results = results(&section, true, &GIVEN);
    Some(Draft { results, property: Some(Property { runs, ends }), ..begin(&section, shared)? })
}

fn case(report: &Report, item: &Spanned<DeValue<'_>>, shared: &Shared, paths: &Paths<'_>) -> Option<Draft> {
    let section = Section::of(report, "cases", item, CASE.what, &CASE)?;
    let draft = begin(&section, shared);
    let replies = replies(&section);
    let own_script = script(&section, paths);
    if let (true, Some(span)) = (section.has("replies"), section.key_span("script")) {
        report
            .error(Code::InvalidValue, span, "a case has both `replies` and `script`")
            .help("keep one of them");
    }
    let replies = match replies {
        Some(replies) => Replies::Written(replies),
        None => match own_script.or_else(|| shared.script.clone()) {
            Some(script) => Replies::Script(script),
            None => Replies::Written(Vec::new()),
        },
    };
    let cassette = paths
        .file(&section, "cassette", "record it with `dalsegno test --from-run`, or correct the path")
        .zip(section.get("cassette"))
        .map(|(path, value)| Located { value: path, span: value.span() });
    let (results, answers, expect) =
        (results(&section, false, &RESULT), answers(&section), expect::read(&section));
    let turns = turns(&section);
    of_a_call(&section, &results, &answers);
    let shared = shared.results.clone();
    Some(Draft { turns, results, shared, answers, cassette, replies, expect, ..draft? })
}

/// Reports what means something in a call alone, or everywhere but in a call.
fn of_a_call(section: &Section<'_>, results: &[CaseResult], answers: &[CaseAnswer]) {
    let without = |span: Option<Range<usize>>, message: String, help: &str| {
        if let Some(span) = span {
            section.report.error(Code::NoEffect, span, message).help(help);
        }
    };
    if section.has("turns") {
        for key in ["replies", "script"].into_iter().filter(|key| section.has(key)) {
            let help = "write what the live model says as `[[cases.turns]]` with `model`";
            without(section.key_span(key), format!("`{key}` has no meaning for a call"), help);
        }
        return;
    }
    let help = "add `[[cases.turns]]`, or remove it";
    for key in OF_CALLS.iter().filter(|key| section.has(key)) {
        without(section.key_span(key), format!("`{key}` has a meaning only for a call"), help);
    }
    let timed = results.iter().filter(|result| result.takes_ms > 0).map(|result| ("takes", &result.span));
    let late = answers.iter().filter(|answer| answer.after_ms > 0).map(|answer| ("after", &answer.span));
    for (key, span) in timed.chain(late) {
        without(Some(span.clone()), format!("`{key}` has a meaning only for a call"), help);
    }
}

/// What the user says, as a conversation.
fn messages(section: &Section<'_>) -> Option<Vec<Message>> {
    // A property is no call.
    let kinds = if section.form("turns").is_some() { CASE.one_of } else { PROPERTY.one_of };
    match one_of(section, kinds)? {
        "turns" => return Some(Vec::new()),
        "input" => return Some(vec![Message::User(section.string("input")?.value)]),
        _ => {}
    }
    let list = section.get("messages")?;
    let items = section.items("messages", "a list of tables").iter();
    let read = items.map(|item| {
        let message = Section::of(section.report, "messages", item, MESSAGE.what, &MESSAGE)?;
        let who = one_of(&message, MESSAGE.one_of)?;
        let text = message.string(who)?.value;
        Some(if who == "user" { Message::User(text) } else { Message::Assistant(text) })
    });
    let read: Vec<_> = read.collect();
    let messages: Vec<Message> = read.into_iter().collect::<Option<_>>()?;
    // The user begins, each answers the other, and the user has the last word.
    let alternates = messages
        .iter()
        .enumerate()
        .all(|(number, message)| matches!(message, Message::User(_)) == number.is_multiple_of(2));
    if !alternates || messages.len().is_multiple_of(2) {
        section
            .report
            .error(
                Code::InvalidValue,
                list.span(),
                "`messages` is not a conversation that the user has begun",
            )
            .label("expected `user`, `assistant`, `user` and so on; the last one is by the user")
            .help("write one message for each turn");
        return None;
    }
    Some(messages)
}

/// What the models reply, each as a script has it.
pub(super) fn replies(section: &Section<'_>) -> Option<Vec<Located<Value>>> {
    section.get("replies")?;
    let items = section.items("replies", "a list of tables").iter();
    let replies = items.filter_map(|item| {
        form::check(section.report, "replies", item, Form::Table(&REPLY));
        let mut reply = json(section.report, "replies", item, &mut |_, _| {})?;
        // A reply with nothing in it is one of empty text.
        if reply.as_object().is_some_and(serde_json::Map::is_empty) {
            reply = value!({ "text": "" });
        }
        Some(Located { value: reply, span: item.span() })
    });
    Some(replies.collect())
}
