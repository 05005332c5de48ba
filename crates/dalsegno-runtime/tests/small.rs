//! The engine without its features: it runs agents, and refuses what it was built without by the name of the feature.
//! `cargo xtask test --only features` runs it; a build with the features has nothing to test here.
#![cfg(not(any(feature = "mail", feature = "oauth", feature = "wasm")))]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use dalsegno_core::{AgentRequest, EffectClass};
use dalsegno_runtime::StartOptions;
use serde_json::{Value, json};

use support::{Behaviour, World, answer};

/// An agent that calls one tool and answers with what it returned.
fn calls(tool: &str) -> World {
    World::new(&format!(
        "tools.allow = [\"{tool}\"]\nsteps = [{{ id = \"call\", tool = \"{tool}\" }}, {{ respond = \"{{{{steps.call}}}}\" }}]\n"
    ))
}

fn document(world: &World, document: &Value) {
    std::fs::create_dir_all(world.path().join("tools")).unwrap();
    std::fs::write(world.path().join("tools/document.json"), document.to_string()).unwrap();
}

/// How the run of a document ended: its status and its error, in words.
async fn refusal(world: &World) -> String {
    let report = world.run("hello").await;
    let journal = world.engine().await.journal().inspect(report.run, None).await.unwrap();
    format!("{:?}", journal.records)
}

#[tokio::test]
async fn an_agent_runs_and_its_run_replays() {
    let world = calls("local.look").tool("local.look", EffectClass::Read, Behaviour::Answer(json!({"n": 7})));
    let report = world.run("hello").await;
    assert_eq!(answer(&report), "{\"n\":7}");
    let replay = world.engine().await.journal().replay(report.run).await.unwrap();
    assert!(replay.identical, "{replay:?}");
}

#[tokio::test]
async fn a_module_is_refused_by_the_name_of_its_feature() {
    let world = calls("risk.score").settings("[servers.risk]\nwasm = \"risk.wasm\"\n");
    std::fs::write(world.path().join("risk.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let engine = world.engine().await;
    let agent = "a".parse().unwrap();
    let error = engine.start(&agent, AgentRequest::text("hello"), StartOptions::default()).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("tool server `risk`") && message.contains("feature `wasm`"), "{message}");
}

#[tokio::test]
async fn a_mail_is_refused_by_the_name_of_its_feature() {
    let world = calls("document");
    let mail = json!({ "type": "email.send", "host": "mail.example", "from": "a@example.com",
        "to": "b@example.com", "subject": "s", "body": "b" });
    document(&world, &json!({ "name": "document", "description": "Mails.", "actions": [mail] }));
    let records = refusal(&world).await;
    assert!(
        records.contains("this build of Dalsegno sends no mail") && records.contains("NotPermitted"),
        "{records}"
    );
}

#[tokio::test]
async fn access_by_oauth_is_refused_by_the_name_of_its_feature() {
    let world = calls("document.look");
    let auth = json!({ "type": "oauth2", "auth_url": "https://id.example/auth",
        "token_url": "https://id.example/token", "scopes": [] });
    let call = json!({ "type": "api_call", "method": "GET", "url": "https://api.example/events" });
    let look = json!({ "name": "look", "description": "Looks.", "actions": [call] });
    document(&world, &json!({ "name": "document", "description": "d", "auth": auth, "actions": [look] }));
    let records = refusal(&world).await;
    assert!(records.contains("wants access by OAuth") && records.contains("feature `oauth`"), "{records}");
}
