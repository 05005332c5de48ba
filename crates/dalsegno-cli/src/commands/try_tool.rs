//! `dalsegno tools test`: one declarative tool, performed or played back, action by action.

use std::path::{Path, PathBuf};

use dalsegno_core::ToolOwner;
use dalsegno_runtime::{Trial, TrialOptions, TrialRecording};
use dalsegno_workspace::{SourceFile, ToolkitFile};
use serde_json::{Value, json};

use super::Context;
use crate::args::{Format, ToolsTestArgs};
use crate::error::{Error, Problems};
use crate::exit::Exit;
use crate::input;
use crate::render::table::table;
use crate::render::text::{Style, styled};

pub(super) async fn test(args: &ToolsTestArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let toolkit = open(&args.file)?.toolkit;
    let params = args.params.as_deref().map_or_else(|| Ok(json!({})), input::json)?;
    let options = TrialOptions {
        tenant: args.tenant.clone(),
        user: args.user.as_deref().map_or_else(|| Ok(json!({})), input::json)?,
        owner: owner(&args.file, &context.root, &args.tenant),
    };
    let tool = match (&args.action, toolkit.tools()) {
        (Some(action), _) if !toolkit.is_single() => {
            format!("{}.{}", toolkit.name(), action.replace('-', "_"))
        }
        (Some(action), _) => action.replace('-', "_"),
        (None, [only]) => only.name().to_owned(),
        (None, several) => {
            let known = several.iter().filter_map(|tool| tool.name().split_once('.'));
            let known = known.map(|(_, action)| action.to_owned()).collect();
            return Err(Error::WhichAction { file: args.file.clone(), known });
        }
    };
    let recording = match &args.replay {
        Some(file) => Some(read(file)?),
        None if args.live || args.record.is_some() => None,
        None => Some(TrialRecording::empty(&tool)),
    };
    let engine = if recording.is_some() { context.quiet().await? } else { context.engine().await? };
    let tried = match &recording {
        Some(recording) if recording.tool != tool => {
            return Err(Error::OtherRecording { tool, found: recording.tool.clone() });
        }
        Some(recording) => engine.play_tool(&toolkit, &params, &options, recording).await,
        None => {
            let words = format!("calling `{tool}` outside of any run: nothing is journaled");
            context.output.note(styled(Style::Dim, words));
            engine.try_tool(&toolkit, &tool, &params, &options).await
        }
    };
    let trial = tried.map_err(|error| Error::Trial(Box::new(error)))?;
    if let Some(file) = &args.record {
        write(file, &trial.recording)?;
        let count = trial.recording.exchanges.len();
        context.output.note(format_args!(
            "{} in `{}`; look at it before you commit it",
            crate::render::text::count(count as u64, "request"),
            file.display()
        ));
    }
    Ok(tell(&trial, context))
}

/// Whose a document is, by the folder that it stands in: one from elsewhere is nobody's, whatever name it has.
fn owner(file: &Path, root: &Path, tenant: &str) -> Option<ToolOwner> {
    let folder = file.canonicalize().ok()?.parent()?.to_owned();
    let is = |place: PathBuf| root.join(place).canonicalize().is_ok_and(|place| place == folder);
    if is(PathBuf::from("tools")) {
        return Some(ToolOwner::Workspace);
    }
    is(Path::new("tenants").join(tenant).join("tools")).then(|| ToolOwner::Tenant(tenant.to_owned()))
}

fn open(file: &Path) -> Result<ToolkitFile, Error> {
    let here = std::env::current_dir().map_err(|source| Error::NoCurrentFolder { source })?;
    ToolkitFile::open(&here, file).map_err(|(diagnostics, source)| {
        let text = source.as_ref().map(SourceFile::text).map(str::to_owned);
        Error::Configuration { file: file.to_owned(), problems: Box::new(Problems { diagnostics, text }) }
    })
}

fn read(file: &Path) -> Result<TrialRecording, Error> {
    let place = file.display().to_string();
    serde_json::from_value(input::json_file(file)?).map_err(|source| Error::Json { place, source })
}

fn write(file: &Path, recording: &TrialRecording) -> Result<(), Error> {
    let fault = |source| Error::Write { path: file.to_owned(), source };
    let text = format!("{:#}\n", json!(recording));
    dalsegno_files::replace(file, text.as_bytes()).map_err(fault)
}

fn tell(trial: &Trial, context: &mut Context<'_>) -> Exit {
    let (outcome, writes) = (&trial.finished.outcome, &trial.finished.writes);
    let output = &mut *context.output;
    let exit = if outcome.ok { Exit::Done } else { Exit::Failed };
    if context.format == Format::Json {
        output.document(&json!({ "outcome": outcome, "writes": writes }));
        return exit;
    }
    let rows: Vec<_> = outcome
        .actions
        .iter()
        .map(|action| {
            let word = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let mut effect: Vec<String> = action
                .details
                .iter()
                .map(|(name, value)| format!("{name} {}", word(value.clone())))
                .collect();
            effect.extend(action.error.iter().map(|error| error.message.clone()));
            effect.extend(action.warnings.iter().cloned());
            let name = action.place.id.as_deref().map_or_else(String::new, |id| format!(" ({id})"));
            [
                format!("{}{name}", action.place.action),
                action.place.kind.clone(),
                word(json!(action.status)),
                effect.join(", "),
            ]
        })
        .collect();
    for line in table(["ACTION", "TYPE", "STATUS", "EFFECT"], &rows, output.stdout.terminal.room) {
        output.stdout.line(line);
    }
    let mut section = |head: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            output.stdout.line(format_args!("\n{head}"));
            for line in lines.iter().flat_map(|line| line.lines()) {
                output.stdout.line(format_args!("  {}", line));
            }
        }
    };
    section("says", outcome.said.clone());
    section("writes", writes.iter().map(|write| json!(write).to_string()).collect());
    section("hands over to", outcome.handoff.iter().map(|handoff| handoff.target_agent.clone()).collect());
    match &outcome.error {
        None => section("returns", vec![outcome.output.to_string()]),
        Some(error) => section("fails", vec![format!("{}: {}", error.code, error.message)]),
    }
    exit
}
