//! Standard input and output for a guest with one thread: what a tool server needs beside its tools.
//!
//! ```no_run
//! # struct MyServer;
//! # impl rmcp::ServerHandler for MyServer {}
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     stdio::serve(MyServer)
//! }
//! ```
//!
//! # The pitfall
//!
//! A WASI guest cannot wait for input and run its tasks at the same time. Reading from standard input inside
//! `poll_read` blocks every other task, the one that wants to write an answer included; a reader that returns
//! "pending" and wakes itself, as rmcp's own WASI example does, polls without pause and burns a core while idle.
//!
//! So the guest does one after the other: it lets its tasks run until none can go on, which is the moment at which
//! tokio would park the thread, and only then blocks on standard input, in the hook that tokio calls at that moment.
//! What was read wakes the task that waits for it. While the read blocks, the host has the guest suspended.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use rmcp::{RoleServer, Service, ServiceExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

/// Serves until standard input ends.
///
/// # Errors
/// When the runtime cannot be built, or the handshake fails.
pub fn serve(server: impl Service<RoleServer>) -> Result<(), Box<dyn std::error::Error>> {
    let (runtime, input) = runtime()?;
    runtime.block_on(async {
        server.serve((input, Stdout)).await?.waiting().await?;
        Ok(())
    })
}

/// Builds the runtime and the input that it feeds whenever it has nothing else to do.
fn runtime() -> io::Result<(Runtime, Stdin)> {
    let input = Stdin::default();
    let feed = input.clone();
    // rmcp sets timers (draining its answers at the end of input), so the time driver must be there.
    let runtime =
        Builder::new_current_thread().enable_time().on_thread_park(move || feed.refill()).build()?;
    Ok((runtime, input))
}

/// What was read from standard input and waits for its task.
#[derive(Clone, Default)]
struct Stdin(Arc<Mutex<Buffer>>);

#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// How much of `bytes` was handed out.
    taken: usize,
    ended: bool,
    reader: Option<Waker>,
}

impl Stdin {
    /// Blocks until there is input, if a task waits for some.
    fn refill(&self) {
        let mut buffer = self.lock();
        // Nobody waits for input: the thread parks for a timer.
        let Some(reader) = buffer.reader.take() else { return };
        buffer.bytes.resize(READ_BYTES, 0);
        buffer.taken = 0;
        let read = loop {
            match io::stdin().lock().read(&mut buffer.bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A broken input cannot be told apart from a closed one, and means the same: nobody is there.
                Err(_) => break 0,
                Ok(read) => break read,
            }
        };
        buffer.bytes.truncate(read);
        buffer.ended = read == 0;
        drop(buffer);
        reader.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Stdin {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut buffer = self.lock();
        let waiting = &buffer.bytes[buffer.taken..];
        if waiting.is_empty() && !buffer.ended {
            buffer.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = waiting.len().min(out.remaining());
        out.put_slice(&waiting[..count]);
        buffer.taken += count;
        Poll::Ready(Ok(()))
    }
}

/// Standard output. A write blocks, which is right: the host takes each line as it comes.
struct Stdout;

impl AsyncWrite for Stdout {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(io::stdout().write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(io::stdout().flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

/// Most requests fit into one read.
const READ_BYTES: usize = 16 * 1024;
