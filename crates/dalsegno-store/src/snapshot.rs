//! The stored form of snapshots. A snapshot is only a cache, so whatever is wrong with one makes it absent.
//!
//! One holds all that was said in a run, most of it much alike, so it is compressed while it is encoded: nobody holds
//! the whole of it twice.

use std::collections::BTreeMap;

use dalsegno_core::{Envelope, RunId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::bytes::Checksum;
use crate::codec::{EncodeError, decode, decode_compressed, encode_compressed};
use crate::run::Snapshot;

/// A snapshot as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredSnapshot {
    pub(crate) seq: u64,
    pub(crate) state: Vec<u8>,
    pub(crate) checksum: Checksum,
}

/// What the bytes of a snapshot hold.
#[derive(Serialize, Deserialize)]
struct Kept {
    envelope: Envelope,
    active_ms: u64,
    modules: BTreeMap<String, String>,
    /// Absent in snapshots of earlier releases, which are as old as their state.
    #[serde(default)]
    at: Option<Timestamp>,
}

impl StoredSnapshot {
    /// Encodes a snapshot.
    pub(crate) fn seal(run: RunId, snapshot: Snapshot) -> Result<Self, EncodeError> {
        let Snapshot { seq, state, at, active_ms, modules } = snapshot;
        let kept = Kept { envelope: Envelope::new(state), active_ms, modules, at: Some(at) };
        let state = encode_compressed("snapshot", &kept)?;
        Ok(Self { seq, checksum: checksum(COMPRESSED, run, seq, &state), state })
    }

    /// Decodes the snapshot of a run with so many records, if it can be trusted.
    pub(crate) fn open(&self, run: RunId, records: u64) -> Option<Snapshot> {
        match self.try_open(run, records) {
            Ok(snapshot) => Some(snapshot),
            Err(reason) => {
                tracing::warn!(%run, seq = self.seq, reason, "a snapshot is ignored; the state is rebuilt from the journal");
                None
            }
        }
    }

    fn try_open(&self, run: RunId, records: u64) -> Result<Snapshot, String> {
        let has = |form| self.checksum == checksum(form, run, self.seq, &self.state);
        let decode = if has(COMPRESSED) {
            decode_compressed
        } else if has(PLAIN) {
            decode
        } else {
            return Err("it does not have its checksum".into());
        };
        if self.seq > records {
            return Err(format!("the run has only {records} records"));
        }
        let Kept { envelope, active_ms, modules, at } =
            decode("snapshot", &self.state).map_err(|error| error.to_string())?;
        let state = envelope.open().map_err(|error| error.to_string())?;
        let at = at.unwrap_or_else(|| state.now());
        Ok(Snapshot { seq: self.seq, state, at, active_ms, modules })
    }
}

/// What the checksum of a snapshot begins with says which form it has: MessagePack as it is, as the first releases wrote
/// it,
const PLAIN: &[u8] = b"segno snapshot 1";
/// or compressed.
const COMPRESSED: &[u8] = b"segno snapshot 2";

fn checksum(form: &[u8], run: RunId, seq: u64, state: &[u8]) -> Checksum {
    let mut hasher = blake3::Hasher::new();
    hasher.update(form).update(run.as_bytes()).update(&seq.to_le_bytes()).update(state);
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    Checksum::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use dalsegno_core::{AgentRequest, AgentState, Timestamp};

    use super::*;
    use crate::codec::encode;

    const RUN: RunId = RunId::from_bytes([7; 16]);

    fn snapshot(text: &str) -> Snapshot {
        let state = AgentState::start(RUN, AgentRequest::text(text), Timestamp::from_millis(5));
        Snapshot { seq: 3, at: Timestamp::from_millis(9), state, active_ms: 250, modules: BTreeMap::new() }
    }

    #[test]
    fn a_snapshot_of_the_first_releases_is_still_read() {
        #[derive(Serialize)]
        struct KeptThen {
            envelope: Envelope,
            active_ms: u64,
            modules: BTreeMap<String, String>,
        }
        let Snapshot { seq, state, at: _, active_ms, modules } = snapshot("x");
        let kept = KeptThen { envelope: Envelope::new(state), active_ms, modules };
        let state = encode("snapshot", &kept).unwrap();
        let stored = StoredSnapshot { seq, checksum: checksum(PLAIN, RUN, seq, &state), state };
        // It did not say when it was saved, and is taken to be as old as its state.
        assert_eq!(stored.open(RUN, 3), Some(Snapshot { at: Timestamp::from_millis(5), ..snapshot("x") }));
    }

    #[test]
    fn a_snapshot_takes_far_less_than_what_it_holds() {
        let text = "all work and no play makes a dull text. ".repeat(10_000);
        let stored = StoredSnapshot::seal(RUN, snapshot(&text)).unwrap();
        assert!(stored.state.len() < text.len() / 100, "{}", stored.state.len());
        assert_eq!(stored.open(RUN, 3), Some(snapshot(&text)));
    }

    #[test]
    fn one_form_is_never_taken_for_the_other() {
        let mut stored = StoredSnapshot::seal(RUN, snapshot("x")).unwrap();
        stored.checksum = checksum(PLAIN, RUN, stored.seq, &stored.state);
        assert_eq!(stored.open(RUN, 3), None);
    }
}
