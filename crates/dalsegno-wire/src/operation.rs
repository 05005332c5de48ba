//! What the records of one operation say about it.

use std::collections::BTreeMap;
use std::time::Duration;

use dalsegno_core::OperationId;
use dalsegno_store::{Body, Record, Start};

/// The number of attempts that were made, from the records of an operation.
pub fn attempts<'r>(records: impl Iterator<Item = &'r Record>) -> u32 {
    let made = records.filter_map(|record| match record.body {
        Body::Requested { start: Start::Now, .. } => Some(1),
        Body::Attempted { attempt, start: Start::Now, .. } => Some(attempt),
        Body::Resolved { attempts, .. } => Some(attempts),
        _ => None,
    });
    made.max().unwrap_or_default()
}

/// How long an operation took from its first attempt on, from its records; none while it has no outcome.
pub fn elapsed<'r>(records: impl DoubleEndedIterator<Item = &'r Record>) -> Option<Duration> {
    records.rev().find_map(|record| match record.body {
        Body::Resolved { elapsed_ms, .. } => Some(Duration::from_millis(elapsed_ms)),
        _ => None,
    })
}

/// The records of a run by the operation that they are about.
pub(crate) fn by_operation(records: &[Record]) -> BTreeMap<OperationId, Vec<&Record>> {
    let mut sorted: BTreeMap<OperationId, Vec<&Record>> = BTreeMap::new();
    for record in records {
        if let Some(operation) = record.operation {
            sorted.entry(operation).or_default().push(record);
        }
    }
    sorted
}
