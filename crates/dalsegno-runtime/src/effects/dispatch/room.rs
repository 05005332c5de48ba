//! Room for effects: in the process, for a tenant, for a receiver. An effect starts when all three have room for it.
//!
//! One lock guards all counts, and nobody holds a part of what they need while they wait for the rest: so nobody waits in
//! a circle, and what one effect waits for keeps no other one waiting.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// How many effects may be under way at once.
#[derive(Debug)]
pub(super) struct Room {
    process: usize,
    tenant: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// Only of those with effects under way, since tenants are named by requests.
    tenants: BTreeMap<String, usize>,
    /// In the order in which they came.
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    receiver: Arc<Receiver>,
    tenant: String,
    sender: oneshot::Sender<Held>,
}

/// Whoever effects are for, with its own limit.
#[derive(Debug)]
pub(super) struct Receiver {
    limit: usize,
    /// Changed under the lock of the room only.
    under_way: AtomicUsize,
}

impl Receiver {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, under_way: AtomicUsize::new(0) }
    }
}

/// The room of one effect, until it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    room: Arc<Room>,
    receiver: Arc<Receiver>,
    tenant: String,
}

impl Room {
    pub(super) fn new(process: usize, tenant: usize) -> Arc<Self> {
        Arc::new(Self { process, tenant, state: Mutex::default() })
    }

    /// Effects under way.
    pub(super) fn under_way(&self) -> usize {
        self.state().under_way
    }

    /// Takes room, if there is some now.
    pub(super) fn take(self: &Arc<Self>, receiver: &Arc<Receiver>, tenant: &str) -> Option<Held> {
        let mut state = self.state();
        self.fits(&state, receiver, tenant).then(|| self.hold(&mut state, receiver, tenant))
    }

    /// Waits for room, behind those who wait already as far as they need the same.
    pub(super) fn wait(self: &Arc<Self>, receiver: &Arc<Receiver>, tenant: &str) -> oneshot::Receiver<Held> {
        let (sender, waits) = oneshot::channel();
        let mut state = self.state();
        // Those who gave up.
        state.waiting.retain(|waiter| !waiter.sender.is_closed());
        if self.fits(&state, receiver, tenant) {
            let held = self.hold(&mut state, receiver, tenant);
            drop(state);
            // The other end is here.
            let _ = sender.send(held);
        } else {
            let (receiver, tenant) = (Arc::clone(receiver), tenant.to_owned());
            state.waiting.push_back(Waiter { receiver, tenant, sender });
        }
        waits
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fits(&self, state: &State, receiver: &Receiver, tenant: &str) -> bool {
        state.under_way < self.process
            && state.tenants.get(tenant).is_none_or(|tenant| *tenant < self.tenant)
            && receiver.under_way.load(Ordering::Relaxed) < receiver.limit
    }

    fn hold(self: &Arc<Self>, state: &mut State, receiver: &Arc<Receiver>, tenant: &str) -> Held {
        state.under_way += 1;
        *state.tenants.entry(tenant.to_owned()).or_default() += 1;
        receiver.under_way.fetch_add(1, Ordering::Relaxed);
        Held { room: Arc::clone(self), receiver: Arc::clone(receiver), tenant: tenant.to_owned() }
    }

    /// Lets those start for whom there is room now.
    fn wake(self: &Arc<Self>) {
        let mut starting = Vec::new();
        let mut state = self.state();
        for waiter in std::mem::take(&mut state.waiting) {
            if waiter.sender.is_closed() {
                continue;
            }
            if self.fits(&state, &waiter.receiver, &waiter.tenant) {
                let held = self.hold(&mut state, &waiter.receiver, &waiter.tenant);
                starting.push((waiter.sender, held));
            } else {
                state.waiting.push_back(waiter);
            }
        }
        drop(state);
        for (sender, held) in starting {
            // Of one who gave up just now, the room is free again.
            let _ = sender.send(held);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.room.state();
        state.under_way -= 1;
        self.receiver.under_way.fetch_sub(1, Ordering::Relaxed);
        if let Some(tenant) = state.tenants.get_mut(&self.tenant) {
            *tenant -= 1;
            if *tenant == 0 {
                state.tenants.remove(&self.tenant);
            }
        }
        let anybody = !state.waiting.is_empty();
        drop(state);
        if anybody {
            self.room.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_for_something_else_keeps_nobody_waiting() {
        let room = Room::new(3, 2);
        let (slow, other) = (Arc::new(Receiver::new(1)), Arc::new(Receiver::new(9)));
        let first = room.take(&slow, "a").unwrap();
        assert!(room.take(&slow, "a").is_none());
        let mut waits = room.wait(&slow, "a");
        // The same tenant has room elsewhere, and other tenants have it as well.
        let second = room.take(&other, "a").unwrap();
        assert!(room.take(&other, "a").is_none(), "a tenant has room for two");
        let third = room.take(&other, "b").unwrap();
        assert!(room.take(&other, "c").is_none(), "the process has room for three");
        assert_eq!(room.under_way(), 3);
        drop(first);
        let fourth = waits.try_recv().unwrap();
        drop((second, third, fourth));
        assert_eq!(room.under_way(), 0);
        assert!(room.state().tenants.is_empty());
    }

    #[test]
    fn those_who_wait_for_the_same_start_in_their_order_and_those_who_gave_up_not_at_all() {
        let room = Room::new(9, 9);
        let receiver = Arc::new(Receiver::new(1));
        let held = room.take(&receiver, "a").unwrap();
        let mut waits: Vec<_> = (0..4).map(|_| room.wait(&receiver, "a")).collect();
        // The first gives up, and the second right when it is its turn.
        drop(waits.remove(0));
        drop(held);
        let granted = waits.remove(0);
        assert!(waits.iter_mut().all(|waits| waits.try_recv().is_err()));
        drop(granted);
        let third = waits[0].try_recv().unwrap();
        assert!(waits[1].try_recv().is_err());
        drop(third);
        assert!(waits[1].try_recv().is_ok());
        assert_eq!(room.under_way(), 0);
    }
}
