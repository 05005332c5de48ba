//! Follows a run by its place in the journal, at the reader's pace.
//!
//! A [`Tail`] is a position and not a queue: it holds a run and a sequence number, and reads the journal when it is asked
//! for more. So a slow reader costs nothing, and one that comes back names the last record that it has. Records that this
//! process writes wake it at once; those of other processes are found by the version of the journal.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use dalsegno_core::{OperationId, RunId};
use dalsegno_history::{HistoryError, Journal};
use dalsegno_store::{Message, Record, RunStatus, RunSummary};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::run::pausing::last_word;

/// How often the journal is asked whether another process has written.
const LOOK: Duration = Duration::from_millis(50);

/// The pause after such a look, as a multiple of what it took: with many runs that are followed, it takes a tenth of a core at most.
const REST: u32 = 9;

/// Most records that are read at once.
const AT_ONCE: usize = 200;

/// Most pages that are kept for others who read the same, over all runs.
const PAGES: usize = 16;

/// How long a page serves others. What is erased meanwhile is shown no longer than that.
const FRESH: Duration = Duration::from_secs(1);

/// Records that were read once, for all who follow their run.
#[derive(Debug, Clone)]
pub struct Stretch {
    page: Arc<[Record]>,
    from: usize,
}

impl Deref for Stretch {
    type Target = [Record];

    fn deref(&self) -> &[Record] {
        self.page.get(self.from..).unwrap_or_default()
    }
}

impl PartialEq for Stretch {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

/// What comes next in a run that is followed.
#[derive(Debug, Clone, PartialEq)]
pub enum Tailed {
    /// Records, in their order.
    Records(Stretch),
    /// A part of a model's reply that streams. Ephemeral: a later attempt of the same operation voids it, and the record of the
    /// outcome stands on its own. It comes from attempts that this process makes, and of these from such as began after
    /// the first run was followed, or after [`Engine::keep_speech`].
    Delta {
        /// The model call.
        operation: OperationId,
        /// The attempt, from 1.
        attempt: u32,
        /// The number of bytes of the reply before this text.
        offset: usize,
        /// The text.
        text: String,
    },
    /// All records are read, and the run is suspended; comes once until there are further ones. Not while its inbox has something
    /// by which it moves on, such as an answer: the process that takes it writes further ones.
    Suspended(RunSummary),
    /// All records are read, and the run has ended.
    Ended(RunSummary),
}

/// A position in a run, and the way on from there.
pub struct Tail {
    journal: Journal,
    run: RunId,
    next: u64,
    /// The position at which it was told that the run is suspended.
    rested: Option<u64>,
    followed: Arc<Followed>,
    changed: watch::Receiver<u64>,
    /// What a model says, and how much of it was handed out.
    heard: Vec<(Arc<Speech>, usize)>,
    /// The records that it knows to be there; none before it has looked at the journal itself.
    known: Option<u64>,
    tails: Arc<Tails>,
}

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tail").field("run", &self.run).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Engine {
    /// Keeps what models say from now on, as long as they say it, also while no run is followed: whoever follows a run later has it
    /// from its beginning.
    pub fn keep_speech(&self) {
        self.ports().tails.listens.store(true, Ordering::Relaxed);
    }

    /// Follows a run from this sequence number on.
    ///
    /// # Errors
    /// When there is no such run, or the store cannot be read.
    pub async fn tail(&self, run: RunId, from: u64) -> Result<Tail, HistoryError> {
        let journal = self.journal().clone();
        journal.summary(run).await?;
        let tails = Arc::clone(&self.ports().tails);
        let followed = tails.follow(run, &journal);
        let changed = followed.changes.subscribe();
        Ok(Tail {
            journal,
            run,
            next: from,
            rested: None,
            followed,
            changed,
            heard: Vec::new(),
            known: None,
            tails,
        })
    }
}

