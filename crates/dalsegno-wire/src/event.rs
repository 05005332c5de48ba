//! A run's journal as programs read it: one event for each record.

use std::collections::BTreeMap;

use dalsegno_core::{OperationId, RunId, Timestamp};
use dalsegno_store::{Body, NewRecord, Record, RecordKind};
use serde::Serialize;
use serde_json::Value;

#[cfg(feature = "openapi")]
use crate::schema;
use crate::time;

/// One record, as programs read it. The keys are a promise.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// The run.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RunId))]
    run_id: RunId,
    /// The sequence number of the record, from 0.
    seq: u64,
    /// The step that it belongs to, from 1.
    step: u64,
    /// What it says.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RecordKind))]
    kind: RecordKind,
    /// The operation that it is about.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::OperationId>, required))]
    operation: Option<OperationId>,
    /// The operation that this one is a part of.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::OperationId>, required))]
    parent: Option<OperationId>,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Time))]
    time: String,
    /// What the record says, in the form in which the journal has it.
    data: Value,
}

impl Event {
    /// Says whether it belongs to this step.
    pub fn is_of(&self, step: u64) -> bool {
        self.step == step
    }
}

/// A record, wherever it comes from.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'r> {
    seq: u64,
    at: Timestamp,
    operation: Option<OperationId>,
    parent: Option<OperationId>,
    body: &'r Body,
}

impl<'r> Entry<'r> {
    /// A record that was just appended at this place.
    pub fn appended(seq: u64, record: &'r NewRecord) -> Self {
        let NewRecord { at, operation, parent, body, files: _ } = record;
        Self { seq, at: *at, operation: *operation, parent: *parent, body }
    }
}

impl<'r> From<&'r Record> for Entry<'r> {
    fn from(record: &'r Record) -> Self {
        let Record { seq, at, operation, parent, body, .. } = record;
        Self { seq: *seq, at: *at, operation: *operation, parent: *parent, body }
    }
}

/// Turns records into events, in the order of the journal.
#[derive(Debug)]
pub struct Events {
    run: RunId,
    steps: BTreeMap<OperationId, u64>,
    step: u64,
    /// The step of the latest request is known.
    is_known: bool,
    next: u64,
}

impl Events {
    /// The events of a run, from its first record on.
    pub fn new(run: RunId) -> Self {
        Self { run, steps: BTreeMap::new(), step: 0, is_known: true, next: 0 }
    }

    /// The events of a run from this sequence number on. What stands before is given to [`recall`](Self::recall), the latest
    /// record first, until [`is_ready_for`](Self::is_ready_for) says that it is enough.
    pub fn from(run: RunId, next: u64) -> Self {
        Self { is_known: next == 0, next, ..Self::new(run) }
    }

    /// Says whether the step of a record is known.
    pub fn is_ready_for(&self, record: &Record) -> bool {
        match record.operation {
            _ if matches!(record.body, Body::Requested { .. }) => true,
            Some(operation) => self.steps.contains_key(&operation),
            None => self.is_known,
        }
    }

    /// Takes note of a record that stands before those that were given, and after those that will be.
    pub fn recall(&mut self, record: &Record) {
        if let (Body::Requested { step, .. }, Some(operation)) = (&record.body, record.operation) {
            self.steps.entry(operation).or_insert(*step);
            if !std::mem::replace(&mut self.is_known, true) {
                self.step = *step;
            }
        }
    }

    /// The run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The sequence number of the record that comes next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The event of a record; the step of an operation is known from its request.
    pub fn event(&mut self, entry: Entry<'_>) -> Event {
        self.next = entry.seq + 1;
        if let (Body::Requested { step, .. }, Some(operation)) = (entry.body, entry.operation) {
            (self.step, self.is_known) = (*step, true);
            self.steps.insert(operation, *step);
        }
        let step = entry.operation.and_then(|operation| self.steps.get(&operation)).copied();
        Event {
            run_id: self.run,
            seq: entry.seq,
            step: step.unwrap_or(self.step),
            kind: entry.body.kind(),
            operation: entry.operation,
            parent: entry.parent,
            time: time::exact(entry.at),
            data: data(entry.body),
        }
    }

    /// The events of a whole journal.
    pub fn of(run: RunId, records: &[Record]) -> impl Iterator<Item = Event> {
        let mut events = Self::new(run);
        records.iter().map(move |record| events.event(record.into()))
    }
}

/// What a body says, without its kind.
fn data(body: &Body) -> Value {
    match serde_json::to_value(body) {
        Ok(Value::Object(kinds)) => kinds.into_iter().next().map_or(Value::Null, |(_, data)| data),
        // A body without fields is only its kind. What has no JSON form, such as a key that is no text, is not shown.
        Ok(_) | Err(_) => Value::Null,
    }
}
