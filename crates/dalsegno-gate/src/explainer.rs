//! Finds out why runs would be others, and puts those together that would be for the same reason.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{AgentName, Digest, digest_json};
use dalsegno_history::{ConfigReport, Journal, RecordedRun};

use crate::candidate::{Candidate, Subject};
use crate::edit::Edit;
use crate::explain::{self, Explanation};
use crate::gate::Standing;
use crate::report::{ChangedRun, GateReport, Group};
use crate::variants::Versions;

/// Runs of one agent that differ for one reason: the index of the version that lines have changed since, and the reason.
type Key = (AgentName, Option<usize>, Explanation);

pub(crate) struct Explainer<'s> {
    journal: Journal,
    subjects: &'s BTreeMap<Subject, Standing>,
    versions: Versions,
    groups: BTreeMap<Key, (Vec<ChangedRun>, ConfigReport)>,
    /// The sets of lines that explain other runs, by agent, tenant and the version that they have changed since.
    known: BTreeMap<(Subject, usize), Vec<Vec<usize>>>,
    /// The versions that have what runs began with, by agent and tenant, the configuration and the tenant's settings.
    began: BTreeMap<(Subject, Digest, Digest), Option<usize>>,
}

impl<'s> Explainer<'s> {
    pub(crate) const fn new(
        journal: Journal,
        subjects: &'s BTreeMap<Subject, Standing>,
        versions: Versions,
    ) -> Self {
        Self {
            journal,
            subjects,
            versions,
            groups: BTreeMap::new(),
            known: BTreeMap::new(),
            began: BTreeMap::new(),
        }
    }

    /// Explains a run of an agent and tenant. The newest comes first.
    pub(crate) async fn explain(&mut self, subject: &Subject, (changed, target): (ChangedRun, Digest)) {
        let Some(Standing::Known { now, .. }) = self.subjects.get(subject) else { return };
        // It could be read a moment ago. What has happened to it since is told by `replay`.
        let Ok(run) = self.journal.recorded(changed.run).await else { return };
        let (since, explanation) = self.explanation(&run, target, subject, now);
        match self.groups.entry((subject.agent.clone(), since, explanation)) {
            Entry::Occupied(mut group) => group.get_mut().0.push(changed),
            Entry::Vacant(group) => {
                let Ok(example) = now.fold(&run) else { return };
                group.insert((vec![changed], example));
            }
        }
    }

    /// The newest version that has what a run began with.
    fn began(&mut self, subject: &Subject, run: &RecordedRun) -> Option<usize> {
        // Most runs began with what another one did.
        let settings = digest_json(&run.request().tenant_settings);
        let key = run.digest().map(|config| (subject.clone(), config, settings));
        if let Some(known) = key.as_ref().and_then(|key| self.began.get(key)) {
            return *known;
        }
        let began = self.versions.find(subject, |candidate| candidate.is_what_began(run));
        self.began.extend(key.map(|key| (key, began)));
        began
    }

    fn explanation(
        &mut self,
        run: &RecordedRun,
        target: Digest,
        subject: &Subject,
        now: &Candidate,
    ) -> (Option<usize>, Explanation) {
        let began = self.began(subject, run);
        let by_lines = began.and_then(|index| {
            let variants = &self.versions.get(index)?.variants;
            let known = self.known.entry((subject.clone(), index)).or_default();
            explain::by_lines(run, target, subject, now, variants, known)
        });
        match by_lines {
            Some(explanation) => (began, explanation),
            None => (None, explain::by_parts(run, target, now)),
        }
    }

    /// The report with the groups, the largest first.
    pub(crate) fn finish(mut self, mut report: GateReport) -> GateReport {
        let mut loud: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for ((agent, since, explanation), (runs, example)) in self.groups {
            let Explanation { causes, lines, parts } = explanation;
            let found = since.and_then(|index| self.versions.get(index));
            let edit = |line: &usize| found.and_then(|since| since.variants.diff.edits.get(*line)).cloned();
            let edits: Vec<Edit> = lines.iter().filter_map(edit).collect();
            let name = found.map(|since| since.name.clone());
            loud.entry(since.unwrap_or_default()).or_default().extend(lines);
            let first_step = runs.iter().map(|run| run.step).min().unwrap_or_default();
            report.groups.push(Group {
                agent,
                causes,
                since: name,
                lines: edits,
                parts,
                first_step,
                runs,
                example,
            });
        }
        report.groups.sort_by_key(|group| std::cmp::Reverse(group.runs.len()));
        if let Some(newest) = self.versions.get(0) {
            let silent = |index: &usize| !loud.get(&0).is_some_and(|loud| loud.contains(index));
            let edits = newest.variants.diff.edits.iter().enumerate();
            report.silent = edits.filter(|(index, _)| silent(index)).map(|(_, edit)| edit.clone()).collect();
        }
        report
    }
}
