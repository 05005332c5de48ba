//! Whose turn it is to refresh an access: of this process, one at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use dalsegno_core::Timestamp;

/// Who refreshes in this process: one for each access.
#[derive(Default)]
pub(crate) struct Refreshes(Mutex<BTreeMap<String, Arc<Turn>>>);

/// The turn to refresh an access, with the times at which a refusal was the reason for it.
pub(crate) type Turn = tokio::sync::Mutex<Vec<Timestamp>>;

impl Refreshes {
    /// The turn of an access, by its name.
    pub(crate) fn of(&self, name: &str) -> Arc<Turn> {
        // Bounded by the documents and tenants of the workspace.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(name.to_owned()).or_default())
    }
}
