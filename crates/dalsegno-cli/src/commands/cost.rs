//! `dalsegno cost`: sums up what runs spent on models.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use dalsegno_core::{RunId, Timestamp, Usage};
use dalsegno_history::Spent;
use dalsegno_store::{RunFilter, RunSummary};
use dalsegno_workspace::Workspace;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::journal::Kept;
use super::{Context, select};
use crate::args::{CostArgs, Format, GroupArg};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::ending;
use crate::render::output::Output;
use crate::render::table::columns;
use crate::render::text::{Style, count, short, styled};

/// One line of the table.
#[derive(Debug, Default)]
struct Line {
    runs: BTreeSet<RunId>,
    usage: Usage,
}

impl Line {
    fn add(&mut self, run: RunId, usage: &Usage) {
        self.runs.insert(run);
        self.usage.add(usage);
    }

    /// The part of the tokens sent that providers had in their caches.
    fn hit_rate(&self) -> Option<f64> {
        let input = self.usage.input_tokens;
        (input > 0).then(|| self.usage.details.cached_input_tokens as f64 / input as f64)
    }
}

/// What the command tells as JSON.
#[derive(Serialize)]
struct Document<'a> {
    by: Vec<&'static str>,
    lines: Vec<LineDocument<'a>>,
    total: LineDocument<'a>,
    /// Model calls, by model, whose cost is not known: the model has no price.
    unpriced_calls: &'a BTreeMap<String, u64>,
    /// Runs whose records are erased or damaged.
    unreadable: Vec<RunId>,
}

#[derive(Serialize)]
struct LineDocument<'a> {
    /// What the line is about, such as `{"model": "default"}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    of: BTreeMap<&'static str, &'a str>,
    runs: usize,
    usage: Usage,
    cache_hit_rate: Option<f64>,
}

impl<'a> LineDocument<'a> {
    fn of(line: &Line, by: &[GroupArg], key: &'a [String]) -> Self {
        let of = by.iter().map(|group| group.word()).zip(key.iter().map(String::as_str));
        Self { of: of.collect(), runs: line.runs.len(), usage: line.usage, cache_hit_rate: line.hit_rate() }
    }
}

pub(super) async fn cost(args: &CostArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let Kept { journal, workspace, .. } = context.reader().await?;
    if let Some(workspace) = &workspace {
        select::tenant(workspace, &journal, args.tenant.as_deref()).await?;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let until = args.until.map(|until| until.before(now));
    let filter = RunFilter {
        agent: args.agent.clone(),
        tenant: args.tenant.clone(),
        session: args.session.clone(),
        // A run spends nothing before it begins.
        until,
        ..RunFilter::default()
    };
    let spending = journal.spending(&filter, args.since.map(|since| since.before(now))).await?;
    let mut lines: BTreeMap<Vec<String>, Line> = BTreeMap::new();
    let mut total = Line::default();
    let mut unpriced: BTreeMap<String, u64> = BTreeMap::new();
    for (run, spent) in &spending.runs {
        let zone = zone(workspace.as_ref(), &run.tenant);
        for spent in spent.iter().filter(|spent| until.is_none_or(|until| spent.at < until)) {
            let key = args.by.iter().map(|group| key(*group, run, spent, &zone)).collect();
            lines.entry(key).or_default().add(run.run, &spent.usage);
            total.add(run.run, &spent.usage);
            if !spent.is_priced {
                *unpriced.entry(spent.model.clone()).or_default() += spent.usage.model_calls;
            }
        }
    }
    let mut lines: Vec<(Vec<String>, Line)> = lines.into_iter().collect();
    // Days in their order; of all else, what cost most comes first.
    if args.by.first() != Some(&GroupArg::Day) {
        lines.sort_by_key(|(_, line)| Reverse((line.usage.cost_nano_usd, line.usage.tokens())));
    }
    if context.format == Format::Json {
        context.output.document(&Document {
            by: args.by.iter().map(|group| group.word()).collect(),
            lines: lines.iter().map(|(key, line)| LineDocument::of(line, &args.by, key)).collect(),
            total: LineDocument::of(&total, &[], &[]),
            unpriced_calls: &unpriced,
            unreadable: spending.unreadable.iter().map(|unreadable| unreadable.run).collect(),
        });
        return Ok(Exit::Done);
    }
    if lines.is_empty() {
        context.output.note("nothing was spent on models: no run that matches asked one");
    } else {
        tell(&args.by, &lines, &total, context.output);
    }
    for (model, calls) in &unpriced {
        context.output.note(styled(Style::Yellow, "warning").and(format_args!(
            ": {} of `{model}` counted as $0, since the model had no price: add `price` to `[models.{model}]`",
            count(*calls, "call")
        )));
    }
    if let Some(first) = spending.unreadable.first() {
        context.output.note(styled(Style::Yellow, "warning").and(format_args!(
            ": what {} spent is not known, since their records are erased or damaged; the first is {}: {}",
            count(spending.unreadable.len() as u64, "run"),
            short(first.run),
            first.error
        )));
    }
    Ok(Exit::Done)
}

/// The zone of a tenant's days.
fn zone(workspace: Option<&Workspace>, tenant: &str) -> TimeZone {
    let name = workspace.and_then(|workspace| workspace.tenants.get(tenant)?.time_zone.as_deref());
    name.and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC)
}

fn key(group: GroupArg, run: &RunSummary, spent: &Spent, zone: &TimeZone) -> String {
    match group {
        GroupArg::Run => run.run.to_string(),
        GroupArg::Session => run.session.clone(),
        GroupArg::Agent => run.agent.to_string(),
        GroupArg::Tenant => run.tenant.clone(),
        GroupArg::Model => spent.model.clone(),
        GroupArg::Day => {
            let millis = i64::try_from(spent.at.as_millis()).unwrap_or(i64::MAX);
            let at = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
            at.to_zoned(zone.clone()).date().to_string()
        }
    }
}

fn tell(by: &[GroupArg], lines: &[(Vec<String>, Line)], total: &Line, output: &mut Output) {
    let mut head: Vec<String> = by.iter().map(|group| group.word().to_uppercase()).collect();
    head.extend(["RUNS", "CALLS", "INPUT", "CACHED", "OUTPUT", "COST"].map(str::to_owned));
    let cells = |key: &[String], line: &Line| {
        let usage = &line.usage;
        let shown = key.iter().zip(by).map(|(key, group)| match group {
            GroupArg::Run => key.parse::<RunId>().map_or_else(|_| key.clone(), short),
            _ => key.clone(),
        });
        let mut cells: Vec<String> = shown.collect();
        cells.extend([
            line.runs.len().to_string(),
            usage.model_calls.to_string(),
            usage.input_tokens.to_string(),
            line.hit_rate().map(|rate| format!("{:.0}%", rate * 100.0)).unwrap_or_default(),
            usage.output_tokens.to_string(),
            ending::cost(usage),
        ]);
        cells
    };
    let mut rows: Vec<Vec<String>> = lines.iter().map(|(key, line)| cells(key, line)).collect();
    if rows.len() > 1 {
        let mut key = vec![String::new(); by.len()];
        if let Some(first) = key.first_mut() {
            *first = "total".to_owned();
        }
        rows.push(cells(&key, total));
    }
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let rows: Vec<&[String]> = rows.iter().map(Vec::as_slice).collect();
    for line in columns(&head, &rows, output.stdout.terminal.room) {
        output.stdout.line(line);
    }
}
