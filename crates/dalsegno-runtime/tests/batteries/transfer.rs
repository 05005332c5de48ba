//! The tool that transfers calls, as it is built from what a tenant's file says of destinations.

use std::collections::BTreeSet;
use std::sync::Mutex;

use dalsegno_core::AgentRequest;
use dalsegno_runtime::{RunReport, StartOptions};
use serde_json::{Value, json};

use crate::server::{Asked, Server};
use crate::support::{World, answer};

/// The call service: it knows a request again by its key.
fn service() -> Server {
    let known: Mutex<BTreeSet<String>> = Mutex::default();
    Server::start(move |asked| {
        if asked.header("authorization") != "Bearer canary-4711-key" {
            return (401, json!({"error": "no key"}));
        }
        known.lock().unwrap().insert(asked.header("idempotency-key").to_owned());
        (200, json!({}))
    })
}

/// The requests that the service took for new ones.
fn transfers(service: &Server) -> BTreeSet<(String, String)> {
    let of = |asked: Asked| {
        (asked.header("idempotency-key").to_owned(), asked.json()["target_uri"].as_str().unwrap().to_owned())
    };
    service.got("POST /v1/realtime/calls/rtc_1/refer").into_iter().map(of).collect()
}

fn world(service: &Server, script: &str) -> World {
    let world = World::new(
        "prompt = \"{{request.text}}\"\ninstructions = \"Help.\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"transfer.request_transfer\"]\n",
    )
    .script(script);
    std::fs::create_dir(world.path().join("tenants")).unwrap();
    std::fs::write(world.path().join("key"), "canary-4711-key").unwrap();
    let tenant = format!(
        "name = \"default\"\negress = [\"{0}\"]\n[tools.transfer.config]\nbase_url = \"{0}\"\n\
         [tools.transfer.secrets]\napi_key = {{ file = \"key\" }}\n\
         [features.refer]\n\
         [[features.refer.destinations]]\ndestination_id = \"sales\"\nlabel = \"Sales\"\ntarget_uri = \"sip:sales@x.example\"\npriority = 5\n\
         [[features.refer.destinations]]\ndestination_id = \"support\"\nlabel = \"Support\"\ntarget_uri = \"sip:support@x.example\"\npriority = 9\n\
         [[features.refer.destinations]]\ndestination_id = \"night\"\ntarget_uri = \"sip:night@x.example\"\nenabled = false\n",
        service.origin
    );
    std::fs::write(world.path().join("tenants/default.toml"), tenant).unwrap();
    let settings = world.path().join("dalsegno.toml");
    let before = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(settings, format!("{before}\n[tenants.default]\nfile_prefixes = [\"key\"]\n")).unwrap();
    world
}

/// The runs of a call, one for each message of the caller.
async fn call_with(world: &World, messages: &[&str]) -> Vec<RunReport> {
    let engine = world.engine().await;
    let mut reports = Vec::new();
    for message in messages {
        let request = AgentRequest { user: json!({"call_id": "rtc_1"}), ..AgentRequest::text(message) };
        let options = StartOptions { session: Some("call".to_owned()), ..StartOptions::default() };
        let handle = engine.start(&"a".parse().unwrap(), request, options).await.unwrap();
        reports.push(handle.finish().await.unwrap());
    }
    reports
}

/// A reply of the model with one call; its calls have the ids `call_0_0`, `call_1_0` and so on.
fn call(destination: &str, token: Option<&str>) -> String {
    let token = token.map(|token| format!(", confirmation_token = \"{token}\"")).unwrap_or_default();
    format!(
        "[[replies]]\ncalls = [{{ name = \"transfer.request_transfer\", arguments = {{ destination_id = \"{destination}\"{token} }} }}]\n"
    )
}

const END: &str = "[[replies]]\ntext = \"done\"\n";

/// What the model read of its calls.
async fn read(world: &World, reports: &[RunReport]) -> Vec<Value> {
    let engine = world.engine().await;
    let mut read = Vec::new();
    for report in reports {
        let inspection = engine.journal().inspect(report.run, None).await.unwrap();
        let operations = inspection.steps.iter().flat_map(|step| &step.operations);
        read.extend(operations.filter(|operation| operation.parent.is_none()).filter_map(|operation| {
            match operation.outcome.as_ref()? {
                dalsegno_core::Outcome::ToolReturned(returned) => {
                    Some(returned.structured.clone().unwrap_or_default())
                }
                dalsegno_core::Outcome::Failed(failure) => Some(json!({"failed": failure.message})),
                _ => None,
            }
        }));
    }
    read
}

