//! A run's journal under another configuration: which requests would have been others, and whether the run would have
//! taken another course.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use dalsegno_core::Gate;
use dalsegno_core::{
    AgentConfig, AgentRequest, AgentState, Digest, Event, ModelCompletion, ModelReply, Operation,
    OperationId, Outcome, Price, Reading, Request, RunId, Terms, digest_json,
};
use dalsegno_store::{Body, Record};

use crate::compare::{self, Change};
use crate::error::HistoryError;
use crate::fold::{Advance, Divergence, End, FoldError, Machine, Moved, difference, needs_step};
use crate::journal::Journal;

/// A run with all that was recorded of it, to be folded under other configurations. It replays under its own.
#[derive(Debug)]
pub struct RecordedRun {
    run: RunId,
    own: Arc<AgentConfig>,
    records: Vec<Record>,
    origin: AgentState,
}

/// What a run would have been under another configuration, with the outcomes that it had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigReport {
    /// The run.
    #[serde(rename = "run_id")]
    pub run: RunId,
    /// Whether nothing would have been different.
    pub identical: bool,
    /// Steps that were compared.
    pub steps: u64,
    /// Requests at the same place that ask for the same kind of thing in other words.
    pub changed_requests: Vec<ChangedRequest>,
    /// Where the run would have taken another course: another action, another end. Nothing after that is compared.
    pub divergence: Option<Divergence>,
    /// Says all that differs, to the last byte: two reports of one run have the same if and only if the run would differ in
    /// the same way.
    #[serde(skip)]
    pub differences: Digest,
}

impl ConfigReport {
    /// The first step that would be different; `None` where nothing would be.
    pub fn first_step(&self) -> Option<u64> {
        let changed = self.changed_requests.first().map(|request| request.step);
        changed.into_iter().chain(self.divergence.as_ref().map(|divergence| divergence.step)).min()
    }
}

/// A request that is another one under the other configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedRequest {
    /// The step.
    pub step: u64,
    /// The place within the step.
    pub ordinal: Vec<u32>,
    /// What it is, such as `model completion`.
    pub label: String,
    /// What differs: on the left what the run asked for, on the right what it would ask for.
    pub changes: Vec<Change>,
    /// The digest of what it would ask for.
    #[serde(skip)]
    pub digest: Digest,
}

/// A request to a model that is another one under another configuration, with what the model replied at the time.
#[derive(Debug, Clone)]
pub struct ChangedCompletion {
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: u64,
    /// What the model was sent.
    pub was: Sent,
    /// What it would be sent.
    pub now: Sent,
    /// What it replied.
    pub reply: ModelReply,
}

impl ChangedCompletion {
    /// The price of its tokens: that of now, else that of the time when it was recorded.
    pub fn price(&self) -> Option<&Price> {
        self.now.reading.settings.price.as_ref().or(self.was.reading.settings.price.as_ref())
    }
}

/// A request to a model, and all that the model is sent.
#[derive(Debug, Clone)]
pub struct Sent {
    /// The configuration under which it is sent: it has the tools.
    pub config: Arc<AgentConfig>,
    /// The request, which refers to the transcript.
    pub request: Arc<ModelCompletion>,
    /// How it is performed.
    pub terms: Terms,
    /// What the model reads.
    pub reading: Reading,
}

/// What is wanted of a fold beside whether and where the run would differ.
enum Wanted {
    Nothing,
    /// What differs in each request.
    Changes,
    /// The first completion that differs: once it is found, what it was and would be, until its reply comes.
    Completion(Option<Box<Unanswered>>),
    /// Where the two courses part.
    Parting(Option<Box<Parting>>),
}

/// Where a run and what it would be under another configuration part: at the first request that differs, or before.
#[derive(Debug, Clone)]
pub struct Parting {
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: u64,
    /// The run as it was.
    pub was: Branch,
    /// What it would be.
    pub now: Branch,
}

/// A run that stands before the outcomes of a step.
#[derive(Debug, Clone)]
pub struct Branch {
    /// The configuration under which it continues.
    pub config: Arc<AgentConfig>,
    /// Its state.
    pub state: AgentState,
    /// How it is over, where it is.
    pub end: Option<End>,
}

