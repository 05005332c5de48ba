//! What a process that takes a run up knows from its journal alone.

use dalsegno_core::{AgentRequest, Answer, EffectClass, Mind, Tool};
use dalsegno_store::{AttemptCause, Checksum, Link};
use serde_json::{Value, json};

use super::*;

const RUN: RunId = RunId::from_bytes([7; 16]);

/// A journal as it is written, and its fold.
struct TestJournal {
    fold: Fold,
    seq: u64,
    asked: Vec<Operation>,
}

/// Two calls at the same time that may not be repeated, and a handoff.
fn config() -> Arc<AgentConfig> {
    let branch =
        |id: &str| json!({"operation": {"id": id, "call": {"tool": {"tool": "bank.pay", "with": {}}}}});
    let steps = json!([
        {"action": {"parallel": [branch("a"), branch("b")]}},
        {"action": {"handoff": {"target": "clerk", "message": null, "data": null}}},
    ]);
    let plan = serde_json::from_value(Value::from_iter([("steps", steps)])).unwrap();
    let mut config = AgentConfig::new("agent".parse().unwrap(), Mind::Plan(plan));
    let tool = Tool { class: EffectClass::Unsafe, ..Tool::new("pays".into(), json!({"type": "object"})) };
    config.tools.tools.insert("bank.pay".parse().unwrap(), tool);
    let budget = Budget { max_tool_calls: 8, max_tokens: None, max_cost_nano_usd: None };
    config.agents.insert("clerk".parse().unwrap(), dalsegno_core::Callee { budget });
    Arc::new(config)
}

impl TestJournal {
    /// The journal of a run whose two calls are under way.
    fn begun() -> Self {
        let (config, state) = (config(), AgentState::start(RUN, AgentRequest::text("go"), time(0)));
        let action = dalsegno_core::execute_agent_step(&config, state.clone()).unwrap();
        let asked: Vec<Operation> = action.into_continuation().asked().cloned().collect();
        let mut journal = Self { fold: Fold::at(config, RUN, state), seq: 1, asked: asked.clone() };
        for operation in asked {
            let body = Body::Requested {
                step: 1,
                ordinal: operation.ordinal.clone(),
                label: operation.request.label_without_values(),
                digest: operation.digest,
                class: operation.terms.class,
                start: Start::Now,
            };
            journal.add(1_000, Some(operation.id), body).unwrap();
        }
        journal
    }

    fn add(&mut self, at: u64, operation: Option<OperationId>, body: Body) -> Result<(), FoldError> {
        let (checksum, link) = (Checksum::from_bytes([0; 16]), Link::default());
        let record = Record { seq: self.seq, at: time(at), operation, parent: None, body, checksum, link };
        self.seq += 1;
        self.fold.apply(&record)
    }

    fn returned(&mut self, place: usize, at: u64, elapsed_ms: u64) {
        let outcome = Outcome::ToolReturned(dalsegno_core::ToolReturn::structured(json!({})));
        let body = Body::Resolved { outcome, attempts: 1, elapsed_ms };
        self.add(at, Some(self.asked[place].id), body).unwrap();
    }
}

const fn time(at: u64) -> Timestamp {
    Timestamp::from_millis(at)
}

#[test]
fn the_active_time_of_a_step_is_that_of_its_longest_operation() {
    let mut journal = TestJournal::begun();
    assert_eq!(journal.fold.active_ms(), 0);
    journal.returned(1, 1_700, 700);
    assert_eq!(journal.fold.active_ms(), 700);
    journal.returned(0, 1_300, 300);
    assert_eq!(journal.fold.active_ms(), 700);
}

#[test]
fn an_answer_that_was_written_down_leaves_nothing_under_way() {
    let mut journal = TestJournal::begun();
    let id = journal.asked[0].id;
    journal
        .add(2_000, Some(id), Body::Waiting { gate: Gate::InDoubt { reason: "no answer".into() } })
        .unwrap();
    let progress = |journal: &TestJournal| journal.fold.progress[&id];
    assert!(progress(&journal).started, "the outcome of the attempt is unknown");
    journal.add(3_000, Some(id), Body::Answered { answer: Answer::NotDone { by: None } }).unwrap();
    // Its process died here: the next attempt has not started, and the one before is settled.
    assert!(!progress(&journal).started && !progress(&journal).doubtful);
    let body = Body::Attempted { attempt: 2, cause: AttemptCause::Answered, start: Start::Now, reason: None };
    journal.add(4_000, Some(id), body).unwrap();
    assert_eq!((progress(&journal).started, progress(&journal).attempts), (true, 2));
}

#[test]
fn what_a_run_waits_for_is_what_its_last_record_says() {
    let mut journal = TestJournal::begun();
    assert_eq!(journal.fold.suspended, None);
    let waits = Suspension { waiting_for: Vec::new(), wake_at: Some(time(9_000)) };
    let body = || Body::Suspended { waiting_for: Vec::new(), wake_at: Some(time(9_000)) };
    journal.add(2_000, None, body()).unwrap();
    assert_eq!(journal.fold.suspended, Some(waits));
    journal.returned(0, 3_000, 10);
    assert_eq!(journal.fold.suspended, None, "it has gone on since");
}

#[test]
fn a_handoff_to_another_agent_than_the_core_says_is_a_difference() {
    for (target, fits) in [("clerk", true), ("ghost", false)] {
        let mut journal = TestJournal::begun();
        journal.returned(0, 1_100, 100);
        journal.returned(1, 1_100, 100);
        let next = RunId::from_bytes([8; 16]);
        let body =
            Body::HandedOff { target: target.parse().unwrap(), run: next, response: None, message: None };
        let added = journal.add(1_200, None, body);
        assert_eq!((added.is_ok(), journal.fold.closed), (fits, fits), "{target}: {added:?}");
    }
}
