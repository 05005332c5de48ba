//! Wishes to stop: Ctrl-C, and the signal with which other programs ask.

use std::io;
use std::time::{Duration, Instant};

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
    last: Option<Instant>,
}

/// What comes so soon after a wish is the same wish: `timeout` sends its signal to a command and to its group.
const SAME: Duration = Duration::from_millis(300);

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
            last: None,
        })
    }

    /// The next wish to stop.
    pub(crate) async fn next(&mut self) {
        loop {
            #[cfg(unix)]
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => self.terminated = true,
            }
            #[cfg(windows)]
            self.interrupt.recv().await;
            let now = Instant::now();
            if self.last.is_none_or(|last| now.duration_since(last) > SAME) {
                self.last = Some(now);
                return;
            }
        }
    }

    /// Says whether another program asked for the end: a person who types Ctrl-C may only mean what is under way.
    pub(crate) fn is_terminated(&self) -> bool {
        self.terminated
    }
}