/// What was asked in a run, and one piece of news about it.
#[derive(Debug, Clone)]
pub struct Answered {
    /// What was asked, as it stood then.
    pub operation: Operation,
    /// What came of it.
    pub event: Event,
}

/// A completion that differs, before its reply.
struct Unanswered {
    place: Vec<u32>,
    step: u64,
    was: Sent,
    now: Sent,
}

/// One course of the two that are compared.
struct Course {
    config: Arc<AgentConfig>,
    machine: Machine,
    /// The operations of the current step, by their place.
    asked: BTreeMap<Vec<u32>, Operation>,
    /// The places of those that came last.
    new: Vec<Vec<u32>>,
    /// Records of the last step that are still to come.
    awaited: usize,
    /// How it is over, where it is.
    end: Option<End>,
}

impl Course {
    fn new(config: Arc<AgentConfig>, origin: AgentState) -> Self {
        Self {
            machine: Machine::new(Arc::clone(&config), origin),
            config,
            asked: BTreeMap::new(),
            new: Vec::new(),
            awaited: 0,
            end: None,
        }
    }

    fn advance(&mut self, run: RunId) -> Result<Option<End>, FoldError> {
        self.new.clear();
        match self.machine.advance().map_err(|source| FoldError::Execution { run, source })? {
            Advance::Asked(operations) => {
                self.asked.clear();
                self.ask(operations);
                Ok(None)
            }
            Advance::Moved(Moved { asked, concluded }) => {
                self.ask(asked);
                self.awaited += concluded.len();
                Ok(None)
            }
            Advance::Ended(end) => {
                self.end = Some(end.clone());
                Ok(Some(end))
            }
        }
    }

    fn branch(&self) -> Branch {
        let (config, state) = (Arc::clone(&self.config), self.machine.state().clone());
        Branch { config, state, end: self.end.clone() }
    }

    fn ask(&mut self, operations: Vec<Operation>) {
        self.awaited = operations.len();
        self.new = operations.iter().map(|operation| operation.ordinal.clone()).collect();
        self.asked.extend(operations.into_iter().map(|operation| (operation.ordinal.clone(), operation)));
    }

    /// Says all that makes this course another one than the run's own.
    fn differences(&self, report: &ConfigReport) -> Digest {
        let changed: Vec<Value> = report
            .changed_requests
            .iter()
            .map(|request| json!([request.step, request.ordinal, request.digest]))
            .collect();
        let parted = report.divergence.as_ref().map(|divergence| {
            let asked: Vec<_> = self.asked.values().map(|one| (&one.ordinal, one.digest)).collect();
            let end = match &self.end {
                Some(End::Response(response)) => json!(response),
                Some(End::Handoff(handoff)) => json!(handoff),
                None => Value::Null,
            };
            json!([divergence.step, divergence.seq, divergence.got, asked, end])
        });
        digest_json(&json!([changed, parted]))
    }

    fn reading(&self, operation: &Operation) -> Option<Reading> {
        self.sent(operation).map(|sent| sent.reading)
    }

    /// What a model is sent, where the operation asks one.
    fn sent(&self, operation: &Operation) -> Option<Sent> {
        let Request::ModelCompletion(completion) = &operation.request else { return None };
        let reading = self.machine.state().reading(&self.config, completion).ok()?;
        let (config, request) = (Arc::clone(&self.config), Arc::clone(completion));
        Some(Sent { config, request, terms: operation.terms, reading })
    }
}

impl Journal {
    /// Replays a run under another configuration. Outcomes are matched by step and place; nothing is performed.
    ///
    /// # Errors
    /// When the run is unknown, its journal is damaged, or it does not replay under its own configuration.
    pub async fn replay_with(&self, run: RunId, config: AgentConfig) -> Result<ConfigReport, HistoryError> {
        self.recorded(run).await?.under(Arc::new(config), None)
    }

    /// Reads a run, to fold it under other configurations.
    ///
    /// # Errors
    /// When the run is unknown, its journal is damaged, or it does not replay under its own configuration: such a journal says
    /// nothing about another one.
    pub async fn recorded(&self, run: RunId) -> Result<RecordedRun, HistoryError> {
        let (own, records) = self.journal_of(run).await?;
        self.fold_all(run, Arc::clone(&own), &records).await?;
        let origin = self.origin(run, &records).await?;
        Ok(RecordedRun { run, own, records, origin })
    }
}

