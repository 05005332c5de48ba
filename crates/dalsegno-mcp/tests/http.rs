//! Servers behind an address on this machine: both eras, secrets in headers, and what goes wrong on the way.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_mcp::{
    Answer, CallContext, CallError, CallErrorKind, Endpoint, Limits, Received, Server, ServerConfig,
};
use dalsegno_net::{Client, Egress, Resolver};
use dalsegno_secrets::{MaybeSecret, Reveal, RevealError, Secret};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[path = "support/flood.rs"]
mod flood;

/// How a server answers a request: status, further header lines, content type, body.
struct Reply(u16, &'static str, &'static str, String);

type Answerer = dyn Fn(&Value, &str) -> Option<Reply> + Send + Sync;

/// A server that answers each request on a connection of its own. `None` leaves it without an answer.
async fn serve(answer: impl Fn(&Value, &str) -> Option<Reply> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer: Arc<Answerer> = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let mut request = Vec::new();
                let (head, body) = loop {
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        return;
                    }
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                        break (head.to_owned(), body.to_owned());
                    }
                };
                let reply = if head.starts_with("POST") {
                    let Some(reply) = answer(&serde_json::from_str(&body).unwrap(), &head) else {
                        tokio::time::sleep(Duration::from_secs(60)).await;
                        return;
                    };
                    reply
                } else {
                    Reply(405, "", "text/plain", String::new())
                };
                let Reply(status, headers, kind, body) = reply;
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status} Status\r\nconnection: close\r\n{headers}content-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
                );
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(body.as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    address
}

fn result(message: &Value, mut result: Value) -> Option<Reply> {
    result["resultType"] = json!("complete");
    let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    Some(Reply(200, "", "application/json", body.to_string()))
}

/// A server of the old era with sessions, whose only tool is answered by `call`.
fn legacy(
    call: impl Fn(&Value, &str) -> Option<Reply> + Send + Sync + 'static,
) -> impl Fn(&Value, &str) -> Option<Reply> + Send + Sync + 'static {
    move |message, head| match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            let info = json!({ "name": "test", "version": "1" });
            let result = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": info });
            let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            Some(Reply(200, "mcp-session-id: s1\r\n", "application/json", body.to_string()))
        }
        "tools/list" => {
            result(message, json!({ "tools": [{ "name": "look", "inputSchema": { "type": "object" } }] }))
        }
        "tools/call" => call(message, head),
        _ if message.get("id").is_none() => Some(Reply(202, "", "text/plain", String::new())),
        _ => {
            let error = json!({ "code": -32601, "message": "unknown" });
            let body = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
            Some(Reply(404, "", "application/json", body.to_string()))
        }
    }
}

fn said(message: &Value, text: &str) -> Option<Reply> {
    result(message, json!({ "content": [{ "type": "text", "text": text }] }))
}

fn endpoint(address: SocketAddr) -> Endpoint {
    let client = Client::new(Egress::new([format!("http://{address}").parse().unwrap()]));
    Endpoint::new(format!("http://{address}/mcp").parse().unwrap(), client)
}

fn server(address: SocketAddr) -> Server {
    Server::new(ServerConfig::http("crm", endpoint(address)))
}

async fn look(server: &Server) -> Result<String, CallError> {
    let call = CallContext::new("op_1", Duration::from_secs(20));
    match server.session("default").call("look", Map::new(), call).await? {
        Answer::Done(output) => Ok(output.text),
        Answer::InputRequired(input) => panic!("{input:?}"),
    }
}

fn authorization(value: impl Reveal + 'static) -> BTreeMap<String, MaybeSecret> {
    BTreeMap::from([("authorization".to_owned(), MaybeSecret::Secret(Arc::new(value)))])
}

