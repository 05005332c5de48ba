//! `dalsegno check`: every problem of the workspace at once.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use dalsegno_memory::check_seed;
use dalsegno_models::{Cassette, ScriptModel};
use dalsegno_runtime::{Engine, load_workspace};
use dalsegno_workspace::{
    Cases, Catalogue, Diagnostic, Loaded, Lock, LockChange, LockRead, ModelBinding, SecretRef, SourceFile,
    Workspace,
};
use serde::Serialize;

use super::{Context, programs, test};
use crate::args::Format;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::diagnostics;
use crate::render::failure;
use crate::render::output::Output;
use crate::render::text::{Style, brief, count, styled};

/// What `check --connect` tells.
#[derive(Serialize)]
struct Connected<'c> {
    /// What changed at the tool servers, each in words.
    changes: Vec<String>,
    /// Whether `dalsegno.lock` was written.
    written: bool,
    diagnostics: &'c [Diagnostic],
}

/// Checks the files, and holds every agent against what is pinned in `dalsegno.lock`. Starts nothing.
pub(super) fn files(context: &mut Context<'_>) -> Result<Exit, Error> {
    let Loaded { workspace, diagnostics: mut found, lock, .. } = load_workspace(&context.root);
    let LockRead { lock, diagnostics, .. } = lock;
    // Of a damaged file nothing is believed; that it is damaged is told, and not that nothing is pinned.
    let is_damaged = lock.is_none() && !diagnostics.is_empty();
    found.extend(diagnostics);
    if let Some(workspace) = workspace.as_ref().filter(|_| !is_damaged) {
        found.extend(workspace.check(&lock.unwrap_or_default(), &Catalogue::new()));
    }
    let mut sources = Vec::new();
    if let Some(workspace) = &workspace {
        found.extend(beside(workspace));
        let (cases, problems) = of_cases(&context.root);
        add(&mut found, problems);
        sources = cases.sources;
        for eval in workspace.evals() {
            add(&mut found, eval.diagnostics);
            sources.extend(eval.source);
        }
    }
    if context.format == Format::Json {
        context.output.document(&found);
    }
    Ok(tell(workspace.as_ref(), &sources, &found, context))
}

/// The cases, which run the agents and tools of the files alone, and what is wrong with them.
fn of_cases(root: &Path) -> (Cases, Vec<Diagnostic>) {
    Workspace::load(root).workspace.as_ref().map(test::problems).unwrap_or_default()
}

/// Adds the problems that are not known yet.
fn add(found: &mut Vec<Diagnostic>, more: Vec<Diagnostic>) {
    for problem in more {
        if !found.contains(&problem) {
            found.push(problem);
        }
    }
}

/// Reads the scripts and the cassettes of models, and the seeds of the memory, as a run will.
fn beside(workspace: &Workspace) -> Vec<Diagnostic> {
    let models = workspace.settings.models.values().filter_map(|model| match model {
        ModelBinding::Script { file } => Some((file, ScriptModel::open(file).err()?.to_string())),
        ModelBinding::Cassette { file } => Some((file, Cassette::open(file).err()?.to_string())),
        ModelBinding::Http(_) | ModelBinding::InCode => None,
    });
    let seeds = workspace.settings.memory.seeds.iter().filter_map(|seed| {
        let opened = File::open(seed).map_err(|error| error.to_string());
        let checked =
            opened.and_then(|file| check_seed(BufReader::new(file)).map_err(|error| error.to_string()));
        Some((seed, checked.err()?))
    });
    let wrong =
        models.chain(seeds).map(|(file, problem)| Diagnostic::of_file(&workspace.root, file, problem));
    wrong.chain(unknown_names(workspace)).collect()
}

/// The names in scripts that become empty text.
fn unknown_names(workspace: &Workspace) -> Vec<Diagnostic> {
    let scripts = workspace.settings.models.values().filter_map(|model| match model {
        ModelBinding::Script { file } => Some((file, ScriptModel::open(file).ok()?.unknown_names())),
        ModelBinding::Cassette { .. } | ModelBinding::Http(_) | ModelBinding::InCode => None,
    });
    let mut found = Vec::new();
    for (file, unknown) in scripts {
        for (reply, name) in unknown {
            let words = format!(
                "reply {reply} (counted from 0) reads `{name}`, which is empty: a script knows `request`, `last` and `results`"
            );
            found.push(Diagnostic::of_name(&workspace.root, file, words));
        }
    }
    found
}

