//! `segno replay`: computes a recorded run again and compares.

use std::collections::BTreeMap;
use std::path::Path;

use segno_core::RunId;
use segno_runtime::{Divergence, Engine, OpenError};
use segno_workspace::Workspace;

use super::{Context, select};
use crate::args::{Format, ReplayArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::input;
use crate::render::diff;
use crate::render::document::Replayed;
use crate::render::output::Output;
use crate::render::text::{Style, count, harmless, styled};

pub(super) async fn replay(args: &ReplayArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.journal().await?;
    let run = select::run(&engine, &args.run).await?;
    if let Some(file) = &args.with_config {
        return with_config(&engine, run, file.as_deref(), context).await;
    }
    let report = engine.replay(run).await?;
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&Replayed::of(&report));
    }
    let Some(divergence) = &report.divergence else {
        let (steps, records) = (count(report.steps, "step"), count(report.records, "record"));
        identical(&format!("{steps}, {records}, nothing performed"), output);
        return Ok(Exit::Done);
    };
    diverged(divergence, output);
    let help =
        "another release recorded it, or the journal was changed: use that release, or restore a backup";
    crate::render::failure::help_line(help, output);
    Ok(Exit::Diverged)
}

/// Replays under the agent as a file has it, or as the workspace has it now.
async fn with_config(
    journal: &Engine,
    run: RunId,
    file: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    let agent = journal.inspect(run, None).await?.summary.agent;
    let mut loaded = Workspace::load(&context.root);
    if let Some(file) = file {
        let text = input::text(&format!("@{}", file.display()))?;
        let known = loaded.workspace.as_ref().and_then(|workspace| workspace.agents.get(&agent));
        // It stands where the run's agent stands, or beside the others when that one is gone.
        let place = known.map_or_else(
            || Path::new("agents").join(format!("{agent}.toml")),
            |known| known.source.file().to_path_buf(),
        );
        loaded = Workspace::load_with(&context.root, &BTreeMap::from([(place, text)]));
    }
    let Some(workspace) = loaded.workspace else {
        let root = context.root.clone();
        return Err(OpenError::Workspace { root, diagnostics: loaded.diagnostics }.into());
    };
    let engine = Engine::builder().build(workspace).await?;
    let report = engine.replay_with(run, engine.agent_config(&agent).await?).await?;
    let output = &mut *context.output;
    match context.format {
        Format::Text => diff::configs(&report, output),
        Format::Json | Format::Jsonl => output.document(&report),
    }
    if report.identical {
        identical(&format!("{}, nothing performed", count(report.steps, "step")), output);
        return Ok(Exit::Done);
    }
    let colour = output.stderr.terminal.colour;
    let word = match (&report.divergence, report.changed_requests.len()) {
        (Some(divergence), _) => format!("another course from step {} on", divergence.step),
        (None, requests) => format!("the same course with {}", count(requests as u64, "changed request")),
    };
    output.note(styled(colour, Style::Yellow, word));
    Ok(Exit::Diverged)
}

fn identical(what: &str, output: &mut Output) {
    let word = styled(output.stderr.terminal.colour, Style::Green, "identical").to_string();
    output.note(format_args!("{word}: {what}"));
}

fn diverged(divergence: &Divergence, output: &mut Output) {
    let word = styled(output.stderr.terminal.colour, Style::Red, "diverged").to_string();
    output.note(format_args!("{word} at step {}", divergence.step));
    output.note(format_args!("  expected: {}", harmless(&divergence.expected)));
    output.note(format_args!("  got:      {}", harmless(&divergence.got)));
}
