//! The turns of a call: who said what, and what was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dalsegno_core::{AgentConfig, Digest, LiveNews, OperationId, Outcome, RunId, Timestamp};
use dalsegno_store::{Body, Record};
use serde::Serialize;
use serde_json::Value;

use crate::error::HistoryError;
use crate::fork::{ForkPoint, ReadOutcome};
use crate::journal::Journal;

/// Who speaks in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The caller.
    Caller,
    /// The live model.
    Agent,
}

impl Speaker {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Agent => "agent",
        }
    }
}

/// One turn of a call: what the caller said, or what the live model said and asked for in one response.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Turn {
    /// Its number, from 1. A fork counts on.
    pub number: u64,
    /// When it began.
    pub at: Timestamp,
    /// Whose it is.
    pub by: Speaker,
    /// The words.
    pub text: String,
    /// After how many milliseconds it was cut off, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_off_ms: Option<u64>,
    /// What the live model asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<TurnCall>,
    /// Where it begins.
    #[serde(skip)]
    pub(crate) begins: Place,
}

/// A call of a tool in a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnCall {
    /// The provider's id of it.
    pub call_id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
}

/// A place in the news of a call: so many records, and so many of the news in the one after these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) seq: u64,
    pub(crate) within: u32,
}

/// Finds the turns of a call in its news, one after the other.
#[derive(Debug, Default)]
pub struct Turns {
    found: Vec<Turn>,
    /// Turns before these, of the call that this one is a fork of.
    before: u64,
    /// The response that ended last, with its turn if it had one.
    ended: Option<(String, Option<usize>)>,
    /// Where the response that is under way, or the caller's words, began.
    began: Option<Place>,
    /// The turn of the live model that is not over.
    open: bool,
}

impl Turns {
    /// The turns of a call that has so many before its own records.
    pub fn after(before: u64) -> Self {
        Self { before, ..Self::default() }
    }

    /// Hears the news of a record.
    pub fn hear(&mut self, record: &Record) {
        if let Body::Conversed { news } = &record.body {
            for (within, one) in (0..).zip(news) {
                self.hear_one(record, within, one);
            }
        }
    }

    /// Hears one of the news of a record.
    pub(crate) fn hear_one(&mut self, record: &Record, within: u32, news: &LiveNews) {
        self.news(record.at, Place { seq: record.seq, within }, news);
    }

    fn news(&mut self, at: Timestamp, place: Place, news: &LiveNews) {
        match news {
            LiveNews::SpeechStarted => self.began = Some(place),
            LiveNews::ResponseBegan { .. } => {
                self.began = Some(place);
                self.open = false;
            }
            LiveNews::Heard { text } => {
                let begins = self.began.take().unwrap_or(place);
                self.push(at, Speaker::Caller, begins).text.clone_from(text);
                self.open = false;
            }
            LiveNews::Said { text, heard_ms } => {
                let turn = self.of_agent(at, place);
                turn.text.clone_from(text);
                turn.cut_off_ms = *heard_ms;
            }
            LiveNews::Asked { response, call } => {
                let (call_id, name) = (call.call_id.clone(), call.name.clone());
                let call = TurnCall { call_id, name, arguments: call.arguments.clone() };
                let ended = self.ended.as_ref().filter(|(ended, _)| ended == response);
                // It may come after the end of its response.
                match ended.and_then(|(_, turn)| self.found.get_mut((*turn)?)) {
                    Some(turn) => turn.calls.push(call),
                    None => self.of_agent(at, place).calls.push(call),
                }
            }
            LiveNews::ResponseEnded { response, .. } => {
                let turn = self.found.len().checked_sub(1).filter(|_| self.open);
                self.ended = Some((response.clone(), turn));
                self.open = false;
            }
            LiveNews::Lost { .. } | LiveNews::Ended { .. } => self.open = false,
            _ => {}
        }
    }

    /// The turn of the live model that is under way; a new one if there is none.
    fn of_agent(&mut self, at: Timestamp, place: Place) -> &mut Turn {
        if !self.open || !matches!(self.found.last(), Some(Turn { by: Speaker::Agent, .. })) {
            let begins = self.began.take().unwrap_or(place);
            self.push(at, Speaker::Agent, begins);
            self.open = true;
        }
        let last = self.found.len().saturating_sub(1);
        &mut self.found[last]
    }

