//! Whoever watches what an engine writes down.

use std::time::Duration;

use segno_core::RunId;
use segno_store::NewRecord;

/// Sees every record of every run that this engine performs, as soon as it is in the journal: for traces and metrics.
///
/// It is called between a commit and the effects that follow it, so it must not wait for anything. A replay writes
/// nothing, and shows nothing here.
pub trait Observer: Send + Sync + 'static {
    /// A record is in the journal.
    fn recorded(&self, run: RunId, seq: u64, record: &NewRecord);

    /// A commit of so many records took so long.
    fn committed(&self, records: usize, took: Duration) {
        let _ = (records, took);
    }
}
