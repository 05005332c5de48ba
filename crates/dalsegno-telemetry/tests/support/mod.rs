//! Journals made by hand or at random, and what must come of them by another way of counting.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod collector;
pub(crate) mod journal;
pub(crate) mod oracle;

use std::sync::Arc;

use dalsegno_core::RunId;
use dalsegno_store::NewRecord;
use dalsegno_telemetry::{Entry, Projector, ProjectorOptions, Span};

/// All spans of a journal.
pub(crate) fn project(run: RunId, records: &[NewRecord]) -> Vec<Span> {
    let projector = Projector::new(run, Arc::new(ProjectorOptions::default()), None);
    feed(projector, records)
}

/// All spans that a projector makes of a journal.
pub(crate) fn feed(mut projector: Projector, records: &[NewRecord]) -> Vec<Span> {
    let entries = records.iter().enumerate().map(|(seq, record)| Entry::new(seq as u64, record));
    entries.flat_map(|entry| projector.observe(entry)).collect()
}
