//! `dalsegno gc`, `doctor`, `backup` and `erase`: what keeps a journal small, sound and safe.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dalsegno_catalogue::SqliteDocuments;
use dalsegno_core::{OperationId, RunId, Timestamp};
use dalsegno_history::{HistoryError, Journal, open_store};
use dalsegno_memory::SqliteMemory;
use dalsegno_runtime::OpenError;
use dalsegno_store::{GcOptions, SqliteStore};
#[cfg(feature = "serve")]
use dalsegno_webhooks::WebhookStore;
use dalsegno_workspace::{Loaded, Settings, Workspace};
use serde_json::json;

use super::journal::Kept;
use super::{Context, select};
use crate::args::{BackupArgs, EraseArgs, Format, GcArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::output::Output;
use crate::render::text::{Style, count, short, styled};

pub(super) async fn gc(args: &GcArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let Kept { journal, .. } = context.journal().await?;
    let mut options = GcOptions::new(before(args.older_than));
    options.dry_run = !args.yes;
    let report = journal.gc(&options).await?;
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
    let settings = settings(context)?;
    let memory = settings.memory.path.clone();
    let store = opened(settings).await?;
    let checkup = store.doctor(|_| {}).await.map_err(HistoryError::from)?;
    let mut findings: Vec<String> = checkup.findings.iter().map(|finding| finding.to_string()).collect();
    let remembers = memory.exists();
    if remembers {
        let examined = tokio::task::spawn_blocking(move || SqliteMemory::examine(memory)).await;
        let examined = examined.map_err(|error| OpenError::Stopped { message: error.to_string() })?;
        findings.extend(examined.map_err(OpenError::from)?);
    }
    let output = &mut *context.output;
    match context.format {
        Format::Text => findings.iter().for_each(|finding| output.stdout.line(finding)),
        Format::Json | Format::Jsonl => output.document(&json!({
            "sound": findings.is_empty(),
            "version": checkup.version,
            "runs": checkup.runs,
            "records": checkup.records,
            "erased": checkup.erased,
            "configs": checkup.configs,
            "files": checkup.files,
            "snapshots": checkup.snapshots,
            "messages": checkup.messages,
            "memory": remembers,
            "findings": findings,
        })),
    }
    let seen = format!(
        "{}, {}, {}, {}{}",
        count(checkup.runs, "run"),
        count(checkup.records, "record"),
        count(checkup.files, "file"),
        count(checkup.configs, "configuration"),
        if remembers { ", and the memory" } else { "" }
    );
    if findings.is_empty() {
        output.note(styled(Style::Green, "sound").and(format_args!(": {seen}")));
        return Ok(Exit::Done);
    }
    let faults = count(findings.len() as u64, "finding");
    output.note(styled(Style::Red, "damaged").and(format_args!(": {faults} in {seen}")));
    crate::render::failure::help_line("restore a backup, or export the runs that are intact", output);
    Ok(Exit::Failed)
}

pub(super) async fn backup(args: &BackupArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let settings = settings(context)?;
    let mut copies = Vec::new();
    let journal = match args.all {
        false => args.file.clone(),
        true => {
            let fault = |source| Error::Write { path: args.file.clone(), source };
            // A folder that is there may hold another copy, whose parts do not belong to these.
            if args.file.exists() {
                return Err(dalsegno_store::BackupError::Exists { path: args.file.clone() }.into());
            }
            dalsegno_files::make_folder(&args.file).map_err(fault)?;
            copies = beside(&settings, &args.file).await?;
            args.file.join(settings.store.file_name().unwrap_or_default())
        }
    };
    // The journal last: what it has further than the rest is delivered from it again, and nothing is left out.
    let memory = settings.memory.path.clone();
    let store = opened(settings).await?;
    store.backup(&journal, |_| {}).await?;
    copies.push(journal);
    // The memory after it: a run that the journal has further back writes again what is there already, which changes nothing. The
    // other way round, what a run has written would be missing for ever.
    if args.all && memory.exists() {
        let copy = args.file.join(memory_name(&memory, &copies));
        let target = copy.clone();
        let copied = tokio::task::spawn_blocking(move || SqliteMemory::open(memory)?.copy(target)).await;
        let copied = copied.map_err(|error| OpenError::Stopped { message: error.to_string() })?;
        copied.map_err(OpenError::from)?;
        copies.push(copy);
    }
    let size = |file: &PathBuf| std::fs::metadata(file).map_or(0, |file| file.len());
    let output = &mut *context.output;
    if context.format == Format::Json {
        let bytes = copies.iter().map(size).sum::<u64>();
        output.document(&json!({ "file": args.file, "bytes": bytes, "files": copies }));
    }
    for copy in &copies {
        output.note(format_args!("copied and examined: `{}`, {} bytes", copy.display(), size(copy)));
    }
    Ok(Exit::Done)
}

/// The name of the copy of the memory: its own, unless another copy has it, as where both are in folders of their own.
fn memory_name(memory: &Path, copies: &[PathBuf]) -> OsString {
    let name = memory.file_name().unwrap_or_default();
    if copies.iter().all(|copy| copy.file_name() != Some(name)) {
        return name.to_owned();
    }
    let mut own = OsString::from("memory-");
    own.push(name);
    own
}

/// Copies what is beside the journal, as far as it is there; returns the copies.
async fn beside(settings: &Settings, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let (place, folder) = (settings.store.clone(), folder.to_owned());
    let copied = tokio::task::spawn_blocking(move || {
        let mut copies = Vec::new();
        let from = |name: &str| Some(place.with_file_name(name)).filter(|file| file.exists());
        if let Some(documents) = from("catalogue.db") {
            let copy = folder.join("catalogue.db");
            SqliteDocuments::open(documents).and_then(|store| store.copy(&copy)).map_err(Error::Catalogue)?;
            copies.push(copy);
        }
        #[cfg(feature = "serve")]
        if let Some(webhooks) = from("webhooks.db") {
            let copy = folder.join("webhooks.db");
            WebhookStore::open(webhooks)?.copy(&copy)?;
            copies.extend([copy, folder.join("webhooks.key")]);
        }
        Ok(copies)
    });
    copied.await.map_err(|error| OpenError::Stopped { message: error.to_string() })?
}

pub(super) async fn erase(args: &EraseArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let Kept { journal, .. } = context.journal().await?;
    let run = select::run(&journal, &args.run).await?;
    let operation = match &args.op {
        Some(op) => {
            let inspection = journal.inspect(run, None).await?;
            Some(select::operation_of(&inspection, op)?)
        }
        None => None,
    };
    // Before anything is erased: the run itself says who goes on from it.
    let heirs = if operation.is_none() { journal.heirs(run).await? } else { Vec::new() };
    if !args.yes {
        return would_erase(run, operation, &heirs, &journal, context).await;
    }
    let erased = match args.everywhere {
        true => journal.erase_everywhere(run).await?.0,
        false => journal.erase(run, operation).await?,
    };
    let (erased_in, held_by) = if args.everywhere { (heirs, Vec::new()) } else { (Vec::new(), heirs) };
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&json!({
            "run_id": run,
            "records": erased.records,
            "files": erased.files,
            "shared_files": erased.shared_files,
            "erased_in": erased_in,
            "held_by": held_by,
        }));
    }
    let shared = match erased.shared_files {
        0 => String::new(),
        shared => format!("; {} stay, since other runs use them", count(shared, "file")),
    };
    output.note(format_args!(
        "erased the content of {} of run {}{}, and {}{shared}",
        count(erased.records, "record"),
        short(run),
        match erased_in.len() {
            0 => String::new(),
            others => format!(" and of {} that held it", count(others as u64, "other run")),
        },
        count(erased.files, "file")
    ));
    tell_heirs(&held_by, output);
    Ok(Exit::Done)
}

