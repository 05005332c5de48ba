//! A server that says what it is told to, and a resolver that does, too.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dalsegno_net::Resolver;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server that answers each request with the next of its answers, on a connection of its own.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Listens on this address; the last answer is given again and again.
    pub(crate) async fn start(address: &str, answers: Vec<String>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let requests = Arc::clone(&server.requests);
        tokio::spawn(async move {
            let mut answers = VecDeque::from(answers);
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !is_whole(&request) {
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        break;
                    }
                }
                requests.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
                let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
                let _ = stream.write_all(answer.unwrap_or_default().as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// What was asked so far, each request with its headers.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Whether a request is here with its body.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

/// An answer with a body.
pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// An answer that sends on to `location`.
pub(crate) fn redirect(status: u16, location: &str) -> String {
    format!(
        "HTTP/1.1 {status} Elsewhere\r\nconnection: close\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
    )
}

/// A resolver that gives one answer after the other, the last one again and again.
pub(crate) struct Scripted {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<usize>,
}

impl Scripted {
    pub(crate) fn new(answers: &[&[&str]]) -> Arc<Self> {
        let answers = answers.iter().map(|answer| answer.iter().map(|one| one.parse().unwrap()).collect());
        Arc::new(Self { answers: Mutex::new(answers.collect()), asked: Mutex::default() })
    }

    /// How often somebody asked.
    pub(crate) fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }
}

#[async_trait]
impl Resolver for Scripted {
    async fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        *self.asked.lock().unwrap() += 1;
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Ok(answer.unwrap_or_default())
    }
}
