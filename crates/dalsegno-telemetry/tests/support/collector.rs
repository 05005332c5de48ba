//! A collector: an HTTP server that decodes what it is sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How the collector answers a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Takes,
    /// Takes all but this many spans.
    Rejects(i64),
    Status(u16),
    /// Reads the request and never answers.
    Hangs,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    pub(crate) taken: bool,
}

impl Received {
    pub(crate) fn decoded(&self) -> ExportTraceServiceRequest {
        ExportTraceServiceRequest::decode(self.body.as_slice()).unwrap()
    }
}

pub(crate) struct Collector {
    pub(crate) endpoint: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Collector {
    /// Starts a collector that gives these answers in turn, and the last one for ever.
    pub(crate) async fn start(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let (log, answers) = (received.clone(), answers.to_vec());
        let turn = Arc::new(Mutex::new(0));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, log.clone(), answers.clone(), turn.clone()));
            }
        });
        Self { endpoint, received }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// All spans of the requests that were taken.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let taken = self.received().into_iter().filter(|received| received.taken);
        let resources = taken.flat_map(|received| received.decoded().resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    log: Arc<Mutex<Vec<Received>>>,
    answers: Vec<Answer>,
    turn: Arc<Mutex<usize>>,
) {
    let mut bytes = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
        };
        let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
        let mut lines = text.lines();
        let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let length: usize = headers["content-length"].parse().unwrap();
        while bytes.len() < head + 4 + length {
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let body = bytes[head + 4..head + 4 + length].to_vec();
        bytes.drain(..head + 4 + length);
        let answer = {
            let mut turn = turn.lock().unwrap();
            let answer = answers[(*turn).min(answers.len() - 1)];
            *turn += 1;
            answer
        };
        let taken = matches!(answer, Answer::Takes | Answer::Rejects(_));
        log.lock().unwrap().push(Received { path, headers, body, taken });
        let (status, body) = match answer {
            Answer::Takes => (200, Vec::new()),
            Answer::Rejects(rejected_spans) => {
                let partial = ExportTracePartialSuccess { rejected_spans, error_message: String::new() };
                (200, ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec())
            }
            Answer::Status(status) => (status, b"no".to_vec()),
            Answer::Hangs => std::future::pending().await,
        };
        let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
    }
}
