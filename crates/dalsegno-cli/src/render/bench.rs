//! What a disk takes for a durable turn, as a table and as a document. The keys are a promise to scripts.

use std::time::Duration;

use serde::Serialize;

use super::output::Output;
use super::table;
use super::text::{Style, grouped, styled};
use crate::commands::bench::{Budget, Figures, Floors};

/// Times in milliseconds.
#[derive(Serialize)]
struct TurnTimes {
    all: f64,
    first_tenth: f64,
    last_tenth: f64,
}

/// Times in milliseconds.
#[derive(Serialize)]
struct FloorTimes {
    all: f64,
    before: f64,
    middle: f64,
    after: f64,
}

#[derive(Serialize)]
struct Document<'f> {
    place: &'f std::path::Path,
    build: &'static str,
    turns: u64,
    runs: u64,
    steps: u64,
    seconds: f64,
    turns_per_second: f64,
    turn_ms: TurnTimes,
    floor_ms: FloorTimes,
    ratio_to_2f: f64,
    cpu_us_per_step: Option<f64>,
    commits: Option<u64>,
    steps_per_fsync: Option<f64>,
    disk_bytes: u64,
    disk_bytes_per_turn: u64,
    transcript_bytes: u64,
    peak_memory_bytes: Option<u64>,
    replay_steps_per_second: f64,
    budgets: [Budget; 6],
}

/// Writes the figures as a document.
pub(crate) fn document(figures: &Figures, output: &mut Output) {
    let Floors { before, middle, after, all } = &figures.floor;
    output.document(&Document {
        place: &figures.place,
        build: if cfg!(debug_assertions) { "debug" } else { "release" },
        turns: figures.turns,
        runs: figures.runs,
        steps: figures.steps,
        seconds: rounded(figures.took.as_secs_f64()),
        turns_per_second: rounded(figures.turns_per_second()),
        turn_ms: TurnTimes {
            all: millis(figures.turn),
            first_tenth: millis(figures.first_tenth),
            last_tenth: millis(figures.last_tenth),
        },
        floor_ms: FloorTimes {
            all: millis(*all),
            before: millis(*before),
            middle: millis(*middle),
            after: millis(*after),
        },
        ratio_to_2f: rounded(figures.ratio()),
        cpu_us_per_step: figures.cpu_per_step().map(|cpu| rounded(cpu.as_secs_f64() * 1e6)),
        commits: figures.commits,
        steps_per_fsync: figures.steps_per_fsync().map(rounded),
        disk_bytes: figures.disk,
        disk_bytes_per_turn: figures.disk_per_turn(),
        transcript_bytes: figures.transcript,
        peak_memory_bytes: figures.peak_memory,
        replay_steps_per_second: rounded(figures.replayed),
        budgets: figures.budgets(),
    });
}

/// Writes the figures as a table, with what each should be.
pub(crate) fn table(figures: &Figures, output: &mut Output) {
    let Floors { before, middle, after, all } = &figures.floor;
    let [ratio, cpu, fsync, disk, memory, replay] = figures.budgets().map(|budget| mark(&budget));
    let unknown = || "not known here".to_owned();
    let row = |what: &str, measured: String, budget: &str, mark: &str| {
        [what.to_owned(), measured, budget.to_owned(), mark.to_owned()]
    };
    let rows = [
        row("turns a second", grouped(figures.turns_per_second().round() as u64), "", ""),
        row("a turn, first tenth", ms(figures.first_tenth), "", ""),
        row(
            "a turn, last tenth",
            format!("{}, {:.2} x first", ms(figures.last_tenth), figures.growth()),
            "the same",
            "",
        ),
        row("F, a commit of 1 KiB", ms(*all), "", ""),
        row(
            "F before/amid/after",
            format!("{:.2}, {:.2}, {}", millis(*before), millis(*middle), ms(*after)),
            "",
            "",
        ),
        row("a turn in 2F", format!("{:.2} x", figures.ratio()), "≤ 1.5 (1 run)", ratio),
        row(
            "CPU a step",
            figures.cpu_per_step().map_or_else(unknown, |cpu| format!("{:.0} µs", cpu.as_secs_f64() * 1e6)),
            "≤ 60 µs (100 runs)",
            cpu,
        ),
        row(
            "steps an fsync",
            figures.steps_per_fsync().map_or_else(unknown, |steps| format!("{steps:.1}")),
            "≥ 30 (100 runs)",
            fsync,
        ),
        row(
            "journal on disk",
            format!("{}, {} B a turn", megabytes(figures.disk), grouped(figures.disk_per_turn())),
            "≤ 600 B a turn",
            disk,
        ),
        row(
            "peak memory",
            figures.peak_memory.map_or_else(unknown, megabytes),
            &format!("≤ {} (1 run)", megabytes(memory_max(figures))),
            memory,
        ),
        row(
            "replay",
            format!("{} steps/s", grouped(figures.replayed.round() as u64)),
            "≥ 100,000 steps/s",
            replay,
        ),
    ];
    let width = output.stdout.terminal.room;
    for line in table::table(["WHAT", "MEASURED", "BUDGET", ""], &rows, width) {
        if line.ends_with(MISSED) {
            output.stdout.line(styled(Style::Yellow, line));
        } else {
            output.stdout.line(line);
        }
    }
}

fn memory_max(figures: &Figures) -> u64 {
    let budget = figures.budgets().into_iter().find(|budget| budget.figure == "peak_memory_bytes");
    budget.and_then(|budget| budget.at_most).unwrap_or_default() as u64
}

const MISSED: &str = "missed";

/// Whether a budget is kept, in a word.
fn mark(budget: &Budget) -> &'static str {
    match budget.kept {
        Some(true) => "kept",
        Some(false) => MISSED,
        None => "",
    }
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn millis(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1e3)
}

/// To a thousandth: what stands behind it is noise.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
