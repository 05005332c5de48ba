//! A provider that keeps the keys that it is shown.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::json;

/// A model behind HTTP that answers with all keys that it was asked with, which no provider should.
pub(crate) struct Provider {
    /// Its base URL.
    pub(crate) address: String,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    /// Listens on a free port.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let keys = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&keys);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                reply(stream.unwrap(), &log);
            }
        });
        Self { address, keys }
    }

    /// The keys, in the order of the requests.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }
}

fn reply(mut stream: TcpStream, keys: &Mutex<Vec<String>>) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let (head, length) = loop {
        let read = stream.read(&mut buffer).unwrap();
        if read == 0 {
            return;
        }
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some(end) = text.find("\r\n\r\n") else { continue };
        let head = text[..end].to_owned();
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        break (head, end + 4 + length.unwrap_or(0));
    };
    while bytes.len() < length {
        let read = stream.read(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..read]);
    }
    let bearer = |line: &str| line.split_once("Bearer ").map(|(_, key)| key.to_owned());
    let key = head.lines().find_map(bearer).unwrap_or_default();
    keys.lock().unwrap().push(key.clone());
    if key.starts_with("expired") {
        let body = json!({ "error": { "message": format!("`{key}` has expired") } }).to_string();
        let head = format!(
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        return;
    }
    let all = keys.lock().unwrap().join(" and ");
    let event = json!({
        "id": "r", "object": "chat.completion.chunk", "created": 0, "model": "m",
        "choices": [{ "index": 0, "delta": { "role": "assistant", "content": format!("you sent {all}") }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7 },
    });
    let body = format!("data: {event}\n\ndata: [DONE]\n\n");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
}
