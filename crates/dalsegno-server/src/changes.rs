//! `GET /v1/runs` as a stream: the runs whose status changes. Such a stream is a position among all changes, and not a queue.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use dalsegno_access::Access;
use dalsegno_history::Journal;
use dalsegno_store::RunSummary;
use futures::stream;
use tokio::sync::watch;

use crate::limits::OpenStream;
use crate::listing::listed;
use crate::params;
use crate::problem::{Code, Problem};
use crate::shared::Shared;
use crate::sse;

/// How often the journal is asked for the latest change while such a stream is open.
const LOOK: Duration = Duration::from_millis(50);
/// Most changes that are read at once.
const AT_ONCE: u32 = 100;

/// The number of the latest change, as far as this process knows it.
#[derive(Debug)]
pub(crate) struct Changes {
    latest: watch::Sender<u64>,
    /// A task asks the journal.
    is_watched: Mutex<bool>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { latest: watch::Sender::new(0), is_watched: Mutex::new(false) }
    }
}

impl Changes {
    pub(crate) fn subscribe(self: &Arc<Self>, journal: &Journal) -> watch::Receiver<u64> {
        let mut is_watched = self.is_watched.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.latest.subscribe();
        if !std::mem::replace(&mut *is_watched, true) {
            tokio::spawn(watch(Arc::downgrade(self), journal.clone()));
        }
        receiver
    }

    /// Says whether a stream is open, and if not, that no task asks any more.
    fn is_followed(&self) -> bool {
        let mut is_watched = self.is_watched.lock().unwrap_or_else(PoisonError::into_inner);
        *is_watched = self.latest.receiver_count() > 0;
        *is_watched
    }
}

/// Asks the journal for the latest change, as long as a stream is open.
async fn watch(changes: Weak<Changes>, journal: Journal) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(changes) = changes.upgrade() else { return };
        if !changes.is_followed() {
            return;
        }
        // Trouble with the journal passes, or each stream meets it itself.
        let Ok(number) = journal.store().last_change().await else { continue };
        changes.latest.send_if_modified(|latest| std::mem::replace(latest, number) != number);
    }
}

/// The place after which a client wants changes: what it sends, which was sealed here; none for those from now on.
pub(crate) fn place(
    shared: &Shared,
    headers: &HeaderMap,
    after: Option<&str>,
) -> Result<Option<u64>, Problem> {
    // It stands above the parameter: a browser that comes back sends the same address, and the last id that it has.
    let last = params::header(headers, "last-event-id")?;
    let Some((name, text)) = last.map(|last| ("last-event-id", last)).or(after.map(|after| ("after", after)))
    else {
        return Ok(None);
    };
    form(name, text)?;
    let place = shared.seals.open_seal(text).ok_or_else(|| {
        let message = "is no place among the changes of this workspace";
        Problem::new(Code::NotFound, format!("`{name}` {message}"), HELP).at(name, message)
    })?;
    Ok(Some(place))
}

const HELP: &str =
    "send the id of the last event that you have, or `changes` of a page, or leave it out to begin now";

/// Refuses what has not the form of a place.
pub(crate) fn form(name: &str, text: &str) -> Result<(), Problem> {
    match dalsegno_access::Seals::is_form(text) {
        true => Ok(()),
        false => Err(Problem::parameter(name, "has not the form of a place among changes", HELP)),
    }
}

/// The place of what has happened so far, for a client.
pub(crate) async fn now(shared: &Shared) -> Result<String, Problem> {
    let latest = shared.journal().store().last_change().await?;
    sealed(shared, latest)
}

fn sealed(shared: &Shared, number: u64) -> Result<String, Problem> {
    shared.seals.seal(number).map_err(|error| {
        tracing::error!(%error, "the system gave no random bytes");
        Problem::new(Code::Unavailable, "the system gives no random bytes now", "try again later")
            .retry_after(2)
    })
}

/// The changes after a place of runs that a client may see and that match.
pub(crate) async fn stream(
    shared: Arc<Shared>,
    access: Access,
    after: Option<u64>,
    matches: impl Fn(&RunSummary) -> bool + Send + Sync + 'static,
) -> Result<Response, Problem> {
    let open = shared.limits.stream(&access, shared.now())?;
    let changed = shared.changes.subscribe(shared.journal());
    let latest = shared.journal().store().last_change().await?;
    let after = match after {
        // It is of a journal that was there before this one.
        Some(after) if after > latest => {
            let detail = "the place is behind the last change of this workspace";
            return Err(Problem::new(Code::NotFound, detail, HELP));
        }
        Some(after) => after,
        None => latest,
    };
    let matches = Box::new(matches);
    let position =
        Position { shared, access, matches, after, changed, ready: VecDeque::new(), is_over: false, open };
    Ok(sse::response(stream::unfold(position, async |mut position| {
        let event = position.next().await?;
        Some((event, position))
    })))
}

struct Position {
    shared: Arc<Shared>,
    access: Access,
    matches: Box<dyn Fn(&RunSummary) -> bool + Send + Sync>,
    after: u64,
    changed: watch::Receiver<u64>,
    ready: VecDeque<Event>,
    is_over: bool,
    open: OpenStream,
}

impl Position {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over || self.open.is_over() {
                return None;
            }
            if self.shared.is_stopping() {
                self.is_over = true;
                return Some(sse::stopping());
            }
            // A change from here on wakes it again.
            self.changed.borrow_and_update();
            match self.read().await {
                Ok(0) => {}
                Ok(_) => continue,
                Err(problem) => {
                    self.is_over = true;
                    return Some(sse::failed(&problem));
                }
            }
            tokio::select! {
                biased;
                () = self.shared.stopped() => {}
                () = self.open.over() => {}
                // The sender is in `shared`.
                _ = self.changed.changed() => {}
            }
        }
    }

    /// Reads what comes next; returns the number of changes, of which not all are for this client.
    async fn read(&mut self) -> Result<usize, Problem> {
        let changes = self.shared.journal().store().changed(self.after, AT_ONCE).await?;
        for change in &changes {
            self.after = change.number;
            if self.access.sees(&change.run.tenant) && (self.matches)(&change.run) {
                let line = listed(&self.shared, &self.access, &change.run).await;
                let text = serde_json::to_string(&line).unwrap_or_default();
                let id = sealed(&self.shared, change.number)?;
                self.ready.push_back(Event::default().id(id).event("run").data(text));
            }
        }
        Ok(changes.len())
    }
}
