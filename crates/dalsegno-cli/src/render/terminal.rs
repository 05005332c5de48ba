//! What a stream is connected to.

use std::io::{self, IsTerminal};

use terminal_size::{Width, terminal_size_of};

use crate::args::ColourArg;

/// The width of text that does not go to a terminal, so that it is the same everywhere.
const PLAIN_WIDTH: usize = 80;

/// What a stream is connected to, and what may be written there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    /// Somebody watches: text may appear bit by bit.
    pub(crate) live: bool,
    /// Colour may be used.
    pub(crate) colour: bool,
    /// Progress may be shown that nobody asked for.
    pub(crate) progress: bool,
    /// Columns, of what is drawn.
    pub(crate) width: usize,
    /// Columns of a line of text, beyond which it is cut or continues on the next line. A file or another program gets every
    /// line whole.
    pub(crate) room: usize,
}

impl Terminal {
    /// The same, with colour as somebody asked for it.
    pub(crate) fn coloured(self, asked: ColourArg) -> Self {
        match asked {
            ColourArg::Auto => self,
            ColourArg::Always => Self { colour: true, ..self },
            ColourArg::Never => Self { colour: false, ..self },
        }
    }
}

/// What standard output is connected to.
pub(crate) fn stdout() -> Terminal {
    describe(&io::stdout())
}

/// What standard error is connected to.
pub(crate) fn stderr() -> Terminal {
    describe(&io::stderr())
}

/// Says whether standard output is a pipe whose reader went away, as far as the system tells without a write.
#[cfg(unix)]
pub(crate) fn is_stdout_unread() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok() && watched[0].revents().intersects(PollFlags::ERR)
}

/// Elsewhere a write tells.
#[cfg(not(unix))]
pub(crate) fn is_stdout_unread() -> bool {
    false
}

/// Says whether the environment asks for plain text even on a terminal.
pub(crate) fn is_plain() -> bool {
    is_set("NO_COLOR") || is_ci() || std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Says whether a machine runs the command, with nobody to ask.
pub(crate) fn is_ci() -> bool {
    is_set("CI")
}

#[cfg(unix)]
fn describe<S: IsTerminal + std::os::fd::AsFd>(stream: &S) -> Terminal {
    from(stream.is_terminal(), terminal_size_of(stream).map(|(width, _)| width))
}

#[cfg(windows)]
fn describe<S: IsTerminal + std::os::windows::io::AsHandle>(stream: &S) -> Terminal {
    from(stream.is_terminal(), terminal_size_of(stream).map(|(width, _)| width))
}

fn from(terminal: bool, width: Option<Width>) -> Terminal {
    let width = width.filter(|_| terminal).map_or(PLAIN_WIDTH, |Width(columns)| usize::from(columns));
    let plain = !terminal || is_plain();
    let width = width.clamp(40, 160);
    let room = if terminal { width } else { usize::MAX };
    Terminal { live: terminal && !is_ci(), colour: !plain, progress: !plain, width, room }
}

/// An empty variable counts as absent, as <https://no-color.org> asks.
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}
