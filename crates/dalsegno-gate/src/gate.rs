//! Folds recorded runs through the workspace as it is now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dalsegno_core::{Digest, RunId};
use dalsegno_history::{ConfigReport, HistoryError, Journal, several_at_once};
use dalsegno_store::{ReadError, RunSummary};
use dalsegno_workspace::Workspace;

use crate::candidate::{Candidate, Subject};
use crate::explainer::Explainer;
use crate::report::{ChangedRun, Course, GateReport, NotCompared, Reason};
use crate::variants::{Since, Versions};
use crate::version::Version;

/// What recorded runs are compared with.
pub enum Base {
    /// Each run with what it began with. The changed lines are those since the newest of these versions that has it.
    Recorded(Box<dyn Past>),
    /// Each run with what it would be in this version: what was different before counts for nothing.
    Version(Version),
}

/// Versions of a workspace, the newest first.
pub trait Past: Send {
    /// The version with this index; `None` behind the oldest one. Called with 0, then with 1, and so on.
    fn version(&mut self, index: usize) -> Option<Version>;
}

/// No versions: the lines that have changed are not known.
impl Past for () {
    fn version(&mut self, _: usize) -> Option<Version> {
        None
    }
}

/// Folds recorded runs through a workspace as it is now.
pub struct Comparison {
    journal: Journal,
    workspace: Workspace,
    versions: Versions,
}

/// How far the gate has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// So many runs were compared, of so many.
    Compared(usize, usize),
    /// Of so many runs it is known which lines they differ by, of so many that differ.
    Explained(usize, usize),
}

/// What is known of an agent of a tenant.
pub(crate) enum Standing {
    /// What its runs would begin with now, and in the version that was given if one was.
    Known { now: Candidate, base: Option<Candidate> },
    /// Its runs cannot be compared.
    Not(Reason, String),
}

/// What came of comparing a run.
enum Compared {
    Same,
    /// It would be another one without the change, too.
    Before,
    /// How it would differ, as one digest.
    Changed(ChangedRun, Digest),
    Not(Reason, String),
}

impl Comparison {
    /// A comparison for the runs of this journal. `workspace` is what the files say now, and `now` has their texts.
    pub fn new(journal: Journal, workspace: Workspace, now: Version, base: Base) -> Self {
        let versions = Versions::new(workspace.root.clone(), now, base);
        Self { journal, workspace, versions }
    }

    /// Compares these runs, the newest first. `tell` is called for each of them, and again for each that differs.
    pub async fn compare(self, runs: &[RunSummary], mut tell: impl FnMut(Progress)) -> GateReport {
        let subjects = Arc::new(self.learn(runs));
        let Self { journal, versions, .. } = self;
        let mut found: BTreeMap<usize, Compared> = BTreeMap::new();
        let work = |(index, run): (usize, &RunSummary)| {
            let (journal, subjects, run) = (journal.clone(), Arc::clone(&subjects), run.clone());
            async move { (index, compare(&journal, &subjects, &run).await) }
        };
        several_at_once(runs.iter().enumerate(), work, |(index, compared)| {
            found.insert(index, compared);
            tell(Progress::Compared(found.len(), runs.len()));
        })
        .await;
        let base = versions.given().map(|since| since.name.clone());
        let mut report = GateReport { base, runs: runs.len() as u64, ..GateReport::default() };
        let mut changed: BTreeMap<Subject, Vec<(ChangedRun, Digest)>> = BTreeMap::new();
        let mut not: BTreeMap<(Reason, String), Vec<RunId>> = BTreeMap::new();
        for (summary, compared) in runs.iter().zip(found.into_values()) {
            match compared {
                Compared::Same => report.compared += 1,
                Compared::Before => {
                    report.compared += 1;
                    report.changed_before += 1;
                }
                Compared::Changed(run, digest) => {
                    report.compared += 1;
                    report.changed += 1;
                    changed.entry(Subject::of(summary)).or_default().push((run, digest));
                }
                Compared::Not(reason, message) => {
                    not.entry((reason, message)).or_default().push(summary.run);
                }
            }
        }
        let not = not.into_iter().map(|((reason, message), runs)| NotCompared { reason, message, runs });
        report.not_compared = not.collect();
        let mut explainer = Explainer::new(journal, &subjects, versions);
        let (mut explained, of) = (0, changed.values().map(Vec::len).sum());
        for (subject, runs) in changed {
            for run in runs {
                explainer.explain(&subject, run).await;
                explained += 1;
                tell(Progress::Explained(explained, of));
            }
        }
        explainer.finish(report)
    }

