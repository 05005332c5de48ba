//! Tools that are called outside of runs: by the same rules as in runs.

use std::time::Duration;

use dalsegno_core::{EffectClass, Received};
use dalsegno_runtime::{Engine, ToolCallOptions, ToolboxError, Trial, TrialOptions};
use dalsegno_workspace::ToolkitFile;
use serde_json::{Value, json};

use crate::support::{Behaviour, World, answer};

/// A document that gives back what another tool gave it.
fn asks(tool: &str, arguments: &Value, more: &str) -> String {
    format!(
        r#"{{ "name": "ask", "description": "Asks.",
             "actions": [{{ "type": "tool", "id": "it", "name": "{tool}", "arguments": {arguments}{more} }}],
             "output": "result.it" }}"#
    )
}

/// A world with this document and an agent that answers with what it returns.
fn world(document: &str) -> World {
    let world = World::new(
        "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"ask\"\n[[steps]]\nrespond = \"{{steps.it}}\"\n",
    );
    std::fs::create_dir(world.path().join("tools")).unwrap();
    std::fs::write(world.path().join("tools/ask.json"), document).unwrap();
    world
}

/// What `dalsegno tools test --live` does.
async fn tried(world: &World, engine: &Engine) -> Trial {
    let file = ToolkitFile::open(world.path(), "tools/ask.json".as_ref()).unwrap();
    let options =
        TrialOptions { owner: Some(dalsegno_core::ToolOwner::Workspace), ..TrialOptions::default() };
    engine.try_tool(&file.toolkit, "ask", &json!({}), &options).await.unwrap()
}

async fn called(engine: &Engine, tool: &str) -> Result<Value, ToolboxError> {
    let options = ToolCallOptions { timeout: Duration::from_secs(20), ..ToolCallOptions::default() };
    let returned = engine.call_tool(&tool.parse().unwrap(), json!({}), &options).await?;
    assert!(!returned.is_error, "{returned:?}");
    Ok(returned.structured.unwrap())
}

#[tokio::test]
async fn a_document_reads_the_same_in_a_run_and_outside_of_one() {
    let created = json!({ "entity": "INC-7", "content": "disk full" });
    for (tool, arguments, expected) in [
        ("memory.create", created.clone(), None),
        ("memory.search", json!({ "query": "disk" }), Some("/0/entity")),
        ("memory.traverse", json!({ "from": "INC-7" }), Some("/entities/0/entity")),
        ("it.says", json!({ "n": 3 }), Some("/n")),
    ] {
        let world = world(&asks(tool, &arguments, "")).tool("it.says", EffectClass::Read, Behaviour::Echo);
        let engine = world.engine().await;
        if tool != "memory.create" {
            let options = ToolCallOptions::default();
            engine.call_tool(&"memory.create".parse().unwrap(), created.clone(), &options).await.unwrap();
        }
        let in_run: Value = serde_json::from_str(answer(&world.run("go").await)).unwrap();
        let (mut tested, mut called) =
            (tried(&world, &engine).await.finished.outcome.output, called(&engine, "ask").await.unwrap());
        let mut expect = in_run.clone();
        if let Some(place) = expected {
            assert!(in_run.pointer(place).is_some(), "{tool}: {in_run}");
        } else {
            // Each call makes an observation of its own.
            for value in [&mut expect, &mut tested, &mut called] {
                assert!(value["observation"].take().is_string(), "{tool}: {value}");
                value["duplicate"].take();
            }
        }
        assert_eq!(tested, expect, "{tool}");
        assert_eq!(called, expect, "{tool}");
    }
}

/// A world without documents.
fn plain() -> World {
    World::new("[[steps]]\nrespond = \"hi\"\n")
}

