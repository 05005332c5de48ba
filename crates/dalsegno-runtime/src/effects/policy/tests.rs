//! What is decided after each kind of attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{Pace, ToolCall, ToolReturn};
use dalsegno_tools::{EffectClass as DocumentClass, Method, Text};
use serde_json::{Value, json};

use super::*;
use crate::effects::failure::AttemptError;

const ID: OperationId = OperationId::from_bytes([1; 16]);

const NEW: Situation = Situation {
    attempt: 1,
    doubtful: false,
    age: Duration::ZERO,
    key_age: Duration::ZERO,
    recoveries: 0,
    at: Timestamp::from_millis(0),
};

const SECOND: Situation = Situation { attempt: 2, doubtful: true, ..NEW };

fn terms(class: EffectClass, retries: u32, on_indeterminate: OnIndeterminate) -> Terms {
    Terms { class, timeout_ms: 1, retries, on_indeterminate, pace: None }
}

fn tool() -> Request {
    let tool_name = "a.b".parse().unwrap();
    Request::ToolCall(Arc::new(ToolCall { tool_name, parameters: json!({}), input: None }))
}

fn call(statuses: &[(u16, StatusMeaning)], repeats_tolerated: bool) -> Request {
    Request::ApiCall(Arc::new(ApiCall {
        method: Method::Post,
        url: Text::literal("https://api.example.com/orders"),
        headers: Vec::new(),
        query: Vec::new(),
        body: None,
        timeout_ms: 1,
        retries: 1,
        retry_delay_ms: 1,
        max_elapsed_ms: 1,
        class: DocumentClass::Unsafe,
        repeats_tolerated,
        idempotency_key: "k".to_owned(),
        max_response_bytes: 1,
        response_schema: None,
        statuses: statuses.iter().copied().collect(),
    }))
}

fn status(status: u16, wishes: bool) -> Result<Outcome, AttemptError> {
    let wish = wishes.then(|| ("retry-after".to_owned(), "1".to_owned()));
    Ok(Outcome::ApiAnswered(ApiResponse {
        status,
        headers: wish.into_iter().collect::<BTreeMap<_, _>>(),
        body: Value::Null,
        attempts: 1,
        violations: Vec::new(),
    }))
}

fn lost(received: Received) -> Result<Outcome, AttemptError> {
    let failure = Failure::new(FailureCode::Timeout, "no answer");
    Err(AttemptError { failure, received, transient: true, after: None, gate: None, is_under_way: false })
}

fn word(decision: &RetryDecision) -> &'static str {
    match decision {
        RetryDecision::Again { possibly_received: true, .. } => "again, in doubt",
        RetryDecision::Again { .. } => "again",
        RetryDecision::Take(Outcome::Failed(failure)) if failure.code == FailureCode::Indeterminate => {
            "indeterminate"
        }
        RetryDecision::Take(Outcome::Failed(failure)) if failure.code == FailureCode::CrashLoop => {
            "crash loop"
        }
        RetryDecision::Take(Outcome::Failed(failure)) if failure.code == FailureCode::ResultUnreadable => {
            "unreadable"
        }
        RetryDecision::Take(Outcome::Failed(_)) => "fail",
        RetryDecision::Take(_) => "outcome",
        RetryDecision::Gate(_) => "gate",
        RetryDecision::Ask(_) => "ask",
    }
}

fn judged(
    request: &Request,
    terms: &Terms,
    now: Situation,
    result: Result<Outcome, AttemptError>,
) -> &'static str {
    word(&judge(Effect { id: ID, terms, request }, now, result))
}

#[test]
fn the_class_decides_what_may_repeat() {
    use EffectClass::{Idempotent, Keyed, Read, Unsafe};
    use OnIndeterminate::{Ask, Report, Retry};
    use Received::{No, Possibly};
    for (class, received, attempt, policy, expected) in [
        (Unsafe, No, 1, Ask, "again"),
        (Unsafe, No, 2, Ask, "fail"),
        (Read, Possibly, 1, Ask, "again, in doubt"),
        (Read, Possibly, 2, Ask, "fail"),
        (Idempotent, Possibly, 1, Ask, "again, in doubt"),
        (Keyed, Possibly, 1, Ask, "again, in doubt"),
        (Keyed, Possibly, 2, Ask, "ask"),
        (Keyed, Possibly, 2, Report, "indeterminate"),
        (Unsafe, Possibly, 1, Ask, "ask"),
        (Unsafe, Possibly, 1, Report, "indeterminate"),
        (Unsafe, Possibly, 1, Retry, "again, in doubt"),
        (Unsafe, Possibly, 2, Retry, "ask"),
    ] {
        let now = Situation { attempt, ..NEW };
        let got = judged(&tool(), &terms(class, 1, policy), now, lost(received));
        assert_eq!(got, expected, "{class:?} {received:?} {attempt} {policy:?}");
    }
}

