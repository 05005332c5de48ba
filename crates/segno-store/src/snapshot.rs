//! The stored form of snapshots. A snapshot is only a cache, so whatever is wrong with one makes it absent.

use std::collections::BTreeMap;

use segno_core::{Envelope, RunId};
use serde::{Deserialize, Serialize};

use crate::bytes::Checksum;
use crate::codec::{EncodeError, decode, encode};
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
}

impl StoredSnapshot {
    /// Encodes a snapshot.
    pub(crate) fn seal(run: RunId, snapshot: Snapshot) -> Result<Self, EncodeError> {
        let Snapshot { seq, state, active_ms, modules } = snapshot;
        let state = encode("snapshot", &Kept { envelope: Envelope::new(state), active_ms, modules })?;
        Ok(Self { seq, checksum: checksum(run, seq, &state), state })
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
        if self.checksum != checksum(run, self.seq, &self.state) {
            return Err("it does not have its checksum".into());
        }
        if self.seq > records {
            return Err(format!("the run has only {records} records"));
        }
        let Kept { envelope, active_ms, modules } =
            decode("snapshot", &self.state).map_err(|error| error.to_string())?;
        let state = envelope.open().map_err(|error| error.to_string())?;
        Ok(Snapshot { seq: self.seq, state, active_ms, modules })
    }
}

fn checksum(run: RunId, seq: u64, state: &[u8]) -> Checksum {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"segno snapshot 1").update(run.as_bytes()).update(&seq.to_le_bytes()).update(state);
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    Checksum::from_bytes(bytes)
}