impl Tail {
    /// The sequence number of the record that comes next.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Waits for what comes next. After [`Tailed::Ended`] it is told again.
    ///
    /// # Errors
    /// When the run is gone, its journal is damaged or was erased, or the store cannot be read.
    pub async fn next(&mut self) -> Result<Tailed, HistoryError> {
        loop {
            // A change from here on wakes it again.
            let seen = *self.changed.borrow_and_update();
            let summary = self.look(seen).await?;
            if summary.records > self.next {
                let records = self.read().await?;
                if let Some(last) = records.last() {
                    self.next = last.seq + 1;
                    let is_over = |speech: &Speech| {
                        records.iter().any(|record| record.operation == Some(speech.operation))
                    };
                    self.heard.retain(|(speech, _)| !is_over(speech));
                    return Ok(Tailed::Records(records));
                }
            }
            if let Some(delta) = self.delta() {
                return Ok(delta);
            }
            if summary.status.is_end() {
                return Ok(Tailed::Ended(summary));
            }
            if summary.status == RunStatus::Suspended && self.rested != Some(self.next) {
                // In this order: what takes a message out of the inbox writes records in the same transaction.
                let moves_on = moves_on(&self.journal.store().inbox(self.run).await?);
                let latest = self.journal.summary(self.run).await?;
                if latest.records != summary.records {
                    self.known = Some(latest.records);
                    continue;
                }
                if !moves_on {
                    self.rested = Some(self.next);
                    return Ok(Tailed::Suspended(latest));
                }
            }
            // The sender is in `followed`, so that it is there.
            let _ = self.changed.changed().await;
        }
    }

    /// The run's line in the listing, as of this change at least: read once for all who follow the run.
    async fn look(&mut self, seen: u64) -> Result<RunSummary, HistoryError> {
        // What was written before it began to follow is no change that it would hear of: a line that others read may be from
        // before that.
        let mut summary = None;
        if let Some(known) = self.known {
            let shared = self.followed.look(self.run, seen, &self.journal).await;
            summary = shared.filter(|summary| summary.records >= known);
        }
        let summary = match summary {
            Some(summary) => summary,
            None => self.journal.summary(self.run).await?,
        };
        self.known = Some(summary.records);
        Ok(summary)
    }

    /// The records that come next, from a page that others read or will.
    async fn read(&self) -> Result<Stretch, HistoryError> {
        if self.followed.inner().tails > 1
            && let Some(stretch) = self.tails.read(self.run, self.next, &self.journal).await
        {
            return Ok(stretch);
        }
        let page = self.journal.store().page(self.run, self.next, AT_ONCE).await?;
        Ok(Stretch { page: page.into_records()?.into(), from: 0 })
    }

    /// What a model has said that was not handed out yet.
    fn delta(&mut self) -> Option<Tailed> {
        for speech in self.followed.speeches() {
            if !self.heard.iter().any(|(heard, _)| Arc::ptr_eq(heard, &speech)) {
                self.heard.push((speech, 0));
            }
        }
        self.heard.iter_mut().find_map(|(speech, given)| {
            let said = speech.said.lock().unwrap_or_else(PoisonError::into_inner);
            let text = said.get(*given..).filter(|text| !text.is_empty())?.to_owned();
            let offset = std::mem::replace(given, said.len());
            Some(Tailed::Delta { operation: speech.operation, attempt: speech.attempt, offset, text })
        })
    }
}

/// Says whether a suspended run is about to move on by what its inbox has. Who takes a message writes records in the same
/// transaction, and a run that has its child runs take something keeps the message until they have.
fn moves_on(inbox: &[(u64, Message)]) -> bool {
    let tells = |message: &Message| {
        matches!(
            message,
            Message::Answer { .. } | Message::Cancel { .. } | Message::GiveUp { .. } | Message::Look
        )
    };
    let is_told = inbox.iter().any(|(_, message)| tells(message));
    is_told || last_word(inbox).is_some_and(|word| matches!(word, Message::Continue { .. }))
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.tails.leave(self.run);
    }
}

/// The runs that are followed in this process.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    runs: Mutex<Runs>,
    /// A run was followed, or may be at any time: what models say is kept while they say it.
    listens: AtomicBool,
    /// Pages that several read, the latest last.
    pages: Mutex<VecDeque<Page>>,
}

