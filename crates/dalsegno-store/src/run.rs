//! A run as a whole: how it is created, what a listing shows, its snapshot.

use std::collections::BTreeMap;

use dalsegno_core::{AgentName, AgentState, Digest, RunId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::blob;
use crate::copies::Copies;
use crate::error::{BlobError, CreateError};
use crate::lease::Lease;
use crate::origin::Foreign;
use crate::owner::OwnerId;
use crate::record::{Body, NewRecord, Record, Started};
use crate::waiting::{Waiting, WaitingSet};

/// A run that is to be created.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its id.
    pub run: RunId,
    /// The agent.
    pub agent: AgentName,
    /// The tenant on whose behalf it works.
    pub tenant: String,
    /// The digest of the agent's configuration.
    pub config: Digest,
    /// The configuration as JSON, kept once for each digest.
    pub config_json: String,
    /// The caller's key for this start, unique for the tenant.
    pub key: Option<String>,
    /// The digest of what the run is asked. The same key with another one is a conflict.
    pub request_digest: Digest,
    /// Who owns the run from the start.
    pub owner: OwnerId,
    /// The first records. The very first is [`Body::Started`].
    pub records: Vec<NewRecord>,
    /// Files that the first records refer to, by the digests of their bytes ([`digest_bytes`](crate::digest_bytes));
    /// at most 32 MiB each. What the store has already need not be here.
    pub blobs: Vec<(Digest, Vec<u8>)>,
    /// What must be the last root run of the session still.
    pub follows: Follows,
}

/// What must be the last root run of a session that can be followed when the next one is created: one of this journal's own
/// that has ended, was not abandoned, and has all of its content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Follows {
    /// Whatever is.
    #[default]
    Any,
    /// This run; none, if the session has no such run.
    Last(Option<RunId>),
}

impl NewRun {
    /// A run that begins with `started`, which also says the agent, the tenant, the configuration and the key.
    pub fn new(
        run: RunId,
        config_json: impl Into<String>,
        request_digest: Digest,
        owner: OwnerId,
        at: Timestamp,
        started: Started,
    ) -> Self {
        Self {
            run,
            agent: started.agent.clone(),
            tenant: started.request.tenant.clone(),
            config: started.config,
            config_json: config_json.into(),
            key: started.start_key.clone(),
            request_digest,
            owner,
            records: vec![NewRecord::new(at, Body::Started(started))],
            blobs: Vec::new(),
            follows: Follows::Any,
        }
    }

    /// Checks that the session's last root run is the one that this run is to follow.
    pub(crate) fn check_follows(&self, session: &str, last: Option<RunId>) -> Result<(), CreateError> {
        match self.follows {
            Follows::Last(expected) if expected != last => {
                Err(CreateError::Overtaken { session: session.to_owned(), last })
            }
            Follows::Last(_) | Follows::Any => Ok(()),
        }
    }

    /// The first record, if it is what it must be.
    pub(crate) fn started(&self) -> Result<(Timestamp, &Started), CreateError> {
        if let Some(NewRecord { at, body: Body::Started(started), .. }) = self.records.first()
            && started.agent == self.agent
            && started.request.tenant == self.tenant
            && started.config == self.config
            && started.start_key == self.key
        {
            return Ok((*at, started));
        }
        Err(CreateError::NotStarted { run: self.run })
    }

    /// What the run's entry repeats of its first records.
    pub(crate) fn copies(&self, started_at: Timestamp, started: &Started) -> Copies {
        let updated_at = self.records.last().map_or(started_at, |record| record.at);
        let bodies = self.records.iter().map(|record| &record.body);
        Copies::begun(started_at, started).after(bodies, WaitingSet::EMPTY, updated_at)
    }

    /// The run's line in the listing once it is created.
    ///
    /// # Errors
    /// When its first record is not what it must be.
    pub fn summary(&self) -> Result<RunSummary, CreateError> {
        let (at, started) = self.started()?;
        let copies = self.copies(at, started);
        let Copies { tenant, session, parent, config, started_at, updated_at, progress, .. } = copies;
        let Progress { status, wake_at, waiting } = progress;
        Ok(RunSummary {
            run: self.run,
            agent: self.agent.clone(),
            tenant,
            session,
            status,
            started_at,
            updated_at,
            records: self.records.len() as u64,
            config,
            wake_at,
            owner: Some(self.owner),
            parent,
            waiting: waiting.kinds(),
            foreign: None,
        })
    }

