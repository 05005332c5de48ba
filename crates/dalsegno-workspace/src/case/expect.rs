//! Reads what must hold of a case.

use dalsegno_core::{EndedBy, RunErrorCode};
use dalsegno_expr::Expression;
use regex::{Regex, RegexBuilder};
use toml::de::DeValue;

use super::keys::{CALL, ENDED_BY, ENDS, ERRORS, FORBIDDEN, OUTPUT_OF_CALL};
use super::outcome::any;
use super::{Ends, Expectations, ExpectedCall, ExpectedOutput, TalkExpectations};
use crate::agent::{CallRule, expression};
use crate::code::Code;
use crate::names::{list, suggestion};
use crate::section::{Located, Section, string, wrong_type};

/// Most bytes of a compiled regular expression.
const REGEX_BYTES: usize = 1 << 20;

/// What must hold of a case.
pub(super) fn read(case: &Section<'_>) -> Expectations {
    Expectations {
        hands_over_to: case.parsed("hands_over_to"),
        snapshot: case.boolean("snapshot").unwrap_or(false),
        effects: located(case, "effects", |case, key| Some(calls(case, key))),
        talk: talk(case),
        ..checks(case, READABLE)
    }
}

/// What must hold of a call.
fn talk(case: &Section<'_>) -> TalkExpectations {
    let by: Vec<_> =
        ENDED_BY.iter().copied().zip([EndedBy::Caller, EndedBy::Agent, EndedBy::Provider]).collect();
    let regexes = |key: &str| {
        let texts = texts(case, key).into_iter();
        texts.filter_map(|text| regex(case, key, text)).collect()
    };
    TalkExpectations {
        outputs: located(case, "outputs", |case, key| Some(outputs(case, key))),
        said: regexes("said_matches"),
        told: regexes("told_matches"),
        max_silence_ms: located(case, "max_silence", |case, key| case.millis(key)),
        ended_by: located(case, "ended_by", |case, key| case.choice(key, &by)),
    }
}

/// The outputs that the live model must get. Items that do not fit are left out, and reported.
fn outputs(case: &Section<'_>, key: &str) -> Vec<ExpectedOutput> {
    let items = case.items(key, "a list of tools").iter();
    let outputs = items.filter_map(|item| match item.get_ref() {
        DeValue::String(tool) => Some(ExpectedOutput { tool: tool.to_string(), says: None }),
        DeValue::Table(_) => {
            let output = Section::of(case.report, key, item, OUTPUT_OF_CALL.what, &OUTPUT_OF_CALL)?;
            let tool = output.string("tool")?.value;
            Some(ExpectedOutput { tool, says: output.string("says").map(|text| text.value) })
        }
        _ => wrong_type(case.report, key, item, "the name of a tool, or a table with `tool` and `says`"),
    });
    outputs.collect()
}

/// What must hold of a run of an eval, and of a case; its conditions read these names.
pub(crate) fn checks(case: &Section<'_>, readable: &[&str]) -> Expectations {
    let ends: Vec<_> = ENDS.iter().copied().zip(Ends::ALL).collect();
    let errors: Vec<_> = ERRORS.iter().copied().zip(RunErrorCode::ALL.iter().copied()).collect();
    Expectations {
        ends: located(case, "ends", |case, key| case.choice(key, &ends)),
        error: located(case, "error", |case, key| case.choice(key, &errors)),
        calls: located(case, "calls", |case, key| Some(calls(case, key))),
        asks: located(case, "asks", |case, key| {
            let texts: Vec<Located<String>> = case.list(key);
            Some(texts.into_iter().map(|text| text.value).collect())
        }),
        answer: case.string("answer"),
        answer_contains: texts(case, "answer_contains"),
        answer_matches: case.string("answer_matches").and_then(|text| regex(case, "answer_matches", text)),
        output: located(case, "output", any),
        ..bounds_by(case, readable)
    }
}

/// What can be said of one run and of all: what a case and a property have in common.
pub(super) fn bounds(section: &Section<'_>) -> Expectations {
    bounds_by(section, READABLE)
}

fn bounds_by(section: &Section<'_>, readable: &[&str]) -> Expectations {
    Expectations {
        never_calls: section.list("never_calls"),
        never: never(section),
        always: always(section, readable),
        max_steps: located(section, "max_steps", |section, key| section.integer(key)),
        max_tokens: located(section, "max_tokens", |section, key| section.integer(key)),
        max_cost_nano_usd: located(section, "max_cost_usd", |section, key| section.dollars(key)),
        ..Expectations::default()
    }
}

