//! Clients: connections that are kept, streams of events, and sockets that read as slowly as they like.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sse_stream::SseStream;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::times::Times;

/// What a run is asked.
pub(crate) const TEXT: &str = "disk full on db-1";

/// What a client sends.
pub(crate) type Sent = Request<Full<Bytes>>;

/// A request that reads something.
///
/// # Errors
/// The path or the key cannot be sent.
pub(crate) fn get(path: &str, key: &str) -> anyhow::Result<Sent> {
    request(Method::GET, path, key, Bytes::new())
}

/// A request that starts a run of an agent.
///
/// # Errors
/// The key cannot be sent.
pub(crate) fn start(agent: &str, key: &str) -> anyhow::Result<Sent> {
    post("/v1/runs", key, &json!({ "agent": agent, "text": TEXT }))
}

/// The same, answered when the run has ended or waits for an answer.
///
/// # Errors
/// The key cannot be sent.
pub(crate) fn start_and_wait(agent: &str, key: &str) -> anyhow::Result<Sent> {
    let mut request = start(agent, key)?;
    request.headers_mut().insert("prefer", HeaderValue::from_static("wait=60"));
    Ok(request)
}

/// A request that sends a JSON document.
///
/// # Errors
/// The path or the key cannot be sent.
pub(crate) fn post(path: &str, key: &str, body: &Value) -> anyhow::Result<Sent> {
    let mut request = request(Method::POST, path, key, Bytes::from(body.to_string()))?;
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(request)
}

fn request(method: Method, path: &str, key: &str, body: Bytes) -> anyhow::Result<Sent> {
    let request = Request::builder().method(method).uri(path).header(HOST, "localhost");
    Ok(request.header(AUTHORIZATION, format!("Bearer {key}")).body(Full::new(body))?)
}

/// A connection that is kept from one request to the next.
pub(crate) struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    /// Opens one.
    ///
    /// # Errors
    /// The server takes no connection.
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream =
            TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // A connection that breaks fails the request that is under way.
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    /// Sends a request, and reads the whole answer, which must have this status.
    ///
    /// # Errors
    /// There is no answer, or another one.
    pub(crate) async fn ask(&mut self, request: Sent, expected: StatusCode) -> anyhow::Result<Bytes> {
        let response = self.begin(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(status == expected, "the answer is {status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// Sends a request, and reads the head of the answer.
    async fn begin(&mut self, request: Sent) -> anyhow::Result<Response<Incoming>> {
        self.0.ready().await?;
        Ok(self.0.send_request(request).await?)
    }
}

/// Sends a request over a connection of its own, and reads the answer as JSON.
///
/// # Errors
/// There is no answer, or another one.
pub(crate) async fn ask(address: SocketAddr, request: Sent, expected: StatusCode) -> anyhow::Result<Value> {
    let answer = Connection::open(address).await?.ask(request, expected).await?;
    Ok(serde_json::from_slice(&answer)?)
}

/// Starts a run, and returns its id at once.
///
/// # Errors
/// The server starts none.
pub(crate) async fn begin(address: SocketAddr, key: &str, agent: &str) -> anyhow::Result<String> {
    id(&ask(address, start(agent, key)?, StatusCode::CREATED).await?)
}

/// Starts a run, and returns its id when it has ended or waits for an answer.
///
/// # Errors
/// The server starts none.
pub(crate) async fn complete(address: SocketAddr, key: &str, agent: &str) -> anyhow::Result<String> {
    id(&ask(address, start_and_wait(agent, key)?, StatusCode::CREATED).await?)
}

fn id(answer: &Value) -> anyhow::Result<String> {
    Ok(answer["run_id"].as_str().context("the answer names no run")?.to_owned())
}

/// Sends so many requests over so many connections, on each one after the other; how long each took, and how long all did. The
/// connections take turns with the requests that are given: no two are the same where there are as many.
///
/// # Errors
/// An answer has another status than this.
pub(crate) async fn load(
    address: SocketAddr,
    requests: &[Sent],
    expected: StatusCode,
    connections: usize,
    number: usize,
) -> anyhow::Result<(Times, Duration)> {
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        open.push(Connection::open(address).await?);
    }
    ensure!(!requests.is_empty(), "there is no request to send");
    let requests: Arc<[Sent]> = Arc::from(requests);
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for (place, mut connection) in open.into_iter().enumerate() {
        let requests = Arc::clone(&requests);
        let share = number / connections + usize::from(place < number % connections);
        tasks.spawn(async move {
            let mut times = Times::default();
            for turn in 0..share {
                let sent = Instant::now();
                let request = requests[(place + turn * connections) % requests.len()].clone();
                connection.ask(request, expected).await?;
                times.add(sent.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut all = Times::default();
    while let Some(times) = tasks.join_next().await {
        all.extend(&times??);
    }
    Ok((all, begun.elapsed()))
}

/// An event of a stream.
#[derive(Debug)]
pub(crate) struct Event {
    /// The sequence number of the record; none of an event that is no record.
    pub(crate) id: Option<u64>,
    /// What kind of event it is.
    pub(crate) name: String,
    /// Its data.
    pub(crate) data: String,
    /// When it had arrived and was read.
    pub(crate) at: Instant,
}

/// An open stream of a run.
pub(crate) struct Stream {
    events: SseStream<Incoming>,
    /// It is open as long as this is.
    _connection: Connection,
}

impl Stream {
    /// Opens one after the record with this number; none where the run has ended and nothing is left of it.
    ///
    /// # Errors
    /// The server refuses it.
    pub(crate) async fn open(
        address: SocketAddr,
        run: &str,
        key: &str,
        last: Option<u64>,
    ) -> anyhow::Result<Option<Self>> {
        let mut request = get(&events(run), key)?;
        if let Some(last) = last {
            request.headers_mut().insert("last-event-id", HeaderValue::from(last));
        }
        Self::answer(address, request).await
    }

    /// Sends a request that is answered with a stream; none where the answer is that there is nothing.
    ///
    /// # Errors
    /// The server refuses it.
    pub(crate) async fn answer(address: SocketAddr, mut request: Sent) -> anyhow::Result<Option<Self>> {
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let mut connection = Connection::open(address).await?;
        let response = connection.begin(request).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        ensure!(response.status() == StatusCode::OK, "a stream is refused with {}", response.status());
        Ok(Some(Self { events: SseStream::new(response.into_body()), _connection: connection }))
    }

    /// The next event; none when the server has closed the stream.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        while let Some(event) = self.events.next().await.transpose()? {
            // A pause that the server asks for is no event.
            if let Some(name) = event.event {
                let id = event.id.and_then(|id| id.parse().ok());
                return Ok(Some(Event {
                    id,
                    name,
                    data: event.data.unwrap_or_default(),
                    at: Instant::now(),
                }));
            }
        }
        Ok(None)
    }
}

/// The address of the events of a run.
pub(crate) fn events(run: &str) -> String {
    format!("/v1/runs/{run}/events")
}

/// A socket that has sent a request, and on which nothing is read yet. With `buffer`, the system keeps about so many bytes for it.
///
/// # Errors
/// The server takes no connection.
pub(crate) async fn socket(
    address: SocketAddr,
    path: &str,
    key: &str,
    accept: &str,
    buffer: Option<u32>,
) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(buffer) = buffer {
        socket.set_recv_buffer_size(buffer)?;
    }
    let mut stream = socket.connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\naccept: {accept}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}
