//! `dalsegno tools pull`: documents of the catalogue, written into files that people review and commit.

use std::fs;
use std::path::{Path, PathBuf};

use dalsegno_runtime::{canonical_document, document_place};
use dalsegno_workspace::{DocumentPlace, Workspace};
use serde::Serialize;

use super::Context;
use crate::args::{Format, ToolsPullArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::table::table;
use crate::render::text::count;

/// A document of the catalogue, and the file that it is written into.
#[derive(Serialize)]
struct Pulled {
    kind: &'static str,
    name: String,
    tenant: Option<String>,
    version: String,
    /// The file, relative to the workspace.
    file: String,
    /// What happened to the file: `made`, `replaced` or `same`.
    state: &'static str,
    #[serde(skip)]
    path: PathBuf,
    #[serde(skip)]
    text: String,
}

pub(super) async fn pull(args: &ToolsPullArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let documents = context.quiet().await?.documents().await;
    let documents = documents.map_err(|error| Error::Documents(Box::new(error)))?;
    let files = Workspace::load(&context.root).sound().ok();
    let wanted = documents.into_iter().filter(|document| {
        let id = &document.id;
        let is_tool = id.kind().as_str() == "tool";
        let is_of = args.tenant.as_deref().is_none_or(|tenant| {
            id.tenant() == Some(tenant) || id.kind().as_str() == "tenant" && id.name() == tenant
        });
        let is_named =
            args.names.is_empty() || args.names.iter().any(|name| name.replace('-', "_") == id.name());
        (is_tool || args.all)
            && is_of
            && (is_named || !is_tool && args.names.iter().any(|name| name == id.name()))
    });
    let mut pulled = Vec::new();
    for document in wanted {
        let file = place(&document_place(&document.id), files.as_ref());
        let path = context.root.join(&file);
        let state = match fs::read_to_string(&path) {
            Ok(text) if canonical_document(&text) == document.text => "same",
            Ok(_) => "replaced",
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "made",
            // Text in another encoding is another text.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => "replaced",
            Err(source) => return Err(Error::Write { path, source }),
        };
        pulled.push(Pulled {
            kind: document.id.kind().as_str(),
            name: document.id.name().to_owned(),
            tenant: document.id.tenant().map(str::to_owned),
            version: document.version.to_string(),
            file: file.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/"),
            state,
            path,
            text: document.text,
        });
    }
    if let Some(unknown) = args
        .names
        .iter()
        .find(|name| !pulled.iter().any(|found| found.name == **name || found.name == name.replace('-', "_")))
    {
        return Err(Error::NoDocument { name: unknown.clone() });
    }
    let taken: Vec<PathBuf> = pulled
        .iter()
        .filter(|found| found.state == "replaced")
        .map(|found| PathBuf::from(&found.file))
        .collect();
    if !taken.is_empty() && !args.force {
        return Err(Error::OtherFiles { files: taken });
    }
    for found in pulled.iter().filter(|found| found.state != "same") {
        let fault = |source| Error::Write { path: found.path.clone(), source };
        if let Some(folder) = found.path.parent() {
            fs::create_dir_all(folder).map_err(fault)?;
        }
        dalsegno_files::replace_shared(&found.path, found.text.as_bytes()).map_err(fault)?;
    }
    tell(&pulled, context);
    Ok(Exit::Done)
}

/// The file that a document is written into: the one with an agent, tool or tenant of this name, else a new one.
fn place(place: &DocumentPlace, files: Option<&Workspace>) -> PathBuf {
    let source = files.and_then(|files| match place {
        DocumentPlace::Agent(name) => Some(files.agents.get(&name.parse().ok()?)?.source.clone()),
        DocumentPlace::Tool(name) => files.toolkits.get(name)?.source.clone(),
        DocumentPlace::Tenant(name) => Some(files.tenants.get(name)?.source.clone()),
        DocumentPlace::ToolOf { tenant, name } => files.tenants.get(tenant)?.tools.get(name)?.source.clone(),
    });
    source.map_or_else(|| place.file(), |source| Path::new(source.file()).to_owned())
}

fn tell(pulled: &[Pulled], context: &mut Context<'_>) {
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&pulled);
        return;
    }
    if pulled.is_empty() {
        output.note("the catalogue has no such documents");
        return;
    }
    let rows: Vec<_> = pulled
        .iter()
        .map(|found| {
            let version = found.version.chars().take(12).collect();
            [found.file.clone(), found.kind.to_owned(), version, found.state.to_owned()]
        })
        .collect();
    for line in table(["FILE", "KIND", "VERSION", "STATE"], &rows, output.stdout.terminal.room) {
        output.stdout.line(line);
    }
    let documents = count(pulled.len() as u64, "document");
    output.note(format_args!("{documents}: they stand in for these files until they are deleted by API"));
}