    /// Checks that the run goes on from another one with these copies, whose last record says so.
    pub(crate) fn goes_on_from(&self, run: RunId, ended: &Copies) -> Result<(), CreateError> {
        let (at, started) = self.started()?;
        let copies = Copies::begun(at, started);
        let comparisons = [
            // A run that had ended otherwise stays so, whatever is appended.
            (ended.progress.status == RunStatus::HandedOff, "status"),
            (copies.tenant == ended.tenant, "tenant"),
            (copies.session == ended.session, "session"),
            (copies.parent == ended.parent, "parent"),
            (started.predecessor == Some(run), "predecessor"),
        ];
        match comparisons.into_iter().find(|(agrees, _)| !agrees) {
            None => Ok(()),
            Some((_, field)) => Err(CreateError::NotSuccessor { run, successor: self.run, field }),
        }
    }

    /// Checks that these records of a run end with a handover to this one.
    pub(crate) fn is_handed_off_by(&self, run: RunId, records: &[NewRecord]) -> Result<(), CreateError> {
        match records.last().map(|record| &record.body) {
            Some(Body::HandedOff { run: next, target, .. }) if *next == self.run && *target == self.agent => {
                Ok(())
            }
            _ => Err(CreateError::NotSuccessor { run, successor: self.run, field: "last record" }),
        }
    }

    /// Checks the files.
    pub(crate) fn check_blobs(&self) -> Result<(), CreateError> {
        self.blobs.iter().try_for_each(|(digest, bytes)| blob::check(*digest, bytes))?;
        check_files(&self.records)?;
        Ok(())
    }

    /// Says whether an existing run came of the same start; else, what is wrong.
    pub(crate) fn is_start_of(&self, existing: &Existing) -> Result<RunId, CreateError> {
        let is_same = existing.agent == self.agent.as_str()
            && existing.request_digest == *self.request_digest.as_bytes();
        // What an archive brought is no start of this journal's, whatever id it has.
        if is_same && !existing.foreign {
            return Ok(existing.run);
        }
        match &self.key {
            Some(key) if existing.by_key => {
                Err(CreateError::KeyConflict { key: key.clone(), run: existing.run })
            }
            _ => Err(CreateError::RunConflict { run: existing.run }),
        }
    }
}

/// Checks the files that come with records.
pub(crate) fn check_files(records: &[NewRecord]) -> Result<(), BlobError> {
    let files = records.iter().flat_map(|record| &record.files);
    files.into_iter().try_for_each(|(digest, bytes)| blob::check(*digest, bytes))
}

/// A run that has the key or the id of one that is to be created.
pub(crate) struct Existing {
    pub(crate) run: RunId,
    pub(crate) agent: String,
    pub(crate) request_digest: [u8; 32],
    /// It has the key; else the id.
    pub(crate) by_key: bool,
    pub(crate) foreign: bool,
}

/// What came of creating a run.
#[derive(Debug)]
pub enum Created {
    /// The run is new, and the caller owns it.
    New(Lease),
    /// This start happened already: the tenant's key, or the run's id, with the same agent and request.
    Existing(RunId),
}

/// Where a run stands. Derived from its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum RunStatus {
    /// It goes on, or was interrupted and is to go on.
    Running = 0,
    /// It waits for people or time.
    Suspended = 1,
    /// It ended with an answer.
    Completed = 2,
    /// It ended with an error.
    Failed = 3,
    /// Somebody ended it.
    Cancelled = 4,
    /// Another agent went on.
    HandedOff = 5,
    /// A person ended it without a look at what it had done.
    Abandoned = 6,
}

impl RunStatus {
    /// Every status, in the order of the numbers, which are part of the stored form.
    pub const ALL: &[Self] = &[
        Self::Running,
        Self::Suspended,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::HandedOff,
        Self::Abandoned,
    ];

    /// The status as text, such as `handed_off`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::HandedOff => "handed_off",
            Self::Abandoned => "abandoned",
        }
    }

    /// Says whether the run is over.
    pub const fn is_end(self) -> bool {
        match self {
            Self::Running | Self::Suspended => false,
            Self::Completed | Self::Failed | Self::Cancelled | Self::HandedOff | Self::Abandoned => true,
        }
    }

    /// Says whether the next run of a session can take over what such a run has come to.
    pub(crate) const fn is_followable(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled | Self::HandedOff => true,
            Self::Running | Self::Suspended | Self::Abandoned => false,
        }
    }
}

impl std::fmt::Display for RunStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The latest time at which a run wakes by itself.
const LATEST: Timestamp = Timestamp::from_millis(i64::MAX.cast_unsigned());

/// What some records change about a run's status. An end is final: what comes after it changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) status: RunStatus,
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) waiting: WaitingSet,
}

impl Progress {
    /// That of a run that has only begun.
    pub(crate) const BEGUN: Self =
        Self { status: RunStatus::Running, wake_at: None, waiting: WaitingSet::EMPTY };