/// The types of the SDK would sort the keys; models write arguments in their order.
#[tokio::test]
async fn a_schema_that_comes_in_a_stream_keeps_the_order_of_its_keys() {
    const SCHEMA: &str =
        r#"{"type":"object","properties":{"why":{"type":"string"},"answer":{"type":"string"}}}"#;
    let address = serve(|message, head| match message["method"].as_str() {
        Some("tools/list") => {
            let id = &message["id"];
            let tools = format!(r#"[{{"name":"judge","inputSchema":{SCHEMA}}}]"#);
            let body = format!(r#"data: {{"jsonrpc":"2.0","id":{id},"result":{{"tools":{tools}}}}}"#);
            Some(Reply(200, "", "text/event-stream", format!("{body}\n\n")))
        }
        _ => legacy(|_, _| None)(message, head),
    })
    .await;
    let tools = server(address).catalogue("default").await.unwrap();
    assert_eq!(tools[0].input_schema.to_string(), SCHEMA);
}

/// A token that is another one each time.
struct Rotating(AtomicUsize);

#[async_trait]
impl Reveal for Rotating {
    async fn reveal(&self) -> Result<Secret, RevealError> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Secret::new(&format!("Bearer token-{number}")))
    }
}

#[tokio::test]
async fn a_server_of_the_old_era_is_asked_within_its_session_and_with_fresh_headers() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let address = serve(legacy(move |message, head| {
        seen.lock().unwrap().push(head.to_ascii_lowercase());
        said(message, "found")
    }))
    .await;
    let mut endpoint = endpoint(address);
    endpoint.headers = authorization(Rotating(AtomicUsize::new(0)));
    let server = Server::new(ServerConfig::http("crm", endpoint));
    assert_eq!(server.catalogue("default").await.unwrap().len(), 1);
    assert_eq!(look(&server).await.unwrap(), "found");
    assert_eq!(look(&server).await.unwrap(), "found");
    let heads = heads.lock().unwrap().clone();
    assert!(heads.iter().all(|head| head.contains("mcp-session-id: s1")), "{heads:?}");
    let tokens: Vec<&str> =
        heads.iter().flat_map(|head| head.lines().filter(|line| line.contains("token-"))).collect();
    assert!(tokens.len() == 2 && tokens[0] != tokens[1], "{tokens:?}");
    server.close().await;
}

#[tokio::test]
async fn a_server_of_the_new_era_is_asked_without_a_session() {
    let address = serve(|message, head| match message["method"].as_str().unwrap_or_default() {
        "server/discover" => result(
            message,
            json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private" }),
        ),
        "tools/call" => {
            let head = head.to_ascii_lowercase();
            assert!(head.contains("mcp-protocol-version: 2026-07-28") && !head.contains("mcp-session-id"), "{head}");
            said(message, "found")
        }
        _ => Some(Reply(202, "", "text/plain", String::new())),
    })
    .await;
    let server = server(address);
    assert_eq!(look(&server).await.unwrap(), "found");
    assert_eq!(server.session("default").protocol().await.unwrap(), "2026-07-28");
    server.close().await;
}

/// A server of either era whose resource `test://a` says `text`.
fn library(is_modern: bool, text: String) -> impl Fn(&Value, &str) -> Option<Reply> + Send + Sync + 'static {
    let capabilities = || json!({ "tools": {}, "resources": {} });
    move |message, _| match message["method"].as_str().unwrap_or_default() {
        "server/discover" if is_modern => result(
            message,
            json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities(), "ttlMs": 0, "cacheScope": "private" }),
        ),
        "initialize" => {
            let info = json!({ "name": "test", "version": "1" });
            result(
                message,
                json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities(), "serverInfo": info }),
            )
        }
        "tools/list" => result(message, json!({ "tools": [], "ttlMs": 0, "cacheScope": "private" })),
        "resources/read" => {
            let contents = json!([{ "uri": message["params"]["uri"], "text": text }]);
            result(message, json!({ "contents": contents, "ttlMs": 0, "cacheScope": "private" }))
        }
        _ if message.get("id").is_none() => Some(Reply(202, "", "text/plain", String::new())),
        _ => {
            let error = json!({ "code": -32601, "message": "unknown" });
            let body = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
            Some(Reply(404, "", "application/json", body.to_string()))
        }
    }
}

