//! The reference model: what the engine promises, in rules that know nothing of how it keeps them.
//!
//! It is told of each record as it is written, of each call as it reaches the outside and of each effect as it takes
//! place, and says at once what is broken. It has no core, no fold and no policy: for each operation it keeps a few
//! flags.

mod audit;
mod calls;
mod clock;
mod inbox;
mod journal;
mod money;
mod origin;
mod ownership;
mod pauses;
mod talk;
#[cfg(test)]
mod tests;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{AgentResponse, EffectClass, OnIndeterminate, OperationId, RunId};
use dalsegno_store::{NewRecord, Parent};
use serde_json::Value;

use crate::coverage::Coverage;
use crate::process::Process;
use crate::workspace::{Bounds, KEPT, Money, Plan, SEND_DIGITS, ToolTerms};

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
    /// What accounts may spend on the model in a day: tenants by their names, and all together.
    budgets: BTreeMap<String, Money>,
    ledger: money::Ledger,
    pub(crate) runs: BTreeMap<RunId, Line>,
    /// What runs were asked, also those that are deleted.
    asked: BTreeMap<RunId, origin::Asked>,
    /// Runs that were ever made.
    made: usize,
    pub(crate) coverage: Coverage,
    /// Calls of endpoints by the key that they send.
    requests: BTreeMap<String, (RunId, OperationId)>,
    /// Keys of starts that name the run after which they begin.
    after: BTreeSet<String>,
    /// Since when there is a process.
    began: BTreeMap<u32, Duration>,
    /// Since when a process goes on that was stopped.
    thawed: BTreeMap<u32, Duration>,
    /// Requests that only read, so far.
    reads: u32,
    /// Some runs were deleted, so that what was unique may come again.
    has_pruned: bool,
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
    /// Since when the clock has been wrong, and by how many milliseconds.
    clock: Vec<(Duration, i64)>,
    /// Calls, as their provider has them.
    talks: BTreeMap<RunId, talk::Talk>,
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

/// A process gives a run back before it says how the run stood. Where it has had the run twice meanwhile, nobody can tell which
/// of the two a report is about.
#[derive(Default)]
struct Unsaid {
    times: u32,
    mixed: bool,
    /// It left the run and could not give it back.
    left: bool,
    /// It had the run anew before it could.
    overtaken: bool,
    /// It has written since it acquired the run.
    wrote: bool,
}

/// A run, as far as the promises go.
pub(crate) struct Line {
    run: RunId,
    pub(crate) alias: String,
    agent: String,
    tenant: String,
    session: String,
    /// Its place in the order in which runs were made.
    number: usize,
    pub(crate) parent: Option<Parent>,
    predecessor: Option<RunId>,
    by_handoff: bool,
    forked_from: Option<RunId>,
    /// Its own records say what it began with.
    inherits: bool,
    pub(crate) erased: bool,
    /// Under which epoch each process had it last.
    epochs: BTreeMap<u32, u64>,
    /// How often each process gave it back and has not said yet how it stood then.
    unsaid: BTreeMap<u32, Unsaid>,
    /// Since when the run is over whose operation it performs.
    orphaned: Option<Duration>,
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
    /// The journal says that it stands still.
    pub(crate) paused: bool,
    /// Since when somebody wants it to stand still, and was told that it will.
    pause_wanted: Option<Duration>,
    /// It is a call, and what is written now ends it.
    closes: bool,
    /// Since when its owner has it.
    owned_since: Duration,
    /// The time of its last news, as the clock showed, in milliseconds.
    last_event: u64,
    /// Who wrote its end.
    ended_by: Option<u32>,
    /// How often messages were read, by epoch and number.
    read: BTreeMap<(u64, u64), u32>,
    /// The write that its owner has tried last: under which epoch, at which place in the journal, and since when.
    writing: Option<(u64, u64, Duration)>,
}

