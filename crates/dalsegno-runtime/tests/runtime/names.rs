//! The names by which models see actions of toolkits: pinned in `dalsegno.lock`, kept by each run as it began.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dalsegno_core::{AgentRequest, CallRequest, ModelReply, ReplyPart, RunId, StopReason};
use dalsegno_models::{CompletionRequest, DeltaSink, Model, ModelError, judge_call};
use dalsegno_runtime::{Engine, OpenError, RunReport, Settlement, StartOptions};
use dalsegno_workspace::{Lock, Workspace};
use serde_json::{Value, json};

use crate::support::{World, answer, waits};

const AGENT: &str =
    "prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"notes.keep\"]\n";

/// A toolkit that keeps notes in the session, and one action that the agent does not allow.
fn notes() -> Value {
    json!({
        "name": "notes",
        "description": "Keeps notes.",
        "actions": [
            {
                "name": "keep",
                "description": "Keeps a note.",
                "parameters": [{"name": "text", "type": "string", "required": true}],
                "actions": [{"type": "context.set", "path": "notes[+]", "value": "params.text"}],
                "on_success": [{"type": "respond", "message": "Kept {{params.text}}."}]
            },
            {
                "name": "burn",
                "description": "Burns all notes.",
                "actions": [{"type": "context.delete", "path": "notes"}]
            }
        ]
    })
}

fn world(agent: &str, script: &str) -> World {
    let world = World::new(agent).script(script);
    std::fs::create_dir(world.path().join("tools")).unwrap();
    std::fs::write(world.path().join("tools/notes.json"), notes().to_string()).unwrap();
    world
}

/// Writes the lock file, as `dalsegno check --connect` does.
async fn pin(world: &World) -> Lock {
    let before = Workspace::load(world.path()).lock.lock.unwrap_or_default();
    let (lock, unreachable) = world.engine().await.pin(&before).await;
    assert!(unreachable.is_empty(), "{unreachable:?}");
    std::fs::write(world.path().join(Lock::FILE), lock.to_text()).unwrap();
    lock
}

/// What was said to a model of the last calls, in a run's transcript.
async fn transcript(world: &World, report: &RunReport) -> String {
    let inspection = world.engine().await.journal().inspect(report.run, None).await.unwrap();
    format!("{:?}", inspection.state.transcript())
}

/// One reply with a call of each name, then an answer.
fn calls(names: &[&str]) -> String {
    let call = |name: &&str| format!("{{ name = \"{name}\", arguments = {{ text = \"by {name}\" }} }}");
    let calls: Vec<_> = names.iter().map(call).collect();
    format!("[[replies]]\ncalls = [{}]\n[[replies]]\ntext = \"Done.\"\n", calls.join(", "))
}