async fn read(server: &Server) -> Result<String, CallError> {
    let call = CallContext::new("op_1", Duration::from_secs(20));
    let given = Map::from_iter([("uri".to_owned(), json!("test://a"))]);
    match server.session("default").call("resources.read", given, call).await? {
        Answer::Done(output) => Ok(output.text),
        Answer::InputRequired(input) => panic!("{input:?}"),
    }
}

#[tokio::test]
async fn a_resource_is_read_from_servers_of_both_eras_within_the_limit_of_output() {
    for (is_modern, protocol) in [(true, "2026-07-28"), (false, "2025-11-25")] {
        let server = server(serve(library(is_modern, "found".to_owned())).await);
        let names: Vec<String> =
            server.catalogue("default").await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["resources.list", "resources.read"], "{protocol}");
        assert_eq!(read(&server).await.unwrap(), "found", "{protocol}");
        assert_eq!(server.session("default").protocol().await.unwrap(), protocol);
        server.close().await;

        let endpoint = endpoint(serve(library(is_modern, "x".repeat(10_000))).await);
        let limits = Limits { output: 5_000, ..Limits::default() };
        let server = Server::new(ServerConfig { limits, ..ServerConfig::http("crm", endpoint) });
        let error = read(&server).await.unwrap_err();
        assert_eq!(error.kind, CallErrorKind::OutputTooLarge, "{protocol}: {error}");
        server.close().await;
    }
}

#[tokio::test]
async fn a_server_without_resources_has_no_tools_to_read_them() {
    let server = server(serve(legacy(|_, _| panic!("nobody calls"))).await);
    let error = read(&server).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::UnknownTool, Received::No), "{error}");
    server.close().await;
}

#[tokio::test]
async fn a_server_that_wants_to_know_who_asks_was_not_acted_upon() {
    let address = serve(legacy(|_, _| {
        Some(Reply(401, "www-authenticate: Bearer realm=\"x\"\r\n", "text/plain", String::new()))
    }))
    .await;
    let error = look(&server(address)).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Unauthorized, Received::No), "{error}");
}

#[tokio::test]
async fn a_server_that_breaks_down_may_have_acted() {
    let address = serve(legacy(|_, _| Some(Reply(500, "", "text/plain", "oh".to_owned())))).await;
    let error = look(&server(address)).await.unwrap_err();
    assert_eq!(error.received, Received::Possibly, "{error}");
}

#[tokio::test]
async fn nobody_at_the_address_means_that_nothing_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = look(&server(address)).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Start, Received::No), "{error}");
    assert!(error.message.to_lowercase().contains("connection refused"), "{error}");
}

#[tokio::test]
async fn an_answer_that_never_comes_ends_in_time() {
    let address = serve(legacy(|_, _| None)).await;
    let limits = Limits { call_timeout: Duration::from_millis(300), ..Limits::default() };
    let server = Server::new(ServerConfig { limits, ..ServerConfig::http("crm", endpoint(address)) });
    let error = look(&server).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Timeout, Received::Possibly), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_refused() {
    let address = serve(legacy(|message, _| said(message, &"x".repeat(3 << 20)))).await;
    let error = look(&server(address)).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::OutputTooLarge, Received::Possibly), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let inner = serve(|_, _| panic!("nobody may come here")).await;
    let location: &'static str = Box::leak(format!("location: http://{inner}/\r\n").into_boxed_str());
    let address = serve(legacy(move |_, _| Some(Reply(307, location, "text/plain", String::new())))).await;
    let error = look(&server(address)).await.unwrap_err();
    assert!(error.message.contains("307"), "{error}");
}