impl RecordedRun {
    /// The configuration that the run began with.
    pub const fn config(&self) -> &Arc<AgentConfig> {
        &self.own
    }

    /// The digest of this configuration, as it was recorded.
    pub fn digest(&self) -> Option<Digest> {
        match &self.records.first()?.body {
            Body::Started(started) => Some(started.config),
            _ => None,
        }
    }

    /// What the run was asked.
    pub fn request(&self) -> &AgentRequest {
        self.origin.request()
    }

    /// Folds the run under another configuration, with other settings of its tenant where there are some. Outcomes are matched by
    /// step and place; nothing is performed.
    ///
    /// # Errors
    /// When the core cannot execute one of the two configurations.
    pub fn under(
        &self,
        config: Arc<AgentConfig>,
        tenant_settings: Option<&Value>,
    ) -> Result<ConfigReport, HistoryError> {
        self.fold(config, tenant_settings, &mut Wanted::Changes).map(|(report, _)| report)
    }

    /// The same without [`ChangedRequest::changes`], which cost more than all the rest: whether and where the run would differ, and
    /// [`ConfigReport::differences`].
    ///
    /// # Errors
    /// When the core cannot execute one of the two configurations.
    pub fn outline_under(
        &self,
        config: Arc<AgentConfig>,
        tenant_settings: Option<&Value>,
    ) -> Result<ConfigReport, HistoryError> {
        self.fold(config, tenant_settings, &mut Wanted::Nothing).map(|(report, _)| report)
    }

    /// The first request to a model that would be another one under another configuration, of those that were replied to.
    ///
    /// # Errors
    /// When the core cannot execute one of the two configurations.
    pub fn changed_completion(
        &self,
        config: Arc<AgentConfig>,
        tenant_settings: Option<&Value>,
    ) -> Result<Option<ChangedCompletion>, HistoryError> {
        self.fold(config, tenant_settings, &mut Wanted::Completion(None)).map(|(_, found)| found)
    }

    /// Where the run and what it would be under another configuration part; `None` where they do not.
    ///
    /// # Errors
    /// When the core cannot execute one of the two configurations.
    pub fn parting(
        &self,
        config: Arc<AgentConfig>,
        tenant_settings: Option<&Value>,
    ) -> Result<Option<Parting>, HistoryError> {
        let mut wanted = Wanted::Parting(None);
        self.fold(config, tenant_settings, &mut wanted)?;
        Ok(match wanted {
            Wanted::Parting(found) => found.map(|found| *found),
            Wanted::Nothing | Wanted::Changes | Wanted::Completion(_) => None,
        })
    }

    /// All that was asked in the run and came of it, in the order of the journal.
    ///
    /// # Errors
    /// When the core cannot execute the configuration of the run.
    pub fn answered(&self) -> Result<Vec<Answered>, HistoryError> {
        let Self { run, own, records, origin } = self;
        let mut course = Course::new(Arc::clone(own), origin.clone());
        let mut place_of: BTreeMap<OperationId, Vec<u32>> = BTreeMap::new();
        let mut found = Vec::new();
        for record in &records[1..] {
            let state = course.machine.state();
            let stepped = needs_step(record, state);
            if stepped && course.awaited == 0 && state.is_ready() && !state.is_over() {
                course.advance(*run)?;
                place_of = course.asked.values().map(|one| (one.id, one.ordinal.clone())).collect();
            }
            course.awaited = course.awaited.saturating_sub(usize::from(stepped));
            if stepped && matches!(record.body, Body::Resolved { .. }) {
                continue;
            }
            let Some((place, event)) = event_of(record, &place_of) else { continue };
            let operation = place.as_ref().and_then(|place| course.asked.get(place));
            let event = event.under(operation.map(|operation| operation.id));
            found.extend(operation.cloned().map(|operation| Answered { operation, event: event.clone() }));
            course.machine.resume(event).map_err(|error| FoldError::Diverged {
                run: *run,
                divergence: Divergence {
                    step: course.machine.state().step(),
                    seq: record.seq,
                    expected: format!("`{}`", record.body.kind()),
                    got: format!("refuses it: {error}"),
                },
            })?;
        }
        Ok(found)
    }

