//! A person's no, and a doubt, inside a declarative tool: nothing stands for either of them, and whoever called the tool
//! reads which one it was.

use dalsegno_core::Received;
use dalsegno_core::{EffectClass, Status};
use dalsegno_runtime::{RunEnd, RunReport, Settlement};
use serde_json::{Value, json};

use super::{Course, Endpoint, of_user, run, save_meal};
use crate::support::{Behaviour, World, answer, waits};

/// A tool that sends a mail by another tool.
fn relay() -> Value {
    json!({
        "name": "relay",
        "description": "Has a mail sent.",
        "parameters": [{"name": "n", "type": "integer", "required": true}],
        "actions": [{"type": "tool", "name": "local.mail", "with": {"n": "{{params.n}}"}}]
    })
}

/// A workspace whose agent calls `relay`; `mail` behaves so, and `spare` could send the mail as well.
fn world(agent: &str, mail: Behaviour) -> World {
    let world = World::new(agent).tool("local.mail", EffectClass::Unsafe, mail).tool(
        "local.spare",
        EffectClass::Unsafe,
        Behaviour::Echo,
    );
    std::fs::create_dir(world.path().join("tools")).unwrap();
    std::fs::write(world.path().join("tools/relay.json"), relay().to_string()).unwrap();
    world
}

/// The file of an agent with steps, of which one calls `relay`.
fn plan(tools: &str, on_failure: &str) -> String {
    format!(
        "[tools]\nallow = [\"relay\", \"local.*\"]\n{tools}\n[[steps]]\nid = \"x\"\ntool = \"relay\"\nwith = {{ n = 1 }}\n\
         on_failure = {on_failure}\n[[steps]]\nrespond = \"{{{{steps.x}}}}\"\n"
    )
}

/// The file of an agent with a model, which calls `relay` and then answers.
fn model(world: World) -> World {
    world.script(
        "[[replies]]\ncalls = [{ name = \"relay\", arguments = { n = 1 } }]\n[[replies]]\ntext = \"told\"\n",
    )
}

fn minded(tools: &str) -> String {
    format!(
        "prompt = \"{{{{request.text}}}}\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"relay\", \"local.*\"]\n{tools}\n"
    )
}

const APPROVE: &str = "approve = [\"local.mail\"]";
const REPORT: &str = "[tools.settings.\"local.mail\"]\non_indeterminate = \"report\"\n";
/// What could stand in for a failure.
const INSTEAD: [&str; 2] = ["{ fallback = \"local.spare\" }", "{ default = { sent = true } }"];

fn failed(report: &RunReport) -> String {
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert_eq!(response.status, Status::Failed, "{response:?}");
    response.error.as_ref().unwrap().message.clone()
}

/// What the model of a run read last before its last reply.
async fn read(world: &World, report: &RunReport) -> String {
    let engine = world.engine().await;
    assert!(engine.journal().replay(report.run).await.unwrap().identical);
    let state = engine.journal().inspect(report.run, None).await.unwrap().state;
    format!("{:?}", state.transcript())
}

fn deny() -> Settlement {
    Settlement::Deny { reason: Some("not today".to_owned()) }
}

#[tokio::test]
async fn neither_a_fallback_nor_a_default_passes_over_a_persons_no() {
    for instead in INSTEAD {
        let world = world(&plan(APPROVE, instead), Behaviour::Echo);
        let asked = world.run("go").await;
        assert_eq!(waits(&asked)[0].kind(), "approval", "{instead}");
        let report = world.resume(asked.run, Some(deny())).await;
        let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
        assert_eq!(response.status, Status::Failed, "{instead}: {response:?}");
        let error = response.error.as_ref().unwrap();
        assert!(error.message.contains("denied"), "{instead}: {error:?}");
        assert_eq!((world.count("local.mail"), world.count("local.spare")), (0, 0), "{instead}");
        assert!(world.engine().await.journal().replay(asked.run).await.unwrap().identical);
    }
}

