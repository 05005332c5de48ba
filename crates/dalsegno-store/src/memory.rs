//! A journal in memory: the twin of the SQLite store for tests, plain enough to be read as its specification.
//!
//! It keeps encoded rows rather than values, so that what it returns went through the same encoding and verification.

mod keep;
mod list;
#[cfg(test)]
mod tests;
mod transfer;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use dalsegno_core::{AgentName, Digest, OperationId, RunId, Timestamp};

use crate::archive::{Archive, ImportError, Imported, files, needed, returned};
use crate::bytes::Link;
use crate::chain::{Head, Row, Verifier, seal};
use crate::copies::Copies;
use crate::erase::{EraseError, Erased};
use crate::error::{
    AcquireError, AppendError, BlobError, CreateError, Flaw, ReadError, SnapshotError, StorageError,
};
use crate::gc::{GcError, GcOptions, GcReport};
use crate::inbox::{Message, PostError, StoredMessage, Told};
use crate::lease::{Holds, Lease};
use crate::origin::Foreign;
use crate::owner::{Owner, OwnerId};
use crate::page::Page;
use crate::record::{NewRecord, Record, RecordKind};
use crate::run::{
    Change, Created, Existing, FOUND_MAX, NewRun, Progress, RunFilter, RunStatus, RunSummary, Snapshot, asks,
    check_files, prefix_range,
};
use crate::shares::Turn;
use crate::snapshot::StoredSnapshot;
use crate::spending::{Allowance, ReserveError, reserved, settled};
use crate::store::Store;

/// Files by the numbers of the records that use them.
type Files = BTreeMap<u64, BTreeSet<Digest>>;

/// A journal in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    shelf: Mutex<Shelf>,
    holds: Holds,
    told: Told,
    turn: Turn,
}

#[derive(Debug, Default)]
struct Shelf {
    /// The number of runs that were ever created.
    created: usize,
    /// The number of the latest change of a status.
    changes: u64,
    runs: BTreeMap<RunId, Run>,
    keys: BTreeMap<(String, String), RunId>,
    /// The root runs of each tenant's session, of which at most one goes on.
    roots: BTreeMap<(String, String), Vec<RunId>>,
    configs: BTreeMap<Digest, String>,
    blobs: BTreeMap<Digest, Vec<u8>>,
    /// What each account has spent or reserved on a day.
    spending: BTreeMap<(String, String), u64>,
}

#[derive(Debug, Clone)]
struct Run {
    /// Its place in the order of creation.
    number: usize,
    /// The number of the latest change of its status.
    changed: u64,
    agent: AgentName,
    copies: Copies,
    request_digest: Digest,
    epoch: u64,
    owner: Option<OwnerId>,
    rows: Vec<Row>,
    snapshot: Option<StoredSnapshot>,
    /// The number of messages that were ever posted.
    posted: u64,
    inbox: Vec<StoredMessage>,
    /// The files that each record refers to, or that came with it.
    files: Files,
    /// Where it came from; none for a run of this journal's own.
    foreign: Option<Foreign>,
}

