//! `segno check`: every problem of the workspace at once.

use segno_workspace::{Diagnostic, Workspace};

use super::Context;
use crate::args::Format;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::text::count;
use crate::render::{diagnostics, failure};

/// Checks the files first; only sound files can be held against what the tool servers offer.
pub(super) async fn check(context: &mut Context<'_>) -> Result<Exit, Error> {
    let loaded = Workspace::load(&context.root);
    let mut found = loaded.diagnostics;
    let mut agents = 0;
    if let Some(workspace) = loaded.workspace {
        agents = workspace.agents.len() as u64;
        match offered(context).await {
            Ok(further) => found.extend(further),
            Err(error) if failure::problems(&error).is_empty() => return Err(error),
            Err(error) => found.extend_from_slice(failure::problems(&error)),
        }
    }
    let wrong = found.iter().any(Diagnostic::is_error);
    if context.format == Format::Json {
        context.output.document(&found);
    } else {
        diagnostics::draw(&context.root, &found, context.output);
        let summary = diagnostics::summary(&found);
        let agents = if wrong { String::new() } else { format!("{}: ", count(agents, "agent")) };
        context.output.note(format_args!("{agents}{summary}"));
    }
    Ok(if wrong { Exit::BadInput } else { Exit::Done })
}

async fn offered(context: &Context<'_>) -> Result<Vec<Diagnostic>, Error> {
    Ok(context.engine().await?.check().await?)
}
