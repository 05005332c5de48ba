//! `dalsegno test --watch`: the cases again after each change.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use dalsegno_workspace::{Case, Footprint, Replies, Workspace};

use crate::args::TestArgs;
use crate::commands::Context;
use crate::exit::Exit;
use crate::render::failure;
use crate::render::text::{Style, styled};

/// How long a change may go unnoticed. A look takes a call of the system for each file.
const PAUSE: Duration = Duration::from_millis(300);

/// Runs the cases, and again whenever a file that they depend on changes, until the command is interrupted or nothing reads what it
/// writes. An error is told, and may be gone after the next change.
pub(crate) fn watch(args: &TestArgs, context: &mut Context<'_>) -> Exit {
    loop {
        // What changes while the cases run is noticed, too.
        let mut seen = Footprint::with_cases(&context.root, named(&context.root));
        if let Err(error) = super::test(args, context) {
            failure::show(&error, Some(&context.root), context.format, context.output);
        }
        context.output.note(styled(Style::Dim, "waiting for a change; Ctrl-C ends it"));
        while !seen.has_changed() {
            if context.output.is_closed() {
                return Exit::Done;
            }
            sleep(PAUSE);
        }
    }
}

/// The scripts and the cassettes that cases name.
fn named(root: &Path) -> Vec<PathBuf> {
    let cases = Workspace::load(root).workspace.map(|workspace| workspace.cases()).unwrap_or_default();
    let of = |case: &Case| {
        let script = match &case.draft.replies {
            Replies::Script(file) => Some(root.join(file)),
            Replies::Written(_) => None,
        };
        let cassette = case.draft.cassette.as_ref().map(|cassette| root.join(&cassette.value));
        script.into_iter().chain(cassette)
    };
    cases.files.iter().flat_map(|file| &file.cases).flat_map(of).collect()
}
