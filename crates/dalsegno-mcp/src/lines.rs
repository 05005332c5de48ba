//! Carries JSON-RPC lines between the client and a child process.
//!
//! The SDK's own line transport skips what it cannot read and drops lines that are too long, which leaves the caller
//! waiting for an answer that never comes. Here both end the connection with the reason.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dalsegno_protocol::{CallErrorKind, Failure, UNANSWERED_MAX, parse_line};
use rmcp::RoleClient;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

use crate::wire::Wire;

/// The client's end of the pipes.
pub(crate) struct Lines<R, W> {
    wire: Arc<Wire>,
    input: BufReader<R>,
    line: Vec<u8>,
    output: Arc<Mutex<Option<W>>>,
    /// Requests of the server that are not answered yet.
    unanswered: Arc<AtomicUsize>,
    line_max: usize,
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    pub(crate) fn new(wire: Arc<Wire>, input: R, output: W, line_max: usize) -> Self {
        let output = Arc::new(Mutex::new(Some(output)));
        Self {
            wire,
            input: BufReader::new(input),
            line: Vec::new(),
            output,
            unanswered: Arc::default(),
            line_max,
        }
    }

    /// Reads one line into `self.line`, without its end. `Ok(false)` when there are no more.
    async fn read_line(&mut self) -> Result<bool, Failure> {
        loop {
            // Safe to cancel: nothing is taken from the reader but into `self`, and that without waiting.
            let chunk = match self.input.fill_buf().await {
                Ok(chunk) => chunk,
                Err(error) => {
                    return Err(Failure::new(
                        CallErrorKind::Closed,
                        format!("cannot read the output of the server: {error}"),
                    ));
                }
            };
            if chunk.is_empty() {
                return Ok(false);
            }
            let newline = chunk.iter().position(|byte| *byte == b'\n');
            let count = newline.unwrap_or(chunk.len());
            if self.line.len() + count > self.line_max {
                let message = format!("the server wrote a line of more than {} bytes", self.line_max);
                return Err(Failure::new(CallErrorKind::OutputTooLarge, message));
            }
            self.line.extend_from_slice(&chunk[..count]);
            let taken = count + usize::from(newline.is_some());
            self.input.consume(taken);
            if newline.is_some() {
                return Ok(true);
            }
        }
    }

    /// Understands one line. `Ok(None)` is a line that says nothing to us.
    fn parse(&self) -> Result<Option<RxJsonRpcMessage<RoleClient>>, Failure> {
        let Some(message) = parse_line(&self.line)? else { return Ok(None) };
        if matches!(message, JsonRpcMessage::Request(_))
            && self.unanswered.fetch_add(1, Ordering::Relaxed) >= UNANSWERED_MAX
        {
            let message = "the server sends requests but does not read the answers";
            return Err(Failure::new(CallErrorKind::Protocol, message));
        }
        Ok(Some(message))
    }
}

impl<R, W> Transport<RoleClient> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (wire, output, unanswered) =
            (Arc::clone(&self.wire), Arc::clone(&self.output), Arc::clone(&self.unanswered));
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut output = output.lock().await;
            let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "the server has ended");
            let output = output.as_mut().ok_or_else(closed)?;
            let id = match &item {
                JsonRpcMessage::Request(request) => Some(&request.id),
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {
                    unanswered.fetch_sub(1, Ordering::Relaxed);
                    None
                }
                JsonRpcMessage::Notification(_) => None,
            };
            if let Some(id) = id {
                wire.begin(id);
            }
            // Only the first write can fail without anything having been taken.
            let first = output.write(&line).await.inspect_err(|_| {
                if let Some(id) = id {
                    wire.take_back(id);
                }
            })?;
            output.write_all(&line[first..]).await?;
            output.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let parsed = match self.read_line().await {
                // The end of the process, which follows, says why.
                Ok(false) => return None,
                Ok(true) => self.parse(),
                Err(failure) => Err(failure),
            };
            self.line.clear();
            match parsed {
                Ok(Some(message)) => {
                    self.wire.hear();
                    return Some(message);
                }
                Ok(None) => {}
                Err(failure) => {
                    self.wire.fail(failure);
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // A child that reads its input to the end comes to its own end with that.
        self.output.lock().await.take();
        Ok(())
    }
}
