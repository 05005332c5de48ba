//! What runs wait for, as far as a listing can be asked for it.

use std::collections::BTreeMap;
use std::fmt;

use dalsegno_core::{Gate, Timestamp};
use serde::{Deserialize, Serialize};

use crate::record::{Body, Record, WaitingFor};

/// A kind of thing that a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[repr(u8)]
pub enum Waiting {
    /// A person must agree.
    Approval = 1,
    /// A person must answer a question.
    Input = 2,
    /// A person must say whether an effect happened.
    InDoubt = 4,
    /// A secret is missing.
    Secret = 8,
    /// A time must come.
    Timer = 16,
    /// Something that has no kind of its own here.
    Other = 32,
    /// A person paused it, and a person must continue it.
    Paused = 64,
}

impl Waiting {
    /// Every kind, in the order of the numbers, which are part of the stored form.
    pub const ALL: &[Self] =
        &[Self::Approval, Self::Input, Self::InDoubt, Self::Secret, Self::Timer, Self::Other, Self::Paused];

    /// What an operation waits for at a gate.
    pub const fn at(gate: &Gate) -> Self {
        match gate {
            Gate::Approval => Self::Approval,
            Gate::Input | Gate::Elicitation { .. } => Self::Input,
            Gate::InDoubt { .. } => Self::InDoubt,
            Gate::Secret { .. } => Self::Secret,
        }
    }

    /// The kind as text, such as `in_doubt`: what [`WaitingFor::kind`] says.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Input => "input",
            Self::InDoubt => "in_doubt",
            Self::Secret => "secret",
            Self::Timer => "timer",
            Self::Other => "other",
            Self::Paused => "paused",
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// All kinds that a run waits for: the sum of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitingSet(u8);

impl WaitingSet {
    pub(crate) const EMPTY: Self = Self(0);
    /// Only a person who says whether an effect happened.
    pub(crate) const IN_DOUBT: Self = Self(Waiting::InDoubt as u8);

    /// The set of these kinds.
    pub(crate) fn of_kinds(kinds: impl IntoIterator<Item = Waiting>) -> Self {
        Self(kinds.into_iter().fold(0, |sum, kind| sum | kind as u8))
    }

    /// What the operations of a run wait for at gates that nothing in its records has answered.
    pub(crate) fn at_gates<'r>(records: impl IntoIterator<Item = &'r Record>) -> Self {
        let mut open = BTreeMap::new();
        for record in records {
            match (&record.body, record.operation) {
                (Body::Waiting { gate }, Some(operation)) => {
                    open.insert(operation, Waiting::at(gate));
                }
                (Body::Answered { .. } | Body::Attempted { .. } | Body::Resolved { .. }, Some(operation)) => {
                    open.remove(&operation);
                }
                _ => {}
            }
        }
        Self::of_kinds(open.into_values())
    }

    /// The kinds in a `suspended` record.
    pub(crate) fn of(waiting_for: &[WaitingFor], wake_at: Option<Timestamp>) -> Self {
        let kinds = waiting_for.iter().map(|waiting| {
            let known = Waiting::ALL.iter().find(|kind| kind.as_str() == waiting.kind);
            known.copied().unwrap_or(Waiting::Other)
        });
        Self::of_kinds(kinds.chain(wake_at.map(|_| Waiting::Timer)))
    }

    /// The set with one more kind.
    pub(crate) const fn with(self, kind: Waiting) -> Self {
        Self(self.0 | kind as u8)
    }

    /// The set with this number; none if there is no such set.
    pub(crate) fn from_number(number: i64) -> Option<Self> {
        u8::try_from(number).ok().filter(|bits| *bits < 128).map(Self)
    }

    /// Says whether another set has all kinds of this one.
    pub(crate) const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    pub(crate) const fn has(self, kind: Waiting) -> bool {
        self.0 & kind as u8 != 0
    }

    pub(crate) fn kinds(self) -> Vec<Waiting> {
        Waiting::ALL.iter().copied().filter(|kind| self.has(*kind)).collect()
    }
}
