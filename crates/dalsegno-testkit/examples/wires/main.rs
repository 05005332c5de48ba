//! The model wires, proven with real runs of the command.
//!
//! Each row is something that a provider does, each column something that happens to a run meanwhile: nothing, a kill,
//! an approval by another process, a fork. A cell starts the command in a workspace of its own, at a server that keeps
//! what it is sent. Most rows are spoken twice: by aimock, a mock server that others wrote, and with bodies as
//! the providers document them.
//!
//! `cargo xtask wires` installs what this needs, and runs it.

mod aimock;
mod cell;
mod check;
mod row;
mod server;
mod wire;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, bail};
use serde_json::json;

use crate::aimock::Aimock;
use crate::cell::{Cell, Column, Source};
use crate::row::ROWS;
use crate::wire::Wire;

/// What is asked for.
#[derive(Debug, Default)]
struct Arguments {
    /// The command.
    dalsegno: PathBuf,
    /// Node, and the program of aimock.
    node: PathBuf,
    aimock: PathBuf,
    /// Only the rows whose name has this in it.
    only: Option<String>,
    /// One JSON document instead of the table.
    json: bool,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut found = Self::default();
        while let Some(word) = words.next() {
            if word == "--json" {
                found.json = true;
                continue;
            }
            let value = words.next().with_context(|| format!("`{word}` takes a value"));
            match word.as_str() {
                "--dalsegno" => found.dalsegno = value?.into(),
                "--node" => found.node = value?.into(),
                "--aimock" => found.aimock = value?.into(),
                "--only" => found.only = Some(value?),
                _ => bail!("`{word}` is not known: --only ROW, --json, --dalsegno, --node, --aimock"),
            }
        }
        Ok(found)
    }
}

/// What is wrong in each cell, in the order of the cells.
type Outcomes = Vec<Vec<String>>;

fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs every cell, and returns whether all of them passed.
fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let is_asked = |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut cells = Vec::new();
    for wire in Wire::ALL {
        for row in ROWS.iter().filter(|row| is_asked(row.name)) {
            for source in [Source::Own, Source::Aimock] {
                if source == Source::Own || row.aimock.contains(&wire) {
                    cells.extend(Column::ALL.map(|column| Cell { row, wire, column, source }));
                }
            }
        }
    }
    if cells.is_empty() {
        bail!("no row has `{}` in its name", arguments.only.as_deref().unwrap_or_default());
    }
    let aimock = Aimock::start(&arguments.node, &arguments.aimock, &cells)?;
    let outcomes = perform(&cells, arguments, &aimock);
    let failed = outcomes.iter().filter(|wrong| !wrong.is_empty()).count();
    let said = if arguments.json { document(&cells, &outcomes) } else { table(&cells, &outcomes) };
    writeln!(std::io::stdout(), "{said}")?;
    Ok(failed == 0)
}

/// Two cells at a time: most of their time is spent waiting.
fn perform(cells: &[Cell], arguments: &Arguments, aimock: &Aimock) -> Outcomes {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![Vec::new(); cells.len()]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((number, cell)) = Some(next.fetch_add(1, Ordering::SeqCst))
                    .and_then(|number| Some((number, cells.get(number)?)))
                {
                    let wrong = cell
                        .run(&arguments.dalsegno, aimock.address)
                        .unwrap_or_else(|error| vec![format!("{error:#}")]);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner)[number] = wrong;
                }
            });
        }
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The table in Markdown: four cells a line, and below it what was wrong.
fn table(cells: &[Cell], outcomes: &Outcomes) -> String {
    let mut table = String::from("| wire | row | spoken by |");
    for column in Column::ALL {
        let _ = write!(table, " {} |", column.name());
    }
    table.push_str("\n|---|---|---|---|---|---|---|\n");
    let mut wrong = String::new();
    for (cells, outcomes) in cells.chunks(Column::ALL.len()).zip(outcomes.chunks(Column::ALL.len())) {
        let Cell { row, wire, source, .. } = &cells[0];
        let _ = write!(table, "| {} | {} | {} |", wire.provider(), row.name, source.name());
        for (cell, outcome) in cells.iter().zip(outcomes) {
            table.push_str(if outcome.is_empty() { " ok |" } else { " **wrong** |" });
            for one in outcome {
                let _ = writeln!(
                    wrong,
                    "- {}, {}, {}, {}: {one}",
                    wire.provider(),
                    row.name,
                    source.name(),
                    cell.column.name()
                );
            }
        }
        table.push('\n');
    }
    let passed = outcomes.iter().filter(|outcome| outcome.is_empty()).count();
    let _ = write!(table, "\n{passed} of {} cells are ok", cells.len());
    if !wrong.is_empty() {
        let _ = write!(table, "\n\n{}", wrong.trim_end());
    }
    table
}

fn document(cells: &[Cell], outcomes: &Outcomes) -> String {
    let cells = cells.iter().zip(outcomes).map(|(cell, wrong)| {
        json!({
            "wire": cell.wire.provider(), "row": cell.row.name, "spoken_by": cell.source.name(),
            "column": cell.column.name(), "ok": wrong.is_empty(), "wrong": wrong,
        })
    });
    format!("{:#}", json!({ "cells": cells.collect::<Vec<_>>() }))
}
