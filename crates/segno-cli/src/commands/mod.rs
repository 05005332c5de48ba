//! The verbs.

mod check;
mod follow;
mod replay;
mod resume;
mod run;
mod runs;
mod select;
mod show;

use std::path::{Path, PathBuf};

use segno_runtime::Engine;

use crate::args::{Args, Format, Verb};
use crate::error::Error;
use crate::exit::Exit;
use crate::locate;
use crate::render::failure;
use crate::render::output::Output;

/// What every verb needs.
struct Context<'a> {
    /// The workspace's folder.
    root: PathBuf,
    /// The folder as it was named, if it was.
    named: Option<&'a Path>,
    /// What goes to standard output.
    format: Format,
    /// Tell each step as it happens.
    verbose: bool,
    output: &'a mut Output,
}

impl Context<'_> {
    async fn engine(&self) -> Result<Engine, Error> {
        Ok(Engine::open(&self.root).await?)
    }

    /// Only reads what was recorded, which a mistake in an agent's file must not hinder.
    async fn journal(&self) -> Result<Engine, Error> {
        Ok(Engine::journal(&self.root).await?)
    }
}

/// Does what the arguments ask for; an error is told, and becomes an exit code.
pub(crate) async fn dispatch(args: &Args, output: &mut Output) -> Exit {
    let format = args.verb.format();
    let named = args.workspace.as_deref();
    let root = match locate::workspace(named) {
        Ok(root) => root,
        Err(error) => return failure::show(&error, None, format, output),
    };
    let mut context = Context { root, named, format, verbose: args.verbose, output };
    let result = match &args.verb {
        Verb::Check(_) => check::check(&mut context).await,
        Verb::Run(args) => run::run(args, &mut context).await,
        Verb::Resume(args) => resume::resume(args, &mut context).await,
        Verb::Runs(args) => runs::runs(args, &mut context).await,
        Verb::Show(args) => show::show(args, &mut context).await,
        Verb::Replay(args) => replay::replay(args, &mut context).await,
    };
    let Context { root, output, .. } = context;
    result.unwrap_or_else(|error| failure::show(&error, Some(&root), format, output))
}
