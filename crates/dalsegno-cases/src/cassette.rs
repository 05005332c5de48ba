//! The recorded outcomes of a run, keyed by what was asked.
//!
//! A cassette is a file of JSON lines. The first one says what was recorded, and has the digest of all others: what is edited by hand
//! is noticed. Each of the others is one piece of news for one request: its outcome, a gate, or an answer at a gate. The key
//! is the digest of the request in its canonical form, so a run that asks for something else finds nothing.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use dalsegno_core::{
    AgentAction, AgentConfig, AgentName, AgentRequest, AgentState, Answer, Digest, Event, ExecutionError,
    GateState, News, Operation, OperationId, Request, RunId, Timestamp, digest_json, execute_agent_step,
};
use dalsegno_workspace::CaseTurn;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::asked::Question;
use crate::compare::{differs, shortened};
use crate::heard::Heard;

/// The version of the form.
const VERSION: u32 = 1;

/// The largest cassette.
const BYTES_MAX: u64 = 256 << 20;

/// The recorded outcomes of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Cassette {
    head: Head,
    records: Vec<Record>,
    /// What was said in the run that was just recorded, if it is a call; its file does not have it.
    turns: Result<Vec<CaseTurn>, &'static str>,
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Head {
    version: u32,
    agent: AgentName,
    run: RunId,
    started: Timestamp,
    session: String,
    request: AgentRequest,
    /// That of all further lines.
    digest: Digest,
}

/// Any other line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    at: Timestamp,
    /// How long after it was asked for, or after the question to a person, in a call.
    #[serde(default, skip_serializing_if = "is_zero")]
    took_ms: u64,
    /// The key: the digest of the request.
    key: Digest,
    /// The request in words, for people and for what comes nearest.
    asked: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    arguments: Value,
    #[serde(flatten)]
    said: Said,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// An outcome.
    Outcome(dalsegno_core::Outcome),
    /// A gate at which it waited from then on.
    Gate(dalsegno_core::Gate),
    /// An answer at the gate.
    Answer(Answer),
}

/// Why a cassette cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Read(String),
    /// It is no cassette.
    #[error("line {line} is not one of a cassette: {message}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// It has another form than this release writes.
    #[error("it has version {found}, and this release reads version {VERSION}")]
    Version {
        /// The version.
        found: u64,
    },
    /// It was changed since it was recorded.
    #[error("its lines do not have the digest that its first line says, so it was changed by hand")]
    Changed,
}

