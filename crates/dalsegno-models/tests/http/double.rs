//! A local server that keeps what it is sent and answers with recorded bytes, cut wherever a test wants.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use dalsegno_models::Wire;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What a request was.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
    /// The body as it was sent.
    pub(crate) text: String,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum End {
    /// As it should.
    Clean,
    /// The connection is closed in the middle of the body.
    Cut,
    /// Nothing more comes, and the connection stays open.
    Silence,
    /// More of the last chunk comes for ever.
    Flood,
    /// The connection is closed before there is any answer.
    HangUp,
}

/// One answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    status: String,
    headers: Vec<(&'static str, String)>,
    chunks: Vec<Vec<u8>>,
    end: End,
}

impl Answer {
    /// A stream of events, cut into pieces of `size` bytes.
    pub(crate) fn events(text: &str, size: usize) -> Self {
        Self {
            status: "200 OK".to_owned(),
            headers: vec![("content-type", "text/event-stream; charset=utf-8".to_owned())],
            chunks: text.as_bytes().chunks(size).map(<[u8]>::to_vec).collect(),
            end: End::Clean,
        }
    }

    /// The same as a wire has it: over Bedrock, each event becomes a frame, and one that is cut in the text is cut there.
    pub(crate) fn of(wire: Wire, text: &str, size: usize) -> Self {
        if wire != Wire::Bedrock {
            return Self::events(text, size);
        }
        let bytes = crate::frames::of_text(text);
        Self { chunks: bytes.chunks(size).map(<[u8]>::to_vec).collect(), ..Self::frames(Vec::new()) }
    }

    /// A stream of AWS in one piece.
    pub(crate) fn frames(bytes: Vec<u8>) -> Self {
        Self::bytes(bytes).header("content-type", crate::frames::MEDIA_TYPE)
    }

    /// A stream in one piece, which need not be text.
    pub(crate) fn bytes(bytes: Vec<u8>) -> Self {
        Self { chunks: vec![bytes], ..Self::events("", 1) }
    }

    /// A failure with a body.
    pub(crate) fn failure(status: &str, body: &str) -> Self {
        Self {
            status: status.to_owned(),
            headers: vec![("content-type", "application/json".to_owned())],
            chunks: vec![body.as_bytes().to_vec()],
            end: End::Clean,
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn chunks(mut self, chunks: Vec<Vec<u8>>) -> Self {
        self.chunks = chunks;
        self
    }

    pub(crate) fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}

/// The server. It ends with the test.
pub(crate) struct Double {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    connections: Arc<Mutex<usize>>,
    task: JoinHandle<()>,
}

impl Drop for Double {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Double {
    /// Starts a server that gives these answers, one a request, in their order.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::checking(answers, |_| None).await
    }

    /// The same, but for requests that a check refuses: these get its answer.
    pub(crate) async fn checking(
        answers: impl IntoIterator<Item = Answer>,
        check: impl Fn(&Received) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        let check = Arc::new(check);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let answers: Vec<Answer> = answers.into_iter().collect();
        let answers = Arc::new(Mutex::new(answers.into_iter()));
        let task = tokio::spawn({
            let (received, connections) = (Arc::clone(&received), Arc::clone(&connections));
            async move {
                let mut open = tokio::task::JoinSet::new();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    *connections.lock().unwrap() += 1;
                    let (received, answers) = (Arc::clone(&received), Arc::clone(&answers));
                    let check = Arc::clone(&check);
                    open.spawn(async move {
                        let next =
                            |request: &Received| check(request).or_else(|| answers.lock().unwrap().next());
                        // The other side may hang up at any time, which is what some tests are about.
                        let _ = serve(stream, &received, next).await;
                    });
                }
            }
        });
        Self { address, received, connections, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What was received so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The only thing that was received.
    pub(crate) fn only(&self) -> Received {
        let mut received = self.received();
        assert_eq!(received.len(), 1, "{received:#?}");
        received.remove(0)
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

async fn serve(
    mut stream: TcpStream,
    received: &Mutex<Vec<Received>>,
    next: impl Fn(&Received) -> Option<Answer>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    while let Some(request) = read(&mut stream).await? {
        let answer = next(&request);
        received.lock().unwrap().push(request);
        let answer = answer.expect("more requests than answers");
        if answer.end == End::HangUp {
            return stream.shutdown().await;
        }
        let mut head = format!("HTTP/1.1 {}\r\ntransfer-encoding: chunked\r\n", answer.status);
        for (name, value) in &answer.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await?;
        for chunk in &answer.chunks {
            write(&mut stream, chunk).await?;
        }
        match answer.end {
            End::Clean => stream.write_all(b"0\r\n\r\n").await?,
            End::Cut | End::HangUp => return stream.shutdown().await,
            End::Silence => std::future::pending().await,
            End::Flood => loop {
                write(&mut stream, answer.chunks.last().unwrap()).await?;
            },
        }
    }
    Ok(())
}

async fn write(stream: &mut TcpStream, chunk: &[u8]) -> std::io::Result<()> {
    if chunk.is_empty() {
        // An empty chunk would end the body.
        return Ok(());
    }
    stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await?;
    stream.write_all(chunk).await?;
    stream.write_all(b"\r\n").await
}

async fn read(stream: &mut TcpStream) -> std::io::Result<Option<Received>> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap().to_owned();
    let headers: BTreeMap<String, String> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < head + 4 + length {
        assert_ne!(stream.read_buf(&mut bytes).await?, 0, "the body is shorter than it says");
    }
    assert_eq!(bytes.len(), head + 4 + length, "the body is longer than it says");
    let text = String::from_utf8(bytes[head + 4..].to_vec()).unwrap();
    // A file that is uploaded is no document, and some requests have no body.
    let is_json = headers.get("content-type").is_some_and(|media_type| media_type == "application/json");
    let body = if is_json && !text.is_empty() { serde_json::from_str(&text).unwrap() } else { Value::Null };
    Ok(Some(Received { line, headers, body, text }))
}
