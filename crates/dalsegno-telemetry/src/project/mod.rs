//! A journal as spans: a pure function of its records, taken one by one.

mod asked;
mod open;
mod outcome;
mod talk;

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentName, AgentResponse, OperationId, Request, RunId, Signal, Timestamp};
use dalsegno_store::{Body, NewRecord, Record, RecordKind, Start, Started};

use self::asked::{Asked, Asking};
use self::open::{Ending, Open};
use self::talk::{Moment, Talk};
use crate::content::Content;
use crate::ids::{SpanId, TraceId};
use crate::semconv as name;
use crate::span::{Kind, Link, RunFacts, Span, SpanEvent, Status, Subject, Value};

/// One record of a journal, with what is known of it.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    seq: u64,
    at: Timestamp,
    operation: Option<OperationId>,
    parent: Option<OperationId>,
    body: &'a Body,
    request: Option<&'a Request>,
}

impl<'a> Entry<'a> {
    /// A record that was appended, with the sequence number that the store gave it.
    pub fn new(seq: u64, record: &'a NewRecord) -> Self {
        Self {
            seq,
            at: record.at,
            operation: record.operation,
            parent: record.parent,
            body: &record.body,
            request: None,
        }
    }

    /// With a `requested` record: what was asked for, which the journal does not hold since it follows from a fold.
    ///
    /// Without it a span has neither arguments nor, where an agent has more than one model, the model's name. Both ways
    /// give the same ids.
    #[must_use]
    pub fn with_request(self, request: Option<&'a Request>) -> Self {
        Self { request, ..self }
    }
}

impl<'a> From<&'a Record> for Entry<'a> {
    fn from(record: &'a Record) -> Self {
        Self {
            seq: record.seq,
            at: record.at,
            operation: record.operation,
            parent: record.parent,
            body: &record.body,
            request: None,
        }
    }
}

/// How journals become spans.
#[derive(Debug, Clone, Default)]
pub struct ProjectorOptions {
    /// Whether spans carry what people and models said.
    pub content: Content,
    /// What the workspace's models are, by their names in the workspace. A model that is not here is shown by that
    /// name, without a provider.
    pub models: BTreeMap<String, ModelInfo>,
}

/// What a workspace's model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// Who serves it, in the words of the conventions where they have one, such as `openai` or `anthropic`.
    pub provider: String,
    /// The provider's name of it.
    pub model: String,
}

/// Most events of one span: a run that is suspended and resumed for a year stays small.
const MAX_EVENTS: usize = 128;

/// Most operations whose late outcomes are still told apart by kind.
const MAX_GIVEN_UP: usize = 1024;

/// Turns the records of one run into spans, in order, as they are committed or as they are read.
///
/// Feed every record from the first on. What was fed before is skipped by its sequence number; what is missing is
/// survived: spans whose beginning was not seen do not appear. The state is bounded by the operations of one step.
#[derive(Debug)]
pub struct Projector {
    run: RunId,
    root: Option<RunId>,
    options: Arc<ProjectorOptions>,
    config: Option<Arc<AgentConfig>>,
    next: u64,
    state: Option<State>,
}

/// What is known since the `started` record.
#[derive(Debug)]
struct State {
    shared: Shared,
    span: Span,
    step: Option<OpenStep>,
    /// The turns of the call that the run is, if it is one.
    talk: Talk,
    /// How many steps there were.
    steps: u64,
    /// The last of the agent's models that was asked.
    fallback: u32,
    suspended: bool,
    ended: bool,
    /// Operations that were given up, for their late outcomes.
    given_up: BTreeMap<OperationId, (Timestamp, Asked)>,
}

/// What all spans of a run share.
#[derive(Debug)]
struct Shared {
    run: RunId,
    trace: TraceId,
    agent: AgentName,
    session: String,
    options: Arc<ProjectorOptions>,
    config: Option<Arc<AgentConfig>>,
}

/// The step that is under way, or whose successor has not come yet.
#[derive(Debug)]
struct OpenStep {
    number: u64,
    start: Timestamp,
    /// The end of the last of its operations.
    end: Timestamp,
    operations: u64,
    open: BTreeMap<OperationId, Open>,
}

