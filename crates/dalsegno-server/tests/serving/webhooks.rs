//! Webhooks that go out, to receivers over real sockets.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use dalsegno_access::Scope;
use dalsegno_workspace::ServeSettings;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::world::{BUSY, World, settings};

/// How a receiver answers.
#[derive(Debug, Clone)]
enum Reply {
    /// With this status, and further lines of the head.
    Status(u16, &'static str),
    /// With 200 and a body without an end.
    Endless,
    /// Not at all.
    Silent,
}

/// A request that a receiver got.
#[derive(Debug, Clone)]
struct Got {
    head: BTreeMap<String, String>,
    body: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn id(&self) -> &str {
        &self.head["webhook-id"]
    }

    /// Says whether the reference library of the standard takes it as signed with this secret.
    fn is_signed_with(&self, secret: &str) -> bool {
        let mut headers = axum::http::HeaderMap::new();
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            headers.insert(name, self.head[name].parse().unwrap());
        }
        standardwebhooks::Webhook::new(secret).unwrap().verify(self.body.as_bytes(), &headers).is_ok()
    }
}

/// Receives webhooks, and answers as it was told, in the end always with 204.
struct Receiver {
    address: SocketAddr,
    got: mpsc::UnboundedReceiver<Got>,
    replies: Arc<Mutex<VecDeque<Reply>>>,
}

impl Receiver {
    async fn new(replies: &[Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (send, got) = mpsc::unbounded_channel();
        let replies = Arc::new(Mutex::new(replies.iter().cloned().collect::<VecDeque<_>>()));
        let own = Arc::clone(&replies);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, send.clone(), Arc::clone(&own)));
            }
        });
        Self { address, got, replies }
    }

    fn url(&self) -> String {
        format!("http://{}/in", self.address)
    }

    async fn next(&mut self) -> Got {
        self.got.recv().await.unwrap()
    }
}

async fn serve(stream: TcpStream, got: mpsc::UnboundedSender<Got>, replies: Arc<Mutex<VecDeque<Reply>>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = BTreeMap::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end().split_once(": ") {
                Some((name, value)) => drop(head.insert(name.to_ascii_lowercase(), value.to_owned())),
                None if line == "\r\n" => break,
                None => drop(head.insert("request".to_owned(), line.trim_end().to_owned())),
            }
        }
        let mut body = vec![0; head["content-length"].parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        let reply = replies.lock().unwrap().pop_front().unwrap_or(Reply::Status(204, ""));
        let _ = got.send(Got { head, body: String::from_utf8(body).unwrap() });
        match reply {
            Reply::Status(status, lines) => {
                let answer = format!("HTTP/1.1 {status} X\r\n{lines}content-length: 0\r\n\r\n");
                stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
            }
            Reply::Endless => {
                let _ = stream
                    .get_mut()
                    .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                    .await;
                while stream.get_mut().write_all(b"4\r\nmore\r\n").await.is_ok() {}
                return;
            }
            Reply::Silent => return std::future::pending().await,
        }
    }
}

/// A world whose operator lists these receivers.
async fn world(receivers: &[&Receiver]) -> World {
    let webhooks = receivers.iter().map(|one| format!("http://{}", one.address)).collect();
    World::with_files(ServeSettings { webhooks, ..settings() }, &[("agents/busy.toml", BUSY)]).await
}

