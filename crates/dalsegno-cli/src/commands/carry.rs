//! `dalsegno export` and `dalsegno import`: runs in one portable file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use dalsegno_history::HistoryError;
use dalsegno_report::page;
use dalsegno_runtime::{AdoptOptions, Adoption, Archives, EngineError, SignedBy};
use dalsegno_store::{Archive, ArchiveError, Foreign, ReadError};
use serde_json::json;

use super::journal::Kept;
use super::{Context, report, select};
use crate::args::{AdoptArgs, ExportArgs, Format, ImportArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::text::{brief, count, short};

/// The most bytes of a file that is imported: far beyond any session, and a bound on memory.
const LARGEST: u64 = 1 << 30;

pub(super) async fn export(args: &ExportArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let to_output = args.file.as_deref() == Some(Path::new("-"));
    if to_output && context.format != Format::Text {
        return Err(Error::TwoDocuments);
    }
    let Kept { journal, settings, .. } = context.reader().await?;
    let run = select::run(&journal, &args.run).await?;
    let with = match &args.with {
        Some(with) => Some(select::run(&journal, with).await?),
        None => None,
    };
    let runs: Vec<_> = [Some(run), with].into_iter().flatten().collect();
    let (archive, damaged) = match journal.export_all(&runs).await {
        // A report shows what can be read, and where the damage is.
        Err(HistoryError::Read(ReadError::Damaged(_))) if args.html => journal.export_intact(&runs).await?,
        archive => (archive?, Vec::new()),
    };
    let signed = match Archives::new(journal.clone(), &settings).sign(&archive) {
        Ok(bytes) => bytes,
        // A journal that may only be read can be exported all the same.
        Err(EngineError::SigningKey(error)) => {
            context.output.note(format_args!("the file is not signed: {error}"));
            archive.encode()
        }
        Err(error) => return Err(error.into()),
    };
    let mut facts = None;
    let (bytes, ending) = if args.html {
        let found = facts.insert(report::facts(&journal, run, with, &archive, &damaged).await?);
        (page::page(found, &signed).into_bytes(), "html")
    } else {
        (signed, "dalsegno")
    };
    let path = args.file.clone().unwrap_or_else(|| PathBuf::from(format!("{}.{ending}", short(run))));
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::FileTaken { path: path.clone() },
        _ => Error::Write { path: path.clone(), source },
    };
    if to_output {
        io::stdout().lock().write_all(&bytes).map_err(failed)?;
    } else {
        write(&path, &bytes, args.force).map_err(failed)?;
    }
    if context.format != Format::Text {
        let runs: Vec<_> = archive.runs().collect();
        let mut document = json!({ "file": path, "runs": runs, "bytes": bytes.len() });
        if let Some(seal) = facts.as_ref().and_then(|facts| facts.seals.iter().find(|seal| seal.run == run)) {
            document["steps"] = json!(seal.steps);
        }
        context.output.document(&document);
    }
    let runs = count(archive.runs().count() as u64, "run");
    context.output.note(format_args!("exported {runs} to `{}`", path.display()));
    for note in facts.iter().flat_map(|facts| &facts.notes) {
        context.output.note(&note.text);
    }
    Ok(Exit::Done)
}

