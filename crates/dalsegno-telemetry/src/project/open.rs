//! An operation that has no outcome yet: its attempts, its gates, its end.

use std::collections::BTreeMap;

use dalsegno_core::{Answer, Gate, Outcome, Timestamp, ToolReturn, Validation};
use dalsegno_runtime::DenialKind;
use dalsegno_store::{AttemptCause, Denial, Start};

use super::{Asked, Shared, outcome, push_event};
use crate::ids::SpanId;
use crate::semconv as name;
use crate::span::{AttemptFacts, Kind, Span, SpanEvent, Status, Subject, Value};

/// An operation that is under way or waits.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) asked: Asked,
    since: Timestamp,
    /// The attempt that is under way, or the last one.
    attempt: Option<OpenAttempt>,
    /// Whether an attempt had a span of its own already, so that the last one needs one too.
    several: bool,
    /// The number of the last attempt, those included that were put off.
    attempts: u32,
    gates: Vec<&'static str>,
    denials: BTreeMap<&'static str, u64>,
    events: Vec<SpanEvent>,
    dropped_events: u32,
}

/// An attempt that was started.
#[derive(Debug)]
struct OpenAttempt {
    number: u32,
    /// The record that it began with.
    seq: u64,
    cause: &'static str,
    start: Timestamp,
    /// When and why it was over, where that is known before the next one.
    over: Option<(Timestamp, &'static str)>,
}

/// How an operation ends.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is taken apart at once")]
pub(super) enum Ending<'a> {
    /// With an outcome.
    Resolved { outcome: &'a Outcome, attempts: u32, active_ms: u64 },
    /// With what a person said.
    Answered(Outcome),
    /// Its run goes on or ends without it.
    Abandoned,
}

/// Most gates that are counted: an operation can be in doubt again and again.
const MAX_GATES: usize = 64;

impl Open {
    pub(super) fn new(asked: Asked, seq: u64, at: Timestamp, now: bool) -> Self {
        let attempt = OpenAttempt { number: 1, seq, cause: "requested", start: at, over: None };
        Self {
            asked,
            since: at,
            attempt: now.then_some(attempt),
            several: false,
            attempts: u32::from(now),
            gates: Vec::new(),
            denials: BTreeMap::new(),
            events: Vec::new(),
            dropped_events: 0,
        }
    }

    /// Takes the beginning of an attempt; gives the span of the one before it.
    pub(super) fn attempted(
        &mut self,
        shared: &Shared,
        seq: u64,
        at: Timestamp,
        number: u32,
        cause: AttemptCause,
        start: Start,
    ) -> Option<Span> {
        let (cause, code, possibly_received) = match cause {
            AttemptCause::Answered => ("answered", "in_doubt", None),
            AttemptCause::Queued => ("queued", "lost", None),
            AttemptCause::Recovered => ("recovered", "lost", None),
            AttemptCause::Failed { code, possibly_received } => {
                ("failed", code.as_str(), Some(possibly_received))
            }
        };
        let mut attributes =
            vec![(name::DALSEGNO_ATTEMPT, number.into()), (name::DALSEGNO_ATTEMPT_CAUSE, cause.into())];
        if cause == "failed" {
            attributes.push((name::ERROR_TYPE, code.into()));
        }
        if start == Start::Deferred {
            attributes.push((name::DALSEGNO_ATTEMPT_DEFERRED, true.into()));
        }
        self.event(at, name::EVENT_ATTEMPT, attributes);
        self.attempts = self.attempts.max(number);
        let before = self.attempt.take();
        if start == Start::Now {
            self.attempt = Some(OpenAttempt { number, seq, cause, start: at, over: None });
        }
        let before = before?;
        self.several = true;
        let (end, code) = before.over.unwrap_or((at, code));
        let mut span = self.attempt_span(shared, &before, end, Some(code));
        span.attributes
            .extend(possibly_received.map(|maybe| (name::DALSEGNO_ATTEMPT_POSSIBLY_RECEIVED, maybe.into())));
        Some(span)
    }