impl Projector {
    /// A projector for a run, of which it has seen nothing yet.
    ///
    /// The configuration is the one that the run is pinned to; without it no model has a name and no reply a cost.
    pub fn new(run: RunId, options: Arc<ProjectorOptions>, config: Option<Arc<AgentConfig>>) -> Self {
        Self { run, root: None, options, config, next: 0, state: None }
    }

    /// Says which root run is above the run, so that it is in that one's trace.
    ///
    /// A root run and its direct children need not be told. A run that is deeper and is not told gets a trace of its
    /// own, which names the run and the operation above it.
    #[must_use]
    pub fn below(self, root: RunId) -> Self {
        Self { root: Some(root), ..self }
    }

    /// The root run that gives the trace its id, once the run's first record was seen.
    pub fn root(&self) -> Option<RunId> {
        self.root
    }

    /// The agent, once the run's first record was seen.
    pub fn agent(&self) -> Option<&AgentName> {
        self.state.as_ref().map(|state| &state.shared.agent)
    }

    /// Whether the run has ended. Only late outcomes come after that.
    pub fn has_ended(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.ended)
    }

    /// The sequence number of the record that is expected next.
    pub fn next_seq(&self) -> u64 {
        self.next
    }

    /// Takes the next record, and gives the spans that end with it: those below before those above.
    pub fn observe(&mut self, entry: Entry<'_>) -> Vec<Span> {
        if entry.seq < self.next {
            return Vec::new();
        }
        self.next = entry.seq.saturating_add(1);
        if let Body::Started(started) = entry.body {
            if entry.seq == 0 {
                self.begin(entry.at, started);
            }
            return Vec::new();
        }
        match &mut self.state {
            Some(state) => state.observe(entry),
            None => Vec::new(),
        }
    }

    fn begin(&mut self, at: Timestamp, started: &Started) {
        let run = self.run;
        let (root, parent) = match (started.parent, self.root) {
            (None, _) => (run, None),
            (Some(parent), Some(root)) => (root, Some(parent)),
            (Some(parent), None) if started.depth == 1 => (parent.run, Some(parent)),
            (Some(_), None) => (run, None),
        };
        self.root = Some(root);
        let trace = TraceId::of(root);
        let shared = Shared {
            run,
            trace,
            agent: started.agent.clone(),
            session: started.session.clone(),
            options: self.options.clone(),
            config: self.config.clone(),
        };
        let mut attributes = vec![
            (name::GEN_AI_OPERATION_NAME, name::INVOKE_AGENT.into()),
            (name::GEN_AI_AGENT_NAME, started.agent.as_str().into()),
            (name::GEN_AI_CONVERSATION_ID, started.session.as_str().into()),
            (name::DALSEGNO_RUN, run.to_string().into()),
            (name::DALSEGNO_TENANT, started.request.tenant.as_str().into()),
            (name::DALSEGNO_CONFIG, started.config.to_string().into()),
            (name::DALSEGNO_DEPTH, started.depth.into()),
        ];
        if let Some(config) = &shared.config {
            attributes.push((name::GEN_AI_AGENT_VERSION, config.version.as_str().into()));
        }
        if let Some(above) = started.parent {
            attributes.push((name::DALSEGNO_PARENT_RUN, above.run.to_string().into()));
            attributes.push((name::DALSEGNO_PARENT_OPERATION, above.operation.to_string().into()));
        }
        if let Some(text) = self.options.content.message("user", &started.request.text, None) {
            attributes.push((name::GEN_AI_INPUT_MESSAGES, text.into()));
        }
        // A predecessor has the same run above it, or none as well.
        let link = started.predecessor.map(|before| Link {
            trace: if parent.is_some() { trace } else { TraceId::of(before) },
            span: SpanId::of_run(before),
            attributes: vec![(name::DALSEGNO_OTHER_RUN, before.to_string().into())],
        });
        let span = Span {
            trace,
            id: SpanId::of_run(run),
            parent: parent.map(|parent| SpanId::of_operation(parent.run, parent.operation)),
            name: format!("{} {}", name::INVOKE_AGENT, started.agent),
            kind: Kind::Internal,
            start: at,
            end: at,
            attributes,
            events: Vec::new(),
            dropped_events: 0,
            links: link.into_iter().collect(),
            status: Status::Unset,
            subject: Subject::Run(RunFacts {
                run,
                agent: started.agent.clone(),
                status: RecordKind::Completed.as_str(),
                code: None,
            }),
        };
        self.state = Some(State {
            shared,
            span,
            step: None,
            talk: Talk::default(),
            steps: 0,
            fallback: 0,
            suspended: false,
            ended: false,
            given_up: BTreeMap::new(),
        });
    }
}

