//! The document of the interface: it has every address and nothing else, and what the server sends fits it.

use std::collections::BTreeSet;

use dalsegno_access::Scope;
use serde_json::{Value, json};

use crate::catalogue::{ANY, NEW, says};
use crate::world::World;

/// The operations of the document: the path, the method, and what is said of it.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let each = paths.flat_map(|(path, item)| {
        item.as_object()
            .unwrap()
            .iter()
            .map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    each.collect()
}

/// Every value of a document with the path to it.
fn walk<'v>(value: &'v Value, path: &str, visit: &mut impl FnMut(&str, &'v Value)) {
    visit(path, value);
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                walk(field, &format!("{path}/{name}"), visit);
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                walk(item, &format!("{path}/{place}"), visit);
            }
        }
        _ => {}
    }
}

#[test]
fn every_address_is_in_the_document_with_its_scope_and_nothing_else_is() {
    let document = dalsegno_server::openapi();
    assert_eq!(document["openapi"], "3.1.0");
    let told: BTreeSet<(String, String, Option<String>)> = operations(&document)
        .into_iter()
        .map(|(path, method, operation)| {
            let scope = operation["security"][0]["key"][0].as_str().map(str::to_owned);
            (path.to_owned(), method.to_uppercase(), scope)
        })
        .collect();
    let served: BTreeSet<(String, String, Option<String>)> = dalsegno_server::routes()
        .into_iter()
        .map(|route| (route.path, route.method, route.scope.map(|scope| scope.as_str().to_owned())))
        .collect();
    assert_eq!(told, served);
    let scopes: BTreeSet<&str> = told.iter().filter_map(|(_, _, scope)| scope.as_deref()).collect();
    // What is taken besides, for some documents.
    let addressed = Scope::ALL.iter().filter(|scope| **scope != Scope::TenantsAdmin);
    assert_eq!(scopes, addressed.map(|scope| scope.as_str()).collect(), "a scope without an address");
}

#[test]
fn everything_in_the_document_is_described_and_can_be_found() {
    let document = dalsegno_server::openapi();
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let place = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{place}: its id is another one's");
        assert!(!operation["summary"].as_str().unwrap_or_default().is_empty(), "{place}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(parameter["description"].is_string(), "{place}: {parameter}");
            assert!(!parameter["schema"].to_string().contains("null"), "{place}: {parameter}");
        }
        let named = path.matches('{').count();
        let given = operation["parameters"].as_array().into_iter().flatten();
        assert_eq!(given.filter(|one| one["in"] == "path").count(), named, "{place}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with(['1', '2'])), "{place}");
        for (status, response) in responses {
            assert!(!response["description"].as_str().unwrap_or_default().is_empty(), "{place}: {status}");
            // 304 has no body, and 101 opens a socket.
            let is_problem = !matches!(status.as_bytes()[0], b'1'..=b'3');
            let sent = &response["content"]["application/problem+json"]["schema"]["$ref"];
            assert_eq!(sent == "#/components/schemas/Problem", is_problem, "{place}: {status}");
        }
        for status in ["421", "500"] {
            assert!(responses.contains_key(status), "{place}: {status}");
        }
    }
    walk(&document, "#", &mut |path, value| {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            let found = document.pointer(reference.trim_start_matches('#'));
            assert!(found.is_some(), "{path}: {reference} is not there");
        }
        if let Some(properties) = value.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                let is_told =
                    property.to_string().contains("\"description\"") || property.get("$ref").is_some();
                assert!(is_told, "{path}: `{name}` is not described");
            }
        }
    });
}

