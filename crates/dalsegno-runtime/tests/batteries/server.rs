//! An HTTP server that answers what a function says.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) text: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// The fields of a form.
    pub(crate) fn form(&self) -> BTreeMap<String, String> {
        url::form_urlencoded::parse(self.text.as_bytes()).into_owned().collect()
    }
}

/// The answer: a status with a body.
pub(crate) type Said = (u16, Value);

/// The status of no answer: the connection is closed.
pub(crate) const HANG_UP: u16 = 0;

/// A server that lives as long as the test.
pub(crate) struct Server {
    pub(crate) origin: String,
    got: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let got: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (log, answer) = (Arc::clone(&got), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream.unwrap(), &log, &*answer));
            }
        });
        Self { origin, got }
    }

    /// The requests whose line begins with this.
    pub(crate) fn got(&self, line: &str) -> Vec<Asked> {
        let got = self.got.lock().unwrap();
        got.iter()
            .filter(|asked| format!("{} {}", asked.method, asked.path).starts_with(line))
            .cloned()
            .collect()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Said) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap().to_owned();
    let url: url::Url = format!("http://server{}", words.next().unwrap()).parse().unwrap();
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let query = url.query_pairs().into_owned().collect();
    let (path, text) = (url.path().to_owned(), String::from_utf8(body).unwrap());
    let asked = Asked { method, path, query, headers, text };
    let (status, body) = answer(&asked);
    log.lock().unwrap().push(asked);
    if status == HANG_UP {
        return;
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let _ = write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
}
