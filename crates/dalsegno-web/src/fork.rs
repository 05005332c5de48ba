//! The form that forks a run.

use askama::Template;

use crate::run::RunHead;
use crate::shell::Shell;

/// Asks how a run is to be forked.
#[derive(Debug, Clone, Template)]
#[template(path = "fork.html")]
pub struct ForkPage {
    /// What surrounds it.
    pub shell: Shell,
    /// The run.
    pub head: RunHead,
    /// The operation whose outcome is edited; none to fork without another outcome.
    pub edited: Option<Edited>,
    /// The step that is asked for anew, as it was typed.
    pub at: String,
    /// The model, as it was typed.
    pub model: String,
    /// What was wrong with the last try.
    pub problem: Option<String>,
}

/// An outcome that is edited.
#[derive(Debug, Clone)]
pub struct Edited {
    /// The operation.
    pub operation: String,
    /// What it is.
    pub label: String,
    /// Its step.
    pub step: u64,
    /// The outcome as JSON.
    pub outcome: String,
    /// The same as it was recorded.
    pub recorded: String,
}
