//! The rows that can be measured.

use anyhow::Context as _;

use crate::arguments::Arguments;
use crate::line::Line;
use crate::{again, idle, kill, page, peers, read, slow, start, stream};

/// A row of the table: a server, and what is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    /// A run is read.
    Read,
    /// Runs are started.
    Start,
    /// A run is followed while it is performed.
    Stream,
    /// Many streams are open, and nothing happens.
    Idle,
    /// Clients read a byte a second.
    Slow,
    /// The server is killed while a client follows a run.
    Kill,
    /// A client comes back to a long run.
    Again,
    /// A long run is looked at in a browser.
    Page,
    /// Servers of others are asked for the same.
    Peers,
}

impl Row {
    /// All rows, in the order of the table.
    pub(crate) const ALL: [Self; 9] = [
        Self::Read,
        Self::Start,
        Self::Stream,
        Self::Idle,
        Self::Slow,
        Self::Kill,
        Self::Again,
        Self::Page,
        Self::Peers,
    ];

    /// The name of the row, as arguments have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Start => "start",
            Self::Stream => "stream",
            Self::Idle => "idle",
            Self::Slow => "slow",
            Self::Kill => "kill",
            Self::Again => "again",
            Self::Page => "page",
            Self::Peers => "peers",
        }
    }

    /// The row with this name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn parse(name: &str) -> anyhow::Result<Self> {
        Self::ALL.into_iter().find(|row| row.name() == name).with_context(|| {
            format!("`{name}` is no row: expected one of {}", Self::ALL.map(Self::name).join(", "))
        })
    }

    /// Measures it.
    ///
    /// # Errors
    /// It could not be measured.
    pub(crate) async fn measure(self, arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
        match self {
            Self::Read => read::measure(arguments).await,
            Self::Start => start::measure(arguments).await,
            Self::Stream => stream::measure(arguments).await,
            Self::Idle => idle::measure(arguments).await,
            Self::Slow => slow::measure(arguments).await,
            Self::Kill => kill::measure(arguments).await,
            Self::Again => again::measure(arguments).await,
            Self::Page => page::measure(arguments).await,
            Self::Peers => peers::measure(arguments).await,
        }
    }
}
