//! The reference model: what the engine promises, in rules that know nothing of how it keeps them.
//!
//! It is told of each record as it is written, of each call as it reaches the outside and of each effect as it takes
//! place, and says at once what is broken. It has no core, no fold and no policy: for each operation it keeps a few
//! flags.

mod audit;
mod calls;
mod journal;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{AgentResponse, EffectClass, OnIndeterminate, OperationId, RunId};
use dalsegno_store::{NewRecord, Parent};
use serde_json::Value;

use crate::process::Process;
use crate::workspace::{Bounds, Plan, ToolTerms};

pub(crate) use calls::Call;

/// How long the receivers remember a key. The engine trusts them for a day; the clock may be an hour wrong.
pub(crate) const KEYS_KEPT: Duration = Duration::from_secs(25 * 60 * 60 + 600);

/// What must hold.
pub(crate) struct Guarantees {
    pub(crate) now: Duration,
    pub(crate) violations: Vec<String>,
    /// What is to be written into the history.
    pub(crate) notes: Vec<String>,
    terms: BTreeMap<(String, String), ToolTerms>,
    patience: BTreeMap<String, u64>,
    bounds: Bounds,
    pub(crate) runs: BTreeMap<RunId, Line>,
    /// Effects by run and by the number that the agent's file gives them.
    effects: BTreeMap<(RunId, i64), u32>,
    /// Keys that a receiver remembers, and since when.
    keys: BTreeMap<OperationId, Duration>,
    /// Calls under way.
    under_way: Vec<Call>,
    /// Answers of the tool whose results stand for further calls: process, tenant, question, when.
    kept: Vec<(u32, String, Value, Duration)>,
    /// Child runs by the operation that they perform.
    children: BTreeMap<OperationId, RunId>,
    /// Starts by their key.
    starts: BTreeMap<String, RunId>,
    /// Somebody set the clock.
    pub(crate) clock_was_set: bool,
    pub(crate) totals: Totals,
}

/// What happened, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) records: u64,
    pub(crate) calls: u64,
    pub(crate) effects: u64,
    pub(crate) in_doubt: u64,
    pub(crate) recovered: u64,
    pub(crate) fenced: u64,
}

/// A run, as far as the promises go.
pub(crate) struct Line {
    run: RunId,
    pub(crate) alias: String,
    agent: String,
    tenant: String,
    session: String,
    pub(crate) parent: Option<Parent>,
    records: Vec<NewRecord>,
    epoch: u64,
    owner: Option<Arc<Process>>,
    pub(crate) ops: BTreeMap<OperationId, Op>,
    places: BTreeSet<(u64, Vec<u32>)>,
    step: u64,
    signalled: bool,
    pub(crate) ended: bool,
    response: Option<AgentResponse>,
    /// Since when somebody who may say so wants it to end.
    cancel_wanted: Option<Duration>,
    /// Since when its owner has it.
    owned_since: Duration,
    /// The time of its last news, as the clock showed, in milliseconds.
    last_event: u64,
    /// Who wrote its end.
    ended_by: Option<u32>,
    /// How often messages were read, by epoch and number.
    read: BTreeMap<(u64, u64), u32>,
}

/// An operation.
pub(crate) struct Op {
    alias: String,
    tool: Option<String>,
    class: EffectClass,
    step: u64,
    attempts: u32,
    /// Its last attempt has started.
    started: bool,
    /// An attempt may have taken place, and nobody knows.
    doubt: bool,
    /// When its first attempt since the last answer started.
    first: Option<Duration>,
    /// Attempts that were announced as started.
    intents: BTreeSet<u32>,
    called: BTreeSet<u32>,
    gate: Option<Question>,
    approved: bool,
    denied: bool,
    settled: bool,
    /// It has a plain failure as its outcome: it did not take place.
    failed_plainly: bool,
    late: bool,
    pub(crate) effects: u32,
    /// Messages that are on their way to the receiver.
    pub(crate) on_its_way: u32,
    arguments: Option<Value>,
    /// When it was requested, as the clock showed, in milliseconds.
    requested: u64,
    /// When its question was asked, as the clock showed, in milliseconds.
    asked: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Approval,
    Input,
    InDoubt,
}

impl Guarantees {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            now: Duration::ZERO,
            violations: Vec::new(),
            notes: Vec::new(),
            terms: plan.terms.clone(),
            patience: plan.patience.clone(),
            bounds: plan.bounds,
            runs: BTreeMap::new(),
            effects: BTreeMap::new(),
            keys: BTreeMap::new(),
            under_way: Vec::new(),
            kept: Vec::new(),
            children: BTreeMap::new(),
            starts: BTreeMap::new(),
            clock_was_set: false,
            totals: Totals::default(),
        }
    }

    pub(crate) fn broken(&mut self, what: String) {
        self.violations.push(what);
    }

    pub(crate) fn name(&self, run: RunId) -> String {
        self.runs.get(&run).map_or_else(|| run.to_string(), |line| line.alias.clone())
    }

    pub(crate) fn operation(&self, run: RunId, id: OperationId) -> String {
        let op = self.runs.get(&run).and_then(|line| line.ops.get(&id));
        op.map_or_else(|| id.to_string(), |op| op.alias.clone())
    }

    fn terms(&self, agent: &str, tool: Option<&str>) -> Option<ToolTerms> {
        self.terms.get(&(agent.to_owned(), tool?.to_owned())).copied()
    }

    /// What a person may say of an operation in doubt: nothing while a message is on its way.
    pub(crate) fn took_place(&self, run: RunId, id: OperationId) -> Option<bool> {
        let op = self.runs.get(&run)?.ops.get(&id)?;
        (op.on_its_way == 0).then_some(op.effects > 0)
    }

    /// What the receiver answered, or would have.
    pub(crate) fn reply_of(&self, run: RunId, id: OperationId) -> Option<Value> {
        let op = self.runs.get(&run)?.ops.get(&id)?;
        Some(reply(run, op.tool.as_deref()?, op.arguments.as_ref()?))
    }
}

/// What a tool answers: it follows from the call alone, so that an answer that went to another call shows.
pub(crate) fn reply(run: RunId, tool: &str, arguments: &Value) -> Value {
    if tool == crate::workspace::KEPT {
        return serde_json::json!({ "q": arguments["q"], "n": 0, "receipt": format!("answer {}", arguments["q"]) });
    }
    let run = run.to_string();
    serde_json::json!({ "n": arguments["n"], "receipt": format!("{} {tool} {}", &run[..8], arguments["n"]) })
}

fn may_retry(policy: OnIndeterminate) -> bool {
    policy == OnIndeterminate::Retry
}
