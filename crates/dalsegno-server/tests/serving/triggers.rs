//! Deliveries from outside: one run each, however often they come, and nothing for those that prove nothing.

use std::time::{SystemTime, UNIX_EPOCH};

use dalsegno_access::Scope;
use dalsegno_workspace::ServeSettings;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::client::{Answer, Client};
use crate::world::{World, settings};

const TOML: &str = r#"
[triggers.issues]
agent = "tell"
tenant = "acme"
signature = "github"
secret = { file = "issues.secret" }
headers = ["X-GitHub-Event"]
when = "headers['x-github-event'] == 'issues' && body.action == 'opened'"
text = "{{body.issue.title}}"
data = { number = "{{body.issue.number}}", from = "{{query.from}}" }

[triggers.payments]
agent = "tell"
signature = "standard"
secret = { file = "payments.secret" }

[triggers.alerts]
agent = "tell"
signature = "token"
token_header = "X-Alert-Token"
id_header = "X-Alert-Id"
secret = { file = "alerts.secret" }
session = "{{body.session ?? ''}}"

[triggers.plain]
agent = "tell"
signature = "token"
token_header = "Authorization"
secret = { file = "alerts.secret" }

[triggers.tickets]
agent = "tell"
signature = "token"
token_header = "Authorization"
secret = { file = "alerts.secret" }
text = "{{body.ticket.text}}{{body.ticket.note ?? ''}}"
session = "ticket-{{body.ticket.id}}"

[triggers.lost]
agent = "tell"
signature = "github"
secret = { file = "lost.secret" }

[triggers.nothing]
agent = "nothing"
signature = "token"
token_header = "X-Alert-Token"
secret = { file = "alerts.secret" }
"#;
const GITHUB: &str = "the secret of the issues";
const STANDARD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const TOKEN: &str = "the token of the alerts";
const TELL: &str =
    "name = \"tell\"\n[[steps]]\noutput = { text = \"{{request.text}}\", data = \"{{request.data}}\" }\n";
const FILES: &[(&str, &str)] = &[
    ("dalsegno.toml", TOML),
    ("agents/tell.toml", TELL),
    ("issues.secret", GITHUB),
    ("payments.secret", STANDARD),
    ("alerts.secret", TOKEN),
];

async fn world() -> World {
    World::with_files(settings(), FILES).await
}

async fn deliver(client: &Client, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers);
    client.send("POST", path, &all, body).await
}

