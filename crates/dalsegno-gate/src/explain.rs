//! Why a run would be another one: the smallest set of changed lines, or of changed parts of its configuration, under which it
//! differs exactly as it does now.

use std::collections::BTreeSet;

use dalsegno_core::{AgentConfig, Digest};
use dalsegno_history::RecordedRun;

use crate::candidate::{Candidate, Subject};
use crate::cause::{Cause, parts, with_parts};
use crate::minimise::minimise;
use crate::variants::Variants;

/// Why runs differ: indices of changed lines, or pointers into the configuration where no lines are known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Explanation {
    pub(crate) causes: BTreeSet<Cause>,
    pub(crate) lines: Vec<usize>,
    pub(crate) parts: Vec<String>,
}

/// Finds the lines. `known` are those that explain other runs of the same agent: they are tried first.
pub(crate) fn by_lines(
    run: &RecordedRun,
    target: Digest,
    subject: &Subject,
    now: &Candidate,
    variants: &Variants,
    known: &mut Vec<Vec<usize>>,
) -> Option<Explanation> {
    let has = |chosen: &[usize]| {
        let candidate = variants.candidate(subject, chosen);
        candidate.is_some_and(|candidate| differs_so(run, &candidate, target))
    };
    // Then there is another reason than the lines.
    if variants.diff.edits.is_empty() || has(&[]) {
        return None;
    }
    let fits = |lines: &&Vec<usize>| {
        let without =
            |index: usize| lines.iter().copied().filter(move |line| *line != index).collect::<Vec<_>>();
        has(lines) && (lines.len() == 1 || lines.iter().all(|line| !has(&without(*line))))
    };
    let lines = match known.iter().find(fits) {
        Some(lines) => lines.clone(),
        None => {
            let relevant = variants.relevant(subject, now);
            if !has(&relevant) {
                return None;
            }
            let lines = minimise(&relevant, has);
            known.push(lines.clone());
            lines
        }
    };
    let (without, with) = (variants.candidate(subject, &[])?, variants.candidate(subject, &lines)?);
    let (causes, _) = between(run, target, &without, &with);
    Some(Explanation { causes, lines, parts: Vec::new() })
}

/// Finds the parts of the configuration, where no version is known that has what the run began with.
pub(crate) fn by_parts(run: &RecordedRun, target: Digest, now: &Candidate) -> Explanation {
    let own = Candidate::new((**run.config()).clone(), Some(run.request().tenant_settings.clone()));
    let (causes, parts) = between(run, target, &own, now);
    Explanation { causes, lines: Vec::new(), parts }
}

/// What makes a run differ of all in which two beginnings differ: in words, and as pointers.
fn between(
    run: &RecordedRun,
    target: Digest,
    left: &Candidate,
    right: &Candidate,
) -> (BTreeSet<Cause>, Vec<String>) {
    let json = left.json();
    let parts = parts(&json, &right.json());
    // The settings of the tenant stand behind the parts of the configuration.
    let settings = parts.len();
    let has_settings = right.settings.is_some() && right.settings != left.settings;
    let all: Vec<usize> = (0..parts.len() + usize::from(has_settings)).collect();
    let found = minimise(&all, |chosen| {
        let chosen_parts = chosen.iter().filter_map(|index| parts.get(*index));
        let Ok(config) = serde_json::from_value::<AgentConfig>(with_parts(&json, chosen_parts)) else {
            return false;
        };
        let settings = if chosen.contains(&settings) { &right.settings } else { &left.settings };
        differs_so(run, &Candidate::new(config, settings.clone()), target)
    });
    let chosen = || found.iter().filter_map(|index| parts.get(*index));
    let mut causes: BTreeSet<Cause> = chosen().map(|part| part.cause).collect();
    let mut places: Vec<String> = chosen().map(|part| part.pointer()).collect();
    if found.contains(&settings) && has_settings {
        causes.insert(Cause::TenantSettings);
        places.push("tenant settings".to_owned());
    }
    (causes, places)
}

fn differs_so(run: &RecordedRun, candidate: &Candidate, target: Digest) -> bool {
    candidate.outline(run).is_ok_and(|report| report.differences == target)
}
