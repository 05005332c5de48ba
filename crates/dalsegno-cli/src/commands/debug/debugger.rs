//! A run under the debugger: what the screen shows of it.

use std::collections::BTreeMap;
use std::time::Duration;

use dalsegno_core::{OperationId, Outcome, RunId};
use dalsegno_debugger::{Key, Mark, Model, Page, Row, Tab, Text, Tone, Wish};
use dalsegno_history::{Journal, OperationOutline, Scene, Standing, Walk};
use dalsegno_store::RunStatus;

use super::pages::{self, Whole};
use super::search::Search;
use crate::commands::select;
use crate::error::Error;
use crate::render::diff;
use crate::render::ending;
use crate::render::output::Stream;
use crate::render::text::{count, duration, short};

/// The place of the row of how the run began.
const START: usize = usize::MAX;

/// A run under the debugger.
pub(super) struct Debugger {
    journal: Journal,
    walk: Walk,
    model: Model,
    /// The row of each place.
    rows: Vec<usize>,
    /// The records that the rows show.
    rows_read: u64,
    /// The step that was looked at last.
    scene: Option<(usize, Scene)>,
    search: Option<Search>,
    /// The run that this one was compared with, and how it differs.
    compared: Option<Vec<Text>>,
    /// The runs that were shown before this one.
    before: Vec<RunId>,
    /// The step that is to be selected once it is read.
    wanted: Option<u64>,
    drafts: BTreeMap<OperationId, String>,
    forked: Option<RunId>,
    /// The journal could not be read: no more is read until a person asks for it.
    is_halted: bool,
}

impl Debugger {
    /// Opens a run, at this step.
    pub(super) async fn open(
        journal: Journal,
        run: RunId,
        step: Option<u64>,
        colour: bool,
    ) -> Result<Self, Error> {
        let walk = journal.walk(run).await?;
        let mut debugger = Self {
            journal,
            walk,
            model: Model::new(colour),
            rows: Vec::new(),
            rows_read: 0,
            scene: None,
            search: None,
            compared: None,
            before: Vec::new(),
            wanted: step,
            drafts: BTreeMap::new(),
            forked: None,
            is_halted: false,
        };
        if let Some(step) = step {
            debugger.walk.read_all().await?;
            let steps = &debugger.walk.outline().steps;
            if !steps.iter().any(|one| one.step == step) {
                let steps = steps.last().map_or(0, |last| last.step);
                return Err(Error::UnknownStep { run: short(run), step, steps });
            }
        }
        debugger.list();
        Ok(debugger)
    }

    pub(super) fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    pub(super) fn run(&self) -> RunId {
        self.walk.summary().run
    }

    /// The last run that was forked.
    pub(super) fn forked(&self) -> Option<RunId> {
        self.forked
    }

    pub(super) fn press(&mut self, key: Key) -> Option<Wish> {
        self.model.press(key)
    }

    pub(super) fn say(&mut self, tone: Tone, message: &str) {
        self.model.say(tone, message);
    }

    /// Shows another run.
    async fn switch(&mut self, run: RunId) -> Result<(), Error> {
        self.walk = self.journal.walk(run).await?;
        (self.scene, self.search, self.compared) = (None, None, None);
        self.rows.clear();
        self.model.begin(Vec::new());
        self.list();
        Ok(())
    }

    /// Shows a fork of the run that is shown.
    pub(super) async fn open_fork(&mut self, fork: RunId) -> Result<(), Error> {
        let from = self.run();
        self.switch(fork).await?;
        self.before.push(from);
        self.forked = Some(fork);
        let words = format!("forked as run {}; nothing of it was performed: b goes back", short(fork));
        self.say(Tone::Good, &words);
        Ok(())
    }

    /// Shows the run that was shown before.
    pub(super) async fn back(&mut self) -> Result<(), Error> {
        let shares = self.walk.outline().shares.map(|(run, _)| run);
        match self.before.last().copied().or(shares) {
            Some(run) => {
                self.switch(run).await?;
                self.before.pop();
            }
            None => self.say(Tone::Warn, "no other run was shown before this one"),
        }
        Ok(())
    }

    /// Looks whether more was recorded.
    pub(super) async fn refresh(&mut self) -> Result<(), Error> {
        let is_more = self.walk.refresh().await?;
        self.is_halted = false;
        self.title();
        if is_more {
            self.scene = None;
        } else {
            let status = self.walk.summary().status;
            self.say(Tone::Dim, &format!("nothing new was recorded; the run is {status}"));
        }
        Ok(())
    }

    /// Says whether there is something to do while no key is pressed.
    pub(super) fn has_work(&self) -> bool {
        !self.is_halted && (!self.walk.is_read() || self.search.is_some())
    }

    /// Does a little of it.
    pub(super) async fn work(&mut self) {
        let done = if self.walk.is_read() { self.search_on().await } else { self.read_on().await };
        if let Err(error) = done {
            self.is_halted = true;
            self.search = None;
            self.say(Tone::Bad, &error.to_string());
        }
    }

