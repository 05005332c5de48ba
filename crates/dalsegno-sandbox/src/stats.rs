//! The counters of a server.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dalsegno_protocol::{DenialKind, ServerState, ServerStats};

/// What [`ServerStats`] says, while it changes.
#[derive(Default)]
pub(crate) struct Counters {
    instances: AtomicU64,
    started: AtomicU64,
    busy: AtomicU64,
    calls: AtomicU64,
    failures: AtomicU64,
    memory: AtomicUsize,
    memory_peak: AtomicUsize,
    denials: [AtomicU64; DenialKind::ALL.len()],
}

impl Counters {
    pub(crate) fn instance_started(&self) {
        self.instances.fetch_add(1, Ordering::Relaxed);
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn instance_ended(&self, memory: usize) {
        self.instances.fetch_sub(1, Ordering::Relaxed);
        self.memory.fetch_sub(memory, Ordering::Relaxed);
    }

    /// An instance has grown to `memory` bytes.
    pub(crate) fn grown(&self, by: usize, memory: usize) {
        self.memory.fetch_add(by, Ordering::Relaxed);
        self.memory_peak.fetch_max(memory, Ordering::Relaxed);
    }

    pub(crate) fn call_started(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn call_ended(&self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn call_failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn denied(&self, kind: DenialKind) {
        let index = DenialKind::ALL.iter().position(|known| *known == kind);
        if let Some(counter) = index.and_then(|index| self.denials.get(index)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn stats(&self) -> ServerStats {
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let size = |counter: &AtomicUsize| counter.load(Ordering::Relaxed) as u64;
        let (instances, busy) = (number(&self.instances), number(&self.busy));
        let state = match (instances, busy) {
            (_, 1..) => ServerState::Busy,
            (0, 0) => ServerState::Cold,
            (_, 0) => ServerState::Idle,
        };
        let denials = DenialKind::ALL.into_iter().zip(self.denials.iter().map(number));
        ServerStats {
            state,
            instances,
            started: number(&self.started),
            busy,
            calls: number(&self.calls),
            failures: number(&self.failures),
            memory: size(&self.memory),
            memory_peak: size(&self.memory_peak),
            denials: denials.filter(|(_, count)| *count > 0).collect(),
        }
    }
}