async fn statuses(world: &World, reports: &[RunReport]) -> Vec<String> {
    let read = read(world, reports).await;
    read.into_iter().map(|one| one["status"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn a_transfer_needs_the_token_of_an_earlier_call_and_a_message_of_the_caller_in_between() {
    let service = service();
    // The model claims a yes that nobody gave: with a token of its own making, then with the real one in the same turn.
    let script = [
        call("sales", Some("made-up")),
        call("sales", Some("call_0_0")),
        END.to_owned(),
        call("sales", Some("call_1_0")),
        END.to_owned(),
    ];
    let world = world(&service, &script.concat());
    let reports = call_with(&world, &["transfer me", "yes"]).await;
    let statuses = statuses(&world, &reports).await;
    assert_eq!(statuses, ["confirmation_required", "confirmation_required", "transferred"]);
    let expected = ("rtc_1-transfer-sales".to_owned(), "sip:sales@x.example".to_owned());
    assert_eq!(transfers(&service), BTreeSet::from([expected]));
}

#[tokio::test]
async fn a_token_is_good_for_one_destination_one_message_and_one_transfer() {
    let service = service();
    let script = [
        call("sales", None),
        END.to_owned(),
        // Another destination than the caller was asked about.
        call("support", Some("call_0_0")),
        END.to_owned(),
        call("support", Some("call_2_0")),
        call("support", Some("call_2_0")),
        END.to_owned(),
        // A message later than the one that answered.
        END.to_owned(),
        call("support", Some("call_5_0")),
        END.to_owned(),
    ];
    let world = world(&service, &script.concat());
    let reports = call_with(&world, &["sales please", "yes", "yes, support", "hm", "yes"]).await;
    let statuses = statuses(&world, &reports).await;
    let required = "confirmation_required";
    assert_eq!(statuses, [required, required, "transferred", required, required]);
    assert_eq!(service.got("POST /").len(), 1);
}

#[tokio::test]
async fn a_transfer_that_fails_is_told_as_such() {
    let service = Server::start(|_| (404, json!({"error": "no such call"})));
    let script = [call("sales", None), END.to_owned(), call("sales", Some("call_0_0")), END.to_owned()];
    let world = world(&service, &script.concat());
    let reports = call_with(&world, &["transfer me", "yes"]).await;
    let read = read(&world, &reports).await;
    assert_eq!(
        (&read[1]["status"], &read[1]["error"]),
        (&json!("failed"), &json!("call_transfer_failed")),
        "{read:?}"
    );
    assert!(read[1]["next"].as_str().unwrap().contains("without a transfer"), "{read:?}");
    assert_eq!(answer(&reports[1]), "done");
}

#[tokio::test]
async fn the_same_transfer_again_is_one_request_for_the_service() {
    let service = service();
    let script = [
        call("sales", None),
        END.to_owned(),
        call("sales", Some("call_0_0")),
        call("sales", None),
        END.to_owned(),
        call("sales", Some("call_3_0")),
        END.to_owned(),
    ];
    let world = world(&service, &script.concat());
    call_with(&world, &["transfer me", "yes", "yes"]).await;
    assert_eq!(service.got("POST /").len(), 2);
    assert_eq!(transfers(&service).len(), 1, "both have the key of the call and the destination");
}

#[tokio::test]
async fn a_disabled_or_unknown_destination_is_answered_with_those_there_are() {
    let service = service();
    let script = [call("night", None), call("the moon", None), END.to_owned()];
    let world = world(&service, &script.concat());
    let reports = call_with(&world, &["transfer me"]).await;
    assert_eq!(answer(&reports[0]), "done");
    let told = format!("{:?}", world.engine().await.journal().inspect(reports[0].run, None).await.unwrap());
    assert!(told.matches("support").count() >= 2 && told.contains("sales"), "{told}");
    assert!(service.got("POST /").is_empty());
    // No model reads where a call would have gone.
    assert!(!format!("{:?}", read(&world, &reports).await).contains("sip:"));
}