impl MemoryStore {
    /// Imports an archive as [`Store::import`] does, and returns the records of its runs, which are decoded to be verified.
    ///
    /// # Errors
    /// As with [`Store::import`].
    pub fn import_read(&self, archive: Archive) -> Result<BTreeMap<RunId, Vec<Record>>, ImportError> {
        let mut read = BTreeMap::new();
        let verified = archive.verify_with(|run, records| drop(read.insert(run, records)))?;
        self.shelf().import(verified)?;
        Ok(read)
    }

    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a run that nobody alive owns, if a look at it finds nothing wrong.
    fn take(
        &self,
        run: RunId,
        owner: &Owner,
        look: impl FnOnce(&Run) -> Result<(), ReadError>,
    ) -> Result<Lease, AcquireError> {
        let mut shelf = self.shelf();
        let entry = shelf.runs.get_mut(&run).ok_or(AcquireError::UnknownRun { run })?;
        if entry.foreign.is_some() {
            return Err(AcquireError::Foreign { run });
        }
        if let Some(by) = entry.owner {
            let lives =
                if by == owner.id() { self.holds.holds(run, entry.epoch) } else { owner.sees_alive(by) };
            if lives {
                return Err(AcquireError::Owned { run, by });
            }
        }
        look(entry)?;
        entry.epoch += 1;
        let adopted = entry.owner.replace(owner.id()).filter(|by| *by != owner.id());
        let (head, epoch) = (entry.head(), entry.epoch);
        drop(shelf);
        if let Some(dead) = adopted {
            owner.bury(dead);
        }
        Ok(Lease::new(run, epoch, owner.id(), head, 0, &self.holds))
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    /// The files that its records use.
    fn files(&self) -> impl Iterator<Item = Digest> {
        self.files.values().flatten().copied()
    }

    /// Says whether the next run of its session can follow it.
    fn is_followable(&self) -> bool {
        self.copies.progress.status.is_followable() && self.rows.iter().all(|row| row.body.is_some())
    }

    fn head(&self) -> Head {
        Head {
            next_seq: self.rows.len() as u64,
            link: self.rows.last().map(|row| row.link).unwrap_or_default(),
        }
    }

    /// The condition of every write.
    fn check(&self, lease: &Lease) -> Result<(), AppendError> {
        let Lease { run, epoch, next_seq, .. } = *lease;
        if self.epoch != epoch {
            return Err(AppendError::Fenced { run, epoch, current: self.epoch });
        }
        let found = self.head().next_seq;
        if found == next_seq {
            Ok(())
        } else {
            Err(AppendError::SeqMismatch { run, expected: next_seq, found })
        }
    }

    /// Reads and verifies the records from `from` on, and the copies.
    fn read(&self, run: RunId, from: u64) -> Result<Vec<Record>, ReadError> {
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(self.rows.len());
        match self.verified(run, from) {
            // Only what verifies from the beginning says what can be saved, and whether an end explains the status.
            Err(ReadError::Damaged(_)) if from > 0 => {
                self.verified(run, 0).map(|mut records| records.split_off(from))
            }
            result => result,
        }
    }

    /// Reads and verifies some records, up to the first that cannot be read.
    fn page(&self, run: RunId, from: u64, most: usize) -> Page {
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(self.rows.len());
        let (before, rest) = self.rows.split_at(from);
        let previous = before.last().map(|row| row.link).unwrap_or_default();
        let rows = rest.iter().map(|row| Ok::<_, Infallible>(Ok(row.clone())));
        let Ok(page) = Page::fill(Verifier::new(run, from as u64, previous), rows, self.head(), most);
        page
    }

    /// Reads the first record, and verifies the copies.
    fn first(&self, run: RunId) -> Result<Record, ReadError> {
        self.read(run, self.rows.len() as u64)?;
        let first =
            self.rows.first().ok_or_else(|| Verifier::new(run, 0, Link::default()).damage(Flaw::Missing))?;
        Verifier::check_first(run, first)
    }

    fn verified(&self, run: RunId, from: usize) -> Result<Vec<Record>, ReadError> {
        let decides = self.rows.iter().rposition(|row| row.kind != RecordKind::Late as u8);
        let start = from.min(decides.unwrap_or(0));
        let (before, rest) = self.rows.split_at(start);
        let previous = before.last().map(|row| row.link).unwrap_or_default();
        let mut verifier = Verifier::new(run, start as u64, previous);
        let mut records: Vec<Record> =
            rest.iter().map(|row| verifier.check(row)).collect::<Result<_, _>>()?;
        verifier.finish(self.head())?;
        let first =
            self.rows.first().ok_or_else(|| Verifier::new(run, 0, Link::default()).damage(Flaw::Missing))?;
        self.copies.check(run, &Verifier::check_first(run, first)?, &records)?;
        Ok(records.split_off(from - start))
    }

    fn summary(&self, run: RunId) -> RunSummary {
        let copies = &self.copies;
        RunSummary {
            run,
            agent: self.agent.clone(),
            tenant: copies.tenant.clone(),
            session: copies.session.clone(),
            status: copies.progress.status,
            started_at: copies.started_at,
            updated_at: copies.updated_at,
            records: self.head().next_seq,
            config: copies.config,
            wake_at: copies.progress.wake_at,
            owner: self.owner,
            parent: copies.parent,
            waiting: copies.progress.waiting.kinds(),
            foreign: self.foreign,
        }
    }
}

impl Shelf {
    fn is_suspended(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|run| run.copies.progress.status == RunStatus::Suspended)
    }

