//! What the caller does.

use std::collections::VecDeque;
use std::time::Duration;

use dalsegno_models::CallerTurn;
use dalsegno_realtime::{ModelSession, Output};

/// How long the silence lasts before a patient caller says the next thing, or hangs up.
const PAUSE: Duration = Duration::from_millis(300);

/// How long a patient caller waits for a live model that has something to speak of and does not.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most that waits.
const TURNS_MAX: usize = 4_096;

/// What the caller does: at once, as a person who types, or in its turn, as a script or a pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Says something now. It interrupts the live model.
    Says(String),
    /// Does this in a silence in which nothing is awaited, or after the time that it names.
    Turn(CallerTurn),
    /// Hangs up now.
    HangsUp,
}

/// What happens to the connection besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dropped(pub(crate) Duration);

/// The turns that wait, on the clock of the call.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    waiting: VecDeque<CallerTurn>,
    /// When the turn before was taken.
    since: u64,
    /// Since when there is silence and nothing is awaited.
    quiet_since: Option<u64>,
    /// Since when there is silence.
    still_since: Option<u64>,
}

impl Turns {
    pub(crate) fn push(&mut self, turn: CallerTurn) {
        if self.waiting.len() < TURNS_MAX {
            self.waiting.push_back(turn);
        }
    }

    /// Says whether a turn that waits hangs up.
    pub(crate) fn hangs_up(&self) -> bool {
        self.waiting.iter().any(|turn| matches!(turn, CallerTurn::HangsUp { .. }))
    }

    /// Takes note of how the call stands.
    pub(crate) fn look(&mut self, now: u64, session: &dyn ModelSession) {
        let note = |since: &mut Option<u64>, holds: bool| match holds {
            true => {
                since.get_or_insert(now);
            }
            false => *since = None,
        };
        note(&mut self.quiet_since, session.is_quiet());
        note(&mut self.still_since, session.is_still());
    }

    /// When the next turn is to be taken.
    pub(crate) fn at(&self) -> Option<u64> {
        let after = |after: u64| self.since.saturating_add(after);
        match self.waiting.front()? {
            CallerTurn::Says { after: None, .. } | CallerTurn::HangsUp { after: None } => {
                let quiet = self.quiet_since.map(|since| since.saturating_add(millis(PAUSE)));
                let still = self.still_since.map(|since| since.saturating_add(millis(PATIENCE)));
                [quiet, still].into_iter().flatten().min()
            }
            CallerTurn::Says { after: Some(millis), .. }
            | CallerTurn::HangsUp { after: Some(millis) }
            | CallerTurn::Presses { after: millis, .. }
            | CallerTurn::IsCutOff { after: millis, .. } => Some(after(*millis)),
        }
    }

    /// Takes the next turn if it is time, and says for how long the connection is cut off if it is.
    pub(crate) fn take(
        &mut self,
        now: u64,
        session: &mut dyn ModelSession,
    ) -> Option<(Output, Option<Dropped>)> {
        if self.at()? > now {
            return None;
        }
        self.since = now;
        (self.quiet_since, self.still_since) = (None, None);
        Some(match self.waiting.pop_front()? {
            CallerTurn::Says { text, .. } => (session.say(now, &text), None),
            CallerTurn::Presses { digits, .. } => (session.press(&digits), None),
            CallerTurn::HangsUp { .. } => (session.hang_up(now, "hung up"), None),
            CallerTurn::IsCutOff { lasts, .. } => {
                let lasts = Duration::from_millis(lasts);
                (session.lost(now, "the caller's script cuts it off"), Some(Dropped(lasts)))
            }
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
