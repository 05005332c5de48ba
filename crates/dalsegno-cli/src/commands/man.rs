//! `dalsegno man`: the manual pages, made from the arguments.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{Args, ManArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::output::Output;
use crate::render::text::count;

pub(super) fn man(args: &ManArgs, output: &mut Output) -> Result<Exit, Error> {
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    let Some(folder) = &args.dir else {
        output.stdout.write(&page(command)?);
        return Ok(Exit::Done);
    };
    fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.clone(), source })?;
    let pages = write_pages(command, folder)?;
    output.note(format_args!("{} in `{}`", count(pages, "manual page"), folder.display()));
    Ok(Exit::Done)
}

/// Writes the pages of a command and of all verbs below it; returns how many.
fn write_pages(command: Command, folder: &Path) -> Result<u64, Error> {
    let mut pages = 1;
    for verb in command.get_subcommands() {
        pages += write_pages(verb.clone(), folder)?;
    }
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let path = folder.join(format!("{name}.1"));
    let text = page(command)?;
    fs::write(&path, text).map_err(|source| Error::Write { path, source })?;
    Ok(pages)
}

fn page(command: Command) -> Result<String, Error> {
    let mut page = Vec::new();
    let man = Man::new(command).manual("dalsegno");
    man.render(&mut page).map_err(|source| Error::Write { path: "the manual page".into(), source })?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