#[tokio::test]
async fn attempts_are_repeated_as_the_class_of_the_tool_allows() {
    for (class, received, calls) in [
        (EffectClass::Read, Received::Possibly, 2),
        (EffectClass::Unsafe, Received::No, 2),
        (EffectClass::Unsafe, Received::Possibly, 1),
    ] {
        let world = plain().tool("local.it", class, Behaviour::LostFirst(1, received));
        let ended = called(&world.engine().await, "local.it").await;
        assert_eq!(world.count("local.it"), calls, "{class:?}, {received:?}");
        match ended {
            Ok(value) => assert_eq!(value, json!({ "calls": 2 })),
            Err(ToolboxError::NoAnswer { message, received, .. }) => {
                assert_eq!((calls, received), (1, Received::Possibly));
                assert!(message.contains("it may or may not have taken place"), "{message}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_call_that_never_reached_anybody_says_so() {
    let world = plain().tool("local.it", EffectClass::Unsafe, Behaviour::Lost(Received::No));
    let error = called(&world.engine().await, "local.it").await.unwrap_err();
    assert!(matches!(&error, ToolboxError::NoAnswer { received: Received::No, .. }), "{error}");
    assert_eq!(world.count("local.it"), 3);
}

#[tokio::test]
async fn a_doubt_about_what_a_document_called_ends_it_outside_of_a_run_too() {
    let world = world(&asks("local.it", &json!({}), ", \"on_error\": \"continue\"")).tool(
        "local.it",
        EffectClass::Unsafe,
        Behaviour::Lost(Received::Possibly),
    );
    let outcome = tried(&world, &world.engine().await).await.finished.outcome;
    assert_eq!(outcome.error.map(|error| error.code.to_string()).as_deref(), Some("indeterminate"));
    assert_eq!(world.count("local.it"), 1);
}

#[tokio::test]
async fn what_a_tool_gives_away_is_scrubbed_whoever_calls_it() {
    let said = Behaviour::Answer(json!({ "said": "it is tell-nobody-4711" }));
    let world = world(&asks("local.it", &json!({}), ""))
        .settings("[tenants.default]\nfile_prefixes = [\"token\"]\n")
        .tenants(&["default"])
        .tool("local.it", EffectClass::Read, said);
    // It is for another document, so that nothing reads it before it must be known.
    let tenant = "name = \"default\"\n[secrets]\ntoken = { file = \"token\" }\n";
    std::fs::write(world.path().join("tenants/default.toml"), tenant).unwrap();
    std::fs::write(world.path().join("token"), "tell-nobody-4711\n").unwrap();
    let expected = json!({ "said": "it is [secret]" });
    assert_eq!(called(&world.engine().await, "local.it").await.unwrap(), expected);
    assert_eq!(called(&world.engine().await, "ask").await.unwrap(), expected);
    let trial = tried(&world, &world.engine().await).await;
    assert_eq!(trial.finished.outcome.output, expected);
    assert!(!serde_json::to_string(&trial.recording).unwrap().contains("4711"));
}

#[tokio::test]
async fn calls_wait_for_room_as_the_operations_of_runs_do() {
    let world = plain().settings("[dispatch]\nconcurrency = 1\n").tool(
        "local.it",
        EffectClass::Read,
        Behaviour::Slow(50),
    );
    let engine = world.engine().await;
    let (one, two) = tokio::join!(called(&engine, "local.it"), called(&engine, "local.it"));
    assert_eq!((one.unwrap(), two.unwrap()), (json!({}), json!({})));
    assert_eq!((world.count("local.it"), world.tools["local.it"].most()), (2, 1));
}

#[tokio::test]
async fn a_tool_that_never_answers_is_given_up_in_time() {
    let world = plain().tool("local.it", EffectClass::Read, Behaviour::Hang);
    let engine = world.engine().await;
    let options = ToolCallOptions { timeout: Duration::from_millis(100), ..ToolCallOptions::default() };
    let ended = engine.call_tool(&"local.it".parse().unwrap(), json!({}), &options).await;
    let Err(ToolboxError::NoAnswer { message, received, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!((message.as_str(), received), ("it took longer than 0.1 s", Received::Possibly));
}

/// The workspace's document calls a tool that the tenant has made its own. A secret of the workspace is for the workspace's
/// documents only: the tenant's could send it anywhere.
#[tokio::test]
async fn a_document_that_another_one_calls_gets_the_secrets_of_its_own_owner() {
    let world = world(&asks("keyed", &json!({}), ""))
        .settings("[secrets]\n\"keyed.token\" = { file = \"token\" }\n")
        .tenants(&["acme"]);
    std::fs::write(world.path().join("token"), "tell-nobody-4711\n").unwrap();
    let tools = world.path().join("tenants/acme/tools");
    std::fs::create_dir_all(&tools).unwrap();
    let keyed = r#"{ "name": "keyed", "description": "Shows a secret.", "secrets": ["token"],
        "actions": [{ "type": "api_call", "url": "http://127.0.0.1:9/x", "retry_count": 0,
                      "headers": { "Authorization": "Bearer {{secrets.token}}" } }] }"#;
    std::fs::write(tools.join("keyed.json"), keyed).unwrap();
    let engine = world.engine().await;
    let file = ToolkitFile::open(world.path(), "tools/ask.json".as_ref()).unwrap();
    let options = TrialOptions {
        tenant: "acme".to_owned(),
        owner: Some(dalsegno_core::ToolOwner::Workspace),
        ..TrialOptions::default()
    };
    let trial = engine.try_tool(&file.toolkit, "ask", &json!({}), &options).await.unwrap();
    let error = trial.finished.outcome.error.unwrap().message;
    assert!(error.contains("the tenant `acme` has no secret `token` for `keyed`"), "{error}");
}
