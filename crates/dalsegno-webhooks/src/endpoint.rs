//! An endpoint: who receives what, and how it is going.

use std::collections::BTreeSet;

use dalsegno_net::Url;

use crate::event::Event;

/// What is to be made.
#[derive(Debug, Clone)]
pub struct NewEndpoint {
    /// A name for people.
    pub name: Option<String>,
    /// Where deliveries go, as [`Destinations::check`](crate::Destinations::check) has read it.
    pub url: Url,
    /// The tenant whose runs it is about; those of all tenants where there is none.
    pub tenant: Option<String>,
    /// What it wants.
    pub events: BTreeSet<Event>,
    /// Only runs of this agent.
    pub agent: Option<String>,
    /// Only runs that no other run started.
    pub root: bool,
    /// Whether what a run says is sent along.
    pub content: bool,
    /// The number of the latest change of the journal, which is before everything that it is sent.
    pub position: u64,
}

/// An endpoint as it is kept. Times are in milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its id: 16 hexadecimal digits.
    pub id: String,
    /// A name for people.
    pub name: Option<String>,
    /// Where deliveries go.
    pub url: String,
    /// The tenant whose runs it is about; none for all tenants.
    pub tenant: Option<String>,
    /// What it wants.
    pub events: BTreeSet<Event>,
    /// Only runs of this agent.
    pub agent: Option<String>,
    /// Only runs that no other run started.
    pub root: bool,
    /// Whether what a run says is sent along.
    pub content: bool,
    /// When it was made.
    pub created_at: u64,
    /// When its secret was exchanged.
    pub rotated_at: Option<u64>,
    /// Since when nothing is delivered to it, and why.
    pub off: Option<Off>,
    /// Since when every attempt has failed.
    pub failing_since: Option<u64>,
    /// When the latest attempt failed, and why.
    pub failed: Option<(u64, String)>,
    /// When a delivery was last accepted.
    pub delivered_at: Option<u64>,
    /// How many deliveries were accepted.
    pub delivered: u64,
    /// How many deliveries were given up, since only they failed for a day.
    pub given_up: u64,
    /// How many deliveries wait.
    pub waiting: u64,
    /// When deliveries resume after a failure.
    pub(crate) resume_at: Option<u64>,
    pub(crate) position: u64,
    pub(crate) generation: u32,
}

impl Endpoint {
    /// The tenant as it is written: its name, or `*`.
    pub fn tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or("*")
    }

    /// Says whether it wants an event of a run.
    pub(crate) fn wants(&self, seen: &Seen<'_>, event: Event) -> bool {
        self.events.contains(&event)
            && self.tenant.as_deref().is_none_or(|tenant| tenant == seen.tenant)
            && self.agent.as_deref().is_none_or(|agent| agent == seen.agent)
            && (!self.root || seen.is_root)
    }
}

/// Why nothing is delivered to an endpoint, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Off {
    /// Since when.
    pub at: u64,
    /// Why.
    pub reason: OffReason,
}

/// Why nothing is delivered to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffReason {
    /// Every attempt of a day has failed.
    Failing,
    /// The receiver answered with 410: it wants nothing further.
    Gone,
}

impl OffReason {
    /// The reason as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failing => "failing",
            Self::Gone => "gone",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Failing, Self::Gone].into_iter().find(|reason| reason.as_str() == name)
    }
}

/// A change of a run as the journal tells it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'r> {
    /// The number of the change.
    pub change: u64,
    /// The run.
    pub run: &'r [u8; 16],
    /// What the change is; none for one that is no event, such as that the run is performed again.
    pub event: Option<Event>,
    /// The number of the run's records.
    pub records: u64,
    /// The run's agent.
    pub agent: &'r str,
    /// The run's tenant.
    pub tenant: &'r str,
    /// No other run started it.
    pub is_root: bool,
}
