//! Starts with files.

use dalsegno_store::digest_bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Answer, Client};
use crate::world::{World, settings};

const KIND: &str = "multipart/form-data; boundary=edge";

/// A part of a form: its head, and its content.
type Piece<'p> = (&'p str, &'p [u8]);

const RUN: &str = "form-data; name=\"run\"\r\nContent-Type: application/json";
const NOTE: &str =
    "form-data; name=\"file\"; filename=\"note.txt\"\r\nContent-Type: text/plain; charset=utf-8";

fn form(parts: &[Piece<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (head, content) in parts {
        bytes.extend_from_slice(format!("--edge\r\nContent-Disposition: {head}\r\n\r\n").as_bytes());
        bytes.extend_from_slice(content);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"--edge--\r\n");
    bytes
}

async fn send(client: &Client, kind: &str, body: &[u8]) -> Answer {
    let headers = [("content-type", kind), ("prefer", "wait=30"), ("idempotency-key", "k")];
    client.send("POST", "/v1/runs", &headers, body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_come_with_a_start_and_are_kept_as_they_were_sent() {
    let agent = "name = \"files\"\n[[steps]]\nrespond = \"{{request.attachments}}\"\n";
    let world = World::with_files(settings(), &[("agents/files.toml", agent)]).await;
    let acme = world.all("acme");
    let start = json!({ "agent": "files", "text": "look" }).to_string();
    let picture: Vec<u8> = (0..70_000_u32).flat_map(u32::to_le_bytes).collect();
    // A file may come before the start, and may have what looks like an edge.
    let picture_head = "form-data; name=\"file\"; filename=\"täglich.png\"\r\nContent-Type: image/PNG";
    let body = form(&[(picture_head, &picture), (RUN, start.as_bytes()), (NOTE, b"a\r\n--edg\r\nb")]);
    let first = send(&acme, KIND, &body).await;
    assert_eq!(first.status, 201, "{first:?}");
    let run = first.json();
    let shown: Value = serde_json::from_str(run["answer"].as_str().unwrap()).unwrap();
    assert_eq!(
        shown,
        json!([
            { "name": "täglich.png", "media_type": "image/png", "bytes": 280_000 },
            { "name": "note.txt", "media_type": "text/plain", "bytes": 11 },
        ])
    );
    let store = world.engine.journal().store();
    for bytes in [&picture[..], b"a\r\n--edg\r\nb"] {
        assert_eq!(store.blob(digest_bytes(bytes)).await.unwrap().unwrap(), bytes);
    }
    // The same again is the same run; with another file it is a conflict.
    let again = send(&acme, KIND, &body).await;
    assert_eq!((again.status, &again.json()["run_id"]), (200, &run["run_id"]));
    let other = form(&[(picture_head, &picture), (RUN, start.as_bytes()), (NOTE, b"another")]);
    send(&acme, KIND, &other).await.is_problem(409, "key_conflict");
    // What a file is can be told by its name.
    let unsaid = form(&[(RUN, start.as_bytes()), ("form-data; name=\"file\"; filename=\"a.PDF\"", b"x")]);
    let headers = [("content-type", KIND), ("prefer", "wait=30")];
    let shown = acme.send("POST", "/v1/runs", &headers, &unsaid).await.json();
    assert!(shown["answer"].as_str().unwrap().contains("application/pdf"), "{shown}");
    // A form without files is a start as well.
    let plain = form(&[("form-data; name=\"run\"", start.as_bytes())]);
    assert_eq!(acme.send("POST", "/v1/runs", &headers, &plain).await.json()["answer"], "[]");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_that_is_none_or_has_more_than_it_may_starts_nothing() {
    let world = World::new().await;
    let acme = world.all("acme");
    let start = json!({ "agent": "echo", "text": "x" }).to_string();
    let run: Piece<'_> = (RUN, start.as_bytes());
    let named =
        |name: &str| format!("form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: text/plain");
    let long = named(&"n".repeat(256));
    let (up, line, empty) = (named("../note.txt"), named("a\u{85}b"), named(""));
    let without_name = "form-data; name=\"file\"\r\nContent-Type: text/plain";
    let without_kind = "form-data; name=\"file\"; filename=\"note.unknown\"";
    let many: Vec<Piece<'_>> = std::iter::once(run).chain([(NOTE, &b"x"[..]); 17]).collect();
    let whole = form(&[run, (NOTE, b"x")]);
    let bad_json = form(&[(RUN, b"{\"agent\":\"echo\",\"unknown\":1}")]);
    let deep = "[".repeat(65);
    let deep = form(&[(RUN, format!("{{\"agent\":\"echo\",\"data\":{deep}").as_bytes())]);
    let cases: [(&str, &str, Vec<u8>); 17] = [
        ("no boundary", "multipart/form-data", whole.clone()),
        ("another boundary", "multipart/form-data; boundary=other", whole.clone()),
        ("cut off", KIND, whole[..whole.len() - 20].to_vec()),
        ("nothing", KIND, Vec::new()),
        ("no form", KIND, b"\0\xff\xfe{}".to_vec()),
        ("no start", KIND, form(&[(NOTE, b"x")])),
        ("two starts", KIND, form(&[run, run])),
        ("a list", KIND, form(&[(RUN, b"[\"echo\",\"x\"]")])),
        ("an unknown key", KIND, bad_json),
        ("too deep", KIND, deep),
        ("an unknown part", KIND, form(&[run, ("form-data; name=\"other\"", b"x")])),
        ("no name", KIND, form(&[run, (without_name, b"x")])),
        ("an empty name", KIND, form(&[run, (&empty, b"x")])),
        ("a way up", KIND, form(&[run, (&up, b"x")])),
        ("a control character", KIND, form(&[run, (&line, b"x")])),
        ("a long name", KIND, form(&[run, (&long, b"x")])),
        ("no media type", KIND, form(&[run, (without_kind, b"x")])),
    ];
    for (what, kind, body) in cases {
        let answer = send(&acme, kind, &body).await;
        assert_eq!(answer.status, 400, "{what}: {answer:?}");
        answer.is_problem(400, "bad_request");
    }
    send(&acme, KIND, &form(&many)).await.is_problem(400, "bad_request");
    let large = format!("{{\"agent\":\"echo\",\"text\":\"{}\"}}", "x".repeat(4 << 20));
    send(&acme, KIND, &form(&[(RUN, large.as_bytes())])).await.is_problem(413, "too_large");
    // Other forms than this one are no start.
    let form_of_page = "application/x-www-form-urlencoded";
    send(&acme, form_of_page, b"agent=echo").await.is_problem(415, "bad_request");
    // Who may not start runs sends no files either.
    let reads = world.client("acme", &[dalsegno_access::Scope::RunsRead]);
    send(&reads, KIND, &whole).await.is_problem(403, "forbidden");
    assert_eq!(world.runs().await, 0);
    assert_eq!(send(&acme, KIND, &whole).await.status, 201, "the key is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_too_large_are_refused_and_leave_their_room() {
    let world = World::new().await;
    let acme = world.all("acme");
    let start = json!({ "agent": "echo", "text": "x" }).to_string();
    let large = vec![7; 32 << 20];
    for _ in 0..6 {
        let body = form(&[(RUN, start.as_bytes()), (NOTE, &large)]);
        send(&acme, KIND, &body).await.is_problem(413, "too_large");
    }
    assert_eq!(world.runs().await, 0);
    let fits = form(&[(RUN, start.as_bytes()), (NOTE, &large[..31 << 20])]);
    for number in 0..6 {
        let expected = if number == 0 { 201 } else { 200 };
        assert_eq!(send(&acme, KIND, &fits).await.status, expected, "{number}");
    }
}

/// Sends a form with a file but for its last bytes, and keeps the connection.
async fn hold(client: &Client, body: &[u8]) -> TcpStream {
    let key = client.key.as_deref().unwrap();
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: {KIND}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let mut connection = TcpStream::connect(client.address).await.unwrap();
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.write_all(&body[..body.len() - 1]).await.unwrap();
    connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_sends_its_files_slowly_takes_nothing_from_the_others() {
    let world = World::new().await;
    let (acme, rival) = (world.all("acme"), world.all("rival"));
    let start = json!({ "agent": "echo", "text": "x" }).to_string();
    let half = form(&[(RUN, start.as_bytes()), (NOTE, &vec![7; 30 << 20])]);
    let small = form(&[(RUN, start.as_bytes()), (NOTE, &vec![7; 5 << 20])]);
    // What a system keeps of a connection may not have been read yet: it is less than the rest of the tenant's room.
    let mut held = vec![hold(&acme, &half).await, hold(&acme, &half).await];
    let refused = loop {
        let answer = acme.send("POST", "/v1/runs", &[("content-type", KIND)], &small).await;
        if answer.status != 201 {
            break answer;
        }
    };
    refused.is_problem(429, "too_many");
    assert_eq!(refused.header("retry-after").as_deref(), Some("2"));
    // Without files it starts runs as before, and another tenant has all its room.
    assert_eq!(acme.post("/v1/runs", &json!({ "agent": "echo", "text": "x" })).await.status, 201);
    assert_eq!(send(&rival, KIND, &half).await.status, 201);
    // Who sends the rest has its run, and who goes away leaves the room.
    let mut first = held.remove(0);
    first.write_all(&half[half.len() - 1..]).await.unwrap();
    let mut status = [0; 12];
    first.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 201");
    drop(held);
    let again = loop {
        let again = send(&acme, KIND, &half).await;
        if again.status != 429 {
            break again;
        }
    };
    assert_eq!(again.status, 201);
}
