//! Reads the turns of a call: what the caller and the live model do.

use std::ops::Range;

use serde_json::{Value, json};
use toml::Spanned;
use toml::de::DeValue;

use super::keys::{ASK, TURN};
use super::outcome::{any, one_of};
use crate::code::Code;
use crate::report::Report;
use crate::section::Section;

/// Most keys that a caller presses in one turn.
const DIGITS_MAX: usize = 64;

/// One turn of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseTurn {
    /// What it is.
    pub kind: TurnKind,
    /// Where it stands.
    pub span: Range<usize>,
}

/// What the caller or the live model does. Times are milliseconds; those called `after` count from the end of the turn before.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnKind {
    /// The caller says something.
    Caller {
        /// The words.
        text: String,
        /// When; none for once the live model has spoken of everything that it has.
        after: Option<u64>,
    },
    /// The next response of the live model.
    Model {
        /// The words.
        text: String,
        /// The tools that it asks for.
        calls: Vec<CaseAsk>,
        /// How long it speaks.
        lasts: u64,
        /// The time after which the next turn cuts it off.
        interrupt: Option<u64>,
    },
    /// The caller presses keys.
    Digits {
        /// The keys.
        digits: String,
        /// When.
        after: u64,
    },
    /// The connection to the live model is lost.
    Drop {
        /// For how long.
        lasts: u64,
        /// When.
        after: u64,
    },
    /// The process that performs the run dies, and another one resumes it from its journal.
    Kill {
        /// How long no process performs it.
        lasts: u64,
        /// When.
        after: u64,
    },
    /// The caller hangs up.
    HangUp {
        /// When.
        after: u64,
    },
}

/// A tool that the live model asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseAsk {
    /// The tool. It may be one that the agent does not have.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
    /// The provider's id of the call; one of its own by default.
    pub call_id: Option<String>,
}

/// Reads `[[turns]]`. Turns that have errors are left out, and reported.
pub(super) fn turns(section: &Section<'_>) -> Vec<CaseTurn> {
    let items = section.items("turns", "a list of tables");
    if items.is_empty()
        && let Some(value) = section.get("turns")
    {
        section
            .report
            .error(Code::InvalidValue, value.span(), "a call has no turn")
            .help("add `[[cases.turns]]` with `caller = \"…\"`");
    }
    let turns: Vec<Option<CaseTurn>> = items.iter().map(|item| turn(section.report, item)).collect();
    cut_off(section.report, &turns);
    turns.into_iter().flatten().collect()
}

fn turn(report: &Report, item: &Spanned<DeValue<'_>>) -> Option<CaseTurn> {
    let section = Section::of(report, "turns", item, TURN.what, &TURN)?;
    let kind = one_of(&section, TURN.one_of)?;
    check_keys(&section, kind);
    let after = section.millis("after");
    let later = after.unwrap_or_default();
    let text = |key: &str| section.string(key).map(|text| text.value);
    let kind = match kind {
        "caller" => TurnKind::Caller { text: text("caller")?, after },
        "digits" => TurnKind::Digits { digits: digits(&section)?, after: later },
        "drop" => TurnKind::Drop { lasts: section.millis("drop")?, after: later },
        "kill" => TurnKind::Kill { lasts: section.millis("kill")?, after: later },
        "hang_up" => TurnKind::HangUp { after: section.millis("hang_up")? },
        _ => TurnKind::Model {
            text: text("model")?,
            calls: section
                .items("calls", "a list of tables")
                .iter()
                .filter_map(|one| ask(report, one))
                .collect(),
            lasts: section.millis("for").unwrap_or_default(),
            interrupt: section.millis("interrupt"),
        },
    };
    Some(CaseTurn { kind, span: section.span })
}

/// Reports a key that means nothing for this kind of turn.
fn check_keys(section: &Section<'_>, kind: &str) {
    let none: &[&str] = match kind {
        "model" => &["after"],
        "hang_up" => &["after", "calls", "for", "interrupt"],
        _ => &["calls", "for", "interrupt"],
    };
    for key in none.iter().filter(|key| section.has(key)) {
        let Some(span) = section.key_span(key) else { continue };
        let added = section.report.error(
            Code::NoEffect,
            span,
            format!("`{key}` has no meaning for a turn with `{kind}`"),
        );
        match (kind, *key) {
            ("hang_up", "after") => added.help("write the time as that of `hang_up`"),
            ("model", _) => added.help("the live model answers when it is asked to; remove it"),
            _ => added.help("write it in a turn of the live model, with `model`"),
        };
    }
}

fn digits(section: &Section<'_>) -> Option<String> {
    let digits = section.string("digits")?;
    let is_key = |key: char| matches!(key, '0'..='9' | '*' | '#' | 'A'..='D');
    if !digits.value.is_empty() && digits.value.len() <= DIGITS_MAX && digits.value.chars().all(is_key) {
        return Some(digits.value);
    }
    section
        .report
        .error(Code::InvalidValue, digits.span, format!("`digits` cannot be `{}`", digits.value))
        .label(format!("expected 1 to {DIGITS_MAX} keys of a telephone: `0` to `9`, `*`, `#`, `A` to `D`"));
    None
}

fn ask(report: &Report, item: &Spanned<DeValue<'_>>) -> Option<CaseAsk> {
    let section = Section::of(report, "calls", item, ASK.what, &ASK)?;
    let tool = section.string("tool")?.value;
    let arguments = any(&section, "arguments").unwrap_or_else(|| json!({}));
    Some(CaseAsk { tool, arguments, call_id: section.string("call_id").map(|text| text.value) })
}

/// A response is cut off by something that happens to it: the turn after it.
fn cut_off(report: &Report, turns: &[Option<CaseTurn>]) {
    for pair in turns.windows(2) {
        let [Some(CaseTurn { kind: TurnKind::Model { interrupt: Some(_), .. }, span }), Some(next)] = pair
        else {
            continue;
        };
        let why = match &next.kind {
            TurnKind::Caller { after: Some(_), .. } => "the turn after it has `after`",
            TurnKind::Model { .. } | TurnKind::Digits { .. } => "nothing that cuts it off comes after it",
            TurnKind::Caller { after: None, .. }
            | TurnKind::Drop { .. }
            | TurnKind::Kill { .. }
            | TurnKind::HangUp { .. } => continue,
        };
        report
            .error(Code::InvalidValue, span.clone(), format!("the response is interrupted, and {why}"))
            .help("let `caller` without `after`, `drop`, `kill` or `hang_up` follow, or remove `interrupt`");
    }
}
