//! One document at a time for each key: to check one reads the whole workspace, and no client takes that time from the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use dalsegno_access::Access;
use tokio::sync::OwnedMutexGuard;

/// The keys that have a document worked on.
#[derive(Default)]
pub(crate) struct Turns {
    of_key: Mutex<BTreeMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

impl Turns {
    /// Waits until no other document of this key is worked on. The turn ends when the result is dropped.
    pub(crate) async fn of(&self, access: &Access) -> OwnedMutexGuard<()> {
        self.lock(access.key()).lock_owned().await
    }

    fn lock(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut of_key = self.of_key.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of keys that wait for nothing are let go.
        of_key.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = of_key.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::default();
        of_key.insert(key.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_waits_for_itself_and_for_no_other() {
        let turns = Turns::default();
        let first = turns.lock("one").try_lock_owned().unwrap();
        assert!(turns.lock("one").try_lock_owned().is_err());
        drop(turns.lock("two").try_lock_owned().unwrap());
        drop(first);
        drop(turns.lock("one").try_lock_owned().unwrap());
        turns.lock("three");
        assert!(turns.of_key.lock().unwrap().len() <= 1, "nothing stays of keys that wait for nothing");
    }
}