    /// Takes the opening of a gate.
    pub(super) fn waiting(&mut self, shared: &Shared, at: Timestamp, gate: &Gate) {
        let (gate, reason) = match gate {
            Gate::Approval => ("approval", None),
            Gate::Input => ("input", None),
            // What a server asks may hold whatever it was told.
            Gate::Elicitation { .. } => ("elicitation", None),
            Gate::InDoubt { reason } => ("in_doubt", Some(reason.as_str())),
            Gate::Secret { name } => ("secret", Some(name.as_str())),
        };
        if let Some(attempt) = &mut self.attempt
            && matches!(gate, "in_doubt" | "secret" | "elicitation")
        {
            attempt.over = Some((at, gate));
        }
        if self.gates.len() < MAX_GATES {
            self.gates.push(gate);
        }
        let mut attributes = vec![(name::DALSEGNO_GATE, gate.into())];
        attributes.extend(shared.said(name::DALSEGNO_REASON, reason));
        self.event(at, name::EVENT_WAITING, attributes);
    }

    /// Takes what the tool's server was refused.
    pub(super) fn denied(&mut self, shared: &Shared, at: Timestamp, server: &str, denials: &[Denial]) {
        for denial in denials {
            let known = DenialKind::ALL.iter().map(|kind| kind.as_str()).find(|kind| *kind == denial.kind);
            let kind = known.unwrap_or("other");
            *self.denials.entry(kind).or_default() += denial.count;
            let mut attributes = vec![
                (name::DALSEGNO_SERVER, server.into()),
                (name::DALSEGNO_DENIED, kind.into()),
                (name::DALSEGNO_COUNT, denial.count.into()),
            ];
            attributes.extend(shared.said(name::DALSEGNO_REASON, Some(&denial.reason)));
            self.event(at, name::EVENT_DENIED, attributes);
        }
    }

    /// A tool's server made a task of the attempt. Its id is the server's word, and stays in the journal.
    pub(super) fn tasked(&mut self, at: Timestamp, attempt: u32, server: &str) {
        let attributes =
            vec![(name::DALSEGNO_SERVER, server.into()), (name::DALSEGNO_ATTEMPT, attempt.into())];
        self.event(at, name::EVENT_TASKED, attributes);
    }

    /// Takes an answer at a gate.
    pub(super) fn answered(&mut self, shared: &Shared, at: Timestamp, answer: &Answer) {
        let (answer, by, reason, edited) = match answer {
            Answer::Approved { edited, reason, by } => ("approved", by, reason.as_deref(), edited.as_ref()),
            Answer::Denied { reason, by } => ("denied", by, reason.as_deref(), None),
            Answer::Done { by, .. } => ("done", by, None, None),
            Answer::Given { by, .. } => ("given", by, None, None),
            Answer::Supplied { by, .. } => ("supplied", by, None, None),
            Answer::NotDone { by } => ("not_done", by, None, None),
        };
        if let Some(Validation::Valid { arguments }) = edited
            && let Some(text) = shared.options.content.json(arguments)
        {
            let attributes = &mut self.asked.attributes;
            attributes.retain(|(key, _)| *key != name::GEN_AI_TOOL_CALL_ARGUMENTS);
            attributes.push((name::GEN_AI_TOOL_CALL_ARGUMENTS, text.into()));
        }
        let mut attributes = vec![(name::DALSEGNO_ANSWER, answer.into())];
        attributes.extend(shared.said(name::DALSEGNO_BY, by.as_deref()));
        attributes.extend(shared.said(name::DALSEGNO_REASON, reason));
        self.event(at, name::EVENT_ANSWERED, attributes);
    }

