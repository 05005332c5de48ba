//! Forks, comparisons, replays under another configuration, and runs that travel.

use std::collections::BTreeSet;

use dalsegno_core::{AgentRequest, EffectClass, OperationId, RunId};
use dalsegno_runtime::{
    Archives, Engine, EngineError, ForkOptions, Journal, RunReport, Settlement, StartOptions, WorkerOptions,
};
use dalsegno_store::RunFilter;
use serde_json::json;

use crate::support::{Behaviour, World, answer, waits};

const TWO: &str = r#"
[tools]
allow = ["*"]
[[steps]]
id = "first"
tool = "local.read"
with = { n = 1 }
[[steps]]
when = "steps.first.n < 5"
id = "second"
tool = "local.write"
with = { n = "{{steps.first.n}}" }
[[steps]]
respond = "first {{steps.first.n}}, second {{steps.second}}"
"#;

fn two() -> World {
    World::new(TWO).tool("local.read", EffectClass::Read, Behaviour::Echo).tool(
        "local.write",
        EffectClass::Unsafe,
        Behaviour::Echo,
    )
}

async fn operations(engine: &Engine, run: RunId) -> Vec<(u64, OperationId)> {
    let inspection = engine.journal().inspect(run, None).await.unwrap();
    let steps = inspection.steps.iter();
    steps.flat_map(|step| step.operations.iter().map(|one| (step.step, one.operation))).collect()
}

async fn fork(world: &World, run: RunId, options: ForkOptions) -> RunReport {
    world.engine().await.fork(run, options).await.unwrap().finish().await.unwrap()
}

