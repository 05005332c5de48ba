//! The three standard streams of a guest: two bounded pipes and a ring.
//!
//! They are polled directly by the guest's task. An instance that waits for input is a parked future: no thread, no
//! timer, no work.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wasmtime_wasi::cli::{IsTerminal, StdinStream, StdoutStream};
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

/// Bytes on their way between host and guest, in one direction.
#[derive(Default)]
pub(crate) struct Pipe {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: BytesMut,
    closed: bool,
    /// How many bytes were ever put in, and taken out.
    written: u64,
    read: u64,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    /// Adds bytes, all or none. Returns their position in the stream.
    pub(crate) fn push(&self, bytes: &[u8]) -> Result<u64, Closed> {
        let mut state = self.lock();
        if state.closed {
            return Err(Closed);
        }
        let position = state.written;
        state.bytes.extend_from_slice(bytes);
        state.written += bytes.len() as u64;
        wake(&mut state.reader);
        Ok(position)
    }

    /// Takes up to `max` bytes; none when the pipe is empty.
    pub(crate) fn take(&self, max: usize) -> Bytes {
        let mut state = self.lock();
        let count = state.bytes.len().min(max);
        let taken = state.bytes.split_to(count).freeze();
        state.read += count as u64;
        wake(&mut state.writer);
        taken
    }

    /// Waits until there are bytes. `false`: there will be none any more.
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.lock();
        if state.bytes.is_empty() && !state.closed {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(!state.bytes.is_empty())
    }

    /// Lets no more bytes in; those that are there can still be taken.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        wake(&mut state.reader);
        wake(&mut state.writer);
    }

    /// Closes the pipe and drops what is in it, so that nothing is read from now on.
    pub(crate) fn shut(&self) {
        self.lock().bytes.clear();
        self.close();
    }

    /// How many bytes were ever taken out.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.lock().read
    }

    /// How many bytes wait to be taken out.
    pub(crate) fn backlog(&self) -> usize {
        self.lock().bytes.len()
    }

    fn is_at_end(&self) -> bool {
        let state = self.lock();
        state.closed && state.bytes.is_empty()
    }

    /// How many bytes a guest may write now.
    fn room(&self) -> Result<usize, Closed> {
        let state = self.lock();
        if state.closed { Err(Closed) } else { Ok(CAPACITY.saturating_sub(state.bytes.len())) }
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.bytes.len() >= CAPACITY && !state.closed {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pipe takes no more bytes.
#[derive(Debug)]
pub(crate) struct Closed;

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// The guest's end of its standard input.
#[derive(Clone)]
pub(crate) struct GuestInput(pub(crate) Arc<Pipe>);

impl IsTerminal for GuestInput {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdinStream for GuestInput {
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for GuestInput {
    async fn ready(&mut self) {
        std::future::poll_fn(|context| self.0.poll_readable(context)).await;
    }
}

#[async_trait]
impl InputStream for GuestInput {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if self.0.is_at_end() {
            return Err(StreamError::Closed);
        }
        Ok(self.0.take(size))
    }
}

impl AsyncRead for GuestInput {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if ready!(self.0.poll_readable(context)) {
            out.put_slice(&self.0.take(out.remaining()));
        }
        Poll::Ready(Ok(()))
    }
}

/// The guest's end of its standard output. It waits while the host has not taken what it wrote before.
#[derive(Clone)]
pub(crate) struct GuestOutput(pub(crate) Arc<Pipe>);

impl IsTerminal for GuestOutput {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestOutput {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for GuestOutput {
    async fn ready(&mut self) {
        std::future::poll_fn(|context| self.0.poll_writable(context)).await;
    }
}

#[async_trait]
impl OutputStream for GuestOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > self.check_write()? {
            return Err(StreamError::trap("more was written than the stream had allowed"));
        }
        self.0.push(&bytes).map(drop).map_err(|Closed| StreamError::Closed)
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.0.room().map_err(|Closed| StreamError::Closed)
    }
}

impl AsyncWrite for GuestOutput {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.0.poll_writable(context));
        let closed = |Closed| io::Error::from(io::ErrorKind::BrokenPipe);
        let count = self.0.room().map_err(closed)?.min(bytes.len());
        self.0.push(&bytes[..count]).map_err(closed)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What a guest wrote last to its standard error.
#[derive(Clone)]
pub(crate) struct StderrRing {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    limit: usize,
}

impl StderrRing {
    pub(crate) fn new(limit: u64) -> Self {
        Self { bytes: Arc::default(), limit: usize::try_from(limit).unwrap_or(usize::MAX) }
    }

    /// The last 4 KiB as text. Control characters are replaced: a terminal would obey them.
    pub(crate) fn tail(&self) -> String {
        let ring = self.lock();
        let tail: Vec<u8> = ring.iter().skip(ring.len().saturating_sub(TAIL_BYTES)).copied().collect();
        dalsegno_protocol::printable(String::from_utf8_lossy(&tail).trim_end())
    }

    fn push(&self, bytes: &[u8]) {
        let mut ring = self.lock();
        let kept = &bytes[bytes.len().saturating_sub(self.limit)..];
        let excess = (ring.len() + kept.len()).saturating_sub(self.limit);
        ring.drain(..excess);
        ring.extend(kept);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IsTerminal for StderrRing {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for StderrRing {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for StderrRing {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for StderrRing {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.push(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CAPACITY)
    }
}

impl AsyncWrite for StderrRing {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.push(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// How much a guest may write ahead of the host. A longer line takes several rounds, which is fine.
const CAPACITY: usize = 64 * 1024;

/// How much of its standard error is shown with an error.
const TAIL_BYTES: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use super::{Pipe, StderrRing};

    #[test]
    fn the_ring_keeps_what_came_last() {
        let ring = StderrRing::new(8);
        ring.push(b"0123456789");
        ring.push(b"abc");
        assert_eq!(ring.tail(), "56789abc");
    }

    #[test]
    fn escape_sequences_do_not_reach_a_terminal() {
        let ring = StderrRing::new(64);
        ring.push(b"\x1b[2Jhello\nworld");
        assert_eq!(ring.tail(), "\u{fffd}[2Jhello\nworld");
    }

    #[test]
    fn a_shut_pipe_gives_nothing_away() {
        let pipe = Pipe::default();
        pipe.push(b"request").unwrap();
        pipe.shut();
        assert!(pipe.take(100).is_empty());
        assert_eq!(pipe.bytes_read(), 0);
        assert!(pipe.push(b"more").is_err());
    }
}
