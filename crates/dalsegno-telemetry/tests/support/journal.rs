//! Journals: a builder for those made by hand, and a generator.

use dalsegno_core::{
    AgentRequest, AgentResponse, AgentReturn, Answer, CallRequest, Digest, EffectClass, Failure, FailureCode,
    Gate, LiveNews, LiveTokens, MemoryCreated, MemoryHit, MemoryTraversal, ModelReply, OperationId, Outcome,
    ReplyPart, ResponseEnd, RunError, RunErrorCode, RunId, Signal, Status, StopReason, Timestamp,
    TokenDetails, ToolReturn, Usage, Validation,
};
use dalsegno_store::{AttemptCause, Body, NewRecord, Parent, Start, Started, WaitingFor};
use serde_json::json;

/// What no span may hold while content is off.
pub(crate) const CANARY: &str = "CANARY-7f3a";

pub(crate) fn run(number: u8) -> RunId {
    RunId::from_bytes([number; 16])
}

pub(crate) fn operation(number: u16) -> OperationId {
    let mut bytes = [0x0f; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    OperationId::from_bytes(bytes)
}

pub(crate) fn started(parent: Option<Parent>, depth: u32) -> Started {
    Started {
        agent: "triage".parse().unwrap(),
        config: Digest::from_bytes([1; 32]),
        semantics: 1,
        request: AgentRequest::text(CANARY),
        session: "s1".into(),
        predecessor: None,
        start_key: None,
        modules: Default::default(),
        parent,
        depth,
        budget: None,
        context: None,
        by_handoff: false,
        ask_effects: false,
    }
}

/// A journal that grows; each record is some milliseconds after the one before it.
pub(crate) struct TestJournal {
    pub(crate) records: Vec<NewRecord>,
    pub(crate) now: u64,
}

impl TestJournal {
    pub(crate) fn new(started: Started) -> Self {
        let mut journal = Self { records: Vec::new(), now: 1_000_000 };
        journal.of_run(Body::Started(started));
        journal
    }

    pub(crate) fn root() -> Self {
        Self::new(started(None, 0))
    }

    fn at(&mut self) -> Timestamp {
        self.now += 7;
        Timestamp::from_millis(self.now)
    }

    pub(crate) fn of_run(&mut self, body: Body) -> &mut Self {
        let at = self.at();
        self.records.push(NewRecord::new(at, body));
        self
    }

    pub(crate) fn of(&mut self, operation: OperationId, body: Body) -> &mut Self {
        let at = self.at();
        self.records.push(NewRecord::of(at, operation, body));
        self
    }

    pub(crate) fn completed(&mut self) -> &mut Self {
        let response = response(Status::Completed, None);
        self.of_run(Body::Completed { response })
    }
}

pub(crate) fn response(status: Status, code: Option<RunErrorCode>) -> AgentResponse {
    AgentResponse {
        status,
        answer: Some(CANARY.into()),
        output: Some(json!({ "said": CANARY })),
        error: code.map(|code| RunError { code, message: CANARY.into(), help: CANARY.into() }),
        usage: Usage {
            model_calls: 2,
            tool_calls: 3,
            input_tokens: 500,
            output_tokens: 60,
            cost_nano_usd: 77,
            ..Usage::default()
        },
        writes: Vec::new(),
    }
}

pub(crate) fn requested(step: u64, place: u32, label: &str, start: Start) -> Body {
    Body::Requested {
        step,
        ordinal: vec![place],
        label: label.into(),
        digest: Digest::from_bytes([2; 32]),
        class: EffectClass::Keyed,
        start,
    }
}

pub(crate) fn attempted(attempt: u32, cause: AttemptCause) -> Body {
    Body::Attempted { attempt, cause, start: Start::Now, reason: None }
}

pub(crate) fn resolved(outcome: Outcome, attempts: u32) -> Body {
    Body::Resolved { outcome, attempts, elapsed_ms: 11 }
}

pub(crate) fn lost(code: FailureCode) -> AttemptCause {
    AttemptCause::Failed { code, possibly_received: true }
}

pub(crate) fn failed(code: FailureCode) -> Outcome {
    Outcome::Failed(Failure::new(code, CANARY))
}

/// A good outcome for an operation with this label.
pub(crate) fn outcome(label: &str) -> Outcome {
    match label {
        "model completion" => Outcome::ModelReplied(ModelReply {
            parts: vec![
                ReplyPart::Text(CANARY.into()),
                ReplyPart::Opaque { provider: "p".into(), data: json!({ "thinking": CANARY }) },
                ReplyPart::Call(CallRequest {
                    call_id: CANARY.into(),
                    name: "risk__score".into(),
                    arguments: format!("{{\"of\":\"{CANARY}\"}}"),
                    validation: Some(Validation::Valid { arguments: json!({ "of": CANARY }) }),
                }),
            ],
            stop: StopReason::ToolCalls,
            input_tokens: 100,
            output_tokens: 20,
            details: TokenDetails {
                cached_input_tokens: 30,
                cache_write_tokens: 20,
                ..TokenDetails::default()
            },
            estimated: false,
            output: None,
            lost_attempts: 1,
            without_files: false,
        }),
        "memory search" => Outcome::MemoryFound(vec![MemoryHit {
            entity: CANARY.into(),
            entity_type: "host".into(),
            text: CANARY.into(),
            score: 0.5,
            metadata: json!({ "said": CANARY }),
        }]),
        "memory create" => Outcome::MemoryCreated(MemoryCreated {
            entity: CANARY.into(),
            observation: CANARY.into(),
            duplicate: false,
        }),
        "memory traverse" => Outcome::MemoryTraversed(MemoryTraversal::default()),
        "question" => Outcome::InputGiven(json!({ "said": CANARY })),
        "timer" => Outcome::TimerFired,
        label if label.starts_with("agent") => Outcome::AgentReturned(AgentReturn {
            run: run(9),
            status: Status::Completed,
            answer: Some(CANARY.into()),
            output: None,
            error: None,
            usage: Usage::default(),
            writes: Vec::new(),
        }),
        _ => Outcome::ToolReturned(ToolReturn {
            structured: Some(json!({ "said": CANARY })),
            text: CANARY.into(),
            is_error: false,
            ..ToolReturn::default()
        }),
    }
}

pub(crate) const LABELS: &[&str] = &[
    "model completion",
    "memory search",
    "memory create",
    "memory traverse",
    "tool `risk.score`",
    "agent `scout`",
    "question",
    "timer",
];

/// Numbers that look random and are the same each time.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 20) % most as u64).unwrap()
    }
}

