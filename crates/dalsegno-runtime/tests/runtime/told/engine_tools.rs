//! The engine's own tools about the workspace and its runs: for agents that name them, each within one tenant.

use dalsegno_core::AgentRequest;
use dalsegno_runtime::{Engine, RunReport, StartOptions};
use dalsegno_store::{RunFilter, RunStatus};
use serde_json::Value;

use crate::support::{World, answer};

async fn run(engine: &Engine, agent: &str, tenant: &str, text: &str) -> RunReport {
    let request = AgentRequest { tenant: tenant.to_owned(), ..AgentRequest::text(text) };
    let handle = engine.start(&agent.parse().unwrap(), request, StartOptions::default()).await.unwrap();
    handle.finish().await.unwrap()
}

/// An agent that calls one tool and answers with what it gave.
fn calls(tool: &str, with: &str) -> String {
    format!(
        "[tools]\nallow = [\"{tool}\"]\n[[steps]]\nid = \"it\"\ntool = \"{tool}\"\nwith = {{ {with} }}\non_failure = \"report\"\n\
         [[steps]]\nrespond = \"{{{{steps.it}}}}\"\n"
    )
}

fn read(report: &RunReport) -> Value {
    serde_json::from_str(answer(report)).unwrap()
}

const WAITS: &str = "[[steps]]\nid = \"q\"\nask = \"well?\"\n[[steps]]\nrespond = \"{{steps.q}}\"\n";

#[tokio::test]
async fn an_agent_lists_counts_and_ends_the_runs_of_its_tenant_and_no_others() {
    let world = World::new(&calls("runs.list", "status = \"suspended\""))
        .agent("waits", WAITS)
        .agent("counts", &calls("metrics.read", ""))
        .agent("ends", &calls("runs.cancel", "run = \"{{request.text}}\", reason = \"enough\""))
        .tenants(&["acme", "other"]);
    let engine = world.engine().await;
    let (ours, theirs) = (run(&engine, "waits", "acme", "").await, run(&engine, "waits", "other", "").await);
    let listed = read(&run(&engine, "a", "acme", "").await);
    let runs = listed["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{listed}");
    assert_eq!(runs[0]["run"], ours.run.to_string());
    let counted = read(&run(&engine, "counts", "acme", "").await);
    assert_eq!(counted["by_agent"]["waits"]["suspended"], 1, "{counted}");
    // What another tenant has is not there for this one, and stays.
    let refused = run(&engine, "ends", "acme", &theirs.run.to_string()).await;
    assert!(answer(&refused).contains("there is no such run of this tenant"), "{}", answer(&refused));
    let ended = read(&run(&engine, "ends", "acme", &ours.run.to_string()).await);
    assert_eq!(ended["status"], "cancelled", "{ended}");
    let again = read(&run(&engine, "ends", "acme", &ours.run.to_string()).await);
    assert_eq!(again["status"], "cancelled", "twice is the same as once: {again}");
    let filter = RunFilter { status: Some(RunStatus::Suspended), ..RunFilter::default() };
    let open: Vec<_> = engine.journal().runs(&filter).await.unwrap().into_iter().map(|run| run.run).collect();
    assert_eq!(open, [theirs.run]);
    // They are outcomes like any other.
    for summary in engine.journal().runs(&RunFilter::default()).await.unwrap() {
        if summary.status == RunStatus::Completed {
            assert!(engine.journal().replay(summary.run).await.unwrap().identical);
        }
    }
}

#[tokio::test]
async fn an_agent_reads_which_agents_and_tools_there_are() {
    let world = World::new(&calls("workspace.describe", ""))
        .agent("lists", &calls("agents.list", "capability = \"triage\""))
        .agent("able", "capabilities = [\"triage\"]\n[[steps]]\nrespond = \"fine\"\n")
        .tenants(&["acme"]);
    let tools = world.path().join("tenants/acme/tools");
    std::fs::create_dir_all(&tools).unwrap();
    let document =
        r#"{"name": "greet", "description": "Speaks.", "actions": [{"type": "respond", "message": "hi"}]}"#;
    std::fs::write(tools.join("greet.json"), document).unwrap();
    let engine = world.engine().await;
    let described = read(&run(&engine, "a", "acme", "").await);
    assert_eq!(
        (&described["tenant"], &described["tools"][0]),
        (&"acme".into(), &"greet".into()),
        "{described}"
    );
    assert_eq!(described["agents"].as_array().unwrap().len(), 3);
    assert_eq!(read(&run(&engine, "a", "default", "").await)["tools"], Value::Array(Vec::new()));
    let listed = read(&run(&engine, "lists", "acme", "").await);
    assert_eq!(listed["agents"][0]["name"], "able", "{listed}");
    assert_eq!(listed["agents"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn no_star_gives_an_agent_the_engines_tools() {
    let world = World::new("[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"runs.list\"\n");
    let engine = world.engine().await;
    let agent = "a".parse().unwrap();
    let error = engine.start(&agent, AgentRequest::text(""), StartOptions::default()).await;
    assert!(error.is_err(), "a plan that calls it must name it in `allow`");
}