    /// Ends the operation: the span of its last attempt, where there were several, and its own.
    pub(super) fn finish(
        mut self,
        shared: &Shared,
        at: Timestamp,
        ending: &Ending<'_>,
        spans: &mut Vec<Span>,
    ) {
        let mut facts = self.asked.facts(shared);
        facts.gates = std::mem::take(&mut self.gates);
        facts.denials = std::mem::take(&mut self.denials);
        facts.attempts = self.attempts;
        let mut attributes = std::mem::take(&mut self.asked.attributes);
        let mut status = None;
        if let Ending::Resolved { outcome: Outcome::ToolReturned(returned), .. } = ending {
            self.notes(shared, at, returned);
        }
        let ended = match ending {
            Ending::Resolved { outcome, attempts, active_ms } => {
                facts.attempts = *attempts;
                facts.active_ms = *active_ms;
                attributes.push((name::DALSEGNO_ACTIVE_MS, (*active_ms).into()));
                status = outcome::describe(
                    shared,
                    outcome,
                    self.asked.price.as_ref(),
                    &mut facts,
                    &mut attributes,
                );
                "resolved"
            }
            Ending::Answered(outcome) => {
                status = outcome::describe(
                    shared,
                    outcome,
                    self.asked.price.as_ref(),
                    &mut facts,
                    &mut attributes,
                );
                "resolved"
            }
            Ending::Abandoned => {
                facts.code = Some("abandoned");
                "abandoned"
            }
        };
        attributes.push((name::DALSEGNO_STATUS, ended.into()));
        attributes.push((name::DALSEGNO_ATTEMPTS, facts.attempts.into()));
        if self.several
            && let Some(attempt) = self.attempt.take()
        {
            let (end, code) = match attempt.over {
                Some((end, code)) => (end, Some(code)),
                None => (at, facts.code),
            };
            spans.push(self.attempt_span(shared, &attempt, end, code));
        }
        // What a declarative tool asks for is a part of its call.
        let tool = self.asked.parent.map(|tool| SpanId::of_operation(shared.run, tool));
        let step = tool.or_else(|| self.asked.step.map(|step| SpanId::of_step(shared.run, step)));
        spans.push(Span {
            trace: shared.trace,
            id: SpanId::of_operation(shared.run, self.asked.operation),
            parent: Some(step.unwrap_or_else(|| SpanId::of_run(shared.run))),
            name: self.asked.span_name(),
            kind: self.asked.span_kind(),
            start: self.since,
            end: at.max(self.since),
            attributes,
            events: self.events,
            dropped_events: self.dropped_events,
            links: Vec::new(),
            status: status.unwrap_or(Status::Unset),
            subject: Subject::Operation(facts),
        });
    }

    /// Takes what a declarative tool noted for people. What it wrote is content; that a path is missing is not.
    fn notes(&mut self, shared: &Shared, at: Timestamp, returned: &ToolReturn) {
        for note in returned.notes() {
            let mut attributes = vec![
                (name::DALSEGNO_LEVEL, note.level.as_str().into()),
                (name::DALSEGNO_ACTION, note.action.into()),
            ];
            attributes.extend(shared.said(name::DALSEGNO_MESSAGE, Some(note.text)));
            self.event(at, name::EVENT_LOG, attributes);
        }
    }

    fn attempt_span(
        &self,
        shared: &Shared,
        attempt: &OpenAttempt,
        end: Timestamp,
        code: Option<&'static str>,
    ) -> Span {
        let operation = self.asked.operation;
        let mut attributes: Vec<(&'static str, Value)> = vec![
            (name::DALSEGNO_ATTEMPT, attempt.number.into()),
            (name::DALSEGNO_ATTEMPT_CAUSE, attempt.cause.into()),
            (name::DALSEGNO_OPERATION, operation.to_string().into()),
            (name::DALSEGNO_RUN, shared.run.to_string().into()),
        ];
        attributes.extend(code.map(|code| (name::ERROR_TYPE, code.into())));
        Span {
            trace: shared.trace,
            id: SpanId::of_attempt(shared.run, operation, attempt.number, attempt.seq),
            parent: Some(SpanId::of_operation(shared.run, operation)),
            name: format!("attempt {}", attempt.number),
            // The operation's own span is the client's: whoever counts calls counts each once.
            kind: Kind::Internal,
            start: attempt.start,
            end: end.max(attempt.start),
            attributes,
            events: Vec::new(),
            dropped_events: 0,
            links: Vec::new(),
            status: code.map_or(Status::Unset, |code| Status::Error(code.to_owned())),
            subject: Subject::Attempt(AttemptFacts {
                run: shared.run,
                operation,
                kind: self.asked.kind,
                attempt: attempt.number,
                code,
            }),
        }
    }

    fn event(&mut self, at: Timestamp, name: &'static str, attributes: Vec<(&'static str, Value)>) {
        push_event(&mut self.events, &mut self.dropped_events, SpanEvent { at, name, attributes });
    }
}
