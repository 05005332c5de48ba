//! All cases of a workspace, run in parallel.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dalsegno_core::AgentName;
use dalsegno_models::ScriptModel;
use dalsegno_workspace::{Case, CaseFile, Cases, Diagnostic, Position, Replies, case_slug};

use crate::cassette::{Cassette, CassetteError};
use crate::fold::Folding;
use crate::judge::{self, Failure};
use crate::prepared::{Prepared, Scripts};
use crate::property::{self, Search, Searched};
use crate::render;
use crate::snapshot::{self, CaseSnapshot, SnapshotState};
use crate::trajectory::Trajectory;

/// The cases of a workspace, with the files that they name.
#[derive(Debug)]
pub struct Suite<'w> {
    root: &'w Path,
    files: &'w [CaseFile],
    prepared: BTreeMap<(AgentName, String), Prepared>,
    cassettes: BTreeMap<PathBuf, Cassette>,
}

/// What came of a case.
#[derive(Debug, Clone)]
pub struct CaseReport {
    /// The file, relative to the workspace's folder.
    pub file: PathBuf,
    /// Where the case stands in it.
    pub place: Position,
    /// The case.
    pub name: String,
    /// The agent.
    pub agent: AgentName,
    /// What does not hold; nothing for a case that passes.
    pub failures: Vec<PlacedFailure>,
    /// What happened.
    pub trajectory: Trajectory,
    /// The same as text.
    pub text: String,
    /// Where the case stands with its snapshot, if it has one and came to an end.
    pub snapshot: Option<CaseSnapshot>,
    /// How long it took.
    pub took: Duration,
}

/// What does not hold, and the place in the file that says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedFailure {
    /// What does not hold.
    pub failure: Failure,
    /// The place.
    pub place: Option<Position>,
}

impl CaseReport {
    /// Says whether all holds.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

impl<'w> Suite<'w> {
    /// Reads the scripts and the cassettes that cases name, and says what is wrong with them.
    pub fn load(root: &'w Path, cases: &'w Cases) -> (Self, Vec<Diagnostic>) {
        let mut found = Vec::new();
        let (mut scripts, mut cassettes) = (Scripts::new(), BTreeMap::new());
        let all = || cases.files.iter().flat_map(|file| &file.cases);
        for case in all() {
            if let Replies::Script(file) = &case.draft.replies
                && !scripts.contains_key(file)
            {
                let script = ScriptModel::open(file).map_err(|error| error.to_string());
                if let Err(message) = &script {
                    found.push(Diagnostic::of_file(root, file, message.clone()));
                }
                scripts.insert(file.clone(), script);
            }
            if let Some(cassette) = &case.draft.cassette
                && !cassettes.contains_key(&cassette.value)
            {
                match Cassette::open(&cassette.value) {
                    Ok(read) => drop(cassettes.insert(cassette.value.clone(), read)),
                    Err(error) => found.push(unusable(root, &cassette.value, &error)),
                }
            }
        }
        found.dedup();
        let scripts = Arc::new(scripts);
        let mut prepared = BTreeMap::new();
        for case in all() {
            let prepared = prepared.entry(key(case)).or_insert_with(|| Prepared::new(&case.config, &scripts));
            prepared.add(&case.agents);
        }
        (Self { root, files: &cases.files, prepared, cassettes }, found)
    }

    /// The number of cases whose names pass.
    pub fn count(&self, passes: impl Fn(&CaseFile, &Case) -> bool) -> usize {
        self.files.iter().map(|file| file.cases.iter().filter(|case| passes(file, case)).count()).sum()
    }

