//! Answers of people that come too late, contradict each other, or find a workspace that cannot be used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dalsegno_core::{AgentRequest, EffectClass, RunId, Timestamp};
use dalsegno_runtime::{Clock, Engine, EngineError, GateInput, Settlement, StartOptions};

use crate::support::{Behaviour, World, answer, waits};

const ASKS: &str = "[tools]\nallow = [\"*\"]\n[limits]\nanswer_timeout = \"1h\"\n\
    [[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 1 }\napprove = true\non_failure = \"report\"\n\
    [[steps]]\nrespond = \"{{steps.it}}\"\n";

const HOUR: u64 = 3_600_000;

/// A clock that a test moves.
#[derive(Clone)]
struct Watch(Arc<AtomicU64>);

impl Clock for Watch {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

fn world() -> World {
    World::new(ASKS).tool("local.it", EffectClass::Unsafe, Behaviour::Echo)
}

fn yes() -> GateInput {
    says(Settlement::Approve { edited: None, reason: None })
}

fn no(reason: &str) -> GateInput {
    says(Settlement::Deny { reason: Some(reason.to_owned()) })
}

fn says(settlement: Settlement) -> GateInput {
    GateInput { operation: None, seen: None, settlement, by: None }
}

async fn asked(engine: &Engine) -> RunId {
    asked_as(engine, "default").await
}

/// A run of a tenant that waits for an approval.
async fn asked_as(engine: &Engine, tenant: &str) -> RunId {
    let request = AgentRequest { tenant: tenant.to_owned(), ..AgentRequest::text("go") };
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    let report = handle.finish().await.unwrap();
    assert_eq!(waits(&report).len(), 1);
    report.run
}

fn is_late(error: &EngineError) -> bool {
    matches!(error, EngineError::Answer { is_late: true, .. })
}

#[tokio::test]
async fn an_answer_after_its_time_is_refused_also_where_no_process_has_noticed() {
    let world = world();
    let watch = Watch(Arc::new(AtomicU64::new(1_000 * HOUR)));
    // A clock that jumps while a process lives takes nothing from the time to answer.
    let open = async || world.builder().clock(watch.clone()).open(world.path()).await.unwrap();
    let run = asked(&open().await).await;
    watch.0.store(1_001 * HOUR, Ordering::SeqCst);
    let engine = open().await;
    for given in [yes(), no("too dear")] {
        let error = engine.resume(run, vec![given.clone()]).await.unwrap_err();
        assert!(is_late(&error), "{error:?}");
        assert!(error.to_string().contains("resume the run without an answer"), "{error}");
        let error = engine.pass_on(run, vec![given]).await.unwrap_err();
        assert!(is_late(&error), "{error:?}");
    }
    assert!(engine.journal().store().inbox(run).await.unwrap().is_empty());
    let report = engine.resume(run, Vec::new()).await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&report), r#"{"error":{"code":"denied","message":"no answer within 3600 s"}}"#);
    assert_eq!(world.count("local.it"), 0);
}

#[tokio::test]
async fn an_answer_in_the_last_moment_counts() {
    let world = world();
    let watch = Watch(Arc::new(AtomicU64::new(1_000 * HOUR)));
    // A clock that jumps while a process lives takes nothing from the time to answer.
    let open = async || world.builder().clock(watch.clone()).open(world.path()).await.unwrap();
    let run = asked(&open().await).await;
    watch.0.store(1_001 * HOUR - 1, Ordering::SeqCst);
    let report = open().await.resume(run, vec![yes()]).await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&report), r#"{"n":1}"#);
}

#[tokio::test]
async fn of_two_answers_the_first_counts_and_the_second_is_refused() {
    let world = world();
    let engine = world.engine().await;
    let run = asked(&engine).await;
    engine.pass_on(run, vec![no("too dear")]).await.unwrap();
    // The same answer again, by another person with other words, is no other answer.
    engine.pass_on(run, vec![no("far too dear")]).await.unwrap();
    assert_eq!(engine.journal().store().inbox(run).await.unwrap().len(), 1);
    let error = engine.pass_on(run, vec![yes()]).await.unwrap_err();
    assert!(is_late(&error), "{error:?}");
    assert!(error.to_string().contains("has got another answer already"), "{error}");
    let error = engine.resume(run, vec![yes()]).await.unwrap_err();
    assert!(is_late(&error), "{error:?}");
    let report = engine.resume(run, Vec::new()).await.unwrap().finish().await.unwrap();
    assert!(answer(&report).contains("too dear"), "{report:?}");
    assert_eq!(world.count("local.it"), 0);
}

#[tokio::test]
async fn of_answers_at_the_same_time_exactly_one_is_confirmed() {
    for round in 0..20 {
        let world = world();
        let (one, other) = (world.engine().await, world.engine().await);
        let run = asked(&one).await;
        // In every second round a process takes the answers while they are given.
        let takes = async {
            if round % 2 == 0 {
                return;
            }
            while one.journal().store().inbox(run).await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
            one.resume(run, Vec::new()).await.unwrap().finish().await.unwrap();
        };
        let (approved, denied, ()) =
            tokio::join!(one.pass_on(run, vec![yes()]), other.pass_on(run, vec![no("no")]), takes);
        let world_says = if round % 2 == 0 {
            one.resume(run, Vec::new()).await.unwrap().finish().await.unwrap();
            world.count("local.it")
        } else {
            world.count("local.it")
        };
        assert_eq!(
            (approved.is_ok(), denied.is_ok()),
            (world_says == 1, world_says == 0),
            "{approved:?} {denied:?}"
        );
    }
}

#[tokio::test]
async fn without_the_file_of_its_tenant_a_run_does_not_continue_and_keeps_its_question() {
    let world = world().tenants(&["acme"]);
    let run = asked_as(&world.engine().await, "acme").await;
    let file = world.path().join("tenants/acme.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let engine = world.engine().await;
    let error = engine.resume(run, vec![yes()]).await.unwrap_err();
    assert!(matches!(error, EngineError::Tenant(_)), "{error:?}");
    assert_eq!(world.count("local.it"), 0);
    std::fs::write(&file, text).unwrap();
    let report = world.engine().await.resume(run, vec![yes()]).await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&report), r#"{"n":1}"#);
}

#[tokio::test]
async fn a_slip_in_the_list_of_tools_uses_no_approval_up() {
    let agent = |allow: &str| {
        format!(
            "prompt = \"{{{{request.text}}}}\"\n[model]\nuse = \"default\"\n\
             [tools]\nallow = [\"{allow}\"]\napprove = [\"{allow}\"]\n"
        )
    };
    let script = "[[replies]]\n[[replies.calls]]\nname = \"local.it\"\narguments = { n = 1 }\n\
                  [[replies]]\ntext = \"done\"\n";
    let world =
        World::new(&agent("local.it")).script(script).tool("local.it", EffectClass::Unsafe, Behaviour::Echo);
    let run = asked(&world.engine().await).await;
    let world = world.agent("a", &agent("local.ti"));
    let error = world.engine().await.resume(run, vec![yes()]).await.unwrap_err();
    let EngineError::BrokenAgent { diagnostics, .. } = &error else { panic!("{error:?}") };
    assert!(diagnostics.iter().any(|found| found.message.contains("local.ti")), "{diagnostics:?}");
    assert_eq!(world.count("local.it"), 0);
    let world = world.agent("a", &agent("local.it"));
    let report = world.engine().await.resume(run, vec![yes()]).await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&report), "done");
    assert_eq!(world.count("local.it"), 1);
}
