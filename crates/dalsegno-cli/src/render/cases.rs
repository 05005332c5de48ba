//! Tells what came of the cases that test agents.

use std::path::PathBuf;
use std::time::Duration;

use dalsegno_cases::{CaseReport, End, PlacedFailure, SnapshotState};
use serde::Serialize;
use serde_json::{Value, json};

use super::output::{Output, Stream};
use super::text::{Style, Words, count, duration, styled};

/// What came of all cases.
pub(crate) struct Told<'r> {
    pub(crate) reports: &'r [CaseReport],
    /// The snapshots of no case.
    pub(crate) unreferenced: &'r [PathBuf],
    pub(crate) took: Duration,
    /// How many cases there were to run.
    pub(crate) chosen: usize,
}

/// What came of all cases, as a document.
#[derive(Serialize)]
pub(crate) struct Document {
    passed: usize,
    failed: usize,
    took_ms: u64,
    cases: Vec<Value>,
    /// The snapshots of no case.
    unreferenced: Vec<String>,
}

impl Told<'_> {
    pub(crate) fn document(&self) -> Document {
        let passed = self.reports.iter().filter(|report| report.passed()).count();
        Document {
            passed,
            failed: self.reports.len() - passed,
            took_ms: u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            cases: self.reports.iter().map(case).collect(),
            unreferenced: self.unreferenced.iter().map(|file| slashes(file)).collect(),
        }
    }

    /// Shows each case that fails, with `verbose` what happened in each, and their number. Of the snapshots of no case only
    /// a test of all cases speaks.
    pub(crate) fn show(&self, verbose: bool, all: bool, output: &mut Output) {
        for report in self.reports.iter().filter(|report| verbose || !report.passed()) {
            show(report, verbose, &mut output.stdout);
        }
        for file in self.unreferenced.iter().filter(|_| all) {
            let words = format!(": `{}` is the snapshot of no case: remove it", slashes(file));
            output.note(styled(Style::Yellow, "warning").and(words));
        }
        let failed = self.reports.iter().filter(|report| !report.passed()).count();
        let counted = match (self.chosen, failed) {
            (0, _) if all => "no cases: write one in `tests/NAME.toml`".to_owned(),
            (0, _) => "no case has such a name".to_owned(),
            (all, 0) => format!("{} passed", count(all as u64, "case")),
            (all, failed) => {
                format!("{}: {} passed, {failed} failed", count(all as u64, "case"), all - failed)
            }
        };
        let took = if self.chosen == 0 { String::new() } else { format!(" · {}", duration(self.took)) };
        output.note(Words::from(counted).and(styled(Style::Dim, took)));
        if self
            .reports
            .iter()
            .any(|report| report.snapshot.as_ref().is_some_and(|one| one.state != SnapshotState::Same))
        {
            output.note("accept the runs as they are with `dalsegno test --accept`");
        }
    }
}

fn slashes(file: &std::path::Path) -> String {
    file.to_string_lossy().replace('\\', "/")
}

fn show(report: &CaseReport, verbose: bool, stream: &mut Stream) {
    let (style, word) = if report.passed() { (Style::Green, "passed") } else { (Style::Red, "FAILED") };
    let place = format!("{}:{}", slashes(&report.file), report.place.line);
    stream.line(
        styled(style, word).and("  ").and(report.name.as_str()).and(styled(Style::Dim, format!("  {place}"))),
    );
    for failure in &report.failures {
        for line in failure_text(failure).lines() {
            stream.line(format_args!("  {line}"));
        }
    }
    if verbose {
        stream.line("");
        report.text.lines().for_each(|line| stream.line(format_args!("  {line}")));
    }
    stream.line("");
}

/// A failure in words: what, where, and what to do.
pub(crate) fn failure_text(placed: &PlacedFailure) -> String {
    let PlacedFailure { failure, place } = placed;
    let place = place.map(|place| format!(" (line {})", place.line)).unwrap_or_default();
    let mut text = format!("{}{place}: ", failure.what);
    let mut lines = failure.message.lines();
    // Several lines stand below each other.
    match failure.message.contains('\n') {
        true => text.push_str(&lines.map(|line| format!("\n  {line}")).collect::<String>()),
        false => text.push_str(lines.next().unwrap_or_default()),
    }
    let text = text.replacen(": \n", ":\n", 1);
    match &failure.help {
        Some(help) => format!("{text}\nhelp: {}", help.replace('\n', "\n  ")),
        None => text,
    }
}

fn case(report: &CaseReport) -> Value {
    let trajectory = &report.trajectory;
    let failures: Vec<Value> = report
        .failures
        .iter()
        .map(|placed| {
            json!({
                "what": placed.failure.what,
                "message": placed.failure.message,
                "help": placed.failure.help,
                "line": placed.place.map(|place| place.line),
            })
        })
        .collect();
    let snapshot = report.snapshot.as_ref().map(|snapshot| {
        let state = match snapshot.state {
            SnapshotState::Same => "same",
            SnapshotState::New => "new",
            SnapshotState::Differs(_) => "differs",
            SnapshotState::Unreadable(_) => "unreadable",
        };
        json!({ "file": slashes(&snapshot.file), "state": state })
    });
    json!({
        "file": slashes(&report.file),
        "line": report.place.line,
        "name": report.name,
        "agent": report.agent,
        "passed": report.passed(),
        "failures": failures,
        "ends": trajectory.end.as_ref().map(End::kind),
        "answer": trajectory.answer(),
        "steps": trajectory.count,
        "calls": trajectory.calls.iter().map(|call| call.tool.as_str()).collect::<Vec<_>>(),
        "asks": trajectory.asks,
        "usage": trajectory.usage,
        "snapshot": snapshot,
        "took_us": u64::try_from(report.took.as_micros()).unwrap_or(u64::MAX),
    })
}