/// Something that is read once for several. Each who asks for it drives it, so that one who stops asking keeps it from no other.
/// None where it cannot be read: each meets the trouble itself.
type Once<T> = Shared<BoxFuture<'static, Option<T>>>;

#[derive(Debug, Clone)]
struct Page {
    run: RunId,
    from: u64,
    at: Instant,
    records: Once<Arc<[Record]>>,
}

impl Page {
    /// Where a record stands in it, if it does or may.
    fn place(&self, run: RunId, next: u64) -> Option<usize> {
        let place = usize::try_from(next.checked_sub(self.from)?).ok()?;
        let is_there = match self.records.peek() {
            Some(records) => place < records.as_ref()?.len(),
            // It is being read: what it will have is known only for its beginning.
            None => place == 0,
        };
        (self.run == run && is_there).then_some(place)
    }
}

#[derive(Debug, Default)]
struct Runs {
    followed: BTreeMap<RunId, Arc<Followed>>,
    /// How many follow a run now, and how often one has begun to.
    tails: usize,
    begun: u64,
    /// A task looks for records of other processes.
    is_watched: bool,
}

/// A run that is followed, or in which a model speaks.
#[derive(Debug)]
struct Followed {
    /// Goes up whenever there may be something new.
    changes: watch::Sender<u64>,
    inner: Mutex<Inner>,
    /// The run's line in the listing, with the number of changes before it was read.
    line: Mutex<Option<(u64, Once<RunSummary>)>>,
}

#[derive(Debug, Default)]
struct Inner {
    tails: usize,
    /// The number of its records, as far as it is known here.
    records: u64,
    speeches: Vec<Arc<Speech>>,
}

impl Default for Followed {
    fn default() -> Self {
        Self { changes: watch::Sender::new(0), inner: Mutex::default(), line: Mutex::default() }
    }
}

impl Followed {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self, run: RunId, seen: u64, journal: &Journal) -> Option<RunSummary> {
        let line = {
            let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            match &*line {
                Some((at, known)) if *at >= seen => known.clone(),
                _ => {
                    let journal = journal.clone();
                    let read = async move { journal.summary(run).await.ok() }.boxed().shared();
                    *line = Some((*self.changes.borrow(), read.clone()));
                    read
                }
            }
        };
        line.await
    }

    fn speeches(&self) -> Vec<Arc<Speech>> {
        self.inner().speeches.clone()
    }

    fn wake(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Takes note of how many records there are.
    fn records(&self, records: u64) {
        let before = std::mem::replace(&mut self.inner().records, records);
        if before != records {
            self.wake();
        }
    }

    fn is_idle(&self) -> bool {
        let inner = self.inner();
        inner.tails == 0 && inner.speeches.is_empty()
    }
}

impl Tails {
    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow(self: &Arc<Self>, run: RunId, journal: &Journal) -> Arc<Followed> {
        self.listens.store(true, Ordering::Relaxed);
        let mut runs = self.runs();
        let followed = Arc::clone(runs.followed.entry(run).or_default());
        followed.inner().tails += 1;
        runs.tails += 1;
        runs.begun += 1;
        if !std::mem::replace(&mut runs.is_watched, true) {
            tokio::spawn(watch(Arc::downgrade(self), journal.clone()));
        }
        followed
    }

    async fn read(&self, run: RunId, next: u64, journal: &Journal) -> Option<Stretch> {
        let (records, from) = {
            let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            pages.retain(|page| now.duration_since(page.at) < FRESH);
            let known =
                pages.iter().rev().find_map(|page| Some((page.records.clone(), page.place(run, next)?)));
            match known {
                Some(known) => known,
                None => {
                    let journal = journal.clone();
                    let read = async move {
                        let page = journal.store().page(run, next, AT_ONCE).await.ok()?;
                        page.into_records().ok().filter(|records| !records.is_empty()).map(Into::into)
                    };
                    let records: Once<Arc<[Record]>> = read.boxed().shared();
                    pages.push_back(Page { run, from: next, at: now, records: records.clone() });
                    if pages.len() > PAGES {
                        pages.pop_front();
                    }
                    (records, 0)
                }
            }
        };
        Some(Stretch { page: records.await?, from })
    }

