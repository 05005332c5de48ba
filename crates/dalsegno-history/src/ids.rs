//! Ids of runs that follow from others, so that the same run is never made twice.

use dalsegno_core::{OperationId, RunId};

/// The run of a child: the same operation has the same child, however often it is attempted.
pub fn child_run(operation: OperationId) -> RunId {
    derived(b"dalsegno child", operation.as_bytes())
}

/// The run that goes on after a handoff.
pub fn successor_run(run: RunId) -> RunId {
    derived(b"dalsegno handoff", run.as_bytes())
}

/// The run that goes on in the place of a foreign one: the same is adopted once.
pub fn adopted_run(foreign: RunId) -> RunId {
    derived(b"dalsegno adopted", foreign.as_bytes())
}

fn derived(what: &[u8], from: &[u8; 16]) -> RunId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(what).update(from);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    RunId::from_bytes(bytes)
}