impl Cassette {
    /// Reads a cassette.
    ///
    /// # Errors
    /// When there is none, it is of another version, or it was changed.
    pub fn open(path: &Path) -> Result<Self, CassetteError> {
        let mut text = String::new();
        let read = |error: std::io::Error| CassetteError::Read(error.to_string());
        fs::File::open(path).map_err(read)?.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(read)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(CassetteError::Read(format!("it is larger than {} MiB", BYTES_MAX >> 20)));
        }
        Self::parse(&text)
    }

    /// Reads a cassette from its text.
    ///
    /// # Errors
    /// When it is no cassette, it is of another version, or it was changed.
    pub fn parse(text: &str) -> Result<Self, CassetteError> {
        let line =
            |line: usize, error: &serde_json::Error| CassetteError::Line { line, message: error.to_string() };
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let head: Value = serde_json::from_str(first).map_err(|error| line(1, &error))?;
        match head["version"].as_u64() {
            Some(version) if version == u64::from(VERSION) => {}
            Some(found) => return Err(CassetteError::Version { found }),
            None => {
                return Err(CassetteError::Line { line: 1, message: "it has no `version`".to_owned() });
            }
        }
        let head: Head = serde_json::from_value(head).map_err(|error| line(1, &error))?;
        if digest_of(rest) != head.digest {
            return Err(CassetteError::Changed);
        }
        let records = rest
            .lines()
            .enumerate()
            .map(|(number, text)| serde_json::from_str(text).map_err(|error| line(number + 2, &error)));
        Ok(Self { head, records: records.collect::<Result<_, _>>()?, turns: Ok(Vec::new()) })
    }

    /// Records the outcomes of a run that was folded before, from its configuration, its request and its news in their order. The
    /// news must be without secrets, as those of a journal are.
    ///
    /// # Errors
    /// When the news are not those of such a run.
    pub fn record(
        config: &AgentConfig,
        (run, started, session): (RunId, Timestamp, &str),
        request: &AgentRequest,
        news: Vec<Event>,
    ) -> Result<Self, ExecutionError> {
        let mut state = AgentState::start(run, request.clone(), started).in_session(session);
        let mut tape = Tape::default();
        let mut news = news.into_iter().peekable();
        loop {
            let action = execute_agent_step(config, state)?;
            if matches!(action, AgentAction::Complete { .. } | AgentAction::Handoff { .. }) {
                break;
            }
            state = action.into_state();
            tape.look(&state);
            let before = news.len();
            while let Some(event) = news.next_if(|event| !state.is_ready() && concerns(&state, event)) {
                tape.take(config, &mut state, event);
            }
            // A late outcome is no news for anything that waits, and a signal never is.
            if news.len() == before && !state.is_ready() && news.next().is_none() {
                break;
            }
        }
        let head = Head {
            version: VERSION,
            agent: config.name.clone(),
            run,
            started,
            session: session.to_owned(),
            request: request.clone(),
            digest: Digest::default(),
        };
        let mut cassette = Self { head, records: tape.records, turns: tape.heard.finish() };
        cassette.head.digest = digest_of(&cassette.lines());
        Ok(cassette)
    }

    fn lines(&self) -> String {
        let mut text = String::new();
        for record in &self.records {
            let line = serde_json::to_string(record).expect("a record is plain data");
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        let head = serde_json::to_string(&self.head).expect("a head is plain data");
        format!("{head}\n{}", self.lines())
    }

    /// How many pieces of news it has: outcomes, gates, and answers at gates.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Says whether nothing was asked in the run.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The agent whose run it is.
    pub fn agent(&self) -> &AgentName {
        &self.head.agent
    }

    pub(crate) fn started(&self) -> Timestamp {
        self.head.started
    }

    pub(crate) fn run(&self) -> RunId {
        self.head.run
    }

    pub(crate) fn session(&self) -> &str {
        &self.head.session
    }

    pub(crate) fn request(&self) -> &AgentRequest {
        &self.head.request
    }

    /// What the caller and the live model of the recorded call did; nothing where it is no call.
    pub(crate) fn turns(&self) -> Result<&[CaseTurn], &'static str> {
        self.turns.as_deref().map_err(|why| *why)
    }

    pub(crate) fn play(&self) -> Playback<'_> {
        let mut places: BTreeMap<Digest, VecDeque<usize>> = BTreeMap::new();
        for (place, record) in self.records.iter().enumerate() {
            places.entry(record.key).or_default().push_back(place);
        }
        Playback { cassette: self, places, used: vec![false; self.records.len()] }
    }
}

fn digest_of(lines: &str) -> Digest {
    digest_json(&Value::from(lines))
}

/// Says whether an event is news for what a state waits for.
fn concerns(state: &AgentState, event: &Event) -> bool {
    let id = match &event.news {
        News::Outcome { operation, .. }
        | News::Gated { operation, .. }
        | News::Answered { operation, .. } => *operation,
        News::Live(news) => return state.admits(news).is_ok(),
        News::Signalled(_) => return false,
    };
    state.pending().iter().any(|pending| pending.operation.id == id)
}

/// Later than the end of every call: what was let go has no outcome.
const NEVER_MS: u64 = 24 * 60 * 60 * 1_000;

/// What is noted while a run is folded.
#[derive(Default)]
struct Tape {
    records: Vec<Record>,
    heard: Heard,
    /// Since when each operation of a call waits.
    since: BTreeMap<OperationId, Timestamp>,
}

impl Tape {
    /// Looks at what the run waits for.
    fn look(&mut self, state: &AgentState) {
        if state.live().is_none() {
            return;
        }
        self.heard.look(state);
        for pending in state.pending() {
            self.since.entry(pending.operation.id).or_insert_with(|| state.now());
        }
    }

