//! A sign of life while a model or a tool is silent: on a terminal only.

use std::time::{Duration, Instant};

use super::output::Output;
use super::text::{brief, duration};
use crate::args::Format;
use crate::commands::Context;

/// The time of silence before it appears.
const PATIENCE: Duration = Duration::from_millis(700);

/// The time between two pictures.
const TURN: Duration = Duration::from_millis(120);

const PICTURES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// A line on standard error that says what is under way and for how long, and goes before anything else is written.
pub(crate) struct Spinner {
    /// A person sees standard error, and it shows progress.
    is_seen: bool,
    since: Instant,
    is_drawn: bool,
    picture: usize,
}

impl Spinner {
    /// One that is not drawn yet.
    pub(crate) fn new(context: &Context<'_>) -> Self {
        let is_seen = context.output.stderr.terminal.progress
            && context.output.stderr.terminal.live
            && context.format == Format::Text
            // The log would be written over it.
            && std::env::var_os("DALSEGNO_LOG").is_none();
        Self { is_seen, since: Instant::now(), is_drawn: false, picture: 0 }
    }

    /// Waits for the next picture; for ever where nobody sees it.
    pub(crate) async fn turn(&self) {
        if !self.is_seen {
            std::future::pending::<()>().await;
        }
        let pause =
            if self.is_drawn { TURN } else { PATIENCE.saturating_sub(self.since.elapsed()).max(TURN) };
        tokio::time::sleep(pause).await;
    }

    /// Draws the next picture beside what is under way.
    pub(crate) fn draw(&mut self, what: Option<String>, output: &mut Output) {
        // A reply that is being written says enough by itself.
        let Some(what) =
            what.filter(|_| self.is_seen && self.since.elapsed() >= PATIENCE && !output.stdout.mid_line)
        else {
            return;
        };
        let told = format!("{what} · {}", duration(Duration::from_secs(self.since.elapsed().as_secs())));
        let room = output.stderr.terminal.room.saturating_sub(3);
        output.stderr.steer(CLEAR);
        output.stderr.write(&format!("{} {}", PICTURES[self.picture], brief(&told, room)));
        output.stderr.flush();
        output.stderr.mid_line = false;
        self.picture = (self.picture + 1) % PICTURES.len();
        self.is_drawn = true;
    }

    /// Takes it away, and waits for silence again.
    pub(crate) fn clear(&mut self, output: &mut Output) {
        self.since = Instant::now();
        if std::mem::take(&mut self.is_drawn) {
            output.stderr.steer(CLEAR);
            output.stderr.flush();
            output.stderr.mid_line = false;
        }
    }
}

/// To the beginning of the line, and nothing behind it.
const CLEAR: &str = "\r\u{1b}[K";
