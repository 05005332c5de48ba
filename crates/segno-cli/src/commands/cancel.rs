//! `segno cancel`: ends a run, here or through the process that performs it.

use segno_runtime::Cancelled;

use super::{Context, select};
use crate::args::{CancelArgs, Format};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::text::short;

pub(super) async fn cancel(args: &CancelArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.engine().await?;
    let run = select::run(&engine, &args.run).await?;
    let cancelled = engine.cancel(run, args.by.clone(), args.reason.clone()).await?;
    let (run, word) = match &cancelled {
        Cancelled::Ended(report) => (report.run, "cancelled"),
        Cancelled::Requested { run } => (*run, "requested"),
    };
    match context.format {
        Format::Text => {}
        Format::Json | Format::Jsonl => {
            context.output.document(&serde_json::json!({ "run_id": run, "cancel": word }));
        }
    }
    let run = short(run);
    match cancelled {
        Cancelled::Ended(_) => context.output.note(format_args!("run {run} is cancelled")),
        Cancelled::Requested { .. } => context.output.note(format_args!(
            "run {run} belongs to another process, which was told: see `segno show {run}`"
        )),
    }
    Ok(Exit::Done)
}
