//! Why nothing of a run is performed.

use dalsegno_core::Timestamp;
use dalsegno_store::WaitingFor;
use serde::Serialize;

use super::Machine;

impl Machine {
    /// Time has passed without an event: the next step is computed as of this time.
    ///
    /// # Panics
    /// When a step has failed before.
    pub fn pass_time(&mut self, at: Timestamp) {
        self.state.as_mut().expect("a machine whose step failed is not used again").pass_time(at);
    }
}

/// What a suspended run waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspension {
    /// Each operation, with the kind of answer that it waits for.
    pub waiting_for: Vec<WaitingFor>,
    /// When it can go on by itself.
    pub wake_at: Option<Timestamp>,
}

/// A person paused the run, and it stands still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pause {
    /// Who paused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
