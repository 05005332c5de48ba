//! Two runs side by side.

use askama::Template;
use dalsegno_history::{ReplayReport, RunDiff, Side};

use crate::run::RunHead;
use crate::shell::Shell;
use crate::step::ChangeRow;
use crate::text;

/// Two runs side by side; without two runs, the question which ones.
#[derive(Debug, Clone, Template)]
#[template(path = "diff.html")]
pub struct DiffPage {
    /// What surrounds it.
    pub shell: Shell,
    /// The first run, as it was typed.
    pub left: String,
    /// The second run, as it was typed.
    pub right: String,
    /// What is wrong with them.
    pub problem: Option<String>,
    /// How they differ.
    pub found: Option<Diff>,
    /// Runs that can be compared with the first one.
    pub offers: Vec<Offer>,
}

/// A run to compare with.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Its address.
    pub href: String,
    /// The beginning of its id.
    pub short: String,
    /// What it is, such as its agent and when it began.
    pub words: String,
}

/// How two runs differ.
#[derive(Debug, Clone)]
pub struct Diff {
    /// The runs.
    pub sides: [SideView; 2],
    /// Whether they are the same.
    pub is_identical: bool,
    /// The first difference: the step, and what it is about.
    pub first: Option<Place>,
    /// How the states differ after it.
    pub state: Vec<ChangeRow>,
    /// How the prompts differ of the first model call that is not the same.
    pub prompt: Option<Place>,
    /// How the arguments differ of the first call that is not the same.
    pub arguments: Option<Place>,
}

/// One of the runs.
#[derive(Debug, Clone)]
pub struct SideView {
    /// The run.
    pub id: String,
    /// The beginning of its id.
    pub short: String,
    /// Its agent.
    pub agent: String,
    /// Its status, steps and usage.
    pub facts: Vec<String>,
    /// What it answered, or why it did not complete.
    pub end: Option<String>,
}

/// A place at which they differ.
#[derive(Debug, Clone)]
pub struct Place {
    /// The step, or the turn of a call, such as `step 2`.
    pub place: String,
    /// The same at the beginning of a sentence.
    pub title: String,
    /// What it is about.
    pub words: String,
    /// The addresses of the step in both runs.
    pub at: [String; 2],
    /// Each place that differs.
    pub changes: Vec<ChangeRow>,
}

impl Diff {
    /// How two runs differ.
    pub fn of(diff: &RunDiff) -> Self {
        let RunDiff { left, right, identical, first, state, prompt, arguments } = diff;
        let place =
            |step: u64, turn: Option<u64>, words: String, changes: &[dalsegno_history::Change]| Place {
                place: turn.map_or_else(|| format!("step {step}"), |turn| format!("turn {turn}")),
                title: turn.map_or_else(|| format!("Step {step}"), |turn| format!("Turn {turn}")),
                words: text::line(&words.replace('`', ""), 200),
                at: [left, right].map(|side| format!("/runs/{}/steps/{step}", side.run)),
                changes: changes.iter().map(ChangeRow::of).collect(),
            };
        let kind = |kind: &str, label: &str| match kind {
            "request" => format!("they ask for something else: {label}"),
            "outcome" => format!("the outcome differs: {label}"),
            "end" => "they end differently".to_owned(),
            "words" => format!("the words of {label} differ"),
            "call" => format!("{label} asks for something else"),
            "effect" => format!("an effect differs: {label}"),
            other => format!("{other}: {label}"),
        };
        Self {
            sides: [SideView::of(left), SideView::of(right)],
            is_identical: *identical,
            first: first
                .as_ref()
                .map(|first| place(first.step, first.turn, kind(first.kind, &first.label), &first.changes)),
            state: state.iter().map(ChangeRow::of).collect(),
            prompt: prompt.as_ref().map(|one| place(one.step, None, one.label.clone(), &one.changes)),
            arguments: arguments.as_ref().map(|one| place(one.step, None, one.label.clone(), &one.changes)),
        }
    }
}

impl SideView {
    fn of(side: &Side) -> Self {
        let mut facts = vec![side.status.as_str().replace('_', " "), text::count(side.steps, "step")];
        facts.extend(text::used(&side.usage));
        Self {
            id: side.run.to_string(),
            short: text::short(side.run),
            agent: side.agent.to_string(),
            facts,
            end: side.end.as_deref().map(|end| text::shown(end, 4_000)),
        }
    }
}

/// What came of a replay.
#[derive(Debug, Clone, Template)]
#[template(path = "replay.html")]
pub struct ReplayPage {
    /// What surrounds it.
    pub shell: Shell,
    /// The run.
    pub head: RunHead,
    /// Whether the core asked for exactly what the journal has.
    pub is_identical: bool,
    /// Steps and records that were replayed.
    pub facts: Vec<String>,
    /// The first difference: the step, what the journal has, what the core asks for.
    pub divergence: Option<(u64, String, String)>,
}

impl ReplayPage {
    /// What came of a replay.
    pub fn of(shell: Shell, head: RunHead, report: &ReplayReport) -> Self {
        let divergence = report.divergence.as_ref().map(|one| {
            let shown = |words: &str| text::shown(words, 20_000);
            (one.step, shown(&one.expected), shown(&one.got))
        });
        let facts = vec![text::count(report.steps, "step"), text::count(report.records, "record")];
        Self { shell, head, is_identical: report.identical, facts, divergence }
    }
}
