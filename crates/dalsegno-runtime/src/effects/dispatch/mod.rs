//! Whether an effect may start now: limits for the process, for each tenant and for each tool server, model or tool in
//! process, bounded queues behind them, and a circuit breaker for each of these and each tenant.
//!
//! Whoever may start holds a [`Permit`] until the effect is over. A caller that has to wait has written down that it
//! does: an effect that never started is in nobody's doubt.

mod breaker;
mod cache;
mod room;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dalsegno_core::Received;
use dalsegno_core::{Failure, FailureCode, Outcome, Request};
use dalsegno_workspace::DispatchSettings;
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::breaker::{Breaker, BreakerDecision, BreakerSettings, CallEnd, Turn};
pub(crate) use self::cache::{CacheKey, ResultCache};
use self::room::{Held, Receiver, Room};
use crate::effects::failure::AttemptError;
use crate::effects::policy;

/// Whoever performs effects, seen from here: each has a queue and a breaker of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A model of dalsegno.toml.
    Model(String),
    /// A tool server of dalsegno.toml.
    Server(String),
    /// A tool that is registered in process.
    Tool(String),
    /// The workspace's memory.
    Memory,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(name) => write!(f, "the model `{name}`"),
            Self::Server(name) => write!(f, "the tool server `{name}`"),
            Self::Tool(name) => write!(f, "the tool `{name}`"),
            Self::Memory => f.write_str("the memory"),
        }
    }
}

/// What the effects of a process are up against, as of now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Load {
    /// Effects under way.
    pub under_way: usize,
    /// Effects that wait for others to end.
    pub queued: usize,
    /// Whose circuit breaker is open, for one tenant at least.
    pub open: Vec<String>,
}

/// Lets effects start.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    settings: DispatchSettings,
    /// Limits of single servers and models.
    limits: BTreeMap<Target, usize>,
    room: Arc<Room>,
    lanes: Mutex<BTreeMap<Target, Arc<Lane>>>,
    pub(crate) cache: ResultCache,
}

#[derive(Debug)]
struct Lane {
    target: Target,
    receiver: Arc<Receiver>,
    /// How many effects of each tenant wait; only of those that have some.
    waiting: Mutex<BTreeMap<String, usize>>,
    settings: BreakerSettings,
    /// The breaker of each tenant, so that the failures of one stop no other; only those that know of failures.
    breakers: Mutex<BTreeMap<String, Breaker>>,
}

impl Lane {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place in the tenant's own part of the queue, unless that is full.
    fn queue(self: Arc<Self>, tenant: &str, most: usize) -> Result<Place, Arc<Self>> {
        let mut waiting = self.waiting();
        let count = waiting.get(tenant).copied().unwrap_or(0);
        if count >= most {
            drop(waiting);
            return Err(self);
        }
        waiting.insert(tenant.to_owned(), count + 1);
        drop(waiting);
        Ok(Place { lane: self, tenant: tenant.to_owned() })
    }

    fn breakers(&self) -> MutexGuard<'_, BTreeMap<String, Breaker>> {
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the tenant's breaker; returns whether the call is its probe.
    fn pass(&self, tenant: &str) -> Result<bool, AttemptError> {
        let decision = self.breakers().get_mut(tenant).map(|breaker| breaker.admit(Instant::now()));
        match decision {
            None | Some(BreakerDecision::Pass) => Ok(false),
            Some(BreakerDecision::Probe) => Ok(true),
            Some(BreakerDecision::Wait { left, failures }) => Err(self.refusal(left, failures)),
        }
    }

    /// Refuses when the tenant's breaker lets nothing through now.
    fn closed(&self, tenant: &str) -> Result<(), AttemptError> {
        let pause = self.breakers().get(tenant).and_then(|breaker| breaker.pause(Instant::now()));
        match pause {
            None => Ok(()),
            Some((left, failures)) => Err(self.refusal(left, failures)),
        }
    }

    /// Says whether the breaker of a tenant is open.
    fn is_open(&self) -> bool {
        self.breakers().values().any(Breaker::is_open)
    }