    fn run(&self, run: RunId) -> Result<&Run, ReadError> {
        self.runs.get(&run).ok_or(ReadError::UnknownRun { run })
    }

    fn existing(&self, new: &NewRun) -> Option<Existing> {
        let key = new.key.as_ref().and_then(|key| self.keys.get(&(new.tenant.clone(), key.clone())));
        let id = key.copied().unwrap_or(new.run);
        self.runs.get(&id).map(|run| Existing {
            run: id,
            agent: run.agent.to_string(),
            request_digest: *run.request_digest.as_bytes(),
            by_key: key.is_some(),
            foreign: run.foreign.is_some(),
        })
    }

    /// The root run that goes on in the session of another one.
    fn open_root(&self, copies: &Copies) -> Option<RunId> {
        let roots = self.roots.get(&(copies.tenant.clone(), copies.session.clone()))?;
        roots.iter().copied().find(|id| self.runs.get(id).is_some_and(|run| run.copies.is_open_root()))
    }

    /// The root run that was created last in the session of another one, of those that can be followed.
    fn last_root(&self, copies: &Copies) -> Option<RunId> {
        let roots = self.roots.get(&(copies.tenant.clone(), copies.session.clone()))?;
        roots.iter().rev().copied().find(|id| self.runs.get(id).is_some_and(Run::is_followable))
    }

    /// The number of the next run.
    const fn next(&mut self) -> usize {
        self.created += 1;
        self.created
    }

