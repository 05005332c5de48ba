//! Servers behind an address that flood their client, or have it come again and again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dalsegno_mcp::{CallErrorKind, Limits, Server, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{endpoint, look};

/// What a client did to a hostile server.
#[derive(Default)]
struct Seen {
    /// Requests for the stream.
    streams: AtomicUsize,
    /// Answers to requests of the server.
    answers: AtomicUsize,
    /// Sessions that were begun.
    sessions: AtomicUsize,
    /// The stream was cut by the client before all was written.
    cut: AtomicUsize,
    /// Bytes of an answer to a call that were taken.
    taken: AtomicUsize,
}

/// What a hostile server does on its stream.
#[derive(Clone, Copy)]
enum Stream {
    /// Sends so many requests.
    Flood(usize),
    /// Wants it opened anew at once.
    Again,
    /// Nothing; but the answer to a call has this status and this content type, and does not end.
    Endless(u16, &'static str),
}

async fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return Some((head.to_owned(), body.to_owned()));
        }
    }
}

async fn answer(stream: &mut TcpStream, status: u16, session: &str, body: &str) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Status\r\nconnection: close\r\n{session}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let _ = stream.write_all(head.as_bytes()).await;
}

/// A server of the old era with a session, whose calls are never answered, and no answer to it is ever taken.
async fn hostile(kind: Stream) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Seen::default());
    let told = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let seen = Arc::clone(&told);
            tokio::spawn(async move {
                let Some((head, body)) = request(&mut stream).await else { return };
                if head.starts_with("GET") {
                    seen.streams.fetch_add(1, Ordering::Relaxed);
                    let head =
                        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
                    let _ = stream.write_all(head.as_bytes()).await;
                    return push(&mut stream, kind, &seen).await;
                }
                let message: Value = serde_json::from_str(&body).unwrap_or_default();
                let result =
                    |result: Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                match message["method"].as_str() {
                    Some("initialize") => {
                        seen.sessions.fetch_add(1, Ordering::Relaxed);
                        let info = json!({ "name": "test", "version": "1" });
                        let begun = result(
                            json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": info }),
                        );
                        answer(&mut stream, 200, "mcp-session-id: s1\r\n", &begun.to_string()).await;
                    }
                    Some("tools/list") => {
                        let tools =
                            json!({ "tools": [{ "name": "look", "inputSchema": { "type": "object" } }] });
                        answer(&mut stream, 200, "", &result(tools).to_string()).await;
                    }
                    Some("tools/call") => match kind {
                        Stream::Endless(status, content) => {
                            endless(&mut stream, status, content, &message, &seen).await;
                        }
                        _ => tokio::time::sleep(Duration::from_secs(600)).await,
                    },
                    Some(_) if message.get("id").is_some() => {
                        let error = json!({ "code": -32601, "message": "unknown" });
                        let error = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
                        answer(&mut stream, 404, "", &error.to_string()).await;
                    }
                    Some(_) => answer(&mut stream, 202, "", "").await,
                    None => {
                        seen.answers.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_secs(600)).await;
                    }
                }
            });
        }
    });
    (address, seen)
}

/// An answer that goes on for as long as it is read.
async fn endless(stream: &mut TcpStream, status: u16, content: &str, message: &Value, seen: &Seen) {
    let id = &message["id"];
    let head = format!("HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-type: {content}\r\n\r\n");
    let field = if content == "text/event-stream" { "data: " } else { "" };
    let begin = format!(
        "{head}{field}{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\""
    );
    let _ = stream.write_all(begin.as_bytes()).await;
    let part = [b'x'; 16 << 10];
    while seen.taken.load(Ordering::Relaxed) < LARGE {
        if stream.write_all(&part).await.is_err() {
            seen.cut.fetch_add(1, Ordering::Relaxed);
            return;
        }
        seen.taken.fetch_add(part.len(), Ordering::Relaxed);
    }
}

/// What an endless answer has at most.
const LARGE: usize = 64 << 20;

async fn push(stream: &mut TcpStream, kind: Stream, seen: &Seen) {
    let Stream::Flood(count) = kind else {
        let _ = stream.write_all(b"retry: 0\n\n").await;
        return;
    };
    for number in 0..count {
        let ping = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":\"f{number}\",\"method\":\"ping\"}}\n\n");
        if stream.write_all(ping.as_bytes()).await.is_err() {
            seen.cut.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
}

#[tokio::test]
async fn an_answer_is_read_as_far_as_its_bound_and_not_to_its_end() {
    for (status, content) in [
        (200, "application/json"),
        (200, "text/event-stream"),
        (400, "application/json"),
        (500, "application/json"),
        (500, "text/plain"),
    ] {
        let (address, seen) = hostile(Stream::Endless(status, content)).await;
        let server = server(address);
        let error = look(&server).await.unwrap_err();
        server.close().await;
        let noticed = async {
            while seen.cut.load(Ordering::Relaxed) == 0 && seen.taken.load(Ordering::Relaxed) < LARGE {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), noticed).await.expect("it is read no more");
        // Its bound is 1 MiB; the rest stands in the buffers of the connection.
        let taken = seen.taken.load(Ordering::Relaxed);
        assert!(taken < 12 << 20, "{status} {content}: {taken} bytes, {error}");
    }
}

fn server(address: SocketAddr) -> Server {
    let limits = Limits { call_timeout: Duration::from_secs(20), ..Limits::default() };
    Server::new(ServerConfig { limits, ..ServerConfig::http("crm", endpoint(address)) })
}

/// Calls a tool until the flood ends the connection, and waits until the server has noticed.
async fn flooded(count: usize) -> Arc<Seen> {
    let (address, seen) = hostile(Stream::Flood(count)).await;
    let server = server(address);
    let error = look(&server).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Protocol, "{error}");
    assert!(error.message.contains("does not accept the answers"), "{error}");
    let noticed = async {
        while seen.cut.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), noticed).await.expect("the stream is read no more");
    // One answer is under way at a time, and the others went with the connection.
    assert!(seen.answers.load(Ordering::Relaxed) <= 2, "{}", seen.answers.load(Ordering::Relaxed));
    server.close().await;
    seen
}

#[tokio::test]
async fn a_server_that_floods_its_client_with_requests_loses_the_connection() {
    let seen = flooded(200_000).await;
    assert_eq!(
        seen.sessions.load(Ordering::Relaxed),
        1,
        "a call that may have been received is not repeated"
    );
}

/// The bytes that this process holds.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a long proof: 600,000 requests, five times"]
async fn six_hundred_thousand_requests_leave_no_memory_behind() {
    flooded(600_000).await;
    let before = resident();
    for _ in 0..4 {
        flooded(600_000).await;
    }
    let after = resident();
    assert!(after < before + 20 * 1024 * 1024, "{before} bytes before, {after} after");
}

#[tokio::test]
async fn a_stream_is_not_opened_anew_whenever_the_server_wants_it() {
    let (address, seen) = hostile(Stream::Again).await;
    let server = server(address);
    server.catalogue("default").await.unwrap();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let streams = seen.streams.load(Ordering::Relaxed);
    assert!((2..=3).contains(&streams), "{streams} in two seconds and a half");
    server.close().await;
}
