//! `dalsegno pause`: a run stands still until it is resumed.

use dalsegno_runtime::Pausing;
use serde_json::json;

use super::follow::passed_on;
use super::{Context, select};
use crate::args::{Format, PauseArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::text::short;

pub(super) async fn pause(args: &PauseArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.performer().await?;
    let run = select::run(engine.journal(), &args.run).await?;
    match engine.pause(run, args.by.clone(), args.reason.clone()).await? {
        Pausing::Paused { run } => {
            if context.format != Format::Text {
                context.output.document(&json!({ "run_id": run, "pause": "paused" }));
            }
            let run = short(run);
            context
                .output
                .note(format_args!("run {run} is paused: continue it with `dalsegno resume {run}`"));
            Ok(Exit::Done)
        }
        Pausing::Requested { run } => Ok(passed_on(run, "pause", "requested", context)),
        Pausing::Ended(report) => {
            if context.format != Format::Text {
                context.output.document(&json!({ "run_id": report.run, "pause": "ended" }));
            }
            context.output.note(format_args!("run {} ended before it was paused", short(report.run)));
            Ok(Exit::Failed)
        }
    }
}
