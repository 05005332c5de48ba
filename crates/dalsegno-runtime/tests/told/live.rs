//! A workspace whose files change while an engine uses it.

use std::time::Duration;

use dalsegno_core::{AgentRequest, EffectClass};
use dalsegno_runtime::{Engine, Look, RunReport, Settlement, StartOptions, WorkerEvent, WorkerOptions};
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
    let agent = world.path().join("agents/a.toml");
    std::fs::write(&agent, "name = \"a\"\n[[steps]]\nrespo").unwrap();
    let Look::Refused(diagnostics) = engine.look().await else { panic!("it is refused") };
    assert!(diagnostics.iter().any(|found| found.is_error() && found.file.ends_with("a.toml")));
    assert!(matches!(engine.look().await, Look::Unchanged), "the same errors are told once");
    assert_eq!(answer(&run(&engine, "default").await), "one");
    std::fs::write(&agent, says("two")).unwrap();
    assert_eq!(answer(&run(&engine, "default").await), "two");
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
    std::fs::write(world.path().join("agents/a.toml"), "nonsense").unwrap();
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
