//! `dalsegno cancel` and `dalsegno abandon`: end a run, here or through the process that performs it.

use std::sync::Arc;

use dalsegno_core::{RunId, Surface};
use dalsegno_runtime::{AbandonOptions, Cancelled, Engine};
use dalsegno_voice::Telephones;
use dalsegno_wire::Events;

use super::follow::{Follow, passed_on};
use super::{Context, select};
use crate::args::{AbandonArgs, CancelArgs, Format};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::text::short;

pub(super) async fn cancel(args: &CancelArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    // A run that loses an operation goes on.
    let engine = if args.op.is_empty() { context.ender().await? } else { context.performer().await? };
    let run = match (&args.run, &args.session) {
        (Some(run), _) => select::run(engine.journal(), run).await?,
        (None, session) => {
            let session = session.as_deref().unwrap_or_default();
            select::open_in(&engine, session, args.tenant.as_deref()).await?
        }
    };
    if !args.op.is_empty() {
        return give_up(&engine, run, args, context).await;
    }
    let telephones = carries(&engine, run).await?;
    let cancelled = engine.cancel(run, args.by.clone(), args.reason.clone()).await?;
    if let Some(telephones) = telephones {
        telephones.left().await;
    }
    let report = match cancelled {
        Cancelled::Ended(report) => report,
        Cancelled::Requested { run } => return Ok(passed_on(run, "cancel", "requested", context)),
    };
    if context.format != Format::Text {
        context.output.document(&serde_json::json!({ "run_id": report.run, "cancel": "cancelled" }));
    }
    context.output.note(format_args!("run {} is cancelled", short(report.run)));
    Ok(Exit::Done)
}

/// Has this process carry the call of a telephone, so that one that no other process carries is hung up; nothing for other runs.
async fn carries(engine: &Engine, run: RunId) -> Result<Option<Arc<Telephones>>, Error> {
    let is_open = !engine.journal().summary(run).await?.status.is_end();
    let is_telephone = async || {
        // One that cannot be read is cancelled as far as that is possible.
        let surface = engine.journal().asked(run).await.ok().and_then(|request| request.surface);
        surface.is_some_and(Surface::outlives_its_process)
    };
    match is_open && is_telephone().await {
        true => Telephones::open(engine).map(Some).map_err(Error::VoiceLine),
        false => Ok(None),
    }
}

pub(super) async fn abandon(args: &AbandonArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.ender_alone().await?;
    let run = select::run(engine.journal(), &args.run).await?;
    let AbandonArgs { reason, by, force, .. } = args;
    let options = AbandonOptions { reason: reason.clone(), by: by.clone(), force: *force };
    let abandoned = engine.abandon(run, options).await?;
    if context.format != Format::Text {
        context.output.document(&serde_json::json!(abandoned));
    }
    let output = &mut *context.output;
    for left in &abandoned.in_doubt {
        let (operation, label) = (short(left.operation), &left.label);
        output.note(format_args!("operation {operation} ({label}) may have taken place"));
    }
    if !abandoned.readable {
        output.note(format_args!("its records cannot be read: look at its receivers for what took place"));
    }
    output.note(format_args!("run {} is abandoned", short(abandoned.run)));
    Ok(Exit::Done)
}

/// Gives operations up, and follows the run if nobody else performs it.
async fn give_up(
    engine: &Engine,
    run: RunId,
    args: &CancelArgs,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    let inspection = engine.journal().inspect(run, None).await?;
    let operations: Result<Vec<_>, _> =
        args.op.iter().map(|op| select::operation_of(&inspection, op)).collect();
    let mut follow = Follow::begin(context)?;
    let mut events = Events::new(run);
    follow.catch_up(&inspection.records, &mut events);
    let given_up = engine.give_up(run, operations?, args.by.clone(), args.reason.clone()).await?;
    match given_up {
        Some(handle) => follow.until_over(engine, handle, events, context).await,
        None => Ok(passed_on(run, "cancel", "requested", context)),
    }
}
