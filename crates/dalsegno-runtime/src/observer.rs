//! Whoever watches what an engine writes down.

use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{AgentConfig, AgentState, Live, OperationId, Request, RunId, Timestamp};
use dalsegno_store::{Body, NewRecord, Record, StorageKind};

/// Sees every record of every run that this engine performs, as soon as it is in the journal: for traces and metrics.
///
/// A replay writes nothing, and shows nothing here.
pub trait Observer: Send + Sync + 'static {
    /// This engine performs a run from now on: from its start, or from where another process left it.
    fn watch(&self, run: &Watched) -> Box<dyn Watch>;

    /// The trace that an operation of a run belongs to, as W3C writes it, for whoever performs the operation elsewhere;
    /// none by default. `root` is the run above it and all others above that.
    fn traceparent(&self, root: RunId, run: RunId, operation: OperationId) -> Option<String> {
        let _ = (root, run, operation);
        None
    }

    /// The records of a run could not be written, and are written again after a pause. `waited` is the time since the first
    /// attempt. The run keeps its effects under way and its ownership.
    fn unwritable(&self, run: RunId, kind: StorageKind, waited: Duration) {
        let _ = (run, kind, waited);
    }

    /// A commit of so many records of a run that goes on took so long; its creation and its handoff are not among them.
    fn committed(&self, records: usize, took: Duration) {
        let _ = (records, took);
    }
}

/// A run that is about to be watched.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The run.
    pub run: RunId,
    /// The run above it and all others above that; the run itself when it is nobody's child.
    pub root: RunId,
    /// The configuration that it is pinned to.
    pub config: Arc<AgentConfig>,
}

/// Sees the records of one run, in their order, until it ends or this engine lets go of it: then it is dropped.
///
/// It is called between a commit and the effects that follow it, so it must not wait for anything.
pub trait Watch: Send + Sync + 'static {
    /// A record is in the journal.
    ///
    /// With a `requested` record comes what its operation asks for, which the journal does not hold since it follows
    /// from a fold.
    fn recorded(&mut self, seq: u64, record: &NewRecord, request: Option<&Request>);

    /// Where a call stands after a record of it: what the live model is asked for, which the journal does not hold since it follows
    /// from a fold.
    fn conversed(&mut self, at: Timestamp, live: &Live) {
        let _ = (at, live);
    }

    /// A record was in the journal when this engine took the run over, and was shown to whoever performed it then. The
    /// first one comes and those since the latest snapshot, so that what is still open in them can be told of when it
    /// ends. `request` is there for what has no outcome yet.
    fn found(&mut self, record: &Record, request: Option<&Request>) {
        let _ = (record, request);
    }
}

/// Those who watch one run.
#[derive(Default)]
pub(crate) struct Watches(Vec<Box<dyn Watch>>);

impl Watches {
    pub(crate) fn of(observers: &[Arc<dyn Observer>], run: &Watched) -> Self {
        Self(observers.iter().map(|observer| observer.watch(run)).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Shows a record of a run that begins.
    pub(crate) fn began(&mut self, seq: u64, record: &NewRecord) {
        self.0.iter_mut().for_each(|watch| watch.recorded(seq, record, None));
    }

    /// Shows a record of a run that now stands at `state`.
    pub(crate) fn recorded(&mut self, seq: u64, record: &NewRecord, state: &AgentState) {
        let request = asked(&record.body, record.operation, state);
        self.0.iter_mut().for_each(|watch| watch.recorded(seq, record, request));
        if let Some(live) = state.live() {
            self.0.iter_mut().for_each(|watch| watch.conversed(record.at, live));
        }
    }

    /// Shows a record that was there before.
    pub(crate) fn found(&mut self, record: &Record, state: &AgentState) {
        let request = asked(&record.body, record.operation, state);
        self.0.iter_mut().for_each(|watch| watch.found(record, request));
    }
}

/// What a `requested` record asks for.
fn asked<'a>(body: &Body, operation: Option<OperationId>, state: &'a AgentState) -> Option<&'a Request> {
    if !matches!(body, Body::Requested { .. }) {
        return None;
    }
    let pending = state.pending().iter().find(|pending| Some(pending.operation.id) == operation);
    pending.map(|pending| &pending.operation.request)
}
