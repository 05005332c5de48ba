//! A run: what it was asked, how it stands, and its steps as a timeline.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use askama::Template;
use dalsegno_core::{AgentRequest, AgentResponse, OperationId, Timestamp, Usage};
use dalsegno_history::{Moment, OperationOutline, Outline, Speaker, Standing, Walk};
use dalsegno_store::{RecordKind, RunSummary};
use dalsegno_wire::Lineage;

use crate::inbox::WaitingCard;
use crate::markup::Markup;
use crate::runs::{Mark, encoded};
use crate::shell::Shell;
use crate::text;

/// Rows of a window.
pub const WINDOW: usize = 100;
/// The width of the waterfall in its own units.
const WIDTH: u64 = 1_000;
/// The shortest bar that can be seen.
const SHORTEST: u64 = 6;
/// Most characters of a text of a run.
const TEXT: usize = 20_000;

/// A run.
#[derive(Debug, Clone, Template)]
#[template(path = "run.html")]
pub struct RunPage {
    /// What surrounds it.
    pub shell: Shell,
    /// The line at the top.
    pub head: RunHead,
    /// Time, records, tokens: names and values.
    pub facts: Vec<(&'static str, String)>,
    /// What it was asked.
    pub asked: Option<Asked>,
    /// How it ended.
    pub end: Option<End>,
    /// What it waits for.
    pub waiting: Vec<WaitingCard>,
    /// Who paused it; none for a run that is not paused.
    pub pause: Option<Paused>,
    /// Where it came from.
    pub origin: Option<Origin>,
    /// What cannot be read or computed of it.
    pub stops: Vec<String>,
    /// What was said and done, where it is a call.
    pub call: Option<Call>,
    /// Its steps.
    pub timeline: Timeline,
}

/// A person paused the run.
#[derive(Debug, Clone)]
pub struct Paused {
    /// Who did it.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Most moments of a call on one page; the latest.
const MOMENTS: usize = 1_000;

/// What was said and done in a call.
#[derive(Debug, Clone)]
pub struct Call {
    /// How many moments stand before these.
    pub earlier: usize,
    /// The moments.
    pub moments: Vec<Said>,
}

/// One thing that was said or done in a call.
#[derive(Debug, Clone)]
pub struct Said {
    /// The number of the turn, where it is the first thing of one.
    pub turn: Option<u64>,
    /// When, after the beginning of the call.
    pub at: String,
    /// Who says it: `caller` or `agent`; nobody where something else happens.
    pub by: Option<&'static str>,
    /// The words.
    pub words: String,
    /// What else is to be known of it.
    pub note: Option<String>,
}

impl Call {
    /// What was said and done in a call that began at a time; none where the run is no call.
    pub fn of(began: Timestamp, moments: &[Moment]) -> Option<Self> {
        if moments.is_empty() {
            return None;
        }
        let earlier = moments.len().saturating_sub(MOMENTS);
        let moments = moments.iter().skip(earlier).map(|moment| Said {
            turn: moment.turn,
            at: text::duration(moment.at.as_millis().saturating_sub(began.as_millis())),
            by: moment.by.map(Speaker::as_str),
            words: text::shown(&moment.words, TEXT),
            note: moment.note.as_deref().map(|note| text::line(note, 200)),
        });
        Some(Self { earlier, moments: moments.collect() })
    }
}

/// The steps of a run in a window: what a page and a module that scrolls show.
#[derive(Debug, Clone, Template)]
#[template(path = "rows.html")]
pub struct Timeline {
    /// The run.
    pub id: String,
    /// The rows.
    pub rows: Vec<Row>,
    /// The number of the first of them.
    pub from: usize,
    /// How many rows are known.
    pub known: usize,
    /// Whether these are all that there will be.
    pub is_whole: bool,
    /// The time that the waterfall is wide.
    pub span: String,
    /// The addresses of other windows.
    pub windows: Windows,
}

/// The addresses of other windows; none where there is nothing.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    /// The first one.
    pub first: Option<String>,
    /// The one before.
    pub previous: Option<String>,
    /// The one after.
    pub next: Option<String>,
    /// The last one.
    pub last: Option<String>,
}

/// What every page of a run begins with.
#[derive(Debug, Clone)]
pub struct RunHead {
    /// The run.
    pub id: String,
    /// The beginning of its id.
    pub short: String,
    /// Its agent.
    pub agent: String,
    /// Where it stands.
    pub mark: Mark,
    /// Whether more may be recorded.
    pub is_open: bool,
    /// The number of its records.
    pub records: u64,
}

/// What a run was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The text.
    pub text: String,
    /// The structured input and what is said of the user.
    pub values: Vec<(&'static str, Markup)>,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct End {
    /// The answer.
    pub answer: Option<String>,
    /// The structured answer.
    pub output: Option<Markup>,
    /// Why it did not complete: code, message, help.
    pub error: Option<(String, String, String)>,
}

/// Where a run came from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// What it is of the other run, such as `Forked from`.
    pub word: &'static str,
    /// The other run.
    pub id: String,
    /// The beginning of its id.
    pub short: String,
    /// The first step of its own, or of a call the first turn, such as `step 3`.
    pub place: Option<String>,
    /// What else differs.
    pub notes: Vec<String>,
    /// The address of a comparison with it.
    pub diff: Option<String>,
}

