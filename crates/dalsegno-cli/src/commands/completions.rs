//! `dalsegno completions`: what makes a shell complete the command, its agents and its runs.

use clap_complete::env::Shells;

use crate::args::CompletionsArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::output::Output;

/// The variable by which a shell asks for completions instead of running a verb.
pub(crate) const COMPLETE: &str = "DALSEGNO_COMPLETE";

pub(super) fn completions(args: &CompletionsArgs, output: &mut Output) -> Result<Exit, Error> {
    let shell = args.shell.name();
    let mut script = Vec::new();
    let registered = Shells::builtins().completer(shell).map(|completer| {
        completer.write_registration(COMPLETE, "dalsegno", "dalsegno", "dalsegno", &mut script)
    });
    debug_assert!(matches!(registered, Some(Ok(()))), "every shell of the arguments has a script: {shell}");
    output.stdout.write(&String::from_utf8_lossy(&script));
    Ok(Exit::Done)
}
