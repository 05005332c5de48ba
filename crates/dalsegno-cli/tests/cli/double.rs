//! A local endpoint that speaks the streaming half of OpenAI's Chat Completions, and keeps what it is sent.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use serde_json::{Value, json};

/// What a request was.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Value,
    /// The body as it was sent.
    pub(crate) text: String,
}

/// A door in the middle of an answer: nothing passes until a test opens it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    /// Lets everybody pass from here on.
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let closed = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(closed, |open| !*open).unwrap());
    }
}

/// One piece of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Text(String),
    Door(Door),
    /// A call of a tool by the name that a model sees, with its arguments.
    #[allow(dead_code, reason = "not each program of tests has a model that calls tools")]
    Call(&'static str, Value),
    /// Says that the request took so many tokens; 12 without it.
    #[allow(dead_code, reason = "not each program of tests counts tokens")]
    Tokens(u64),
}

/// A text, streamed word by word.
pub(crate) fn words(text: &str) -> Vec<Piece> {
    text.split_inclusive(' ').map(|word| Piece::Text(word.to_owned())).collect()
}

/// What is answered to a request with this number.
type Decide = dyn Fn(usize, &Received) -> Vec<Piece> + Send + Sync;

/// The endpoint. Its threads end with the test's process.
pub(crate) struct Double {
    address: SocketAddr,
    received: Arc<Book>,
}

/// What an endpoint was sent.
#[derive(Default)]
struct Book {
    received: Mutex<Vec<Received>>,
    comes: Condvar,
}

impl Double {
    /// Starts an endpoint that gives these answers, one a request, in their order; the last again and again.
    pub(crate) fn start(answers: Vec<Vec<Piece>>) -> Self {
        Self::deciding(move |number, _| answers[number.min(answers.len() - 1)].clone())
    }

    /// Starts an endpoint that decides what it answers, by the number of the request, from 0, and by what it reads.
    pub(crate) fn deciding(decide: impl Fn(usize, &Received) -> Vec<Piece> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Book::default());
        let decide: Arc<Decide> = Arc::new(decide);
        let kept = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, decide) = (Arc::clone(&kept), Arc::clone(&decide));
                // The other side may hang up at any time, which is what some tests are about.
                thread::spawn(move || serve(&stream, &kept, &*decide).ok());
            }
        });
        Self { address, received }
    }

    /// The address that a workspace names.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// A `dalsegno.toml` whose default model is this endpoint.
    pub(crate) fn settings(&self) -> String {
        format!("[models.default]\nprovider = \"openai\"\nmodel = \"test\"\nbase_url = \"{}\"\n", self.url())
    }

    /// What it was sent so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.received.lock().unwrap().clone()
    }

    /// Waits until it was sent so many requests.
    #[allow(dead_code, reason = "not each program of tests kills one that waits")]
    pub(crate) fn until(&self, count: usize) {
        let received = self.received.received.lock().unwrap();
        drop(self.received.comes.wait_while(received, |received| received.len() < count).unwrap());
    }
}

fn serve(stream: &TcpStream, book: &Book, decide: &Decide) -> io::Result<()> {
    let received = read(stream)?;
    let answer = {
        let mut kept = book.received.lock().unwrap();
        kept.push(received.clone());
        book.comes.notify_all();
        decide(kept.len() - 1, &received)
    };
    let mut stream = stream;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    for piece in &answer {
        match piece {
            Piece::Text(text) => event(stream, &json!({ "content": text }), None)?,
            Piece::Door(door) => door.pass(),
            Piece::Tokens(_) => {}
            Piece::Call(name, arguments) => {
                let function = json!({ "name": name, "arguments": arguments.to_string() });
                let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
                event(stream, &json!({ "tool_calls": [call] }), None)?;
            }
        }
    }
    let is_call = answer.iter().any(|piece| matches!(piece, Piece::Call(..)));
    event(stream, &json!({}), Some(if is_call { "tool_calls" } else { "stop" }))?;
    let tokens =
        answer.iter().find_map(|piece| if let Piece::Tokens(tokens) = piece { Some(*tokens) } else { None });
    let tokens = tokens.unwrap_or(12);
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5 } });
    stream.write_all(format!("data: {usage}\n\ndata: [DONE]\n\n").as_bytes())
}

fn event(mut stream: &TcpStream, delta: &Value, finish: Option<&str>) -> io::Result<()> {
    let event = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "test",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
    });
    stream.write_all(format!("data: {event}\n\n").as_bytes())?;
    stream.flush()
}

fn read(stream: &TcpStream) -> io::Result<Received> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut length, mut authorization) = (0, None);
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().map_err(io::Error::other)?,
            "authorization" => authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let text = String::from_utf8(body).map_err(io::Error::other)?;
    let body = serde_json::from_str(&text).map_err(io::Error::other)?;
    Ok(Received { path, authorization, body, text })
}
