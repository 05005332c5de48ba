//! What the agent says to the user, told once, and what its tools write to the log.

use dalsegno_core::{AgentState, NoteLevel, OperationId, Outcome, Request};

use super::Driver;

impl Driver {
    /// Logs what a declarative tool noted for people, each line at its level.
    pub(super) fn log(&self, operation: OperationId, outcome: &Outcome) {
        let Outcome::ToolReturned(returned) = outcome else { return };
        let pending = self.machine.state().pending().iter();
        let request = pending.map(|pending| &pending.operation).find(|pending| pending.id == operation);
        let tool = match request.map(|operation| &operation.request) {
            Some(Request::ToolCall(call)) => call.tool_name.as_str(),
            Some(_) | None => "",
        };
        let (run, agent) = (self.context.run, self.context.config.name.as_str());
        for note in returned.notes() {
            let (action, text) = (note.action, note.text);
            match note.level {
                NoteLevel::Debug => tracing::debug!(target: TARGET, %run, agent, tool, action, "{text}"),
                NoteLevel::Info => tracing::info!(target: TARGET, %run, agent, tool, action, "{text}"),
                NoteLevel::Warn => tracing::warn!(target: TARGET, %run, agent, tool, action, "{text}"),
                NoteLevel::Error => tracing::error!(target: TARGET, %run, agent, tool, action, "{text}"),
            }
        }
    }
}

/// The target of the lines that declarative tools log, so that a filter can tell them from the engine's own.
const TARGET: &str = "dalsegno::tool";

/// What was told of what an agent says.
///
/// A tool says something while it is at work, and it counts as said when all tools of its step have ended; what is told
/// in between must not be told again.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    /// How much was told of what counts as said.
    said: usize,
    /// What was told of the tools that are at work.
    saying: Vec<String>,
}

impl Spoken {
    /// All that a state has said was told: a run that is taken up does not repeat it.
    pub(super) fn until(state: &AgentState) -> Self {
        let mut spoken = Self::default();
        spoken.news(state);
        spoken
    }

    /// Returns what is new, in order.
    pub(super) fn news(&mut self, state: &AgentState) -> Vec<String> {
        let mut told = std::mem::take(&mut self.saying);
        let mut take = |text: &str| {
            let place = told.iter().position(|told| told == text);
            place.map(|place| told.remove(place)).is_some()
        };
        let mut news = Vec::new();
        for text in state.said().iter().skip(self.said) {
            if !take(text) {
                news.push(text.clone());
            }
        }
        for text in state.saying() {
            if !take(text) {
                news.push(text.to_owned());
            }
            self.saying.push(text.to_owned());
        }
        self.said = state.said().len();
        news
    }
}
