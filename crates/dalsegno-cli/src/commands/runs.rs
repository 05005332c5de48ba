//! `dalsegno runs`: lists runs, the newest first.

use dalsegno_store::RunFilter;

use super::{Context, select};
use crate::args::{Format, RunsArgs, WaitingArg};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::document::Listed;
use crate::render::table::table;
use crate::render::text::{short, time};

pub(super) async fn runs(args: &RunsArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let waiting = args.waiting.or(args.in_doubt.then_some(WaitingArg::InDoubt)).map(Into::into);
    let filter = RunFilter {
        agent: args.agent.clone(),
        tenant: args.tenant.clone(),
        status: args.status.map(Into::into),
        waiting,
        // What a foreign run waits for nobody here can give it.
        foreign: waiting.map(|_| false),
        limit: args.limit,
        ..RunFilter::default()
    };
    let engine = context.reader().await?;
    let runs = engine.runs(&filter).await?;
    if runs.is_empty() {
        select::tenant(&engine, args.tenant.as_deref()).await?;
    }
    if context.format == Format::Json {
        context.output.document(&runs.iter().map(Listed::of).collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    if runs.is_empty() {
        let all = args.agent.is_none() && args.tenant.is_none() && args.status.is_none() && waiting.is_none();
        context.output.note(if all {
            "no such runs: start one with `dalsegno run AGENT`"
        } else {
            "no such runs: `dalsegno runs` lists all of them"
        });
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = runs
        .iter()
        .map(|run| {
            let foreign = if run.foreign.is_some() { ", foreign" } else { "" };
            let status = format!("{}{foreign}", run.status);
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
