//! The queue of finished spans, and the task that empties it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prost::Message;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::config::{ExportConfig, ExportError};
use super::http::{Collector, Refusal};
use crate::otlp;
use crate::span::Span;

/// What became of spans so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportStats {
    /// The collector took them.
    pub exported: u64,
    /// They were given up: the queue was full, the collector was away for too long or refused them, or the time to send
    /// them at the end was up.
    pub dropped: u64,
    /// Requests that failed, those included that were sent again.
    pub failures: u64,
}

/// Counters that the exporter and the metrics share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    pub(crate) exported: Counter,
    pub(crate) dropped: Counter,
    pub(crate) failures: Counter,
}

impl Counters {
    pub(crate) fn stats(&self) -> ExportStats {
        ExportStats {
            exported: self.exported.get(),
            dropped: self.dropped.get(),
            failures: self.failures.get(),
        }
    }
}

/// The way into the queue.
#[derive(Debug)]
pub(crate) struct Exporter {
    spans: mpsc::Sender<Span>,
    flushes: mpsc::Sender<oneshot::Sender<()>>,
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    counters: Counters,
    /// Whether somebody was told that spans are lost, since the last batch that was taken.
    warned: AtomicBool,
}

/// The first pause before a batch is sent again; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause before a batch is sent again.
const LAST_PAUSE: Duration = Duration::from_secs(5);

impl Exporter {
    pub(crate) fn start(config: &ExportConfig, counters: Counters) -> Result<Self, ExportError> {
        let runtime = Handle::try_current().map_err(|_| ExportError::NoRuntime)?;
        let collector = Collector::new(config)?;
        let (spans, queue) = mpsc::channel(config.queue.max(1));
        let (flushes, asked) = mpsc::channel(4);
        let shared = Arc::new(Shared { counters, warned: AtomicBool::new(false) });
        let worker = Worker {
            collector,
            resource: config.resource(),
            queue,
            asked,
            batch: Batch { spans: Vec::new(), counters: shared.counters.clone() },
            most: config.batch.max(1),
            delay: config.delay,
            retry_for: config.retry_for,
            shared: shared.clone(),
        };
        let task = runtime.spawn(worker.run());
        Ok(Self { spans, flushes, shared, task: Mutex::new(Some(task)) })
    }

    /// Puts a span into the queue, or drops it where there is no room. Never waits.
    pub(crate) fn offer(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.shared.counters.dropped.inc();
            self.shared.warn("the queue is full");
        }
    }

    /// Sends what waits; says whether all of it left in time.
    pub(crate) async fn flush(&self, limit: Duration) -> bool {
        let (done, wait) = oneshot::channel();
        let flushed = async { self.flushes.send(done).await.is_ok() && wait.await.is_ok() };
        tokio::time::timeout(limit, flushed).await.unwrap_or(false)
    }

    /// Sends what waits, and ends. What does not leave in time is dropped and counted.
    pub(crate) async fn stop(&self, limit: Duration) {
        self.flush(limit).await;
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // The worker counts what it still holds when it is dropped.
            task.abort();
            let _ = task.await;
        }
    }
}

impl Shared {
    /// Says once that spans are lost, until a batch is taken again.
    fn warn(&self, reason: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                reason,
                "spans are lost: the collector does not take them; runs go on, and their journals hold everything"
            );
        }
    }
}

/// Spans that were taken out of the queue. Those that are dropped with it are counted.
#[derive(Debug)]
struct Batch {
    spans: Vec<Span>,
    counters: Counters,
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.counters.dropped.inc_by(self.spans.len() as u64);
    }
}

/// The task that sends.
struct Worker {
    collector: Collector,
    resource: Vec<(String, String)>,
    queue: mpsc::Receiver<Span>,
    asked: mpsc::Receiver<oneshot::Sender<()>>,
    batch: Batch,
    most: usize,
    delay: Duration,
    retry_for: Duration,
    shared: Arc<Shared>,
}

impl Worker {
    async fn run(mut self) {
        // When the first span of the batch must leave.
        let mut due: Option<Instant> = None;
        loop {
            let wait = due.unwrap_or_else(|| Instant::now() + self.delay);
            tokio::select! {
                biased;
                Some(done) = self.asked.recv() => {
                    self.drain().await;
                    due = None;
                    let _ = done.send(());
                }
                span = self.queue.recv() => match span {
                    Some(span) => {
                        self.batch.spans.push(span);
                        due.get_or_insert_with(|| Instant::now() + self.delay);
                        if self.batch.spans.len() >= self.most {
                            self.send().await;
                            due = None;
                        }
                    }
                    // Nobody is left who could have more.
                    None => return self.drain().await,
                },
                () = tokio::time::sleep_until(wait), if due.is_some() => {
                    self.send().await;
                    due = None;
                }
            }
        }
    }

    /// Sends the batch and all that is in the queue now.
    async fn drain(&mut self) {
        let mut left = self.queue.len();
        loop {
            while self.batch.spans.len() < self.most && left > 0 {
                let Ok(span) = self.queue.try_recv() else { break };
                self.batch.spans.push(span);
                left -= 1;
            }
            if self.batch.spans.is_empty() {
                return;
            }
            self.send().await;
        }
    }

    /// Sends the batch, again and again for a while; it is empty afterwards.
    async fn send(&mut self) {
        let count = self.batch.spans.len() as u64;
        let body = otlp::request(&self.resource, self.batch.spans.clone()).encode_to_vec();
        let until = Instant::now() + self.retry_for;
        let mut pause = FIRST_PAUSE;
        loop {
            match self.collector.send(body.clone()).await {
                Ok(rejected) => {
                    let rejected = rejected.min(count);
                    self.batch.spans.clear();
                    self.shared.counters.exported.inc_by(count - rejected);
                    self.shared.counters.dropped.inc_by(rejected);
                    match rejected {
                        0 => self.shared.warned.store(false, Ordering::Relaxed),
                        _ => self.shared.warn("it rejected some of a batch"),
                    }
                    return;
                }
                Err(Refusal { reason, again }) => {
                    self.shared.counters.failures.inc();
                    let next = again.map(|least| Instant::now() + pause.max(least));
                    match next.filter(|next| *next < until) {
                        Some(next) => {
                            tokio::time::sleep_until(next).await;
                            pause = (pause * 2).min(LAST_PAUSE);
                        }
                        None => {
                            self.shared.warn(&reason);
                            self.shared.counters.dropped.inc_by(count);
                            self.batch.spans.clear();
                            return;
                        }
                    }
                }
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.close();
        while self.queue.try_recv().is_ok() {
            self.shared.counters.dropped.inc();
        }
    }
}