    /// Runs the cases that pass the filter, in parallel; the reports are in the order of the files.
    pub fn run(&self, search: Search, passes: impl Fn(&CaseFile, &Case) -> bool) -> Vec<CaseReport> {
        let files: Vec<(&CaseFile, Lines<'_>)> =
            self.files.iter().map(|file| (file, Lines::of(file.source.text()))).collect();
        let chosen: Vec<(&CaseFile, &Lines<'_>, &Case)> = files
            .iter()
            .flat_map(|(file, lines)| file.cases.iter().map(move |case| (*file, lines, case)))
            .filter(|(file, _, case)| passes(file, case))
            .collect();
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(chosen.len().max(1));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some((file, lines, case)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push(self.case(file, lines, case, search));
            }
            done
        };
        let mut reports: Vec<CaseReport> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            // A case that panics is a defect, and must not vanish.
            joined.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        reports.sort_by(|one, other| (&one.file, one.place).cmp(&(&other.file, other.place)));
        reports
    }

    fn case(&self, file: &CaseFile, lines: &Lines<'_>, case: &Case, search: Search) -> CaseReport {
        let began = Instant::now();
        let draft = &case.draft;
        let prepared = &self.prepared[&key(case)];
        let Searched { mut failures, trajectory } = match &draft.property {
            Some(property) => property::search(case, prepared, property, search),
            None => {
                let cassette =
                    draft.cassette.as_ref().and_then(|cassette| self.cassettes.get(&cassette.value));
                fold(case, prepared, cassette)
            }
        };
        let text = render::trajectory(&trajectory);
        let snapshot = (draft.expect.snapshot && trajectory.end.is_some()).then(|| {
            let place = snapshot::file(file.source.file(), &case_slug(&draft.name.value));
            snapshot::compare(self.root, place, &draft.name.value, &text)
        });
        failures.extend(snapshot.as_ref().and_then(misfit));
        let placed = failures.into_iter().map(|failure| {
            let place = failure.span.as_ref().map(|span| lines.position(span.start));
            PlacedFailure { failure, place }
        });
        CaseReport {
            file: file.source.file().to_path_buf(),
            place: lines.position(draft.name.span.start),
            name: draft.name.value.clone(),
            agent: draft.agent.value.clone(),
            failures: placed.collect(),
            trajectory,
            text,
            snapshot,
            took: began.elapsed(),
        }
    }

    /// The snapshots that are of no case, below the workspace's folder.
    pub fn unreferenced(&self) -> Vec<PathBuf> {
        let of_file = |file: &'w CaseFile| {
            let cases = file.cases.iter().filter(|case| case.draft.expect.snapshot);
            cases.map(|case| snapshot::file(file.source.file(), &case_slug(&case.draft.name.value)))
        };
        let referenced: BTreeSet<PathBuf> = self.files.iter().flat_map(of_file).collect();
        snapshot::unreferenced(self.root, &referenced)
    }
}

/// Folds a case, and holds what happened against what must hold.
fn fold(case: &Case, prepared: &Prepared, cassette: Option<&Cassette>) -> Searched {
    let mut folding = Folding::new(case, prepared, cassette);
    let mut failures = Vec::new();
    match folding.fold() {
        Err(trouble) => failures.push(judge::troubled(trouble)),
        Ok(()) => {
            failures.extend(judge::judge(case, &folding.trajectory));
            failures.extend(judge::left_over(&folding));
        }
    }
    Searched { failures, trajectory: folding.trajectory }
}

/// The lines of a file, found once: there may be thousands of cases in it.
struct Lines<'t> {
    text: &'t str,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { text, starts: std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect() }
    }

    fn position(&self, offset: usize) -> Position {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line.saturating_sub(1)];
        Position { line, column: self.text[start..offset].chars().count() + 1 }
    }
}

fn key(case: &Case) -> (AgentName, String) {
    (case.draft.agent.value.clone(), case.draft.tenant.clone())
}

fn unusable(root: &Path, file: &Path, error: &CassetteError) -> Diagnostic {
    let help = match error {
        CassetteError::Changed => {
            "take back the change, or record the run again with `dalsegno test --from-run`; to give another outcome, write it \
             into the case: `[[cases.results]]` comes first"
        }
        _ => "record the run again with `dalsegno test --from-run`",
    };
    Diagnostic::of_file(root, file, format!("the cassette cannot be used: {error}")).with_help(help)
}

/// That a run is not as its snapshot.
fn misfit(snapshot: &CaseSnapshot) -> Option<Failure> {
    let (message, help) = match &snapshot.state {
        SnapshotState::Same => return None,
        SnapshotState::New => {
            ("there is no snapshot yet".to_owned(), "look at the run, then run `dalsegno test --accept`")
        }
        SnapshotState::Differs(diff) => (
            format!("the run is not as its snapshot (-) any more (+)\n{}", diff.trim_end()),
            "look at the difference, then run `dalsegno test --accept`, or correct the agent",
        ),
        SnapshotState::Unreadable(message) => (
            format!("`{}` is no snapshot: {message}", snapshot.file.display()),
            "run `dalsegno test --accept`, which writes it anew",
        ),
    };
    Some(Failure { what: "snapshot", message, help: Some(help.to_owned()), span: None })
}