/// Says what `--yes` would erase.
async fn would_erase(
    run: RunId,
    operation: Option<OperationId>,
    heirs: &[RunId],
    journal: &Journal,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    let inspection = journal.inspect(run, None).await?;
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&json!({ "run_id": run, "operation": operation, "erased": false, "held_by": heirs }));
    }
    let what = match operation {
        Some(operation) => {
            format!("operation {} of run {}, and of what is below it", short(operation), short(run))
        }
        None => format!("run {}: {}", short(run), count(inspection.summary.records, "record")),
    };
    output.note(format_args!("would erase the content of {what}; `--yes` does it, for ever"));
    tell_heirs(heirs, output);
    Ok(Exit::Done)
}

/// Names the runs that hold what a run said as well.
fn tell_heirs(heirs: &[RunId], output: &mut Output) {
    if heirs.is_empty() {
        return;
    }
    let shown: Vec<String> = heirs.iter().take(SHOWN).map(|run| short(*run)).collect();
    let more = match heirs.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    output.note(format_args!(
        "{} of its session or forked from it {} what it said: {}{more}; `--everywhere` erases that, too",
        count(heirs.len() as u64, "run"),
        if heirs.len() == 1 { "holds" } else { "hold" },
        shown.join(", ")
    ));
}

/// Most runs that are named in a line.
const SHOWN: usize = 5;

/// The time so long ago.
fn before(age: Duration) -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = now.saturating_sub(age).as_millis();
    Timestamp::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// The settings of the workspace, of which nothing else has to be sound.
fn settings(context: &Context<'_>) -> Result<Settings, Error> {
    let Loaded { settings, diagnostics, .. } = Workspace::load(&context.root);
    let root = || context.root.clone();
    settings.ok_or_else(|| OpenError::Workspace { root: root(), diagnostics }.into())
}

/// Opens the journal that the settings name.
async fn opened(settings: Settings) -> Result<SqliteStore, Error> {
    // Opening makes a new journal where there is none, which is no journal to examine or to copy.
    if !settings.store.exists() {
        return Err(Error::NoJournal { path: settings.store });
    }
    let store = tokio::task::spawn_blocking(move || open_store(&settings.store)).await;
    let store = store.map_err(|error| OpenError::Stopped { message: error.to_string() })?;
    Ok(store.map_err(OpenError::from)?)
}