/// A resolver that says that every name is this machine.
struct Here;

#[async_trait]
impl Resolver for Here {
    async fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec!["127.0.0.1".parse().unwrap()])
    }
}

#[tokio::test]
async fn a_name_that_leads_inside_is_denied_and_nothing_was_sent() {
    let address = serve(|_, _| panic!("nobody may come here")).await;
    let origin = format!("http://crm.example:{}", address.port());
    let egress = Egress::with_resolver([origin.parse().unwrap()], Arc::new(Here));
    let endpoint = Endpoint::new(format!("{origin}/mcp").parse().unwrap(), Client::new(egress));
    let error = look(&Server::new(ServerConfig::http("crm", endpoint))).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Denied, Received::No), "{error}");
}

/// A secret that is not there.
struct Missing;

#[async_trait]
impl Reveal for Missing {
    async fn reveal(&self) -> Result<Secret, RevealError> {
        Err(RevealError::new("the environment variable `CRM_TOKEN` is not set"))
    }
}

#[tokio::test]
async fn a_missing_secret_is_named_and_nothing_is_sent() {
    let address = serve(|_, _| panic!("nobody may come here")).await;
    let mut endpoint = endpoint(address);
    endpoint.headers = authorization(Missing);
    let error = look(&Server::new(ServerConfig::http("crm", endpoint))).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Start, Received::No), "{error}");
    assert!(error.message.contains("CRM_TOKEN"), "{error}");
}

#[tokio::test]
async fn a_call_that_becomes_a_task_is_asked_about_by_its_id() {
    let polls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&polls);
    let task = |status: &str| {
        json!({
            "taskId": "t-1", "status": status, "ttlMs": null, "pollIntervalMs": 100,
            "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
        })
    };
    let address = serve(move |message, head| match message["method"].as_str().unwrap_or_default() {
        "server/discover" => result(
            message,
            json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private" }),
        ),
        "tools/call" => {
            let capabilities = &message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            assert!(capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{message}");
            let mut made = task("working");
            made["resultType"] = json!("task");
            let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": made });
            Some(Reply(200, "", "application/json", body.to_string()))
        }
        "tasks/get" => {
            // Whoever stands in between finds the server that has the task.
            assert!(head.to_ascii_lowercase().contains("mcp-name: t-1"), "{head}");
            assert_eq!(message["params"]["_meta"]["dalsegno/operation"], "op_1");
            match seen.fetch_add(1, Ordering::Relaxed) {
                0 => result(message, task("working")),
                // A moment of trouble is no end of the task.
                1 => Some(Reply(503, "", "text/plain", "busy".to_owned())),
                _ => {
                    let mut ended = task("completed");
                    ended["result"] = json!({ "content": [{ "type": "text", "text": "found" }] });
                    result(message, ended)
                }
            }
        }
        _ => Some(Reply(202, "", "text/plain", String::new())),
    })
    .await;
    let server = server(address);
    assert_eq!(look(&server).await.unwrap(), "found");
    assert_eq!(polls.load(Ordering::Relaxed), 3);
    server.close().await;
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_begun_anew_within_the_call() {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    // The third call meets a server that was started anew; the fourth one that knows no session at all.
    let address = serve(legacy(move |message, _| match seen.fetch_add(1, Ordering::Relaxed) {
        0 | 2 => said(message, "found"),
        _ => Some(Reply(404, "", "text/plain", "no such session".to_owned())),
    }))
    .await;
    let server = server(address);
    assert_eq!(look(&server).await.unwrap(), "found");
    assert_eq!(look(&server).await.unwrap(), "found");
    assert_eq!(calls.load(Ordering::Relaxed), 3, "sent once more, and only once");
    let error = look(&server).await.unwrap_err();
    assert_eq!(error.received, Received::No, "{error}");
    assert_eq!(calls.load(Ordering::Relaxed), 5);
    server.close().await;
}
