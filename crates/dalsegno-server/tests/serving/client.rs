//! A client that writes its requests byte by byte, so that it can send what no library would.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) key: Option<String>,
    pub(crate) id: String,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let line =
            self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    }

    /// Checks that it is a problem with this status and code.
    pub(crate) fn is_problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type").as_deref(), Some("application/problem+json"), "{self:?}");
        let json = self.json();
        assert_eq!(json["code"], code, "{self:?}");
        assert_eq!(
            (json["status"].as_u64(), json["type"].as_str()),
            (Some(u64::from(status)), Some(format!("/errors/{code}").as_str()))
        );
        assert!(
            ["title", "detail", "help"]
                .iter()
                .all(|key| json[key].as_str().is_some_and(|text| !text.is_empty()))
        );
        self
    }
}

impl Client {
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &[], body).await
    }

    pub(crate) async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let mut all = vec![("content-type", "application/json")];
        all.extend(headers);
        self.send("POST", path, &all, body.to_string().as_bytes()).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str("host: localhost\r\n");
        }
        if let Some(key) = &self.key {
            head.push_str(&format!("authorization: Bearer {key}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut bytes = format!("{head}\r\n").into_bytes();
        bytes.extend_from_slice(body);
        self.raw(&bytes).await
    }

    /// Writes a document of this media type.
    pub(crate) async fn put(&self, path: &str, kind: &str, condition: (&str, &str), text: &str) -> Answer {
        self.send(
            "PUT",
            path,
            &[("content-type", &format!("application/{kind}")), condition],
            text.as_bytes(),
        )
        .await
    }

    /// Deletes a document.
    pub(crate) async fn delete(&self, path: &str, condition: (&str, &str)) -> Answer {
        self.send("DELETE", path, &[condition], b"").await
    }

    /// Sends bytes as they are, and reads until the server closes.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server that refuses early closes before it has everything.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        parse(&answer)
    }

    /// Starts a run and waits until it ends or waits for an answer.
    pub(crate) async fn start(&self, agent: &str, text: &str) -> Value {
        let body = serde_json::json!({ "agent": agent, "text": text });
        let answer = self.post_with("/v1/runs", &[("prefer", "wait=30")], &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()
    }

    /// Opens a stream of a run.
    pub(crate) async fn stream(&self, run: &str, last: Option<u64>) -> Stream {
        let last = last.map(|last| last.to_string());
        self.follow(&format!("/v1/runs/{run}/events"), last.as_deref()).await
    }

    /// Opens a stream.
    pub(crate) async fn follow(&self, path: &str, last: Option<&str>) -> Stream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let last = last.map(|last| format!("last-event-id: {last}\r\n")).unwrap_or_default();
        let key = self.key.clone().unwrap_or_default();
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nauthorization: Bearer {key}\r\n{last}\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while reader.read_line(&mut head).await.unwrap() > 2 {}
        Stream { head, reader, is_over: false }
    }
}

/// The body of an answer to a request with a key, byte by byte.
pub(crate) async fn bytes(address: SocketAddr, path: &str, key: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    answer.split_off(end + 4)
}

fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    Answer { status, head: head.to_owned(), text: body.to_owned() }
}

/// An open stream.
pub(crate) struct Stream {
    pub(crate) head: String,
    reader: BufReader<TcpStream>,
    is_over: bool,
}

/// An event of a stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<u64>,
    /// The id as it was sent.
    pub(crate) place: String,
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Stream {
    /// The next event that has a name; none when the server has closed the stream.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let line = self.line().await?;
            if line.is_empty() && !event.name.is_empty() {
                return Some(event);
            }
            match line.split_once(": ") {
                Some(("id", id)) => {
                    event.id = id.parse().ok();
                    id.clone_into(&mut event.place);
                }
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("data", data)) => event.data.push_str(data),
                _ => {}
            }
        }
    }

    /// A line of the body, without the framing of chunks.
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            if self.is_over {
                return None;
            }
            line.clear();
            if self.reader.read_line(&mut line).await.unwrap_or(0) == 0 {
                self.is_over = true;
                return None;
            }
            let is_chunk = line.ends_with("\r\n");
            if !is_chunk {
                return Some(line.trim_end_matches('\n').to_owned());
            }
            // The size of a chunk, or the end of one; the last one has no bytes.
            if line.trim_end() == "0" {
                self.is_over = true;
                return None;
            }
        }
    }

    pub(crate) async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}
