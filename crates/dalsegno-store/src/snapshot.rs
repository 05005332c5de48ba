//! The stored form of snapshots. A snapshot is only a cache, so whatever is wrong with one makes it absent.
//!
//! A snapshot holds all that was said in a run. It refers, by their digests, to the long texts that the run's records keep
//! as they are. The rest is much alike, and is compressed while it is encoded, so that no second copy of it is in memory.

use std::collections::BTreeMap;

use dalsegno_core::{Digest, Envelope, RunId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::bytes::Checksum;
use crate::codec::{EncodeError, decode};
use crate::run::Snapshot;
use crate::sieve::{Compressed, LeftOut, Written, decode_compressed, encode_compressed};

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
    /// Encodes a snapshot, without the long texts that are kept for as long as the run is: `is_kept` says which are.
    pub(crate) fn seal(
        run: RunId,
        snapshot: Snapshot,
        is_kept: &mut dyn FnMut(Digest) -> bool,
    ) -> Result<Self, EncodeError> {
        let Snapshot { seq, state, at, active_ms, modules } = snapshot;
        let kept = Kept { envelope: Envelope::new(state), active_ms, modules, at: Some(at) };
        let state = lay_out(encode_compressed("snapshot", &kept, is_kept)?);
        Ok(Self { seq, checksum: checksum(REFERRING, run, seq, &state), state })
    }

    /// Decodes the snapshot of a run with so many records, if it can be trusted. `kept` finds the texts that were left
    /// out.
    pub(crate) fn open(
        &self,
        run: RunId,
        records: u64,
        kept: &mut dyn FnMut(Digest) -> Option<Vec<u8>>,
    ) -> Option<Snapshot> {
        match self.try_open(run, records, kept) {
            Ok(snapshot) => Some(snapshot),
            Err(reason) => {
                tracing::warn!(%run, seq = self.seq, reason, "a snapshot is ignored; the state is rebuilt from the journal");
                None
            }
        }
    }

    fn try_open(
        &self,
        run: RunId,
        records: u64,
        kept: &mut dyn FnMut(Digest) -> Option<Vec<u8>>,
    ) -> Result<Snapshot, String> {
        let has = |form| self.checksum == checksum(form, run, self.seq, &self.state);
        let found = if has(REFERRING) {
            let (left_out, bytes) = take_apart(&self.state).ok_or("it has another layout")?;
            decode_compressed("snapshot", bytes, &left_out, kept)
        } else if has(COMPRESSED) {
            decode_compressed("snapshot", &self.state, &[], kept)
        } else if has(PLAIN) {
            decode("snapshot", &self.state)
        } else {
            return Err("it does not have its checksum".into());
        };
        if self.seq > records {
            return Err(format!("the run has only {records} records"));
        }
        let Kept { envelope, active_ms, modules, at } = found.map_err(|error| error.to_string())?;
        let state = envelope.open().map_err(|error| error.to_string())?;
        let at = at.unwrap_or_else(|| state.now());
        Ok(Snapshot { seq: self.seq, state, at, active_ms, modules })
    }
}

/// What the checksum of a snapshot begins with says which form it has: MessagePack as it is, as the first releases wrote
/// it,
const PLAIN: &[u8] = b"segno snapshot 1";
/// the same compressed,
const COMPRESSED: &[u8] = b"segno snapshot 2";
/// or compressed after the list of texts that were left out.
const REFERRING: &[u8] = b"segno snapshot 3";

/// In the place of a text that was left out: it stands in a JSON text. No place is that far from the beginning.
const ESCAPED: u64 = 1 << 63;

/// The number of texts that were left out, the place and the digest of each, and the compressed rest.
fn lay_out(Compressed { left_out, bytes }: Compressed) -> Vec<u8> {
    let mut state = (left_out.len() as u64).to_le_bytes().to_vec();
    for LeftOut { place, digest, written } in left_out {
        let flag = if written == Written::Escaped { ESCAPED } else { 0 };
        state.extend_from_slice(&(place as u64 | flag).to_le_bytes());
        state.extend_from_slice(digest.as_bytes());
    }
    state.extend_from_slice(&bytes);
    state
}