#[tokio::test]
async fn neither_a_fallback_nor_a_default_passes_over_a_doubt_of_a_part() {
    for instead in INSTEAD {
        let world = world(&plan(REPORT, instead), Behaviour::Lost(Received::Possibly));
        let report = world.run("go").await;
        let error = failed(&report);
        assert!(error.contains("indeterminate"), "{instead}: {error}");
        assert_eq!((world.count("local.mail"), world.count("local.spare")), (1, 0), "{instead}");
    }
}

#[tokio::test]
async fn a_fallback_does_not_pass_over_a_call_that_may_have_taken_place() {
    let endpoint = Endpoint::start(vec![Course::Answer(502, "", json!({}))]);
    let agent = "[tools]\nallow = [\"save_meal\", \"local.spare\"]\n[tools.settings.save_meal]\non_indeterminate = \"report\"\n\
        [[steps]]\nid = \"meal\"\ntool = \"save_meal\"\nwith = { meal_type = \"lunch\", dishes = [\"soup\"] }\n\
        on_failure = { fallback = \"local.spare\" }\n[[steps]]\nrespond = \"{{steps.meal}}\"\n";
    let mut document = save_meal();
    document["actions"][1]["effect"] = json!("unsafe");
    let world = endpoint.world(agent, &document).tool("local.spare", EffectClass::Unsafe, Behaviour::Echo);
    let error = failed(&run(&world, of_user()).await);
    assert!(error.contains("indeterminate"), "{error}");
    assert_eq!((endpoint.got().len(), world.count("local.spare")), (1, 0));
}

#[tokio::test]
async fn a_model_reads_that_a_call_is_in_doubt() {
    for settings in ["", INSTEAD[0], INSTEAD[1]] {
        let of_relay = match settings {
            "" => String::new(),
            settings => format!("[tools.settings.relay]\non_failure = {settings}\n"),
        };
        let agent = minded(&format!("{REPORT}{of_relay}"));
        let world = model(world(&agent, Behaviour::Lost(Received::Possibly)));
        let report = world.run("go").await;
        assert_eq!(answer(&report), "told", "{settings}");
        let read = read(&world, &report).await;
        assert!(read.contains("indeterminate"), "{settings}: {read}");
        assert!(!read.contains("tool_failed") && !read.contains("action_failed"), "{settings}: {read}");
        assert_eq!((world.count("local.mail"), world.count("local.spare")), (1, 0), "{settings}");
    }
}

#[tokio::test]
async fn a_model_reads_that_a_person_said_no() {
    for settings in ["", INSTEAD[0], INSTEAD[1]] {
        let of_relay = match settings {
            "" => String::new(),
            settings => format!("[tools.settings.relay]\non_failure = {settings}\n"),
        };
        let world = model(world(&minded(&format!("{APPROVE}\n{of_relay}")), Behaviour::Echo));
        let asked = world.run("go").await;
        assert_eq!(waits(&asked)[0].kind(), "approval", "{settings}");
        let report = world.resume(asked.run, Some(deny())).await;
        assert_eq!(answer(&report), "told", "{settings}");
        let read = read(&world, &report).await;
        assert!(read.contains("not_permitted"), "{settings}: {read}");
        assert!(!read.contains("tool_failed") && !read.contains("sent\\\\\\\":true"), "{settings}: {read}");
        assert_eq!((world.count("local.mail"), world.count("local.spare")), (0, 0), "{settings}");
    }
}

/// A call that nobody gave a class: a POST, which is unsafe. The document's number is the author's word that the receiver
/// tolerates repeats.
fn plain_post(retries: u64) -> Value {
    let mut document = save_meal();
    let call = document["actions"][1].as_object_mut().unwrap();
    call.remove("effect");
    call.insert("retry_count".to_owned(), json!(retries));
    document
}

