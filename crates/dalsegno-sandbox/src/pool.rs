//! Room for instances and calls: how many there may be, and which instance goes when another one needs its place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use dalsegno_protocol::{CallErrorKind, Failure};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::config::Limits;
use crate::instance::Instance;

/// Where an instance is kept between calls.
pub(crate) type Cell = tokio::sync::Mutex<Option<Arc<Slot>>>;

/// What the instances of one server share.
pub(crate) struct Pool {
    calls: Semaphore,
    rooms: Arc<Semaphore>,
    slots: Mutex<Vec<Weak<Slot>>>,
    /// Told when an instance has become idle.
    idle: Arc<Notify>,
    /// The shared instances, by tenant.
    shared: Mutex<BTreeMap<String, Arc<Cell>>>,
}

impl Pool {
    pub(crate) fn new(limits: &Limits) -> Self {
        let count = |limit: usize| limit.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            calls: Semaphore::new(count(limits.concurrency)),
            rooms: Arc::new(Semaphore::new(count(limits.instances))),
            slots: Mutex::default(),
            idle: Arc::default(),
            shared: Mutex::default(),
        }
    }

    /// Waits for a place among the calls at once.
    pub(crate) async fn place(&self, limit: Duration) -> Result<SemaphorePermit<'_>, Failure> {
        match tokio::time::timeout(limit, self.calls.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            // It is never closed.
            Ok(Err(_)) | Err(_) => Err(overloaded("all its calls at once were taken", limit)),
        }
    }

    /// Waits for room for another instance. The one that was idle the longest makes room.
    pub(crate) async fn room(&self, limit: Duration) -> Result<OwnedSemaphorePermit, Failure> {
        let waiting = async {
            loop {
                let idle = self.idle.notified();
                tokio::pin!(idle);
                // From here on nothing is missed.
                idle.as_mut().enable();
                if let Ok(room) = Arc::clone(&self.rooms).try_acquire_owned() {
                    return room;
                }
                if self.retire_one() {
                    continue;
                }
                tokio::select! {
                    () = idle => {}
                    Ok(room) = Arc::clone(&self.rooms).acquire_owned() => return room,
                }
            }
        };
        tokio::time::timeout(limit, waiting)
            .await
            .map_err(|_| overloaded("all instances that it may have were busy", limit))
    }

    /// Keeps an instance, whose place is `room`, and takes it for a call.
    pub(crate) fn keep(&self, instance: Instance, room: OwnedSemaphorePermit) -> Lease {
        let used = Mutex::new(Use { calls: 1, since: Instant::now(), room: Some(room) });
        let slot = Arc::new(Slot { instance, used, idle: Arc::clone(&self.idle) });
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        Lease { slot }
    }

    /// The place of the instance that a tenant's sessions share.
    pub(crate) fn shared(&self, tenant: &str) -> Arc<Cell> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if !shared.contains_key(tenant) {
            // Those of tenants that nobody serves any more, and whose instance made room.
            shared.retain(|_, cell| {
                Arc::strong_count(cell) > 1
                    || cell.try_lock().is_ok_and(|slot| slot.as_ref().is_some_and(|slot| !slot.is_over()))
            });
        }
        Arc::clone(shared.entry(tenant.to_owned()).or_default())
    }

    /// Ends the instance that was idle the longest.
    fn retire_one(&self) -> bool {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = slots.iter().filter_map(Weak::upgrade).filter_map(|slot| {
            let since = slot.idle_since()?;
            Some((!slot.instance.has_ended(), since, slot))
        });
        let longest = idle.min_by_key(|(is_alive, since, _)| (*is_alive, *since));
        drop(slots);
        // Another call may have come meanwhile.
        longest.is_some_and(|(_, _, slot)| slot.retire())
    }
}

fn overloaded(what: &str, limit: Duration) -> Failure {
    Failure::new(CallErrorKind::Overloaded, format!("{what}, and none became free within {limit:?}"))
}

/// An instance with its place.
pub(crate) struct Slot {
    pub(crate) instance: Instance,
    used: Mutex<Use>,
    idle: Arc<Notify>,
}

struct Use {
    calls: usize,
    since: Instant,
    /// The place. An instance without one was given up.
    room: Option<OwnedSemaphorePermit>,
}

impl Slot {
    /// Takes the instance for a call; `None` when it is over.
    pub(crate) fn lease(self: &Arc<Self>) -> Option<Lease> {
        let mut used = self.used();
        if used.room.is_none() || self.instance.has_ended() {
            return None;
        }
        used.calls += 1;
        drop(used);
        Some(Lease { slot: Arc::clone(self) })
    }

    fn is_over(&self) -> bool {
        self.used().room.is_none() || self.instance.has_ended()
    }

    /// Since when nobody has used it; `None` when somebody does, or it was given up.
    fn idle_since(&self) -> Option<Instant> {
        let used = self.used();
        (used.calls == 0 && used.room.is_some()).then_some(used.since)
    }

    /// Gives the instance up, unless somebody uses it.
    fn retire(&self) -> bool {
        let mut used = self.used();
        let room = if used.calls == 0 { used.room.take() } else { None };
        drop(used);
        if room.is_some() {
            self.instance.kill("the instance was idle and made room for another");
        }
        room.is_some()
    }

    fn used(&self) -> MutexGuard<'_, Use> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An instance that is in use for as long as this lives.
pub(crate) struct Lease {
    slot: Arc<Slot>,
}

impl Lease {
    pub(crate) fn instance(&self) -> &Instance {
        &self.slot.instance
    }

    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut used = self.slot.used();
        used.calls -= 1;
        used.since = Instant::now();
        drop(used);
        self.slot.idle.notify_waiters();
    }
}
