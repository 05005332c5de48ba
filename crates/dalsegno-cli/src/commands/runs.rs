//! `dalsegno runs`: lists runs, the newest first.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use dalsegno_core::{AgentRequest, RunId, Timestamp, Usage};
use dalsegno_history::Journal;
use dalsegno_store::{RunFilter, RunStatus, RunSummary, Waiting};
use dalsegno_wire::Listed;

use super::journal::Kept;
use super::{Context, select};
use crate::args::{Format, RunsArgs, StatusArg, WaitingArg};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::ending::cost;
use crate::render::output::Output;
use crate::render::table::columns;
use crate::render::text::{brief, short, time};

/// The columns of a request beside other text, where no terminal says how many there are.
const REQUEST: usize = 120;

/// The number of runs that are looked at together, where not all of them are listed.
const PAGE: u32 = 200;

/// What is listed of a run besides its summary.
struct Line {
    run: RunSummary,
    text: Option<String>,
    /// No process performs it, though it is running.
    interrupted: bool,
    usage: Option<Usage>,
}

pub(super) async fn runs(args: &RunsArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let Kept { journal, workspace, .. } = context.reader().await?;
    let filter = filter(args, &journal).await?;
    let fork_of = match &args.fork_of {
        Some(run) => Some(select::run(&journal, run).await?),
        None => None,
    };
    let lines = list(args, filter, fork_of, &journal).await?;
    if let (true, Some(workspace)) = (lines.is_empty(), &workspace) {
        select::tenant(workspace, &journal, args.tenant.as_deref()).await?;
    }
    if context.format == Format::Json {
        let listed = lines
            .iter()
            .map(|line| Listed::of(&line.run, line.text.as_deref(), line.interrupted, line.usage));
        context.output.document(&listed.collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    if lines.is_empty() {
        let has_runs = !journal.runs(&RunFilter { limit: 1, ..RunFilter::default() }).await?.is_empty();
        context.output.note(if has_runs {
            "no run matches these filters: `dalsegno runs` lists all runs"
        } else {
            "no runs yet: start one with `dalsegno run AGENT`"
        });
        return Ok(Exit::Done);
    }
    tell(&lines, args, context.output);
    if u32::try_from(lines.len()).is_ok_and(|shown| shown == args.limit)
        && let Some(last) = lines.last()
    {
        let last = short(last.run.run);
        context.output.note(format_args!("there may be more: add `--after {last}` for the next page"));
    }
    Ok(Exit::Done)
}

/// What the store filters by.
async fn filter(args: &RunsArgs, journal: &Journal) -> Result<RunFilter, Error> {
    let waiting = args.waiting.or(args.in_doubt.then_some(WaitingArg::InDoubt)).map(Into::into);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let mut filter = RunFilter {
        agent: args.agent.clone(),
        tenant: args.tenant.clone(),
        session: args.session.clone(),
        status: args.status.map(Into::into),
        waiting,
        // What a foreign run waits for cannot be answered here.
        foreign: waiting.map(|_| false),
        since: args.since.map(|since| since.before(now)),
        until: args.until.map(|until| until.before(now)),
        limit: args.limit,
        ..RunFilter::default()
    };
    if let Some(parent) = &args.parent {
        filter.parent = Some(select::run(journal, parent).await?);
    }
    if let Some(after) = &args.after {
        filter.after = Some(select::run(journal, after).await?);
    }
    Ok(filter)
}

/// The runs that are listed. Those that the store cannot tell apart are looked at page by page.
async fn list(
    args: &RunsArgs,
    mut filter: RunFilter,
    fork_of: Option<RunId>,
    journal: &Journal,
) -> Result<Vec<Line>, Error> {
    let by_process = matches!(args.status, Some(StatusArg::Running | StatusArg::Interrupted));
    if args.text.is_some() || fork_of.is_some() || by_process {
        filter.limit = args.limit.max(PAGE);
    }
    let text = args.text.as_deref().map(str::to_lowercase);
    let mut lines = Vec::new();
    loop {
        let page = journal.runs(&filter).await?;
        let is_last = u32::try_from(page.len()).is_ok_and(|found| found < filter.limit);
        filter.after = page.last().map(|run| run.run);
        for run in page {
            // The request of an erased or damaged run cannot be read, and the rest of its line can.
            let asked = journal.asked(run.run).await.ok().map(|request| request.text);
            let interrupted =
                run.status == RunStatus::Running && run.foreign.is_none() && !journal.is_performed(&run);
            let has_status = match args.status {
                Some(StatusArg::Running) => !interrupted,
                Some(StatusArg::Interrupted) => interrupted,
                _ => true,
            };
            let has_text = text.as_ref().is_none_or(|text| {
                asked.as_ref().is_some_and(|asked| asked.to_lowercase().contains(text.as_str()))
            });
            let is_fork = match fork_of {
                Some(origin) => journal.forked_from(run.run).await.ok().flatten() == Some(origin),
                None => true,
            };
            if !(has_status && has_text && is_fork) {
                continue;
            }
            let usage = match args.cost {
                true => journal.usage(&run).await.ok(),
                false => journal.recorded_usage(&run).await.ok().flatten(),
            };
            lines.push(Line { run, text: asked, interrupted, usage });
            if u32::try_from(lines.len()).is_ok_and(|listed| listed == args.limit) {
                return Ok(lines);
            }
        }
        if is_last {
            return Ok(lines);
        }
    }
}

fn tell(lines: &[Line], args: &RunsArgs, output: &mut Output) {
    let default = AgentRequest::text("").tenant;
    let has_tenants = lines.iter().any(|line| line.run.tenant != default);
    // A run without a session has one of its own, with the name of the run.
    let has_session = |run: &RunSummary| run.parent.is_none() && run.session != run.run.to_string();
    let has_sessions = lines.iter().any(|line| has_session(&line.run));
    let mut head = vec!["RUN", "AGENT", "STATUS", "STARTED"];
    let has_cost =
        args.cost || lines.iter().any(|line| line.usage.is_some_and(|used| used.cost_nano_usd > 0));
    let more = [("TENANT", has_tenants), ("SESSION", has_sessions), ("COST", has_cost), ("REQUEST", true)];
    head.extend(more.into_iter().filter(|(_, is_shown)| *is_shown).map(|(name, _)| name));
    let room = output.stdout.terminal.room.min(REQUEST);
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|Line { run, text, interrupted, usage }| {
            let cells: BTreeMap<&str, String> = BTreeMap::from([
                ("RUN", short(run.run)),
                ("AGENT", run.agent.to_string()),
                ("STATUS", status(run, *interrupted)),
                ("STARTED", time(run.started_at)),
                ("TENANT", run.tenant.clone()),
                ("SESSION", if has_session(run) { run.session.clone() } else { String::new() }),
                ("COST", usage.map(|usage| cost(&usage)).unwrap_or_default()),
                ("REQUEST", brief(text.as_deref().unwrap_or_default(), room)),
            ]);
            head.iter().map(|name| cells.get(name).cloned().unwrap_or_default()).collect()
        })
        .collect();
    let rows: Vec<&[String]> = rows.iter().map(Vec::as_slice).collect();
    for line in columns(&head, &rows, output.stdout.terminal.room) {
        output.stdout.line(line);
    }
}

/// Where a run stands, and what it waits for.
fn status(run: &RunSummary, interrupted: bool) -> String {
    let mut status = if interrupted { "interrupted".to_owned() } else { run.status.to_string() };
    let waits: Vec<String> = run
        .waiting
        .iter()
        .map(|waiting| match (waiting, run.wake_at) {
            (Waiting::Approval, _) => "approval".to_owned(),
            (Waiting::Input, _) => "question".to_owned(),
            (Waiting::InDoubt, _) => "in doubt".to_owned(),
            (Waiting::Secret, _) => "secret".to_owned(),
            (Waiting::Timer, Some(at)) => format!("until {}", time(at)),
            (Waiting::Timer, None) => "timer".to_owned(),
            (Waiting::Paused, _) => "paused".to_owned(),
            _ => "other".to_owned(),
        })
        .collect();
    if !waits.is_empty() {
        status.push_str(&format!(": {}", waits.join(", ")));
    } else if run.status == RunStatus::Suspended {
        status.push_str(": child run");
    }
    if run.foreign.is_some() {
        status.push_str(", foreign");
    }
    status
}