    /// The number of the next change of a status.
    const fn next_change(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    /// Puts a run in its place. A foreign one has no key here, and no place in its session.
    fn insert(&mut self, id: RunId, run: Run) {
        let Copies { tenant, session, start_key, parent, .. } = &run.copies;
        let is_own = run.foreign.is_none();
        if let Some(key) = start_key.as_ref().filter(|_| is_own) {
            self.keys.insert((tenant.clone(), key.clone()), id);
        }
        if parent.is_none() && is_own {
            self.roots.entry((tenant.clone(), session.clone())).or_default().push(id);
        }
        self.runs.insert(id, run);
    }

    fn create(&mut self, new: NewRun, holds: &Holds) -> Result<Created, CreateError> {
        let (started_at, started) = new.started()?;
        new.check_blobs()?;
        let rows = seal(new.run, 0, Link::default(), &new.records)?;
        if let Some(existing) = self.existing(&new) {
            return new.is_start_of(&existing).map(Created::Existing);
        }
        let copies = new.copies(started_at, started);
        if copies.is_open_root()
            && let Some(run) = self.open_root(&copies)
        {
            return Err(CreateError::SessionBusy { session: copies.session, run });
        }
        new.check_follows(&copies.session, self.last_root(&copies))?;
        let bodies = || new.records.iter().map(|record| &record.body);
        let came = |digest: &Digest| new.blobs.iter().any(|(known, _)| known == digest);
        if let Some(digest) =
            bodies().flat_map(needed).find(|digest| !came(digest) && !self.blobs.contains_key(digest))
        {
            return Err(CreateError::Blob(BlobError::Missing { digest }));
        }
        let mut files = used(0, &new.records);
        let named: BTreeSet<Digest> = files.range(1..).flat_map(|(_, files)| files).copied().collect();
        let came = new.blobs.iter().map(|(digest, _)| *digest).filter(|digest| !named.contains(digest));
        files.entry(0).or_default().extend(came);
        let owner = new.owner;
        let run = Run {
            number: self.next(),
            changed: self.next_change(),
            agent: new.agent,
            copies,
            request_digest: new.request_digest,
            epoch: 1,
            owner: Some(new.owner),
            rows,
            snapshot: None,
            posted: 0,
            inbox: Vec::new(),
            files,
            foreign: None,
        };
        let head = run.head();
        self.configs.entry(new.config).or_insert(new.config_json);
        for (digest, bytes) in new.blobs {
            self.blobs.entry(digest).or_insert(bytes);
        }
        self.keep_files(&new.records);
        self.insert(new.run, run);
        Ok(Created::New(Lease::new(new.run, 1, owner, head, 0, holds)))
    }

    /// Keeps the files that come with records.
    fn keep_files(&mut self, records: &[NewRecord]) {
        for (digest, bytes) in records.iter().flat_map(|record| &record.files) {
            self.blobs.entry(*digest).or_insert_with(|| bytes.to_vec());
        }
    }

    /// Appends records and returns the head after them.
    fn append(
        &mut self,
        lease: &Lease,
        records: &[NewRecord],
        consumed: &[u64],
    ) -> Result<Head, AppendError> {
        check_files(records)?;
        let rows = seal(lease.run, lease.next_seq, lease.head, records)?;
        if rows.is_empty() && consumed.is_empty() {
            return Ok(Head { next_seq: lease.next_seq, link: lease.head });
        }
        let run = self.runs.get_mut(&lease.run).ok_or(AppendError::UnknownRun { run: lease.run })?;
        run.check(lease)?;
        let mut inbox = run.inbox.clone();
        for number in consumed {
            let place = inbox.iter().position(|message| message.number == *number);
            let place = place.ok_or(AppendError::UnknownMessage { run: lease.run, number: *number })?;
            inbox.remove(place);
        }
        let came = |digest: &Digest| {
            records.iter().flat_map(|record| &record.files).any(|(known, _)| known == digest)
        };
        let named = || records.iter().flat_map(|record| returned(&record.body));
        if let Some(digest) = named().find(|digest| !came(digest) && !self.blobs.contains_key(digest)) {
            return Err(AppendError::Blob(BlobError::Absent { digest }));
        }
        let updated_at = records.last().map_or(run.copies.updated_at, |record| record.at);
        let before = run.copies.progress;
        let bodies = records.iter().map(|record| &record.body);
        run.copies = run.copies.clone().after(bodies, lease.waiting, updated_at);
        if asks(records) || run.copies.progress != before {
            self.changes += 1;
            run.changed = self.changes;
        }
        if run.copies.progress.status.is_end() {
            inbox.clear();
        }
        run.inbox = inbox;
        run.files.extend(used(lease.next_seq, records));
        run.rows.extend(rows);
        let head = run.head();
        self.keep_files(records);
        Ok(head)
    }
}

/// The files that records use, from this number on.
fn used(from: u64, records: &[NewRecord]) -> Files {
    let of = |record: &NewRecord| {
        let came = record.files.iter().map(|(digest, _)| *digest);
        files(&record.body).chain(came).collect::<BTreeSet<Digest>>()
    };
    (from..).zip(records.iter().map(of)).filter(|(_, files)| !files.is_empty()).collect()
}

#[async_trait]
impl Store for MemoryStore {
    async fn create(&self, run: NewRun) -> Result<Created, CreateError> {
        self.shelf().create(run, &self.holds)
    }

