//! Snapshots of a store that has no compression: it keeps none. They are only a cache, so nothing is lost but time.

use dalsegno_core::{Digest, RunId};

use crate::codec::EncodeError;
use crate::run::Snapshot;

/// The place of a snapshot, always empty.
#[derive(Debug, Clone)]
pub(crate) struct StoredSnapshot {
    pub(crate) state: Vec<u8>,
}

impl StoredSnapshot {
    /// Drops the snapshot.
    pub(crate) fn seal(
        _: RunId,
        _: Snapshot,
        _: &mut dyn FnMut(Digest) -> bool,
    ) -> Result<Self, EncodeError> {
        Ok(Self { state: Vec::new() })
    }

    /// Finds none.
    pub(crate) fn open(
        &self,
        _: RunId,
        _: u64,
        _: &mut dyn FnMut(Digest) -> Option<Vec<u8>>,
    ) -> Option<Snapshot> {
        None
    }
}
