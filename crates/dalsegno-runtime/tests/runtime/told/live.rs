//! A workspace whose files change while an engine uses it.

use std::time::Duration;

use dalsegno_core::{AgentRequest, EffectClass};
use dalsegno_memory::{Delete, SearchQuery};
use dalsegno_runtime::{
    Engine, EngineError, Look, MemoryPlace, RunReport, Settlement, StartOptions, WorkerEvent, WorkerOptions,
};
use serde_json::json;

use crate::support::{Behaviour, World, answer, waits};

fn says(text: &str) -> String {
    format!("name = \"a\"\nversion = \"1.0.0\"\ndescription = \"A test.\"\n[[steps]]\nrespond = \"{text}\"\n")
}

async fn run(engine: &Engine, tenant: &str) -> RunReport {
    let request = AgentRequest { tenant: tenant.to_owned(), ..AgentRequest::text("hi") };
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    handle.finish().await.unwrap()
}

#[tokio::test]
async fn a_changed_agent_is_used_by_the_next_start() {
    let world = World::new("[[steps]]\nrespond = \"one\"\n");
    let engine = world.engine().await;
    let agent = world.path().join("agents/a.toml");
    for text in ["one", "two", "three"] {
        std::fs::write(&agent, says(text)).unwrap();
        assert_eq!(answer(&run(&engine, "default").await), text);
    }
    assert!(matches!(engine.look().await, Look::Unchanged));
}

#[tokio::test]
async fn a_run_keeps_the_agent_that_it_began_with() {
    let world = World::new(
        "[tools]\nallow = [\"*\"]\napprove = [\"t.it\"]\n[[steps]]\ntool = \"t.it\"\n[[steps]]\nrespond = \"one\"\n",
    )
    .tool("t.it", EffectClass::Read, Behaviour::Echo);
    let engine = world.engine().await;
    let report = run(&engine, "default").await;
    assert_eq!(waits(&report).len(), 1);
    let changed = says("two").replace("[[steps]]", "[tools]\nallow = [\"*\"]\n[[steps]]");
    std::fs::write(world.path().join("agents/a.toml"), changed).unwrap();
    assert_eq!(answer(&run(&engine, "default").await), "two");
    let settlement = Settlement::Approve { edited: None, reason: None };
    let input = dalsegno_runtime::GateInput { operation: None, seen: None, settlement, by: None };
    let resumed = engine.resume(report.run, vec![input]).await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&resumed), "one");
}

#[tokio::test]
async fn what_cannot_be_used_leaves_the_workspace_as_it_was_until_it_is_mended() {
    let world = World::new("[[steps]]\nrespond = \"one\"\n");
    let engine = world.engine().await;
    let (settings, agent) = (world.path().join("dalsegno.toml"), world.path().join("agents/a.toml"));
    let sound = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, "[unknown]\n").unwrap();
    std::fs::write(&agent, says("two")).unwrap();
    let Look::Refused(diagnostics) = engine.look().await else { panic!("it is refused") };
    assert!(diagnostics.iter().any(|found| found.is_error() && found.file.ends_with("dalsegno.toml")));
    assert!(matches!(engine.look().await, Look::Unchanged), "the same errors are told once");
    assert_eq!(answer(&run(&engine, "default").await), "one");
    std::fs::write(&settings, sound).unwrap();
    assert_eq!(answer(&run(&engine, "default").await), "two");
}

