//! How long instances live, how many there are, and what happens when many callers come at once.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use dalsegno_sandbox::{
    Allocation, CallErrorKind, Lifetime, Received, Sandbox, SandboxOptions, ServerConfig, ServerSession,
    ToolServer,
};
use serde_json::json;

use support::{arguments, call, load, server};

async fn fine(session: &ServerSession) {
    let answer = session.call("any", arguments(json!({})), call()).await.unwrap();
    assert_eq!(answer.text, "fine");
}

async fn guest(change: impl FnOnce(&mut ServerConfig)) -> ToolServer {
    load(&server("(loop $spin (br $spin))"), change).await
}

#[tokio::test]
async fn every_call_gets_an_instance_of_its_own_if_configured_so() {
    let server = guest(|config| config.lifetime = Lifetime::PerCall).await;
    let session = server.open("tenant");
    for _ in 0..3 {
        fine(&session).await;
    }
    assert_eq!(server.stats().started, 3);
}

#[tokio::test]
async fn the_calls_of_a_run_share_an_instance_and_two_runs_do_not() {
    let server = guest(|_| {}).await;
    let (one, other) = (server.open("tenant"), server.open("tenant"));
    for session in [&one, &one, &other, &other] {
        fine(session).await;
    }
    assert_eq!(server.stats().started, 2);
}

#[tokio::test]
async fn a_shared_instance_serves_one_tenant_only() {
    let server = guest(|config| config.lifetime = Lifetime::Shared).await;
    for _ in 0..2 {
        let session = server.open("acme");
        fine(&session).await;
        session.close().await;
    }
    assert_eq!(server.stats().started, 1);
    fine(&server.open("globex")).await;
    assert_eq!(server.stats().started, 2);
    fine(&server.open("acme")).await;
    assert_eq!(server.stats().started, 2);
}

#[tokio::test]
async fn a_shared_instance_that_broke_is_replaced_for_everybody() {
    let server = load(&server("unreachable"), |config| config.lifetime = Lifetime::Shared).await;
    let (one, other) = (server.open("tenant"), server.open("tenant"));
    fine(&one).await;
    let error = other.call("any", arguments(json!({"do": "~"})), call()).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Trap);
    fine(&one).await;
    fine(&other).await;
    assert_eq!(server.stats().started, 2);
}

#[tokio::test]
async fn the_instance_that_was_idle_the_longest_makes_room() {
    let server = guest(|config| config.limits.instances = 2).await;
    let sessions: Vec<ServerSession> = (0..3).map(|_| server.open("tenant")).collect();
    for session in &sessions {
        fine(session).await;
    }
    assert_eq!(server.stats().started, 3);
    // The last two are there still; the first one made room.
    fine(&sessions[1]).await;
    fine(&sessions[2]).await;
    assert_eq!(server.stats().started, 3);
    fine(&sessions[0]).await;
    assert_eq!(server.stats().started, 4);
}

#[tokio::test]
async fn a_busy_instance_does_not_make_room() {
    let server = guest(|config| {
        config.limits.instances = 1;
        config.limits.start_timeout = Duration::from_millis(500);
    })
    .await;
    let busy = server.open("tenant");
    fine(&busy).await;
    let spinning = async { busy.call("any", arguments(json!({"do": "~"})), call()).await.map(|_| ()) };
    let other = server.open("tenant");
    let waiting = async { other.call("any", arguments(json!({})), call()).await };
    tokio::select! {
        biased;
        ended = spinning => panic!("{ended:?}"),
        refused = waiting => {
            let error = refused.unwrap_err();
            assert_eq!((error.kind, error.received), (CallErrorKind::Overloaded, Received::No), "{error}");
        }
    }
}

#[tokio::test]
async fn a_call_waits_for_its_place_and_not_for_ever() {
    let server = guest(|config| {
        config.limits.concurrency = 1;
        config.limits.call_timeout = Duration::from_millis(300);
    })
    .await;
    let (busy, other) = (server.open("tenant"), server.open("tenant"));
    fine(&busy).await;
    let spin = busy.call("any", arguments(json!({"do": "~"})), call());
    let wait = other.call("any", arguments(json!({})), call());
    let (spun, waited) = tokio::join!(spin, wait);
    assert_eq!(spun.unwrap_err().kind, CallErrorKind::Timeout);
    // Either the place came free with the timeout of the first, or the patience of the second ended just before.
    if let Err(error) = waited {
        assert_eq!((error.kind, error.received), (CallErrorKind::Overloaded, Received::No), "{error}");
    }
    fine(&other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_calls_at_once_are_all_answered_by_a_few_instances() {
    let server = guest(|config| {
        config.lifetime = Lifetime::PerCall;
        config.limits.concurrency = 8;
        config.limits.call_timeout = Duration::from_secs(300);
    })
    .await;
    let session = Arc::new(server.open("tenant"));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..3_000 {
        let session = Arc::clone(&session);
        calls.spawn(async move {
            let context = dalsegno_sandbox::CallContext::new("op", Duration::from_secs(300));
            session.call("any", arguments(json!({})), context).await.unwrap().text
        });
    }
    let mut most = 0;
    while let Some(text) = calls.join_next().await {
        assert_eq!(text.unwrap(), "fine");
        most = most.max(server.stats().busy);
    }
    assert!(most <= 8, "{most}");
    let stats = server.stats();
    assert_eq!((stats.calls, stats.failures, stats.started), (3_000, 0, 3_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_instances_live_at_once() {
    let server = guest(|_| {}).await;
    let sessions: Vec<ServerSession> = (0..1_000).map(|_| server.open("tenant")).collect();
    for session in &sessions {
        fine(session).await;
    }
    assert_eq!((server.stats().instances, server.stats().started), (1_000, 1_000));
}

#[tokio::test]
async fn instances_run_without_reserved_places_too() {
    let options = SandboxOptions { allocation: Allocation::OnDemand, ..SandboxOptions::default() };
    let sandbox = Sandbox::new(options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guest.wasm");
    std::fs::write(&path, wat::parse_str(server("")).unwrap()).unwrap();
    let server = sandbox.load(ServerConfig::new("guest", &path)).await.unwrap();
    fine(&server.open("tenant")).await;
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_with_little_address_space_does_without_reserved_places() {
    let inner = "the_calls_of_a_run_share_an_instance_and_two_runs_do_not";
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -v 14000000 && exec \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(inner)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}