/// One operation of a run.
#[derive(Debug, Clone)]
pub struct Row {
    /// The number of its step.
    pub step: String,
    /// Whether it is the first one of its step.
    pub is_first: bool,
    /// Where it leads to.
    pub href: String,
    /// The end of its address, unique on a page.
    pub anchor: String,
    /// What kind it is, such as `tool`.
    pub kind: String,
    /// Its name, such as `risk.score`.
    pub name: String,
    /// Whether it is a part of the call of a declarative tool.
    pub is_part: bool,
    /// How it stands.
    pub mark: Mark,
    /// Attempts, where there were several.
    pub attempts: Option<u32>,
    /// Tokens, where it is a reply.
    pub tokens: Option<String>,
    /// The time that it took.
    pub took: String,
    /// Its bar in the waterfall.
    pub bar: Option<Bar>,
    /// Whether it is the row that is shown beside.
    pub is_current: bool,
}

/// A bar of the waterfall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// Where it begins, of a thousand.
    pub x: u64,
    /// How wide it is.
    pub width: u64,
}

impl RunHead {
    /// The head of a run.
    pub fn of(summary: &RunSummary, is_performed: bool) -> Self {
        Self {
            id: summary.run.to_string(),
            short: text::short(summary.run),
            agent: summary.agent.to_string(),
            mark: Mark::of(summary, is_performed),
            is_open: !summary.status.is_end() && summary.foreign.is_none(),
            records: summary.records,
        }
    }

    /// The number of its last record.
    pub fn last(&self) -> u64 {
        self.records.saturating_sub(1)
    }
}

/// Times and numbers of a run. `usage` is what it used, where that is known.
pub fn facts(summary: &RunSummary, usage: Option<&Usage>) -> Vec<(&'static str, String)> {
    let span = summary.updated_at.as_millis().saturating_sub(summary.started_at.as_millis());
    let mut facts = vec![
        ("Started", text::clock(summary.started_at)),
        ("Took", text::duration(span)),
        ("Records", text::grouped(summary.records)),
    ];
    if let Some(usage) = usage {
        let numbers = [
            ("Model calls", usage.model_calls),
            ("Tool calls", usage.tool_calls),
            ("Tokens in", usage.input_tokens),
            ("Tokens out", usage.output_tokens),
        ];
        let numbers = numbers.into_iter().filter(|(_, number)| *number > 0);
        facts.extend(numbers.map(|(name, number)| (name, text::grouped(number))));
        facts.extend(text::cost(usage).map(|cost| ("Cost", cost)));
    }
    facts.push(("Tenant", text::line(&summary.tenant, 60)));
    if summary.session != summary.run.to_string() {
        facts.push(("Session", text::line(&summary.session, 60)));
    }
    if let Some(at) = summary.wake_at {
        facts.push(("Wakes", text::clock(at)));
    }
    facts
}

impl Asked {
    /// What a run was asked.
    pub fn of(request: &AgentRequest) -> Self {
        let values = [("Data", &request.data), ("User", &request.user)];
        let values = values.into_iter().filter(|(_, value)| !value.is_null());
        Self {
            text: text::shown(&request.text, TEXT),
            values: values.map(|(name, value)| (name, Markup::json(value))).collect(),
        }
    }
}

