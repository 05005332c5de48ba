//! What each tenant may use at most of something that all share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use dalsegno_access::Access;

/// The shares of the tenants that use theirs now; the keys of all tenants have one together.
pub(crate) struct Shares<T>(Mutex<BTreeMap<String, Weak<T>>>);

impl<T> Default for Shares<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Shares<T> {
    /// The share of a client's tenant. As long as it is in use, it is the same for all; a new one is made by `make`.
    pub(crate) fn of(&self, access: &Access, make: impl FnOnce() -> T) -> Arc<T> {
        // No tenant has this name.
        let name = access.tenant().unwrap_or("*");
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(name).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(make());
        shares.insert(name.to_owned(), Arc::downgrade(&share));
        share
    }
}
