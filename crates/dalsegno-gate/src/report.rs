//! What the gate found.

use std::collections::BTreeSet;

use dalsegno_core::{AgentName, RunId};
use dalsegno_history::ConfigReport;
use serde::Serialize;

use crate::cause::Cause;
use crate::edit::Edit;

/// What the gate found: which runs would be others, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GateReport {
    /// The version that was compared with; `None` where each run was compared with what it began with.
    pub base: Option<String>,
    /// The runs that were to be compared.
    pub runs: u64,
    /// The runs that were compared.
    pub compared: u64,
    /// The runs that would be others.
    pub changed: u64,
    /// The runs that would be others without the changed lines, too: they began with another version. Only where one version was
    /// given to compare with.
    pub changed_before: u64,
    /// The runs that would be others, by agent and reason; the largest group first.
    pub groups: Vec<Group>,
    /// The runs that could not be compared, by reason.
    pub not_compared: Vec<NotCompared>,
    /// The changed lines, since the version that was given or the newest one that runs began with, that alter no recorded run.
    pub silent: Vec<Edit>,
}

/// Runs that would be others for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Their agent.
    pub agent: AgentName,
    /// What of the agent has changed.
    pub causes: BTreeSet<Cause>,
    /// The version that the lines have changed since.
    pub since: Option<String>,
    /// The smallest set of changed lines under which these runs differ as they do now. Empty where no version is known that has
    /// what they began with.
    pub lines: Vec<Edit>,
    /// The parts of the configuration, as JSON Pointers, where no lines are known.
    pub parts: Vec<String>,
    /// The first step of all that would be another one.
    pub first_step: u64,
    /// The runs, the newest first.
    pub runs: Vec<ChangedRun>,
    /// How the newest of them would differ.
    pub example: ConfigReport,
}

/// A run that would be another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ChangedRun {
    /// The run.
    #[serde(rename = "run_id")]
    pub run: RunId,
    /// The first step that would be another one.
    pub step: u64,
    /// How it would differ.
    pub course: Course,
}

/// How a run would differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Course {
    /// It would ask for the same things in other words.
    OtherRequests,
    /// It would do something else, or end in another way.
    OtherCourse,
}

impl Course {
    pub(crate) const fn of(report: &ConfigReport) -> Self {
        match report.divergence {
            Some(_) => Self::OtherCourse,
            None => Self::OtherRequests,
        }
    }
}

/// Runs that could not be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotCompared {
    /// Why.
    pub reason: Reason,
    /// The same in words.
    pub message: String,
    /// The runs.
    pub runs: Vec<RunId>,
}

/// Why a run could not be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The workspace has no such agent any more.
    NoAgent,
    /// The agent cannot be used as it is now: it names a tool that is not there, or a tool server is not pinned. No run of it could
    /// begin.
    Unusable,
    /// What was recorded was erased.
    Erased,
    /// The journal cannot be read or does not replay.
    Unreadable,
}
