//! A simulated process: what is left of one when it dies is what it wrote and what it sent.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dalsegno_store::{Owner, OwnerId};
use tokio::sync::Notify;

use crate::random::Random;

/// An id that no other owner has, in the order of the processes' numbers: a store finds the runs of dead owners in the order
/// of their ids.
fn owner_id(number: u32) -> OwnerId {
    static OWNERS: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&u64::from(number).to_be_bytes());
    bytes[8..].copy_from_slice(&OWNERS.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    OwnerId::from_bytes(bytes)
}

/// A process. A dead one never gets past its next contact with the world outside it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) number: u32,
    alive: AtomicBool,
    /// Its lock. It is dropped when the process dies, whatever still holds the engine.
    owner: Mutex<Option<Owner>>,
    /// Writes until it dies by itself; negative when it does not.
    writes_left: AtomicI64,
    /// Something went wrong for it.
    hurt: AtomicBool,
    died: Notify,
    /// It is stopped, as by SIGSTOP: it holds its lock and does nothing.
    frozen: AtomicBool,
    thawed: Notify,
    random: Mutex<Random>,
    /// Nothing ever goes wrong for it: it belongs to the simulation itself.
    pub(crate) outside: bool,
}

impl Process {
    pub(crate) fn new(number: u32, seed: u64, writes: Option<i64>) -> Self {
        Self {
            number,
            alive: AtomicBool::new(true),
            owner: Mutex::new(Some(Owner::in_process_as(owner_id(number)))),
            writes_left: AtomicI64::new(writes.unwrap_or(-1)),
            hurt: AtomicBool::new(false),
            died: Notify::new(),
            frozen: AtomicBool::new(false),
            thawed: Notify::new(),
            random: Mutex::new(Random::new(seed, &format!("process {number}"))),
            outside: false,
        }
    }

    /// The process of the simulation itself, which only reads.
    pub(crate) fn outside() -> Self {
        Self { outside: true, ..Self::new(0, 0, None) }
    }

    pub(crate) fn random(&self) -> MutexGuard<'_, Random> {
        self.random.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }

    /// It holds its lock: nobody else may take its runs.
    pub(crate) fn holds_lock(&self) -> bool {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn kill(&self) {
        self.alive.store(false, Ordering::SeqCst);
        self.thawed.notify_waiters();
        self.lose_lock();
        self.died.notify_waiters();
    }

    pub(crate) fn lose_lock(&self) {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(crate) fn hurt(&self) {
        self.hurt.store(true, Ordering::SeqCst);
    }

    /// Something went wrong for it: what it could not do is no fault of its own.
    pub(crate) fn is_hurt(&self) -> bool {
        self.hurt.load(Ordering::SeqCst)
    }

    /// Counts a write, and says whether the process dies at it.
    pub(crate) fn dies_now(&self) -> bool {
        let left = self.writes_left.load(Ordering::SeqCst);
        if left >= 0 {
            self.writes_left.store(left - 1, Ordering::SeqCst);
        }
        left == 0
    }

    /// It does not die by itself any more.
    pub(crate) fn spare(&self) {
        self.writes_left.store(-1, Ordering::SeqCst);
    }

    /// Stops the process until it is thawed; it keeps its lock.
    pub(crate) fn freeze(&self) {
        self.frozen.store(true, Ordering::SeqCst);
    }

    pub(crate) fn thaw(&self) {
        self.frozen.store(false, Ordering::SeqCst);
        self.thawed.notify_waiters();
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::SeqCst)
    }

    /// Goes on while the process lives, waits while it is frozen, and never goes on if it is dead.
    pub(crate) async fn breathe(&self) {
        loop {
            let thawed = self.thawed.notified();
            if !self.is_alive() {
                std::future::pending::<()>().await;
            }
            if !self.is_frozen() {
                return;
            }
            thawed.await;
        }
    }

    /// Waits until it is dead.
    pub(crate) async fn gone(&self) {
        loop {
            let died = self.died.notified();
            if !self.is_alive() {
                return;
            }
            died.await;
        }
    }
}
