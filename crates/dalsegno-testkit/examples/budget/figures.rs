//! What other measurements say: `dalsegno bench`, the core's benchmark, the start script, the crash tests.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::line::{Fault, Line, bytes, megabytes, micros, millis, times, whole};

/// Two durable steps are a turn, whoever measures it.
const STEPS_A_TURN: f64 = 2.0;

/// A figure of a document.
pub(crate) fn figure(document: &Value, name: &str) -> Result<f64, Fault> {
    let found = name.split('.').fold(document, |value, key| &value[key]);
    found.as_f64().ok_or_else(|| format!("there is no figure `{name}`").into())
}

/// What the core's benchmark left behind: the median time of a turn after so many, in nanoseconds.
fn core_turn(criterion: &Path, history: u32) -> Result<f64, Fault> {
    // Criterion makes names of folders of the names of benchmarks.
    let folder = criterion.join("turn (two steps)").join(format!("after {history} turns"));
    let file = folder.join("new/estimates.json");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    figure(&serde_json::from_str(&text)?, "median.point_estimate")
}

/// The pure step.
pub(crate) fn core(criterion: &Path) -> Result<Vec<Line>, Fault> {
    let [few, many] = [10, 10_000].map(|history| core_turn(criterion, history));
    let (few, many) = (few? / STEPS_A_TURN / 1e3, many? / STEPS_A_TURN / 1e3);
    Ok(vec![
        Line::at_most("core step after 10 turns", few, 2.0, micros),
        Line::at_most("core step after 10,000 turns", many, 2.0, micros),
        Line::at_most("  beside each other", many / few, 1.2, times),
    ])
}

/// `dalsegno bench` of so many turns and runs.
pub(crate) fn bench(dalsegno: &Path, turns: u32, runs: u32) -> Result<Value, Fault> {
    let folder = tempfile::tempdir()?;
    let (turns, runs) = (turns.to_string(), runs.to_string());
    let output = Command::new(dalsegno)
        .args(["bench", "--json", "--turns", &turns, "--runs", &runs])
        .current_dir(folder.path())
        .output()?;
    if !output.status.success() {
        return Err(format!("`dalsegno bench`: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Durable turns of one run.
pub(crate) fn one_run(dalsegno: &Path) -> Result<Vec<Line>, Fault> {
    let short = bench(dalsegno, 1_000, 1)?;
    let long = bench(dalsegno, 10_000, 1)?;
    let of = |name| figure(&long, name);
    let floor = format!(
        "{:.2} ms; before, amid, after {:.2}, {:.2}, {:.2}",
        of("floor_ms.all")?,
        of("floor_ms.before")?,
        of("floor_ms.middle")?,
        of("floor_ms.after")?
    );
    let turn = of("turn_ms.all")?;
    let memory = long["budgets"].as_array().and_then(|budgets| {
        let budget = budgets.iter().find(|budget| budget["figure"] == "peak_memory_bytes")?;
        budget["at_most"].as_f64()
    });
    let a_turn = |document| figure(document, "disk_bytes_per_turn");
    let mut lines = vec![
        Line::told("F, one commit of 1 KiB", floor),
        Line::at_most("durable turn, one run, in 2F", of("ratio_to_2f")?, 1.5, times)
            .noted(&format!("{turn:.2} ms, 10,000 turns")),
        Line::at_most(
            "  its last tenth beside its first",
            of("turn_ms.last_tenth")? / of("turn_ms.first_tenth")?,
            1.2,
            times,
        ),
        Line::at_most("journal, a trivial turn", a_turn(&long)?, 600.0, bytes),
        Line::at_most("  10,000 turns beside 1,000", a_turn(&long)? / a_turn(&short)?, 1.1, times),
        Line::at_most(
            "  beside the JSON of the messages",
            of("disk_bytes")? / of("transcript_bytes")?,
            2.0,
            times,
        ),
        Line::at_least("replay, steps a second", of("replay_steps_per_second")?, 100_000.0, whole),
        Line::told(
            "  sockets of a replay",
            "none: `a_replay_opens_nothing_but_the_journal` looks".to_owned(),
        ),
    ];
    lines.push(match (of("peak_memory_bytes"), memory) {
        (Ok(peak), Some(most)) => Line::at_most("memory, one run of 10,000 turns", peak, most, megabytes),
        _ => Line::unknown("memory, one run of 10,000 turns", "this machine does not say it"),
    });
    Ok(lines)
}

/// Durable turns of many runs.
pub(crate) fn many_runs(dalsegno: &Path) -> Result<Vec<Line>, Fault> {
    let document = bench(dalsegno, 500, 100)?;
    let of = |name| figure(&document, name);
    let floor = format!("F {:.2} ms", of("floor_ms.all")?);
    Ok(vec![
        Line::at_most("100 runs x 500 turns, CPU a step", of("cpu_us_per_step")?, 60.0, micros).noted(&floor),
        Line::at_least("  steps an fsync", of("steps_per_fsync")?, 30.0, whole),
        Line::at_least("  turns a second (the goal)", of("turns_per_second")?, 15_000.0, whole),
    ])
}

/// How long the command takes to start.
pub(crate) fn version(dalsegno: &Path, script: &Path) -> Result<Vec<Line>, Fault> {
    let output = Command::new("bash").arg(script).arg(dalsegno).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with("dalsegno --version"));
    let line =
        line.ok_or_else(|| format!("the start script says: {}", String::from_utf8_lossy(&output.stderr)))?;
    let median = line.split("median ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    let median: f64 = median.ok_or_else(|| format!("the start script says: {line}"))?;
    Ok(vec![Line::at_most("`dalsegno --version`", median, 10.0, millis)])
}

/// What the crash tests said, as they print it: `Tally { worlds: 1, kills: 2, … repeated: {…}, calls: 3 }`.
pub(crate) fn repeated(crash: &str) -> Result<Vec<Line>, Fault> {
    let (mut kills, mut calls, mut repeated) = (0, 0, 0);
    let tallies: Vec<&str> = crash.lines().filter(|line| line.contains("Tally {")).collect();
    if tallies.is_empty() {
        return Err("the crash tests were not run: their output has no tally".into());
    }
    for tally in tallies {
        let number = |name: &str| -> Result<u64, Fault> {
            let rest = tally.split(name).nth(1).ok_or_else(|| format!("no `{name}` in {tally}"))?;
            Ok(rest.split([',', ' ', '}']).next().unwrap_or_default().parse()?)
        };
        kills += number("kills: ")?;
        calls += number("calls: ")?;
        repeated += u32::from(tally.contains("Unsafe"));
    }
    let note = format!("{kills} kills, {calls} calls; asked about what was in doubt");
    Ok(vec![Line::at_most("effects repeated unknowingly", repeated.into(), 0.0, whole).noted(&note)])
}
