//! `dalsegno gc`, `doctor`, `backup` and `erase`: what keeps a journal small, sound and safe.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dalsegno_core::Timestamp;
use dalsegno_runtime::OpenError;
use dalsegno_store::{GcOptions, SqliteStore};
use dalsegno_workspace::{Loaded, Workspace};
use serde_json::json;

use super::{Context, select};
use crate::args::{BackupArgs, EraseArgs, Format, GcArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::text::{Style, count, harmless, short, styled};

pub(super) async fn gc(args: &GcArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.journal().await?;
    let mut options = GcOptions::new(before(args.older_than));
    options.dry_run = !args.yes;
    let report = engine.gc(&options).await?;
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&json!({
            "dry_run": options.dry_run,
            "runs": report.runs,
            "records": report.records,
            "snapshots": report.snapshots,
            "files": report.files,
            "configs": report.configs,
            "bytes": report.bytes,
        }));
    }
    let what = format!(
        "{} with {}, {}, {}: {} bytes",
        count(report.runs, "run"),
        count(report.records, "record"),
        count(report.files, "file"),
        count(report.configs, "configuration"),
        report.bytes
    );
    if args.yes {
        output.note(format_args!("deleted {what}"));
    } else {
        output.note(format_args!("would delete {what}; `--yes` does it"));
    }
    Ok(Exit::Done)
}

pub(super) async fn doctor(context: &mut Context<'_>) -> Result<Exit, Error> {
    let store = open(context).await?;
    let checkup = store.doctor(|_| {}).await.map_err(dalsegno_runtime::EngineError::from)?;
    let findings: Vec<String> =
        checkup.findings.iter().map(|finding| harmless(&finding.to_string())).collect();
    let output = &mut *context.output;
    match context.format {
        Format::Text => findings.iter().for_each(|finding| output.stdout.line(finding)),
        Format::Json | Format::Jsonl => output.document(&json!({
            "sound": checkup.is_sound(),
            "version": checkup.version,
            "runs": checkup.runs,
            "records": checkup.records,
            "erased": checkup.erased,
            "configs": checkup.configs,
            "files": checkup.files,
            "snapshots": checkup.snapshots,
            "messages": checkup.messages,
            "findings": findings,
        })),
    }
    let colour = output.stderr.terminal.colour;
    let seen = format!(
        "{}, {}, {}, {}",
        count(checkup.runs, "run"),
        count(checkup.records, "record"),
        count(checkup.files, "file"),
        count(checkup.configs, "configuration")
    );
    if checkup.is_sound() {
        output.note(format_args!("{}: {seen}", styled(colour, Style::Green, "sound")));
        return Ok(Exit::Done);
    }
    let faults = count(checkup.findings.len() as u64, "finding");
    output.note(format_args!("{}: {faults} in {seen}", styled(colour, Style::Red, "damaged")));
    crate::render::failure::help_line("restore a backup, or export the runs that are intact", output);
    Ok(Exit::Failed)
}

pub(super) async fn backup(args: &BackupArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let store = open(context).await?;
    store.backup(&args.file, |_| {}).await?;
    let bytes = std::fs::metadata(&args.file).map_or(0, |file| file.len());
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&json!({ "file": args.file, "bytes": bytes }));
    }
    output.note(format_args!("copied and examined: `{}`, {bytes} bytes", args.file.display()));
    Ok(Exit::Done)
}

pub(super) async fn erase(args: &EraseArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.journal().await?;
    let run = select::run(&engine, &args.run).await?;
    let operation = match &args.op {
        Some(op) => {
            let inspection = engine.inspect(run, None).await?;
            Some(select::operation_of(&inspection, op)?)
        }
        None => None,
    };
    let erased = engine.erase(run, operation).await?;
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&json!({
            "run_id": run,
            "records": erased.records,
            "files": erased.files,
            "shared_files": erased.shared_files,
        }));
    }
    let shared = match erased.shared_files {
        0 => String::new(),
        shared => format!("; {} stay, since other runs use them", count(shared, "file")),
    };
    output.note(format_args!(
        "erased the content of {} of run {}, and {}{shared}",
        count(erased.records, "record"),
        short(run),
        count(erased.files, "file")
    ));
    Ok(Exit::Done)
}

/// The time so long ago.
fn before(age: Duration) -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = now.saturating_sub(age).as_millis();
    Timestamp::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Opens the journal that dalsegno.toml names; nothing else of the workspace has to be sound.
async fn open(context: &Context<'_>) -> Result<SqliteStore, Error> {
    let Loaded { settings, diagnostics, .. } = Workspace::load(&context.root);
    let Some(settings) = settings else {
        return Err(OpenError::Workspace { root: context.root.clone(), diagnostics }.into());
    };
    // Opening makes a new journal where there is none, which is no journal to examine or to copy.
    if !settings.store.exists() {
        return Err(Error::NoJournal { path: settings.store });
    }
    let store = tokio::task::spawn_blocking(move || SqliteStore::open(&settings.store)).await;
    let store = store.map_err(|error| OpenError::Stopped { message: error.to_string() })?;
    Ok(store.map_err(OpenError::from)?)
}