fn signed(secret: &str, body: &[u8]) -> String {
    let mut code = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    code.update(body);
    let code = code.finalize().into_bytes();
    format!("sha256={}", code.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// An issue as GitHub delivers it.
async fn issue(client: &Client, id: &str, body: &Value) -> Answer {
    let body = body.to_string();
    let signature = signed(GITHUB, body.as_bytes());
    let headers = [
        ("x-github-event", "issues"),
        ("x-github-delivery", id),
        ("x-hub-signature-256", signature.as_str()),
    ];
    deliver(client, "/triggers/issues?from=github", &headers, body.as_bytes()).await
}

/// An alert with its token.
async fn alert(client: &Client, id: &str, body: &str) -> Answer {
    deliver(client, "/triggers/alerts", &[("x-alert-token", TOKEN), ("x-alert-id", id)], body.as_bytes())
        .await
}

fn opened() -> Value {
    json!({ "action": "opened", "issue": { "number": 7, "title": "It leaks" } })
}

fn run(answer: &Answer) -> String {
    answer.json()["run_id"].as_str().unwrap().to_owned()
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_starts_a_run_with_what_the_templates_make_of_it() {
    let world = world().await;
    let outside = world.without_key();
    let answer = issue(&outside, "72d3162e", &opened()).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let id = run(&answer);
    assert_eq!(answer.header("location"), Some(format!("/v1/runs/{id}")));
    let acme = world.all("acme");
    let shown = acme.get(&format!("/v1/runs/{id}?wait=30")).await.json();
    assert_eq!((shown["agent"].as_str(), shown["tenant"].as_str()), (Some("tell"), Some("acme")));
    assert_eq!(shown["output"], json!({ "text": "It leaks", "data": { "number": 7, "from": "github" } }));
    // The run is its tenant's, and no one else's.
    world.all("rival").get(&format!("/v1/runs/{id}")).await.is_problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_comes_five_times_at_once_starts_one_run() {
    let world = world().await;
    let outside = world.without_key();
    let body = opened();
    let all = futures::future::join_all((0..5).map(|_| issue(&outside, "one", &body))).await;
    assert!(all.iter().all(|answer| [200, 202].contains(&answer.status)), "{all:?}");
    assert_eq!(all.iter().filter(|answer| answer.status == 202).count(), 1, "{all:?}");
    assert!(all.iter().all(|answer| run(answer) == run(&all[0])), "{all:?}");
    let id = run(&all[0]);
    world.all("acme").get(&format!("/v1/runs/{id}?wait=30")).await;
    // Its id names a delivery, also when it says something else by now, and its run has ended.
    let again =
        issue(&outside, "one", &json!({ "action": "opened", "issue": { "number": 8, "title": "x" } })).await;
    assert_eq!((again.status, run(&again)), (200, id), "{again:?}");
    assert_eq!(again.header("idempotency-replayed").as_deref(), Some("true"));
    assert_eq!(world.runs().await, 1);
    assert_eq!(issue(&outside, "two", &body).await.status, 202);
    assert_eq!(world.runs().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_whose_run_was_erased_starts_no_other() {
    let world = world().await;
    let outside = world.without_key();
    let id = run(&issue(&outside, "one", &opened()).await);
    let acme = world.all("acme");
    acme.get(&format!("/v1/runs/{id}?wait=30")).await;
    assert_eq!(acme.send("DELETE", &format!("/v1/runs/{id}"), &[], b"").await.status, 200);
    let again = issue(&outside, "one", &opened()).await;
    assert_eq!((again.status, run(&again)), (200, id), "{again:?}");
    assert_eq!(world.runs().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_does_not_fit_the_condition_starts_nothing() {
    let world = world().await;
    let outside = world.without_key();
    let answer = issue(&outside, "x", &json!({ "action": "closed" })).await;
    assert_eq!((answer.status, answer.text.as_str()), (204, ""));
    assert_eq!(world.runs().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_proven_is_refused_in_one_way() {
    let world = world().await;
    let outside = world.without_key();
    let body = opened().to_string();
    let body = body.as_bytes();
    let (good, other) = (signed(GITHUB, body), signed("the secret of the others", body));
    let empty = signed("", body);
    let event = ("x-github-event", "issues");
    let token = ("x-alert-token", TOKEN);
    let cases: Vec<(&str, Vec<(&str, &str)>)> = vec![
        ("/triggers/issues", vec![event]),
        ("/triggers/issues", vec![event, ("x-hub-signature-256", &other)]),
        ("/triggers/issues", vec![event, ("x-hub-signature-256", &good[..70])]),
        ("/triggers/issues", vec![event, ("x-hub-signature-256", &good), ("x-hub-signature-256", &other)]),
        // Good for another one.
        ("/triggers/payments", vec![("x-hub-signature-256", &good)]),
        ("/triggers/issues", vec![token]),
        ("/triggers/alerts", vec![("x-alert-token", "the token of the others")]),
        ("/triggers/alerts", vec![("x-alert-token", "")]),
        // No secret is there, and none is accepted.
        ("/triggers/lost", vec![("x-hub-signature-256", &empty)]),
        ("/triggers/unknown", vec![token, ("x-hub-signature-256", &good)]),
        ("/triggers/%00", vec![token]),
        ("/triggers/ISSUES", vec![event, ("x-hub-signature-256", &good)]),
    ];
    let mut seen = Vec::new();
    for (path, headers) in &cases {
        let answer = deliver(&outside, path, headers, body).await;
        answer.is_problem(401, "unauthenticated");
        let head: Vec<_> = answer.head.lines().filter(|line| !line.starts_with("date:")).collect();
        seen.push((head.join("\n"), answer.text.clone()));
    }
    assert!(seen.iter().all(|answer| *answer == seen[0]), "{seen:#?}");
    // A key with every scope is no signature, and a signature is no key.
    deliver(&world.all("acme"), "/triggers/issues", &[event], body).await.is_problem(401, "unauthenticated");
    deliver(&outside, "/v1/runs", &[token], br#"{"agent":"tell"}"#).await.is_problem(401, "unauthenticated");
    assert_eq!(world.runs().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_without_triggers_refuses_as_one_with_them() {
    let world = World::new().await;
    deliver(&world.without_key(), "/triggers/issues", &[], b"{}").await.is_problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_library_of_the_standard_signs_what_is_taken() {
    let world = world().await;
    let outside = world.without_key();
    let body = br#"{"type":"paid"}"#;
    let sender = standardwebhooks::Webhook::new(STANDARD).unwrap();
    let send = async |id: &str, time: i64, signature: &str| {
        let time = time.to_string();
        let headers =
            [("webhook-id", id), ("webhook-timestamp", time.as_str()), ("webhook-signature", signature)];
        deliver(&outside, "/triggers/payments", &headers, body).await
    };
    let signature = sender.sign("msg_1", now(), body).unwrap();
    let first = send("msg_1", now(), &signature).await;
    // The second of the clock may have changed between the two.
    let (first, signature) = match first.status {
        401 => {
            let time = now();
            let signature = sender.sign("msg_1", time, body).unwrap();
            (send("msg_1", time, &signature).await, signature)
        }
        _ => (first, signature),
    };
    assert_eq!(first.status, 202, "{first:?}");
    // An attempt has a time and a signature of its own, and is the same delivery.
    let time = now() - 60;
    let again = send("msg_1", time, &sender.sign("msg_1", time, body).unwrap()).await;
    assert_eq!((again.status, run(&again)), (200, run(&first)), "{again:?}");
    let shown = world.all("default").get(&format!("/v1/runs/{}?wait=30", run(&first))).await.json();
    assert_eq!(shown["output"], json!({ "text": "", "data": { "type": "paid" } }));
    for time in [now() - 600, now() + 600] {
        let old = sender.sign("msg_2", time, body).unwrap();
        send("msg_2", time, &old).await.is_problem(401, "unauthenticated");
    }
    send("msg_3", now(), &signature).await.is_problem(401, "unauthenticated");
    assert_eq!(world.runs().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_id_the_body_names_the_delivery() {
    let world = world().await;
    let outside = world.without_key();
    let bearer = format!("Bearer {TOKEN}");
    let send =
        async |body: &[u8]| deliver(&outside, "/triggers/plain", &[("authorization", &bearer)], body).await;
    let (first, again, other) =
        (send(b"{\"a\":1}").await, send(b"{\"a\":1}").await, send(b"{\"a\":2}").await);
    assert_eq!((first.status, again.status, other.status), (202, 200, 202));
    assert_eq!(run(&first), run(&again));
    assert_ne!(run(&first), run(&other));
    // An empty body is no JSON.
    send(b"").await.is_problem(400, "bad_request");
    assert_eq!(world.runs().await, 2);
    // The trigger that names a header for it takes no delivery without.
    deliver(&outside, "/triggers/alerts", &[("x-alert-token", TOKEN)], b"{}")
        .await
        .is_problem(400, "bad_request");
    // The same id is another delivery for another trigger.
    assert_eq!(alert(&outside, "1", "{}").await.status, 202);
    assert_eq!(world.runs().await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_a_client_never_stands_for_a_delivery() {
    let world = world().await;
    let acme = world.all("acme");
    for key in ["trigger>issues>one", "trigger-issues-one", "one"] {
        let started =
            acme.post_with("/v1/runs", &[("idempotency-key", key)], &json!({ "agent": "echo" })).await;
        assert_eq!(started.status, 201, "{started:?}");
    }
    acme.post_with("/v1/runs", &[("idempotency-key", "trigger→issues→one")], &json!({ "agent": "echo" }))
        .await
        .is_problem(400, "bad_request");
    assert_eq!(issue(&world.without_key(), "one", &opened()).await.status, 202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proven_delivery_that_is_not_understood_starts_nothing() {
    let world = world().await;
    let outside = world.without_key();
    let nested = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for body in [&b"{"[..], b"\xff\xfe", b"{\"a\":\"\0\"}", b"{} x", nested.as_bytes()] {
        let headers = [("x-alert-token", TOKEN), ("x-alert-id", "1")];
        let answer = deliver(&outside, "/triggers/alerts", &headers, body).await;
        answer.is_problem(400, "bad_request");
        assert!(answer.text.len() < 2_000, "{answer:?}");
    }
    let text = [("content-type", "text/plain"), ("x-alert-token", TOKEN), ("x-alert-id", "1")];
    outside.send("POST", "/triggers/alerts", &text, b"{}").await.is_problem(415, "bad_request");
    alert(&outside, &"x".repeat(256), "{}").await.is_problem(400, "bad_request");
    for session in ["a\\u0000b", "a\\nb", &"x".repeat(257)] {
        alert(&outside, "1", &format!("{{\"session\":\"{session}\"}}")).await.is_problem(422, "invalid");
    }
    let headers = [("x-alert-token", TOKEN), ("x-alert-id", "1")];
    deliver(&outside, "/triggers/alerts?a=1&a=2", &headers, b"{}").await.is_problem(400, "bad_request");
    // A template has no value for it.
    let twice = json!({ "action": "opened", "issue": { "title": { "length": [1] } } });
    assert_eq!(issue(&outside, "1", &twice).await.status, 202);
    // What is wrong with the workspace is none of the sender's business.
    let headers = [("x-alert-token", TOKEN)];
    let unknown = deliver(&outside, "/triggers/nothing", &headers, b"{}").await;
    unknown.is_problem(500, "server_error");
    assert!(!unknown.text.contains("echo") && !unknown.text.contains("nothing"), "{unknown:?}");
    assert_eq!(outside.send("GET", "/triggers/alerts", &[], b"").await.status, 405);
    assert_eq!(world.runs().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_above_the_limit_is_refused_before_it_is_read() {
    let world = World::with_files(ServeSettings { body: 64 << 10, ..settings() }, FILES).await;
    let outside = world.without_key();
    let large = format!("\"{}\"", "x".repeat(65 << 10));
    deliver(&outside, "/triggers/unknown", &[], large.as_bytes()).await.is_problem(413, "too_large");
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = "POST /triggers/unknown HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let mut sent = 0_usize;
    while stream.write_all(chunk.as_bytes()).await.is_ok() {
        sent += chunk.len();
        assert!(sent < 64 << 20, "the server takes a body without an end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_that_come_too_often_wait() {
    let world = World::with_files(ServeSettings { requests_per_minute: 3, ..settings() }, FILES).await;
    let outside = world.without_key();
    let mut statuses = Vec::new();
    for number in 0..5 {
        statuses.push(alert(&outside, &number.to_string(), "{}").await.status);
    }
    assert_eq!(statuses, [202, 202, 202, 429, 429]);
    // Those of another trigger do not, and neither do keys.
    assert_eq!(issue(&outside, "one", &opened()).await.status, 202);
    assert_eq!(world.all("acme").get("/v1/agents").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_signatures_from_one_address_are_counted_and_good_ones_are_not_kept_out() {
    let world = world().await;
    let outside = world.without_key();
    let mut statuses = Vec::new();
    for _ in 0..70 {
        statuses.push(deliver(&outside, "/triggers/issues", &[], b"{}").await.status);
    }
    assert!(statuses[..60].iter().all(|status| *status == 401), "{statuses:?}");
    assert!(statuses[60..].contains(&429), "{statuses:?}");
    assert_eq!(issue(&outside, "one", &opened()).await.status, 202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_comes_back_in_a_body_is_not_recorded_and_deliveries_are_counted() {
    let world = world().await;
    let outside = world.without_key();
    let answer = alert(&outside, "1", &format!("{{\"echo\":\"{TOKEN}\"}}")).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let id = run(&answer);
    let events = world.all("default").get(&format!("/v1/runs/{id}/events")).await;
    assert_eq!(events.status, 200, "{events:?}");
    assert!(!events.text.contains(TOKEN), "{events:?}");
    alert(&outside, "1", &format!("{{\"echo\":\"{TOKEN}\"}}")).await;
    issue(&outside, "x", &json!({ "action": "closed" })).await;
    deliver(&outside, "/triggers/never-heard-of", &[], b"{}").await;
    let metrics = world.client("*", &[Scope::MetricsRead]).get("/metrics").await.text;
    for line in [
        "dalsegno_deliveries_total{trigger=\"alerts\",result=\"started\"} 1",
        "dalsegno_deliveries_total{trigger=\"alerts\",result=\"repeated\"} 1",
        "dalsegno_deliveries_total{trigger=\"issues\",result=\"skipped\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(metrics.contains("result=\"refused\"} 1") && !metrics.contains("never-heard-of"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_without_a_value_that_is_read_starts_nothing() {
    let world = world().await;
    let outside = world.without_key();
    let bearer = format!("Bearer {TOKEN}");
    let send = async |body: &str| {
        deliver(&outside, "/triggers/tickets", &[("authorization", &bearer)], body.as_bytes()).await
    };
    for body in [
        r#"{"ticket":{"text":"x"}}"#,
        r#"{"ticket":{"text":"x","id":null}}"#,
        r#"{"ticket":{"text":"x","id":""}}"#,
        r#"{"ticket":{"id":1}}"#,
        r#"{"ticket":7}"#,
        "{}",
        "null",
        "[]",
    ] {
        send(body).await.is_problem(422, "invalid");
    }
    assert_eq!(world.runs().await, 0);
    // What is there is not missing, also where it says nothing.
    for body in [r#"{"ticket":{"text":null,"id":0}}"#, r#"{"ticket":{"text":"","id":"b"}}"#] {
        assert_eq!(send(body).await.status, 202, "{body}");
    }
    assert_eq!(world.runs().await, 2);
}