/// Tells which environment variables that hold secrets are not set here. What runs elsewhere may have them.
fn tell_unset(workspace: &Workspace, output: &mut Output) {
    let settings = &workspace.settings;
    let keys = settings.models.iter().filter_map(|(name, model)| match model {
        ModelBinding::Http(http) => {
            Some(http.secrets().map(move |(key, found)| (format!("`{key}` of the model `{name}`"), found)))
        }
        ModelBinding::Script { .. } | ModelBinding::Cassette { .. } | ModelBinding::InCode => None,
    });
    let keys = keys.flatten();
    let secrets = settings.secrets.iter().map(|(name, found)| (format!("the secret `{name}`"), found));
    let of_tenants = workspace.tenants.values().flat_map(|tenant| {
        let words = |name: &String| format!("the secret `{name}` of the tenant `{}`", tenant.name);
        tenant.secrets.iter().map(move |(name, found)| (words(name), found))
    });
    for (what, found) in keys.chain(secrets).chain(of_tenants) {
        let SecretRef::Env(variable) = found else { continue };
        if std::env::var_os(variable).is_none() {
            output.note(styled(Style::Yellow, "warning").and(format_args!(
                ": {what} is in the environment variable `{variable}`, which is not set here"
            )));
        }
    }
}

/// Asks every tool server what it offers, tells what changed since it was pinned, and pins that, with the names by which
/// models see actions of toolkits.
pub(super) async fn connect(context: &mut Context<'_>) -> Result<Exit, Error> {
    let Loaded { workspace, diagnostics: mut found, lock: read, .. } = load_workspace(&context.root);
    let Some(workspace) = workspace else {
        if context.format == Format::Json {
            context.output.document(&Connected { changes: Vec::new(), written: false, diagnostics: &found });
        }
        return Ok(tell(None, &[], &found, context));
    };
    // Of a damaged file nothing is believed but names: nobody wants them to change for it.
    let before = read.lock.clone().unwrap_or_else(|| Lock { names: read.names(), ..Lock::default() });
    // Not by `Context::engine`, which asks for a lock that is right.
    programs::admit(&workspace.settings, context)?;
    let engine = Engine::builder().build(workspace).await?;
    let (lock, unreachable) = engine.pin(&before).await;
    let mut workspace = Workspace::clone(&engine.workspace());
    workspace.set_names(lock.names.clone());
    let changes = Lock::diff(&before, &lock);
    let is_wanted = read.source.is_some() || !workspace.settings.servers.is_empty() || !lock.names.is_empty();
    let written = read.lock.as_ref() != Some(&lock) && is_wanted;
    if written {
        write(&context.root, &lock)?;
    }
    found.extend(workspace.check(&lock, &Catalogue::new()));
    found.extend(beside(&workspace));
    // What was pinned just now is what the cases know of the servers.
    let (cases, problems) = of_cases(&context.root);
    add(&mut found, problems);
    if context.format == Format::Json {
        let changes = changes.iter().map(ToString::to_string).collect();
        context.output.document(&Connected { changes, written, diagnostics: &found });
    } else {
        changed(&changes, written, context.output);
    }
    let mut exit = tell(Some(&workspace), &cases.sources, &found, context);
    for (_, error) in unreachable {
        let ended = failure::show(&error.into(), None, Format::Text, context.output);
        exit = if exit == Exit::Done { ended } else { exit };
    }
    Ok(exit)
}

fn changed(changes: &[LockChange], written: bool, output: &mut Output) {
    let width = output.stderr.terminal.room;
    for change in changes {
        let words = brief(&change.to_string(), width.saturating_sub(9));
        output.note(styled(Style::Yellow, "changed").and(format_args!(": {words}")));
    }
    if written {
        let changes = count(changes.len() as u64, "change");
        output.note(format_args!("{}: {changes}, written; look at it before you commit it", Lock::FILE));
    }
}

/// Writes the file as a whole: no reader sees half of it.
fn write(root: &Path, lock: &Lock) -> Result<(), Error> {
    let path = root.join(Lock::FILE);
    dalsegno_files::replace_shared(&path, lock.to_text().as_bytes())
        .map_err(|source| Error::Write { path, source })
}

fn tell(
    workspace: Option<&Workspace>,
    sources: &[SourceFile],
    found: &[Diagnostic],
    context: &mut Context<'_>,
) -> Exit {
    let wrong = found.iter().any(Diagnostic::is_error);
    if context.format != Format::Json {
        diagnostics::draw_from(&context.root, sources, found, context.output);
        if let Some(workspace) = workspace {
            tell_unset(workspace, context.output);
        }
        let summary = diagnostics::summary(found);
        let what = workspace.filter(|_| !wrong).map(what).unwrap_or_default();
        context.output.note(format_args!("{what}{summary}"));
    }
    if wrong { Exit::BadInput } else { Exit::Done }
}

/// What a sound workspace consists of: `2 agents, 1 tool file, 3 tenants: `.
fn what(workspace: &Workspace) -> String {
    let agents = count(workspace.agents.len() as u64, "agent");
    let tenants = workspace.tenants.len();
    let tools = workspace.tenants.values().flat_map(|tenant| tenant.tools.values());
    let tools = workspace.toolkits.values().chain(tools).filter(|file| file.source.is_some()).count();
    let more = [(tools, "tool file"), (tenants, "tenant"), (workspace.names.len(), "pinned name")]
        .into_iter()
        .filter(|(found, _)| *found > 0);
    let more: String = more.map(|(found, word)| format!(", {}", count(found as u64, word))).collect();
    format!("{agents}{more}: ")
}
