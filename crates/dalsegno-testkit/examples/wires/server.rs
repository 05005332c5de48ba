//! The server of a cell: the endpoint of its model and of its tool. It keeps what it is sent.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::check::base64;

/// One answer of the endpoint.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A stream, in pieces of so many bytes; its second half is never sent if it `is_cut`.
    Stream { media_type: &'static str, bytes: Vec<u8>, piece: usize, is_cut: bool },
    /// A failure, with these further lines of the head.
    Failure { status: &'static str, head: &'static str, body: &'static str },
    /// What aimock answers.
    Aimock,
}

/// What the endpoint was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) body: String,
    pub(crate) at: Instant,
}

/// What the server has seen.
#[derive(Debug, Default)]
struct Seen {
    asked: Vec<Asked>,
    effects: Vec<String>,
    trouble: Vec<String>,
    /// Answers that were given.
    given: usize,
    /// The request whose answer is held back in its middle, once.
    held: Option<usize>,
}

struct Shared {
    answers: Vec<Answer>,
    /// The file that the tool of the server returns.
    file: Option<&'static [u8]>,
    aimock: SocketAddr,
    seen: Mutex<Seen>,
    holding: Mutex<Sender<()>>,
}

/// A running server. Its threads end with the process: each waits for a connection that does not come any more.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    holding: Receiver<()>,
}

impl Server {
    /// Starts a server that gives these answers in their order, then the last one again. `held` is the number of the
    /// request whose answer is held back in its middle.
    ///
    /// # Errors
    /// No port can be had.
    pub(crate) fn start(
        answers: Vec<Answer>,
        file: Option<&'static [u8]>,
        held: Option<usize>,
        aimock: SocketAddr,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no port can be had")?;
        let address = listener.local_addr()?;
        let (sender, holding) = channel();
        let seen = Mutex::new(Seen { held, ..Seen::default() });
        let shared = Arc::new(Shared { answers, file, aimock, seen, holding: Mutex::new(sender) });
        let server = Self { address, shared: Arc::clone(&shared), holding };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // The other side may be killed at any time.
                    if let Err(error) = shared.serve(&stream) {
                        shared.seen().trouble.push(format!("{error:#}"));
                    }
                });
            }
        });
        Ok(server)
    }

    /// Waits until an answer is held back.
    ///
    /// # Errors
    /// The request did not come in time.
    pub(crate) fn wait_until_held(&self) -> anyhow::Result<()> {
        self.holding.recv_timeout(PATIENCE).context("the request at which it is killed did not come")
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.seen().asked.clone()
    }

    /// The texts with which the tool took effect, in order.
    pub(crate) fn effects(&self) -> Vec<String> {
        let mut effects = self.shared.seen().effects.clone();
        effects.sort();
        effects
    }

    /// What went wrong in the server.
    pub(crate) fn trouble(&self) -> Vec<String> {
        self.shared.seen().trouble.clone()
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the requests of one connection.
    fn serve(&self, stream: &TcpStream) -> anyhow::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        while let Some(request) = Request::read(&mut reader)? {
            if request.path() == "/tool" {
                self.perform(stream, &request)?;
            } else if request.path() == "/mcp" {
                self.serve_tools(stream, &request)?;
            } else if !self.reply(stream, &request)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The tool: it takes effect, then says so.
    fn perform(&self, stream: &TcpStream, request: &Request) -> anyhow::Result<()> {
        let body: Value = serde_json::from_slice(&request.body).context("the tool got no JSON")?;
        let said = self.take_effect(&body)?;
        say(stream, "200 OK", &said.to_string())
    }

    /// An MCP server of the old era, without sessions, whose tool returns a file besides its words.
    fn serve_tools(&self, stream: &TcpStream, request: &Request) -> anyhow::Result<()> {
        if !request.is_post() {
            return say(stream, "405 Method Not Allowed", "");
        }
        let message: Value = serde_json::from_slice(&request.body).context("the server got no JSON")?;
        if message.get("id").is_none() {
            return say(stream, "202 Accepted", "");
        }
        let params = &message["params"];
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "desk", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [{
                "name": "note",
                "description": "Writes a note.",
                "inputSchema": {
                    "type": "object",
                    "properties": { "text": { "type": "string", "description": "What to write." } },
                    "required": ["text"],
                    "additionalProperties": false,
                },
            }] }),
            "tools/call" => {
                let said = self.take_effect(&params["arguments"])?;
                let content = self.file.map(block);
                json!({ "structuredContent": said, "content": content.into_iter().collect::<Vec<_>>() })
            }
            _ => {
                let error = json!({ "code": -32601, "message": "unknown" });
                let body = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
                return say(stream, "200 OK", &body.to_string());
            }
        };
        say(stream, "200 OK", &json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string())
    }

    /// Keeps the text, and says so. The first of several calls takes longest.
    fn take_effect(&self, arguments: &Value) -> anyhow::Result<Value> {
        let text = arguments["text"].as_str().context("the tool got no text")?.to_owned();
        self.seen().effects.push(text.clone());
        let delay = match text.as_str() {
            "first" => 120,
            "second" => 80,
            "third" => 40,
            _ => 0,
        };
        thread::sleep(Duration::from_millis(delay));
        Ok(json!({ "written": text }))
    }

    /// The model: the next answer. Returns whether the connection may be used again.
    fn reply(&self, mut stream: &TcpStream, request: &Request) -> anyhow::Result<bool> {
        let (answer, is_held) = {
            let mut seen = self.seen();
            let body = String::from_utf8(request.body.clone()).context("the body is not UTF-8")?;
            seen.asked.push(Asked { body, at: Instant::now() });
            let is_held = seen.held == Some(seen.given);
            let answer = self.answers.get(seen.given).or(self.answers.last()).context("no answer")?.clone();
            if is_held {
                seen.held = None;
            } else {
                seen.given += 1;
            }
            (answer, is_held)
        };
        let (bytes, piece, is_cut) = match answer {
            Answer::Stream { media_type, bytes, piece, is_cut } => {
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\nconnection: close\r\n\r\n");
                stream.write_all(head.as_bytes())?;
                (bytes, piece, is_cut)
            }
            Answer::Failure { status, head, body } => {
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{head}\r\n{body}"
                );
                (answer.into_bytes(), usize::MAX, false)
            }
            Answer::Aimock => (request.forward(self.aimock)?, usize::MAX, false),
        };
        let until = if is_held || is_cut { bytes.len() / 2 } else { bytes.len() };
        for piece in bytes[..until].chunks(piece) {
            stream.write_all(piece)?;
        }
        if is_held {
            let _ = self.holding.lock().unwrap_or_else(PoisonError::into_inner).send(());
            // Until the other side is gone.
            let _ = stream.read(&mut [0]);
        }
        // The other side may be gone already.
        let _ = stream.shutdown(std::net::Shutdown::Both);
        Ok(false)
    }
}