    async fn hand_off_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
        successor: NewRun,
    ) -> Result<Created, CreateError> {
        successor.is_handed_off_by(lease.run, &records)?;
        let mut shelf = self.shelf();
        let before = shelf.runs.get(&lease.run).cloned();
        let files = records.iter().flat_map(|record| &record.files).map(|(digest, _)| *digest);
        let fresh: Vec<Digest> = files.filter(|digest| !shelf.blobs.contains_key(digest)).collect();
        let head = shelf.append(lease, &records, &consumed)?;
        let created = match shelf.runs.get(&lease.run) {
            Some(ended) => successor.goes_on_from(lease.run, &ended.copies),
            None => Err(AppendError::UnknownRun { run: lease.run }.into()),
        };
        let next = successor.run;
        let created = created.and_then(|()| shelf.create(successor, &self.holds));
        match created {
            Ok(mut created) => {
                let messages = before.map(|run| run.inbox).unwrap_or_default();
                shelf.pass_on(
                    lease.run,
                    messages.into_iter().filter(|message| !consumed.contains(&message.number)),
                    next,
                );
                lease.next_seq = head.next_seq;
                lease.head = head.link;
                if let Created::New(next) = &mut created {
                    next.tells = lease.tells;
                }
                Ok(created)
            }
            Err(error) => {
                shelf.runs.extend(before.map(|run| (lease.run, run)));
                shelf.blobs.retain(|digest, _| !fresh.contains(digest));
                Err(error)
            }
        }
    }

    async fn append_with(
        &self,
        lease: &mut Lease,
        records: Vec<NewRecord>,
        consumed: Vec<u64>,
    ) -> Result<Vec<u64>, AppendError> {
        let first = lease.next_seq;
        let mut shelf = self.shelf();
        let head = shelf.append(lease, &records, &consumed)?;
        let progress = Progress::of(records.iter().map(|record| &record.body));
        let status = progress.map(|progress| progress.status);
        if status.is_some_and(RunStatus::is_end) {
            shelf.end_children(lease.run);
        }
        if let (Some(tells), Some(status)) = (lease.tells, status)
            && tells.tells_of(status)
            && (!tells.sleepers_only || shelf.is_suspended(tells.run))
        {
            // One that has ended, or for which messages wait already, needs no word.
            let _ = shelf.post(tells.run, &Message::Look);
        }
        drop(shelf);
        lease.next_seq = head.next_seq;
        lease.head = head.link;
        Ok((first..head.next_seq).collect())
    }

    async fn acquire(&self, run: RunId, owner: &Owner) -> Result<Lease, AcquireError> {
        self.take(run, owner, |entry| entry.read(run, u64::MAX).map(drop))
    }

    async fn seize(&self, run: RunId, owner: &Owner) -> Result<Lease, AcquireError> {
        self.take(run, owner, |_| Ok(()))
    }

    async fn release(&self, lease: Lease) -> Result<(), AppendError> {
        let mut shelf = self.shelf();
        let run = shelf.runs.get_mut(&lease.run).ok_or(AppendError::UnknownRun { run: lease.run })?;
        if run.epoch != lease.epoch {
            return Err(AppendError::Fenced { run: lease.run, epoch: lease.epoch, current: run.epoch });
        }
        run.owner = None;
        Ok(())
    }

    async fn read(&self, run: RunId, from: u64) -> Result<Vec<Record>, ReadError> {
        self.shelf().run(run)?.read(run, from)
    }

    async fn page(&self, run: RunId, from: u64, most: usize) -> Result<Page, ReadError> {
        Ok(self.shelf().run(run)?.page(run, from, most))
    }

    async fn heads(&self, runs: &[RunId]) -> Result<Vec<(RunId, u64)>, ReadError> {
        Ok(self.shelf().heads(runs))
    }

    async fn has_erased(&self, run: RunId) -> Result<bool, ReadError> {
        Ok(self.shelf().run(run)?.rows.iter().any(|row| row.body.is_none()))
    }

    async fn version(&self) -> Result<u64, ReadError> {
        Ok(self.shelf().version())
    }

    async fn probe(&self) -> Result<(), StorageError> {
        Ok(())
    }

    async fn first(&self, run: RunId) -> Result<Record, ReadError> {
        self.shelf().run(run)?.first(run)
    }

    async fn summary(&self, run: RunId) -> Result<RunSummary, ReadError> {
        Ok(self.shelf().run(run)?.summary(run))
    }

    async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, ReadError> {
        Ok(self.shelf().list(filter))
    }

    async fn changed(&self, after: u64, limit: u32) -> Result<Vec<Change>, ReadError> {
        Ok(self.shelf().changed(after, limit))
    }

    async fn last_change(&self) -> Result<u64, ReadError> {
        Ok(self.shelf().changes)
    }

