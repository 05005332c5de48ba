//! What tools say to the user: at once, in every answer, and across handoffs.

use dalsegno_core::{AgentRequest, EffectClass};
use dalsegno_runtime::{RunEvent, RunHandle, Settlement, StartOptions};
use serde_json::{Value, json};

use crate::support::{Behaviour, World, answer, waits};

/// A workspace whose agent `a` has the tool `greet`, with these actions.
fn world(agent: &str, actions: &Value) -> World {
    let world = World::new(agent);
    std::fs::create_dir(world.path().join("tools")).unwrap();
    let document = json!({ "name": "greet", "description": "Speaks.", "actions": actions });
    std::fs::write(world.path().join("tools/greet.json"), document.to_string()).unwrap();
    world
}

async fn start(world: &World) -> RunHandle {
    let engine = world.engine().await;
    engine.start(&"a".parse().unwrap(), AgentRequest::text("hi"), StartOptions::default()).await.unwrap()
}

/// What is said until the run is let go of, with the word `|` where a call of a tool ends.
async fn heard(handle: &mut RunHandle) -> Vec<String> {
    let mut heard = Vec::new();
    while let Some(event) = handle.next_event().await {
        match event {
            RunEvent::Said { text } => heard.push(text),
            RunEvent::Recorded { record, .. } if record.body.kind().as_str() == "resolved" => {
                heard.push("|".to_owned());
            }
            RunEvent::HandedOff { .. } => heard.push(">".to_owned()),
            RunEvent::Recorded { .. } | RunEvent::Delta { .. } | RunEvent::Unwritable { .. } => {}
        }
    }
    heard
}

const CALLS: &str = "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"greet\"\n";

#[tokio::test]
async fn what_a_tool_says_is_told_while_it_is_at_work() {
    let actions = json!([
        {"type": "respond", "message": "One moment."},
        {"type": "tool", "name": "t.slow"},
        {"type": "respond", "message": "There it is."}
    ]);
    let agent = format!("{CALLS}[[steps]]\nrespond = \"Goodbye.\"\n");
    let world = world(&agent, &actions).tool("t.slow", EffectClass::Read, Behaviour::Slow(5));
    let mut handle = start(&world).await;
    // Before the slow tool has ended; the end of `greet` itself and the plan's words ride in one commit.
    assert_eq!(heard(&mut handle).await, ["One moment.", "|", "|", "There it is.", "Goodbye."]);
    let report = handle.finish().await.unwrap();
    assert_eq!(answer(&report), "One moment.\n\nThere it is.\n\nGoodbye.");
}

#[tokio::test]
async fn a_run_that_is_taken_up_says_nothing_twice() {
    let actions = json!([
        {"type": "respond", "message": "One moment."},
        {"type": "tool", "name": "t.gated"},
        {"type": "respond", "message": "There it is."}
    ]);
    let agent = CALLS.replace("allow = [\"*\"]", "allow = [\"*\"]\napprove = [\"t.gated\"]");
    let world = world(&agent, &actions).tool("t.gated", EffectClass::Read, Behaviour::Echo);
    let mut handle = start(&world).await;
    assert_eq!(heard(&mut handle).await, ["One moment."]);
    let report = handle.finish().await.unwrap();
    assert_eq!(waits(&report).len(), 1);
    let approve = Settlement::Approve { edited: None, reason: None };
    let answers =
        vec![dalsegno_runtime::GateInput { operation: None, seen: None, settlement: approve, by: None }];
    let mut handle = world.engine().await.resume(report.run, answers).await.unwrap();
    assert_eq!(heard(&mut handle).await, ["|", "|", "There it is."]);
    assert_eq!(answer(&handle.finish().await.unwrap()), "One moment.\n\nThere it is.");
}

#[tokio::test]
async fn a_tool_that_hands_over_speaks_to_the_user_and_not_to_the_next_agent() {
    let actions = json!([{"type": "handoff", "target_agent": "b", "message": "I will pass you on."}]);
    let world = world(CALLS, &actions).agent("b", "[[steps]]\nrespond = \"You said: {{request.text}}\"\n");
    let mut handle = start(&world).await;
    assert_eq!(heard(&mut handle).await, ["|", "I will pass you on.", ">", "You said: hi"]);
    let report = handle.finish().await.unwrap();
    assert_eq!(answer(&report), "I will pass you on.\n\nYou said: hi");
    let engine = world.engine().await;
    for run in report.before.iter().chain([&report.run]) {
        let replay = engine.journal().replay(*run).await.unwrap();
        assert!(replay.identical, "{replay:?}");
    }
}
