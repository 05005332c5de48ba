//! What the reference model notices.

use std::sync::Arc;

use dalsegno_core::{
    AgentRequest, Answer, Digest, EffectClass, Failure, FailureCode, Gate, OperationId, Outcome, RunId,
    Signal, Timestamp,
};
use dalsegno_store::{AttemptCause, Body, NewRecord, Start, Started};
use serde_json::json;

use super::{Call, Guarantees};
use crate::process::Process;
use crate::workspace::Plan;

const RUN: RunId = RunId::from_bytes([7; 16]);
const OP: OperationId = OperationId::from_bytes([1; 16]);

/// A run of one process that has asked for one unsafe effect, which starts.
struct Case {
    guarantees: Guarantees,
    process: Arc<Process>,
    next: u64,
}

impl Case {
    fn new() -> Self {
        let plan = Plan::generate(1);
        let mut case =
            Self { guarantees: Guarantees::new(&plan), process: Arc::new(Process::new(1, 1, None)), next: 1 };
        let started = Started {
            agent: "flat".parse().unwrap(),
            config: Digest::from_bytes([1; 32]),
            semantics: 1,
            request: AgentRequest::text("go"),
            session: "s".into(),
            predecessor: None,
            start_key: None,
            modules: std::collections::BTreeMap::new(),
            parent: None,
            depth: 0,
            budget: None,
            context: None,
            by_handoff: false,
            ask_effects: false,
        };
        let first = NewRecord::new(Timestamp::from_millis(0), Body::Started(started));
        case.guarantees.created(&case.process, RUN, 1, &[first]);
        case.about(Body::Requested {
            step: 1,
            ordinal: vec![0],
            label: "tool `t.unsafe`".into(),
            digest: Digest::from_bytes([2; 32]),
            class: EffectClass::Unsafe,
            start: Start::Now,
        });
        assert_eq!(case.guarantees.violations, [""; 0]);
        case
    }

    /// Writes a record about the operation.
    fn about(&mut self, body: Body) {
        self.write(NewRecord::of(Timestamp::from_millis(1), OP, body));
    }

    fn write(&mut self, record: NewRecord) {
        self.guarantees.written(&self.process, RUN, 1, self.next, &[record]);
        self.next += 1;
    }

    fn call(&mut self, attempt: u32) -> Call {
        let call = Call {
            process: 1,
            run: RUN,
            operation: OP,
            attempt,
            tool: Some("t.unsafe".into()),
            arguments: json!({ "n": 1 }),
            tenant: String::new(),
        };
        self.guarantees.sent(RUN, OP);
        self.guarantees.call(&self.process, call)
    }

    #[track_caller]
    fn is_broken(&self, words: &str) {
        let found = &self.guarantees.violations;
        assert!(found.iter().any(|one| one.contains(words)), "{found:?}");
    }
}

fn failed(code: FailureCode) -> Body {
    let outcome = Outcome::Failed(Failure::new(code, "no"));
    Body::Resolved { outcome, attempts: 1, elapsed_ms: 0 }
}

#[test]
fn a_call_that_was_not_announced_is_noticed() {
    let mut case = Case::new();
    case.call(2);
    case.is_broken("nothing in the journal says that it starts");
}

#[test]
fn an_unsafe_effect_that_takes_place_twice_is_noticed() {
    let mut case = Case::new();
    let call = case.call(1);
    for _ in 0..5 {
        case.guarantees.received(&call, EffectClass::Unsafe);
    }
    case.is_broken("took place");
}

#[test]
fn a_plain_failure_of_what_took_place_is_noticed_in_either_order() {
    let mut case = Case::new();
    let call = case.call(1);
    case.guarantees.received(&call, EffectClass::Unsafe);
    case.about(failed(FailureCode::Unavailable));
    case.is_broken("it failed plainly");
    let mut case = Case::new();
    let call = case.call(1);
    case.about(failed(FailureCode::Unavailable));
    case.guarantees.received(&call, EffectClass::Unsafe);
    case.is_broken("the journal says that it does not");
    let mut case = Case::new();
    let call = case.call(1);
    case.guarantees.received(&call, EffectClass::Unsafe);
    case.about(failed(FailureCode::Indeterminate));
    assert_eq!(case.guarantees.violations, [""; 0]);
}

#[test]
fn a_second_outcome_and_an_answer_that_nobody_asked_for_are_noticed() {
    let mut case = Case::new();
    case.about(failed(FailureCode::Unavailable));
    case.about(failed(FailureCode::Unavailable));
    case.is_broken("it had its outcome");
    let mut case = Case::new();
    case.about(Body::Answered { answer: Answer::NotDone { by: None } });
    case.is_broken("nobody asked that");
    let mut case = Case::new();
    case.about(Body::Waiting { gate: Gate::Approval });
    case.is_broken("there was nothing to ask");
}

#[test]
fn work_after_the_end_is_noticed() {
    let mut case = Case::new();
    case.write(NewRecord::new(Timestamp::from_millis(2), Body::signalled(Signal::Cancel)));
    case.about(Body::Attempted {
        attempt: 2,
        cause: AttemptCause::Recovered,
        start: Start::Now,
        reason: None,
    });
    case.is_broken("the run was to end");
}

#[test]
fn a_run_taken_from_a_living_owner_and_a_stale_write_are_noticed() {
    let mut case = Case::new();
    let other = Arc::new(Process::new(2, 1, None));
    case.guarantees.acquired(&other, RUN, 2);
    case.is_broken("which lives");
    let mut case = Case::new();
    case.process.lose_lock();
    case.guarantees.acquired(&other, RUN, 2);
    assert_eq!(case.guarantees.violations, [""; 0]);
    case.about(failed(FailureCode::Unavailable));
    case.is_broken("p1 wrote under epoch 1");
    case.guarantees.acquired(&other, RUN, 2);
    case.is_broken("epoch 2 follows epoch 2");
}

#[test]
fn a_record_that_was_shown_and_not_written_is_noticed() {
    let mut case = Case::new();
    let record = NewRecord::new(Timestamp::from_millis(2), Body::signalled(Signal::Cancel));
    case.guarantees.told(RUN, 2, &record);
    case.is_broken("is not in the journal");
}
