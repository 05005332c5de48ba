//! What can be told of a run, and how a delivery of it is named.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;

/// A change of a run's status that an endpoint can want.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// The run waits for people, a time or another run.
    Suspended,
    /// The run waits for people while it is performed, as a call does while its caller is on the line.
    Waiting,
    /// The run has ended with an answer.
    Completed,
    /// The run has ended with an error.
    Failed,
    /// The run was cancelled.
    Cancelled,
    /// The run has ended, and another agent continues its session.
    HandedOff,
    /// The run was ended without being read, such as a damaged one.
    Abandoned,
}

impl Event {
    /// Every event.
    pub const ALL: &[Self] = &[
        Self::Suspended,
        Self::Waiting,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::HandedOff,
        Self::Abandoned,
    ];

    /// The event as it is written, such as `run.completed`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Suspended => "run.suspended",
            Self::Waiting => "run.waiting",
            Self::Completed => "run.completed",
            Self::Failed => "run.failed",
            Self::Cancelled => "run.cancelled",
            Self::HandedOff => "run.handed_off",
            Self::Abandoned => "run.abandoned",
        }
    }

    /// Says whether the run has ended with it, which happens once.
    pub const fn is_end(self) -> bool {
        !matches!(self, Self::Suspended | Self::Waiting)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not an event: expected one of {}", Event::ALL.iter().map(|event| format!("`{event}`")).collect::<Vec<_>>().join(", "))]
pub struct UnknownEvent {
    given: String,
}

impl FromStr for Event {
    type Err = UnknownEvent;

    fn from_str(text: &str) -> Result<Self, UnknownEvent> {
        let known = Self::ALL.iter().copied().find(|event| event.as_str() == text);
        known.ok_or_else(|| UnknownEvent { given: text.to_owned() })
    }
}

/// The id of a delivery. It follows from what is delivered to whom, so that it is the same after a crash and in every process.
///
/// A run ends once, so that its end needs no place. It waits many times: each time at another number of records.
pub(crate) fn delivery_id(endpoint: &str, run: &[u8; 16], event: Event, records: u64) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("dalsegno 2026-11 webhook delivery");
    hasher.update(run);
    hasher.update(&if event.is_end() { u64::MAX } else { records }.to_le_bytes());
    hasher.update(endpoint.as_bytes());
    format!("msg_{}", HEXLOWER.encode(&hasher.finalize().as_bytes()[..16]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_event_of_a_run_has_one_id_for_each_endpoint() {
        let (one, other) = ([1; 16], [2; 16]);
        let ids = [
            delivery_id("a", &one, Event::Suspended, 4),
            delivery_id("a", &one, Event::Suspended, 5),
            delivery_id("a", &one, Event::Completed, 5),
            delivery_id("a", &other, Event::Completed, 5),
            delivery_id("b", &one, Event::Completed, 5),
        ];
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
        assert_eq!(delivery_id("a", &one, Event::Suspended, 4), ids[0]);
        // What was found out late about an ended run gives its end no other id.
        assert_eq!(delivery_id("a", &one, Event::Completed, 9), ids[2]);
        assert!(ids.iter().all(|id| id.len() == 36 && id.starts_with("msg_")));
    }
}
