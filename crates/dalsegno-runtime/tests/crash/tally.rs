//! What came of many kills.

use std::collections::BTreeSet;

use dalsegno_core::EffectClass;

use crate::world::{Life, Said, World};

/// What came of many kills.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) worlds: usize,
    pub(crate) kills: usize,
    pub(crate) said: Said,
    /// The classes of operations that the receiver acted on more than once.
    pub(crate) repeated: BTreeSet<EffectClass>,
    /// Calls that reached the receiver.
    pub(crate) calls: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, world: &World, lives: &[Life]) {
        let ledger = world.receiver.ledger();
        let repeated = ledger.calls.iter().filter(|call| ledger.acted(call.operation) > 1);
        self.take(Self {
            worlds: 1,
            kills: lives.iter().filter(|life| **life == Life::Killed).count(),
            said: world.said(),
            repeated: repeated.map(|call| call.class).collect(),
            calls: ledger.calls.len(),
        });
    }

    pub(crate) fn take(&mut self, other: Self) {
        self.worlds += other.worlds;
        self.kills += other.kills;
        self.said.approved += other.said.approved;
        self.said.done += other.said.done;
        self.said.not_done += other.said.not_done;
        self.repeated.extend(other.repeated);
        self.calls += other.calls;
    }
}
