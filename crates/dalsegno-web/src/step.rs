//! A step: why the agent asked for what it asked, with what, what came of it, and what it knew.

use askama::Template;
use dalsegno_core::{OperationId, RunId};
use dalsegno_history::{Change, Scene};
use dalsegno_store::Record;

use crate::markup::Markup;
use crate::run::{End, RunHead, Timeline};
use crate::shell::Shell;
use crate::text;
use crate::why::Why;

mod happened;
mod operation;
mod prompt;

pub use self::happened::Happening;
pub use self::operation::{Block, Hit, OperationCard};
pub use self::prompt::{Message, PromptCard};

/// Most bytes of the state on a page: it grows with the run, and is looked at less than what changed.
const STATE: usize = 16 * 1024;

/// A step of a run, or its end.
#[derive(Debug, Clone, Template)]
#[template(path = "step.html")]
pub struct StepPage {
    /// What surrounds it.
    pub shell: Shell,
    /// The run.
    pub head: RunHead,
    /// The number of the step, or `end`.
    pub number: String,
    /// When it was asked for, after the start of the run.
    pub offset: String,
    /// The address of the step before.
    pub previous: Option<String>,
    /// The address of the step after.
    pub next: Option<String>,
    /// The rows around it.
    pub rail: Timeline,
    /// What is known of the step; none where no state can be computed.
    pub body: Option<StepBody>,
    /// What cannot be read or computed.
    pub stops: Vec<String>,
}

/// What is known of a step.
#[derive(Debug, Clone)]
pub struct StepBody {
    /// Why the core asked for what it asked.
    pub decisions: Vec<Vec<(bool, String)>>,
    /// What it asked for.
    pub operations: Vec<OperationCard>,
    /// How the state differs from that of the step before.
    pub changes: Vec<ChangeRow>,
    /// The state when the step was asked for.
    pub state: Markup,
    /// What the run had used before.
    pub used_before: Vec<String>,
    /// What the step used.
    pub spent: Vec<String>,
    /// How the run ended.
    pub end: Option<End>,
    /// The step that a fork asks for anew.
    pub fork_at: Option<String>,
}

/// A place that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRow {
    /// Where.
    pub path: String,
    /// What stands on the left, or before.
    pub left: Option<String>,
    /// What stands on the right, or after.
    pub right: Option<String>,
}

impl ChangeRow {
    /// A change with every hidden character visible.
    pub fn of(change: &Change) -> Self {
        let shown = |side: &Option<String>| side.as_deref().map(|side| text::shown(side, 2_000));
        let path =
            change.path.trim_start_matches('/').replace('/', " › ").replace("~1", "/").replace("~0", "~");
        Self { path: text::line(&path, 200), left: shown(&change.left), right: shown(&change.right) }
    }
}

/// What is known of a step beyond its scene.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// The run.
    pub run: RunId,
    /// When the run began, in milliseconds since the epoch.
    pub started: u64,
    /// Whether the run has ended.
    pub is_over: bool,
    /// Whether runs may be forked.
    pub may_fork: bool,
    /// Whether the outcome of an operation may be replaced.
    pub may_edit: bool,
    /// Where the values of its requests came from, as far as that was computed.
    pub why: &'a [(OperationId, Why)],
}

impl Around<'_> {
    fn offset(&self, record: &Record) -> String {
        format!("+{}", text::duration(record.at.as_millis().saturating_sub(self.started)))
    }

    fn why(&self, id: OperationId) -> Option<Why> {
        self.why.iter().find(|(of, _)| *of == id).map(|(_, why)| why.clone())
    }
}

impl StepBody {
    /// What a scene shows.
    pub fn of(scene: &Scene, around: &Around<'_>) -> Self {
        let view = &scene.view;
        let operations = view.operations.iter().map(|one| OperationCard::of(one, scene, around)).collect();
        let at = (!view.operations.is_empty() && around.may_fork)
            .then(|| format!("/runs/{}/fork?at={}", around.run, view.step));
        Self {
            decisions: view
                .decisions
                .iter()
                .map(|decision| text::parts(&text::shown(decision, 2_000)))
                .collect(),
            operations,
            changes: scene.changes().iter().map(ChangeRow::of).collect(),
            state: Markup::within(&scene.visible(), STATE),
            used_before: text::used(&scene.state.usage()),
            spent: scene.spent().as_ref().map(text::used).unwrap_or_default(),
            end: scene.response.as_ref().map(End::of),
            fork_at: at,
        }
    }
}
