//! What the transport of a connection and its callers share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dalsegno_protocol::{CallErrorKind, Failure, Received};
use rmcp::model::RequestId;
use tokio::sync::watch;

/// The state of a connection.
pub(crate) struct Wire {
    /// Why the connection is over; set once.
    failure: watch::Sender<Option<Failure>>,
    /// The requests of which something may have reached the server.
    sent: Mutex<HashMap<RequestId, Received>>,
    /// Why single requests failed, where the transport knows more than the client.
    reasons: Mutex<HashMap<RequestId, Failure>>,
    /// Messages that came from the server.
    heard: AtomicU64,
}

impl Wire {
    pub(crate) fn new() -> Self {
        Self {
            failure: watch::Sender::new(None),
            sent: Mutex::default(),
            reasons: Mutex::default(),
            heard: AtomicU64::new(0),
        }
    }

    /// Ends the connection. The first cause stays.
    pub(crate) fn fail(&self, failure: Failure) {
        self.failure.send_if_modified(|known| {
            let first = known.is_none();
            if first {
                tracing::debug!(kind = ?failure.kind, message = %failure.message, "connection ended");
                *known = Some(failure);
            }
            first
        });
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.borrow().clone()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Waits until the connection is over.
    pub(crate) async fn failed(&self) -> Failure {
        let mut failure = self.failure.subscribe();
        match failure.wait_for(Option::is_some).await {
            Ok(failure) => failure.clone().unwrap_or_else(lost),
            Err(_) => lost(),
        }
    }

    /// Notes that something of a request may reach the server from here on.
    pub(crate) fn begin(&self, id: &RequestId) {
        locked(&self.sent).insert(id.clone(), Received::Possibly);
    }

    /// How many requests are on their way, or wait for their answer.
    pub(crate) fn under_way(&self) -> usize {
        locked(&self.sent).len()
    }

    /// Takes that back: nothing of it was sent, or the server said that it did not take it.
    pub(crate) fn take_back(&self, id: &RequestId) {
        locked(&self.sent).remove(id);
    }

    /// Notes why a request failed.
    pub(crate) fn explain(&self, id: &RequestId, failure: Failure) {
        locked(&self.reasons).insert(id.clone(), failure);
    }

    /// What is known of a request that is over, which is forgotten with that.
    pub(crate) fn settle(&self, id: &RequestId) -> (Received, Option<Failure>) {
        let received = locked(&self.sent).remove(id).unwrap_or(Received::No);
        (received, locked(&self.reasons).remove(id))
    }

    /// The reason why any request failed so far, for a handshake, whose requests have ids that nobody sees.
    pub(crate) fn any_reason(&self) -> Option<Failure> {
        locked(&self.reasons).drain().next().map(|(_, failure)| failure)
    }

    pub(crate) fn hear(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn lost() -> Failure {
    Failure::new(CallErrorKind::Closed, "the connection to the server was lost")
}
