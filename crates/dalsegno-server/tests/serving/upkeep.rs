//! What is done with the records of a run: exported, replayed, erased; and sessions.

use dalsegno_access::Scope;
use dalsegno_store::Archive;
use serde_json::{Value, json};

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_exported_as_the_command_line_does_and_replayed() {
    let world = World::new().await;
    let (acme, rival) = (world.all("acme"), world.all("rival"));
    let run = acme.start("echo", "hello").await;
    let id = run["run_id"].as_str().unwrap();
    let path = format!("/v1/runs/{id}/export");
    let address = world.address;
    let key = acme.key.clone().unwrap();
    let bytes = crate::client::bytes(address, &path, &key).await;
    let archive = Archive::decode(&bytes).unwrap();
    assert_eq!(archive.runs().collect::<Vec<_>>(), [id.parse().unwrap()]);
    let exported = acme.get(&path).await;
    let name = format!("attachment; filename=\"{id}.dalsegno\"");
    assert_eq!(exported.header("content-disposition").as_deref(), Some(name.as_str()));
    let replayed = acme.post(&format!("/v1/runs/{id}/replay"), &json!({})).await.json();
    assert_eq!((&replayed["identical"], &replayed["divergence"]), (&json!(true), &Value::Null));
    let part = acme.post(&format!("/v1/runs/{id}/replay"), &json!({ "until": 1 })).await.json();
    assert!(part["records"].as_u64() <= replayed["records"].as_u64(), "{part}");
    for (method, path) in
        [("GET", path), ("POST", format!("/v1/runs/{id}/replay")), ("DELETE", format!("/v1/runs/{id}"))]
    {
        rival.send(method, &path, &[], b"").await.is_problem(404, "not_found");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_erased_for_ever_when_it_has_ended() {
    let world = World::new().await;
    let acme = world.all("acme");
    let body = json!({ "agent": "echo", "text": "the secret plan", "session": "s" });
    let first = acme.post_with("/v1/runs", &[("prefer", "wait=30")], &body).await.json();
    let second = acme.post_with("/v1/runs", &[("prefer", "wait=30")], &body).await.json();
    let path = |run: &Value| format!("/v1/runs/{}", run["run_id"].as_str().unwrap());
    let waits = acme.start("ask", "x").await;
    acme.send("DELETE", &path(&waits), &[], b"").await.is_problem(409, "conflict");
    let writer = world.client("acme", &[Scope::RunsWrite]);
    writer.send("DELETE", &path(&first), &[], b"").await.is_problem(403, "forbidden");
    let erased = acme.send("DELETE", &path(&first), &[], b"").await.json();
    assert!(erased["records"].as_u64() > Some(0), "{erased}");
    assert_eq!((&erased["held_by"], &erased["erased_in"]), (&json!([second["run_id"]]), &json!([])));
    let shown = acme.get(&path(&first)).await;
    assert_eq!((shown.status, &shown.json()["erased"]), (200, &json!(true)));
    assert!(!shown.text.contains("secret plan"), "{shown:?}");
    for rest in ["events", "export"] {
        acme.get(&format!("{}/{rest}", path(&first))).await.is_problem(410, "erased");
    }
    acme.post(&format!("{}/replay", path(&first)), &json!({})).await.is_problem(410, "erased");
    let everywhere = acme.send("DELETE", &format!("{}?everywhere=true", path(&first)), &[], b"").await.json();
    assert_eq!((&everywhere["erased_in"], &everywhere["held_by"]), (&json!([second["run_id"]]), &json!([])));
    let all = [acme.get("/v1/runs").await, acme.get("/v1/sessions/s").await];
    assert!(all.iter().all(|answer| answer.status == 200 && !answer.text.contains("secret plan")), "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_its_runs_with_what_was_said() {
    let world = World::new().await;
    let (acme, rival) = (world.all("acme"), world.all("rival"));
    for text in ["one", "two", "three"] {
        let body = json!({ "agent": "echo", "text": text, "session": "talk" });
        acme.post_with("/v1/runs", &[("prefer", "wait=30")], &body).await;
    }
    acme.start("echo", "elsewhere").await;
    let page = acme.get("/v1/sessions/talk?limit=2").await;
    let said: Vec<(String, String)> = page.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| (turn["text"].as_str().unwrap().to_owned(), turn["answer"].as_str().unwrap().to_owned()))
        .collect();
    let turn = |text: &str| (text.to_owned(), format!("You said: {text}"));
    assert_eq!(said, [turn("three"), turn("two")]);
    let link = page.header("link").unwrap();
    let next = link.strip_prefix('<').unwrap().split_once('>').unwrap().0;
    assert_eq!(acme.get(next).await.json()["items"][0]["answer"], "You said: one");
    acme.get("/v1/sessions/none").await.is_problem(404, "not_found");
    rival.get("/v1/sessions/talk").await.is_problem(404, "not_found");
    acme.get("/v1/sessions/talk?tenant=rival").await.is_problem(404, "not_found");
    assert_eq!(world.all("*").get("/v1/sessions/talk?tenant=acme").await.status, 200);
}