impl State {
    fn observe(&mut self, entry: Entry<'_>) -> Vec<Span> {
        let mut spans = Vec::new();
        let Entry { seq, at, body, .. } = entry;
        if self.ended {
            if let Body::Late { .. } = body {
                self.late(entry, &mut spans);
            }
            return spans;
        }
        if self.suspended && !matches!(body, Body::Late { .. } | Body::Suspended { .. } | Body::Paused { .. })
        {
            self.suspended = false;
            self.event(at, name::EVENT_RESUMED, Vec::new());
        }
        match body {
            // The first one is taken by `begin`; there is no other.
            Body::Started(_) => {}
            Body::Requested { .. } => self.requested(entry, &mut spans),
            Body::Attempted { attempt, cause, start, .. } => {
                if let Some((open, shared)) = self.open(entry) {
                    spans.extend(open.attempted(shared, seq, at, *attempt, *cause, *start));
                }
            }
            Body::Waiting { gate } => {
                if let Some((open, shared)) = self.open(entry) {
                    open.waiting(shared, at, gate);
                }
            }
            Body::Denied { server, denials } => {
                if let Some((open, shared)) = self.open(entry) {
                    open.denied(shared, at, server, denials);
                }
            }
            Body::Tasked { attempt, server, .. } => {
                if let Some((open, _)) = self.open(entry) {
                    open.tasked(at, *attempt, server);
                }
            }
            // The answer that follows closes the wait; what the tool said is in the journal.
            Body::Verified { .. } => {}
            Body::Answered { answer } => {
                let outcome = answer.outcome();
                if let Some((open, shared)) = self.open(entry) {
                    open.answered(shared, at, answer);
                }
                if let Some(outcome) = outcome {
                    self.close(entry, &Ending::Answered(outcome), &mut spans);
                }
            }
            Body::Resolved { outcome, attempts, elapsed_ms } => {
                let ending = Ending::Resolved { outcome, attempts: *attempts, active_ms: *elapsed_ms };
                self.close(entry, &ending, &mut spans);
            }
            Body::Late { .. } => self.late(entry, &mut spans),
            Body::Signalled { signal, by, reason } => {
                let signal = match signal {
                    Signal::Cancel => "cancel",
                    Signal::Deadline => "deadline",
                };
                let mut attributes = vec![(name::DALSEGNO_SIGNAL, signal.into())];
                attributes.extend(self.shared.said(name::DALSEGNO_BY, by.as_deref()));
                attributes.extend(self.shared.said(name::DALSEGNO_REASON, reason.as_deref()));
                self.event(at, name::EVENT_SIGNAL, attributes);
            }
            Body::Forked { run, seq, step, .. } => {
                let attributes = vec![
                    (name::DALSEGNO_OTHER_RUN, run.to_string().into()),
                    (name::DALSEGNO_SEQ, (*seq).into()),
                    (name::DALSEGNO_STEP, (*step).into()),
                ];
                self.event(at, name::EVENT_FORKED, attributes);
            }
            Body::Adopted { run, seq, step, .. } => {
                let attributes = vec![
                    (name::DALSEGNO_OTHER_RUN, run.to_string().into()),
                    (name::DALSEGNO_SEQ, (*seq).into()),
                    (name::DALSEGNO_STEP, (*step).into()),
                ];
                self.event(at, name::EVENT_ADOPTED, attributes);
            }
            // It says what the run may use, and nothing that happened to it.
            Body::Narrowed { .. } | Body::Inherited(_) => {}
            Body::Conversed { news } => {
                for (place, news) in (0..).zip(news) {
                    let happened =
                        self.talk.observe(&self.shared, Moment { seq, place, at }, news, &mut spans);
                    if let Some(SpanEvent { at, name, attributes }) = happened {
                        self.event(at, name, attributes);
                    }
                }
            }
            Body::Rebound { server, digest } => {
                let attributes = vec![
                    (name::DALSEGNO_SERVER, server.as_str().into()),
                    (name::DALSEGNO_DIGEST, digest.as_str().into()),
                ];
                self.event(at, name::EVENT_REBOUND, attributes);
            }
            Body::Suspended { waiting_for, wake_at } => {
                self.suspended = true;
                let mut kinds: Vec<String> = waiting_for.iter().map(|one| one.kind.clone()).collect();
                kinds.sort();
                kinds.dedup();
                let mut attributes = vec![(name::DALSEGNO_WAITING_FOR, Value::Texts(kinds))];
                attributes.extend(wake_at.map(|at| (name::DALSEGNO_WAKE_AT, at.as_millis().into())));
                self.event(at, name::EVENT_SUSPENDED, attributes);
            }
            Body::Paused { by, reason, .. } => {
                self.suspended = true;
                let said = [(name::DALSEGNO_BY, by), (name::DALSEGNO_REASON, reason)];
                let said =
                    said.into_iter().filter_map(|(name, text)| self.shared.said(name, text.as_deref()));
                let attributes = said.collect();
                self.event(at, name::EVENT_PAUSED, attributes);
            }
            // That the run was resumed is an event already.
            Body::Continued { .. } => {}
            Body::Completed { response } | Body::Failed { response } | Body::Cancelled { response } => {
                self.end(at, body.kind(), Some(response), &mut spans);
            }
            Body::Abandoned { reason, .. } => {
                self.end(at, body.kind(), Some(&AgentResponse::abandoned(reason)), &mut spans);
            }
            Body::HandedOff { target, run, response, .. } => {
                let attributes = vec![
                    (name::DALSEGNO_OTHER_RUN, run.to_string().into()),
                    (name::GEN_AI_AGENT_NAME, target.as_str().into()),
                ];
                self.event(at, name::EVENT_HANDED_OFF, attributes);
                self.end(at, body.kind(), response.as_ref(), &mut spans);
            }
        }
        spans
    }

