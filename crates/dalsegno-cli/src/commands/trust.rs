//! `dalsegno trust`: which workspaces may be used although they belong to another user, and may start programs.

use std::path::{Path, PathBuf};

use dalsegno_workspace::Workspace;
use serde::Serialize;

use crate::args::{Format, TrustArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::output::Output;
use crate::trust::{self, Trust};

/// A trusted workspace as a document.
#[derive(Serialize)]
struct Listed {
    workspace: PathBuf,
    #[serde(flatten)]
    trust: Trust,
}

pub(super) fn trust(args: &TrustArgs, format: Format, output: &mut Output) -> Result<Exit, Error> {
    match &args.dir {
        None => list(format, output),
        Some(dir) if args.revoke => revoke(dir, format, output),
        Some(dir) => add(dir, format, output),
    }
}

fn list(format: Format, output: &mut Output) -> Result<Exit, Error> {
    let trusted = trust::read()?;
    if format == Format::Json {
        let listed = trusted.into_iter().map(|(workspace, trust)| Listed { workspace, trust });
        output.document(&listed.collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    for (workspace, trust) in &trusted {
        output.stdout.line(format_args!("{}: {}", workspace.display(), words(trust)));
    }
    if trusted.is_empty() {
        output.note("you trust no workspace yet: `dalsegno trust DIR` trusts one");
    }
    Ok(Exit::Done)
}

/// What is trusted of a workspace.
fn words(trust: &Trust) -> String {
    let owners: Vec<String> = trust.owners.iter().map(ToString::to_string).collect();
    let owners = (!owners.is_empty()).then(|| format!("files of the user {}", owners.join(", ")));
    let programs =
        trust.programs.as_ref().map(|digest| format!("programs {}", &digest[..digest.len().min(19)]));
    let parts: Vec<String> = owners.into_iter().chain(programs).collect();
    if parts.is_empty() { "as it was: it started no programs".to_owned() } else { parts.join("; ") }
}

fn add(dir: &Path, format: Format, output: &mut Output) -> Result<Exit, Error> {
    if !dir.join("dalsegno.toml").is_file() {
        return Err(Error::NotAWorkspace { folder: dir.to_path_buf() });
    }
    let settings = Workspace::load(dir).settings;
    let trust = trust::trust(dir, settings.as_ref())?;
    let programs = settings.as_ref().map(trust::programs).unwrap_or_default();
    if format == Format::Json {
        output.document(&Listed { workspace: trust::real(dir), trust });
        return Ok(Exit::Done);
    }
    output.note(format_args!("`{}` is trusted as it is now", trust::real(dir).display()));
    for user in &trust.owners {
        output.note(format_args!("  its files may belong to the user {user}"));
    }
    for program in &programs {
        output.note(format_args!("  it may start {}", program));
    }
    Ok(Exit::Done)
}

fn revoke(dir: &Path, format: Format, output: &mut Output) -> Result<Exit, Error> {
    let was = trust::revoke(dir)?;
    let folder = trust::real(dir);
    if format == Format::Json {
        output.document(&serde_json::json!({ "workspace": folder, "revoked": was }));
        return Ok(Exit::Done);
    }
    let words = if was { "is trusted no longer" } else { "was not trusted" };
    output.note(format_args!("`{}` {words}", folder.display()));
    Ok(Exit::Done)
}