    fn fold(
        &self,
        config: Arc<AgentConfig>,
        tenant_settings: Option<&Value>,
        wanted: &mut Wanted,
    ) -> Result<(ConfigReport, Option<ChangedCompletion>), HistoryError> {
        let Self { run, own, records, origin } = self;
        let run = *run;
        let mut was = Course::new(Arc::clone(own), origin.clone());
        let origin = tenant_settings
            .map_or_else(|| origin.clone(), |settings| origin.clone().with_tenant_settings(settings.clone()));
        let mut now = Course::new(config, origin);
        let mut report = ConfigReport {
            run,
            identical: true,
            steps: 0,
            changed_requests: Vec::new(),
            divergence: None,
            differences: digest_json(&json!([[], null])),
        };
        let mut place_of: BTreeMap<OperationId, Vec<u32>> = BTreeMap::new();
        for record in &records[1..] {
            let stepped = needs_step(record, was.machine.state());
            let state = was.machine.state();
            if stepped && was.awaited == 0 && state.is_ready() && !state.is_over() {
                let divergence = both(record, &mut was, &mut now, &mut report, wanted)?;
                let has_parted = divergence.is_some() || !report.changed_requests.is_empty();
                if let Wanted::Parting(found) = wanted
                    && has_parted
                {
                    *found = Some(parting(run, &was, &now).into());
                    return Ok((report, None));
                }
                if let Some(divergence) = divergence {
                    report.divergence = Some(divergence);
                    break;
                }
                place_of = was.asked.values().map(|one| (one.id, one.ordinal.clone())).collect();
            }
            was.awaited = was.awaited.saturating_sub(usize::from(stepped));
            if stepped && matches!(record.body, Body::Resolved { .. }) {
                // What a declarative tool came to, which both courses have found by themselves.
                continue;
            }
            let Some((place, event)) = event_of(record, &place_of) else { continue };
            if let Wanted::Completion(found) = wanted
                && let Some(found) = found.take_if(|found| Some(&found.place) == place.as_ref())
                && let Body::Resolved { outcome: Outcome::ModelReplied(reply), .. } = &record.body
            {
                let Unanswered { place: _, step, was, now } = *found;
                return Ok((report, Some(ChangedCompletion { run, step, was, now, reply: reply.clone() })));
            }
            let step = was.machine.state().step();
            let refused = |error: dalsegno_core::ResumeError| Divergence {
                step,
                seq: record.seq,
                expected: format!("`{}`", record.body.kind()),
                got: format!("refuses it: {error}"),
            };
            let under = |course: &Course| {
                let operation = place.as_ref().and_then(|place| course.asked.get(place));
                event.under(operation.map(|operation| operation.id))
            };
            let (event_was, event_now) = (under(&was), under(&now));
            if let Err(error) = now.machine.resume(event_now) {
                if let Wanted::Parting(found) = wanted {
                    *found = Some(parting(run, &was, &now).into());
                }
                report.divergence = Some(refused(error));
                break;
            }
            let resumed = was.machine.resume(event_was);
            resumed.map_err(|error| FoldError::Diverged { run, divergence: refused(error) })?;
        }
        report.identical = report.changed_requests.is_empty() && report.divergence.is_none();
        report.differences = now.differences(&report);
        Ok((report, None))
    }
}

fn parting(run: RunId, was: &Course, now: &Course) -> Parting {
    Parting { run, step: was.machine.state().step(), was: was.branch(), now: now.branch() }
}

