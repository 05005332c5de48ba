//! The deliveries. Of several servers of a workspace one makes them; when it ends, another one takes its turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::RunId;
use dalsegno_history::Journal;
use dalsegno_store::{Change, RunStatus, RunSummary};
use dalsegno_webhooks::{
    AttemptResult, Attempted, Delivery, Endpoint, Event, Message, News, Seen, WebhookStore,
};
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};

use super::payload;
use crate::problem::Problem;
use crate::shared::Shared;

/// How often a server asks whether it is its turn, and the one whose turn it is for endpoints that another process has changed.
const LOOK: Duration = Duration::from_secs(1);
/// Most changes that are read at once.
const AT_ONCE: u32 = 200;
/// Most deliveries under way.
const ALL: usize = 256;
/// Most deliveries under way of one tenant, so that its slow receivers leave room for those of others.
const OF_TENANT: usize = 16;
/// Most deliveries under way to an endpoint. One that fails gets one at a time.
const OF_ENDPOINT: usize = 4;

/// Delivers until the server stops.
pub(crate) async fn deliver(shared: Arc<Shared>) {
    while !shared.is_stopping() {
        let own = Arc::clone(&shared);
        match tokio::task::spawn_blocking(move || own.webhooks.store.take_turn()).await {
            Ok(Ok(Some(turn))) => {
                let mut round =
                    Round { under_way: BTreeMap::new(), tasks: JoinSet::new(), done: Vec::new(), shared };
                round.deliver().await;
                drop(turn);
                return;
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => tracing::error!(%error, "the lock of the webhooks cannot be used"),
            Err(error) => tracing::error!(%error, "the lock of the webhooks was not taken"),
        }
        pause(&shared, LOOK).await;
    }
}

/// What this server delivers.
struct Round {
    shared: Arc<Shared>,
    tasks: JoinSet<Option<Attempted>>,
    /// The deliveries under way, and those that are not settled, by their ids.
    under_way: BTreeMap<String, UnderWay>,
    /// What is not settled yet.
    done: Vec<Attempted>,
}

struct UnderWay {
    task: Id,
    endpoint: String,
    tenant: Option<String>,
}

impl Round {
    async fn deliver(&mut self) {
        let mut changed: Option<watch::Receiver<u64>> = None;
        while !self.shared.is_stopping() {
            while let Some(ended) = self.tasks.try_join_next_with_id() {
                self.ended(ended);
            }
            // What is new from here on wakes it again.
            if let Some(changed) = &mut changed {
                changed.borrow_and_update();
            }
            let next = match self.turn().await {
                Ok(next) => next,
                Err(problem) => {
                    tracing::error!(problem = %problem.document(), "webhooks wait: their file or the journal cannot be used");
                    pause(&self.shared, LOOK).await;
                    continue;
                }
            };
            match next.is_followed {
                // Without an endpoint nothing asks the journal.
                false => changed = None,
                true if changed.is_none() => {
                    changed = Some(self.shared.changes.subscribe(self.shared.journal()));
                    continue;
                }
                true => {}
            }
            let wait = next.wait.min(LOOK);
            tokio::select! {
                () = self.shared.stopped() => {}
                () = self.shared.webhooks.changed.notified() => {}
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                _ = follow(&mut changed) => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        // One that was begun ends within its time, or is made again with the same id.
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.ended(ended);
        }
        if let Err(problem) = self.settle().await {
            tracing::error!(problem = %problem.document(), "deliveries were not noted, and are made again");
        }
    }

    /// Notes what has come, reads what has happened, and begins what is due.
    async fn turn(&mut self) -> Result<Next, Problem> {
        self.settle().await?;
        let is_followed = self.read().await?;
        self.begin().await?;
        let now = self.shared.now();
        let next = self.shared.webhooks.call(WebhookStore::next_at).await?;
        // What is due and not begun waits for one that ends.
        let wait = next.map_or(LOOK, |next| match next.saturating_sub(now) {
            0 => LOOK,
            millis => Duration::from_millis(millis),
        });
        Ok(Next { wait, is_followed })
    }

    async fn settle(&mut self) -> Result<(), Problem> {
        if self.done.is_empty() {
            return Ok(());
        }
        let (done, now) = (self.done.clone(), self.shared.now());
        let news = self.shared.webhooks.call(move |store| store.settle(&done, now)).await?;
        for attempted in self.done.drain(..) {
            self.under_way.remove(&attempted.id);
            let outcome = match &attempted.result {
                AttemptResult::Outdated => "outdated",
                AttemptResult::Sent(sent) => sent.outcome.as_str(),
            };
            self.shared.telemetry.metrics().webhook_attempted(outcome);
        }
        for news in news {
            match news {
                News::Off { endpoint, reason } => {
                    let reason = reason.as_str();
                    tracing::error!(%endpoint, %reason, "a webhook is off: turn it on with `dalsegno webhook enable`");
                }
                News::GivenUp { endpoint, id } => {
                    self.shared.telemetry.metrics().webhook_attempted("given_up");
                    tracing::error!(%endpoint, delivery = %id, "a delivery failed for a day and is given up");
                }
            }
        }
        Ok(())
    }

    /// Reads the journal up to its latest change. Says whether an endpoint wants what follows.
    async fn read(&self) -> Result<bool, Problem> {
        let Shared { webhooks, .. } = &*self.shared;
        let store = self.shared.journal().store();
        loop {
            let Some(after) = webhooks.call(WebhookStore::place).await? else { return Ok(false) };
            let changes = store.changed(after, AT_ONCE).await?;
            if changes.is_empty() {
                // In this order: no endpoint has seen a change that the journal does not have. One that lags behind hides how far the
                // others are.
                let furthest = webhooks.call(WebhookStore::furthest).await?;
                let latest = store.last_change().await?;
                if furthest > latest && webhooks.call(move |store| store.rewind(latest)).await? {
                    tracing::warn!("the journal is an earlier copy: webhooks continue at its latest change");
                }
                return Ok(true);
            }
            let now = self.shared.now();
            webhooks
                .call(move |store| {
                    let seen: Vec<Seen<'_>> = changes.iter().map(seen).collect();
                    store.take(after, &seen, now)
                })
                .await?;
        }
    }

    /// Begins what is due, as far as there is room: first for endpoints with little under way.
    async fn begin(&mut self) -> Result<(), Problem> {
        let now = self.shared.now();
        let mut ready = self.shared.webhooks.call(move |store| store.ready(now)).await?;
        ready.sort_by_cached_key(|one| self.number(|under_way| under_way.endpoint == one.id));
        for endpoint in ready {
            let room = self.room(&endpoint);
            if room == 0 {
                continue;
            }
            let known: Vec<String> = self.under_way.keys().cloned().collect();
            let due = self.shared.webhooks.call(move |store| {
                store.due(&endpoint, now, room, |id| {
                    known.binary_search_by(|one| one.as_str().cmp(id)).is_ok()
                })
            });
            for delivery in due.await? {
                let (id, endpoint) = (delivery.id.clone(), delivery.endpoint.id.clone());
                let tenant = delivery.endpoint.tenant.clone();
                let task = self.tasks.spawn(attempt(Arc::clone(&self.shared), delivery)).id();
                self.under_way.insert(id, UnderWay { task, endpoint, tenant });
            }
        }
        Ok(())
    }

    /// How many further deliveries to an endpoint may begin.
    fn room(&self, endpoint: &Endpoint) -> usize {
        let of_endpoint = if endpoint.failing_since.is_some() { 1 } else { OF_ENDPOINT };
        let all = ALL.saturating_sub(self.under_way.len());
        let tenant = OF_TENANT.saturating_sub(self.number(|one| one.tenant == endpoint.tenant));
        all.min(tenant).min(of_endpoint.saturating_sub(self.number(|one| one.endpoint == endpoint.id)))
    }

    fn number(&self, is_meant: impl Fn(&UnderWay) -> bool) -> usize {
        self.under_way.values().filter(|one| is_meant(one)).count()
    }

    fn ended(&mut self, ended: Result<(Id, Option<Attempted>), JoinError>) {
        let task = match ended {
            Ok((_, Some(attempted))) => return self.done.push(attempted),
            Ok((task, None)) => task,
            Err(error) => {
                tracing::error!(%error, "an attempt at a delivery failed");
                error.id()
            }
        };
        // It is as if it had not begun.
        self.under_way.retain(|_, one| one.task != task);
    }
}

struct Next {
    /// How long nothing is due.
    wait: Duration,
    /// Whether the journal is to be followed.
    is_followed: bool,
}

/// Returns at the next change; never where none is followed.
async fn follow(changed: &mut Option<watch::Receiver<u64>>) {
    match changed {
        // The sender is in what all requests share.
        Some(changed) => drop(changed.changed().await),
        None => std::future::pending().await,
    }
}

async fn pause(shared: &Shared, time: Duration) {
    tokio::select! {
        () = shared.stopped() => {}
        () = tokio::time::sleep(time) => {}
    }
}

fn seen(change: &Change) -> Seen<'_> {
    let run = &change.run;
    Seen {
        change: change.number,
        run: run.run.as_bytes(),
        // What an archive brought happened elsewhere.
        event: event(run).filter(|_| run.foreign.is_none()),
        records: run.records,
        agent: run.agent.as_str(),
        tenant: &run.tenant,
        is_root: run.parent.is_none(),
    }
}

fn event(run: &RunSummary) -> Option<Event> {
    match run.status {
        RunStatus::Running if run.waiting.is_empty() => None,
        RunStatus::Running => Some(Event::Waiting),
        RunStatus::Suspended => Some(Event::Suspended),
        RunStatus::Completed => Some(Event::Completed),
        RunStatus::Failed => Some(Event::Failed),
        RunStatus::Cancelled => Some(Event::Cancelled),
        RunStatus::HandedOff => Some(Event::HandedOff),
        RunStatus::Abandoned => Some(Event::Abandoned),
    }
}

/// Makes one attempt; none where the journal cannot be read now.
async fn attempt(shared: Arc<Shared>, delivery: Delivery) -> Option<Attempted> {
    let began_at = shared.now();
    let (id, endpoint) = (delivery.id.clone(), delivery.endpoint.id.clone());
    let attempted = |result| Some(Attempted { id, endpoint, began_at, result });
    let journal: &Journal = shared.journal();
    let summary = match journal.known(RunId::from_bytes(delivery.run)).await {
        Ok(summary) => summary,
        Err(error) => {
            tracing::error!(%error, delivery = %delivery.id, "a run cannot be read for its webhook");
            pause(&shared, LOOK).await;
            return None;
        }
    };
    // A run that was pruned is no more, and one that has resumed or was answered does not wait: nothing of it is left to tell.
    let summary = summary.filter(|run| delivery.event.is_end() || event(run) == Some(delivery.event));
    let Some(summary) = summary else { return attempted(AttemptResult::Outdated) };
    let body = payload::of_run(journal, &delivery, &summary).await;
    let message = Message { id: delivery.id.clone(), at: began_at / 1_000, body };
    let secrets = shared.webhooks.store.secrets(&delivery.endpoint, began_at);
    let sent = shared.webhooks.sender.send(&delivery.endpoint.url, &secrets, message).await;
    attempted(AttemptResult::Sent(sent))
}
