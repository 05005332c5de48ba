//! `dalsegno export` and `dalsegno import`: runs in one portable file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use dalsegno_store::{Archive, ArchiveError};
use serde_json::json;

use super::{Context, select};
use crate::args::{ExportArgs, Format, ImportArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::text::{count, short};

/// The most bytes of a file that is imported: far beyond any session, and a bound on memory.
const LARGEST: u64 = 1 << 30;

pub(super) async fn export(args: &ExportArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let to_output = args.file.as_deref() == Some(Path::new("-"));
    if to_output && context.format != Format::Text {
        return Err(Error::TwoDocuments);
    }
    let engine = context.journal().await?;
    let run = select::run(&engine, &args.run).await?;
    let archive = engine.export(run).await?;
    let bytes = archive.encode();
    let path = args.file.clone().unwrap_or_else(|| PathBuf::from(format!("{}.dalsegno", short(run))));
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
        context.output.document(&json!({ "file": path, "runs": runs, "bytes": bytes.len() }));
    }
    let runs = count(archive.runs().count() as u64, "run");
    context.output.note(format_args!("exported {runs} to `{}`", path.display()));
    Ok(Exit::Done)
}

pub(super) async fn import(args: &ImportArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.journal().await?;
    let bytes =
        read(&args.file).map_err(|source| Error::Input { place: args.file.display().to_string(), source })?;
    let archive = Archive::decode(&bytes).map_err(|source| match source {
        // Where it ends says more than the lengths that it should have.
        ArchiveError::Cut { .. } | ArchiveError::Length { .. } => {
            Error::CutArchive { path: args.file.clone(), bytes: bytes.len() as u64 }
        }
        source => Error::NotAnArchive { path: args.file.clone(), source },
    })?;
    let imported = engine.import(archive).await?;
    match context.format {
        Format::Text => {}
        Format::Json | Format::Jsonl => {
            context.output.document(&json!({ "added": imported.added, "known": imported.known }));
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
    Ok(Exit::Done)
}

/// Writes a file as a whole or not at all. Without `force` another file is never written over.
fn write(path: &Path, bytes: &[u8], force: bool) -> io::Result<()> {
    if !force && path.try_exists()? {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = OpenOptions::new().write(true).create_new(true).open(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let written = written.and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        // What is left of it is of no use; the error that stopped us matters more than one from here.
        let _ = std::fs::remove_file(&part);
    }
    written
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
