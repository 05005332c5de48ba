//! Runs: started, listed, read, answered, cancelled and forked.

use dalsegno_access::Scope;
use serde_json::{Value, json};

use crate::world::{BUSY, WITHOUT_ANSWERS, World, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_started_and_read_as_the_command_line_shows_it() {
    let world = World::new().await;
    let acme = world.all("acme");
    let body = json!({ "agent": "echo", "text": "hello", "session": "s1" });
    let answer = acme.post_with("/v1/runs", &[("prefer", "wait=30")], &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let run = answer.json();
    let id = run["run_id"].as_str().unwrap();
    assert_eq!(answer.header("location"), Some(format!("/v1/runs/{id}")));
    assert_eq!(answer.header("preference-applied").as_deref(), Some("wait=30"));
    assert_eq!(
        (run["status"].as_str(), run["answer"].as_str()),
        (Some("completed"), Some("You said: hello"))
    );
    assert_eq!((run["tenant"].as_str(), run["session"].as_str()), (Some("acme"), Some("s1")));
    assert_eq!(acme.get(&format!("/v1/runs/{id}")).await.json(), run);
    let listed = acme.get("/v1/runs").await.json();
    assert_eq!(
        (listed["items"][0]["run_id"].as_str(), listed["items"][0]["text"].as_str()),
        (Some(id), Some("hello"))
    );
    assert_eq!(listed["next"], Value::Null);
    let agents = acme.get("/v1/agents").await.json();
    let names: Vec<&str> =
        agents["agents"].as_array().unwrap().iter().filter_map(|agent| agent["name"].as_str()).collect();
    assert_eq!(names, ["ask", "echo", "pay"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_start_happens_once_and_another_one_under_its_key_is_a_conflict() {
    let world = World::new().await;
    let (acme, rival) = (world.all("acme"), world.all("rival"));
    let headers = [("idempotency-key", "k-1"), ("prefer", "wait=30")];
    let body = json!({ "agent": "ask", "text": "x" });
    let first = acme.post_with("/v1/runs", &headers, &body).await;
    let second = acme.post_with("/v1/runs", &headers, &body).await;
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(first.header("idempotency-replayed"), None);
    assert_eq!(second.header("idempotency-replayed").as_deref(), Some("true"));
    assert_eq!(first.json()["run_id"], second.json()["run_id"]);
    let other = acme.post_with("/v1/runs", &headers, &json!({ "agent": "ask", "text": "y" })).await;
    other.is_problem(409, "key_conflict");
    // The key of another tenant is another key.
    let theirs = rival.post_with("/v1/runs", &headers, &body).await;
    assert_eq!(theirs.status, 201);
    assert_ne!(theirs.json()["run_id"], first.json()["run_id"]);
    assert_eq!(world.runs().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_does_not_exist_starts_nothing_and_leaves_its_key_free() {
    let world = World::new().await;
    let acme = world.all("acme");
    let headers = [("idempotency-key", "k-1"), ("prefer", "wait=30")];
    let body = json!({ "agent": "echo", "text": "x", "model": "nope" });
    let refused = acme.post_with("/v1/runs", &headers, &body).await;
    refused.is_problem(422, "invalid");
    assert_eq!(refused.json()["violations"][0]["pointer"], "/model", "{refused:?}");
    assert_eq!(world.runs().await, 0);
    let body = json!({ "agent": "echo", "text": "x" });
    let started = acme.post_with("/v1/runs", &headers, &body).await;
    assert_eq!(started.status, 201);
    let fork = format!("/v1/runs/{}/fork", started.json()["run_id"].as_str().unwrap());
    acme.post_with(&fork, &[], &json!({ "at": 1, "model": "nope" })).await.is_problem(422, "invalid");
    assert_eq!(world.runs().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_show_every_run_once_while_runs_are_added() {
    let world = World::new().await;
    let acme = world.all("acme");
    let mut expected = Vec::new();
    for number in 0..7 {
        expected.push(acme.start("echo", &number.to_string()).await["run_id"].clone());
    }
    expected.reverse();
    let (mut seen, mut path) = (Vec::new(), "/v1/runs?limit=3".to_owned());
    loop {
        let page = acme.get(&path).await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|run| run["run_id"].clone()));
        // What is added now stands before the first page.
        acme.start("echo", "later").await;
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/runs?limit=3&cursor={next}");
    }
    assert_eq!(seen, expected);
    // A cursor is of one listing alone.
    let page = acme.get("/v1/runs?limit=3").await.json();
    let next = page["next"].as_str().unwrap();
    for path in ["/v1/inbox?cursor=", "/v1/runs?agent=echo&cursor="] {
        acme.get(&format!("{path}{next}")).await.is_problem(404, "not_found");
    }
    world.all("rival").get(&format!("/v1/runs?limit=3&cursor={next}")).await.is_problem(404, "not_found");
    acme.get("/v1/runs?cursor=x").await.is_problem(400, "bad_request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_names_what_was_shown_and_is_recorded_with_its_key() {
    let world = World::new().await;
    let acme = world.all("acme");
    let run = acme.start("pay", "10 EUR").await;
    let (id, waits) = (run["run_id"].as_str().unwrap(), &run["waiting_for"][0]);
    assert_eq!((run["status"].as_str(), waits["kind"].as_str()), (Some("suspended"), Some("approval")));
    let inbox = acme.get("/v1/inbox").await.json();
    assert_eq!(
        (&inbox["items"][0]["operation"], inbox["items"].as_array().unwrap().len()),
        (&waits["operation"], 1)
    );
    let path = format!("/v1/runs/{id}/answers");
    let approve = json!({ "operation": waits["operation"], "answer": { "approve": {} } });
    acme.post(&path, &approve).await.is_problem(422, "invalid");
    let mut other = approve.clone();
    other["shown"] = json!("0123456789abcdef");
    acme.post(&path, &other).await.is_problem(409, "conflict");
    let mut shown = approve;
    shown["shown"] = waits["shown"].clone();
    shown["by"] = json!("ada");
    let answered = acme.post(&path, &shown).await;
    assert_eq!(
        (answered.status, answered.json()["answer"].as_str()),
        (200, Some("recorded")),
        "{answered:?}"
    );
    let ended = acme.get(&format!("/v1/runs/{id}?wait=30")).await.json();
    assert_eq!((ended["status"].as_str(), ended["answer"].as_str()), (Some("completed"), Some("paid")));
    let events = acme.get(&format!("/v1/runs/{id}/events")).await.text;
    assert!(events.contains(&format!("ada, by key {}", acme.id)), "{events}");
    // The same answer again changes nothing; another one comes too late.
    let again = acme.post(&path, &shown).await;
    assert_eq!(
        (again.status, again.header("idempotency-replayed").as_deref()),
        (200, Some("true")),
        "{again:?}"
    );
    let deny = json!({ "operation": waits["operation"], "answer": { "deny": {} } });
    acme.post(&path, &deny).await.is_problem(409, "conflict");
    assert_eq!(acme.get("/v1/inbox").await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_asks_a_person_while_it_is_performed_is_in_the_inbox() {
    let world = World::with_files(settings(), &[("agents/busy.toml", BUSY)]).await;
    let acme = world.all("acme");
    let waits = acme.start("pay", "10 EUR").await;
    let begun = acme.post("/v1/runs", &json!({ "agent": "busy", "text": "20 EUR" })).await.json();
    let id = begun["run_id"].as_str().unwrap();
    let inbox = async |path: &str| acme.get(path).await.json()["items"].as_array().unwrap().clone();
    let until = async |count: usize| {
        while inbox("/v1/inbox").await.len() != count {
            tokio::task::yield_now().await;
        }
    };
    until(2).await;
    let shown = acme.get(&format!("/v1/runs/{id}")).await.json();
    assert_eq!(
        (&shown["status"], &shown["waiting_for"][0]["kind"]),
        (&json!("running"), &json!("approval")),
        "{shown:#}"
    );
    for path in ["/v1/inbox", "/v1/inbox?kind=approval", "/v1/inbox?limit=1"] {
        let items = inbox(path).await;
        assert_eq!(
            (&items[0]["run_id"], &items[0]["kind"]),
            (&json!(id), &json!("approval")),
            "{path}: {items:#?}"
        );
    }
    assert_eq!(inbox("/v1/inbox?kind=input").await, [] as [Value; 0]);
    assert_eq!(
        world.all("rival").get("/v1/inbox").await.json()["items"],
        json!([]),
        "of another tenant nothing"
    );
    let runs = acme.get("/v1/runs?waiting=approval").await.json();
    assert_eq!(runs["items"].as_array().unwrap().len(), 2);
    let one = inbox("/v1/inbox").await.remove(0);
    let yes = json!({ "operation": one["operation"], "answer": { "approve": {} }, "shown": one["shown"] });
    let answered = acme.post(&format!("/v1/runs/{id}/answers"), &yes).await;
    // Its process is told, and has taken it within 2 s on any machine that is not held up.
    assert!(matches!(answered.status, 200 | 202), "{answered:?}");
    until(1).await;
    assert_eq!(inbox("/v1/inbox").await[0]["run_id"], waits["run_id"]);
    assert_eq!(acme.get(&format!("/v1/runs/{id}")).await.json()["status"], "running");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_run_stands_still_until_it_is_resumed() {
    let world = World::new().await;
    let acme = world.all("acme");
    let run = acme.start("pay", "10 EUR").await;
    let (id, waits) = (run["run_id"].as_str().unwrap(), &run["waiting_for"][0]);
    let at = |what: &str| format!("/v1/runs/{id}/{what}");
    let paused = acme.post(&at("pause"), &json!({ "reason": "closed" })).await;
    assert_eq!((paused.status, paused.json()["pause"].as_str()), (200, Some("paused")), "{paused:?}");
    let shown = acme.get(&format!("/v1/runs/{id}")).await.json();
    let by = format!("key {}", acme.id);
    assert_eq!(shown["paused"], json!({ "by": by, "reason": "closed" }), "{shown:#}");
    assert_eq!(shown["status"], "suspended");
    let listed = acme.get("/v1/runs?waiting=paused").await.json();
    assert_eq!(listed["items"][0]["waiting"], json!(["approval", "paused"]), "{listed:#}");
    // It takes the answer, and does nothing with it.
    let yes =
        json!({ "operation": waits["operation"], "shown": waits["shown"], "answer": { "approve": {} } });
    assert_eq!(acme.post(&at("answers"), &yes).await.json()["answer"], "recorded");
    let shown = acme.get(&format!("/v1/runs/{id}?wait=1")).await.json();
    assert_eq!((&shown["status"], &shown["waiting_for"]), (&json!("suspended"), &json!([])), "{shown:#}");
    // Another tenant learns nothing of it, and who only reads cannot do it.
    let reads = world.client("acme", &[Scope::RunsRead]);
    for what in ["pause", "resume"] {
        world.all("rival").post(&at(what), &json!({})).await.is_problem(404, "not_found");
        reads.post(&at(what), &json!({})).await.is_problem(403, "forbidden");
    }
    let resumed = acme.post(&at("resume"), &json!({})).await;
    assert!(matches!(resumed.status, 200 | 202), "{resumed:?}");
    let ended = acme.get(&format!("/v1/runs/{id}?wait=30")).await.json();
    assert_eq!((&ended["answer"], &ended["paused"]), (&json!("paid"), &Value::Null), "{ended:#}");
    for what in ["pause", "resume"] {
        acme.post(&at(what), &json!({})).await.is_problem(409, "conflict");
    }
    acme.post(&at("pause"), &json!({ "why": "x" })).await.is_problem(400, "bad_request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_answered_with_what_its_schema_allows() {
    let world = World::new().await;
    let acme = world.all("acme");
    let run = acme.start("ask", "x").await;
    let path = format!("/v1/runs/{}/answers", run["run_id"].as_str().unwrap());
    acme.post(&path, &json!({ "answer": { "value": "many" } })).await.is_problem(422, "invalid");
    acme.post(&path, &json!({ "answer": { "approve": {} }, "shown": run["waiting_for"][0]["shown"] }))
        .await
        .is_problem(422, "invalid");
    let answered = acme.post(&path, &json!({ "answer": { "value": 3 } })).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    let ended = acme.get(&format!("/v1/runs/{}?wait=30", run["run_id"].as_str().unwrap())).await.json();
    assert_eq!(ended["answer"], "3 then");
    // The same answer again is the same, also without its operation; another one is not.
    let again = acme.post(&path, &json!({ "answer": { "value": 3 } })).await;
    assert_eq!((again.status, again.header("idempotency-replayed").as_deref()), (200, Some("true")));
    acme.post(&path, &json!({ "answer": { "value": 4 } })).await.is_problem(409, "conflict");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_answers_at_once_one_counts_and_the_other_is_told() {
    let world = World::new().await;
    let acme = world.all("acme");
    for _ in 0..10 {
        let run = acme.start("ask", "x").await;
        let path = format!("/v1/runs/{}/answers", run["run_id"].as_str().unwrap());
        let give = async |value: u32| acme.post(&path, &json!({ "answer": { "value": value } })).await.status;
        let (one, two) = tokio::join!(give(1), give(2));
        let is_taken = |status| matches!(status, 200 | 202);
        assert!(is_taken(one) != is_taken(two) && [one, two].contains(&409), "{one} {two}");
        let ended = acme.get(&format!("/v1/runs/{}?wait=30", run["run_id"].as_str().unwrap())).await.json();
        assert_eq!(ended["answer"], if is_taken(one) { "1 then" } else { "2 then" }, "{ended:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_with_other_arguments_is_the_same_when_it_comes_again() {
    let world = World::new().await;
    let acme = world.all("acme");
    let run = acme.start("pay", "10 EUR").await;
    let (path, waits) =
        (format!("/v1/runs/{}/answers", run["run_id"].as_str().unwrap()), &run["waiting_for"][0]);
    let approve = |amount: &str| {
        let answer = json!({ "approve": { "arguments": { "amount": amount } } });
        json!({ "operation": waits["operation"], "shown": waits["shown"], "answer": answer })
    };
    assert_eq!(acme.post(&path, &approve("9 EUR")).await.status, 200);
    acme.get(&format!("/v1/runs/{}?wait=30", run["run_id"].as_str().unwrap())).await;
    assert_eq!(acme.post(&path, &approve("9 EUR")).await.status, 200);
    acme.post(&path, &approve("8 EUR")).await.is_problem(409, "conflict");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_without_the_scope_for_answers_approves_on_no_way() {
    let world = World::new().await;
    let (starter, approver) =
        (world.client("acme", WITHOUT_ANSWERS), world.client("acme", &[Scope::AnswersWrite]));
    let run = starter.start("pay", "10 EUR").await;
    let (id, waits) = (run["run_id"].as_str().unwrap(), &run["waiting_for"][0]);
    let answer =
        json!({ "operation": waits["operation"], "shown": waits["shown"], "answer": { "approve": {} } });
    let path = format!("/v1/runs/{id}/answers");
    starter.post(&path, &answer).await.is_problem(403, "forbidden");
    let fork = format!("/v1/runs/{id}/fork");
    // Effects that do not ask are agreed to in advance, and an outcome may be a person's answer.
    for body in [
        json!({ "at": 1, "live_effects": true }),
        json!({ "set": { waits["operation"].as_str().unwrap(): "done" } }),
    ] {
        starter.post(&fork, &body).await.is_problem(403, "forbidden");
    }
    let forked = starter.post_with(&fork, &[("prefer", "wait=30")], &json!({ "at": 1 })).await;
    assert_eq!((forked.status, forked.json()["status"].as_str()), (201, Some("suspended")), "{forked:?}");
    assert_eq!(forked.json()["forked_from"], id);
    assert_eq!(starter.get(&format!("/v1/runs/{id}")).await.json()["status"], "suspended");
    // Who approves need not read, and does not start.
    approver.get(&format!("/v1/runs/{id}")).await.is_problem(403, "forbidden");
    approver.post("/v1/runs", &json!({ "agent": "echo" })).await.is_problem(403, "forbidden");
    assert_eq!(approver.post(&path, &answer).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_address_asks_for_its_scope() {
    let world = World::new().await;
    for route in dalsegno_server::routes() {
        let path = route.path.replace("{id}", "00000000000000000000000000000000").replace("{step}", "1");
        let Some(scope) = route.scope else {
            // What a delivery shows is its signature.
            let expected = match path.as_str() {
                "/triggers/{name}"
                | "/voice/{line}"
                | "/voice/{line}/calls"
                | "/voice/{line}/calls/{called}/{call}" => 401,
                // There is no identity provider to tell of.
                "/.well-known/oauth-protected-resource" => 404,
                _ => 200,
            };
            let answer = world.without_key().send(&route.method, &path, &[], b"").await;
            assert_eq!(answer.status, expected, "{path}");
            continue;
        };
        world.without_key().send(&route.method, &path, &[], b"").await.is_problem(401, "unauthenticated");
        let others: Vec<Scope> = Scope::ALL.iter().copied().filter(|one| *one != scope).collect();
        let refused = world.client("*", &others).send(&route.method, &path, &[], b"").await;
        refused.is_problem(403, "forbidden");
        assert!(refused.text.contains(scope.as_str()), "{refused:?}");
        let allowed = world.client("*", &[scope]).send(&route.method, &path, &[], b"").await;
        assert!(![401, 403].contains(&allowed.status), "{path}: {allowed:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_list_and_not_read_sees_no_content() {
    let world = World::new().await;
    let acme = world.all("acme");
    acme.start("echo", "the secret plan").await;
    let lister = world.client("acme", &[Scope::RunsList]);
    let listed = lister.get("/v1/runs").await;
    assert_eq!((listed.status, listed.json()["items"].as_array().unwrap().len()), (200, 1));
    assert!(!listed.text.contains("secret plan"), "{listed:?}");
    let writer = world.client("acme", &[Scope::RunsWrite]);
    let begun = writer
        .post_with("/v1/runs", &[("prefer", "wait=30")], &json!({ "agent": "echo", "text": "my plan" }))
        .await;
    assert_eq!((begun.status, begun.json()["status"].as_str()), (201, Some("completed")));
    assert!(!begun.text.contains("my plan"), "{begun:?}");
    // The metrics are of all tenants.
    acme.get("/metrics").await.is_problem(403, "forbidden");
    let metrics = world.all("*").get("/metrics").await;
    assert!(metrics.status == 200 && metrics.text.contains("# TYPE"), "{metrics:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_cancelled_once() {
    let world = World::new().await;
    let acme = world.all("acme");
    let run = acme.start("ask", "x").await;
    let path = format!("/v1/runs/{}/cancel", run["run_id"].as_str().unwrap());
    let cancelled = acme.post(&path, &json!({ "reason": "no longer needed" })).await;
    assert_eq!(
        (cancelled.status, cancelled.json()["cancel"].as_str()),
        (200, Some("cancelled")),
        "{cancelled:?}"
    );
    let ended = acme.get(&format!("/v1/runs/{}", run["run_id"].as_str().unwrap())).await.json();
    assert_eq!(ended["status"], "cancelled");
    acme.post(&path, &json!({})).await.is_problem(409, "conflict");
}
