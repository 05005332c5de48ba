//! What is promised of calls: the book of the provider against the journal.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{EffectClass, LiveNews, OperationId, RunId};
use serde_json::Value;

use super::{Guarantees, Line, Op, number_of};
use crate::workspace::{PHONE, SECOND};

/// A call, as its provider has it.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    /// What the live model asked for: tool, number and response, by the id of the call.
    asked: BTreeMap<String, (String, i64, String)>,
    /// Responses that the live model has completed.
    completed: BTreeSet<String>,
    /// The calls of tools that the journal has, while the call was not over.
    recorded: BTreeSet<String>,
    withdrawn: BTreeSet<String>,
    /// The command that gave each call its output.
    outputs: BTreeMap<String, OperationId>,
    over: bool,
    /// Caller and live model continue without a process.
    outlives: bool,
    /// One of them has ended it.
    hung_up: bool,
}

impl Guarantees {
    /// Says whether a run is over, or the call that it is.
    pub(crate) fn has_ended(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|line| line.ended) || self.is_over(run)
    }

    /// Says whether a call is over.
    pub(super) fn is_over(&self, run: RunId) -> bool {
        self.talks.get(&run).is_some_and(|talk| talk.over)
    }

    /// Says whether a run is a call.
    pub(crate) fn is_call(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|line| line.agent == PHONE)
    }

    /// The live model asks for a tool.
    pub(crate) fn asks(&mut self, run: RunId, call_id: &str, tool: &str, arguments: &str, response: &str) {
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        let n = number_of(&arguments).unwrap_or_default();
        let talk = self.talks.entry(run).or_default();
        talk.asked.insert(call_id.to_owned(), (tool.to_owned(), n, response.to_owned()));
    }

    /// A process carries a call that continues without it.
    pub(crate) fn outlives(&mut self, run: RunId) {
        self.talks.entry(run).or_default().outlives = true;
    }

    /// Caller or agent end a call.
    pub(crate) fn is_put_down(&mut self, run: RunId) {
        self.talks.entry(run).or_default().hung_up = true;
    }

    /// Says whether a call of a tool has come to the journal.
    pub(crate) fn knows_call(&self, run: RunId, call_id: &str) -> bool {
        self.talks.get(&run).is_some_and(|talk| talk.recorded.contains(call_id))
    }

    /// The provider takes a call out of the conversation.
    pub(crate) fn withdrawn(&mut self, run: RunId, call_id: &str) {
        self.talks.entry(run).or_default().withdrawn.insert(call_id.to_owned());
    }

    /// The live model has completed a response.
    pub(crate) fn response_completed(&mut self, run: RunId, response: &str) {
        self.talks.entry(run).or_default().completed.insert(response.to_owned());
    }

    /// A call of a tool gets its output: there is one, of a call that was asked.
    pub(crate) fn output(&mut self, run: RunId, call_id: &str, command: OperationId) {
        let alias = self.name(run);
        let talk = self.talks.entry(run).or_default();
        if !talk.asked.contains_key(call_id) {
            return self.broken(format!("{alias}: `{call_id}` gets an output, and was never asked"));
        }
        if !talk.recorded.contains(call_id) {
            return self
                .broken(format!("{alias}: `{call_id}` gets an output, and no record says it was asked"));
        }
        if talk.outputs.insert(call_id.to_owned(), command).is_some_and(|known| known != command) {
            self.broken(format!("{alias}: `{call_id}` gets two outputs"));
        }
    }

    /// What is heard of a call is in its journal.
    pub(super) fn heard(&mut self, run: RunId, news: &[LiveNews]) {
        let alias = self.name(run);
        let talk = self.talks.entry(run).or_default();
        let is_open = talk.outlives && !talk.hung_up;
        if let Some(LiveNews::Ended { reason, .. }) =
            news.iter().find(|one| matches!(one, LiveNews::Ended { .. }))
            && is_open
        {
            self.violations.push(format!("{alias} is over ({reason}), and neither side has hung up"));
        }
        for one in news {
            self.coverage.count("news", one.kind());
            match one {
                LiveNews::Asked { call, .. } if !talk.over => {
                    talk.recorded.insert(call.call_id.clone());
                }
                LiveNews::Ended { .. } => talk.over = true,
                _ => {}
            }
        }
    }

    /// All has been quiet for long: each call of a tool has its output.
    pub(crate) fn all_answered(&mut self, run: RunId) {
        let alias = self.name(run);
        let Some(talk) = self.talks.get(&run).filter(|talk| !talk.over) else { return };
        let missing: Vec<String> = talk
            .recorded
            .iter()
            .filter(|call_id| !talk.withdrawn.contains(*call_id) && !talk.outputs.contains_key(*call_id))
            .cloned()
            .collect();
        for call_id in missing {
            self.broken(format!("{alias}: `{call_id}` has no output"));
        }
    }

    /// Says whether an effect in a call is one that no completed response asks for.
    pub(super) fn is_premature(
        &self,
        run: RunId,
        tool: Option<&str>,
        class: EffectClass,
        arguments: &Value,
    ) -> bool {
        let Some((talk, tool)) = self.talks.get(&run).zip(tool) else { return false };
        if !matches!(class, EffectClass::Keyed | EffectClass::Unsafe) {
            return false;
        }
        let n = number_of(arguments).unwrap_or_default();
        let is_it = |(asked, number, response): &(String, i64, String)| {
            asked == tool && (n == *number || n == number + SECOND) && talk.completed.contains(response)
        };
        !talk.asked.values().any(is_it)
    }
}

/// All that a step has asked for has its outcome.
pub(super) fn all_settled(line: &Line, is_call: bool) -> Result<(), String> {
    // What a call lets go of, it lets go of with all that it has asked for.
    let is_let_go = |op: &Op| {
        let above = op.above.and_then(|above| line.ops.get(&above));
        is_call && op.class == EffectClass::Read && above.is_some_and(|above| above.settled)
    };
    let open = line.ops.values().find(|op| !op.settled && op.step <= line.step && !is_let_go(op));
    match open {
        Some(op) if !line.signalled => Err(format!("{} has no outcome", op.alias)),
        _ => Ok(()),
    }
}
