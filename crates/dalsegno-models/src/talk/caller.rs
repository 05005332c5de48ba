//! The caller of a script alone, for a call whose live model is real.

use super::script::{LiveScript, LiveTurn};

/// One thing that the caller of a script does. Times are milliseconds after the turn before; where there is none, the caller waits
/// until the live model has spoken of all that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerTurn {
    /// Says something.
    Says {
        /// The words.
        text: String,
        /// When.
        after: Option<u64>,
    },
    /// Presses keys.
    Presses {
        /// The keys.
        digits: String,
        /// When.
        after: u64,
    },
    /// The connection is lost.
    IsCutOff {
        /// For how long.
        lasts: u64,
        /// When.
        after: u64,
    },
    /// Hangs up.
    HangsUp {
        /// When.
        after: Option<u64>,
    },
}

impl LiveScript {
    /// What the caller does, with the end of the call, and how many turns of the live model are left out.
    pub fn into_caller(self) -> (Vec<CallerTurn>, usize) {
        let mut left_out = 0;
        let mut turns = Vec::with_capacity(self.turns.len() + 1);
        for turn in self.turns {
            turns.push(match turn {
                LiveTurn::Caller { text, after } => CallerTurn::Says { text, after },
                LiveTurn::Digits { digits, after } => CallerTurn::Presses { digits, after },
                LiveTurn::Drop { lasts, after } => CallerTurn::IsCutOff { lasts, after },
                LiveTurn::HangUp { after } => CallerTurn::HangsUp { after: Some(after) },
                // A file has no turn in which the process dies.
                LiveTurn::Model { .. } | LiveTurn::Kill { .. } => {
                    left_out += 1;
                    continue;
                }
            });
        }
        if !matches!(turns.last(), Some(CallerTurn::HangsUp { .. })) {
            turns.push(CallerTurn::HangsUp { after: None });
        }
        (turns, left_out)
    }
}
