//! `dalsegno why`: where the values of a request came from.

use dalsegno_core::Request;

use super::journal::Kept;
use super::{Context, select};
use crate::args::{Format, WhyArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::text::{brief, short};
use crate::render::why;

/// Arguments that an error lists.
const LISTED: usize = 8;

pub(super) async fn why(args: &WhyArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let Kept { journal, .. } = context.reader().await?;
    let run = select::run(&journal, &args.run).await?;
    let end = args.operation.find(['.', '[']).unwrap_or(args.operation.len());
    let (given, path) = args.operation.split_at(end);
    let inspection = journal.inspect(run, None).await?;
    let operation = select::operation_of(&inspection, given)?;
    let found = journal.why(run, operation).await?;
    let mut found =
        found.ok_or_else(|| Error::NoSuchOperation { run: short(run), given: given.to_owned() })?;
    let path = path.strip_prefix('.').unwrap_or(path);
    let path = path.strip_prefix("args.").unwrap_or(path);
    if found.values.is_empty() && is_completion(&inspection, operation) {
        return Err(Error::NotTraced { run: short(run), operation: short(operation) });
    }
    if !path.is_empty() {
        let known = found.values.iter().take(LISTED).map(|value| brief(&value.path, 60)).collect();
        found.values.retain(|value| is_below(&value.path, path));
        if found.values.is_empty() {
            return Err(Error::NoArgument { given: brief(path, 60), label: found.label, known });
        }
    }
    match context.format {
        Format::Text => why::show(&short(run), &found, context.output),
        Format::Json | Format::Jsonl => context.output.document(&found),
    }
    Ok(Exit::Done)
}

fn is_completion(inspection: &dalsegno_history::Inspection, operation: dalsegno_core::OperationId) -> bool {
    let mut all = inspection.steps.iter().flat_map(|step| &step.operations);
    all.any(|one| one.operation == operation && matches!(one.request, Request::ModelCompletion(_)))
}

/// Says whether a place is the one that was asked for, or below it.
fn is_below(place: &str, asked: &str) -> bool {
    place.strip_prefix(asked).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
