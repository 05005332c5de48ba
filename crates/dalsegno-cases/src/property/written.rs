//! A run that breaks a property, as a case that one can keep.

use std::fmt::Write as _;

use dalsegno_workspace::{Asked, Case, CaseAnswer, CaseResult, Gives, Message, Property, Says, Workspace};
use serde_json::{Value, json};

use super::outcomes::Invented;
use crate::judge::{self, Failure};
use crate::miss::{string, toml};
use crate::trajectory::{End, Trajectory};

/// The case, which fails as the run does.
pub(crate) fn case(
    case: &Case,
    property: &Property,
    made: &Invented,
    trajectory: &Trajectory,
    failure: &Failure,
) -> String {
    let draft = &case.draft;
    let mut text =
        format!("[[cases]]\nname = {}\n", string(&format!("{}: a run that broke it", draft.name.value)));
    let mut line = |key: &str, value: String| {
        let _ = writeln!(text, "{key} = {value}");
    };
    line("agent", string(draft.agent.value.as_str()));
    if draft.tenant != Workspace::DEFAULT_TENANT {
        line("tenant", string(&draft.tenant));
    }
    match &draft.messages[..] {
        [Message::User(said)] => line("input", string(said)),
        messages => line("messages", list(messages.iter().map(message))),
    }
    for (key, value) in [("user", &draft.user), ("data", &draft.data)] {
        if !value.is_null() {
            line(key, toml(value));
        }
    }
    if !made.replies.is_empty() {
        line("replies", list(made.replies.iter().map(toml)));
    }
    let given = draft.results.iter().map(|given| CaseResult { repeat: true, ..given.clone() });
    let results: Vec<String> =
        made.results.iter().cloned().chain(given).map(|one| toml(&result(&one))).collect();
    if !results.is_empty() {
        line("results", list(results));
    }
    if !made.answers.is_empty() {
        line("answers", list(made.answers.iter().map(|one| toml(&answer(one)))));
    }
    let expect = &draft.expect;
    let ends = match property.ends.first().filter(|_| failure.what == "ends") {
        Some(expected) => expected.as_str(),
        None => trajectory.end.as_ref().map_or("completed", End::kind),
    };
    line("ends", string(ends));
    let never = expect
        .never
        .iter()
        .map(|rule| json!({ "tool": rule.tool.value.as_str(), "when": rule.when.source() }));
    let texts = [
        ("never", never.collect::<Vec<Value>>()),
        ("never_calls", expect.never_calls.iter().map(|one| one.value.as_str().into()).collect()),
        ("always", expect.always.iter().map(|one| one.value.source().into()).collect()),
    ];
    for (key, items) in texts.into_iter().filter(|(_, items)| !items.is_empty()) {
        line(key, toml(&items.into()));
    }
    for (key, bound) in [("max_steps", &expect.max_steps), ("max_tokens", &expect.max_tokens)] {
        if let Some(bound) = bound {
            line(key, bound.value.to_string());
        }
    }
    if let Some(bound) = &expect.max_cost_nano_usd {
        line("max_cost_usd", judge::dollars(bound.value));
    }
    text.trim_end().to_owned()
}

/// A list with a line for each item.
fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: String = items.into_iter().map(|item| format!("  {item},\n")).collect();
    format!("[\n{items}]")
}

fn message(message: &Message) -> String {
    let (who, text) = match message {
        Message::User(text) => ("user", text),
        Message::Assistant(text) => ("assistant", text),
    };
    toml(&json!({ who: text }))
}

fn result(result: &CaseResult) -> Value {
    let (key, name) = match &result.of {
        Asked::Tool(name) => ("tool", name),
        Asked::Memory(name) => ("memory", name),
        Asked::Http(name) => ("http", name),
        Asked::Mail(name) => ("mail", name),
        Asked::Transfer(name) => ("transfer", name),
        Asked::Agent(name) => ("agent", name),
    };
    let mut value = json!({ key: name, "with": result.with });
    if result.repeat {
        value["repeat"] = true.into();
    }
    match &result.gives {
        Gives::Answer { returns, text, status } => {
            value["returns"] = returns.clone().unwrap_or_default();
            value["text"] = text.clone().map(Value::from).unwrap_or_default();
            if *status != 200 {
                value["status"] = (*status).into();
            }
        }
        Gives::Run(replies) => value["replies"] = replies.iter().map(|reply| reply.value.clone()).collect(),
        Gives::Error(error) => value["error"] = error.clone().into(),
        Gives::Fails { code, message } => {
            value["fails"] = code.as_str().into();
            value["message"] = message.clone().into();
        }
    }
    value
}

fn answer(answer: &CaseAnswer) -> Value {
    let (key, value) = match &answer.says {
        Says::Approve => ("approve", true.into()),
        Says::Deny(reason) => ("deny", reason.clone().into()),
        Says::Edit(arguments) => ("edit", arguments.clone()),
        Says::Give(value) => ("give", value.clone()),
        Says::Done(value) => ("done", value.clone()),
        Says::NotDone => ("not_done", true.into()),
    };
    json!({ "to": answer.to, key: value })
}