    /// Takes a piece of news, and notes it where a case needs it.
    fn take(&mut self, config: &AgentConfig, state: &mut AgentState, event: Event) {
        let Event { at, news } = event.clone();
        let (id, said) = match news {
            News::Outcome { operation, outcome } => (operation, Said::Outcome(outcome)),
            News::Gated { operation, gate } => (operation, Said::Gate(gate)),
            News::Answered { operation, answer } => (operation, Said::Answer(answer)),
            News::Live(_) => {
                self.heard.hear(state, &event);
                // It was admitted.
                let _ = state.resume(event);
                return;
            }
            News::Signalled(_) => return,
        };
        let Some(pending) = state.pending().iter().find(|pending| pending.operation.id == id) else { return };
        let operation = &pending.operation;
        // What a declarative tool came to and what the core itself asks people follows from the fold.
        let is_computed = match (&said, &operation.gate) {
            (Said::Outcome(_), _) => operation.is_declarative(),
            (Said::Gate(gate), GateState::Waiting(known)) => gate == known,
            _ => false,
        };
        if is_computed {
            return;
        }
        let mut took_ms = match self.since.get_mut(&id) {
            Some(since) => {
                let took_ms = at.as_millis().saturating_sub(since.as_millis());
                *since = at;
                took_ms
            }
            None => 0,
        };
        if pending.outcome.is_some() {
            took_ms = NEVER_MS;
        }
        let question = question(config, state, operation);
        let (key, asked) = (operation.digest, question.to_string());
        let is_timer = matches!(operation.request, Request::Timer(_));
        if state.resume(event).is_ok() && !is_timer {
            self.records.push(Record { at, took_ms, key, asked, arguments: question.arguments, said });
        }
    }
}

/// A request in words, that to a model with what is new to it.
pub(crate) fn question(config: &AgentConfig, state: &AgentState, operation: &Operation) -> Question {
    let mut question = Question::of(&operation.request);
    if let Request::ModelCompletion(completion) = &operation.request
        && let Ok(reading) = state.reading(config, completion)
    {
        question.arguments = crate::render::read(&reading, completion);
    }
    question
}

/// A cassette that is played.
#[derive(Debug)]
pub(crate) struct Playback<'c> {
    cassette: &'c Cassette,
    /// The places of the records that are left, by what they answer.
    places: BTreeMap<Digest, VecDeque<usize>>,
    used: Vec<bool>,
}

impl<'c> Playback<'c> {
    pub(crate) fn cassette(&self) -> &'c Cassette {
        self.cassette
    }

    /// What came of a request: an outcome, or a gate.
    pub(crate) fn news(&mut self, operation: &Operation) -> Option<(Event, u64)> {
        let record = self.next(operation, |said| !matches!(said, Said::Answer(_)))?;
        let event = match &record.said {
            Said::Outcome(outcome) => Event::outcome(record.at, operation.id, outcome.clone()),
            Said::Gate(gate) => Event::gated(record.at, operation.id, gate.clone()),
            Said::Answer(_) => return None,
        };
        Some((event, record.took_ms))
    }

    /// What a person answered.
    pub(crate) fn answer(&mut self, operation: &Operation) -> Option<(Answer, u64)> {
        let record = self.next(operation, |said| matches!(said, Said::Answer(_)))?;
        match &record.said {
            Said::Answer(answer) => Some((answer.clone(), record.took_ms)),
            Said::Outcome(_) | Said::Gate(_) => None,
        }
    }

    /// The first record of a request that is left.
    fn next(&mut self, operation: &Operation, is_meant: impl Fn(&Said) -> bool) -> Option<&'c Record> {
        let records = &self.cassette.records;
        let left = self.places.get_mut(&operation.digest)?;
        let at = left.iter().position(|place| is_meant(&records[*place].said))?;
        let place = left.remove(at)?;
        self.used[place] = true;
        Some(&records[place])
    }

    /// The record that comes nearest to a request, with the first difference.
    pub(crate) fn nearest(&self, question: &Question) -> Option<String> {
        let asked = question.to_string();
        let left = self
            .cassette
            .records
            .iter()
            .zip(&self.used)
            .filter(|(record, used)| !**used && !matches!(record.said, Said::Answer(_)));
        let left: Vec<&Record> = left.map(|(record, _)| record).collect();
        let Some(near) = left.iter().find(|record| record.asked == asked).or_else(|| left.first()) else {
            return Some("all recorded outcomes are used up".to_owned());
        };
        if near.asked != asked {
            return Some(format!("the next recorded request is to {}", shortened(&near.asked)));
        }
        Some(match differs(&question.arguments, &near.arguments) {
            Some(difference) => format!("the recorded request to {asked} differs: {difference}"),
            None => format!(
                "the recorded request to {asked} has the same words, but other settings, tools or earlier messages"
            ),
        })
    }
}
