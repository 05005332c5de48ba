//! Bad input and bad luck: one clear problem each, nothing started, and the server answers the next request.

use dalsegno_access::{NewKey, Reach, Scope};
use dalsegno_workspace::ServeSettings;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::Client;
use crate::world::{World, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_not_good_opens_nothing() {
    let world = World::new().await;
    let good = world.all("acme");
    let revoked = world.all("acme");
    world.keys.revoke(&revoked.id, 1).unwrap();
    let expired = NewKey {
        reach: Reach::Tenant("acme".to_owned()),
        scopes: Scope::ALL.iter().copied().collect(),
        expires_at: Some(1),
        ..NewKey::default()
    };
    let expired = world.keys.add(&expired, 0).unwrap().1.expose().to_owned();
    let key = good.key.clone().unwrap();
    let keys = ["", "x", "dalsegno_", &key[..key.len() - 1], &expired, revoked.key.as_deref().unwrap()];
    for wrong in keys {
        let client = Client { key: Some(wrong.to_owned()), ..good.clone() };
        let answer = client.post("/v1/runs", &json!({ "agent": "echo" })).await;
        answer.is_problem(401, "unauthenticated");
        assert_eq!(answer.header("www-authenticate").as_deref(), Some("Bearer"));
    }
    let other_scheme =
        world.without_key().send("GET", "/v1/runs", &[("authorization", &format!("Basic {key}"))], b"").await;
    other_scheme.is_problem(401, "unauthenticated");
    let twice = good.send("GET", "/v1/runs", &[("authorization", "Bearer x")], b"").await;
    twice.is_problem(400, "bad_request");
    assert_eq!(world.runs().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_understood_is_refused_and_starts_nothing() {
    let world = World::new().await;
    let acme = world.all("acme");
    let json_type = [("content-type", "application/json")];
    let nested = format!("{{\"agent\":\"echo\",\"data\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("no body", Vec::new()),
        ("no JSON", b"{".to_vec()),
        ("a list", b"[]".to_vec()),
        ("a list of the values", br#"["echo","x"]"#.to_vec()),
        ("an unknown key", br#"{"agent":"echo","texts":"x"}"#.to_vec()),
        ("a key twice", br#"{"agent":"echo","agent":"ask"}"#.to_vec()),
        ("another type", br#"{"agent":7}"#.to_vec()),
        ("something behind it", br#"{"agent":"echo"} x"#.to_vec()),
        ("200 nested lists", nested.into_bytes()),
        ("bad UTF-8", b"{\"agent\":\"echo\",\"text\":\"\xff\xfe\"}".to_vec()),
        ("a NUL", b"{\"agent\":\"echo\",\"text\":\"a\0b\"}".to_vec()),
    ];
    for (what, body) in &bodies {
        let answer = acme.send("POST", "/v1/runs", &json_type, body).await;
        answer.is_problem(400, "bad_request");
        assert!(answer.text.len() < 2_000, "{what}: {answer:?}");
    }
    for body in [
        json!({ "agent": "not a name" }),
        json!({ "agent": "echo", "session": "a\nb" }),
        json!({ "agent": "echo", "session": "" }),
        json!({ "agent": "echo", "session": "x".repeat(257) }),
        json!({ "agent": "echo", "user": "ada" }),
        json!({ "agent": "echo", "model": "gpt" }),
    ] {
        acme.post("/v1/runs", &body).await.is_problem(422, "invalid");
    }
    acme.post("/v1/runs", &json!({ "agent": "nothing" })).await.is_problem(404, "not_found");
    acme.send("POST", "/v1/runs", &[("content-type", "text/plain")], b"{}")
        .await
        .is_problem(415, "bad_request");
    for header in
        [("idempotency-key", ""), ("prefer", "wait=61"), ("prefer", "wait=-1"), ("prefer", "wait=x")]
    {
        acme.post_with("/v1/runs", &[header], &json!({ "agent": "echo" }))
            .await
            .is_problem(400, "bad_request");
    }
    for path in [
        "/v1/runs?stat=x",
        "/v1/runs?status=x",
        "/v1/runs?limit=0",
        "/v1/runs?limit=201",
        "/v1/runs?cursor=x",
        "/v1/runs?limit=1&limit=2",
    ] {
        acme.get(path).await.is_problem(400, "bad_request");
    }
    acme.get("/v1/nothing").await.is_problem(404, "not_found");
    acme.send("DELETE", "/v1/runs", &[], b"").await.is_problem(405, "bad_request");
    for id in ["x", "..%2f..", "00000000000000000000000000000000", "%00", "%ff"] {
        let answer = acme.get(&format!("/v1/runs/{id}")).await;
        assert!([400, 404].contains(&answer.status), "{id}: {answer:?}");
    }
    for path in ["/v1/runs/%ff", "/v1/sessions/%C3", "/v1/runs/%e2%28%a1", "/runs/%ff"] {
        acme.get(path).await.is_problem(400, "bad_request");
    }
    acme.get("/v1/sessions/caf%C3%A9").await.is_problem(404, "not_found");
    assert_eq!(world.runs().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_above_the_limit_is_refused_before_it_is_read() {
    let world = World::new().await;
    let acme = world.all("acme");
    let body = json!({ "agent": "echo", "text": "x".repeat(5 << 20) });
    acme.post("/v1/runs", &body).await.is_problem(413, "too_large");
    // One without an end, in chunks.
    let key = acme.key.clone().unwrap();
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let mut sent = 0_usize;
    while stream.write_all(chunk.as_bytes()).await.is_ok() {
        sent += chunk.len();
        assert!(sent < 64 << 20, "the server takes a body without an end");
    }
    assert_eq!(world.runs().await, 0);
    assert_eq!(acme.get("/v1/runs").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_without_an_end_and_requests_that_are_none_are_refused() {
    let world = World::new().await;
    let acme = world.all("acme");
    let long = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
    assert_eq!(acme.raw(long.as_bytes()).await.status, 431);
    let many = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(2_000));
    assert_eq!(acme.raw(many.as_bytes()).await.status, 431);
    for bytes in [
        &b"\0\0\0\0"[..],
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // It is closed, with an answer or without one.
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{bytes:?}");
    }
    assert_eq!(acme.get("/livez").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_not_this_one_is_refused() {
    let world =
        World::with(ServeSettings { hosts: ["agents.example.com".to_owned()].into(), ..settings() }).await;
    let acme = world.all("acme");
    for good in ["localhost", "127.0.0.1:1", "[::1]:80", "agents.example.com", "AGENTS.example.com:443"] {
        assert_eq!(acme.send("GET", "/v1/runs", &[("host", good)], b"").await.status, 200, "{good}");
    }
    for wrong in ["evil.example", "agents.example.com.evil.example", "", "localhost.evil.example:80"] {
        acme.send("GET", "/v1/runs", &[("host", wrong)], b"").await.is_problem(421, "bad_request");
    }
    let none = acme.raw(b"GET /livez HTTP/1.1\r\nconnection: close\r\n\r\n").await;
    assert!([400, 421].contains(&none.status), "{none:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_asks_too_often_waits_and_others_do_not() {
    let world = World::with(ServeSettings { requests_per_minute: 5, ..settings() }).await;
    let (acme, rival) = (world.all("acme"), world.all("rival"));
    for _ in 0..5 {
        assert_eq!(acme.get("/v1/agents").await.status, 200);
    }
    let refused = acme.get("/v1/agents").await;
    refused.is_problem(429, "too_many");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=12).contains(&seconds), "{seconds}");
    assert_eq!(rival.get("/v1/agents").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_keys_from_one_address_are_counted() {
    let world = World::new().await;
    let wrong = Client { key: Some("x".to_owned()), ..world.without_key() };
    let mut statuses = Vec::new();
    for _ in 0..70 {
        statuses.push(wrong.get("/v1/runs").await.status);
    }
    assert!(statuses[..60].iter().all(|status| *status == 401), "{statuses:?}");
    assert!(statuses[60..].contains(&429), "{statuses:?}");
    // A good key is not kept out.
    assert_eq!(world.all("acme").get("/v1/runs").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_loopback_it_serves_only_behind_a_proxy_and_with_a_key() {
    let world = World::new().await;
    let open = |behind_proxy| ServeSettings {
        address: std::net::SocketAddr::from(([0, 0, 0, 0], 0)),
        behind_proxy,
        ..ServeSettings::default()
    };
    let telemetry =
        || dalsegno_telemetry::Telemetry::start(dalsegno_telemetry::TelemetryConfig::default()).unwrap();
    let bind = |settings| {
        dalsegno_server::Server::bind(world.engine.clone(), world.keys.clone(), telemetry(), settings)
    };
    assert!(matches!(bind(open(false)).await, Err(dalsegno_server::ServeError::NotEncrypted { .. })));
    assert!(matches!(bind(open(true)).await, Err(dalsegno_server::ServeError::NoKeys { .. })));
    world.all("acme");
    assert!(bind(open(true)).await.is_ok());
    assert!(matches!(bind(open(false)).await, Err(dalsegno_server::ServeError::NotEncrypted { .. })));
}