#[tokio::test]
async fn an_agent_with_errors_is_out_of_use_until_it_is_mended_and_no_other_is() {
    let asks = "[tools]\nallow = [\"*\"]\napprove = [\"t.it\"]\n[[steps]]\ntool = \"t.it\"\n[[steps]]\nrespond = \"one\"\n";
    let world = World::new(asks).tool("t.it", EffectClass::Read, Behaviour::Echo);
    let engine = world.engine().await;
    let waiting = run(&engine, "default").await;
    assert_eq!(waits(&waiting).len(), 1);
    let agent = world.path().join("agents/a.toml");
    let sound = std::fs::read_to_string(&agent).unwrap();
    std::fs::write(&agent, "name = \"a\"\n[[steps]]\nrespo").unwrap();
    std::fs::write(world.path().join("agents/b.toml"), says("two").replace("name = \"a\"", "name = \"b\""))
        .unwrap();
    let Look::Taken(workspace) = engine.look().await else { panic!("the rest is in use") };
    assert!(
        workspace.broken.agents.contains_key("a") && workspace.agents.contains_key(&"b".parse().unwrap())
    );
    // Neither with fewer rights nor with those it began with: it waits.
    let settlement = Settlement::Approve { edited: None, reason: None };
    let yes = || {
        let settlement = settlement.clone();
        vec![dalsegno_runtime::GateInput { operation: None, seen: None, settlement, by: None }]
    };
    let refused = engine.resume(waiting.run, yes()).await.unwrap_err();
    let EngineError::BrokenAgent { name, reason, diagnostics } = refused else { panic!("{refused:?}") };
    assert_eq!((name.as_str(), reason.as_str()), ("a", "its file has errors"));
    assert!(diagnostics.iter().all(|found| found.file.ends_with("agents/a.toml")), "{diagnostics:?}");
    let request = AgentRequest::text("go");
    let refused = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap_err();
    assert!(matches!(refused, EngineError::BrokenAgent { .. }), "{refused:?}");
    // A worker leaves its runs alone as well.
    let options =
        WorkerOptions { until_idle: true, poll: Duration::from_millis(5), ..WorkerOptions::default() };
    engine.work(&options, std::future::pending(), |_| {}).await.unwrap();
    assert_eq!(world.count("t.it"), 0);
    std::fs::write(&agent, sound).unwrap();
    engine.look().await;
    let resumed = engine.resume(waiting.run, yes()).await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&resumed), "one");
    assert!(engine.journal().replay(waiting.run).await.unwrap().identical);
}

#[tokio::test]
async fn tenants_and_tools_come_and_go() {
    let world = World::new("[tools]\nallow = [\"greet\"]\n[[steps]]\nid = \"it\"\ntool = \"greet\"\n");
    let document = |says: &str| {
        json!({"name": "greet", "description": "Speaks.", "actions": [{"type": "respond", "message": says}]})
            .to_string()
    };
    std::fs::create_dir(world.path().join("tools")).unwrap();
    let tool = world.path().join("tools/greet.json");
    std::fs::write(&tool, document("one")).unwrap();
    let engine = world.engine().await;
    assert!(engine.workspace().check_tenant("acme").is_err());
    let world = world.tenants(&["acme"]);
    std::fs::write(&tool, document("two")).unwrap();
    assert_eq!(answer(&run(&engine, "acme").await), "two");
    std::fs::write(&tool, "{").unwrap();
    assert!(matches!(engine.look().await, Look::Taken(_)), "only the tool is out of use");
    assert!(engine.workspace().broken.tools.contains("greet"));
    std::fs::remove_file(world.path().join("tenants/acme.toml")).unwrap();
    std::fs::write(&tool, document("three")).unwrap();
    assert_eq!(answer(&run(&engine, "default").await), "three");
    assert!(engine.workspace().check_tenant("acme").is_err());
}

#[tokio::test]
async fn a_worker_looks_by_itself_and_says_what_it_found() {
    let world = World::new("[[steps]]\nrespond = \"one\"\n");
    let engine = world.engine().await;
    std::fs::write(world.path().join("dalsegno.toml"), "nonsense").unwrap();
    let mut refused = 0;
    let options =
        WorkerOptions { until_idle: true, poll: Duration::from_millis(5), ..WorkerOptions::default() };
    let tell = |event: WorkerEvent<'_>| {
        if let WorkerEvent::Changed { look: Look::Refused(_) } = event {
            refused += 1;
        }
    };
    engine.work(&options, std::future::pending(), tell).await.unwrap();
    assert_eq!(refused, 1);
}

