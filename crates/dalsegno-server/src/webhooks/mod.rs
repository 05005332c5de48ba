//! Webhooks that go out: the addresses under `/v1/webhooks`, and the deliveries.

mod deliver;
mod document;
mod payload;
mod routes;

use std::sync::Arc;

use dalsegno_webhooks::{Destinations, OpenError, Sender, WebhookError, WebhookStore};
use tokio::sync::{Notify, Semaphore};

pub(crate) use self::deliver::deliver;
pub use self::document::Webhook;
pub(crate) use self::payload::Envelope;
pub use self::payload::test_message;
pub(crate) use self::routes::routes;
use crate::problem::Problem;

/// Most tests at once: each waits for a receiver.
const TESTS: usize = 8;

/// What the addresses and the deliveries share.
pub(crate) struct Webhooks {
    store: WebhookStore,
    sender: Sender,
    tests: Semaphore,
    /// An endpoint was added or turned on.
    changed: Notify,
}

impl Webhooks {
    pub(crate) fn open(
        place: &std::path::Path,
        settings: &dalsegno_workspace::ServeSettings,
    ) -> Result<Self, OpenError> {
        let store = WebhookStore::open(place)?;
        // Each was read before, by the same rules.
        let listed = settings.webhooks.iter().filter_map(|origin| origin.parse().ok());
        let sender = Sender::new(Destinations::new(listed));
        Ok(Self { store, sender, tests: Semaphore::new(TESTS), changed: Notify::new() })
    }

    /// Uses the file where it may wait for the disk and for other writers.
    pub(crate) async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&WebhookStore) -> Result<T, WebhookError> + Send + 'static,
    ) -> Result<T, Problem> {
        let own = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&own.store)).await;
        Ok(done.map_err(|error| Problem::defect(&error))??)
    }
}
