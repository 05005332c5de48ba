//! `dalsegno init`: a workspace that runs at once.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::args::{Format, InitArgs, TemplateArg};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::ending::quoted;
use crate::render::output::Output;
use crate::render::text::{Style, Words, styled};

/// What a workspace begins with.
struct Template {
    name: &'static str,
    /// Each file with its path inside the workspace.
    files: &'static [(&'static str, &'static str)],
    /// What to run next, after `dalsegno check` and `dalsegno test`.
    next: &'static [&'static str],
}

/// The files of a template, from the folder of its name.
macro_rules! files {
    ($template:literal: $($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../templates/", $template, "/", $file)))),*]
    };
}

const PLAN: Template = Template {
    name: "plan",
    files: files!["plan": "dalsegno.toml", "agents/notes.toml", "tests/notes.toml"],
    next: &[
        r#"dalsegno run notes "the disk of db-1 is full again""#,
        r#"dalsegno run notes "what about the disk?""#,
        "dalsegno show last",
    ],
};

const CHAT: Template = Template {
    name: "chat",
    files: files!["chat": "dalsegno.toml", "agents/chat.toml", "scripts/chat.toml", "tests/chat.toml"],
    next: &[r#"dalsegno run chat "hello""#, "dalsegno show last"],
};

const SUPPORT: Template = Template {
    name: "support",
    files: files![
        "support": "dalsegno.toml", "agents/desk.toml", "agents/refunds.toml", "schemas/answer.json",
        "scripts/desk.toml", "knowledge.jsonl", "tests/desk.toml",
    ],
    next: &[
        r#"dalsegno run desk "I was charged twice for order 1042""#,
        "dalsegno resume last --approve",
        "dalsegno show last",
    ],
};

/// The verb as a document.
#[derive(Serialize)]
struct Document<'d> {
    workspace: &'d Path,
    template: &'static str,
    files: Vec<&'static str>,
    next: Vec<String>,
}

pub(super) fn init(
    args: &InitArgs,
    named: Option<&Path>,
    format: Format,
    output: &mut Output,
) -> Result<Exit, Error> {
    let template = match args.template {
        TemplateArg::Plan => &PLAN,
        TemplateArg::Chat => &CHAT,
        TemplateArg::Support => &SUPPORT,
    };
    let folder = args.dir.as_deref().or(named).unwrap_or(Path::new("."));
    refuse_what_is_taken(folder, template)?;
    let mut made: Vec<PathBuf> = Vec::new();
    let files = template.files.iter().try_for_each(|(file, text)| write(&folder.join(file), text, &mut made));
    let ignored = files.and_then(|()| ignore(folder, &mut made));
    let ignored = ignored.inspect_err(|_| {
        // Half a workspace would be in the way of the next attempt.
        for path in &made {
            let _ = fs::remove_file(path);
        }
    })?;
    let mut next: Vec<String> = Vec::new();
    if folder != Path::new(".") {
        next.push(format!("cd {}", quoted(&folder.display().to_string())));
    }
    next.push("dalsegno check".to_owned());
    next.push("dalsegno test".to_owned());
    next.extend(template.next.iter().map(|line| (*line).to_owned()));
    if format == Format::Json {
        let files = template.files.iter().map(|(file, _)| *file);
        let files = files.chain(ignored.then_some(IGNORE_FILE)).collect();
        output.document(&Document { workspace: folder, template: template.name, files, next });
        return Ok(Exit::Done);
    }
    let made =
        |file: &str| styled(Style::Green, "made").and(format_args!(" {}", place(folder, file).display()));
    let place = |file: &str| place(folder, file).display().to_string();
    for (file, _) in template.files {
        output.note(made(file));
    }
    if ignored {
        output.note(made(IGNORE_FILE));
    } else {
        output.note(format_args!("kept {} as it is: let it name `.dalsegno/`", place(IGNORE_FILE)));
    }
    output.note("\nnext:");
    for line in next {
        output.note(Words::from("  ").and(styled(Style::Bold, line)));
    }
    Ok(Exit::Done)
}

/// Where a file stands; in the current folder its name is enough.
fn place(folder: &Path, file: &str) -> PathBuf {
    if folder == Path::new(".") { PathBuf::from(file) } else { folder.join(file) }
}

/// Nothing is written unless all of it can be.
fn refuse_what_is_taken(folder: &Path, template: &Template) -> Result<(), Error> {
    if folder.join("dalsegno.toml").exists() {
        return Err(Error::AlreadyAWorkspace { folder: folder.to_path_buf() });
    }
    let files = template.files.iter().map(|(file, _)| place(folder, file));
    let taken: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
    if taken.is_empty() { Ok(()) } else { Err(Error::Taken { files: taken }) }
}

/// Writes a file that is not there yet.
fn write(path: &Path, text: &str, made: &mut Vec<PathBuf>) -> Result<(), Error> {
    let fault = |source| Error::Write { path: path.to_path_buf(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(fault)?;
    }
    let mut file = File::create_new(path).map_err(fault)?;
    made.push(path.to_path_buf());
    file.write_all(text.as_bytes()).map_err(fault)
}

/// Keeps what the engine writes out of version control; says whether the file was made.
fn ignore(folder: &Path, made: &mut Vec<PathBuf>) -> Result<bool, Error> {
    match write(&folder.join(IGNORE_FILE), IGNORED, made) {
        Ok(()) => Ok(true),
        Err(Error::Write { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

const IGNORE_FILE: &str = ".gitignore";

const IGNORED: &str = "# Runs of cases that wait for a review.\n*.snap.new\n\
     # Journals, memories and compiled modules: made on this machine, for this machine.\n.dalsegno/\n";