#[tokio::test]
async fn a_replaced_outcome_leads_to_another_end_under_new_ids() {
    let world = two();
    let original = world.run("go").await;
    assert_eq!(answer(&original), r#"first 1, second {"n":1}"#);
    let engine = world.engine().await;
    let before = operations(&engine, original.run).await;
    let set = vec![(before[0].1, json!({ "n": 2 }))];
    let forked = fork(&world, original.run, ForkOptions { set, ..ForkOptions::default() }).await;
    // An unsafe effect asks first in a fork.
    assert_eq!(waits(&forked)[0].tool.as_ref().unwrap().as_str(), "local.write");
    assert_eq!(world.count("local.write"), 1);
    let forked = world.resume(forked.run, Some(Settlement::Approve { edited: None, reason: None })).await;
    assert_eq!(answer(&forked), r#"first 2, second {"n":2}"#);
    assert_eq!((world.count("local.read"), world.count("local.write")), (1, 2), "the prefix is shared");
    let after = operations(&engine, forked.run).await;
    assert!(after.iter().all(|one| !before.contains(one)), "{before:?} {after:?}");
    assert!(engine.journal().replay(forked.run).await.unwrap().identical);

    let diff = engine.journal().diff(original.run, forked.run).await.unwrap();
    let first = diff.first.as_ref().unwrap();
    assert_eq!((first.step, first.kind), (1, "outcome"), "{diff:?}");
    assert!(diff.state.iter().any(|change| change.path == "/steps/first/n"), "{diff:?}");
    assert!(diff.arguments.as_ref().unwrap().changes.iter().any(|change| change.path == "/n"), "{diff:?}");
}

#[tokio::test]
async fn a_fork_that_asked_for_nothing_itself_can_be_forked() {
    let world = two();
    let original = world.run("go").await;
    let at = |step| ForkOptions { at: Some(step), ..ForkOptions::default() };
    // What is left after the second step is to respond.
    let first = fork(&world, original.run, at(3)).await;
    assert_eq!(answer(&first), answer(&original));
    let second = fork(&world, first.run, at(2)).await;
    assert_eq!((waits(&second).len(), world.count("local.write")), (1, 1));
    let third = fork(&world, first.run, at(3)).await;
    assert_eq!(answer(&third), answer(&original));
    let refused = world.engine().await.fork(first.run, at(4)).await.unwrap_err().to_string();
    assert!(refused.contains("its last step is 2, so it cannot be forked at step 4"), "{refused}");
}

#[tokio::test]
async fn a_replaced_outcome_may_change_the_course() {
    let world = two();
    let original = world.run("go").await;
    let engine = world.engine().await;
    let first = operations(&engine, original.run).await[0].1;
    let set = vec![(first, json!({ "n": 7 }))];
    let forked = fork(&world, original.run, ForkOptions { set, ..ForkOptions::default() }).await;
    assert_eq!(answer(&forked), "first 7, second ");
    assert!(engine.journal().replay(forked.run).await.unwrap().identical);
    // A fork of the fork shares the prefix of the first run.
    let again =
        fork(&world, forked.run, ForkOptions { at: Some(1), live_effects: true, ..ForkOptions::default() })
            .await;
    assert_eq!(answer(&again), r#"first 1, second {"n":1}"#);
    assert!(engine.journal().replay(again.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_fork_that_cannot_be_is_refused_in_words() {
    let world = two();
    let run = world.run("go").await.run;
    let engine = world.engine().await;
    let first = operations(&engine, run).await[0].1;
    let wrong = [
        ForkOptions::default(),
        ForkOptions { at: Some(9), ..ForkOptions::default() },
        ForkOptions { at: Some(1), set: vec![(first, json!(1))], ..ForkOptions::default() },
        ForkOptions { set: vec![(OperationId::from_bytes([7; 16]), json!(1))], ..ForkOptions::default() },
        ForkOptions { at: Some(1), model: Some("x".to_owned()), ..ForkOptions::default() },
    ];
    for options in wrong {
        let error = engine.fork(run, options).await.unwrap_err();
        assert!(error.to_string().contains("cannot be forked"), "{error}");
    }
}

#[tokio::test]
async fn another_configuration_shows_changed_requests_apart_from_a_changed_course() {
    let world = two();
    let run = world.run("go").await.run;
    let engine = world.engine().await;
    let under = async |file: String| {
        let changed = World::new(&file).tool("local.read", EffectClass::Read, Behaviour::Echo).tool(
            "local.write",
            EffectClass::Unsafe,
            Behaviour::Echo,
        );
        let config = changed.engine().await.agent_config(&"a".parse().unwrap()).await.unwrap();
        engine.journal().replay_with(run, config).await.unwrap()
    };
    let same = under(TWO.to_owned()).await;
    assert!(same.identical, "{same:?}");
    let neither = under(format!("[limits]\nmax_steps = 9\n{TWO}")).await;
    assert!(neither.identical, "{neither:?}");
    let reworded = under(TWO.replace("with = { n = 1 }", "with = { n = 1, note = \"please\" }")).await;
    assert!(!reworded.identical && reworded.divergence.is_none(), "{reworded:?}");
    assert_eq!(reworded.changed_requests[0].changes[0].path, "/note");
    let course = under(TWO.replace("< 5", "< 1")).await;
    assert_eq!(course.divergence.as_ref().unwrap().step, 2, "{course:?}");
    assert!(course.changed_requests.is_empty());
}

#[tokio::test]
async fn a_run_travels_with_all_that_a_replay_reads() {
    let world = two();
    let original = world.run("go").await.run;
    let engine = world.engine().await;
    let first = operations(&engine, original).await[0].1;
    let set = vec![(first, json!({ "n": 7 }))];
    let forked = fork(&world, original, ForkOptions { set, ..ForkOptions::default() }).await.run;
    let bytes = engine.journal().export(forked).await.unwrap().encode();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("dalsegno.toml"), "").unwrap();
    let settings = dalsegno_workspace::Workspace::load(elsewhere.path()).settings.unwrap();
    let other = Journal::open(&settings.store).await.unwrap();
    let archives = Archives::new(other.clone(), &settings);
    let archive = dalsegno_store::Archive::decode(&bytes).unwrap();
    assert_eq!(archives.import(archive.clone()).await.unwrap().added.len(), 2);
    assert!(other.replay(forked).await.unwrap().identical);
    assert_eq!(archives.import(archive).await.unwrap().known.len(), 2);
}

/// An hour later than it is.
#[derive(Debug)]
struct Later;

impl dalsegno_runtime::Clock for Later {
    fn now(&self) -> dalsegno_core::Timestamp {
        let now = dalsegno_runtime::SystemClock.now();
        dalsegno_core::Timestamp::from_millis(now.as_millis() + 3_600_000)
    }
}

/// Waits for a time that a worker waits for in another process, then writes.
fn sleeper() -> World {
    let agent = "[tools]\nallow = [\"*\"]\n[[steps]]\nwait = \"10m\"\n[[steps]]\ntool = \"local.write\"\nwith = { n = 1 }\n";
    World::new(agent).tool("local.write", EffectClass::Unsafe, Behaviour::Echo)
}

#[tokio::test]
async fn nothing_of_a_run_that_an_archive_brought_is_performed() {
    let home = sleeper();
    let engine = home.engine().await;
    let options =
        StartOptions { session: Some("s".into()), key: Some("k".into()), ..StartOptions::default() };
    let a = "a".parse().unwrap();
    let start = engine.start(&a, AgentRequest::text("go"), options.clone()).await;
    let run = start.unwrap().finish().await.unwrap().run;
    let archive = engine.journal().export(run).await.unwrap();

    // The same workspace elsewhere, with a worker that comes when the time is over.
    let elsewhere = sleeper();
    let engine = elsewhere.builder().clock(Later).open(elsewhere.path()).await.unwrap();
    let report = engine.archives().import(archive).await.unwrap();
    assert_eq!(report.added, [run]);
    let names = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>();
    assert_eq!(names(&report.brings.agents), ["a"]);
    assert!(report.brings.tools.contains("local.write"), "{:?}", report.brings);
    assert_eq!(names(&report.brings.tenants), ["default"]);
    assert_eq!(names(&report.brings.sessions), ["s"]);
    let idle = WorkerOptions { until_idle: true, ..WorkerOptions::default() };
    let worked = engine.work(&idle, std::future::pending(), |_| {}).await.unwrap();
    assert_eq!((worked.taken, worked.failed), (0, 0));
    let foreign = |error: EngineError| {
        assert!(matches!(error, EngineError::Foreign { run: found } if found == run), "{error}");
    };
    foreign(engine.resume(run, Vec::new()).await.err().unwrap());
    foreign(engine.cancel(run, None, None).await.unwrap_err());
    foreign(engine.pass_on(run, Vec::new()).await.unwrap_err());
    foreign(engine.give_up(run, Vec::new(), None, None).await.err().unwrap());
    let error = engine.tell_to_look(run).await.unwrap_err();
    assert!(matches!(error, dalsegno_store::PostError::Foreign { .. }), "{error}");

    // No session goes on from it, not even when it is named; and it holds no start key.
    let after = StartOptions { after: Some(run), ..StartOptions::default() };
    foreign(engine.start(&a, AgentRequest::text("go"), after).await.err().unwrap());
    let own = engine.start(&a, AgentRequest::text("go"), options).await.unwrap().finish().await.unwrap();
    assert_ne!(own.run, run);
    assert_eq!(engine.journal().predecessor(own.run).await.unwrap(), None);
    assert_eq!(elsewhere.count("local.write"), 0);

    // It is read and forked like any other: with the agent that this workspace has.
    assert!(engine.journal().replay(run).await.unwrap().identical);
    assert!(engine.journal().diff(run, own.run).await.is_ok());
    let forked = engine.fork(run, ForkOptions { at: Some(1), ..ForkOptions::default() }).await.unwrap();
    let forked = forked.finish().await.unwrap();
    assert!(
        engine.journal().runs(&RunFilter::default()).await.unwrap().iter().any(|one| one.run == forked.run)
    );
    assert!(engine.journal().replay(forked.run).await.unwrap().identical);
    let empty = World::new("[[steps]]\nrespond = \"hello\"\n").agent("b", "[[steps]]\nrespond = \"hello\"\n");
    std::fs::remove_file(empty.path().join("agents/a.toml")).unwrap();
    let stranger = empty.engine().await;
    stranger.archives().import(engine.journal().export(run).await.unwrap()).await.unwrap();
    let error =
        stranger.fork(run, ForkOptions { at: Some(1), ..ForkOptions::default() }).await.err().unwrap();
    assert!(matches!(error, EngineError::UnknownAgent { .. }), "{error}");
}

#[tokio::test]
async fn a_fork_of_a_foreign_run_knows_the_user_and_the_tenant_of_this_workspace() {
    let home = two();
    let mut request = AgentRequest::text("go");
    // As an archive may have it that somebody made by hand: a reference to the secret of another run.
    request.user = json!({ "name": "mallory", "auth_token": "token" });
    request.tenant_settings = json!({ "base_url": "https://evil.example" });
    let engine = home.engine().await;
    let start = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await;
    let run = start.unwrap().finish().await.unwrap().run;
    let before = engine.journal().inspect(run, None).await.unwrap().state;
    assert!(before.request().user["auth_token"]["dalsegno_secret"].is_string(), "{:?}", before.request());
    let archive = engine.journal().export(run).await.unwrap();
    let elsewhere = two();
    let engine = elsewhere.engine().await;
    engine.archives().import(archive).await.unwrap();
    let options = ForkOptions { at: Some(2), ..ForkOptions::default() };
    let forked = engine.fork(run, options).await.unwrap().finish().await.unwrap();
    let state = engine.journal().inspect(forked.run, None).await.unwrap().state;
    assert_eq!(state.request().user, json!({ "name": "mallory", "auth_token": null }));
    assert_eq!(state.request().tenant_settings, json!(null));
    assert_eq!(waits(&forked).len(), 1, "an unsafe effect asks first");
}
