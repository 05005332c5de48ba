//! What a simulation made happen, counted, so that what never happens is noticed.

use std::collections::BTreeMap;
use std::fmt;

use dalsegno_store::RecordKind;

use crate::Faults;

/// The kinds of request that the simulated agents can make.
const REQUESTS: [&str; 9] = [
    "model completion",
    "tool",
    "api call",
    "agent",
    "question",
    "timer",
    "memory create",
    "memory search",
    "memory traverse",
];

/// What the operator does.
const ACTIONS: [&str; 20] = [
    "start",
    "start again",
    "start after",
    "answer",
    "cancel",
    "give up",
    "interrupt",
    "resume",
    "stop a worker",
    "put a secret",
    "remove a secret",
    "fork",
    "erase",
    "gc",
    "export",
    "import",
    "look",
    "pause",
    "pause a child run",
    "continue",
];

/// What becomes of HTTP calls.
const ANSWERS: [&str; 14] = [
    "200",
    "400",
    "404",
    "408",
    "409",
    "429",
    "500",
    "502",
    "503",
    "504",
    "cut",
    "too large",
    "lost",
    "unreachable",
];

/// Records that no simulated world has: the first two need an MCP server; adoption and agents that lose rights are not
/// generated, and no run is abandoned.
const OUT_OF_REACH: [RecordKind; 5] = [
    RecordKind::Rebound,
    RecordKind::Denied,
    RecordKind::Adopted,
    RecordKind::Narrowed,
    RecordKind::Abandoned,
];

/// What happens in calls.
const CALLS: [&str; 25] = [
    "begins",
    "another process attaches",
    "a worker takes it over",
    "is let go of",
    "continues without a process",
    "a tool is asked for while no process carries the call",
    "was over before another process attaches",
    "its carrier has given up",
    "responses overlap",
    "a command comes again",
    "busy",
    "the result follows",
    "the agent ends it",
    "the live model hangs up",
    "is forked",
    "the connection is lost",
    "the connection is lost in a response",
    "a call is withdrawn",
    "the caller hangs up",
    "a response is interrupted",
    "words are interrupted that were told as said",
    "a response fails",
    "a call is repeated",
    "a call id comes again",
    "listened to until the end",
];

/// What happens in transfers of calls.
const TRANSFERS: [&str; 5] = [
    "answered",
    "the other end does not answer",
    "the call leaves",
    "the model is told that it was not made",
    "the run says that it was made",
];

/// How often things happened, by their kind and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<(&'static str, String), u64>,
}

impl Coverage {
    pub(crate) fn count(&mut self, kind: &'static str, name: &str) {
        *self.counts.entry((kind, name.to_owned())).or_default() += 1;
    }

    /// Adds what happened in another world.
    pub fn add(&mut self, other: &Self) {
        for (key, count) in &other.counts {
            *self.counts.entry(key.clone()).or_default() += count;
        }
    }

    /// What can happen and never did, as `kind: name`.
    pub fn missing(&self) -> Vec<String> {
        let rows = expected().into_iter().filter(|(kind, name)| self.of(kind, name) == 0);
        rows.map(|(kind, name)| format!("{kind}: {name}")).collect()
    }

    fn of(&self, kind: &'static str, name: &str) -> u64 {
        self.counts.get(&(kind, name.to_owned())).copied().unwrap_or_default()
    }
}

/// All that is to happen in enough worlds.
fn expected() -> Vec<(&'static str, String)> {
    let records = RecordKind::ALL.iter().filter(|kind| !OUT_OF_REACH.contains(kind));
    let mut all: Vec<(&'static str, String)> =
        records.map(|kind| ("record", kind.as_str().to_owned())).collect();
    let mut add = |kind, names: &[&str]| all.extend(names.iter().map(|name| (kind, (*name).to_owned())));
    add("request", &REQUESTS);
    add("action", &ACTIONS);
    add("answer", &ANSWERS);
    add("call", &CALLS);
    add("transfer", &TRANSFERS);
    add("waits", &["while it is performed"]);
    add("surface", &["script", "telephone", "duplex", "media"]);
    add("verify", &["happened", "not happened", "unknown"]);
    add("fault", Faults::names());
    add("store", &["memory", "sqlite"]);
    add("budget", &["set aside", "spent", "given back", "exhausted", "renewed"]);
    add("batch", &["handed over", "asked too early", "not told", "collected", "failed", "cancelled"]);
    add("rule", &["asks and a person agrees", "denies a step", "denies a model"]);
    add("origin", &["trusted", "strange", "strange in a fork", "strange after a takeover"]);
    all
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = expected();
        let known: Vec<_> = self.counts.keys().filter(|key| !all.contains(key)).cloned().collect();
        all.extend(known);
        all.sort();
        let mut last = "";
        for (kind, name) in all {
            if kind != last {
                write!(f, "{}{kind:<8}", if last.is_empty() { "" } else { "\n" })?;
                last = kind;
            }
            write!(f, "  {name} {}", self.of(kind, &name))?;
        }
        Ok(())
    }
}