    /// Finds what the runs of each agent would begin with.
    fn learn(&self, runs: &[RunSummary]) -> BTreeMap<Subject, Standing> {
        let subjects: BTreeSet<Subject> = runs.iter().map(Subject::of).collect();
        let learnt = subjects.into_iter().map(|subject| {
            let standing = self.standing(&subject);
            (subject, standing)
        });
        learnt.collect()
    }

    fn standing(&self, subject: &Subject) -> Standing {
        let now = match Candidate::of(&self.workspace, subject) {
            Some(Ok(now)) => now,
            Some(Err(found)) => {
                let words = found.first().map(ToString::to_string).unwrap_or_default();
                return Standing::Not(Reason::Unusable, words);
            }
            None => {
                let words = format!("the workspace has no agent `{}`", subject.agent);
                return Standing::Not(Reason::NoAgent, words);
            }
        };
        let Some(Since { name, variants }) = self.versions.given() else {
            return Standing::Known { now, base: None };
        };
        match variants.candidate(subject, &[]) {
            Some(base) => Standing::Known { now, base: Some(base) },
            None => {
                let words = format!("{name} has no agent `{}` that can be used", subject.agent);
                Standing::Not(Reason::NoAgent, words)
            }
        }
    }
}

impl Subject {
    pub(crate) fn of(run: &RunSummary) -> Self {
        Self { agent: run.agent.clone(), tenant: run.tenant.clone() }
    }
}

async fn compare(journal: &Journal, subjects: &BTreeMap<Subject, Standing>, run: &RunSummary) -> Compared {
    let (now, base) = match &subjects[&Subject::of(run)] {
        Standing::Known { now, base } => (now, base.as_ref()),
        Standing::Not(reason, message) => return Compared::Not(*reason, message.clone()),
    };
    // Only settings are not part of the configuration.
    let began_so = now.settings.is_none() && now.digest == run.config;
    if base == Some(now) || base.is_none() && began_so {
        return Compared::Same;
    }
    fold(journal, now, base, run.run).await.unwrap_or_else(|error| match error {
        HistoryError::Read(ReadError::Erased { .. }) => {
            Compared::Not(Reason::Erased, "what was recorded was erased".to_owned())
        }
        error => Compared::Not(Reason::Unreadable, error.to_string()),
    })
}

/// Folds a run under what it would begin with now, and under what it would have begun with in the version that was given.
async fn fold(
    journal: &Journal,
    now: &Candidate,
    base: Option<&Candidate>,
    run: RunId,
) -> Result<Compared, HistoryError> {
    let recorded = journal.recorded(run).await?;
    let is_same_release = now.config.semantics == recorded.config().semantics;
    if base.is_none() && is_same_release && now.is_what_began(&recorded) {
        return Ok(Compared::Same);
    }
    let report = now.outline(&recorded)?;
    // What a run was is what it would be under a version that differs in nothing.
    let before = base.map(|base| base.outline(&recorded)).transpose()?;
    Ok(match before {
        Some(before) if before.differences == report.differences => match before.identical {
            true => Compared::Same,
            false => Compared::Before,
        },
        // It would be again what it was, and not what it would be in the version that was given.
        Some(before) if report.identical => changed(run, &before, report.differences),
        _ if report.identical => Compared::Same,
        _ => changed(run, &report, report.differences),
    })
}

fn changed(run: RunId, report: &ConfigReport, differences: Digest) -> Compared {
    let step = report.first_step().unwrap_or_default();
    Compared::Changed(ChangedRun { run, step, course: Course::of(report) }, differences)
}