async fn add(client: &crate::client::Client, body: Value) -> Value {
    let answer = client.post("/v1/webhooks", &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_to_runs_is_delivered_signed_and_without_content() {
    let mut receiver = Receiver::new(&[]).await;
    let world = world(&[&receiver]).await;
    let acme = world.all("acme");
    let hook = add(&acme, json!({ "url": receiver.url() })).await;
    let secret = text(&hook, "secret");
    let waits = acme.start("ask", "SAID").await;
    let first = receiver.next().await;
    assert!(first.is_signed_with(secret) && !first.is_signed_with("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"));
    let event = first.json();
    assert_eq!((text(&event, "type"), text(&event["data"], "status")), ("run.suspended", "suspended"));
    assert_eq!(event["data"]["run_id"], waits["run_id"]);
    assert_eq!(event["data"]["waiting"], json!(["input"]));
    assert_eq!(event["data"]["webhook"], hook["id"]);
    assert!(!first.body.contains("SAID") && event["data"]["run"].is_null(), "{}", first.body);
    let path = format!("/v1/runs/{}/answers", text(&waits, "run_id"));
    acme.post(&path, &json!({ "answer": { "value": 3 } })).await;
    let second = receiver.next().await;
    assert_eq!(text(&second.json(), "type"), "run.completed");
    assert_ne!(first.id(), second.id());
    let shown = acme.get(&format!("/v1/webhooks/{}", text(&hook, "id"))).await;
    assert!(!shown.text.contains("whsec_"), "the secret is shown once");
    // Who is asked while the run is performed is told as well.
    acme.post("/v1/runs", &json!({ "agent": "busy", "text": "20 EUR" })).await;
    let event = receiver.next().await.json();
    assert_eq!((text(&event, "type"), text(&event["data"], "status")), ("run.waiting", "running"));
    assert_eq!(event["data"]["waiting"], json!(["approval"]));
    // With content, of one agent, and only ends.
    let url = receiver.url();
    add(&acme, json!({ "url": url, "events": ["run.completed"], "agent": "echo", "content": true })).await;
    acme.start("ask", "x").await;
    acme.start("echo", "SAID").await;
    let mut with_content = 0;
    for _ in 0..3 {
        let event = receiver.next().await.json();
        if let Some(run) = event["data"].get("run") {
            assert_eq!(text(run, "answer"), "You said: SAID");
            with_content += 1;
        }
    }
    assert_eq!(with_content, 1);
    world.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_fails_gets_the_same_delivery_again_and_others_do_not_wait() {
    // The first answer is a redirect to another receiver: it is not followed.
    let mut other = Receiver::new(&[]).await;
    let redirect: &'static str = format!("location: {}\r\n", other.url()).leak();
    let mut failing = Receiver::new(&[Reply::Status(307, redirect)]).await;
    let mut silent = Receiver::new(&[Reply::Silent]).await;
    let mut endless = Receiver::new(&[Reply::Endless]).await;
    let world = world(&[&other, &failing, &silent, &endless]).await;
    let acme = world.all("acme");
    let events = json!(["run.completed"]);
    let failing_hook = add(&acme, json!({ "url": failing.url(), "events": events })).await;
    add(&acme, json!({ "url": silent.url(), "events": events })).await;
    let endless_hook = add(&acme, json!({ "url": endless.url(), "events": events })).await;
    acme.start("echo", "x").await;
    let first = failing.next().await;
    silent.next().await;
    endless.next().await;
    // While two of them are slow or fail, another one is served at once.
    add(&acme, json!({ "url": other.url(), "events": events })).await;
    let run = acme.start("echo", "y").await;
    let got = other.next().await;
    assert_eq!(got.json()["data"]["run_id"], run["run_id"], "nothing was redirected there");
    // The same delivery comes again, signed anew.
    let mut again = failing.next().await;
    while again.id() != first.id() {
        again = failing.next().await;
    }
    assert_eq!(again.body, first.body);
    assert!(again.is_signed_with(text(&failing_hook, "secret")));
    // A body without an end is as good as none.
    endless.next().await;
    let id = text(&endless_hook, "id");
    let mut shown = acme.get(&format!("/v1/webhooks/{id}")).await.json();
    while shown["deliveries"] != 2 {
        tokio::task::yield_now().await;
        shown = acme.get(&format!("/v1/webhooks/{id}")).await.json();
    }
    assert_eq!((text(&shown, "state"), &shown["failure"]), ("on", &Value::Null), "{shown}");
    let metrics = world.client("*", &[Scope::MetricsRead]).get("/metrics").await.text;
    assert!(metrics.contains("dalsegno_webhook_attempts_total{outcome=\"refused\"} 1"), "{metrics}");
    assert!(metrics.contains("dalsegno_webhooks_off 0"), "{metrics}");
    world.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_gone_is_off_and_gets_what_it_missed_when_it_is_turned_on() {
    let mut receiver = Receiver::new(&[Reply::Status(410, "")]).await;
    let world = world(&[&receiver]).await;
    let acme = world.all("acme");
    let hook = add(&acme, json!({ "url": receiver.url(), "events": ["run.completed"] })).await;
    let path = format!("/v1/webhooks/{}", text(&hook, "id"));
    acme.start("echo", "x").await;
    let first = receiver.next().await;
    let mut shown = acme.get(&path).await.json();
    while text(&shown, "state") != "off" {
        tokio::task::yield_now().await;
        shown = acme.get(&path).await.json();
    }
    assert_eq!((text(&shown, "off_reason"), &shown["waiting"]), ("gone", &json!(1)), "{shown}");
    assert_eq!(text(&shown, "failure"), "the receiver answered with status 410");
    let missed = acme.start("echo", "y").await;
    let metrics = world.client("*", &[Scope::MetricsRead]).get("/metrics").await.text;
    assert!(metrics.contains("dalsegno_webhooks_off 1"), "{metrics}");
    // A test goes out all the same, and turns nothing on.
    let tested = acme.post(&format!("{path}/test"), &json!({})).await.json();
    assert_eq!(tested, json!({ "delivered": true, "status": 204, "failure": null }));
    assert_eq!(text(&receiver.next().await.json(), "type"), "webhook.test");
    assert_eq!(acme.get(&path).await.json()["state"], "off");
    assert_eq!(acme.post(&format!("{path}/enable"), &json!({})).await.json()["state"], "on");
    let got = [receiver.next().await, receiver.next().await];
    assert!(got.iter().any(|one| one.id() == first.id()), "what waited");
    assert!(got.iter().any(|one| one.json()["data"]["run_id"] == missed["run_id"]), "what was missed");
    // Another secret: both sign.
    let rotated = acme.post(&format!("{path}/rotate"), &json!({})).await.json();
    assert_ne!(rotated["secret"], hook["secret"]);
    acme.start("echo", "z").await;
    let got = receiver.next().await;
    assert!(got.is_signed_with(text(&rotated, "secret")) && got.is_signed_with(text(&hook, "secret")));
    let removed = acme.send("DELETE", &path, &[], b"").await;
    assert_eq!(removed.status, 200, "{removed:?}");
    acme.get(&path).await.is_problem(404, "not_found");
    assert!(receiver.replies.lock().unwrap().is_empty());
    world.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_webhook_reaches_what_its_maker_may_not() {
    let mut receiver = Receiver::new(&[]).await;
    let world = world(&[&receiver]).await;
    let (acme, rival, all) = (world.all("acme"), world.all("rival"), world.all("*"));
    for url in [
        "http://hooks.example.com/in",
        "https://localhost/in",
        "https://127.0.0.1/in",
        "https://[::ffff:169.254.169.254]/latest",
        "https://10.0.0.1/in",
        "file:///etc/passwd",
        "no url",
    ] {
        let answer = acme.post("/v1/webhooks", &json!({ "url": url })).await;
        answer.is_problem(422, "invalid");
        assert_eq!(answer.json()["violations"][0]["pointer"], "/url", "{answer:?}");
    }
    let url = receiver.url();
    for (body, pointer) in [
        (json!({ "url": url, "events": [] }), "/events"),
        (json!({ "url": url, "events": ["run.exploded"] }), "/events"),
        (json!({ "url": url, "agent": "Not A Name" }), "/agent"),
        (json!({ "url": url, "name": "a\u{1b}b" }), "/name"),
    ] {
        let answer = acme.post("/v1/webhooks", &body).await;
        answer.is_problem(422, "invalid");
        assert_eq!(answer.json()["violations"][0]["pointer"], pointer, "{answer:?}");
    }
    // Content is for those who may read it.
    let writer = world.client("acme", &[Scope::WebhooksWrite]);
    writer.post("/v1/webhooks", &json!({ "url": url, "content": true })).await.is_problem(403, "forbidden");
    let reader = world.client("acme", &[Scope::WebhooksRead, Scope::RunsRead]);
    reader.post("/v1/webhooks", &json!({ "url": url })).await.is_problem(403, "forbidden");
    writer.get("/v1/webhooks").await.is_problem(403, "forbidden");
    // Of another tenant nothing is made, seen, changed or delivered.
    acme.post("/v1/webhooks", &json!({ "url": url, "tenant": "rival" })).await.is_problem(403, "forbidden");
    all.post("/v1/webhooks", &json!({ "url": url, "tenant": "nothing" })).await.is_problem(404, "not_found");
    let ours = add(&writer, json!({ "url": url })).await;
    assert_eq!(text(&ours, "tenant"), "acme");
    let of_all = add(&all, json!({ "url": url, "events": ["run.failed"] })).await;
    assert_eq!(text(&of_all, "tenant"), "*");
    for hook in [&ours, &of_all] {
        let path = format!("/v1/webhooks/{}", text(hook, "id"));
        let none = rival.get("/v1/webhooks/0000000000000000").await;
        assert_eq!(rival.get(&path).await.text, none.is_problem(404, "not_found").text);
        for verb in ["rotate", "enable", "test"] {
            rival.post(&format!("{path}/{verb}"), &json!({})).await.is_problem(404, "not_found");
        }
        rival.send("DELETE", &path, &[], b"").await.is_problem(404, "not_found");
    }
    acme.get(&format!("/v1/webhooks/{}", text(&of_all, "id"))).await.is_problem(404, "not_found");
    assert_eq!(rival.get("/v1/webhooks").await.json()["items"], json!([]));
    assert_eq!(acme.get("/v1/webhooks").await.json()["items"].as_array().unwrap().len(), 1);
    let page = all.get("/v1/webhooks?limit=1").await;
    let link = page.header("link").unwrap();
    let address = link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap();
    assert_eq!(all.get(address).await.json()["items"].as_array().unwrap().len(), 1);
    rival.start("echo", "theirs").await;
    let own = acme.start("echo", "ours").await;
    assert_eq!(receiver.next().await.json()["data"]["run_id"], own["run_id"]);
    // Only so many of a tenant.
    for _ in 1..20 {
        add(&acme, json!({ "url": url, "events": ["run.failed"] })).await;
    }
    acme.post("/v1/webhooks", &json!({ "url": url })).await.is_problem(422, "invalid");
    add(&rival, json!({ "url": url })).await;
    world.stopped().await;
}