    /// Says whether a run whose process died is to be acquired by another one: it was under way, or the process died after
    /// it had suspended the run and before it released it, and may have missed what it waits for.
    pub(crate) const fn must_be_let_go(self) -> bool {
        match self.status {
            RunStatus::Running | RunStatus::Suspended => true,
            RunStatus::Completed
            | RunStatus::Failed
            | RunStatus::Cancelled
            | RunStatus::HandedOff
            | RunStatus::Abandoned => self.waiting.number() > 0,
        }
    }

    /// Folds bodies; none when they change nothing.
    pub(crate) fn of<'a>(bodies: impl IntoIterator<Item = &'a Body>) -> Option<Self> {
        bodies.into_iter().fold(None, |progress: Option<Self>, body| {
            if let Some(ended) = progress.filter(|progress| progress.status.is_end()) {
                return Some(ended.with_late([body]));
            }
            let status = match body {
                Body::Late { .. } => return progress,
                Body::Suspended { waiting_for, wake_at } => {
                    let waiting = WaitingSet::of(waiting_for, *wake_at);
                    // The file numbers times up to there. Nobody waits as long, and beyond it a time would come first.
                    let wake_at = wake_at.map(|at| at.min(LATEST));
                    return Some(Self { status: RunStatus::Suspended, wake_at, waiting });
                }
                Body::Paused { waiting_for, .. } => {
                    let waiting = WaitingSet::of(waiting_for, None).with(Waiting::Paused);
                    return Some(Self { status: RunStatus::Suspended, wake_at: None, waiting });
                }
                Body::Completed { .. } => RunStatus::Completed,
                Body::Failed { .. } => RunStatus::Failed,
                Body::Cancelled { .. } => RunStatus::Cancelled,
                Body::HandedOff { .. } => RunStatus::HandedOff,
                Body::Abandoned { .. } => RunStatus::Abandoned,
                Body::Started(_)
                | Body::Requested { .. }
                | Body::Attempted { .. }
                | Body::Waiting { .. }
                | Body::Answered { .. }
                | Body::Denied { .. }
                | Body::Tasked { .. }
                | Body::Verified { .. }
                | Body::Resolved { .. }
                | Body::Signalled { .. }
                | Body::Forked { .. }
                | Body::Adopted { .. }
                | Body::Inherited(_)
                | Body::Conversed { .. }
                | Body::Narrowed { .. }
                | Body::Rebound { .. }
                | Body::Continued { .. } => RunStatus::Running,
            };
            Some(Self { status, ..Self::BEGUN })
        })
    }

    /// The same, of a run that waits for this while it is performed.
    #[must_use]
    pub(crate) fn awaiting(self, waiting: WaitingSet) -> Self {
        match self.status {
            RunStatus::Running => Self { waiting, ..self },
            _ => self,
        }
    }

    /// That of an ended run after more bodies: only what is in doubt changes.
    #[must_use]
    pub(crate) fn with_late<'a>(self, bodies: impl IntoIterator<Item = &'a Body>) -> Self {
        Self { waiting: late(bodies).unwrap_or(self.waiting), ..self }
    }
}

/// Says whether a person is asked something in these records.
pub(crate) fn asks(records: &[NewRecord]) -> bool {
    records.iter().any(|record| matches!(record.body, Body::Waiting { .. }))
}

/// What an ended run waits for after these bodies; none when they say nothing about it.
pub(crate) fn late<'a>(bodies: impl IntoIterator<Item = &'a Body>) -> Option<WaitingSet> {
    let open = bodies.into_iter().filter_map(|body| match body {
        Body::Late { open, .. } => Some(*open),
        _ => None,
    });
    open.last().map(|open| if open > 0 { WaitingSet::IN_DOUBT } else { WaitingSet::EMPTY })
}

/// One line of a listing: the run's entry, which only a read or an acquisition compares with the records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run.
    pub run: RunId,
    /// Its agent.
    pub agent: AgentName,
    /// Its tenant.
    pub tenant: String,
    /// Its session.
    pub session: String,
    /// Where it stands.
    pub status: RunStatus,
    /// When it began.
    pub started_at: Timestamp,
    /// The time of its last record.
    pub updated_at: Timestamp,
    /// The number of its records.
    pub records: u64,
    /// The digest of its configuration.
    pub config: Digest,
    /// When it wakes by itself.
    pub wake_at: Option<Timestamp>,
    /// Who owns it, dead or alive; none after a release.
    pub owner: Option<OwnerId>,
    /// The run that it is a child of; none for a root run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// What it waits for; of a suspended run a [`Waiting::Timer`] as well when it wakes by itself. Of a running one, what its process
    /// [said](crate::Lease::waits_for).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
    /// Where it came from; none for a run of this journal's own. Nobody performs a foreign one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Foreign>,
}