#[tokio::test]
async fn a_post_with_a_number_of_retries_is_sent_so_often_and_then_asked_about() {
    for retries in [1_u64, 2] {
        let endpoint = Endpoint::start(vec![Course::HangUp]);
        let world = endpoint.world(super::AGENT, &plain_post(retries));
        let report = run(&world, of_user()).await;
        let waiting = waits(&report);
        assert_eq!((waiting.len(), waiting[0].kind()), (1, "in_doubt"));
        assert_eq!(endpoint.got().len() as u64, retries + 1, "{retries}");
        let done = Settlement::Done { result: Some(json!({"id": 9})) };
        let report = world.resume(report.run, Some(done)).await;
        assert_eq!(answer(&report), "I logged your lunch as 9.\n\n9 [\"lunch\"]");
        assert_eq!(endpoint.got().len() as u64, retries + 1, "{retries}");
    }
}

#[tokio::test]
async fn an_agents_word_on_doubt_stands_above_a_documents_number_of_retries() {
    let endpoint = Endpoint::start(vec![Course::HangUp]);
    let agent = super::AGENT.replacen(
        "[[steps]]",
        "[tools.settings.save_meal]\non_indeterminate = \"report\"\n[[steps]]",
        1,
    );
    let world = endpoint.world(&agent, &plain_post(2));
    let error = failed(&run(&world, of_user()).await);
    assert!(error.contains("indeterminate"), "{error}");
    assert_eq!(endpoint.got().len(), 1);
}

#[tokio::test]
async fn a_secret_at_a_place_of_the_workspaces_own_is_sent_and_is_nowhere_on_the_disk() {
    let echo = Course::Answer(201, "x-request-id: canary-0815-token\r\n", json!({"id": "canary-0815-token"}));
    let endpoint = Endpoint::start(vec![echo]);
    let mut document = save_meal();
    document["actions"][1]["headers"]["Authorization"] = json!("Bearer {{user.crm.token}}");
    let world = endpoint.world(super::AGENT, &document).settings("secret_paths = [\"user.crm.token\"]\n");
    let user = json!({"id": "u-7", "crm": {"name": "Ada", "token": "canary-0815-token"}});
    let report =
        run(&world, dalsegno_core::AgentRequest { user, ..dalsegno_core::AgentRequest::text("lunch") }).await;
    assert_eq!(answer(&report), "I logged your lunch as [secret].\n\n[secret] [\"lunch\"]");
    let got = endpoint.got();
    assert_eq!(got[0].header("authorization"), Some("bearer canary-0815-token"));
    let state = world.engine().await.journal().inspect(report.run, None).await.unwrap().state;
    let kept = &state.request().user["crm"];
    assert_eq!(kept["name"], "Ada");
    let reference = kept["token"]["dalsegno_secret"].as_str().unwrap_or_else(|| panic!("{kept}"));
    assert_eq!(reference, format!("request.{}.crm.token", report.run));
    for (file, bytes) in super::bytes_of(&world) {
        let found = bytes.windows(11).any(|window| window == b"canary-0815");
        assert!(!found, "{file} holds the secret");
    }
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[tokio::test]
async fn a_secret_of_the_query_is_waited_for() {
    let endpoint = Endpoint::start(vec![Course::Answer(200, "", json!({}))]);
    let world = World::new("[tools]\nallow = [\"ask\"]\n[[steps]]\ntool = \"ask\"\n");
    let document = json!({
        "name": "ask", "description": "Asks with a key.", "secrets": ["key"], "parameters": [],
        "auth": {"type": "api_key", "secret": "key", "query": "key"},
        "actions": [{"type": "api_call", "method": "GET", "url": "{{tenant.settings.url}}"}]
    });
    std::fs::create_dir(world.path().join("tools")).unwrap();
    std::fs::write(world.path().join("tools/ask.json"), document.to_string()).unwrap();
    std::fs::create_dir(world.path().join("tenants")).unwrap();
    let file = format!(
        "name = \"default\"\negress = [\"{0}\"]\n[settings]\nurl = \"{0}/ask\"\n\
         [tools.ask.secrets]\nkey = {{ store = \"ask.key\" }}\n",
        endpoint.origin
    );
    std::fs::write(world.path().join("tenants/default.toml"), file).unwrap();
    let report = world.run("go").await;
    assert_eq!(waits(&report)[0].kind(), "secret");
    assert_eq!(endpoint.got().len(), 0);
}
