//! The pages of the debugger, in the words of `show` and `diff`.

use dalsegno_core::{OperationId, Outcome};
use dalsegno_debugger::{Tab, Text, Tone};
use dalsegno_history::{Journal, OperationView, Scene, Walk};

use crate::render::dialogue;
use crate::render::output::Stream;
use crate::render::prompt::{self, Marked};
use crate::render::request::{self, value_lines};
use crate::render::steps::{self, Detail, History, content, happened, headline};
use crate::render::text::{Style, Words, count, short, styled, time};
use crate::render::{diff, ending};

/// Most bytes of one page: far more than a person scrolls through.
const PAGE_BYTES: usize = 256 * 1024;

/// Most messages of a prompt that are shown; the newest.
const MESSAGES: usize = 200;

/// A step with its run.
pub(super) struct Whole<'a> {
    pub(super) walk: &'a Walk,
    pub(super) scene: &'a Scene,
    /// The operation that is selected; none for the step itself.
    pub(super) operation: Option<OperationId>,
}

impl Whole<'_> {
    fn views(&self) -> impl Iterator<Item = &OperationView> {
        let only = self.operation;
        self.scene.view.operations.iter().filter(move |view| only.is_none_or(|id| view.operation == id))
    }

    fn history(&self) -> History<'_> {
        History::over(&self.scene.records, self.walk.summary())
    }
}

/// The lines of a page.
pub(super) fn page(tab: Tab, whole: &Whole<'_>) -> Vec<Text> {
    let mut stream = Stream::kept();
    match tab {
        Tab::Step => step(whole, &mut stream),
        Tab::State => state(whole, &mut stream),
        Tab::Prompt => prompts(whole, &mut stream),
        Tab::Arguments => each(whole, &mut stream, |view, stream| {
            request::lines(&view.request).iter().for_each(|line| stream.line(line));
        }),
        Tab::Result => each(whole, &mut stream, result),
        Tab::Memory => memory(whole, &mut stream),
        Tab::Attempts => attempts(whole, &mut stream),
        Tab::Compare => {}
    }
    texts(stream.into_lines())
}

fn step(whole: &Whole<'_>, stream: &mut Stream) {
    let Whole { walk, scene, operation } = whole;
    let used = ending::usage(scene.state.usage());
    let used = if used.is_empty() { "nothing".to_owned() } else { used.join(" · ") };
    stream.line(styled(Style::Dim, format_args!("used before: {used}")));
    if let Some(spent) = scene.spent() {
        let spent = ending::usage(spent);
        let spent = if spent.is_empty() { "nothing".to_owned() } else { spent.join(" · ") };
        stream.line(styled(Style::Dim, format_args!("this step:   {spent}")));
    }
    steps::step(&scene.view, &whole.history(), Detail::Full, *operation, stream);
    if let Some(response) = &scene.response {
        stream.line("");
        stream.line(styled(Style::Bold, format_args!("{:?}", response.status).to_string().to_lowercase()));
        if let Some(error) = &response.error {
            stream
                .line(styled(Style::Red, format_args!("error[{}]: {}", error.code.as_str(), error.message)));
            stream.line(format_args!("help: {}", error.help));
        }
        stream.line(response.answer.as_deref().unwrap_or_default());
    }
    if let Some(stop) = walk.unfolded() {
        stream.line("");
        stream.line(styled(Style::Red, format_args!("no states from record {} on: {stop}", stop.seq)));
    }
}

fn state(whole: &Whole<'_>, stream: &mut Stream) {
    let changes = whole.scene.changes();
    stream.line(styled(Style::Bold, "changed since the step before"));
    if changes.is_empty() {
        stream.line("  nothing");
    }
    diff::changes(&changes, stream);
    stream.line("");
    stream.line(styled(Style::Bold, "state when this step was asked for"));
    let mut lines = Vec::new();
    value_lines(&whole.scene.visible(), &mut lines);
    lines.iter().for_each(|line| stream.line(line));
}

fn prompts(whole: &Whole<'_>, stream: &mut Stream) {
    let mut found = false;
    for view in whole.views() {
        let Some(prompt) = whole.scene.prompt(view.operation) else { continue };
        if std::mem::replace(&mut found, true) {
            stream.line("");
        }
        let new = whole.scene.new_messages(view.operation);
        stream.line(styled(
            Style::Dim,
            format_args!("+ {} since the completion before", count(new as u64, "new message")),
        ));
        prompt::show(&prompt, Marked { new, most: MESSAGES }, stream);
    }
    if !found {
        stream.line(styled(Style::Dim, "No model was asked here. Search for `model completion`."));
    }
}

/// Each operation that is meant, below its label.
fn each(whole: &Whole<'_>, stream: &mut Stream, show: impl Fn(&OperationView, &mut Stream)) {
    let mut is_first = true;
    for view in whole.views() {
        if !std::mem::take(&mut is_first) {
            stream.line("");
        }
        let id = styled(Style::Dim, format_args!("  {}", short(view.operation)));
        stream.line(styled(Style::Bold, &view.label).and(id));
        show(view, stream);
    }
    if is_first {
        stream.line(styled(Style::Dim, "Nothing was asked for here."));
    }
}

fn result(view: &OperationView, stream: &mut Stream) {
    let Some(outcome) = &view.outcome else { return stream.line("nothing yet") };
    stream.line(headline(outcome));
    let mut lines = Vec::new();
    content(outcome, &mut lines);
    lines.iter().for_each(|line| stream.line(line));
    if let Outcome::ToolReturned(returned) = outcome {
        for note in returned.notes() {
            stream.line(format_args!("log {} {}: {}", note.level, note.action, note.text));
        }
    }
}

