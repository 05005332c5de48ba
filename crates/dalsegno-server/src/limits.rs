//! How much a client may ask for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dalsegno_access::Access;
use dalsegno_workspace::ServeSettings;
use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::problem::{Code, Problem, shown};

/// Most addresses and keys that are remembered before those that are idle are forgotten.
const REMEMBERED: usize = 10_000;

/// The longest that a stream of a token is open: no clock counts further.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The open streams by the ids of their keys.
type Streams = Mutex<BTreeMap<String, OfKey>>;

/// The open streams of a key, or of who holds a token.
struct OfKey {
    open: usize,
    /// Whether it is a key, which can be looked up. A token ends by itself.
    is_key: bool,
    /// Whether the key is no longer good.
    is_over: watch::Sender<bool>,
}

type Rates<K> = RateLimiter<K, HashMapStateStore<K>, DefaultClock>;

/// The limits of a server.
pub(crate) struct Limits {
    requests: Rates<String>,
    failures: Rates<IpAddr>,
    streams: Arc<Streams>,
    streams_max: usize,
}

impl Limits {
    pub(crate) fn new(settings: &ServeSettings) -> Self {
        let number = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let (requests, failures) =
            (number(settings.requests_per_minute), number(settings.refusals_per_minute));
        Self {
            requests: RateLimiter::hashmap(Quota::per_minute(requests)),
            failures: RateLimiter::hashmap(Quota::per_minute(failures)),
            streams: Arc::default(),
            streams_max: settings.streams,
        }
    }

    /// Counts a request of a key, or of another credential with a name of its own.
    pub(crate) fn request(&self, key: &str, kind: &str) -> Result<(), Problem> {
        // Only keys that exist are here, so that there are as many as people made; of those whom tokens are about there may be more.
        if self.requests.len() > REMEMBERED {
            self.requests.retain_recent();
            self.requests.shrink_to_fit();
        }
        check(&self.requests, &key.to_owned(), &format!("the {kind} has sent too many requests"))
    }

    /// Refuses an address that showed too many wrong credentials.
    pub(crate) fn failure(&self, address: IpAddr) -> Result<(), Problem> {
        if self.failures.len() > REMEMBERED {
            self.failures.retain_recent();
            self.failures.shrink_to_fit();
        }
        check(
            &self.failures,
            &address,
            "too many requests without a good access key or token came from this address",
        )
    }

    /// Room for a stream of who has this access, `now` in milliseconds since the epoch.
    pub(crate) fn stream(&self, access: &Access, now: u64) -> Result<OpenStream, Problem> {
        let (key, token_ends) = (access.key(), access.token_ends());
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = streams.entry(key.to_owned()).or_insert_with(|| OfKey {
            open: 0,
            is_key: token_ends.is_none(),
            is_over: watch::Sender::new(false),
        });
        if of_key.open >= self.streams_max {
            let detail =
                format!("the {} has {} open streams, which is the maximum", shown(access), self.streams_max);
            return Err(
                Problem::new(Code::TooMany, detail, "close a stream before you open another").retry_after(1)
            );
        }
        of_key.open += 1;
        let is_over = of_key.is_over.subscribe();
        let ends = token_ends
            .map(|ends| Instant::now() + Duration::from_millis(ends.saturating_sub(now)).min(LONGEST));
        Ok(OpenStream { streams: Arc::clone(&self.streams), key: key.to_owned(), is_over, ends })
    }

    /// Ends the streams of keys that are no longer good: one look for each key, however many streams it has.
    pub(crate) fn check_streams(&self, is_good: impl Fn(&str) -> bool) {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, of_key) in streams.iter() {
            if of_key.is_key && !*of_key.is_over.borrow() && !is_good(key) {
                of_key.is_over.send_replace(true);
            }
        }
    }
}

fn check<K: Clone + Eq + std::hash::Hash>(rates: &Rates<K>, key: &K, detail: &str) -> Result<(), Problem> {
    rates.check_key(key).map_err(|refused| {
        let wait = refused.wait_time_from(DefaultClock::default().now());
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Problem::new(Code::TooMany, detail, "send fewer requests, or wait as long as `Retry-After` says")
            .retry_after(seconds.max(1))
    })
}

/// Counts a stream as long as it is open.
pub(crate) struct OpenStream {
    streams: Arc<Streams>,
    key: String,
    is_over: watch::Receiver<bool>,
    /// When the token ends with which it was opened.
    ends: Option<Instant>,
}

impl OpenStream {
    /// Says whether its key or token is no longer good.
    pub(crate) fn is_over(&self) -> bool {
        *self.is_over.borrow() || self.ends.is_some_and(|ends| ends <= Instant::now())
    }

    /// Returns when its key or token is no longer good.
    pub(crate) async fn over(&mut self) {
        // The sender is there as long as a stream of the key is.
        let revoked = self.is_over.wait_for(|is_over| *is_over);
        match self.ends {
            None => drop(revoked.await),
            Some(ends) => drop(tokio::time::timeout_at(ends, revoked).await),
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_key) = streams.get_mut(&self.key) {
            of_key.open -= 1;
            if of_key.open == 0 {
                streams.remove(&self.key);
            }
        }
    }
}