/// The table of the statuses, for a first attempt with another one left, and for the last one.
#[test]
fn a_status_proves_what_http_says_of_it() {
    use EffectClass::{Idempotent, Keyed, Read, Unsafe};
    for (answer, wishes, read, idempotent, keyed, unsafe_) in [
        (200, false, "outcome", "outcome", "outcome", "outcome"),
        (204, false, "outcome", "outcome", "outcome", "outcome"),
        (304, false, "outcome", "outcome", "outcome", "outcome"),
        (400, false, "outcome", "outcome", "outcome", "outcome"),
        (404, false, "outcome", "outcome", "outcome", "outcome"),
        (408, false, "again, in doubt", "again, in doubt", "again, in doubt", "ask"),
        (409, false, "outcome", "outcome", "again, in doubt", "ask"),
        (425, false, "again, in doubt", "again, in doubt", "again, in doubt", "ask"),
        (429, false, "again", "again", "again", "outcome"),
        (500, false, "again, in doubt", "again, in doubt", "again, in doubt", "ask"),
        (503, false, "again, in doubt", "again, in doubt", "again, in doubt", "ask"),
        (503, true, "again", "again", "again", "ask"),
        (504, false, "again, in doubt", "again, in doubt", "again, in doubt", "ask"),
    ] {
        let expected = [(Read, read), (Idempotent, idempotent), (Keyed, keyed), (Unsafe, unsafe_)];
        for (class, expected) in expected {
            let terms = terms(class, 1, OnIndeterminate::Ask);
            let got = judged(&call(&[], false), &terms, NEW, status(answer, wishes));
            assert_eq!(got, expected, "{class:?} {answer} {wishes}");
            // There is no attempt left: what is not proven is in doubt, where that matters.
            let last = match (class, expected) {
                (Keyed, "again, in doubt") => "ask",
                (_, "again, in doubt" | "again") => "outcome",
                (_, same) => same,
            };
            let now = Situation { attempt: 2, ..NEW };
            assert_eq!(
                judged(&call(&[], false), &terms, now, status(answer, wishes)),
                last,
                "{class:?} {answer}"
            );
        }
    }
}

#[test]
fn a_refusal_does_not_end_the_doubt_of_an_attempt_before_it() {
    for (class, expected) in [
        (EffectClass::Keyed, "ask"),
        (EffectClass::Unsafe, "ask"),
        (EffectClass::Read, "outcome"),
        (EffectClass::Idempotent, "outcome"),
    ] {
        let terms = terms(class, 1, OnIndeterminate::Ask);
        for answer in [302, 400, 401, 404, 409, 422, 429] {
            let got = judged(&call(&[], false), &terms, SECOND, status(answer, false));
            assert_eq!(got, expected, "{class:?} {answer}");
        }
        assert_eq!(judged(&call(&[], false), &terms, SECOND, status(200, false)), "outcome", "{class:?}");
        let refused = lost(Received::No);
        let unsent = if expected == "ask" { "ask" } else { "fail" };
        assert_eq!(judged(&call(&[], false), &terms, SECOND, refused), unsent, "{class:?}");
    }
    let reports = terms(EffectClass::Keyed, 1, OnIndeterminate::Report);
    assert_eq!(judged(&call(&[], false), &reports, SECOND, status(404, false)), "indeterminate");
}

#[test]
fn an_error_of_a_tools_own_ends_no_doubt() {
    let error = || Ok(Outcome::ToolReturned(ToolReturn { is_error: true, ..ToolReturn::default() }));
    let success = || Ok(Outcome::ToolReturned(ToolReturn::default()));
    for class in [EffectClass::Keyed, EffectClass::Unsafe] {
        let terms = terms(class, 5, OnIndeterminate::Ask);
        assert_eq!(judged(&tool(), &terms, NEW, error()), "outcome", "{class:?}");
        assert_eq!(judged(&tool(), &terms, SECOND, error()), "ask", "{class:?}");
        assert_eq!(judged(&tool(), &terms, SECOND, success()), "outcome", "{class:?}");
    }
    let read = terms(EffectClass::Read, 5, OnIndeterminate::Ask);
    assert_eq!(judged(&tool(), &read, SECOND, error()), "outcome");
}

