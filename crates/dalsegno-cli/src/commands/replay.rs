//! `dalsegno replay`: computes a recorded run again and compares.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dalsegno_core::RunId;
use dalsegno_history::{Divergence, Journal, ReplayVerdict};
use dalsegno_runtime::{Engine, EngineError, OpenError, load_workspace, load_workspace_with};
use dalsegno_store::RunFilter;
use dalsegno_wire::Replayed;
use dalsegno_workspace::{Diagnostic, InCode};

use super::journal::Kept;
use super::{Context, programs, select};
use crate::args::{Format, ReplayArgs};
use crate::error::{Error, Problems};
use crate::exit::Exit;
use crate::input;
use crate::render::diff;
use crate::render::failure::with_short_ids;
use crate::render::output::Output;
use crate::render::text::{Style, count, short, styled};

pub(super) async fn replay(args: &ReplayArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let Kept { journal, .. } = context.reader().await?;
    let Some(run) = &args.run else { return all(&journal, context).await };
    let run = select::run(&journal, run).await?;
    if let Some(file) = &args.with_config {
        return with_config(&journal, run, file.as_deref(), context).await;
    }
    let report = match args.until {
        Some(step) => journal.replay_until(run, step).await?,
        None => journal.replay(run).await?,
    };
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

/// Replays every run; tells of each that is not identical, and counts them all.
async fn all(journal: &Journal, context: &mut Context<'_>) -> Result<Exit, Error> {
    let filter = RunFilter { limit: u32::MAX, ..RunFilter::default() };
    let mut verdicts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut others = Vec::new();
    let mut worst = Exit::Done;
    let text = context.format == Format::Text;
    let output = &mut *context.output;
    journal
        .replay_all(&filter, |run, result| {
            let verdict = ReplayVerdict::of(&result);
            *verdicts.entry(verdict.as_str()).or_default() += 1;
            let words = match &result {
                Ok(report) if report.identical => return,
                Ok(report) => report.divergence.as_ref().map(ToString::to_string).unwrap_or_default(),
                Err(error) => error.to_string(),
            };
            worst = match (worst, verdict) {
                // What was erased on purpose is no fault.
                (worst, ReplayVerdict::Identical | ReplayVerdict::Erased) => worst,
                (Exit::Done | Exit::Diverged, ReplayVerdict::Diverged) => Exit::Diverged,
                (_, ReplayVerdict::Diverged)
                | (_, ReplayVerdict::Damaged | ReplayVerdict::Newer | ReplayVerdict::Failed) => Exit::Failed,
            };
            if text {
                output.stdout.line(format_args!(
                    "{}  {}  {}",
                    short(run),
                    verdict.as_str(),
                    with_short_ids(&words)
                ));
            } else {
                others.push(serde_json::json!({ "run_id": run, "verdict": verdict, "message": words }));
            }
        })
        .await?;
    if !text {
        output.document(&serde_json::json!({ "verdicts": verdicts, "others": others }));
    }
    let counted: Vec<String> = verdicts.iter().map(|(verdict, runs)| format!("{runs} {verdict}")).collect();
    let words = if counted.is_empty() { "no runs".to_owned() } else { counted.join(", ") };
    output.note(format_args!("{words}, nothing performed"));
    Ok(worst)
}

/// Replays under the agent as a file has it, or as the workspace has it now.
async fn with_config(
    journal: &Journal,
    run: RunId,
    file: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    let agent = journal.inspect(run, None).await?.summary.agent;
    let mut loaded = load_workspace(&context.root);
    let mut replaced = None;
    if let Some(file) = file {
        let text = input::text(&format!("@{}", file.display()))?;
        let known = loaded.workspace.as_ref().and_then(|workspace| workspace.agents.get(&agent));
        // It stands where the run's agent stands, or beside the others when that one is gone.
        let place = known.map_or_else(
            || Path::new("agents").join(format!("{agent}.toml")),
            |known| known.source.file().to_path_buf(),
        );
        let mut in_code = InCode::default();
        in_code.set_text(place.clone(), text);
        loaded = load_workspace_with(&context.root, &in_code);
        let text = loaded.source(&place).map(|source| source.text().to_owned());
        replaced = Some(Replaced { file, place, text });
    }
    let Some(workspace) = loaded.workspace else {
        return Err(match replaced {
            Some(replaced) if loaded.diagnostics.iter().any(|one| one.file == replaced.place) => {
                replaced.fault(loaded.diagnostics)
            }
            Some(_) | None => {
                OpenError::Workspace { root: context.root.clone(), diagnostics: loaded.diagnostics }.into()
            }
        });
    };
    programs::admit(&workspace.settings, context)?;
    let engine = Engine::builder().build(workspace).await?;
    let config = match (engine.agent_config(&agent).await, replaced) {
        (Err(EngineError::Agent { diagnostics, .. }), Some(replaced)) => {
            return Err(replaced.fault(diagnostics));
        }
        (config, _) => config?,
    };
    let report = journal.replay_with(run, config).await?;
    let output = &mut *context.output;
    match context.format {
        Format::Text => diff::configs(&report, output),
        Format::Json | Format::Jsonl => output.document(&report),
    }
    if report.identical {
        identical(&format!("{}, nothing performed", count(report.steps, "step")), output);
        return Ok(Exit::Done);
    }
    let word = match (&report.divergence, report.changed_requests.len()) {
        (Some(divergence), _) => format!("another course from step {} on", divergence.step),
        (None, requests) => format!("the same course with {}", count(requests as u64, "changed request")),
    };
    output.note(styled(Style::Yellow, word));
    Ok(Exit::Diverged)
}

/// A file that stands in the place of an agent's own.
struct Replaced<'f> {
    file: &'f Path,
    place: PathBuf,
    text: Option<String>,
}

impl Replaced<'_> {
    /// The error that names the file as it was given, and shows its text.
    fn fault(self, diagnostics: Vec<Diagnostic>) -> Error {
        let diagnostics = diagnostics.into_iter().map(|one| {
            let file = if one.file == self.place { self.file.to_owned() } else { one.file };
            Diagnostic { file, ..one }
        });
        let problems = Problems { diagnostics: diagnostics.collect(), text: self.text };
        Error::Configuration { file: self.file.to_owned(), problems: Box::new(problems) }
    }
}

fn identical(what: &str, output: &mut Output) {
    output.note(styled(Style::Green, "identical").and(format_args!(": {what}")));
}

fn diverged(divergence: &Divergence, output: &mut Output) {
    output.note(styled(Style::Red, "diverged").and(format_args!(" at step {}", divergence.step)));
    output.note(format_args!("  expected: {}", divergence.expected));
    output.note(format_args!("  got:      {}", divergence.got));
}