impl End {
    /// How a run ended.
    pub fn of(response: &AgentResponse) -> Self {
        let error = response.error.as_ref();
        Self {
            answer: response.answer.as_deref().map(|answer| text::shown(answer, TEXT)),
            output: response.output.as_ref().map(Markup::json),
            error: error.map(|error| {
                let shown = |words: &str| text::shown(words, TEXT);
                (error.code.as_str().to_owned(), shown(&error.message), shown(&error.help))
            }),
        }
    }
}

impl Origin {
    /// Where a run came from; none where nothing is known.
    pub fn of(summary: &RunSummary, lineage: &Lineage) -> Option<Self> {
        let ways = [
            ("Forked from", lineage.forked_from),
            ("Adopted from", lineage.adopted_from),
            ("Child of", lineage.parent),
        ];
        let (word, run) = ways.into_iter().find_map(|(word, run)| Some((word, run?)))?;
        let replaced = lineage.replaced.len() as u64;
        let mut notes = Vec::new();
        if replaced > 0 {
            notes.push(format!("{} replaced", text::count(replaced, "outcome")));
        }
        notes.extend(lineage.model.iter().map(|model| format!("model {}", text::line(model, 60))));
        if lineage.other_configuration && lineage.model.is_none() {
            notes.push("another configuration".to_owned());
        }
        let diff = lineage.forked_from.or(lineage.adopted_from);
        Some(Self {
            word,
            id: run.to_string(),
            short: text::short(run),
            place: match (lineage.from_turn, lineage.from_step) {
                (Some(turn), _) => Some(format!("turn {turn}")),
                (None, step) => step.map(|step| format!("step {step}")),
            },
            notes,
            diff: diff.map(|other| format!("/diff?left={other}&right={}", summary.run)),
        })
    }
}

impl Timeline {
    /// The window of rows from `from` on, of a walk as far as it was read. `current` is the step that is shown beside.
    pub fn of(walk: &Walk, from: usize, current: Option<&str>) -> Self {
        let outline = walk.outline();
        let id = walk.summary().run.to_string();
        let known = rows(outline);
        let from = from.min(known.saturating_sub(1));
        let mut rows = window(outline, &id, from..from + WINDOW);
        for row in &mut rows {
            row.is_current = current.is_some_and(|current| row.step == current);
        }
        let is_whole = walk.is_read();
        let span = bars(outline, &mut rows, walk.summary().updated_at);
        let at = |from: usize| format!("/runs/{id}?from={from}");
        let has_more = from + WINDOW < known || !is_whole;
        let windows = Windows {
            first: (from > WINDOW).then(|| at(0)),
            previous: (from > 0).then(|| at(from.saturating_sub(WINDOW))),
            next: has_more.then(|| at(from + WINDOW)),
            last: has_more.then(|| format!("/runs/{id}?from=end")),
        };
        Self { rows, from, known, is_whole, span: text::duration(span), windows, id }
    }
}

/// The number of rows of an outline.
pub fn rows(outline: &Outline) -> usize {
    let operations: usize = outline.steps.iter().map(|step| step.operations.len()).sum();
    operations + usize::from(outline.ending.is_some())
}

/// The number of the first row of a step.
pub fn row_of(outline: &Outline, place: usize) -> usize {
    outline.steps.iter().take(place).map(|step| step.operations.len()).sum()
}

fn window(outline: &Outline, id: &str, range: Range<usize>) -> Vec<Row> {
    let mut rows = Vec::with_capacity(WINDOW);
    let mut number = 0;
    for step in &outline.steps {
        let end = number + step.operations.len();
        if end > range.start && number < range.end {
            for (index, one) in nested(&step.operations).into_iter().enumerate() {
                if range.contains(&(number + index)) {
                    let is_first = index == 0 || number + index == range.start;
                    rows.push(Row::of(id, step.step, is_first, one));
                }
            }
        }
        number = end;
        if number >= range.end {
            return rows;
        }
    }
    if let Some(ending) = outline.ending.as_ref().filter(|_| range.contains(&number)) {
        rows.push(Row::end(id, ending.kind));
    }
    rows
}

/// The operations of a step in the order of their requests, each followed by its parts.
fn nested(operations: &[OperationOutline]) -> Vec<&OperationOutline> {
    let known: BTreeSet<OperationId> = operations.iter().map(|one| one.operation).collect();
    let mut below: BTreeMap<Option<OperationId>, Vec<&OperationOutline>> = BTreeMap::new();
    for one in operations {
        below.entry(one.parent.filter(|parent| known.contains(parent))).or_default().push(one);
    }
    let mut open: Vec<&OperationOutline> = below.remove(&None).unwrap_or_default();
    open.reverse();
    let mut rows = Vec::with_capacity(operations.len());
    while let Some(one) = open.pop() {
        rows.push(one);
        open.extend(below.remove(&Some(one.operation)).into_iter().flatten().rev());
    }
    rows
}