#[tokio::test]
async fn a_model_calls_an_action_by_its_short_name_and_by_its_long_one() {
    let world = world(AGENT, &calls(&["keep", "notes__keep", "notes.keep"]));
    let lock = pin(&world).await;
    let names: Vec<_> = lock.names.iter().map(|(tool, name)| format!("{tool} {name}")).collect();
    assert_eq!(names, ["notes.burn burn", "notes.keep keep"]);
    let report = world.run("go").await;
    let text = transcript(&world, &report).await;
    for name in ["keep", "notes__keep", "notes.keep"] {
        assert!(text.contains(&format!("Kept by {name}.")), "{name}: {text}");
    }
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_short_name_means_nothing_before_it_is_pinned() {
    let world = world(AGENT, &calls(&["keep"]));
    let text = transcript(&world, &world.run("go").await).await;
    assert!(text.contains("there is no tool `keep`; the tools are: notes__keep"), "{text}");
}

#[tokio::test]
async fn an_action_that_is_not_allowed_is_refused_by_its_short_name_as_by_its_long_one() {
    let world = world(AGENT, &calls(&["burn", "notes__burn"]));
    pin(&world).await;
    let text = transcript(&world, &world.run("go").await).await;
    for name in ["burn", "notes__burn"] {
        let refused = format!("the tool `{name}` is not allowed for this agent");
        assert!(text.contains(&refused), "{name}: {text}");
    }
    assert_eq!(text.matches("not_permitted").count(), 2, "{text}");
}

/// Calls the tool that it is shown, once in a turn, and keeps the names.
#[derive(Clone, Default)]
struct Obedient {
    seen: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Model for Obedient {
    async fn complete(
        &self,
        request: &CompletionRequest,
        _sink: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let tools = &request.tools;
        let name = tools.model_name(tools.tools.keys().next().unwrap());
        self.seen.lock().unwrap().push(name.clone());
        let turn = request.transcript.replies();
        if turn == 2 {
            let parts = vec![ReplyPart::Text("Done.".into())];
            return Ok(ModelReply::new(parts, StopReason::End));
        }
        let arguments = json!({ "text": format!("note {turn}") }).to_string();
        let validation = Some(judge_call(tools, &name, &arguments, false));
        let call = CallRequest { call_id: format!("c{turn}"), name, arguments, validation };
        Ok(ModelReply::new(vec![ReplyPart::Call(call)], StopReason::ToolCalls))
    }
}

impl Obedient {
    async fn engine(&self, world: &World) -> Engine {
        world.builder().model("default", self.clone()).open(world.path()).await.unwrap()
    }

    async fn start(&self, world: &World) -> RunReport {
        let engine = self.engine(world).await;
        let request = AgentRequest::text("go");
        let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
        handle.finish().await.unwrap()
    }

    async fn approve(&self, world: &World, run: RunId) -> RunReport {
        let answer = dalsegno_runtime::GateInput {
            operation: None,
            seen: None,
            settlement: Settlement::Approve { edited: None, reason: None },
            by: None,
        };
        let handle = self.engine(world).await.resume(run, vec![answer]).await.unwrap();
        handle.finish().await.unwrap()
    }
}

#[tokio::test]
async fn a_run_that_began_with_the_long_name_goes_on_with_it_when_a_short_one_is_pinned() {
    let world = world(&format!("{AGENT}approve = [\"notes.keep\"]\n"), "[[replies]]\ntext = \"unused\"\n");
    let model = Obedient::default();
    let began = model.start(&world).await;
    assert_eq!(waits(&began).len(), 1);
    pin(&world).await;
    let second = model.approve(&world, began.run).await;
    assert_eq!(waits(&second).len(), 1);
    let ended = model.approve(&world, began.run).await;
    assert!(answer(&ended).contains("Done."), "{ended:?}");
    assert_eq!(*model.seen.lock().unwrap(), ["notes__keep"; 3]);
    assert!(model.engine(&world).await.journal().replay(began.run).await.unwrap().identical);
    // A new one sees the short name, and so does the configuration that the agent has now.
    let model = Obedient::default();
    model.start(&world).await;
    assert_eq!(*model.seen.lock().unwrap(), ["keep"]);
    let config = model.engine(&world).await.agent_config(&"a".parse().unwrap()).await.unwrap();
    assert_eq!(config.tools.model_name(&"notes.keep".parse().unwrap()), "keep");
}

#[tokio::test]
async fn a_name_that_another_tool_has_keeps_the_workspace_from_running() {
    let world = world(AGENT, &calls(&["keep"]));
    let text = "version = 1\n[names]\n\"notes.keep\" = \"notes__burn\"\n";
    std::fs::write(world.path().join(Lock::FILE), text).unwrap();
    let Err(OpenError::Workspace { diagnostics, .. }) = world.builder().open(world.path()).await.map(drop)
    else {
        panic!("the workspace opens");
    };
    assert_eq!(
        diagnostics[0].to_string(),
        "dalsegno.lock:3:16: error[tool-name-clash]: models cannot see `notes.keep` as `notes__burn`"
    );
}