/// What [`lay_out`] put together. None for anything else.
fn take_apart(state: &[u8]) -> Option<(Vec<LeftOut>, &[u8])> {
    let (count, mut rest) = state.split_first_chunk()?;
    let mut left_out = Vec::new();
    for _ in 0..u64::from_le_bytes(*count) {
        let (place, after) = rest.split_first_chunk()?;
        let (digest, after) = after.split_first_chunk()?;
        let place = u64::from_le_bytes(*place);
        let written = if place & ESCAPED == 0 { Written::Plain } else { Written::Escaped };
        let place = usize::try_from(place & !ESCAPED).ok()?;
        left_out.push(LeftOut { place, digest: Digest::from_bytes(*digest), written });
        rest = after;
    }
    Some((left_out, rest))
}

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
    use crate::blob::digest_bytes;
    use crate::codec::encode;

    const RUN: RunId = RunId::from_bytes([7; 16]);

    fn snapshot(text: &str) -> Snapshot {
        let state = AgentState::start(RUN, AgentRequest::text(text), Timestamp::from_millis(5));
        Snapshot { seq: 3, at: Timestamp::from_millis(9), state, active_ms: 250, modules: BTreeMap::new() }
    }

    /// Opens one that refers to nothing.
    fn open(stored: &StoredSnapshot) -> Option<Snapshot> {
        stored.open(RUN, 3, &mut |digest| panic!("{digest} is asked for"))
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
        let plain = encode("snapshot", &kept).unwrap();
        let Compressed { bytes, .. } = encode_compressed("snapshot", &kept, &mut |_| false).unwrap();
        for (form, state) in [(PLAIN, plain), (COMPRESSED, bytes)] {
            let stored = StoredSnapshot { seq, checksum: checksum(form, RUN, seq, &state), state };
            // It did not say when it was saved, and is taken to be as old as its state.
            assert_eq!(open(&stored), Some(Snapshot { at: Timestamp::from_millis(5), ..snapshot("x") }));
        }
    }

    #[test]
    fn a_snapshot_takes_far_less_than_what_it_holds() {
        let text = "all work and no play makes a dull text. ".repeat(10_000);
        let stored = StoredSnapshot::seal(RUN, snapshot(&text), &mut |_| false).unwrap();
        assert!(stored.state.len() < text.len() / 100, "{}", stored.state.len());
        assert_eq!(open(&stored), Some(snapshot(&text)));
    }

    #[test]
    fn a_text_that_the_journal_has_is_found_there_and_nowhere_else() {
        let text: String = (0..20_000).map(|number| format!("{number} ")).collect();
        let digest = digest_bytes(text.as_bytes());
        let stored = StoredSnapshot::seal(RUN, snapshot(&text), &mut |kept| kept == digest).unwrap();
        assert!(stored.state.len() < 1_000, "{}", stored.state.len());
        let from =
            |kept: Option<&str>| stored.open(RUN, 3, &mut |_| kept.map(|kept| kept.as_bytes().to_vec()));
        assert_eq!(from(Some(&text)), Some(snapshot(&text)));
        // Without it there is no snapshot.
        assert_eq!(from(None), None);
        assert_eq!(from(Some("another text")), None);
    }

    #[test]
    fn a_text_that_the_journal_has_as_a_value_is_found_in_a_json_text() {
        let lines: String = (0..5_000).map(|number| format!("line {number}\n")).collect();
        let text = serde_json::json!({ "lines": lines }).to_string();
        let digest = digest_bytes(lines.as_bytes());
        let stored = StoredSnapshot::seal(RUN, snapshot(&text), &mut |kept| kept == digest).unwrap();
        assert!(stored.state.len() < 1_000, "{}", stored.state.len());
        let found = stored.open(RUN, 3, &mut |_| Some(lines.as_bytes().to_vec()));
        assert_eq!(found, Some(snapshot(&text)));
    }

    #[test]
    fn a_layout_that_is_cut_or_that_claims_more_than_there_is_is_no_snapshot() {
        let text = "t".repeat(5_000);
        let mut stored = StoredSnapshot::seal(RUN, snapshot(&text), &mut |_| true).unwrap();
        let whole = std::mem::take(&mut stored.state);
        let mut open = |state: &[u8]| {
            stored.state = state.to_vec();
            stored.checksum = checksum(REFERRING, RUN, stored.seq, state);
            stored.open(RUN, 3, &mut |_| Some(text.as_bytes().to_vec()))
        };
        assert!(open(&whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(open(&whole[..length]), None, "{length}");
        }
        assert_eq!(open(&[&u64::MAX.to_le_bytes(), &whole[8..]].concat()), None);
    }

    #[test]
    fn one_form_is_never_taken_for_the_other() {
        let mut stored = StoredSnapshot::seal(RUN, snapshot("x"), &mut |_| false).unwrap();
        for form in [PLAIN, COMPRESSED] {
            stored.checksum = checksum(form, RUN, stored.seq, &stored.state);
            assert_eq!(open(&stored), None);
        }
    }
}
