//! `dalsegno worker`: goes on with runs that nobody performs.

use dalsegno_runtime::{Engine, Look, RunEnd, WorkerEvent, WorkerOptions, WorkerReport};
use dalsegno_wire::end;
use serde_json::json;

use super::Context;
use crate::args::{Format, WorkerArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::failure;
use crate::render::output::Output;
use crate::render::text::{count, short};
use crate::signal::Signals;

pub(super) async fn worker(args: &WorkerArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let workspace = context.workspace()?;
    let metrics = match args.metrics {
        Some(address) => Some((address, context.telemetry(&workspace.settings).await?)),
        None => None,
    };
    let engine = context.build(Engine::builder(), workspace).await?;
    let signals = Signals::listen().map_err(|source| Error::Signals { source })?;
    let options = WorkerOptions {
        concurrency: usize::from(args.concurrency),
        until_idle: args.until_idle,
        ..WorkerOptions::default()
    };
    let format = context.format;
    let output = &mut *context.output;
    if let Some((address, telemetry)) = metrics {
        let bound = super::metrics::serve(address, engine.clone(), telemetry).await?;
        output.note(format_args!("metrics at http://{bound}/metrics"));
    }
    if !args.until_idle {
        output.note("works until it is told to stop, such as with Ctrl-C");
    }
    let tell = |event: WorkerEvent<'_>| tell(&event, format, output);
    let stop = stop(signals);
    let report = engine.work(&options, stop, tell).await?;
    summary(&report, format, context.output);
    // A script that waits for this worker learns that a run is left.
    Ok(if args.until_idle && report.failed > 0 { Exit::Failed } else { Exit::Done })
}

/// Tells what a worker has done.
pub(super) fn summary(report: &WorkerReport, format: Format, output: &mut Output) {
    if format == Format::Json {
        output.document(report);
    }
    output.note(format_args!(
        "resumed runs {}: {} ended, {} suspended, {} left for another process, {} could not be resumed",
        count(report.taken, "time"),
        report.ended,
        report.suspended,
        report.interrupted,
        report.failed
    ));
}

/// Returns with the first wish to stop; the second one ends the process at once.
pub(super) async fn stop(mut signals: Signals) {
    signals.next().await;
    tokio::spawn(async move {
        signals.next().await;
        std::process::exit(Exit::Interrupted.code().into());
    });
}

/// Tells what happens in a worker.
pub(super) fn tell(event: &WorkerEvent<'_>, format: Format, output: &mut Output) {
    let (line, words) = match event {
        WorkerEvent::Taken { run } => {
            (json!({ "event": "taken", "run_id": run }), format!("run {} goes on", short(run)))
        }
        WorkerEvent::Left { report } => {
            let word = match &report.end {
                RunEnd::Ended(response) => end(response.status),
                RunEnd::Suspended { .. } => "suspended",
                RunEnd::Paused { .. } => "paused",
                RunEnd::Interrupted => "interrupted",
            };
            let line = json!({ "event": "left", "run_id": report.run, "status": word });
            (line, format!("run {} is {word}", short(report.run)))
        }
        WorkerEvent::Failed { run, error } => {
            let told = failure::chain(error);
            let words = format!("run {} cannot go on now: {}", short(run), told);
            (json!({ "event": "failed", "run_id": run, "message": told }), words)
        }
        WorkerEvent::Changed { look } => {
            let (status, words) = changed(look);
            (json!({ "event": "changed", "status": status }), words)
        }
        WorkerEvent::Blind { error } => {
            let told = failure::chain(error);
            let words = format!("the journal cannot be read now: {}", told);
            (json!({ "event": "blind", "message": told }), words)
        }
        WorkerEvent::Stopping => (
            json!({ "event": "stopping" }),
            "stopping: what may not be repeated finishes first; once more stops at once".to_owned(),
        ),
    };
    match format {
        Format::Jsonl => output.json_line(&line),
        Format::Text => output.note(words),
        Format::Json => {}
    }
}

/// What came of a change of the workspace's files, as a word and in words.
fn changed(look: &Look) -> (&'static str, String) {
    match look {
        Look::Unchanged => ("unchanged", "the workspace is as it was".to_owned()),
        Look::Taken(workspace) if workspace.broken.diagnostics.is_empty() => {
            ("taken", "the workspace has changed, and is in use as it is now".to_owned())
        }
        Look::Taken(workspace) => {
            let problems = count(workspace.broken.diagnostics.len() as u64, "error");
            let words = format!(
                "the workspace has changed, and is in use but for the agents, tools and tenants with errors ({problems}): run `dalsegno check`"
            );
            ("taken", words)
        }
        Look::Refused(diagnostics) => {
            let problem = diagnostics.iter().find(|found| found.is_error());
            let problem = problem.map(|found| format!(" ({}: {})", found.file.display(), found.message));
            let words = format!(
                "the workspace has changed and has errors{}: it stays in use as it was; run `dalsegno check`",
                problem.unwrap_or_default()
            );
            ("refused", words)
        }
    }
}
