//! What a run's entry repeats of its records, so that listings need not read them, and the proof that it repeats them
//! rightly.
//!
//! The entry's own checksum covers what no record repeats, and all of the entry only once content of the run was erased.
//! What the runtime goes by (whose run it is, of which agent and configuration) is therefore never trusted before it was
//! compared with the records, whose chain covers it.

use dalsegno_core::{Digest, RunId, Timestamp};

use crate::error::{Damage, Flaw, ReadError};
use crate::record::{Body, Record, Started};
use crate::run::{Progress, RunStatus};
use crate::waiting::WaitingSet;

/// What a run's entry repeats of its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copies {
    pub(crate) agent: String,
    pub(crate) tenant: String,
    pub(crate) session: String,
    /// The run that it is a child of.
    pub(crate) parent: Option<RunId>,
    pub(crate) config: Digest,
    pub(crate) start_key: Option<String>,
    pub(crate) started_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) progress: Progress,
}

impl Copies {
    /// What an entry is to repeat of these verified records, which are a run's records from the first on.
    pub(crate) fn of(run: RunId, records: &[Record]) -> Result<Self, ReadError> {
        let (Some(Record { at, body: Body::Started(started), .. }), Some(last)) =
            (records.first(), records.last())
        else {
            return Err(Damage { run, seq: 0, what: Flaw::NotStarted, intact: 0 }.into());
        };
        let bodies = records.iter().map(|record| &record.body);
        Ok(Self::begun(*at, started).after(bodies, WaitingSet::EMPTY, last.at))
    }

    /// Those of a run that has only begun.
    pub(crate) fn begun(at: Timestamp, started: &Started) -> Self {
        Self {
            agent: started.agent.to_string(),
            tenant: started.request.tenant.clone(),
            session: started.session.clone(),
            parent: started.parent.map(|parent| parent.run),
            config: started.config,
            start_key: started.start_key.clone(),
            started_at: at,
            updated_at: at,
            progress: Progress::BEGUN,
        }
    }

    /// The same after more bodies, the last of which came at this time. If the run is running after them, it waits for this. An end
    /// stays, though more comes after it.
    #[must_use]
    pub(crate) fn after<'a>(
        self,
        bodies: impl IntoIterator<Item = &'a Body>,
        waiting: WaitingSet,
        updated_at: Timestamp,
    ) -> Self {
        let progress = match self.progress.status.is_end() {
            true => self.progress.with_late(bodies),
            false => Progress::of(bodies).map_or(self.progress, |progress| progress.awaiting(waiting)),
        };
        Self { updated_at, progress, ..self }
    }

    /// Says whether the run is a root run that goes on, of which a session has at most one.
    pub(crate) const fn is_open_root(&self) -> bool {
        self.parent.is_none() && !self.progress.status.is_end()
    }

    /// Says whether the run waits for what the last records say. A running one waits for no more than the gates that all of its records
    /// leave open: earlier releases did not say what it waits for.
    fn waits_as(&self, progress: Progress, last: &[Record]) -> bool {
        let waiting = self.progress.waiting;
        match progress.status {
            RunStatus::Running if last.first().is_none_or(|record| record.seq > 0) => true,
            RunStatus::Running if waiting == WaitingSet::EMPTY => true,
            RunStatus::Running => waiting.is_within(WaitingSet::at_gates(last)),
            _ => waiting == progress.waiting,
        }
    }

    /// Compares them with the run's verified records: the first one, and the last ones from one that decides on.
    ///
    /// An end is final, whatever follows it. So when the last records alone contradict the status, an end before them
    /// may still explain it, and only a comparison with all records settles the matter.
    pub(crate) fn check(&self, run: RunId, first: &Record, last: &[Record]) -> Result<(), ReadError> {
        let Body::Started(started) = &first.body else {
            return Err(Damage { run, seq: first.seq, what: Flaw::NotStarted, intact: first.seq }.into());
        };
        let end = last.last().unwrap_or(first);
        let progress = Progress::of(last.iter().map(|record| &record.body)).unwrap_or(Progress::BEGUN);
        let comparisons = [
            (self.agent == started.agent.as_str(), "agent", first),
            (self.tenant == started.request.tenant, "tenant", first),
            (self.session == started.session, "session", first),
            (self.parent == started.parent.map(|parent| parent.run), "parent", first),
            (self.config == started.config, "config", first),
            (self.start_key == started.start_key, "start_key", first),
            (self.started_at == first.at, "started_at", first),
            (self.progress.status == progress.status, "status", end),
            (self.progress.wake_at == progress.wake_at, "wake_at", end),
            (self.waits_as(progress, last), "waiting", end),
            (self.updated_at == end.at, "updated_at", end),
        ];
        match comparisons.into_iter().find(|(agrees, ..)| !agrees) {
            None => Ok(()),
            Some((_, field, record)) => {
                Err(Damage { run, seq: record.seq, what: Flaw::Copy { field }, intact: end.seq + 1 }.into())
            }
        }
    }
}