pub(super) async fn import(args: &ImportArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = if args.adopt { Some(context.performer().await?) } else { None };
    let archives = match &engine {
        Some(engine) => engine.archives(),
        None => {
            let Kept { journal, settings, .. } = context.journal().await?;
            Archives::new(journal, &settings)
        }
    };
    let bytes =
        read(&args.file).map_err(|source| Error::Input { place: args.file.display().to_string(), source })?;
    // A report holds the same archive.
    let bytes = if page::is_page(&bytes) {
        let most = usize::try_from(LARGEST).unwrap_or(usize::MAX);
        let read = page::read(&bytes, most);
        read.map_err(|source| Error::NotAReport { path: args.file.clone(), source })?.1
    } else {
        bytes
    };
    let archive = Archive::decode(&bytes).map_err(|source| match source {
        // Where it ends says more than the lengths that it should have.
        ArchiveError::Cut { .. } | ArchiveError::Length { .. } => {
            Error::CutArchive { path: args.file.clone(), bytes: bytes.len() as u64 }
        }
        source => Error::NotAnArchive { path: args.file.clone(), source },
    })?;
    let imported = archives.import(archive).await?;
    match context.format {
        Format::Text => {}
        Format::Json | Format::Jsonl => {
            if !args.adopt {
                context.output.document(&imported);
            }
        }
    }
    let added = count(imported.added.len() as u64, "run");
    let known = match imported.known.len() {
        0 => String::new(),
        known => format!("; {} known already", count(known as u64, "run")),
    };
    context.output.note(format_args!("imported {added}{known}"));
    for run in &imported.added {
        context.output.note(format_args!("  {}", short(run)));
    }
    for (what, names) in [
        ("agents", &imported.brings.agents),
        ("tools", &imported.brings.tools),
        ("tenants", &imported.brings.tenants),
        ("sessions", &imported.brings.sessions),
    ] {
        if !names.is_empty() {
            context.output.note(format_args!("{what}: {}", listed(names)));
        }
    }
    let by = match (&imported.signed_by, &imported.signer) {
        (SignedBy::ThisWorkspace, _) => "signed by this workspace".to_owned(),
        (SignedBy::Known(name), Some(signer)) => format!("signed by `{name}` ({signer})"),
        (SignedBy::Known(_) | SignedBy::Stranger, signer) => {
            let signer = signer.map_or_else(String::new, |signer| signer.to_string());
            format!("signed by {signer}, whom dalsegno.toml does not name in `[signers]`")
        }
        (SignedBy::Nobody, _) => "not signed: nobody can tell who made it".to_owned(),
    };
    context.output.note(by);
    if !imported.added.is_empty() {
        context.output.note(format_args!(
            "they are foreign: show, replay, diff and fork them; nothing of them is performed until you adopt them"
        ));
    }
    if let Some(engine) = &engine {
        let options = AdoptOptions { by: args.by.clone(), unknown_signer: args.unknown_signer };
        let mut adopted = Vec::new();
        for run in imported.added.iter().chain(&imported.known) {
            let summary = engine.journal().inspect(*run, None).await?.summary;
            if summary.foreign.is_some() && summary.parent.is_none() && !summary.status.is_end() {
                let adoption = engine.adopt(*run, &options).await?;
                tell(&adoption, context);
                adopted.push(adoption);
            }
        }
        if adopted.is_empty() {
            context.output.note("no run of it goes on, so that none was adopted");
        }
        if context.format != Format::Text {
            context.output.document(&json!({ "imported": imported, "adopted": adopted }));
        }
    }
    Ok(Exit::Done)
}

pub(super) async fn adopt(args: &AdoptArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.performer().await?;
    let run = select::run(engine.journal(), &args.run).await?;
    let options = AdoptOptions { by: args.by.clone(), unknown_signer: args.unknown_signer };
    let adoption = engine.adopt(run, &options).await?;
    if context.format != Format::Text {
        context.output.document(&adoption);
    }
    tell(&adoption, context);
    Ok(Exit::Done)
}

fn tell(adoption: &Adoption, context: &mut Context<'_>) {
    let (foreign, run) = (short(adoption.foreign), short(adoption.run));
    let words = if adoption.known { "was adopted before" } else { "is adopted" };
    context.output.note(format_args!(
        "run {foreign} {words} as run {run}: a worker goes on with it, or `dalsegno resume {run}`"
    ));
}

/// The first names of many, cut to what a line of a log can hold.
fn listed(names: &BTreeSet<String>) -> String {
    const SHOWN: usize = 12;
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| brief(name, 64)).collect();
    if names.len() > SHOWN {
        shown.push(format!("and {} more", names.len() - SHOWN));
    }
    shown.join(", ")
}

/// Says who signed the archive that a run came in.
pub(super) fn signed(foreign: &Foreign) -> String {
    match foreign.signer {
        Some(signer) => format!("{signer} signed"),
        None => "nobody signed".to_owned(),
    }
}

/// Writes a file as a whole or not at all. Without `force` another file is never written over.
fn write(path: &Path, bytes: &[u8], force: bool) -> io::Result<()> {
    if force { dalsegno_files::replace(path, bytes) } else { dalsegno_files::write_new(path, bytes) }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let source: Box<dyn Read> =
        if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let read = source.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if read as u64 > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 GiB"));
    }
    Ok(bytes)
}
