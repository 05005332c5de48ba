//! Wishes to stop: Ctrl-C, and the signal with which other programs ask.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for wishes to stop. None is lost between two calls of [`Self::next`].
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
    terminated: bool,
}

impl Signals {
    /// Listens from here on; before, a wish ends the process at once.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
            #[cfg(windows)]
            interrupt: tokio::signal::windows::ctrl_c()?,
            terminated: false,
        })
    }

    /// The next wish to stop.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => self.terminated = true,
        }
        #[cfg(windows)]
        self.interrupt.recv().await;
    }

    /// Says whether another program asked for the end: a person who types Ctrl-C may only mean what is under way.
    pub(crate) fn is_terminated(&self) -> bool {
        self.terminated
    }
}
