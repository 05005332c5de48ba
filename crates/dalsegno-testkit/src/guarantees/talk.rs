//! What is promised of calls: the book of the provider against the journal.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{EffectClass, FailureCode, LiveNews, OperationId, Outcome, RunId};
use dalsegno_store::Body;
use serde_json::{Value, json};

use super::{Call, Guarantees, Line, Op, number_of};
use crate::process::Process;
use crate::workspace::{HANG_UP, PHONE, SECOND, TRANSFER};

/// A call that has not ended so long after its transfer was asked for was not transferred.
const STAYS_AFTER_MS: u64 = 20_000;

/// A call, as its provider has it.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    /// What the live model asked for: tool, number and response, by the id of the call.
    asked: BTreeMap<String, Vec<(String, i64, String)>>,
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
    /// The provider has transferred it.
    left: bool,
    /// How often the live model was told that it was not transferred.
    stayed: usize,
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
        // What came to the journal late may be asked for again before that: both stand.
        let asked = talk.asked.entry(call_id.to_owned()).or_default();
        asked.push((tool.to_owned(), n, response.to_owned()));
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

    /// Keys are to be sent to the line of a caller, for an operation of the call's run.
    pub(crate) fn keys(&mut self, process: &Process, operation: OperationId, keys: &str) -> Option<Call> {
        let run = self.run_of(operation)?;
        self.ask_provider(process, run, operation, json!({ "digits": keys }))
    }

    /// A call is to be transferred, for the one operation of its run that asks for it now.
    pub(crate) fn transfer(&mut self, process: &Process, run: RunId) -> Option<Call> {
        let line = self.runs.get(&run)?;
        let mut asks = line.ops.iter().filter(|(_, op)| is_transfer(op) && op.started && !op.settled);
        let (&operation, op) = asks.next()?;
        if asks.next().is_some() {
            self.broken(format!("{}: two transfers are under way", line.alias));
            return None;
        }
        // Where it goes says nothing of the call that asks for it: it is one that no transfer was asked for by now.
        let used: BTreeSet<_> =
            line.ops.values().filter_map(|op| number_of(op.arguments.as_ref()?)).collect();
        let known = op.arguments.as_ref().and_then(number_of);
        let talk = self.talks.get(&run);
        let wanted = talk.into_iter().flat_map(|talk| {
            let of_it = talk.asked.values().flatten().filter(|(tool, ..)| tool == TRANSFER);
            of_it.filter(|(.., response)| talk.completed.contains(response)).map(|(_, n, _)| *n)
        });
        let wanted: Vec<i64> = wanted.collect();
        // Or the same one is asked for once more.
        let n = known.or_else(|| wanted.iter().find(|n| !used.contains(n)).or(wanted.last()).copied());
        self.ask_provider(process, run, operation, json!({ "n": n }))
    }

    /// The call that a process makes to the provider of a run's call.
    fn ask_provider(
        &mut self,
        process: &Process,
        run: RunId,
        operation: OperationId,
        arguments: Value,
    ) -> Option<Call> {
        let op = self.runs.get(&run)?.ops.get(&operation)?;
        let own = op.intents.iter().rfind(|(_, by)| **by == process.number);
        let call = Call {
            process: process.number,
            run,
            operation,
            attempt: own.map_or(0, |(attempt, _)| *attempt),
            tool: op.tool.clone(),
            arguments,
            tenant: String::new(),
        };
        Some(self.call(process, call))
    }

    /// The provider has transferred a call.
    pub(crate) fn leaves(&mut self, run: RunId) {
        self.talks.entry(run).or_default().left = true;
    }

    /// The live model is told that its call was not transferred.
    pub(crate) fn stays(&mut self, run: RunId) {
        let heard = self.transfers_heard(run);
        let (alias, talk) = (self.name(run), self.talks.entry(run).or_default());
        talk.stayed += 1;
        self.coverage.count("transfer", "the model is told that it was not made");
        if talk.stayed > heard.len() {
            self.broken(format!("{alias}: it is said to stay more often than it was to be transferred"));
        }
    }

    /// The agent ends a call: if the live model wants it, a response that was completed asks for it, and no transfer is under way.
    pub(crate) fn closes(&mut self, run: RunId, reason: &str) {
        if reason != "the agent hung up" {
            return;
        }
        self.coverage.count("call", "the live model hangs up");
        let (alias, talk) = (self.name(run), self.talks.entry(run).or_default());
        let is_it = |(tool, _, response): &(String, i64, String)| {
            tool == HANG_UP && talk.completed.contains(response)
        };
        if !talk.asked.values().flatten().any(is_it) {
            self.broken(format!("{alias}: it is hung up, and no response that was completed asks for it"));
        }
        let under_way = |op: &Op| is_transfer(op) && op.started && !op.settled;
        if self.runs.get(&run).is_some_and(|line| line.ops.values().any(under_way)) {
            self.broken(format!("{alias}: it is hung up while it is transferred"));
        }
    }

    /// When the journal has it that the provider has taken the wish of a transfer, or may have.
    fn transfers_heard(&self, run: RunId) -> Vec<u64> {
        let Some(line) = self.runs.get(&run) else { return Vec::new() };
        let is_heard = |outcome: &Outcome| match outcome {
            Outcome::Failed(failure) => failure.code == FailureCode::Indeterminate,
            _ => true,
        };
        let heard = line.records.iter().filter(|record| match &record.body {
            Body::Resolved { outcome, .. } => {
                let op = record.operation.and_then(|id| line.ops.get(&id));
                op.is_some_and(is_transfer) && is_heard(outcome)
            }
            _ => false,
        });
        heard.map(|record| record.at.as_millis()).collect()
    }

    /// A call is over, and its run is said to have ended so: that it was transferred is said where that may be, and always where the
    /// call has left soon enough.
    pub(crate) fn ended_so(&mut self, run: RunId, is_transferred: bool) {
        let (alias, heard) = (self.name(run), self.transfers_heard(run));
        let has_left = self.talks.get(&run).is_some_and(|talk| talk.left);
        let is_end = |news: &[LiveNews]| news.iter().any(|one| matches!(one, LiveNews::Ended { .. }));
        let ended = self.runs.get(&run).and_then(|line| {
            let mut ends = line.records.iter();
            ends.find(|record| matches!(&record.body, Body::Conversed { news } if is_end(news)))
        });
        let ended = ended.map_or(u64::MAX, |record| record.at.as_millis());
        let is_soon = heard.last().is_some_and(|heard| ended < heard + STAYS_AFTER_MS);
        if is_transferred {
            self.coverage.count("transfer", "the run says that it was made");
        }
        if is_transferred && heard.is_empty() {
            self.broken(format!(
                "{alias} says that its call was transferred, and no provider was asked for it"
            ));
        } else if !is_transferred && has_left && is_soon {
            self.broken(format!("{alias} does not say that its call was transferred"));
        }
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
        let stayed = talk.stayed;
        for call_id in missing {
            self.broken(format!("{alias}: `{call_id}` has no output"));
        }
        // One that is asked for while the model is not told yet of the one before is refused, so that each has its own word.
        if stayed < self.transfers_heard(run).len() {
            self.broken(format!("{alias}: the live model is not told that it was not transferred"));
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
        !talk.asked.values().flatten().any(is_it)
    }
}

/// Says whether an operation asks for a transfer: it is a part of the document that does.
fn is_transfer(op: &Op) -> bool {
    op.above.is_some() && op.tool.as_deref() == Some(TRANSFER)
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