/// An operation.
pub(crate) struct Op {
    alias: String,
    /// The tool that is called; that of a part is the declarative tool which asks for it.
    tool: Option<String>,
    /// The declarative tool that asks for it.
    above: Option<OperationId>,
    /// A declarative tool: only its parts are attempted.
    is_declared: bool,
    class: EffectClass,
    step: u64,
    attempts: u32,
    /// Its last attempt has started.
    started: bool,
    /// Attempts that followed one whose process died.
    recoveries: u32,
    /// An attempt may have taken place, and nobody knows.
    doubt: bool,
    /// When its first attempt since the last answer started.
    first: Option<Duration>,
    /// Attempts that were announced as started, with the processes that announced them.
    intents: BTreeMap<u32, u32>,
    called: BTreeSet<u32>,
    gate: Option<Question>,
    approved: bool,
    denied: bool,
    settled: bool,
    /// It has a plain failure as its outcome: it did not take place.
    failed_plainly: bool,
    late: bool,
    /// What came of it is written after the end.
    late_known: bool,
    pub(crate) effects: u32,
    /// Messages that are on their way to the receiver.
    pub(crate) on_its_way: u32,
    arguments: Option<Value>,
    /// When it was requested, as the clock showed, in milliseconds.
    requested: u64,
    /// When its question was asked, as the clock showed, in milliseconds.
    asked: u64,
    /// When that was, however the clock was set.
    asked_at: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Approval,
    Input,
    InDoubt,
    Secret,
}

impl Question {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Input => "input",
            Self::InDoubt => "in_doubt",
            Self::Secret => "secret",
        }
    }
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
            budgets: plan.budgets.clone(),
            ledger: money::Ledger::default(),
            runs: BTreeMap::new(),
            asked: BTreeMap::new(),
            made: 0,
            coverage: Coverage::default(),
            requests: BTreeMap::new(),
            after: BTreeSet::new(),
            began: BTreeMap::new(),
            thawed: BTreeMap::new(),
            reads: 0,
            has_pruned: false,
            effects: BTreeMap::new(),
            keys: BTreeMap::new(),
            under_way: Vec::new(),
            kept: Vec::new(),
            children: BTreeMap::new(),
            starts: BTreeMap::new(),
            clock: vec![(Duration::ZERO, 0)],
            talks: BTreeMap::new(),
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

    /// A start under this key names the run after which it begins.
    pub(crate) fn goes_after(&mut self, tenant: &str, key: &str) {
        self.after.insert(format!("{tenant} {key}"));
    }

    /// A process begins.
    pub(crate) fn begins(&mut self, process: &Process) {
        self.began.insert(process.number, self.now);
    }

    /// A process that was stopped goes on.
    pub(crate) fn goes_on(&mut self, process: &Process) {
        self.thawed.insert(process.number, self.now);
    }

    /// Forks so far.
    pub(crate) fn forks(&self) -> usize {
        self.runs.values().filter(|line| line.forked_from.is_some()).count()
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
    if tool == SEND_DIGITS {
        return serde_json::json!({ "sent": arguments["digits"] });
    }
    if tool == KEPT {
        return serde_json::json!({ "q": arguments["q"], "n": 0, "receipt": format!("answer {}", arguments["q"]) });
    }
    if tool.starts_with("shop.") {
        return serde_json::json!({ "n": arguments["n"], "receipt": format!("shop {}", arguments["n"]) });
    }
    let run = run.to_string();
    serde_json::json!({ "n": arguments["n"], "receipt": format!("{} {tool} {}", &run[..8], arguments["n"]) })
}

/// The number of a call, which it has alone in its run.
pub(crate) fn number_of(arguments: &Value) -> Option<i64> {
    let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse().ok());
    number(&arguments["n"]).or_else(|| number(&arguments["digits"]))
}

fn may_retry(policy: OnIndeterminate) -> bool {
    policy == OnIndeterminate::Retry
}