    fn push(&mut self, at: Timestamp, by: Speaker, begins: Place) -> &mut Turn {
        let number = self.before + self.found.len() as u64 + 1;
        let turn = Turn { number, at, by, text: String::new(), cut_off_ms: None, calls: Vec::new(), begins };
        self.found.push(turn);
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    /// The turns that were found.
    pub fn found(&self) -> &[Turn] {
        &self.found
    }

    /// The turns that were found.
    pub fn into_found(self) -> Vec<Turn> {
        self.found
    }
}

/// The records of a call up to a place.
pub(crate) fn until(records: &[Record], place: Place) -> Vec<Record> {
    let mut shared: Vec<Record> =
        records.iter().take_while(|record| record.seq < place.seq).cloned().collect();
    shared.extend(part_of(records, place));
    shared
}

/// The part of the record at a place that is before it.
pub(crate) fn part_of(records: &[Record], place: Place) -> Option<Record> {
    let record = records.iter().find(|record| record.seq == place.seq && place.within > 0)?;
    let Body::Conversed { news } = &record.body else { return None };
    let news = news.iter().take(place.within as usize).cloned().collect();
    Some(Record { body: Body::Conversed { news }, ..record.clone() })
}

/// Says whether the records are those of a call.
pub fn is_call(records: &[Record]) -> bool {
    records.first().is_some_and(begins_call)
}

/// Says whether a run whose first record this is is a call.
fn begins_call(first: &Record) -> bool {
    matches!(&first.body, Body::Started(started) if started.request.surface.is_some())
}

/// The call that a call is a fork of, and how much of it is shared.
fn source(records: &[Record]) -> Option<(RunId, Place)> {
    match records.get(1).map(|record| &record.body) {
        Some(Body::Forked { run, seq, within, .. }) => Some((*run, Place { seq: *seq, within: *within })),
        _ => None,
    }
}

/// An effect of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Effect {
    /// The operation.
    pub(crate) operation: OperationId,
    /// How many turns there were when it was asked for.
    pub(crate) turn: u64,
    /// What it is.
    pub(crate) label: String,
    /// The digest of what is asked for.
    pub(crate) digest: Digest,
    /// What came of it.
    pub(crate) outcome: Option<Outcome>,
}

/// All that was said and done in a call, with what it shares with the calls that it is a fork of.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Conversation {
    pub(crate) turns: Vec<Turn>,
    /// In the order in which they were asked for, and so by turn.
    pub(crate) effects: Vec<Effect>,
}

impl Conversation {
    /// What was asked for in a turn; in turn 0, before the first one.
    pub(crate) fn effects_of(&self, turn: u64) -> &[Effect] {
        let from = self.effects.partition_point(|effect| effect.turn < turn);
        let to = self.effects.partition_point(|effect| effect.turn <= turn);
        &self.effects[from..to]
    }

    /// Adds the records of one call.
    fn add(&mut self, records: &[Record]) {
        let before = self.turns.len() as u64;
        let mut turns = Turns::after(before);
        for record in records {
            turns.hear(record);
            match (&record.body, record.operation) {
                (Body::Requested { label, digest, .. }, Some(operation)) => {
                    let turn = before + turns.found().len() as u64;
                    let (label, digest) = (label.clone(), *digest);
                    self.effects.push(Effect { operation, turn, label, digest, outcome: None });
                }
                (Body::Resolved { outcome, .. }, Some(id)) => self.settle(id, outcome),
                (Body::Answered { answer }, Some(id)) => {
                    if let Some(outcome) = answer.outcome() {
                        self.settle(id, &outcome);
                    }
                }
                (Body::Forked { overrides, outcomes, .. }, _) => {
                    for (id, outcome) in overrides.iter().zip(outcomes) {
                        self.settle(*id, outcome);
                    }
                }
                _ => {}
            }
        }
        self.turns.extend(turns.into_found());
    }

    fn settle(&mut self, id: OperationId, outcome: &Outcome) {
        // What is settled was asked for not long ago.
        if let Some(effect) = self.effects.iter_mut().rev().find(|effect| effect.operation == id) {
            effect.outcome = Some(outcome.clone());
        }
    }
}

impl Journal {
    /// All records of a call; none for a run that is no call, of which only the first is read.
    pub(crate) async fn records_of_call(&self, run: RunId) -> Result<Option<Vec<Record>>, HistoryError> {
        if !begins_call(&self.store().first(run).await?) {
            return Ok(None);
        }
        Ok(Some(self.store().read(run, 0).await?))
    }

    /// The turns of a call, with those that it shares with the calls that it is a fork of. None for a run that is no call.
    ///
    /// # Errors
    /// When the run is unknown, or its journal is damaged.
    pub async fn turns(&self, run: RunId) -> Result<Vec<Turn>, HistoryError> {
        Ok(self.conversation(run).await?.map(|conversation| conversation.turns).unwrap_or_default())
    }

    /// The first turn that a fork of a call does not share, by what it shares of that call; none for a fork of another run.
    ///
    /// # Errors
    /// When that call is unknown, or its journal is damaged.
    pub async fn first_own_turn(
        &self,
        of: RunId,
        seq: u64,
        within: u32,
    ) -> Result<Option<u64>, HistoryError> {
        let Some(records) = self.records_of_call(of).await? else { return Ok(None) };
        let all = self.conversation_of(of, records.clone()).await?.turns.len();
        let (mut own, mut shared) = (Turns::default(), Turns::default());
        records.iter().for_each(|record| own.hear(record));
        until(&records, Place { seq, within }).iter().for_each(|record| shared.hear(record));
        Ok(Some((all - own.found().len() + shared.found().len() + 1) as u64))
    }