    async fn find_runs(&self, prefix: &str) -> Result<Vec<RunId>, ReadError> {
        let Some((first, last)) = prefix_range(prefix) else { return Ok(Vec::new()) };
        Ok(self.shelf().runs.range(first..=last).map(|(id, _)| *id).take(FOUND_MAX).collect())
    }

    async fn takeable(&self, owner: &Owner, now: Timestamp, limit: u32) -> Result<Vec<RunId>, ReadError> {
        Ok(self.shelf().takeable(owner, now, self.turn.next(), limit))
    }

    async fn next_wake(&self, after: Timestamp) -> Result<Option<Timestamp>, ReadError> {
        Ok(self.shelf().next_wake(after))
    }

    async fn erase(&self, run: RunId, operation: Option<OperationId>) -> Result<Erased, EraseError> {
        self.shelf().erase(run, operation)
    }

    async fn heirs(&self, run: RunId) -> Result<Vec<RunId>, ReadError> {
        self.shelf().heirs(run)
    }

    async fn gc(&self, options: &GcOptions) -> Result<GcReport, GcError> {
        Ok(self.shelf().gc(options))
    }

    async fn reserve(&self, allowances: &[Allowance], nano_usd: u64) -> Result<(), ReserveError> {
        let mut shelf = self.shelf();
        let mut sums = shelf.spending.clone();
        for (index, allowance) in allowances.iter().enumerate() {
            let sum = sums.entry((allowance.account.clone(), allowance.day.clone())).or_default();
            *sum = reserved(*sum, nano_usd, allowance)
                .ok_or_else(|| ReserveError::exhausted(index, allowance, *sum))?;
        }
        shelf.spending = sums;
        Ok(())
    }

    async fn settle(&self, allowances: &[Allowance], reserved: u64, spent: u64) -> Result<(), StorageError> {
        let mut shelf = self.shelf();
        for Allowance { account, day, .. } in allowances {
            let sum = shelf.spending.entry((account.clone(), day.clone())).or_default();
            *sum = settled(*sum, reserved, spent);
        }
        Ok(())
    }

    async fn spent(&self, account: &str, day: &str) -> Result<u64, ReadError> {
        let key = (account.to_owned(), day.to_owned());
        Ok(self.shelf().spending.get(&key).copied().unwrap_or(0))
    }

    async fn config(&self, digest: Digest) -> Result<String, ReadError> {
        self.shelf().configs.get(&digest).cloned().ok_or(ReadError::UnknownConfig { digest })
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, ReadError> {
        self.shelf().blob(digest)
    }

    async fn post(&self, run: RunId, message: Message) -> Result<(), PostError> {
        self.shelf().post(run, &message)
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<(u64, Message)>, ReadError> {
        let shelf = self.shelf();
        let opened = shelf.run(run)?.inbox.iter().map(|message| message.open(run));
        Ok(self.told.readable(run, opened))
    }

    async fn export(&self, runs: &[RunId]) -> Result<Archive, ReadError> {
        self.shelf().export(runs)
    }

    async fn import(&self, archive: Archive) -> Result<Imported, ImportError> {
        let verified = archive.verify()?;
        self.shelf().import(verified)
    }

    async fn save_snapshot(&self, lease: &Lease, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let Lease { run, epoch, next_seq: records, .. } = *lease;
        if snapshot.seq > records {
            return Err(SnapshotError::Ahead { run, found: snapshot.seq, records });
        }
        let stored = StoredSnapshot::seal(run, snapshot, &mut |_| false)?;
        match self.shelf().runs.get_mut(&run) {
            Some(entry) if entry.epoch == epoch => {
                entry.snapshot = Some(stored);
                Ok(())
            }
            _ => Err(SnapshotError::Fenced { run, epoch }),
        }
    }

    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, ReadError> {
        let shelf = self.shelf();
        let entry = shelf.run(run)?;
        Ok(entry.snapshot.as_ref().and_then(|stored| stored.open(run, entry.head().next_seq, &mut |_| None)))
    }
}