/// Everything that can happen to an operation, from its request on.
fn fate(label: &str, step: u64, place: u32, dice: &mut Dice) -> Vec<Body> {
    let answered = |answer| Body::Answered { answer };
    let by = || Some(CANARY.to_owned());
    let good = outcome(label);
    let again = |bodies: &mut Vec<Body>, attempts: u32| {
        bodies.push(resolved(good.clone(), attempts));
    };
    let now = requested(step, place, label, Start::Now);
    let later = requested(step, place, label, Start::Deferred);
    let in_doubt = Body::Waiting { gate: Gate::InDoubt { reason: CANARY.into() } };
    let mut bodies = Vec::new();
    match dice.below(11) {
        0 | 1 => {
            bodies.push(now);
            again(&mut bodies, 1);
        }
        2 => {
            bodies.push(now);
            let retries = 1 + u32::try_from(dice.below(3)).unwrap();
            for retry in 1..=retries {
                bodies.push(attempted(retry + 1, lost(FailureCode::Timeout)));
            }
            again(&mut bodies, retries + 1);
        }
        3 => bodies.extend([
            now,
            attempted(2, AttemptCause::Recovered),
            resolved(failed(FailureCode::Unavailable), 2),
        ]),
        4 => {
            bodies.extend([later, attempted(1, AttemptCause::Queued)]);
            again(&mut bodies, 1);
        }
        5 => {
            bodies.extend([
                later,
                Body::Waiting { gate: Gate::Approval },
                answered(Answer::Approved {
                    edited: Some(Validation::Valid { arguments: json!({ "edited": CANARY }) }),
                    reason: by(),
                    by: by(),
                }),
                attempted(1, AttemptCause::Answered),
            ]);
            again(&mut bodies, 1);
        }
        6 => bodies.extend([
            later,
            Body::Waiting { gate: Gate::Approval },
            answered(Answer::Denied { reason: by(), by: by() }),
        ]),
        7 => {
            bodies.extend([
                now,
                in_doubt,
                answered(Answer::NotDone { by: by() }),
                attempted(2, AttemptCause::Answered),
            ]);
            again(&mut bodies, 2);
        }
        8 => bodies.extend([
            now,
            in_doubt,
            answered(Answer::Done { result: Some(json!(CANARY)), error: None, by: by() }),
        ]),
        9 => {
            // Put off by a process that stops, taken up under its own number by the next.
            bodies.extend([
                now,
                Body::Attempted {
                    attempt: 2,
                    cause: lost(FailureCode::Unavailable),
                    start: Start::Deferred,
                    reason: None,
                },
                attempted(2, AttemptCause::Recovered),
            ]);
            again(&mut bodies, 2);
        }
        _ => bodies.extend([now, attempted(2, lost(FailureCode::Protocol))]),
    }
    bodies
}

