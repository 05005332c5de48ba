//! What computes is bounded: a tenant that asks for much of it takes nothing from the others, and who goes away stops it.

use std::num::NonZeroUsize;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::client::{Answer, Client};
use crate::world::World;

/// How many reads of a tenant are computed at once, as the server counts them, and how many wait.
fn of_tenant() -> (usize, usize) {
    let all = std::thread::available_parallelism().map_or(2, NonZeroUsize::get).max(2);
    (all / 2, 8)
}

/// A run of one step that has ended.
async fn ended(client: &Client) -> String {
    let run = client.start("ask", "much").await["run_id"].as_str().unwrap().to_owned();
    let answer = json!({ "answer": { "value": 3 } });
    assert_eq!(client.post(&format!("/v1/runs/{run}/answers"), &answer).await.status, 200);
    let ended = client.get(&format!("/v1/runs/{run}?wait=30")).await.json();
    assert_eq!(ended["status"], "completed", "{ended:#}");
    run
}

/// The ways to have something computed of a run.
const WAYS: usize = 6;

/// The n-th of these ways.
async fn compute(client: &Client, run: &str, way: usize) -> Answer {
    match way {
        0 => client.post(&format!("/v1/runs/{run}/replay"), &json!({})).await,
        1 => client.get(&format!("/v1/diff?left={run}&right={run}")).await,
        2 => client.get(&format!("/v1/runs/{run}/export")).await,
        3 => client.get(&format!("/v1/runs/{run}/steps/end")).await,
        4 => client.get("/v1/inbox").await,
        _ => client.post(&format!("/v1/runs/{run}/fork"), &json!({ "at": 1 })).await,
    }
}

fn is_done(answer: &Answer) -> bool {
    matches!(answer.status, 200 | 201)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_has_much_computed_waits_for_itself_and_the_others_do_not() {
    let (world, hold) = World::held().await;
    let (acme, rival) = (world.all("acme"), world.all("rival"));
    let run = ended(&acme).await;
    let other = ended(&rival).await;
    hold.hold(&run);
    let (under_way, waiting) = of_tenant();
    // Archives have room of their own, so that each way but that one is taken here.
    let mut asked: FuturesUnordered<_> =
        (0..=under_way + waiting).map(|number| compute(&acme, &run, [0, 1, 3, 5][number % 4])).collect();
    // One is too many, and none of the others ends before it is let go.
    let refused = asked.next().await.unwrap();
    refused.is_problem(429, "too_many");
    assert_eq!(refused.header("retry-after").as_deref(), Some("2"));
    // The tenant has what computes nothing as before, and the other one has everything.
    assert_eq!(acme.get("/v1/agents").await.status, 200);
    assert_eq!(acme.get("/v1/webhooks").await.status, 200);
    for way in 0..WAYS {
        let answer = compute(&rival, &other, way).await;
        assert!(is_done(&answer), "{way}: {answer:?}");
    }
    hold.free();
    while let Some(answer) = asked.next().await {
        assert!(is_done(&answer), "{answer:?}");
    }
    // All the room is there again.
    for way in 0..WAYS {
        let answer = compute(&acme, &run, way).await;
        assert!(is_done(&answer), "{way}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_way_to_have_something_computed_is_without_a_bound() {
    for way in 0..WAYS {
        let (world, hold) = World::held().await;
        let acme = world.all("acme");
        let run = ended(&acme).await;
        // Something waits for a person, so that there is something to compute.
        acme.start("ask", "how many").await;
        hold.hold(&run);
        let (under_way, waiting) = of_tenant();
        let mut asked: FuturesUnordered<_> =
            (0..=under_way + waiting).map(|_| compute(&acme, &run, 0)).collect();
        // The others have all the places.
        asked.next().await.unwrap().is_problem(429, "too_many");
        compute(&acme, &run, way).await.is_problem(429, "too_many");
        hold.free();
        while asked.next().await.is_some() {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_goes_away_stops_what_is_computed_for_it() {
    let (world, hold) = World::held().await;
    let acme = world.all("acme");
    let run = ended(&acme).await;
    hold.hold(&run);
    for path in [format!("/v1/runs/{run}/export"), format!("/v1/diff?left={run}&right={run}")] {
        let mut gone = TcpStream::connect(acme.address).await.unwrap();
        let key = acme.key.as_deref().unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n");
        gone.write_all(head.as_bytes()).await.unwrap();
        hold.reads(1).await;
        drop(gone);
        // The read is given up: nothing waits for it any more.
        hold.reads(0).await;
    }
    hold.free();
    assert_eq!(compute(&acme, &run, 0).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_is_finished_when_its_client_goes_away() {
    let (world, hold) = World::held().await;
    let acme = world.all("acme");
    let run = ended(&acme).await;
    let changes = acme.get("/v1/runs").await.json()["changes"].as_str().unwrap().to_owned();
    let mut stream = acme.follow(&format!("/v1/runs?after={changes}"), None).await;
    hold.hold(&run);
    let mut gone = TcpStream::connect(acme.address).await.unwrap();
    let key = acme.key.as_deref().unwrap();
    let head = format!(
        "POST /v1/runs/{run}/fork HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: 8\r\n\r\n{{\"at\":1}}"
    );
    gone.write_all(head.as_bytes()).await.unwrap();
    hold.reads(1).await;
    drop(gone);
    // Another request gives the server the time to see it go.
    assert_eq!(acme.get("/v1/agents").await.status, 200);
    hold.free();
    let event = tokio::time::timeout(Duration::from_secs(30), stream.next()).await;
    let event = event.expect("the fork was begun and given up").unwrap();
    assert!(!event.data.contains(&run), "{event:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_refuses_what_waits() {
    let (mut world, hold) = World::held().await;
    let acme = world.all("acme");
    let run = ended(&acme).await;
    hold.hold(&run);
    let (under_way, _) = of_tenant();
    let mut asked: FuturesUnordered<_> = (0..=under_way).map(|_| compute(&acme, &run, 0)).collect();
    tokio::select! {
        () = hold.reads(under_way) => {}
        answer = asked.next() => panic!("{answer:?}"),
    }
    // The next one may be on its way still: it is refused as well.
    world.stop();
    let refused = asked.next().await.unwrap();
    assert!(refused.status == 503 || refused.status == 0, "{refused:?}");
    hold.free();
    while asked.next().await.is_some() {}
}