/// The ways in which a run may end.
pub(super) fn ways(case: &Section<'_>, key: &str) -> Vec<Ends> {
    let words: Vec<Located<String>> = case.list(key);
    let known = |word: &Located<String>| {
        let found = Ends::ALL.into_iter().find(|end| end.as_str() == word.value);
        if found.is_none() {
            case.report
                .error(Code::InvalidValue, word.span.clone(), format!("a run cannot end as `{}`", word.value))
                .label(format!("expected one of {}", list(ENDS)));
        }
        found
    };
    words.iter().filter_map(known).collect()
}

/// The calls that must not take place.
fn never(case: &Section<'_>) -> Vec<CallRule> {
    let items = case.items("never", "a list of tables").iter();
    let rules = items.filter_map(|item| {
        let table = Section::of(case.report, "never", item, FORBIDDEN.what, &FORBIDDEN)?;
        CallRule::read(&table, &["approved"])
    });
    rules.collect()
}

/// What a condition on a whole run reads.
pub(crate) const READABLE: &[&str] =
    &["calls", "counts", "asks", "ends", "error", "answer", "output", "steps", "tokens"];

/// The conditions on the whole run.
fn always(case: &Section<'_>, readable: &[&str]) -> Vec<Located<Expression>> {
    let report = case.report;
    let texts: Vec<Located<String>> = case.list("always");
    let read = |text: Located<String>| {
        let value = expression(report, "always", &text)?;
        let mut is_sound = true;
        for reference in value.paths().into_iter().filter(|one| !readable.contains(&one.root.as_str())) {
            let span = report.within(&text.span, &text.value, &reference.span);
            report
                .error(Code::UnknownName, span, format!("unknown name `{}`", reference.root))
                .help(suggestion(&reference.root, readable));
            is_sound = false;
        }
        is_sound.then_some(Located { value, span: text.span })
    };
    texts.into_iter().filter_map(read).collect()
}

fn located<T>(
    case: &Section<'_>,
    key: &str,
    read: impl FnOnce(&Section<'_>, &str) -> Option<T>,
) -> Option<Located<T>> {
    let span = case.get(key)?.span();
    read(case, key).map(|value| Located { value, span })
}

/// The calls that must take place. Items that do not fit are left out, and reported.
fn calls(case: &Section<'_>, key: &str) -> Vec<ExpectedCall> {
    let items = case.items(key, "a list of tools").iter();
    let calls = items.filter_map(|item| match item.get_ref() {
        DeValue::String(tool) => Some(ExpectedCall { tool: tool.to_string(), with: serde_json::Value::Null }),
        DeValue::Table(_) => {
            let call = Section::of(case.report, key, item, CALL.what, &CALL)?;
            let tool = call.string("tool")?.value;
            Some(ExpectedCall { tool, with: any(&call, "with").unwrap_or_default() })
        }
        _ => wrong_type(case.report, key, item, "the name of a tool, or a table with `tool` and `with`"),
    });
    calls.collect()
}

/// A text, or a list of texts.
fn texts(case: &Section<'_>, key: &str) -> Vec<Located<String>> {
    match case.get(key) {
        None => Vec::new(),
        Some(value) => match value.get_ref() {
            DeValue::Array(items) => items.iter().filter_map(|item| string(case.report, key, item)).collect(),
            DeValue::String(_) => string(case.report, key, value).into_iter().collect(),
            _ => {
                wrong_type::<()>(case.report, key, value, "a string, or a list of strings");
                Vec::new()
            }
        },
    }
}

fn regex(case: &Section<'_>, key: &str, text: Located<String>) -> Option<Located<Regex>> {
    match RegexBuilder::new(&text.value).size_limit(REGEX_BYTES).build() {
        Ok(regex) => Some(Located { value: regex, span: text.span }),
        Err(error) => {
            let label = match &error {
                regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
                // The parser draws the pattern over several lines; the last one says what is wrong.
                error => error
                    .to_string()
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned(),
            };
            let added = case
                .report
                .error(Code::InvalidValue, text.span, format!("`{key}` is not a regular expression"))
                .label(label);
            if key == "answer_matches" {
                added.help("`answer_contains` takes a text as it is");
            }
            None
        }
    }
}