    fn requested(&mut self, entry: Entry<'_>, spans: &mut Vec<Span>) {
        let (Some(operation), Body::Requested { step, label, class, start, .. }) =
            (entry.operation, entry.body)
        else {
            return;
        };
        if self.step.as_ref().is_some_and(|open| open.number != *step) {
            self.leave_step(entry.at, spans);
        }
        let (parent, request) = (entry.parent, entry.request);
        let asking = Asking { operation, parent, step: *step, label, class: *class, request };
        let asked = Asked::new(&self.shared, asking);
        if let Some(fallback) = asked.fallback
            && fallback != self.fallback
        {
            self.fallback = fallback;
            let mut attributes = vec![(name::DALSEGNO_FALLBACK, fallback.into())];
            attributes.extend(asked.model.clone().map(|model| (name::GEN_AI_REQUEST_MODEL, model.into())));
            self.event(entry.at, name::EVENT_FALLBACK, attributes);
        }
        let at = entry.at;
        let now = *start == Start::Now;
        let step = self.step.get_or_insert_with(|| OpenStep {
            number: *step,
            start: at,
            end: at,
            operations: 0,
            open: BTreeMap::new(),
        });
        step.operations += 1;
        step.open.insert(operation, Open::new(asked, entry.seq, at, now));
    }

    /// The operation that a record is about, while it is open.
    fn open(&mut self, entry: Entry<'_>) -> Option<(&mut Open, &Shared)> {
        let open = self.step.as_mut()?.open.get_mut(&entry.operation?)?;
        Some((open, &self.shared))
    }

    /// Ends the operation that a record is about.
    fn close(&mut self, entry: Entry<'_>, ending: &Ending<'_>, spans: &mut Vec<Span>) {
        let Some(step) = &mut self.step else { return };
        let Some(open) = entry.operation.and_then(|operation| step.open.remove(&operation)) else { return };
        step.end = step.end.max(entry.at);
        open.finish(&self.shared, entry.at, ending, spans);
    }