    /// All that was said and done in a call; nothing for a run that is no call.
    pub(crate) async fn conversation(&self, run: RunId) -> Result<Option<Conversation>, HistoryError> {
        let Some(records) = self.records_of_call(run).await? else { return Ok(None) };
        Ok(Some(self.conversation_of(run, records).await?))
    }

    /// The same of the call that has these records. One that is under way may have more by now.
    async fn conversation_of(
        &self,
        run: RunId,
        mut records: Vec<Record>,
    ) -> Result<Conversation, HistoryError> {
        // The records of the calls before it, the nearest first.
        let mut parts = Vec::new();
        let mut seen = BTreeSet::from([run]);
        while let Some((of, place)) = source(&records) {
            if !seen.insert(of) {
                return Err(HistoryError::Lineage { run });
            }
            parts.push(records);
            records = until(&self.store().read(of, 0).await?, place);
        }
        parts.push(records);
        let mut conversation = Conversation::default();
        parts.iter().rev().for_each(|records| conversation.add(records));
        Ok(conversation)
    }

    /// Finds where a fork of a call parts from it: before turn `at`, or right after the operation whose outcome is replaced.
    pub(crate) async fn fork_point_of_call(
        &self,
        run: RunId,
        config: &Arc<AgentConfig>,
        records: &[Record],
        at: Option<u64>,
        set: Vec<(OperationId, Value)>,
        read: ReadOutcome<'_>,
    ) -> Result<ForkPoint, HistoryError> {
        let failed = |message: String| HistoryError::Fork { run, message };
        let step = self.begin(run, Arc::clone(config), records).await?.state().step() + 2;
        let mut set = set.into_iter();
        if let Some((id, value)) = set.next() {
            if at.is_some() || set.next().is_some() {
                return Err(failed(
                    "a call is forked right after the operation whose outcome is replaced: name one operation, and no turn".to_owned(),
                ));
            }
            let views = self.inspect(run, None).await?.steps;
            let mut operations = views.iter().flat_map(|view| &view.operations);
            let Some(view) = operations.find(|view| view.operation == id) else {
                return Err(failed(format!(
                    "it has no operation {id} of its own: `dalsegno show {run}` lists them"
                )));
            };
            if let Some(tool) = view.parent {
                return Err(failed(format!(
                    "operation {id} is a part of a declarative tool: replace the outcome of the tool, operation {tool}"
                )));
            }
            let settles = |record: &&Record| {
                record.operation == Some(id)
                    && match &record.body {
                        Body::Resolved { .. } => true,
                        Body::Answered { answer } => answer.outcome().is_some(),
                        _ => false,
                    }
            };
            let over = |record: &Record| match &record.body {
                Body::Conversed { news } => news.iter().any(|news| matches!(news, LiveNews::Ended { .. })),
                _ => false,
            };
            let settled = records.iter().find(settles).map(|record| record.seq);
            let ended = records.iter().find(|record| over(record)).map_or(u64::MAX, |record| record.seq);
            let Some(seq) = settled.filter(|seq| *seq < ended) else {
                return Err(failed(format!("operation {id} had no outcome before the call was over")));
            };
            let outcome = read(config, view, value).map_err(|message| {
                failed(format!("the outcome of operation {id} does not fit: {message}"))
            })?;
            let replaced = [(id, outcome)].into();
            return Ok(ForkPoint { run, seq: seq + 1, within: 0, step, replaced });
        }
        let Some(at) = at.filter(|at| *at > 0) else {
            return Err(failed("say before which turn, from 1, or which outcome to replace".to_owned()));
        };
        let turns = self.conversation_of(run, records.to_vec()).await?.turns;
        let mut own = Turns::default();
        records.iter().for_each(|record| own.hear(record));
        let shared = turns.len() - own.found().len();
        let all = turns.len() as u64;
        if at > all {
            return Err(failed(format!("it has {all} turns, so it cannot be forked at turn {at}")));
        }
        if let (Some((of, _)), true) = (source(records), at <= shared as u64) {
            let (config, records) = self.journal_of(of).await?;
            let point = self.fork_point_of_call(of, &config, &records, Some(at), Vec::new(), read);
            return Box::pin(point).await;
        }
        let turn = (at as usize).checked_sub(shared + 1).and_then(|place| own.found().get(place));
        let place = turn.ok_or_else(|| failed(format!("turn {at} is none of its own")))?.begins;
        Ok(ForkPoint { run, seq: place.seq, within: place.within, step, replaced: BTreeMap::new() })
    }
}