    async fn read_on(&mut self) -> Result<(), Error> {
        self.walk.read_on().await?;
        Ok(())
    }

    async fn search_on(&mut self) -> Result<(), Error> {
        let Some(search) = &mut self.search else { return Ok(()) };
        let place = search.next;
        search.next += 1;
        let scene = self.walk.scene(place).await?;
        let outline = self.walk.outline();
        let found = search.rows(outline.steps.get(place), scene.as_ref());
        let is_done = search.next >= outline.places();
        let first = self.rows.get(place).copied().unwrap_or_default();
        self.model.found(found.into_iter().map(|row| first + row), is_done);
        if is_done {
            self.search = None;
        }
        Ok(())
    }

    /// Shows how far the work is.
    pub(super) fn tell_work(&mut self) {
        if self.rows_read != self.walk.records_read() {
            self.list();
        }
        if let Some(search) = &self.search {
            let (done, all) = (search.next, self.walk.outline().places());
            self.say(Tone::Dim, &format!("searching: {done} of {}; Esc stops it", count(all as u64, "step")));
        }
    }

    pub(super) fn search(&mut self, text: &str) {
        self.is_halted = false;
        self.search = Some(Search::new(text));
    }

    pub(super) fn stop_search(&mut self) {
        self.search = None;
        self.say(Tone::Dim, "stopped searching");
    }

    /// Lists the steps that were read.
    fn list(&mut self) {
        let outline = self.walk.outline();
        let start = Row {
            place: START,
            operation: None,
            mark: Mark::End,
            is_part: false,
            label: "start".to_owned(),
            facts: String::new(),
        };
        let mut rows = vec![start];
        self.rows.clear();
        for (place, step) in outline.steps.iter().enumerate() {
            self.rows.push(rows.len());
            let elapsed = step.at.as_millis().saturating_sub(outline.started.as_millis());
            rows.push(Row {
                place,
                operation: None,
                mark: Mark::Step,
                is_part: false,
                label: format!("step {}", step.step),
                facts: format!("+{}", duration(Duration::from_millis(elapsed))),
            });
            rows.extend(step.operations.iter().enumerate().map(|(index, one)| row(place, index, one)));
        }
        if let Some(ending) = &outline.ending {
            self.rows.push(rows.len());
            rows.push(Row {
                place: outline.steps.len(),
                operation: None,
                mark: Mark::End,
                is_part: false,
                label: ending.kind.to_string().replace('_', " "),
                facts: String::new(),
            });
        }
        self.rows_read = self.walk.records_read();
        let wanted = self.wanted.take().and_then(|step| self.rows.get(outline.place_of(step)).copied());
        self.model.set_rows(rows);
        if let Some(row) = wanted {
            self.model.select(row);
        }
        self.title();
    }

    fn title(&mut self) {
        let summary = self.walk.summary();
        let mut facts = vec![
            format!("run {}", short(summary.run)),
            summary.agent.to_string(),
            summary.status.to_string(),
        ];
        if summary.status == RunStatus::Running && !self.journal.is_performed(summary) {
            facts.push("no process performs it".to_owned());
        }
        let outline = self.walk.outline();
        let tokens = outline.steps.iter().flat_map(|step| &step.operations).map(|one| one.tokens).sum();
        if tokens > 0 {
            facts.push(count(tokens, "token"));
        }
        if let Some((_, scene)) = &self.scene
            && scene.state.usage().cost_nano_usd > 0
        {
            facts.push(format!("{} before this step", ending::cost(&scene.state.usage())));
        }
        if let Some((run, step)) = outline.shares {
            facts.push(format!("from step {step} of {}", short(run)));
        }
        if let Some(stop) = self.walk.unread() {
            facts.push(format!("cannot be read from record {} on", stop.seq));
        } else if !self.walk.is_read() {
            let (read, all) = (self.walk.records_read(), summary.records);
            facts.push(format!("reading: {} %", read * 100 / all.max(1)));
        }
        self.model.set_title(Text::new(Tone::Plain, &facts.join(" · ")));
    }

    /// Fills the page that the screen wants.
    pub(super) async fn turn_page(&mut self) {
        let Some((row, tab)) = self.model.wanted() else { return };
        let lines = match self.lines(row, tab).await {
            Ok(lines) => lines,
            Err(error) => Text::lines([(Tone::Bad, error.to_string().as_str())]),
        };
        self.model.show(row, tab, Page { lines });
        self.title();
    }

    async fn lines(&mut self, row: usize, tab: Tab) -> Result<Vec<Text>, Error> {
        if tab == Tab::Compare {
            let hint = "Press c and type the id of another run, its first digits, or `last`.";
            return Ok(self.compared.clone().unwrap_or_else(|| vec![Text::new(Tone::Dim, hint)]));
        }
        let Some((place, operation)) = self.model.rows().get(row).map(|row| (row.place, row.operation))
        else {
            return Ok(Vec::new());
        };
        if place == START {
            return Ok(pages::start(&self.walk, &self.journal).await);
        }
        let operation = operation.and_then(|index| self.operation(place, index));
        if !self.look(place).await? {
            return Ok(pages::without_state(&self.walk, place, operation));
        }
        let Some((_, scene)) = &self.scene else { return Ok(Vec::new()) };
        Ok(pages::page(tab, &Whole { walk: &self.walk, scene, operation }))
    }

