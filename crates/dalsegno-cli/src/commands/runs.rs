//! `dalsegno runs`: lists runs, the newest first.

use dalsegno_store::RunFilter;

use super::Context;
use crate::args::{Format, RunsArgs, WaitingArg};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::document::Listed;
use crate::render::table::table;
use crate::render::text::{short, time};

pub(super) async fn runs(args: &RunsArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let filter = RunFilter {
        agent: args.agent.clone(),
        status: args.status.map(Into::into),
        waiting: args.waiting.or(args.in_doubt.then_some(WaitingArg::InDoubt)).map(Into::into),
        limit: args.limit,
        ..RunFilter::default()
    };
    let runs = context.journal().await?.runs(&filter).await?;
    if context.format == Format::Json {
        context.output.document(&runs.iter().map(Listed::of).collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    if runs.is_empty() {
        context.output.note("no such runs: start one with `dalsegno run AGENT`");
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = runs
        .iter()
        .map(|run| {
            let status = run.status.to_string();
            [short(run.run), run.agent.to_string(), status, time(run.started_at), run.records.to_string()]
        })
        .collect();
    let width = context.output.stdout.terminal.width;
    for line in table(["RUN", "AGENT", "STATUS", "STARTED", "RECORDS"], &rows, width) {
        context.output.stdout.line(line);
    }
    if u32::try_from(runs.len()).is_ok_and(|shown| shown == args.limit) {
        context
            .output
            .note(format_args!("there may be more: `--limit {}` shows them", args.limit.saturating_mul(10)));
    }
    Ok(Exit::Done)
}