impl Row {
    fn of(id: &str, step: u64, is_first: bool, one: &OperationOutline) -> Self {
        let (kind, name) = label(&one.label);
        let short = text::short(one.operation);
        Self {
            step: step.to_string(),
            is_first,
            href: format!("/runs/{id}/steps/{step}#op-{short}"),
            anchor: short,
            kind,
            name,
            is_part: one.parent.is_some(),
            mark: standing(one.standing),
            attempts: Some(one.attempts).filter(|attempts| *attempts > 1),
            tokens: Some(one.tokens).filter(|tokens| *tokens > 0).map(text::grouped),
            took: one.elapsed_ms.map(text::duration).unwrap_or_default(),
            bar: None,
            is_current: false,
        }
    }

    fn end(id: &str, kind: RecordKind) -> Self {
        let (class, word) = match kind {
            RecordKind::Completed | RecordKind::HandedOff => ("good", "end"),
            RecordKind::Failed => ("bad", "end"),
            _ => ("off", "end"),
        };
        Self {
            step: "end".to_owned(),
            is_first: true,
            href: format!("/runs/{id}/steps/end"),
            anchor: "end".to_owned(),
            kind: kind.to_string().replace('_', " "),
            name: String::new(),
            is_part: false,
            mark: Mark { class, word },
            attempts: None,
            tokens: None,
            took: String::new(),
            bar: None,
            is_current: false,
        }
    }
}

/// Puts the bars on the rows of a window; returns the milliseconds that the waterfall is wide.
fn bars(outline: &Outline, rows: &mut [Row], updated: Timestamp) -> u64 {
    let mut places: Vec<Option<(u64, u64)>> = Vec::with_capacity(rows.len());
    let mut steps = outline.steps.iter().peekable();
    for row in rows.iter() {
        let Ok(step) = row.step.parse::<u64>() else {
            places.push(None);
            continue;
        };
        while steps.peek().is_some_and(|one| one.step < step) {
            steps.next();
        }
        let place = steps.peek().and_then(|one| {
            let operation = one.operations.iter().find(|one| text::short(one.operation) == row.anchor)?;
            let begun = operation.at.as_millis();
            let end =
                operation.elapsed_ms.map_or(updated.as_millis(), |elapsed| begun.saturating_add(elapsed));
            Some((begun, end.max(begun)))
        });
        places.push(place);
    }
    let begun = places.iter().flatten().map(|(begun, _)| *begun).min().unwrap_or_default();
    let end = places.iter().flatten().map(|(_, end)| *end).max().unwrap_or_default();
    let span = end.saturating_sub(begun).max(1);
    for (row, place) in rows.iter_mut().zip(places) {
        row.bar = place.map(|(from, to)| {
            let scaled = |millis: u64| {
                u64::try_from(u128::from(millis) * u128::from(WIDTH) / u128::from(span)).unwrap_or(WIDTH)
            };
            let x = scaled(from - begun).min(WIDTH - SHORTEST);
            Bar { x, width: scaled(to - from).clamp(SHORTEST, WIDTH - x) }
        });
    }
    span
}

/// The kind and the name in a label, such as ``tool `risk.score` ``.
pub(crate) fn label(label: &str) -> (String, String) {
    match label.split_once('`') {
        Some((kind, name)) => {
            (kind.trim().to_owned(), text::line(name.trim_end().trim_end_matches('`'), 120))
        }
        None => (text::line(label, 120), String::new()),
    }
}

pub(crate) fn standing(standing: Standing) -> Mark {
    let (class, word) = match standing {
        Standing::Open => ("live", "under way"),
        Standing::Deferred => ("off", "not started"),
        Standing::Waiting => ("wait", "waits"),
        Standing::Done => ("good", "done"),
        Standing::Failed => ("bad", "failed"),
        Standing::Late => ("off", "late"),
    };
    Mark { class, word }
}

/// The address of the list with the runs of a session.
pub fn session_address(session: &str) -> String {
    format!("/runs?session={}", encoded(session))
}