    fn operation(&self, place: usize, index: usize) -> Option<OperationId> {
        Some(self.walk.outline().steps.get(place)?.operations.get(index)?.operation)
    }

    /// Computes the state of a step, if it can be.
    async fn look(&mut self, place: usize) -> Result<bool, Error> {
        if self.scene.as_ref().is_none_or(|(known, _)| *known != place) {
            self.scene = self.walk.scene(place).await?.map(|scene| (place, scene));
        }
        Ok(self.scene.is_some())
    }

    /// Selects the operation because of which the one in a row was asked for.
    pub(super) async fn cause(&mut self, row: usize) -> Result<(), Error> {
        let Some((place, Some(index))) = self.model.rows().get(row).map(|row| (row.place, row.operation))
        else {
            return Ok(());
        };
        let (Some(id), true) = (self.operation(place, index), self.look(place).await?) else {
            return Ok(());
        };
        let before = match place.checked_sub(1) {
            Some(before) => self.walk.scene(before).await?,
            None => None,
        };
        let scene = self.scene.as_ref().map(|(_, scene)| scene);
        let cause = scene.and_then(|scene| scene.cause(id, before.as_ref()));
        match cause.and_then(|cause| self.walk.outline().find(cause)) {
            Some((place, index)) => {
                let row = self.rows.get(place).map_or(0, |row| row + 1 + index);
                self.model.select(row);
                self.model.open(Tab::Result);
            }
            None => {
                self.say(
                    Tone::Warn,
                    "the agent's own plan or settings ask for it: no operation is its cause",
                );
            }
        }
        Ok(())
    }

    /// Compares the run with another one, and shows where they part.
    pub(super) async fn compare(&mut self, other: &str) -> Result<(), Error> {
        let other = select::run(&self.journal, other).await?;
        let found = self.journal.diff(self.run(), other).await?;
        let mut stream = Stream::kept();
        diff::runs(&found, &mut stream);
        self.compared = Some(pages::texts(stream.into_lines()));
        if let Some(first) = &found.first {
            let place = self.walk.outline().place_of(first.step);
            if let Some(row) = self.rows.get(place) {
                self.model.select(*row);
            }
            self.say(Tone::Warn, &format!("first difference: step {}, {}", first.step, first.kind));
        } else {
            self.say(Tone::Good, "the same requests, outcomes and end");
        }
        self.model.open(Tab::Compare);
        self.model.forget_page();
        Ok(())
    }

    /// The operation in a row that a fork may replace the outcome of, with its outcome.
    pub(super) async fn outcome_in(
        &mut self,
        row: usize,
    ) -> Result<Option<(OperationId, Option<Outcome>)>, Error> {
        let Some((place, Some(index))) = self.model.rows().get(row).map(|row| (row.place, row.operation))
        else {
            return Ok(None);
        };
        let (Some(id), true) = (self.operation(place, index), self.look(place).await?) else {
            self.say(Tone::Warn, "the state of this step cannot be computed, so it cannot be forked");
            return Ok(None);
        };
        let mut views = self.scene.iter().flat_map(|(_, scene)| &scene.view.operations);
        Ok(views.find(|view| view.operation == id).map(|view| (id, view.outcome.clone())))
    }

    pub(super) fn draft(&self, operation: OperationId) -> Option<String> {
        self.drafts.get(&operation).cloned()
    }

    pub(super) fn keep_draft(&mut self, operation: OperationId, text: &str) {
        self.drafts.insert(operation, text.to_owned());
    }

    pub(super) fn drop_draft(&mut self, operation: OperationId) {
        self.drafts.remove(&operation);
    }
}

fn row(place: usize, index: usize, one: &OperationOutline) -> Row {
    let mark = match one.standing {
        Standing::Open => Mark::Open,
        Standing::Deferred => Mark::Deferred,
        Standing::Waiting => Mark::Waiting,
        Standing::Done => Mark::Done,
        Standing::Failed => Mark::Failed,
        Standing::Late => Mark::Late,
    };
    let attempts = Some(one.attempts).filter(|attempts| *attempts > 1);
    let tokens = Some(one.tokens).filter(|tokens| *tokens > 0);
    let facts = [
        attempts.map(|attempts| format!("x{attempts}")),
        tokens.map(|tokens| format!("{tokens} tok")),
        one.elapsed_ms.map(|elapsed| duration(Duration::from_millis(elapsed))),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    Row {
        place,
        operation: Some(index),
        mark,
        is_part: one.parent.is_some(),
        label: one.label.to_string(),
        facts: facts.join(" "),
    }
}
