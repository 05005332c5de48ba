//! Clients: connections that are kept, streams of events, and sockets that read as slowly as they like.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::times::Times;

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
    let body = json!({ "agent": agent, "text": "disk full on db-1" }).to_string();
    let mut request = request(Method::POST, "/v1/runs", key, Bytes::from(body))?;
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
    let mut request = start(agent, key)?;
    request.headers_mut().insert("prefer", HeaderValue::from_static("wait=60"));
    id(&ask(address, request, StatusCode::CREATED).await?)
}

fn id(answer: &Value) -> anyhow::Result<String> {
    Ok(answer["run_id"].as_str().context("the answer names no run")?.to_owned())
}

/// Sends so many requests over so many connections, on each one after the other; how long each took, and how long all did. The
/// connections take turns with the requests that are given, which differ in their keys.
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
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for (place, (mut connection, request)) in open.into_iter().zip(requests.iter().cycle()).enumerate() {
        let request = request.clone();
        let share = number / connections + usize::from(place < number % connections);
        tasks.spawn(async move {
            let mut times = Times::default();
            for _ in 0..share {
                let sent = Instant::now();
                connection.ask(request.clone(), expected).await?;
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
    /// When the last byte of it arrived.
    pub(crate) at: Instant,
}

impl Event {
    /// Reads the lines of one; a comment is none.
    fn read(text: &str, at: Instant) -> Option<Self> {
        let mut event = Self { id: None, name: String::new(), data: String::new(), at };
        for line in text.lines() {
            match line.split_once(": ") {
                Some(("id", id)) => event.id = id.parse().ok(),
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("data", data)) => event.data.push_str(data),
                _ => {}
            }
        }
        (!event.name.is_empty()).then_some(event)
    }
}

/// An open stream of a run.
pub(crate) struct Stream {
    body: Incoming,
    /// What has arrived of an event that is not whole.
    rest: Vec<u8>,
    ready: VecDeque<Event>,
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
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last {
            request.headers_mut().insert("last-event-id", HeaderValue::from(last));
        }
        let mut connection = Connection::open(address).await?;
        let response = connection.begin(request).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        ensure!(response.status() == StatusCode::OK, "a stream is refused with {}", response.status());
        let body = response.into_body();
        Ok(Some(Self { body, rest: Vec::new(), ready: VecDeque::new(), _connection: connection }))
    }

    /// The next event; none when the server has closed the stream.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(bytes) = frame?.into_data() {
                self.take(&bytes, Instant::now());
            }
        }
    }

    fn take(&mut self, bytes: &[u8], at: Instant) {
        self.rest.extend_from_slice(bytes);
        let mut done = 0;
        while let Some(length) = self.rest[done..].windows(2).position(|two| two == b"\n\n") {
            let text = String::from_utf8_lossy(&self.rest[done..done + length]);
            self.ready.extend(Event::read(&text, at));
            done += length + 2;
        }
        self.rest.drain(..done);
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
