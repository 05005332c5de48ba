//! The receiver's book: what was told to be in the journal, what was called, what took place. It forgets a run once that
//! was audited, so that a soak can last as long as one likes.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use dalsegno_core::{EffectClass, OperationId, RunId};
use dalsegno_store::{Body, NewRecord};
use serde_json::Value;

use super::report::Effects;

/// The most broken promises that are kept: who has so many needs no more.
const BROKEN_MAX: usize = 100;

/// One call of a tool.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) run: RunId,
    pub(super) operation: OperationId,
    pub(super) tool: &'static str,
    pub(super) class: EffectClass,
    pub(super) arguments: Value,
}

/// What is known of one operation.
#[derive(Debug)]
pub(super) struct Line {
    message: Message,
    /// How often it took place.
    pub(super) effects: u32,
    /// Messages that have not arrived yet, or are not lost yet.
    on_its_way: u32,
}

/// A run that was started, with those below it.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) runs: BTreeSet<RunId>,
    /// What somebody was told to be in the journal, as a hash of the record's body.
    pub(super) told: BTreeMap<(RunId, u64), u64>,
    pub(super) lines: BTreeMap<OperationId, Line>,
    /// How often what the agent's file gives one number took place, where that may be once.
    numbers: BTreeMap<(RunId, i64), u32>,
}

/// What is written down of everything.
#[derive(Debug, Default)]
pub(super) struct Book {
    families: BTreeMap<RunId, Family>,
    /// The run that was started, for each run below it.
    roots: BTreeMap<RunId, RunId>,
    /// How many records the runs had whose pages are closed.
    closed: BTreeMap<RunId, u64>,
    /// What was promised and did not hold.
    pub(super) broken: Vec<String>,
    pub(super) effects: Effects,
    pub(super) calls: u64,
    pub(super) records: u64,
}

impl Book {
    pub(super) fn break_promise(&mut self, what: String) {
        if self.broken.len() < BROKEN_MAX {
            self.broken.push(what);
        }
    }

    /// A process performs a run from now on.
    pub(super) fn watch(&mut self, run: RunId, root: RunId) {
        self.roots.insert(run, root);
        self.families.entry(root).or_default().runs.insert(run);
    }

    /// Somebody was told that a record is in the journal.
    pub(super) fn told(&mut self, run: RunId, seq: u64, record: &NewRecord) {
        self.records += 1;
        let hash = hash_of(&record.body);
        let Some(family) = self.family(run) else {
            // Whoever tells may be slower than those who look whether the run has ended.
            if self.closed.get(&run).is_none_or(|records| seq >= *records) {
                self.break_promise(format!("run {run} is over, and record {seq} of it is new"));
            }
            return;
        };
        if family.told.insert((run, seq), hash).is_some_and(|before| before != hash) {
            self.break_promise(format!("run {run} was told two different records {seq}"));
        }
    }

    /// A call leaves its process, whether it arrives or not.
    pub(super) fn called(&mut self, message: &Message) {
        self.calls += 1;
        let (run, operation) = (message.run, message.operation);
        let Some(family) = self.family(run) else {
            return self
                .break_promise(format!("operation {operation} of run {run}, which is over, is called"));
        };
        let line = Line { message: message.clone(), effects: 0, on_its_way: 0 };
        family.lines.entry(operation).or_insert(line);
    }

    /// A message goes on its way.
    pub(super) fn sent(&mut self, message: &Message) {
        if let Some(line) = self.line(message) {
            line.on_its_way += 1;
        }
    }

    /// A message has arrived, and the receiver acts on it as the class of its tool says.
    pub(super) fn received(&mut self, message: &Message) {
        let class = message.class;
        let Some(line) = self.line(message) else {
            return self.break_promise(format!("{} arrives after its run was audited", message.operation));
        };
        line.on_its_way = line.on_its_way.saturating_sub(1);
        if class == EffectClass::Keyed && line.effects > 0 {
            self.effects.known += 1;
            return;
        }
        line.effects += 1;
        let effects = line.effects;
        let count = match class {
            EffectClass::Read => &mut self.effects.read,
            EffectClass::Idempotent => &mut self.effects.idempotent,
            EffectClass::Keyed => &mut self.effects.keyed,
            EffectClass::Unsafe | EffectClass::Composite => &mut self.effects.not_repeatable,
        };
        *count += 1;
        if class.may_repeat() && class != EffectClass::Keyed {
            return;
        }
        let (run, number) = (message.run, message.arguments["n"].as_i64().unwrap_or_default());
        let Some(family) = self.family(run) else { return };
        let same = family.numbers.entry((run, number)).or_default();
        *same += 1;
        let times = effects.max(*same);
        if times > 1 {
            let what = format!("number {number} of run {run} ({}) took place {times} times", message.tool);
            self.break_promise(what);
        }
    }

