//! `dalsegno tools add`: a declarative tool that comes with Dalsegno, written into the workspace.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use dalsegno_workspace::{Battery, batteries};
use serde::Serialize;

use super::Context;
use crate::args::{Format, ToolsAddArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::text::{Style, styled};

/// What was added.
#[derive(Serialize)]
struct Added {
    /// The file, relative to the workspace.
    file: String,
    /// What it is for.
    about: &'static str,
    /// What must be set before it works.
    needs: &'static str,
}

pub(super) fn add(args: &ToolsAddArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let battery = batteries().iter().find(|battery| battery.name == args.name);
    let Some(&Battery { name, about, needs, text }) = battery else {
        unreachable!("the arguments take only these names")
    };
    let file = PathBuf::from("tools").join(format!("{name}.json"));
    let path = context.root.join(&file);
    if path.exists() {
        return Err(Error::Taken { files: vec![file] });
    }
    let fault = |source| Error::Write { path: path.clone(), source };
    fs::create_dir_all(context.root.join("tools")).map_err(fault)?;
    File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(fault)?;
    let shown = format!("tools/{name}.json");
    if context.format == Format::Json {
        context.output.document(&Added { file: shown, about, needs });
    } else {
        context.output.note(styled(Style::Green, "made").and(format_args!(" {shown}: {about}")));
        context.output.note(format_args!("it needs {needs}"));
    }
    Ok(Exit::Done)
}
