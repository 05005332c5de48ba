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
mod sdks;
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
use crate::cell::{Cell, Column, Finding, Source};
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
    /// The folder with the packages of Python.
    python: PathBuf,
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
                "--python" => found.python = value?.into(),
                "--only" => found.only = Some(value?),
                _ => {
                    bail!("`{word}` is not known: --only ROW, --json, --dalsegno, --node, --aimock, --python")
                }
            }
        }
        Ok(found)
    }
}

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
    let findings = perform(&cells, arguments, &aimock);
    let judged = sdks::check(&arguments.python, &cells, &findings)?;
    let said = if arguments.json {
        document(&cells, &findings, &judged)
    } else {
        format!("{}\n\n{judged}", table(&cells, &findings))
    };
    writeln!(std::io::stdout(), "{said}")?;
    Ok(findings.iter().all(|finding| finding.wrong.is_empty()) && judged.wrong.is_empty())
}

/// Two cells at a time: most of their time is spent waiting.
fn perform(cells: &[Cell], arguments: &Arguments, aimock: &Aimock) -> Vec<Finding> {
    let next = AtomicUsize::new(0);
    let findings = Mutex::new(vec![Finding::default(); cells.len()]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((number, cell)) = Some(next.fetch_add(1, Ordering::SeqCst))
                    .and_then(|number| Some((number, cells.get(number)?)))
                {
                    let finding = cell.run(&arguments.dalsegno, aimock.address).unwrap_or_else(|error| {
                        let wrong = vec![format!("{error:#}")];
                        Finding { wrong, ..Finding::default() }
                    });
                    findings.lock().unwrap_or_else(PoisonError::into_inner)[number] = finding;
                }
            });
        }
    });
    findings.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The table in Markdown: four cells a line, and below it what was wrong.
fn table(cells: &[Cell], findings: &[Finding]) -> String {
    let mut table = String::from("| wire | row | spoken by |");
    for column in Column::ALL {
        let _ = write!(table, " {} |", column.name());
    }
    table.push_str("\n|---|---|---|---|---|---|---|\n");
    let mut wrong = String::new();
    for (cells, findings) in cells.chunks(Column::ALL.len()).zip(findings.chunks(Column::ALL.len())) {
        let Cell { row, wire, source, .. } = &cells[0];
        let _ = write!(table, "| {} | {} | {} |", wire.provider(), row.name, source.name());
        for (cell, finding) in cells.iter().zip(findings) {
            table.push_str(if finding.wrong.is_empty() { " ok |" } else { " **wrong** |" });
            for one in &finding.wrong {
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
    let passed = findings.iter().filter(|finding| finding.wrong.is_empty()).count();
    let _ = write!(table, "\n{passed} of {} cells are ok", cells.len());
    if !wrong.is_empty() {
        let _ = write!(table, "\n\n{}", wrong.trim_end());
    }
    table
}

fn document(cells: &[Cell], findings: &[Finding], judged: &sdks::Judgement) -> String {
    let cells = cells.iter().zip(findings).map(|(cell, Finding { wrong, .. })| {
        json!({
            "wire": cell.wire.provider(), "row": cell.row.name, "spoken_by": cell.source.name(),
            "column": cell.column.name(), "ok": wrong.is_empty(), "wrong": wrong,
        })
    });
    format!(
        "{:#}",
        json!({
            "cells": cells.collect::<Vec<_>>(),
            "types": { "requests": judged.requests, "compared": judged.compared, "versions": judged.types, "wrong": judged.wrong },
        })
    )
}