    /// Ends the step, and gives up what it still waits for.
    fn leave_step(&mut self, at: Timestamp, spans: &mut Vec<Span>) {
        let Some(mut step) = self.step.take() else { return };
        self.steps += 1;
        for (operation, open) in std::mem::take(&mut step.open) {
            step.end = step.end.max(at);
            if self.given_up.len() < MAX_GIVEN_UP {
                self.given_up.insert(operation, (at, open.asked.clone()));
            }
            open.finish(&self.shared, at, &Ending::Abandoned, spans);
        }
        spans.push(Span {
            trace: self.shared.trace,
            id: SpanId::of_step(self.shared.run, step.number),
            parent: Some(self.span.id),
            name: format!("step {}", step.number),
            kind: Kind::Internal,
            start: step.start,
            end: step.end,
            attributes: vec![
                (name::DALSEGNO_STEP, step.number.into()),
                (name::DALSEGNO_RUN, self.shared.run.to_string().into()),
            ],
            events: Vec::new(),
            dropped_events: 0,
            links: Vec::new(),
            status: Status::Unset,
            subject: Subject::Step { run: self.shared.run, step: step.number },
        });
    }

    fn late(&mut self, entry: Entry<'_>, spans: &mut Vec<Span>) {
        let (Some(operation), Body::Late { outcome, .. }) = (entry.operation, entry.body) else { return };
        let unknown = || (if self.ended { self.span.end } else { entry.at }, Asked::unknown(operation));
        let (since, asked) = self.given_up.remove(&operation).unwrap_or_else(unknown);
        spans.push(asked.late(&self.shared, entry.seq, since, entry.at, outcome));
    }

    fn end(
        &mut self,
        at: Timestamp,
        kind: RecordKind,
        response: Option<&AgentResponse>,
        spans: &mut Vec<Span>,
    ) {
        self.leave_step(at, spans);
        self.talk.close(&self.shared, at, spans);
        self.ended = true;
        let content = self.shared.options.content;
        let span = &mut self.span;
        span.end = at.max(span.start);
        span.attributes.push((name::DALSEGNO_STATUS, kind.as_str().into()));
        span.attributes.push((name::DALSEGNO_STEPS, self.steps.into()));
        let mut code = None;
        if let Some(response) = response {
            let usage = &response.usage;
            span.attributes.extend([
                (name::GEN_AI_USAGE_INPUT_TOKENS, usage.input_tokens.into()),
                (name::GEN_AI_USAGE_OUTPUT_TOKENS, usage.output_tokens.into()),
                (name::DALSEGNO_MODEL_CALLS, usage.model_calls.into()),
                (name::DALSEGNO_TOOL_CALLS, usage.tool_calls.into()),
                (name::DALSEGNO_COST_NANO_USD, usage.cost_nano_usd.into()),
            ]);
            let answer = response.answer.as_deref();
            if let Some(text) = answer.and_then(|answer| content.message("assistant", answer, Some("stop"))) {
                span.attributes.push((name::GEN_AI_OUTPUT_MESSAGES, text.into()));
            }
            if let Some(error) = &response.error {
                code = Some(error.code.as_str());
                span.attributes.push((name::ERROR_TYPE, error.code.as_str().into()));
                span.status = self.shared.failed(error.code.as_str(), &error.message);
            }
        }
        span.subject = Subject::Run(RunFacts {
            run: self.shared.run,
            agent: self.shared.agent.clone(),
            status: kind.as_str(),
            code,
        });
        spans.push(span.clone());
        // Only the span's end is needed from here on.
        span.attributes = Vec::new();
        span.events = Vec::new();
    }

    fn event(&mut self, at: Timestamp, name: &'static str, attributes: Vec<(&'static str, Value)>) {
        push_event(&mut self.span.events, &mut self.span.dropped_events, SpanEvent { at, name, attributes });
    }
}

impl Shared {
    /// Something that somebody said, where it may be exported.
    fn said(&self, name: &'static str, text: Option<&str>) -> Option<(&'static str, Value)> {
        let text = self.options.content.text(|| text.unwrap_or_default().to_owned());
        text.filter(|text| !text.is_empty()).map(|text| (name, text.into()))
    }

    /// A failure, with its message where that may be exported.
    fn failed(&self, code: &str, message: &str) -> Status {
        match self.options.content.text(|| message.to_owned()) {
            Some(message) if !message.is_empty() => Status::Error(format!("{code}: {message}")),
            _ => Status::Error(code.to_owned()),
        }
    }
}

fn push_event(events: &mut Vec<SpanEvent>, dropped: &mut u32, event: SpanEvent) {
    if events.len() < MAX_EVENTS {
        events.push(event);
    } else {
        *dropped = dropped.saturating_add(1);
    }
}
