//! A fork with an outcome that a person edits.

use std::io;
use std::path::Path;
use std::process::Command;

use dalsegno_core::OperationId;
use dalsegno_debugger::Tone;
use dalsegno_runtime::ForkOptions;
use serde_json::{Value, json};

use super::debugger::Debugger;
use super::screen::Screen;
use crate::commands::{Context, KEPT};
use crate::error::Error;
use crate::input;
use crate::render::text::short;

/// Opens the outcome of the operation in a row in an editor, and forks the run with what was made of it. The fork is written
/// down, and nothing of it is performed.
pub(super) async fn fork(
    row: usize,
    debugger: &mut Debugger,
    screen: &mut Screen,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    let Some((operation, recorded)) = debugger.outcome_in(row).await? else { return Ok(()) };
    let before = format!("{:#}", json!({ "outcome": recorded }));
    // What was refused is edited further.
    let text = debugger.draft(operation).unwrap_or_else(|| before.clone());
    let file = context.root.join(KEPT).join(format!("outcome-{}.json", short(operation)));
    let edited = screen.aside(|| edit(&file, &text)).map_err(|source| Error::Screen { source })?;
    let edited = edited.map_err(|source| Error::Editor { source })?;
    if edited == before {
        debugger.say(Tone::Warn, "nothing was changed, so nothing was forked");
        return Ok(());
    }
    debugger.keep_draft(operation, &edited);
    let value: Value = serde_json::from_str(&edited).map_err(|source| Error::Json {
        place: "the outcome (press f to edit it further)".to_owned(),
        source,
    })?;
    let forked = write(operation, value, debugger, context).await?;
    debugger.drop_draft(operation);
    debugger.open_fork(forked).await
}

async fn write(
    operation: OperationId,
    value: Value,
    debugger: &Debugger,
    context: &mut Context<'_>,
) -> Result<dalsegno_core::RunId, Error> {
    let engine = context.silent().await?;
    let options = ForkOptions { set: vec![(operation, value)], ..ForkOptions::default() };
    Ok(engine.fork_only(debugger.run(), options).await?)
}

/// What a person makes of a text. The file is for this user alone, and gone afterwards.
fn edit(file: &Path, text: &str) -> io::Result<String> {
    dalsegno_files::replace(file, text.as_bytes())?;
    let edited = open(file).and_then(|()| {
        let bytes = input::bytes(file).map_err(io::Error::other)?;
        String::from_utf8(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8 text any more"))
    });
    let removed = std::fs::remove_file(file);
    let edited = edited?;
    removed.map(|()| edited)
}

fn open(file: &Path) -> io::Result<()> {
    let named = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty()));
    let editor = named.unwrap_or_else(|| if cfg!(windows) { "notepad" } else { "vi" }.to_owned());
    // The variables hold a command as a shell reads it, such as `code --wait`.
    let mut command = if cfg!(windows) {
        let mut words = editor.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("notepad"));
        command.args(words);
        command
    } else {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh");
        command
    };
    let status = command.arg(file).status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("`{editor}` ended with {status}")))
}
