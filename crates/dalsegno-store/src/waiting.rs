//! What suspended runs wait for, as far as a listing can be asked for it.

use std::fmt;

use dalsegno_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::record::WaitingFor;

/// A kind of thing that a suspended run waits for.
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
}

impl Waiting {
    /// Every kind, in the order of the numbers, which are part of the stored form.
    pub const ALL: &[Self] =
        &[Self::Approval, Self::Input, Self::InDoubt, Self::Secret, Self::Timer, Self::Other];

    /// The kind as text, such as `in_doubt`: what [`WaitingFor::kind`] says.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Input => "input",
            Self::InDoubt => "in_doubt",
            Self::Secret => "secret",
            Self::Timer => "timer",
            Self::Other => "other",
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

    /// The kinds in a `suspended` record.
    pub(crate) fn of(waiting_for: &[WaitingFor], wake_at: Option<Timestamp>) -> Self {
        let kinds = waiting_for.iter().map(|waiting| {
            let known = Waiting::ALL.iter().find(|kind| kind.as_str() == waiting.kind);
            known.copied().unwrap_or(Waiting::Other)
        });
        Self(kinds.chain(wake_at.map(|_| Waiting::Timer)).fold(0, |sum, kind| sum | kind as u8))
    }

    /// The set with this number; none if there is no such set.
    pub(crate) fn from_number(number: i64) -> Option<Self> {
        u8::try_from(number).ok().filter(|bits| *bits < 64).map(Self)
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