fn memory(whole: &Whole<'_>, stream: &mut Stream) {
    let mut found = false;
    for view in whole.views() {
        let Some(outcome @ (Outcome::MemoryFound(_) | Outcome::MemoryTraversed(_))) = &view.outcome else {
            continue;
        };
        found = true;
        stream.line(styled(Style::Bold, &view.label));
        request::lines(&view.request).iter().for_each(|line| stream.line(styled(Style::Dim, line)));
        let mut lines = Vec::new();
        content(outcome, &mut lines);
        if lines.is_empty() {
            stream.line("nothing found");
        }
        lines.iter().for_each(|line| stream.line(line));
    }
    if !found {
        stream.line(styled(Style::Dim, "The memory was not searched here. Search for `memory search`."));
    }
}

fn attempts(whole: &Whole<'_>, stream: &mut Stream) {
    let history = whole.history();
    let is_meant = |id: Option<OperationId>| whole.operation.is_none() || id == whole.operation;
    for record in whole.scene.records.iter().filter(|record| is_meant(record.operation)) {
        let of = record.operation.map(|id| format!("  {}", short(id))).unwrap_or_default();
        let kind = record.body.kind();
        let title = format!("{:<5} {:<10} {kind}", record.seq, history.offset(record.at));
        stream.line(Words::from(title).and(styled(Style::Dim, of)));
        happened(record, &history, Detail::Full, stream);
    }
}

/// How a run began.
pub(super) async fn start(walk: &Walk, journal: &Journal) -> Vec<Text> {
    let mut stream = Stream::kept();
    let summary = walk.summary();
    stream.line(Words::from("run ").and(styled(Style::Bold, summary.run)));
    let facts = [time(summary.started_at), count(summary.records, "record"), summary.status.to_string()];
    stream.line(format_args!("{} · {}", summary.agent, facts.join(" · ")));
    stream.line(format_args!("tenant: {}", summary.tenant));
    stream.line(format_args!("session: {}", summary.session));
    if let Some((run, step)) = walk.outline().shares {
        stream.line(styled(
            Style::Yellow,
            format_args!("shares the steps before step {step} with run {}: press b to see them", short(run)),
        ));
    }
    if let Some(stop) = walk.unread() {
        stream.line(styled(Style::Red, format_args!("cannot be read from record {} on: {stop}", stop.seq)));
    }
    if let Some(stop) = walk.unfolded() {
        stream.line(styled(Style::Red, format_args!("no states from record {} on: {stop}", stop.seq)));
    }
    match journal.asked(summary.run).await {
        Ok(request) => {
            stream.line("");
            stream.line(styled(Style::Bold, "asked"));
            stream.line(&request.text);
            for (name, value) in [("data", &request.data), ("user", &request.user)] {
                if !value.is_null() {
                    let mut lines = Vec::new();
                    value_lines(value, &mut lines);
                    stream.line(styled(Style::Bold, name));
                    lines.iter().for_each(|line| stream.line(line));
                }
            }
        }
        Err(error) => stream.line(styled(Style::Red, error)),
    }
    match journal.moments(summary.run).await {
        Ok(moments) if moments.is_empty() => {}
        Ok(moments) => {
            stream.line("");
            stream.line(styled(Style::Bold, "call"));
            dialogue::timeline(&moments, &mut stream);
        }
        Err(error) => stream.line(styled(Style::Red, error)),
    }
    texts(stream.into_lines())
}

/// What is known of a step whose state cannot be computed.
pub(super) fn without_state(walk: &Walk, place: usize, operation: Option<OperationId>) -> Vec<Text> {
    let mut stream = Stream::kept();
    stream.line(styled(Style::Red, "The state of this step cannot be computed."));
    let stop = walk.unfolded().or(walk.unread());
    stream.line(stop.map_or_else(String::new, ToString::to_string));
    stream.line("");
    if let Some(step) = walk.outline().steps.get(place) {
        for one in &step.operations {
            if operation.is_none_or(|id| one.operation == id) {
                stream.line(format_args!("{}  {}", one.label, short(one.operation)));
                stream.line(format_args!("  {:?}, {}", one.standing, count(one.attempts.into(), "attempt")));
            }
        }
    }
    texts(stream.into_lines())
}

/// Lines for the screen. What is too long for it is cut, and the last line says so.
pub(super) fn texts(lines: Vec<Words>) -> Vec<Text> {
    let mut texts = Vec::new();
    let mut room = PAGE_BYTES;
    for line in lines {
        let mut parts = Vec::new();
        for (style, text) in line.parts() {
            let end = text.floor_char_boundary(room);
            parts.push((tone(style), &text[..end]));
            room -= end;
        }
        texts.extend(Text::lines(parts));
        if room == 0 {
            let note = "… the rest is left out: `dalsegno show RUN --op ID --full` shows all of it";
            texts.push(Text::new(Tone::Warn, note));
            break;
        }
    }
    texts
}

const fn tone(style: Option<Style>) -> Tone {
    match style {
        None => Tone::Plain,
        Some(Style::Bold) => Tone::Bold,
        Some(Style::Dim) => Tone::Dim,
        Some(Style::Red) => Tone::Bad,
        Some(Style::Green) => Tone::Good,
        Some(Style::Yellow) => Tone::Warn,
        Some(Style::Cyan) => Tone::Name,
    }
}
