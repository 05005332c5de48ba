//! `dalsegno diff`: two runs side by side.

use super::journal::Kept;
use super::{Context, select};
use crate::args::{DiffArgs, Format};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::diff;

pub(super) async fn diff(args: &DiffArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let Kept { journal, .. } = context.reader().await?;
    let left = select::run(&journal, &args.left).await?;
    let right = select::run(&journal, &args.right).await?;
    let found = journal.diff(left, right).await?;
    match context.format {
        Format::Text => diff::runs(&found, &mut context.output.stdout),
        Format::Json | Format::Jsonl => context.output.document(&found),
    }
    Ok(if found.identical { Exit::Done } else { Exit::Diverged })
}