#[tokio::test]
async fn a_seed_file_is_taken_in_once_and_again_when_it_has_changed() {
    let world =
        World::new("[[steps]]\nrespond = \"one\"\n").settings("[memory]\nseeds = [\"seeds.jsonl\"]\n");
    let seeds = world.path().join("seeds.jsonl");
    let line = |text: &str| format!("{}\n", json!({"entity": "a", "type": "t", "text": text}));
    std::fs::write(&seeds, line("one")).unwrap();
    world.engine().await.memory(&MemoryPlace::default()).await.unwrap();
    let writer = rusqlite::Connection::open(world.path().join(".dalsegno/memory.db")).unwrap();
    let count =
        || -> i64 { writer.query_row("SELECT count(*) FROM observation", [], |row| row.get(0)).unwrap() };
    assert_eq!(count(), 1);
    // While another process writes, the memory is opened at once: nothing is to be taken in.
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let engine = world.engine().await;
    let place = MemoryPlace::default();
    let opened = tokio::time::timeout(Duration::from_secs(8), engine.memory(&place)).await;
    opened.expect("it waits for its turn to write").unwrap();
    writer.execute_batch("ROLLBACK").unwrap();
    std::fs::write(&seeds, line("one") + &line("two")).unwrap();
    world.engine().await.memory(&MemoryPlace::default()).await.unwrap();
    assert_eq!(count(), 2);
}

#[tokio::test]
async fn each_tenant_begins_with_the_seeds_and_keeps_what_it_writes_to_itself() {
    let world = World::new("[[steps]]\nid = \"found\"\nmemory_search = { query = \"charge\" }\n\n[[steps]]\nrespond = \"{{steps.found}}\"\n")
        .settings("[memory]\nseeds = [\"seeds.jsonl\"]\n");
    let line = json!({"entity": "refunds", "type": "rule", "text": "refund the second charge"});
    std::fs::write(world.path().join("seeds.jsonl"), line.to_string()).unwrap();
    std::fs::create_dir(world.path().join("tenants")).unwrap();
    let tenant = |name: &str| {
        std::fs::write(world.path().join(format!("tenants/{name}.toml")), format!("name = \"{name}\"\n"))
            .unwrap();
    };
    tenant("acme");
    let texts = async |engine: &Engine, name: Option<&str>| {
        let place = MemoryPlace { tenant: name.map(str::to_owned), ..MemoryPlace::default() };
        let memory = engine.memory(&place).await.unwrap();
        let scopes = engine.memory_scopes(&place).unwrap();
        let hits = memory.search(&scopes, &SearchQuery::new("charge")).await.unwrap();
        hits.into_iter().map(|hit| hit.text).collect::<Vec<_>>()
    };
    let engine = world.engine().await;
    // The run comes first: nothing but its tenant's name leads to the seeds.
    assert!(answer(&run(&engine, "acme").await).contains("refund the second charge"));
    assert_eq!(texts(&engine, None).await, ["refund the second charge"]);

    // One that is deleted for a tenant stays deleted for it alone, and a tenant that is new has all.
    let place = MemoryPlace { tenant: Some("acme".to_owned()), ..MemoryPlace::default() };
    let scopes = engine.memory_scopes(&place).unwrap();
    let memory = engine.memory(&place).await.unwrap();
    memory.delete(&scopes, &Delete::Entity { name: "refunds".to_owned() }).await.unwrap();
    drop((memory, engine));
    tenant("later");
    let engine = world.engine().await;
    assert_eq!(texts(&engine, Some("acme")).await, [""; 0]);
    assert_eq!(texts(&engine, Some("later")).await, ["refund the second charge"]);
    assert_eq!(texts(&engine, None).await, ["refund the second charge"]);
}