/// Something that happens in a call, in any order.
fn news(dice: &mut Dice) -> LiveNews {
    let ends = [ResponseEnd::Completed, ResponseEnd::Interrupted, ResponseEnd::Failed];
    match dice.below(14) {
        0 => LiveNews::SpeechStarted,
        1 => LiveNews::SpeechStopped,
        2 => LiveNews::Heard { text: CANARY.into() },
        3 => LiveNews::Said { text: CANARY.into(), heard_ms: None },
        4..=6 => LiveNews::ResponseBegan { response: some_response(dice), command: None },
        7 => LiveNews::Counted {
            response: some_response(dice),
            tokens: LiveTokens { input: 70, output: 30, cost_nano_usd: Some(9), ..LiveTokens::default() },
        },
        8 => LiveNews::Asked {
            response: some_response(dice),
            call: CallRequest {
                call_id: CANARY.into(),
                name: "risk__score".into(),
                arguments: CANARY.into(),
                validation: None,
            },
        },
        9 | 10 => LiveNews::ResponseEnded { response: some_response(dice), end: ends[dice.below(3)] },
        11 => LiveNews::Lost { reason: CANARY.into() },
        12 => LiveNews::Lasted { millis: 1_000, cost_nano_usd: Some(9) },
        _ => LiveNews::Attached,
    }
}

fn some_response(dice: &mut Dice) -> String {
    format!("response-{}", dice.below(3))
}

/// A journal of everything that can happen, by a seed.
pub(crate) fn generate(seed: u64) -> Vec<NewRecord> {
    let dice = &mut Dice::new(seed);
    let mut journal = TestJournal::root();
    let mut number = 0;
    let mut open = Vec::new();
    if dice.below(8) == 0 {
        journal.of_run(Body::Forked {
            run: run(200),
            seq: 4,
            within: 0,
            step: 2,
            overrides: vec![operation(999)],
            outcomes: vec![failed(FailureCode::Timeout)],
            ask_effects: true,
            foreign: false,
        });
    }
    for step in 1..=1 + dice.below(5) as u64 {
        open.clear();
        let mut fates = Vec::new();
        for place in 0..1 + dice.below(4) {
            let label = LABELS[dice.below(LABELS.len())];
            number += 1;
            let mut bodies = fate(label, step, u32::try_from(place).unwrap(), dice);
            journal.of(operation(number), bodies.remove(0));
            let settled = match bodies.last() {
                Some(Body::Resolved { .. }) => true,
                Some(Body::Answered { answer }) => answer.outcome().is_some(),
                _ => false,
            };
            if !settled {
                open.push(operation(number));
            }
            bodies.reverse();
            fates.push((operation(number), bodies));
        }
        while !fates.is_empty() {
            let one = dice.below(fates.len());
            match fates[one].1.pop() {
                Some(body) => {
                    let operation = fates[one].0;
                    journal.of(operation, body);
                }
                None => drop(fates.remove(one)),
            }
            match dice.below(16) {
                0 => {
                    let waiting = WaitingFor {
                        kind: "approval".into(),
                        operation: operation(number),
                        question: CANARY.into(),
                    };
                    let wake_at = Some(Timestamp::from_millis(5));
                    journal.of_run(Body::Suspended { waiting_for: vec![waiting], wake_at });
                    // A day later, or with a clock that was set back.
                    journal.now =
                        if dice.below(4) == 0 { journal.now - 500 } else { journal.now + 86_400_000 };
                }
                1 => {
                    journal.of_run(Body::Rebound { server: "risk".into(), digest: "abc".into() });
                }
                2..=5 => {
                    let news = (0..=dice.below(4)).map(|_| news(dice)).collect();
                    journal.of_run(Body::Conversed { news });
                }
                _ => {}
            }
        }
    }
    let end = dice.below(6);
    if end == 4 {
        let (by, reason) = (Some(CANARY.into()), Some(CANARY.into()));
        journal.of_run(Body::Signalled { signal: Signal::Cancel, by, reason });
    }
    match end {
        0 => return journal.records,
        1 | 2 => drop(journal.completed()),
        3 => {
            let response = response(Status::Failed, Some(RunErrorCode::ToolFailed));
            journal.of_run(Body::Failed { response });
        }
        4 => {
            let response = response(Status::Cancelled, Some(RunErrorCode::Cancelled));
            journal.of_run(Body::Cancelled { response });
        }
        _ => {
            let target = "scout".parse().unwrap();
            let message = Some(CANARY.into());
            journal.of_run(Body::HandedOff { target, run: run(8), response: None, message });
        }
    }
    for operation in open {
        journal.of(operation, Body::late(failed(FailureCode::Indeterminate)));
    }
    journal.records
}