    fn leave(&self, run: RunId) {
        let mut runs = self.runs();
        if let Some(followed) = runs.followed.get(&run) {
            followed.inner().tails -= 1;
            if followed.is_idle() {
                runs.followed.remove(&run);
            }
            runs.tails -= 1;
        }
    }

    /// This process has written records of a run, of which there are so many now.
    pub(crate) fn recorded(&self, run: RunId, records: u64) {
        let followed = self.runs().followed.get(&run).map(Arc::clone);
        if let Some(followed) = followed {
            followed.records(records);
        }
    }

    /// A model begins to speak; none where no run was ever followed and none is expected to be.
    pub(crate) fn speak(
        self: &Arc<Self>,
        run: RunId,
        operation: OperationId,
        attempt: u32,
    ) -> Option<Speaker> {
        if !self.listens.load(Ordering::Relaxed) {
            return None;
        }
        let speech = Arc::new(Speech { operation, attempt, said: Mutex::default() });
        // Under the lock, so that it is not forgotten before it has a speech.
        let mut runs = self.runs();
        let followed = Arc::clone(runs.followed.entry(run).or_default());
        followed.inner().speeches.push(Arc::clone(&speech));
        Some(Speaker { run, speech, followed, tails: Arc::clone(self) })
    }

    /// How often a run began to be followed; none when no run is followed, and then the task that asks ends.
    fn begun(&self) -> Option<u64> {
        let mut runs = self.runs();
        runs.is_watched = runs.tails > 0;
        runs.is_watched.then_some(runs.begun)
    }

    /// The runs that are followed.
    fn watched(&self) -> Vec<RunId> {
        let is_followed =
            |(run, followed): (&RunId, &Arc<Followed>)| (followed.inner().tails > 0).then_some(*run);
        self.runs().followed.iter().filter_map(is_followed).collect()
    }
}

/// Looks for records that other processes have written, as long as a run is followed.
async fn watch(tails: Weak<Tails>, journal: Journal) {
    let (mut version, mut before) = (None, 0);
    let mut pause = LOOK;
    loop {
        tokio::time::sleep(pause).await;
        pause = LOOK;
        let Some(tails) = tails.upgrade() else { return };
        let Some(begun) = tails.begun() else { return };
        // One that cannot tell is looked at each time.
        let now = journal.store().version().await.ok();
        if now.is_some() && now == version && begun == before {
            continue;
        }
        let looked = Instant::now();
        // Trouble with the journal passes, or each reader meets it itself.
        let Ok(heads) = journal.store().heads(&tails.watched()).await else { continue };
        pause = pause.max(looked.elapsed() * REST);
        (version, before) = (now, begun);
        for (run, records) in heads {
            tails.recorded(run, records);
        }
    }
}

/// What a model says in one attempt, so far.
#[derive(Debug)]
struct Speech {
    operation: OperationId,
    attempt: u32,
    said: Mutex<String>,
}

/// Keeps what a model says as long as it speaks.
#[derive(Debug)]
pub(crate) struct Speaker {
    run: RunId,
    speech: Arc<Speech>,
    followed: Arc<Followed>,
    tails: Arc<Tails>,
}

impl Speaker {
    /// More of what it says, without secrets.
    pub(crate) fn say(&self, text: &str) {
        self.speech.said.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        self.followed.wake();
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        let mut runs = self.tails.runs();
        self.followed.inner().speeches.retain(|speech| !Arc::ptr_eq(speech, &self.speech));
        if self.followed.is_idle()
            && runs.followed.get(&self.run).is_some_and(|one| Arc::ptr_eq(one, &self.followed))
        {
            runs.followed.remove(&self.run);
        }
    }
}
