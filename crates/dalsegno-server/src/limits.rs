//! How much a client may ask for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use dalsegno_workspace::ServeSettings;
use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::problem::{Code, Problem};

/// Credentials that are not good, from one address in a minute.
const FAILURES: NonZeroU32 = NonZeroU32::new(60).expect("not zero");
/// Most addresses and keys that are remembered before those that are idle are forgotten.
const REMEMBERED: usize = 10_000;

type Rates<K> = RateLimiter<K, HashMapStateStore<K>, DefaultClock>;

/// The limits of a server.
pub(crate) struct Limits {
    requests: Rates<String>,
    failures: Rates<IpAddr>,
    streams: Arc<Mutex<BTreeMap<String, usize>>>,
    streams_max: usize,
}

impl Limits {
    pub(crate) fn new(settings: &ServeSettings) -> Self {
        let requests = NonZeroU32::new(settings.requests_per_minute).unwrap_or(NonZeroU32::MIN);
        Self {
            requests: RateLimiter::hashmap(Quota::per_minute(requests)),
            failures: RateLimiter::hashmap(Quota::per_minute(FAILURES)),
            streams: Arc::default(),
            streams_max: settings.streams,
        }
    }

    /// Counts a request of a key.
    pub(crate) fn request(&self, key: &str) -> Result<(), Problem> {
        // Only keys that exist are here, so that there are as many as people made.
        check(&self.requests, key.to_owned(), "the access key has sent too many requests")
    }

    /// Refuses an address that showed too many wrong credentials.
    pub(crate) fn failure(&self, address: IpAddr) -> Result<(), Problem> {
        if self.failures.len() > REMEMBERED {
            self.failures.retain_recent();
            self.failures.shrink_to_fit();
        }
        check(&self.failures, address, "too many requests without a good access key came from this address")
    }

    /// Room for a stream of a key.
    pub(crate) fn stream(&self, key: &str) -> Result<OpenStream, Problem> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let open = streams.entry(key.to_owned()).or_default();
        if *open >= self.streams_max {
            let detail =
                format!("the access key has {} open streams, which is the maximum", self.streams_max);
            return Err(
                Problem::new(Code::TooMany, detail, "close a stream before you open another").retry_after(1)
            );
        }
        *open += 1;
        Ok(OpenStream { streams: Arc::clone(&self.streams), key: key.to_owned() })
    }
}

fn check<K: Clone + Eq + std::hash::Hash>(rates: &Rates<K>, key: K, detail: &str) -> Result<(), Problem> {
    rates.check_key(&key).map_err(|refused| {
        let wait = refused.wait_time_from(DefaultClock::default().now());
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Problem::new(Code::TooMany, detail, "send fewer requests, or wait as long as `Retry-After` says")
            .retry_after(seconds.max(1))
    })
}

/// Counts a stream as long as it is open.
pub(crate) struct OpenStream {
    streams: Arc<Mutex<BTreeMap<String, usize>>>,
    key: String,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = streams.get_mut(&self.key) {
            *open -= 1;
            if *open == 0 {
                streams.remove(&self.key);
            }
        }
    }
}
