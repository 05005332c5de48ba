//! Tenants: nothing of one is seen, counted or changed with the key of another.

use dalsegno_core::RunId;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::world::World;

/// A request about a run.
#[derive(Debug, Clone)]
enum Ask {
    Get(String, Vec<(&'static str, String)>),
    Post(String, Value),
}

/// Requests that name a run in every place that takes one.
fn asks(id: &str, operation: &str, shown: &str, number: u32, text: &str) -> Vec<Ask> {
    let get = |path: String| Ask::Get(path, Vec::new());
    let stream = |last: String| {
        let headers = vec![("accept", "text/event-stream".to_owned()), ("last-event-id", last)];
        Ask::Get(format!("/v1/runs/{id}/events"), headers)
    };
    vec![
        get(format!("/v1/runs/{id}")),
        get(format!("/v1/runs/{id}?wait=0")),
        get(format!("/v1/runs/{id}/events")),
        get(format!("/v1/runs/{id}/events?after={number}&limit=3")),
        stream(number.to_string()),
        stream("x".to_owned()),
        get(format!("/v1/runs?parent={id}")),
        get(format!("/v1/runs/{id}/steps/{number}")),
        get(format!("/v1/diff?left={id}&right={id}")),
        Ask::Post(format!("/v1/runs/{id}/cancel"), json!({ "reason": text })),
        Ask::Post(format!("/v1/runs/{id}/fork"), json!({ "at": number })),
        Ask::Post(
            format!("/v1/runs/{id}/answers"),
            json!({ "operation": operation, "shown": shown, "answer": { "approve": {} } }),
        ),
        Ask::Post(format!("/v1/runs/{id}/answers"), json!({ "answer": { "value": number } })),
        Ask::Post("/v1/runs".to_owned(), json!({ "agent": "echo", "text": text, "after": id })),
    ]
}

async fn send(client: &Client, ask: &Ask) -> Answer {
    match ask {
        Ask::Get(path, headers) => {
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            client.send("GET", path, &headers, b"").await
        }
        Ask::Post(path, body) => client.post(path, body).await,
    }
}

/// What a client can see of an answer, but for the time of day.
fn seen(answer: &Answer) -> (u16, String, String) {
    let head: Vec<&str> = answer.head.lines().filter(|line| !line.starts_with("date:")).collect();
    (answer.status, head.join("\n"), answer.text.clone())
}

#[test]
fn no_request_with_one_tenants_key_shows_anything_of_anothers() {
    const MARK: &str = "RIVAL-ONLY";
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (world, acme, ids, operation, shown) = runtime.block_on(async {
        let world = World::new().await;
        let (acme, rival) = (world.all("acme"), world.all("rival"));
        acme.start("echo", "ours").await;
        let waits = rival.start("pay", MARK).await;
        let ended = rival.start("echo", MARK).await;
        let ids = [&waits, &ended].map(|run| run["run_id"].as_str().unwrap().to_owned());
        let one = &waits["waiting_for"][0];
        let (operation, shown) = (one["operation"].as_str().unwrap(), one["shown"].as_str().unwrap());
        let (operation, shown) = (operation.to_owned(), shown.to_owned());
        (world, acme, ids, operation, shown)
    });
    let before = runtime.block_on(world.runs());
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    let unknown = RunId::from_bytes([0x5a; 16]).to_string();
    runner
        .run(&(0_usize..2, 0_usize..14, 0_u32..9, "[ -~]{0,12}"), |(which, what, number, text)| {
            let theirs = &asks(&ids[which], &operation, &shown, number, &text)[what];
            let none = &asks(&unknown, &operation, &shown, number, &text)[what];
            let (theirs, none) =
                runtime.block_on(async { (send(&acme, theirs).await, send(&acme, none).await) });
            // The answer is the one to a run that does not exist: status, headers and body.
            prop_assert_eq!(seen(&theirs), seen(&none));
            prop_assert_eq!(theirs.status, 404);
            for path in [
                "/v1/runs",
                "/v1/runs?tenant=rival",
                "/v1/runs?status=suspended",
                "/v1/inbox",
                "/v1/inbox?tenant=rival",
            ] {
                let listed = runtime.block_on(acme.get(path));
                prop_assert!(!listed.text.contains(MARK) && !listed.text.contains("rival"), "{listed:?}");
                let expected = usize::from(path == "/v1/runs");
                prop_assert_eq!(listed.json()["items"].as_array().map(Vec::len), Some(expected), "{}", path);
            }
            Ok(())
        })
        .unwrap();
    // Nothing was begun, and nothing of theirs has changed.
    assert_eq!(runtime.block_on(world.runs()), before);
    let waits = runtime.block_on(world.engine.journal().summary(ids[0].parse().unwrap())).unwrap();
    assert_eq!(waits.status, dalsegno_store::RunStatus::Suspended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_one_tenant_starts_no_run_of_another() {
    let world = World::new().await;
    let acme = world.all("acme");
    for tenant in ["rival", "nothing-of-the-kind"] {
        acme.post("/v1/runs", &json!({ "agent": "echo", "tenant": tenant }))
            .await
            .is_problem(403, "forbidden");
    }
    let all = world.all("*");
    all.post("/v1/runs", &json!({ "agent": "echo", "tenant": "nothing-of-the-kind" }))
        .await
        .is_problem(404, "not_found");
    let body = json!({ "agent": "echo", "text": "x", "tenant": "rival", "session": "shared" });
    assert_eq!(all.post("/v1/runs", &body).await.status, 201);
    // A session of the same name is another one.
    assert_eq!(
        acme.post("/v1/runs", &json!({ "agent": "echo", "session": "shared" })).await.json()["tenant"],
        "acme"
    );
    assert_eq!(world.runs().await, 2);
}