    /// Takes the end of a call of a tenant; returns whether its breaker has opened or closed by it.
    fn ended(&self, tenant: &str, probe: bool, end: CallEnd) -> Option<Turn> {
        let mut breakers = self.breakers();
        if end != CallEnd::Failed && !breakers.contains_key(tenant) {
            return None;
        }
        let breaker = breakers.entry(tenant.to_owned()).or_insert_with(|| Breaker::new(self.settings));
        let turn = breaker.ended(Instant::now(), probe, end);
        if breaker.is_clear() {
            breakers.remove(tenant);
        }
        turn
    }

    fn refusal(&self, left: Duration, failures: u32) -> AttemptError {
        let (target, left_ms) = (&self.target, left.as_millis());
        let message =
            format!("{target} is not asked for another {left_ms} ms: it failed {failures} times in a row");
        refused(FailureCode::Unavailable, message, Some(left))
    }
}

/// The right to perform an effect, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    lane: Arc<Lane>,
    tenant: String,
    probe: bool,
    end: CallEnd,
    _held: Held,
}

impl Permit {
    /// Takes what came of the effect.
    pub(crate) fn settle(mut self, result: &Result<Outcome, AttemptError>) {
        self.end = match result {
            // Somebody is there, and says that they cannot work now.
            Ok(Outcome::ApiAnswered(response)) if policy::is_overload(response) => CallEnd::Failed,
            Ok(_) => CallEnd::Worked,
            Err(error) if error.is_under_way => CallEnd::Worked,
            Err(error) if error.transient || error.failure.code == FailureCode::Timeout => CallEnd::Failed,
            // Nobody was asked: something of our own is missing.
            Err(error) if error.received == Received::No && error.failure.code != FailureCode::ToolFailed => {
                CallEnd::Unknown
            }
            // Whoever refuses is there.
            Err(_) => CallEnd::Worked,
        };
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.end = CallEnd::Failed;
        }
        let (target, tenant) = (&self.lane.target, &self.tenant);
        match self.lane.ended(tenant, self.probe, self.end) {
            Some(Turn::Opened { pause, failures }) => {
                let pause_ms = pause.as_millis();
                tracing::warn!(%target, tenant, failures, pause_ms, "it failed too often in a row and is not asked for a while");
            }
            Some(Turn::Closed) => tracing::info!(%target, tenant, "it answers again"),
            None => {}
        }
    }
}

/// What an effect is told that wants to start.
pub(crate) enum Admission {
    /// It may.
    Now(Permit),
    /// It may when this is done.
    Later(Wait),
    /// It may not; nothing was sent.
    Refused(AttemptError),
}

/// A place in a queue.
#[derive(Debug)]
pub(crate) struct Wait {
    place: Place,
    turn: oneshot::Receiver<Held>,
}

/// A place is given back when nobody waits on it any more.
#[derive(Debug)]
struct Place {
    lane: Arc<Lane>,
    tenant: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.lane.waiting();
        match waiting.get_mut(&self.tenant) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(waiting.remove(&self.tenant)),
        }
    }
}

impl Wait {
    /// Waits until the effect may start. Nothing is held meanwhile.
    pub(crate) async fn admitted(self) -> Result<Permit, AttemptError> {
        let closed = |_| refused(FailureCode::Unavailable, "the engine stops".to_owned(), None);
        let held = self.turn.await.map_err(closed)?;
        let (lane, tenant) = (Arc::clone(&self.place.lane), self.place.tenant.clone());
        let probe = lane.pass(&tenant)?;
        Ok(Permit { lane, tenant, probe, end: CallEnd::Unknown, _held: held })
    }
}

impl Dispatcher {
    pub(crate) fn new(settings: DispatchSettings, limits: BTreeMap<Target, usize>) -> Self {
        Self {
            room: Room::new(settings.concurrency, settings.tenant_concurrency),
            settings,
            limits,
            lanes: Mutex::default(),
            cache: ResultCache::default(),
        }
    }

