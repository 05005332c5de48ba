//! `dalsegno test`: agents tested like functions.

use std::path::{Path, PathBuf};
use std::time::Instant;

use dalsegno_cases::{CaseReport, Search, SnapshotState, Suite};
use dalsegno_workspace::{Case, CaseFile, Cases, Diagnostic, Workspace};

use super::Context;
use crate::args::{Format, TestArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::{cases, diagnostics, junit};

pub(super) mod from_run;
mod watch;

pub(super) use self::from_run::from_run;
pub(super) use self::watch::watch;

/// Runs the cases. Starts nothing, opens no journal.
pub(super) fn test(args: &TestArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let began = Instant::now();
    let workspace = context.files_alone()?;
    let cases = workspace.cases();
    let (suite, problems) = Suite::load(&workspace.root, &cases);
    let found: Vec<Diagnostic> = cases.diagnostics.iter().cloned().chain(problems).collect();
    if found.iter().any(Diagnostic::is_error) {
        return Ok(refuse(&cases, &found, context));
    }
    let passes = |file: &CaseFile, case: &Case| is_chosen(&args.filters, file, case);
    let chosen = suite.count(passes);
    let search = Search { seed: args.seed, runs: args.runs };
    let mut reports = suite.run(search, passes);
    if args.accept {
        accept(&workspace.root, &mut reports)?;
    } else {
        keep_pending(&workspace.root, &reports)?;
    }
    let unreferenced = suite.unreferenced();
    let told = cases::Told { reports: &reports, unreferenced: &unreferenced, took: began.elapsed(), chosen };
    if let Some(file) = &args.junit {
        let path = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        let document = junit::document(&reports, began.elapsed());
        let document = document.map_err(|source| Error::Write { path: path.clone(), source })?;
        write(path, &document)?;
    }
    match context.format {
        Format::Json => context.output.document(&told.document()),
        _ => told.show(context.verbose, args.filters.is_empty(), context.output),
    }
    Ok(match reports.iter().all(CaseReport::passed) {
        // A name that was mistyped must not pass for cases that pass.
        _ if chosen == 0 && !args.filters.is_empty() => Exit::BadInput,
        true => Exit::Done,
        false => Exit::Diverged,
    })
}

/// Tells what is wrong with the files of cases.
fn refuse(cases: &Cases, found: &[Diagnostic], context: &mut Context<'_>) -> Exit {
    if context.format == Format::Json {
        context.output.document(&found);
        return Exit::BadInput;
    }
    diagnostics::draw_from(&context.root, &cases.sources, found, context.output);
    context.output.note(format_args!("{}: no case was run", diagnostics::summary(found)));
    Exit::BadInput
}

/// Says whether a case is one of those that are named.
fn is_chosen(filters: &[String], file: &CaseFile, case: &Case) -> bool {
    let file = file.source.file().to_string_lossy();
    let (name, agent) = (&case.draft.name.value, case.draft.agent.value.as_str());
    filters.is_empty()
        || filters.iter().any(|filter| {
            name.contains(filter.as_str())
                || file.contains(filter.as_str())
                || agent.contains(filter.as_str())
        })
}

/// Keeps the runs as snapshots; what was wrong with these counts no more.
fn accept(root: &Path, reports: &mut [CaseReport]) -> Result<(), Error> {
    for report in reports {
        let Some(snapshot) = &mut report.snapshot else { continue };
        if snapshot.state != SnapshotState::Same {
            write(root.join(&snapshot.file), snapshot.text.as_bytes())?;
            snapshot.state = SnapshotState::Same;
        }
        forget(&root.join(snapshot.pending()))?;
        report.failures.retain(|failure| failure.failure.what != "snapshot");
    }
    Ok(())
}

/// Writes what differs from its snapshot beside it, to be looked at, and removes what does not differ any more.
fn keep_pending(root: &Path, reports: &[CaseReport]) -> Result<(), Error> {
    for snapshot in reports.iter().filter_map(|report| report.snapshot.as_ref()) {
        let pending = root.join(snapshot.pending());
        match &snapshot.state {
            SnapshotState::Same => forget(&pending)?,
            SnapshotState::New | SnapshotState::Differs(_) | SnapshotState::Unreadable(_) => {
                write(pending, snapshot.text.as_bytes())?;
            }
        }
    }
    Ok(())
}

fn forget(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Write { path: path.to_owned(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn write(path: PathBuf, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| dalsegno_files::replace_shared(&path, bytes))
        .map_err(|source| Error::Write { path, source })
}

/// What is wrong with the cases of a workspace and with the files that they name, for `dalsegno check`.
pub(super) fn problems(workspace: &Workspace) -> (Cases, Vec<Diagnostic>) {
    let cases = workspace.cases();
    let (_, more) = Suite::load(&workspace.root, &cases);
    let found = cases.diagnostics.iter().cloned().chain(more).collect();
    (cases, found)
}