#[test]
fn a_documents_author_knows_what_a_status_means() {
    use StatusMeaning::{NotPerformed, Performed};
    let own = call(&[(409, Performed), (503, NotPerformed), (500, NotPerformed), (404, NotPerformed)], false);
    for class in [EffectClass::Keyed, EffectClass::Unsafe] {
        let terms = terms(class, 1, OnIndeterminate::Ask);
        assert_eq!(judged(&own, &terms, NEW, status(409, false)), "outcome", "{class:?}");
        assert_eq!(judged(&own, &terms, SECOND, status(409, false)), "outcome", "{class:?}");
        assert_eq!(judged(&own, &terms, NEW, status(503, false)), "again", "{class:?}");
        assert_eq!(judged(&own, &terms, NEW, status(404, false)), "outcome", "{class:?}");
        // It says nothing of the attempt before.
        assert_eq!(judged(&own, &terms, SECOND, status(404, false)), "ask", "{class:?}");
        let last = Situation { attempt: 2, ..NEW };
        assert_eq!(judged(&own, &terms, last, status(500, false)), "outcome", "{class:?}");
    }
}

#[test]
fn what_an_agents_file_says_of_a_doubt_stands_above_a_documents_retry_count() {
    use dalsegno_core::PartTerms;
    let Request::ApiCall(tolerant) = call(&[], true) else { unreachable!() };
    let decision = |on_indeterminate| {
        let parts = PartTerms { on_indeterminate, ..PartTerms::default() };
        let terms = Terms::of_api_call(&tolerant, OnIndeterminate::Ask, parts);
        judged(&call(&[], true), &Terms { pace: None, ..terms }, NEW, status(502, false))
    };
    assert_eq!(decision(None), "again, in doubt");
    assert_eq!(decision(Some(OnIndeterminate::Report)), "indeterminate");
    assert_eq!(decision(Some(OnIndeterminate::Ask)), "ask");
    let parts = PartTerms { timeout_ms: Some(7), retries: Some(8), on_indeterminate: None };
    let terms = Terms::of_api_call(&tolerant, OnIndeterminate::Ask, parts);
    assert_eq!((terms.timeout_ms, terms.retries), (7, 8));
}

#[test]
fn a_result_that_cannot_be_kept_is_one_of_an_effect_that_took_place() {
    let deep = (0..200).fold(json!(1), |value, _| json!([value]));
    let answer = || Ok(Outcome::ToolReturned(ToolReturn::structured(deep.clone())));
    let of = |class| terms(class, 3, OnIndeterminate::Ask);
    assert_eq!(judged(&tool(), &of(EffectClass::Unsafe), NEW, answer()), "unreadable");
    assert_eq!(judged(&tool(), &of(EffectClass::Keyed), SECOND, answer()), "unreadable");
    assert_eq!(judged(&tool(), &of(EffectClass::Read), NEW, answer()), "fail");
    let unreadable = || Ok(Outcome::Failed(Failure::new(FailureCode::ResultUnreadable, "too large")));
    assert_eq!(judged(&call(&[], false), &of(EffectClass::Keyed), SECOND, unreadable()), "unreadable");
}

#[test]
fn an_endpoint_is_not_tried_for_longer_than_its_document_allows() {
    let pace = Some(Pace { first_pause_ms: 500, most_ms: 60_000 });
    let terms = Terms { pace, ..terms(EffectClass::Read, 9, OnIndeterminate::Ask) };
    let at = |age| Situation { age: Duration::from_millis(age), ..NEW };
    let request = call(&[], false);
    let effect = Effect { id: ID, terms: &terms, request: &request };
    let RetryDecision::Again { pause, .. } = judge(effect, at(59_999), status(503, false)) else {
        panic!("it gave up too early")
    };
    assert!((250..=500).contains(&pause.as_millis()), "{pause:?}");
    assert_eq!(judged(&request, &terms, at(60_000), status(503, false)), "outcome");
}

#[test]
fn a_key_is_trusted_for_a_day_and_the_memorys_for_ever() {
    let old = Situation { key_age: KEY_TTL + Duration::from_secs(1), ..NEW };
    let keyed = terms(EffectClass::Keyed, 5, OnIndeterminate::Ask);
    assert_eq!(judged(&tool(), &keyed, old, lost(Received::Possibly)), "ask");
    let effect = |request| Effect { id: ID, terms: &keyed, request };
    let tool = tool();
    assert_eq!(word(&recover(effect(&tool), old)), "ask");
    // An answer names the doubt that it is about, so no two of an operation have the same words.
    let asked = |attempt| format!("{:?}", recover(effect(&tool), Situation { attempt, ..old }));
    assert_ne!(asked(1), asked(2));
    assert_ne!(asked(2), asked(3));
    assert_eq!(word(&recover(effect(&tool), NEW)), "again, in doubt");
    let memory = Request::MemoryCreate(Arc::new(dalsegno_core::MemoryCreate {
        entity: "e".to_owned(),
        entity_type: "t".to_owned(),
        content: "c".to_owned(),
        relations: Vec::new(),
    }));
    assert_eq!(word(&recover(effect(&memory), old)), "again, in doubt");
}

