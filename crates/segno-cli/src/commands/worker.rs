//! `segno worker`: goes on with runs that nobody performs.

use segno_runtime::{RunEnd, WorkerEvent, WorkerOptions};
use serde_json::json;

use super::Context;
use crate::args::{Format, WorkerArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::document::end;
use crate::render::text::{count, harmless, short};
use crate::signal::Signals;

pub(super) async fn worker(args: &WorkerArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.engine().await?;
    let mut signals = Signals::listen().map_err(|source| Error::Signals { source })?;
    let options = WorkerOptions {
        concurrency: usize::from(args.concurrency),
        until_idle: args.until_idle,
        ..WorkerOptions::default()
    };
    let format = context.format;
    let output = &mut *context.output;
    if !args.until_idle {
        output.note("works until it is told to stop, such as with Ctrl-C");
    }
    let tell = |event: WorkerEvent<'_>| {
        let (line, words) = match event {
            WorkerEvent::Taken { run } => {
                (json!({ "event": "taken", "run_id": run }), format!("run {} goes on", short(run)))
            }
            WorkerEvent::Left { report } => {
                let word = match &report.end {
                    RunEnd::Ended(response) => end(response.status),
                    RunEnd::Suspended { .. } => "suspended",
                    RunEnd::Interrupted => "interrupted",
                };
                let line = json!({ "event": "left", "run_id": report.run, "status": word });
                (line, format!("run {} is {word}", short(report.run)))
            }
            WorkerEvent::Failed { run, error } => (
                json!({ "event": "failed", "run_id": run, "message": error.to_string() }),
                format!("run {} cannot go on now: {}", short(run), harmless(&error.to_string())),
            ),
            WorkerEvent::Blind { error } => (
                json!({ "event": "blind", "message": error.to_string() }),
                format!("the journal cannot be read now: {}", harmless(&error.to_string())),
            ),
        };
        match format {
            Format::Jsonl => output.json_line(&line),
            Format::Text => output.note(words),
            Format::Json => {}
        }
    };
    let report = engine.work(&options, signals.next(), tell).await?;
    let output = &mut *context.output;
    if format == Format::Json {
        output.document(&report);
    }
    output.note(format_args!(
        "took runs up {}: {} ended, {} suspended, {} left for another process, {} could not go on",
        count(report.taken, "time"),
        report.ended,
        report.suspended,
        report.interrupted,
        report.failed
    ));
    Ok(Exit::Done)
}