/// The latest change of a run's status: it began, was suspended, went on, ended, asks a person something, or waits for something else.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Its number: higher than that of every change before it in the journal.
    pub number: u64,
    /// The run's line in the listing, as it is now.
    pub run: RunSummary,
}

/// Which runs a listing shows. The default shows the newest 100 of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFilter {
    /// Only this agent's.
    pub agent: Option<AgentName>,
    /// Only those that stand here.
    pub status: Option<RunStatus>,
    /// Only this tenant's.
    pub tenant: Option<String>,
    /// Only suspended ones that wake at this time or before. A foreign one never wakes.
    pub wake_by: Option<Timestamp>,
    /// Only those of this session.
    pub session: Option<String>,
    /// Only children of this run.
    pub parent: Option<RunId>,
    /// Only runs that are nobody's children.
    pub roots_only: bool,
    /// Only those that wait for this, among others. Found by an index.
    pub waiting: Option<Waiting>,
    /// Only those that wait for something: suspended ones, running ones that wait for a person, and ended ones of which an effect is in
    /// doubt.
    pub waits: bool,
    /// Only foreign runs, or only this journal's own.
    pub foreign: Option<bool>,
    /// Only runs that the next one of their session can follow: they have ended, were not abandoned, and have all of their
    /// content.
    pub followable: bool,
    /// Only runs that began at this time or later.
    pub since: Option<Timestamp>,
    /// Only runs that began before this time.
    pub until: Option<Timestamp>,
    /// Only runs behind this one in the listing: the next page after it. None where it is unknown.
    pub after: Option<RunId>,
    /// Most lines. 100 by default: more than anybody reads, and cheap.
    pub limit: u32,
}

impl RunFilter {
    /// Says whether a run fits, as far as its line in the listing says it: all but `followable`, `after` and `limit`.
    pub fn matches(&self, run: &RunSummary) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, found: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        is(self.agent.as_ref(), &run.agent)
            && is(self.status.as_ref(), &run.status)
            && is(self.tenant.as_ref(), &run.tenant)
            && is(self.session.as_ref(), &run.session)
            && self.parent.is_none_or(|parent| run.parent == Some(parent))
            && (!self.roots_only || run.parent.is_none())
            && self.waiting.is_none_or(|kind| run.waiting.contains(&kind))
            && (!self.waits || run.status == RunStatus::Suspended || !run.waiting.is_empty())
            && self.foreign.is_none_or(|foreign| run.foreign.is_some() == foreign)
            && self.wake_by.is_none_or(|by| run.foreign.is_none() && run.wake_at.is_some_and(|at| at <= by))
            && self.since.is_none_or(|since| run.started_at >= since)
            && self.until.is_none_or(|until| run.started_at < until)
    }
}

impl Default for RunFilter {
    fn default() -> Self {
        Self {
            agent: None,
            status: None,
            tenant: None,
            wake_by: None,
            session: None,
            parent: None,
            roots_only: false,
            waiting: None,
            waits: false,
            foreign: None,
            followable: false,
            since: None,
            until: None,
            after: None,
            limit: 100,
        }
    }
}

/// What tells where a run stands, at a cost that does not grow with the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Recent {
    /// Its line in the listing.
    pub summary: RunSummary,
    /// The configuration that it began with, as JSON.
    pub config: String,
    /// Its latest snapshot, if there is one.
    pub snapshot: Option<Snapshot>,
    /// The records since the snapshot; all of them where there is none.
    pub records: Vec<Record>,
    /// Its second record, where that is before the snapshot: it says where a copy of another run came from.
    pub second: Option<Record>,
}

/// A run's state after its first `seq` records. A cache: the journal alone is the truth.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The number of records that the state includes.
    pub seq: u64,
    /// The state.
    pub state: AgentState,
    /// When it was saved, which is when its step was requested. The state itself knows the time of its last event, which may
    /// be much older.
    pub at: Timestamp,
    /// The run's active time so far, in milliseconds.
    pub active_ms: u64,
    /// The modules that tool servers were bound to last: server and digest.
    pub modules: BTreeMap<String, String>,
}

/// Most runs that a search by prefix returns: enough to say that it is ambiguous, and to show some.
pub(crate) const FOUND_MAX: usize = 16;

/// The first and the last id that begin with these hexadecimal digits.
pub(crate) fn prefix_range(prefix: &str) -> Option<(RunId, RunId)> {
    let missing = 32usize.checked_sub(prefix.len())?;
    let bound = |fill: &str| format!("{prefix}{}", fill.repeat(missing)).parse().ok();
    Some((bound("0")?, bound("f")?))
}
