//! Carries JSON-RPC lines between rmcp's client and the pipes of a guest.
//!
//! rmcp's own line transport skips what it cannot read and drops lines that are too long, which leaves the caller
//! waiting for an answer that never comes. Here both end the instance with the reason. It also notes where in the
//! stream each call begins, since only that tells whether the guest can have seen it.

use std::borrow::Cow;
use std::future::{Ready, poll_fn, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf, Bytes};
use dalsegno_protocol::{CallErrorKind, Failure, UNANSWERED_MAX, parse_line};
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use crate::instance::Link;

/// The client's end of both pipes.
pub(crate) struct PipeTransport {
    link: Arc<Link>,
    chunk: Bytes,
    line: Vec<u8>,
    /// Requests of the guest that the host has not answered yet.
    unanswered: Arc<AtomicUsize>,
}

impl PipeTransport {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self { link, chunk: Bytes::new(), line: Vec::new(), unanswered: Arc::default() }
    }

    /// Reads one line into `self.line`, without its end. `None` when there are no more, or one is too long.
    async fn read_line(&mut self) -> Option<()> {
        loop {
            if self.chunk.is_empty() {
                if !poll_fn(|context| self.link.output.poll_readable(context)).await {
                    self.link.output_ended();
                    return None;
                }
                self.chunk = self.link.output.take(usize::MAX);
            }
            let newline = self.chunk.iter().position(|byte| *byte == b'\n');
            let count = newline.unwrap_or(self.chunk.len());
            if (self.line.len() + count) as u64 > self.link.output_limit {
                let message = format!("the guest wrote a line of more than {} bytes", self.link.output_limit);
                self.link.kill(Failure::new(CallErrorKind::OutputTooLarge, message));
                return None;
            }
            self.line.extend_from_slice(&self.chunk[..count]);
            self.chunk.advance(count + usize::from(newline.is_some()));
            if newline.is_some() {
                return Some(());
            }
        }
    }

    /// Understands one line. `Ok(None)` is a line that says nothing to us.
    fn parse(&self) -> Result<Option<RxJsonRpcMessage<RoleClient>>, Failure> {
        let Some(message) = parse_line(&self.line)? else { return Ok(None) };
        if matches!(message, JsonRpcMessage::Request(_)) {
            let waiting = self.unanswered.fetch_add(1, Ordering::Relaxed) + 1;
            if waiting > UNANSWERED_MAX || self.link.input.backlog() > BACKLOG_BYTES_MAX {
                let message = "the guest sends requests but does not read the answers";
                return Err(Failure::new(CallErrorKind::Protocol, message));
            }
        }
        Ok(Some(message))
    }
}

impl Transport<RoleClient> for PipeTransport {
    type Error = std::io::Error;

    fn name() -> Cow<'static, str> {
        "sandbox pipe".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        ready(self.push(&item))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            // Safe to cancel: nothing is taken from the pipe but into `self`, and that without waiting.
            self.read_line().await?;
            let parsed = self.parse();
            self.line.clear();
            match parsed {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(failure) => {
                    self.link.kill(failure);
                    return None;
                }
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.link.input.close();
        let closed: Ready<Result<(), std::io::Error>> = ready(Ok(()));
        closed
    }
}

impl PipeTransport {
    /// Puts a message into the guest's input, whole. Its size is bounded by who sends it: calls by the caller,
    /// answers by
    /// `BACKLOG_BYTES_MAX`.
    fn push(&self, message: &TxJsonRpcMessage<RoleClient>) -> Result<(), std::io::Error> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let position = self
            .link
            .input
            .push(&line)
            .map_err(|_| std::io::Error::new(std::io::ErrorKind::BrokenPipe, "the guest has ended"))?;
        match message {
            JsonRpcMessage::Request(request) => {
                // Nobody asks what became of a handshake.
                if !matches!(
                    request.request,
                    ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_)
                ) {
                    self.link.note_call(request.id.clone(), position);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {
                self.unanswered.fetch_sub(1, Ordering::Relaxed);
            }
            JsonRpcMessage::Notification(_) => {}
        }
        Ok(())
    }
}

/// How much of the host's answers and calls may wait for a guest that sends requests meanwhile.
const BACKLOG_BYTES_MAX: usize = 1024 * 1024;