/// Steps both courses, and says where they part.
fn both(
    record: &Record,
    was: &mut Course,
    now: &mut Course,
    report: &mut ConfigReport,
    wanted: &mut Wanted,
) -> Result<Option<Divergence>, HistoryError> {
    let run = report.run;
    let (left, right) = (was.advance(run)?, now.advance(run)?);
    let step = was.machine.state().step();
    report.steps = step;
    let parts = |expected: String, got: String| Some(Divergence { step, seq: record.seq, expected, got });
    match (left, right) {
        (Some(left), Some(right)) if left == right => return Ok(None),
        (Some(left), Some(right)) => {
            let (expected, got) = ends(&left, &right);
            return Ok(parts(expected, got));
        }
        (Some(_), None) => return Ok(parts("the end".to_owned(), format!("asks for {}", labels(now)))),
        (None, Some(right)) => {
            return Ok(parts(format!("a request, {}", labels(was)), in_words(&right)));
        }
        (None, None) => {}
    }
    let same_course = was.asked.len() == now.asked.len()
        && was.asked.iter().all(|(place, left)| {
            now.asked.get(place).is_some_and(|right| {
                left.request.label() == right.request.label()
                    && std::mem::discriminant(&left.gate) == std::mem::discriminant(&right.gate)
            })
        });
    if !same_course {
        return Ok(parts(format!("a request, {}", labels(was)), format!("asks for {}", labels(now))));
    }
    for place in &was.new {
        let (left, right) = (&was.asked[place], &now.asked[place]);
        if left.digest == right.digest {
            continue;
        }
        let changes = match wanted {
            Wanted::Changes => {
                let readings = (was.reading(left), now.reading(right));
                compare::requests(left, right, readings.0.as_ref(), readings.1.as_ref())
            }
            Wanted::Completion(found @ None) => {
                let sent = was.sent(left).zip(now.sent(right));
                *found = sent.map(|(was, now)| Unanswered { place: place.clone(), step, was, now }.into());
                Vec::new()
            }
            Wanted::Completion(Some(_)) | Wanted::Nothing | Wanted::Parting(_) => Vec::new(),
        };
        report.changed_requests.push(ChangedRequest {
            step,
            ordinal: place.clone(),
            label: left.request.label(),
            changes,
            digest: right.digest,
        });
    }
    Ok(None)
}

fn labels(course: &Course) -> String {
    let labels = course.asked.values().map(|operation| match &operation.gate {
        dalsegno_core::GateState::Waiting(_) => format!("{} after an answer", operation.request.label()),
        _ => operation.request.label(),
    });
    labels.collect::<Vec<_>>().join(", ")
}

fn in_words(end: &End) -> String {
    match end {
        End::Response(response) => match &response.error {
            Some(error) => format!("ends with {}: {}", error.code.as_str(), error.message),
            None => "ends with an answer".to_owned(),
        },
        End::Handoff(handoff) => format!("hands over to `{}`", handoff.target),
    }
}

fn ends(left: &End, right: &End) -> (String, String) {
    match (left, right) {
        (End::Response(left), End::Response(right)) => {
            let (expected, got) = difference(left, right);
            (format!("the end {expected}"), format!("ends {got}"))
        }
        (left, right) => (in_words(left), in_words(right)),
    }
}

/// An event whose operation has another id in each course.
enum Recorded {
    Event(Event),
    Outcome(dalsegno_core::Timestamp, Outcome),
    Gate(dalsegno_core::Timestamp, Gate),
    Answer(dalsegno_core::Timestamp, dalsegno_core::Answer),
}

impl Recorded {
    fn under(&self, id: Option<OperationId>) -> Event {
        // No operation has this id: the state refuses it, which is the difference.
        let id = id.unwrap_or(OperationId::from_bytes([0; 16]));
        match self {
            Self::Event(event) => event.clone(),
            Self::Outcome(at, outcome) => Event::outcome(*at, id, outcome.clone()),
            Self::Gate(at, gate) => Event::gated(*at, id, gate.clone()),
            Self::Answer(at, answer) => Event::answer(*at, id, answer.clone()),
        }
    }
}

/// What a record brings, and the place of the operation that it is about.
fn event_of(
    record: &Record,
    place_of: &BTreeMap<OperationId, Vec<u32>>,
) -> Option<(Option<Vec<u32>>, Recorded)> {
    let at = record.at;
    let recorded = match &record.body {
        Body::Resolved { outcome, .. } => Recorded::Outcome(at, outcome.clone()),
        Body::Answered { answer } => Recorded::Answer(at, answer.clone()),
        Body::Waiting {
            gate: gate @ (Gate::InDoubt { .. } | Gate::Secret { .. } | Gate::Elicitation { .. }),
        } => Recorded::Gate(at, gate.clone()),
        Body::Signalled { signal, .. } => return Some((None, Recorded::Event(Event::signal(at, *signal)))),
        _ => return None,
    };
    Some((Some(place_of.get(&record.operation?)?.clone()), recorded))
}