    /// Asks whether an effect may start.
    pub(crate) fn admit(&self, target: &Target, tenant: &str) -> Admission {
        let lane = self.lane(target);
        if let Some(held) = self.room.take(&lane.receiver, tenant) {
            return match lane.pass(tenant) {
                Ok(probe) => Admission::Now(Permit {
                    lane,
                    tenant: tenant.to_owned(),
                    probe,
                    end: CallEnd::Unknown,
                    _held: held,
                }),
                Err(error) => Admission::Refused(error),
            };
        }
        // One that would be refused in the end does not wait for that.
        if let Err(error) = lane.closed(tenant) {
            return Admission::Refused(error);
        }
        let place = match lane.queue(tenant, self.settings.queue) {
            Ok(place) => place,
            Err(lane) => {
                let message = format!(
                    "{} is overloaded: {} effects wait for it already",
                    lane.target, self.settings.queue
                );
                return Admission::Refused(refused(FailureCode::Overloaded, message, None));
            }
        };
        let turn = self.room.wait(&place.lane.receiver, tenant);
        Admission::Later(Wait { place, turn })
    }

    /// Waits until there is room for an effect; none is needed for what the driver does itself.
    ///
    /// # Errors
    /// When the queue is full, or the circuit breaker of its target is open: nothing was sent.
    pub(crate) async fn room(
        &self,
        target: Option<&Target>,
        tenant: &str,
    ) -> Result<Option<Permit>, AttemptError> {
        let Some(target) = target else { return Ok(None) };
        match self.admit(target, tenant) {
            Admission::Now(permit) => Ok(Some(permit)),
            Admission::Later(wait) => wait.admitted().await.map(Some),
            Admission::Refused(error) => Err(error),
        }
    }

    /// What is under way, and what waits.
    pub(crate) fn load(&self) -> Load {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        Load {
            under_way: self.room.under_way(),
            queued: lanes.values().map(|lane| lane.waiting().values().sum::<usize>()).sum(),
            open: lanes.values().filter(|lane| lane.is_open()).map(|lane| lane.target.to_string()).collect(),
        }
    }

    fn lane(&self, target: &Target) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes.entry(target.clone()).or_insert_with(|| {
            let limit = self.limits.get(target).copied().unwrap_or(self.settings.concurrency);
            let breaker = BreakerSettings {
                failures: self.settings.breaker_failures,
                cool_down: self.settings.breaker_cool_down,
            };
            Arc::new(Lane {
                target: target.clone(),
                receiver: Arc::new(Receiver::new(limit)),
                waiting: Mutex::default(),
                settings: breaker,
                breakers: Mutex::default(),
            })
        });
        Arc::clone(lane)
    }
}

/// Who performs a request; none for what the driver does itself.
pub(crate) fn target(request: &Request, model: Option<&str>, in_process: bool) -> Option<Target> {
    match request {
        Request::ModelCompletion(_) => model.map(|model| Target::Model(model.to_owned())),
        Request::MemorySearch(_) | Request::MemoryCreate(_) | Request::MemoryTraverse(_) => {
            Some(Target::Memory)
        }
        Request::ToolCall(call) if in_process => Some(Target::Tool(call.tool_name.to_string())),
        Request::ToolCall(call) => {
            let server = call.tool_name.as_str().split('.').next().unwrap_or_default();
            Some(Target::Server(server.to_owned()))
        }
        Request::ApiCall(call) => Some(Target::Server(receiver(&call.url.to_string()))),
        Request::Email(mail) => Some(Target::Server(format!("{}:{}", mail.host, mail.port))),
        // Whoever carries the call asks its provider, at most for one transfer at a time.
        Request::Transfer(_) => None,
        // A parent waits for its child: it must not stand in its way.
        Request::AgentCall(_) | Request::Input(_) | Request::Timer(_) => None,
    }
}

/// Scheme, host and port of a URL: whoever stands behind them has one queue and one circuit breaker.
fn receiver(url: &str) -> String {
    let end = url.find("://").map_or(0, |scheme| scheme + 3);
    let host = url[end..].find(['/', '?', '#']).map_or(url.len(), |path| end + path);
    url[..host].to_owned()
}

fn refused(code: FailureCode, message: String, after: Option<Duration>) -> AttemptError {
    AttemptError {
        failure: Failure::new(code, message),
        received: Received::No,
        transient: true,
        after,
        gate: None,
        is_under_way: false,
    }
}

#[cfg(test)]
mod tests;
