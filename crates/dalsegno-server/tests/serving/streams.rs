//! Streams: a position in the journal, and nothing that could be lost.

use std::time::Duration;

use dalsegno_access::Scope;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::client::{Event, Stream};
use crate::world::{World, settings};

fn ids(events: &[Event]) -> Vec<u64> {
    events.iter().filter_map(|event| event.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_every_record_and_ends_with_the_run() {
    let world = World::new().await;
    let acme = world.all("acme");
    let run = acme.start("ask", "x").await;
    let id = run["run_id"].as_str().unwrap();
    let mut stream = acme.stream(id, None).await;
    assert!(stream.head.contains("text/event-stream") && stream.head.contains("no-store"), "{}", stream.head);
    // It stays open while the run waits, and goes on with the answer.
    let mut seen = vec![stream.next().await.unwrap()];
    let answered = acme.post(&format!("/v1/runs/{id}/answers"), &json!({ "answer": { "value": 3 } })).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    seen.extend(stream.rest().await);
    let end = seen.pop().unwrap();
    assert_eq!((end.name.as_str(), end.id), ("end", None));
    assert_eq!(serde_json::from_str::<Value>(&end.data).unwrap()["status"], "completed");
    let records = world.engine.journal().journal_of(id.parse().unwrap()).await.unwrap().1;
    assert_eq!(ids(&seen), (0..records.len() as u64).collect::<Vec<_>>());
    // The events are those of the pages, whatever the size of a page and the place where a stream begins.
    let told: Vec<Value> = seen.iter().map(|event| serde_json::from_str(&event.data).unwrap()).collect();
    for limit in [1, 2, 5] {
        let (mut pages, mut path) = (Vec::new(), format!("/v1/runs/{id}/events?limit={limit}"));
        loop {
            let page = acme.get(&path).await.json();
            pages.extend(page["items"].as_array().unwrap().clone());
            let Some(next) = page["next"].as_u64() else { break };
            path = format!("/v1/runs/{id}/events?limit={limit}&after={next}");
        }
        assert_eq!(pages, told, "{limit}");
    }
    let last = records.len() as u64 - 1;
    for after in 0..last {
        let rest = acme.stream(id, Some(after)).await.rest().await;
        assert_eq!(ids(&rest), (after + 1..=last).collect::<Vec<_>>());
        let rest: Vec<Value> = rest
            .iter()
            .take_while(|event| event.name == "record")
            .map(|event| serde_json::from_str(&event.data).unwrap())
            .collect();
        assert_eq!(rest, told[after as usize + 1..]);
    }
    // A browser that comes back after the end stops.
    assert!(acme.stream(id, Some(last)).await.head.starts_with("HTTP/1.1 204 "));
}

/// Takes a request of Chat Completions, and returns the connection on which it is answered.
async fn asked(provider: &TcpListener) -> TcpStream {
    let (mut stream, _) = provider.accept().await.unwrap();
    let mut request = Vec::new();
    let is_whole = |request: &[u8]| {
        let text = String::from_utf8_lossy(request).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        body.len() >= length.unwrap().parse().unwrap()
    };
    while !is_whole(&request) {
        assert!(stream.read_buf(&mut request).await.unwrap() > 0);
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Sends a part of a reply.
async fn say(stream: &mut TcpStream, delta: Value, finish: Option<&str>) {
    let chunk = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    stream.write_all(format!("data: {chunk}\n\n").as_bytes()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_stream_of_a_process_has_what_a_model_says_that_was_asked_before() {
    let provider = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = format!(
        "[models.slow]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://{}/v1\"\n",
        provider.local_addr().unwrap()
    );
    let agent = "name = \"talk\"\ninstructions = \"Talk.\"\n[model]\nuse = \"slow\"\n";
    let files = [("dalsegno.toml", model.as_str()), ("agents/talk.toml", agent)];
    let world = World::with_files(settings(), &files).await;
    let acme = world.all("acme");
    let started = acme.post("/v1/runs", &json!({ "agent": "talk", "text": "x" })).await.json();
    let mut speaks = asked(&provider).await;
    say(&mut speaks, json!({ "content": "One, " }), None).await;
    let mut stream = acme.stream(started["run_id"].as_str().unwrap(), None).await;
    let delta = async |stream: &mut Stream| loop {
        let event = stream.next().await.unwrap();
        if event.name == "delta" {
            let data: Value = serde_json::from_str(&event.data).unwrap();
            return (data["offset"].as_u64().unwrap(), data["text"].as_str().unwrap().to_owned());
        }
    };
    assert_eq!(delta(&mut stream).await, (0, "One, ".to_owned()));
    say(&mut speaks, json!({ "content": "two." }), None).await;
    assert_eq!(delta(&mut stream).await, (5, "two.".to_owned()));
    say(&mut speaks, json!({}), Some("stop")).await;
    speaks.write_all(b"data: [DONE]\n\n").await.unwrap();
    drop(speaks);
    let end = stream.rest().await.pop().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&end.data).unwrap()["status"], "completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_that_is_none_is_refused() {
    let world = World::new().await;
    let acme = world.all("acme");
    let run = acme.start("echo", "x").await;
    let path = format!("/v1/runs/{}/events", run["run_id"].as_str().unwrap());
    for wrong in ["x", "-1", "1.5", "18446744073709551616", " "] {
        let headers = [("accept", "text/event-stream"), ("last-event-id", wrong)];
        acme.send("GET", &path, &headers, b"").await.is_problem(400, "bad_request");
    }
    // A page has no use for it, and refuses what is none as a stream does.
    acme.send("GET", &path, &[("last-event-id", "9223372036854775808")], b"")
        .await
        .is_problem(409, "conflict");
    // A place that another run may have.
    let beyond = [("accept", "text/event-stream"), ("last-event-id", "99")];
    acme.send("GET", &path, &beyond, b"").await.is_problem(409, "conflict");
    acme.get(&format!("{path}?after=99")).await.is_problem(409, "conflict");
    acme.get(&format!("{path}?limit=201")).await.is_problem(400, "bad_request");
    acme.get(&format!("{path}?until=never")).await.is_problem(400, "bad_request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_can_end_where_the_run_waits() {
    let world = World::new().await;
    let acme = world.all("acme");
    let run = acme.start("ask", "x").await;
    let path = format!("/v1/runs/{}/events?until=suspended", run["run_id"].as_str().unwrap());
    let answer = acme.send("GET", &path, &[("accept", "text/event-stream")], b"").await;
    assert!(answer.text.contains("event: end") && answer.text.contains("\"suspended\""), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_loses_its_streams_and_streams_are_counted() {
    let world = World::with(dalsegno_workspace::ServeSettings { streams: 2, ..settings() }).await;
    let (acme, other) = (world.all("acme"), world.client("acme", &[Scope::RunsRead]));
    let run = acme.start("ask", "x").await;
    let id = run["run_id"].as_str().unwrap();
    let (mut one, two) = (other.stream(id, None).await, other.stream(id, None).await);
    assert!(two.head.starts_with("HTTP/1.1 200 "));
    let third = other.stream(id, None).await;
    assert!(third.head.starts_with("HTTP/1.1 429 ") && third.head.contains("retry-after"), "{}", third.head);
    // Those of another key are counted for themselves.
    assert!(acme.stream(id, None).await.head.starts_with("HTTP/1.1 200 "));
    world.keys.revoke(&other.id, 1).unwrap();
    // It ends without a word, since its key is no longer good.
    assert!(one.rest().await.iter().all(|event| event.name == "record"));
    other.get(&format!("/v1/runs/{id}")).await.is_problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_ends_streams_and_waits_and_leaves_the_runs() {
    let mut world = World::new().await;
    let acme = world.all("acme");
    let run = acme.start("ask", "x").await;
    let id = run["run_id"].as_str().unwrap().to_owned();
    let mut stream = acme.stream(&id, None).await;
    stream.next().await.unwrap();
    world.stop();
    // No `end`: the run has not ended, and the client comes back.
    assert!(stream.rest().await.iter().all(|event| event.name == "record"));
    let engine = world.engine.clone();
    world.stopped().await;
    let summary = engine.journal().summary(id.parse().unwrap()).await.unwrap();
    assert_eq!(summary.status, dalsegno_store::RunStatus::Suspended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_finishes_what_its_last_request_has_begun() {
    let mut world = World::new().await;
    let acme = world.all("acme");
    let run = acme.start("pay", "slow").await;
    let (id, waits) = (run["run_id"].as_str().unwrap().to_owned(), &run["waiting_for"][0]);
    let yes = serde_json::json!({ "operation": waits["operation"], "shown": waits["shown"], "answer": { "approve": {} } });
    let (yes, key) = (yes.to_string(), acme.key.clone().unwrap());
    let (half, rest) = yes.split_at(yes.len() / 2);
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "POST /v1/runs/{id}/answers HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{half}",
        yes.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // It has the head, since it answers a whole request that came later.
    assert_eq!(acme.get("/v1/runs").await.status, 200);
    let (address, engine) = (world.address, world.engine.clone());
    world.stop();
    while TcpStream::connect(address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    stream.write_all(rest.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("recorded"), "{answer}");
    world.stopped().await;
    // The payment may not be repeated: it has its outcome before the server says that it has stopped.
    let records = engine.journal().inspect(id.parse().unwrap(), None).await.unwrap().records;
    assert!(
        records.iter().any(|one| matches!(one.body, dalsegno_store::Body::Resolved { .. })),
        "{records:?}"
    );
}