/// Answers a request with JSON.
fn say(mut stream: &TcpStream, status: &str, said: &str) -> anyhow::Result<()> {
    let length = said.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    Ok(stream.write_all((head + said).as_bytes())?)
}

/// A file as a block of a result.
fn block(file: &[u8]) -> Value {
    let data = base64(file);
    match file {
        [b'%', ..] => json!({
            "type": "resource",
            "resource": { "uri": "file:///paper.pdf", "mimeType": "application/pdf", "blob": data },
        }),
        [b'R', ..] => json!({ "type": "audio", "data": data, "mimeType": "audio/wav" }),
        _ => json!({ "type": "image", "data": data, "mimeType": "image/png" }),
    }
}

/// A request as it came.
struct Request {
    head: Vec<String>,
    body: Vec<u8>,
}

impl Request {
    /// Reads a request, or nothing where the other side is done.
    fn read(reader: &mut BufReader<&TcpStream>) -> anyhow::Result<Option<Self>> {
        let mut head = Vec::new();
        let mut length = 0;
        loop {
            let mut line = String::new();
            // A process that was killed leaves a connection that was reset.
            if !matches!(reader.read_line(&mut line), Ok(read) if read > 0) {
                return Ok(None);
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().context("the length is no number")?;
            }
            head.push(line);
        }
        ensure!(length <= MAX_BODY_BYTES, "a request has {length} bytes");
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(Some(Self { head, body }))
    }

    fn is_post(&self) -> bool {
        self.head.first().is_some_and(|line| line.starts_with("POST "))
    }

    fn path(&self) -> &str {
        self.head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default()
    }

    /// The whole answer of another server, with its head.
    fn forward(&self, address: SocketAddr) -> anyhow::Result<Vec<u8>> {
        let mut other = TcpStream::connect(address).context("aimock is not there")?;
        let is_kept = |line: &&String| {
            let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
            name != "connection" && name != "accept-encoding"
        };
        let mut head: String = self.head.iter().filter(is_kept).map(|line| format!("{line}\r\n")).collect();
        head.push_str("connection: close\r\n\r\n");
        other.write_all(head.as_bytes())?;
        other.write_all(&self.body)?;
        // It keeps the connection open, and where it cuts a stream, the connection is reset.
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        while !is_whole(&answer) {
            match other.read(&mut piece) {
                Ok(read) if read > 0 => answer.extend(&piece[..read]),
                _ => break,
            }
        }
        ensure!(!answer.is_empty(), "aimock did not answer");
        Ok(answer)
    }
}

/// Whether an answer has come to its end, by its length or its last chunk.
fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let lines = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    match lines.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()) {
        Some(length) => answer.len() - head - 4 >= length,
        None => answer.ends_with(b"\r\n0\r\n\r\n"),
    }
}

/// How long a request may take to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Most bytes of a request.
const MAX_BODY_BYTES: usize = 16 << 20;