    /// What a person may say of an operation in doubt: nothing while a message is on its way; then whether it took
    /// place, with its result.
    pub(super) fn took_place(&self, run: RunId, operation: OperationId) -> Option<Option<Value>> {
        let line = self.families.get(self.roots.get(&run)?)?.lines.get(&operation);
        match line {
            Some(line) if line.on_its_way > 0 => None,
            Some(line) if line.effects > 0 => Some(Some(reply(&line.message))),
            Some(_) | None => Some(None),
        }
    }

    /// Nothing that a run or one below it sent is on its way.
    pub(super) fn is_settled(&self, root: RunId) -> bool {
        let family = self.families.get(&root);
        family.is_none_or(|family| family.lines.values().all(|line| line.on_its_way == 0))
    }

    /// Takes the pages of a run that has ended out of the book.
    pub(super) fn close(&mut self, root: RunId) -> Family {
        let family = self.families.remove(&root).unwrap_or_default();
        for run in &family.runs {
            self.roots.remove(run);
            // How many they are is known when they were read.
            self.closed.insert(*run, u64::MAX);
        }
        family
    }

    /// Notes how many records a run has whose pages were taken out.
    pub(super) fn closed(&mut self, run: RunId, records: u64) {
        self.closed.insert(run, records);
    }

    fn family(&mut self, run: RunId) -> Option<&mut Family> {
        self.families.get_mut(self.roots.get(&run)?)
    }

    fn line(&mut self, message: &Message) -> Option<&mut Line> {
        self.family(message.run)?.lines.get_mut(&message.operation)
    }
}

/// What a tool answers: it follows from the call alone.
pub(super) fn reply(message: &Message) -> Value {
    serde_json::json!({ "n": message.arguments["n"], "receipt": format!("{}", message.operation) })
}

/// A hash of a record's body, to compare it with what is read later.
pub(super) fn hash_of(body: &Body) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(body).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(class: EffectClass) -> (Book, Message) {
        let run = RunId::from_bytes([1; 16]);
        let mut book = Book::default();
        book.watch(run, run);
        let operation = OperationId::from_bytes([2; 16]);
        let arguments = serde_json::json!({ "n": 7 });
        let message = Message { run, operation, tool: "t", class, arguments };
        book.called(&message);
        (book, message)
    }

    #[test]
    fn an_effect_that_may_not_repeat_and_takes_place_twice_is_a_broken_promise() {
        for (class, broken) in [(EffectClass::Read, 0), (EffectClass::Keyed, 0), (EffectClass::Unsafe, 1)] {
            let (mut book, message) = book(class);
            book.sent(&message);
            book.received(&message);
            book.sent(&message);
            book.received(&message);
            assert_eq!(book.broken.len(), broken, "{class:?}: {:?}", book.broken);
        }
    }

    #[test]
    fn the_same_thing_under_another_key_is_a_broken_promise() {
        let (mut book, message) = book(EffectClass::Keyed);
        let other = Message { operation: OperationId::from_bytes([3; 16]), ..message.clone() };
        book.called(&other);
        book.received(&message);
        book.received(&other);
        assert_eq!(book.broken.len(), 1, "{:?}", book.broken);
    }

    #[test]
    fn nobody_knows_what_is_on_its_way() {
        let (mut book, message) = book(EffectClass::Unsafe);
        assert_eq!(book.took_place(message.run, message.operation), Some(None));
        book.sent(&message);
        assert_eq!(book.took_place(message.run, message.operation), None);
        assert!(!book.is_settled(message.run));
        book.received(&message);
        assert_eq!(book.took_place(message.run, message.operation), Some(Some(reply(&message))));
        assert!(book.is_settled(message.run));
        assert_eq!(book.close(message.run).lines.len(), 1);
        book.received(&message);
        assert_eq!(book.broken.len(), 1, "{:?}", book.broken);
    }
}
