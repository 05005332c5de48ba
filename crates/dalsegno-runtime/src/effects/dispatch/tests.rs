//! What may start, what waits, what is refused.

use super::*;
use crate::effects::failure::AttemptError;

fn settings() -> DispatchSettings {
    DispatchSettings {
        concurrency: 4,
        tenant_concurrency: 2,
        queue: 3,
        breaker_failures: 2,
        breaker_cool_down: Duration::from_secs(10),
    }
}

fn server(name: &str) -> Target {
    Target::Server(name.to_owned())
}

fn dispatcher() -> Dispatcher {
    Dispatcher::new(settings(), BTreeMap::from([(server("slow"), 1)]))
}

fn now(admission: Admission) -> Permit {
    match admission {
        Admission::Now(permit) => permit,
        Admission::Later(_) => panic!("it must wait"),
        Admission::Refused(error) => panic!("it is refused: {}", error.failure.message),
    }
}

fn later(admission: Admission) -> Wait {
    match admission {
        Admission::Later(wait) => wait,
        Admission::Now(_) | Admission::Refused(_) => panic!("it does not wait"),
    }
}

fn refusal(admission: Admission) -> AttemptError {
    match admission {
        Admission::Refused(error) => error,
        Admission::Now(_) | Admission::Later(_) => panic!("it is not refused"),
    }
}

fn failed() -> Result<Outcome, AttemptError> {
    Err(refused(FailureCode::Unavailable, "away".into(), None))
}

#[tokio::test]
async fn a_servers_own_limit_holds_one_back_and_leaves_others_alone() {
    let dispatcher = dispatcher();
    let first = now(dispatcher.admit(&server("slow"), "a"));
    let second = later(dispatcher.admit(&server("slow"), "b"));
    let _other = now(dispatcher.admit(&server("fast"), "b"));
    assert_eq!(dispatcher.load(), Load { under_way: 2, queued: 1, open: Vec::new() });
    drop(first);
    let second = second.admitted().await.unwrap();
    assert_eq!(dispatcher.load().queued, 0);
    drop(second);
    assert_eq!(dispatcher.load().under_way, 1);
}

#[tokio::test]
async fn a_tenant_at_its_limit_keeps_no_other_tenant_waiting() {
    let dispatcher = dispatcher();
    let held: Vec<_> = (0..2).map(|_| now(dispatcher.admit(&server("fast"), "greedy"))).collect();
    let waiting: Vec<_> = (0..3).map(|_| later(dispatcher.admit(&server("fast"), "greedy"))).collect();
    let mut waiting: Vec<_> = waiting.into_iter().map(|wait| Box::pin(wait.admitted())).collect();
    for wait in &mut waiting {
        assert!(futures::poll!(wait.as_mut()).is_pending());
    }
    let _other = now(dispatcher.admit(&server("fast"), "modest"));
    drop(held);
    for wait in waiting {
        drop(wait.await.unwrap());
    }
}

#[tokio::test]
async fn a_full_queue_is_overload_and_nothing_was_sent() {
    let dispatcher = dispatcher();
    let _first = now(dispatcher.admit(&server("slow"), "a"));
    let waiting: Vec<_> = (0..3).map(|_| later(dispatcher.admit(&server("slow"), "b"))).collect();
    let error = refusal(dispatcher.admit(&server("slow"), "b"));
    assert_eq!(error.failure.code, FailureCode::Overloaded);
    assert_eq!(error.received, Received::No);
    assert!(error.transient);
    assert_eq!(error.failure.message, "the tool server `slow` is overloaded: 3 effects wait for it already");
    // Another tenant has a queue of its own.
    let other = later(dispatcher.admit(&server("slow"), "c"));
    assert_eq!(dispatcher.load().queued, 4);
    drop((waiting, other));
    assert_eq!(dispatcher.load().queued, 0);
    later(dispatcher.admit(&server("slow"), "b"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_left_alone_for_a_while_and_then_asked_once() {
    let dispatcher = dispatcher();
    for _ in 0..2 {
        now(dispatcher.admit(&server("fast"), "a")).settle(&failed());
    }
    let error = refusal(dispatcher.admit(&server("fast"), "a"));
    assert_eq!(error.failure.code, FailureCode::Unavailable);
    assert_eq!(error.received, Received::No);
    assert_eq!(error.after, Some(Duration::from_secs(10)));
    assert_eq!(dispatcher.load().open, ["the tool server `fast`"]);
    drop(now(dispatcher.admit(&server("slow"), "a")));
    tokio::time::advance(Duration::from_secs(10)).await;
    let probe = now(dispatcher.admit(&server("fast"), "a"));
    refusal(dispatcher.admit(&server("fast"), "a"));
    probe.settle(&Ok(Outcome::TimerFired));
    now(dispatcher.admit(&server("fast"), "a")).settle(&Ok(Outcome::TimerFired));
    assert!(dispatcher.load().open.is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_waited_is_refused_when_the_breaker_opened_meanwhile() {
    let dispatcher = dispatcher();
    let first = now(dispatcher.admit(&server("slow"), "a"));
    let second = later(dispatcher.admit(&server("slow"), "a"));
    first.settle(&failed());
    let second = second.admitted().await.unwrap();
    let third = later(dispatcher.admit(&server("slow"), "a"));
    second.settle(&failed());
    let error = third.admitted().await.unwrap_err();
    assert!(error.failure.message.contains("failed 2 times in a row"), "{}", error.failure.message);
    // Its place is free again.
    assert_eq!(dispatcher.load().queued, 0);
}

#[tokio::test(start_paused = true)]
async fn the_failures_of_one_tenant_stop_no_other() {
    let dispatcher = dispatcher();
    for _ in 0..2 {
        now(dispatcher.admit(&server("fast"), "a")).settle(&failed());
    }
    refusal(dispatcher.admit(&server("fast"), "a"));
    assert_eq!(dispatcher.load().open, ["the tool server `fast`"]);
    for _ in 0..3 {
        now(dispatcher.admit(&server("fast"), "b")).settle(&Ok(Outcome::TimerFired));
    }
    // What works for one says nothing of the other.
    refusal(dispatcher.admit(&server("fast"), "a"));
    tokio::time::advance(Duration::from_secs(10)).await;
    now(dispatcher.admit(&server("fast"), "a")).settle(&Ok(Outcome::TimerFired));
    let lane = dispatcher.lane(&server("fast"));
    assert!(lane.breakers().is_empty(), "a breaker that knows of no failure takes no room");
}

#[tokio::test]
async fn a_failure_that_is_an_answer_opens_no_breaker() {
    let dispatcher = dispatcher();
    for _ in 0..10 {
        let refusal = AttemptError { transient: false, ..failed().unwrap_err() };
        now(dispatcher.admit(&server("fast"), "a")).settle(&Err(refusal));
    }
    now(dispatcher.admit(&server("fast"), "a"));
}
