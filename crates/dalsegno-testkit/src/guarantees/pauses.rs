//! What is promised of runs that a person pauses.

use dalsegno_core::{Answer, FailureCode, Outcome, RunId};
use dalsegno_store::{Body, Message};

use super::journal::NOBODY;
use super::{Guarantees, Line, Op};

impl Guarantees {
    /// Somebody wants a run to stand still, and was told that it will; or nobody does any more.
    pub(crate) fn pause_wanted(&mut self, run: RunId, is_wanted: bool) {
        let now = self.now;
        if let Some(line) = self.runs.get_mut(&run) {
            line.pause_wanted = is_wanted.then(|| line.pause_wanted.unwrap_or(now));
        }
    }

    /// Somebody was told that a run stands still.
    pub(crate) fn stands_still(&mut self, run: RunId) {
        // It may have been pruned meanwhile.
        let line = self.runs.get(&run).filter(|line| !line.paused && !line.erased);
        if let Some(alias) = line.map(|line| line.alias.clone()) {
            self.broken(format!("{alias} is said to stand still, and its journal says nothing of it"));
        }
    }
}

/// The journal says that a run stands still.
pub(super) fn stop(line: &mut Line) -> Result<(), String> {
    line.paused = true;
    line.pause_wanted = None;
    // A child run is paused by itself, and a batch is at its provider.
    let begun = |op: &&Op| op.started && !op.settled && op.gate.is_none() && op.tool.is_some();
    match line.ops.values().find(begun) {
        Some(op) => Err(format!("{} is under way", op.alias)),
        None => Ok(()),
    }
}

/// Says whether a run stands as the last of the messages wants that were taken out of its inbox.
pub(super) fn takes_words(line: &Line, messages: &[Message]) -> bool {
    let word = |message: &&Message| matches!(message, Message::Pause { .. } | Message::Continue { .. });
    match messages.iter().rfind(word) {
        Some(Message::Pause { .. }) => line.paused,
        Some(_) => !line.paused,
        None => true,
    }
}

/// Says whether a run may have such a record while it stands still: people answer, give up, cancel and continue.
pub(super) fn may_happen_in_a_pause(body: &Body) -> bool {
    match body {
        Body::Resolved { outcome: Outcome::Failed(failure), .. } => failure.code == FailureCode::Cancelled,
        // Nobody is too late while it stands still.
        Body::Answered { answer: Answer::Denied { by: Some(by), .. } } => by != NOBODY,
        Body::Answered { .. }
        | Body::Signalled { .. }
        | Body::Narrowed { .. }
        | Body::Paused { .. }
        | Body::Continued { .. } => true,
        _ => false,
    }
}
