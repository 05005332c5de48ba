//! Callers whose sound passes through this process: a carrier holds their telephone lines, asks what to do with each call, and opens a
//! socket for its sound.
//!
//! The carrier's side of a call outlives every process here. When a process ends, the carrier asks again, and the process that it
//! reaches attaches to the run. Where no socket comes any more, the call is over after a while. All that is needed for that
//! stands in the journal.

mod answer;
mod connect;
mod line;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dalsegno_core::{EndedBy, LiveNews, Timestamp};
use dalsegno_runtime::{NotDone, OpenCall};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::socket::Socket;

pub use self::answer::Answer;
pub(crate) use self::line::{CallerLine, Heard};

/// How long the carrier may take to open a socket for a call, before the next look at it ends the call.
const COMES_BACK: Duration = Duration::from_secs(14);

/// How many calls without a process are remembered.
const LEFT_MAX: usize = 4_096;

/// How many wishes about a caller may wait: there are three kinds.
const WISHES_MAX: usize = 8;

/// Ends a call whose caller does not come any more.
pub(crate) async fn end(call: OpenCall) {
    let state = call.state.caught_up(&call.config);
    let reason = match state.live().is_some_and(dalsegno_core::Live::has_begun) {
        true => "the caller's line was lost",
        false => "hung up before the call was answered",
    };
    // A run that has ended by itself takes none.
    let _ = call.news.send(LiveNews::Ended { by: EndedBy::Caller, reason: reason.to_owned() }).await;
}

/// What is to become of a caller whose sound passes through here.
enum Wish {
    /// The line is to be closed: the carrier then asks what to do with the call, and is told whom to dial.
    Transfer,
    /// The carrier was told.
    IsDialled,
    /// The carrier has opened another socket, with this name of its stream.
    Line(Box<Socket>, String),
}

/// A line and a call of it.
type Place = (String, String);

/// The callers whose sound passes through this process.
#[derive(Default)]
pub(crate) struct Callers {
    here: Mutex<BTreeMap<Place, mpsc::Sender<Wish>>>,
    /// The room of calls that were answered, until their socket comes.
    expected: Mutex<BTreeMap<Place, (OwnedSemaphorePermit, Instant)>>,
    /// The calls that no process carries: the time of their last record, and since when this process has seen them so.
    left: Mutex<BTreeMap<Place, (Timestamp, Instant)>>,
}

/// One of them, until it is dropped.
pub(crate) struct Entered {
    callers: Arc<Callers>,
    place: Place,
    wishes: mpsc::Receiver<Wish>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Callers {
    fn enter(self: &Arc<Self>, line: &str, call: &str) -> Entered {
        let (wish, wishes) = mpsc::channel(WISHES_MAX);
        let place = (line.to_owned(), call.to_owned());
        lock(&self.left).remove(&place);
        lock(&self.here).insert(place.clone(), wish);
        Entered { callers: Arc::clone(self), place, wishes }
    }

    /// Keeps the room of a call that was answered until its socket comes.
    fn expect(&self, line: &str, call: &str, room: OwnedSemaphorePermit) {
        let mut expected = lock(&self.expected);
        expected.retain(|_, (_, since)| since.elapsed() < COMES_BACK);
        expected.insert((line.to_owned(), call.to_owned()), (room, Instant::now()));
    }

    /// The room that was kept for a call.
    fn room(&self, line: &str, call: &str) -> Option<OwnedSemaphorePermit> {
        lock(&self.expected).remove(&(line.to_owned(), call.to_owned())).map(|(room, _)| room)
    }

    /// Says whether a call that no process carries, with this time of its last record, has waited for its caller long enough.
    pub(crate) fn is_left(&self, line: &str, call: &str, latest: Timestamp) -> bool {
        let mut left = lock(&self.left);
        if left.len() >= LEFT_MAX {
            left.retain(|_, (_, since)| since.elapsed() < 8 * COMES_BACK);
        }
        let now = Instant::now();
        let (of, since) = left.entry((line.to_owned(), call.to_owned())).or_insert((latest, now));
        if *of != latest {
            // It was carried meanwhile.
            (*of, *since) = (latest, now);
        }
        since.elapsed() >= COMES_BACK
    }

    /// Says whether this process carries a call, with a line or about to get another one.
    fn is_here(&self, line: &str, call: &str) -> bool {
        lock(&self.here).get(&(line.to_owned(), call.to_owned())).is_some_and(|caller| !caller.is_closed())
    }

    /// Tells the process's end of a caller's line something; gives it back where the caller is not here.
    fn tell(&self, line: &str, call: &str, wish: Wish) -> Result<(), Wish> {
        match lock(&self.here).get(&(line.to_owned(), call.to_owned())) {
            Some(caller) => caller.try_send(wish).map_err(mpsc::error::TrySendError::into_inner),
            None => Err(wish),
        }
    }

    /// Has a call transferred: its line is closed here, and the carrier is told whom to dial when it asks what to do next.
    pub(crate) fn transfer(&self, line: &str, call: &str, target: &str) -> Result<(), NotDone> {
        if answer::dialled(target).is_none() {
            let message = "a carrier dials numbers, such as `tel:+33140000000`, and addresses with `sip:`";
            return Err(NotDone::Failed(message.to_owned()));
        }
        self.tell(line, call, Wish::Transfer).map_err(|_| {
            let message = "the caller's line is not at this process, so the call cannot be transferred";
            NotDone::Passing(message.to_owned())
        })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.wishes.close();
        let mut here = lock(&self.callers.here);
        // The call may have been taken up here again meanwhile.
        if here.get(&self.place).is_some_and(mpsc::Sender::is_closed) {
            here.remove(&self.place);
        }
    }
}
