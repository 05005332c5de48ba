//! Runs as a stream: which of them change, in order, without a gap, and nothing of another tenant.

use dalsegno_access::Scope;
use serde_json::{Value, json};

use crate::client::Event;
use crate::world::World;

fn seen(event: &Event) -> (String, String) {
    assert_eq!(event.name, "run", "{event:?}");
    let run: Value = serde_json::from_str(&event.data).unwrap();
    (run["run_id"].as_str().unwrap().to_owned(), run["status"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_runs_tells_of_each_that_changes() {
    let world = World::new().await;
    let acme = world.all("acme");
    let page = acme.get("/v1/runs").await.json();
    let changes = page["changes"].as_str().unwrap().to_owned();
    let run = acme.start("ask", "x").await;
    let id = run["run_id"].as_str().unwrap();
    // What happened between the page and the stream is there.
    let mut stream = acme.follow(&format!("/v1/runs?after={changes}"), None).await;
    assert!(stream.head.contains("text/event-stream"), "{}", stream.head);
    let first = stream.next().await.unwrap();
    assert_eq!(seen(&first), (id.to_owned(), "suspended".to_owned()));
    acme.post(&format!("/v1/runs/{id}/answers"), &json!({ "answer": { "value": 3 } })).await;
    let mut last = stream.next().await.unwrap();
    while seen(&last).1 != "completed" {
        assert_eq!(seen(&last), (id.to_owned(), "running".to_owned()));
        last = stream.next().await.unwrap();
    }
    let other = acme.start("echo", "y").await;
    // A client that comes back with an id misses nothing that came after it, and nothing comes twice.
    let mut again = acme.follow(&format!("/v1/runs?after={changes}"), Some(&last.place)).await;
    let mut event = again.next().await.unwrap();
    while seen(&event).1 != "completed" {
        event = again.next().await.unwrap();
    }
    assert_eq!(seen(&event).0, other["run_id"].as_str().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_runs_has_those_that_match_and_are_in_reach() {
    let world = World::new().await;
    let (acme, rival) = (world.all("acme"), world.all("rival"));
    let begin = acme.get("/v1/runs").await.json()["changes"].as_str().unwrap().to_owned();
    rival.start("echo", "RIVAL-ONLY").await;
    let waits = acme.start("pay", "10 EUR").await;
    let ended = acme.start("echo", "ours").await;
    let end = acme.start("ask", "last").await;
    let first = async |query: &str| {
        let mut stream = acme.follow(&format!("/v1/runs?after={begin}{query}"), None).await;
        seen(&stream.next().await.unwrap()).0
    };
    let id = |run: &Value| run["run_id"].as_str().unwrap().to_owned();
    assert_eq!(first("").await, id(&waits));
    assert_eq!(first("&agent=echo").await, id(&ended));
    assert_eq!(first("&status=completed").await, id(&ended));
    assert_eq!(first("&waiting=input").await, id(&end));
    assert_eq!(first(&format!("&session={}", ended["session"].as_str().unwrap())).await, id(&ended));
    // Nothing of another tenant: not its runs, and not how many changes there were of them.
    let mut stream = acme.follow(&format!("/v1/runs?after={begin}&tenant=rival"), None).await;
    acme.start("echo", "more").await;
    let lister = world.client("acme", &[Scope::RunsList]);
    let mut bare = lister.follow(&format!("/v1/runs?after={begin}&agent=echo"), None).await;
    let event = bare.next().await.unwrap();
    assert!(!event.data.contains("ours"), "{event:?}");
    world.keys.revoke(&acme.id, 1).unwrap();
    assert_eq!(stream.rest().await, [], "a stream of another tenant's runs said something");
    assert!(event.place.parse::<u64>().is_err(), "a place that can be read counts the changes of others");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_was_not_given_is_refused_and_pages_link_to_the_next() {
    let world = World::new().await;
    let acme = world.all("acme");
    let stranger = &*"A".repeat(64);
    for (wrong, status, code) in
        [("1", 400, "bad_request"), ("x", 400, "bad_request"), (stranger, 404, "not_found")]
    {
        let headers = [("accept", "text/event-stream"), ("last-event-id", wrong)];
        acme.send("GET", "/v1/runs", &headers, b"").await.is_problem(status, code);
        let headers = [("accept", "text/event-stream")];
        acme.send("GET", &format!("/v1/runs?after={wrong}"), &headers, b"").await.is_problem(status, code);
    }
    for number in 0..3 {
        acme.start("ask", &number.to_string()).await;
    }
    for path in ["/v1/runs?limit=2&agent=ask", "/v1/inbox?limit=2"] {
        let first = acme.get(path).await;
        let link = first.header("link").unwrap();
        let address = link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap();
        let second = acme.get(address).await;
        assert_eq!((second.status, second.json()["items"].as_array().unwrap().len()), (200, 1), "{second:?}");
        assert_eq!(second.header("link"), None);
    }
}