/// Checks a document against the schema with this name. A key that the schema does not have is a fault.
fn fits(document: &Value, name: &str, sent: &Value) {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": format!("#/components/schemas/{name}"),
        "unevaluatedProperties": false,
        "components": document["components"],
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> =
        validator.iter_errors(sent).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{name}: {faults:?}: {sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_sends_fits_the_document_that_it_serves_without_a_key() {
    let world = World::new().await;
    let answer = world.without_key().get("/openapi.json").await;
    assert_eq!((answer.status, answer.header("content-type").as_deref()), (200, Some("application/json")));
    let document = answer.json();
    assert_eq!(document, dalsegno_server::openapi());
    let acme = world.all("acme");
    let waits = acme.start("pay", "10 EUR").await;
    let asks = acme.start("ask", "x").await;
    let ended = acme.start("echo", "x").await;
    for run in [&waits, &asks, &ended] {
        fits(&document, "Standing", run);
    }
    for waiting in [&waits, &asks].into_iter().flat_map(|run| run["waiting_for"].as_array().unwrap()) {
        fits(&document, "Waiting", waiting);
    }
    let id = |run: &Value| run["run_id"].as_str().unwrap().to_owned();
    let operation = &waits["waiting_for"][0];
    let approve = json!({
        "operation": operation["operation"], "shown": operation["shown"], "answer": { "approve": {} }, "by": "ada",
    });
    fits(&document, "Answer", &approve);
    let path = format!("/v1/runs/{}/answers", id(&waits));
    fits(&document, "AnswerReceipt", &acme.post(&path, &approve).await.json());
    fits(&document, "Problem", &acme.post(&path, &json!({ "answer": { "value": 1 } })).await.json());
    fits(&document, "Problem", &acme.get("/v1/runs?limit=0").await.json());
    let forked = acme.post(&format!("/v1/runs/{}/fork", id(&asks)), &json!({ "at": 1 })).await;
    assert_eq!(forked.status, 201, "{forked:?}");
    fits(&document, "Standing", &forked.json());
    let cancelled = acme.post(&format!("/v1/runs/{}/cancel", id(&asks)), &json!({})).await;
    fits(&document, "CancelReceipt", &cancelled.json());
    for run in [&waits, &asks, &ended] {
        let page = acme.get(&format!("/v1/runs/{}/events?limit=200", id(run))).await.json();
        fits(&document, "EventPage", &page);
        for event in page["items"].as_array().unwrap() {
            fits(&document, "Event", event);
        }
        fits(&document, "Standing", &acme.get(&format!("/v1/runs/{}?wait=30", id(run))).await.json());
        let replayed = acme.post(&format!("/v1/runs/{}/replay", id(run)), &json!({})).await;
        fits(&document, "Replayed", &replayed.json());
    }
    let runs = acme.get("/v1/runs").await.json();
    fits(&document, "RunPage", &runs);
    for run in runs["items"].as_array().unwrap() {
        fits(&document, "Listed", run);
    }
    let inbox = acme.get("/v1/inbox").await.json();
    for entry in inbox["items"].as_array().unwrap() {
        fits(&document, "InboxEntry", entry);
    }
    let session = acme.get(&format!("/v1/sessions/{}", ended["session"].as_str().unwrap())).await.json();
    fits(&document, "Turn", &session["items"][0]);
    fits(&document, "Agents", &acme.get("/v1/agents").await.json());
    let erased = acme.send("DELETE", &format!("/v1/runs/{}", id(&ended)), &[], b"").await;
    fits(&document, "EraseReceipt", &erased.json());
    fits(&document, "ErasedRun", &acme.get(&format!("/v1/runs/{}", id(&ended))).await.json());
    fits(&document, "Listed", &acme.get("/v1/runs").await.json()["items"][1]);
    let hook = acme.post("/v1/webhooks", &json!({ "url": "https://hooks.example.com/in" })).await.json();
    fits(&document, "WebhookWithSecret", &hook);
    for one in acme.get("/v1/webhooks").await.json()["items"].as_array().unwrap() {
        fits(&document, "Webhook", one);
    }
    // Nothing is sent to an address that may not be reached, and the answer says so.
    let tested = acme.post(&format!("/v1/webhooks/{}/test", hook["id"].as_str().unwrap()), &json!({})).await;
    fits(&document, "WebhookTest", &tested.json());
    let writer = world.client("acme", &[Scope::RunsWrite]);
    let begun = writer.post("/v1/runs", &json!({ "agent": "echo", "text": "x" })).await;
    fits(&document, "Begun", &begun.json());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_of_the_document_are_understood() {
    let world = World::new().await;
    let document = dalsegno_server::openapi();
    let acme = world.all("acme");
    for (path, method, operation) in operations(&document) {
        let body = &operation["requestBody"]["content"]["application/json"];
        // What a document of TOML means, its own tests ask.
        if operation.get("requestBody").is_none() || body.is_null() {
            continue;
        }
        let name = body["schema"]["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
        fits(&document, name, &body["example"]);
        if !path.starts_with("/v1/runs") {
            // The tests of documents send these.
            continue;
        }
        // The run is not there: all else is in order.
        let path = path.replace("{id}", "00000000000000000000000000000000");
        let answer = acme
            .send(
                &method.to_uppercase(),
                &path,
                &[("content-type", "application/json")],
                body["example"].to_string().as_bytes(),
            )
            .await;
        answer.is_problem(404, "not_found");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_sends_of_documents_fits_as_well() {
    let world = World::new().await;
    let document = dalsegno_server::openapi();
    let all = world.all("*");
    let json = "application/json";
    for path in ["/v1/tools/word", "/v1/tenants/acme/tools/word"] {
        let written = all.put(path, "json", NEW, &says("word", "hi")).await;
        assert_eq!(written.status, 201, "{written:?}");
        fits(&document, "WrittenDocument", &written.json());
        fits(&document, "DocumentVersions", &all.get(&format!("{path}/versions")).await.json());
        let body = says("word", "hello");
        let checked =
            all.send("POST", &format!("{path}/check"), &[("content-type", json)], body.as_bytes()).await;
        fits(&document, "CheckedDocument", &checked.json());
        let asked = json!({ "params": {} });
        fits(&document, "Try", &asked);
        fits(&document, "Tried", &all.post(&format!("{path}/try"), &asked).await.json());
    }
    for path in ["/v1/tools", "/v1/tenants/acme/tools"] {
        fits(&document, "ToolListing", &all.get(path).await.json());
    }
    fits(&document, "TenantListing", &all.get("/v1/tenants").await.json());
    let broken = all.put("/v1/tools/broken", "json", NEW, "{ \"name\": 1 }").await;
    fits(&document, "Problem", &broken.is_problem(422, "invalid").json());
    fits(&document, "Diagnostic", &broken.json()["diagnostics"][0]);
    fits(&document, "Uncovered", &all.delete("/v1/tenants/acme/tools/word", ANY).await.json());
}