#[test]
fn an_attempt_that_waited_for_longer_than_its_key_counts_does_not_start() {
    let tool = tool();
    let old = Situation { key_age: KEY_TTL + Duration::from_secs(1), doubtful: true, ..NEW };
    for (class, now, policy, expected) in [
        (EffectClass::Keyed, old, OnIndeterminate::Ask, Some("ask")),
        (EffectClass::Keyed, old, OnIndeterminate::Report, Some("indeterminate")),
        (EffectClass::Keyed, old, OnIndeterminate::Retry, None),
        (EffectClass::Keyed, Situation { doubtful: false, ..old }, OnIndeterminate::Ask, None),
        (EffectClass::Keyed, Situation { key_age: KEY_TTL, ..old }, OnIndeterminate::Ask, None),
        (EffectClass::Idempotent, old, OnIndeterminate::Ask, None),
    ] {
        let terms = terms(class, 5, policy);
        let decision = start(Effect { id: ID, terms: &terms, request: &tool }, now);
        assert_eq!(decision.as_ref().map(word), expected, "{class:?} {policy:?}");
    }
}

#[test]
fn a_crash_never_repeats_an_unsafe_effect_on_its_own() {
    let tool = tool();
    let of = |class| terms(class, 0, OnIndeterminate::Ask);
    assert_eq!(
        word(&recover(Effect { id: ID, terms: &of(EffectClass::Unsafe), request: &tool }, NEW)),
        "ask"
    );
    for class in [EffectClass::Read, EffectClass::Idempotent, EffectClass::Keyed] {
        let terms = of(class);
        let effect = Effect { id: ID, terms: &terms, request: &tool };
        assert_eq!(word(&recover(effect, NEW)), "again, in doubt", "{class:?}");
    }
}

#[test]
fn an_effect_that_brings_its_process_down_is_not_started_for_ever() {
    let tool = tool();
    for (class, policy, end) in [
        (EffectClass::Read, OnIndeterminate::Ask, "crash loop"),
        (EffectClass::Idempotent, OnIndeterminate::Ask, "ask"),
        (EffectClass::Keyed, OnIndeterminate::Ask, "ask"),
        (EffectClass::Keyed, OnIndeterminate::Report, "indeterminate"),
        (EffectClass::Idempotent, OnIndeterminate::Retry, "ask"),
    ] {
        for retries in [0, 2] {
            let terms = terms(class, retries, policy);
            let effect = Effect { id: ID, terms: &terms, request: &tool };
            let at = |recoveries| word(&recover(effect, Situation { recoveries, ..NEW }));
            assert_eq!(at(retries + RECOVERIES - 1), "again, in doubt", "{class:?}");
            assert_eq!(at(retries + RECOVERIES), end, "{class:?} {policy:?}");
        }
    }
}

#[test]
fn what_ends_after_the_run_is_judged_by_the_same_rules() {
    let request = call(&[], false);
    let terms = terms(EffectClass::Keyed, 3, OnIndeterminate::Ask);
    let effect = Effect { id: ID, terms: &terms, request: &request };
    let said = |now, result| word(&RetryDecision::Take(late(effect, now, result)));
    assert_eq!(said(NEW, status(201, false)), "outcome");
    assert_eq!(said(NEW, status(404, false)), "outcome");
    assert_eq!(said(SECOND, status(404, false)), "indeterminate");
    assert_eq!(said(NEW, status(502, false)), "indeterminate");
    assert_eq!(said(NEW, lost(Received::No)), "fail");
    assert_eq!(said(SECOND, lost(Received::No)), "indeterminate");
}

#[test]
fn the_pause_is_the_same_each_time_and_grows_to_a_bound() {
    assert_eq!(backoff(ID, 1, FIRST_BACKOFF, None), backoff(ID, 1, FIRST_BACKOFF, None));
    assert!(
        backoff(ID, 1, FIRST_BACKOFF, None) >= FIRST_BACKOFF / 2
            && backoff(ID, 1, FIRST_BACKOFF, None) <= FIRST_BACKOFF
    );
    assert!(backoff(ID, 4, FIRST_BACKOFF, None) >= FIRST_BACKOFF * 4, "it doubles each time");
    assert!(backoff(ID, u32::MAX, FIRST_BACKOFF, None) <= LONGEST_BACKOFF);
    // Operations that failed together are not all repeated together.
    let pauses = (0..9).map(|id| backoff(OperationId::from_bytes([id; 16]), 1, FIRST_BACKOFF, None));
    assert!(pauses.collect::<std::collections::BTreeSet<_>>().len() > 1);
    assert_eq!(backoff(ID, 1, FIRST_BACKOFF, Some(Duration::from_secs(3))), Duration::from_secs(3));
}
