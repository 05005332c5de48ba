//! Files and messages on the shelf, and runs that leave it and enter it.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{Digest, RunId};

use super::{Run, Shelf};
use crate::archive::{Archive, ImportError, Imported, Verified, VerifiedRun, attachments};
use crate::blob::digest_bytes;
use crate::error::{Damage, Flaw, ReadError};
use crate::inbox::{Message, PostError, StoredMessage, WAITING_MAX, encode_message};
use crate::origin::Foreign;

impl Shelf {
    pub(super) fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, ReadError> {
        match self.blobs.get(&digest) {
            Some(bytes) if digest_bytes(bytes) != digest => Err(ReadError::DamagedBlob { digest }),
            found => Ok(found.cloned()),
        }
    }

    pub(super) fn post(&mut self, id: RunId, message: &Message) -> Result<(), PostError> {
        let message = encode_message(message)?;
        let run = self.runs.get_mut(&id).ok_or(PostError::UnknownRun { run: id })?;
        let status = run.copies.progress.status;
        if status.is_end() {
            return Err(PostError::Ended { run: id, status });
        }
        if run.foreign.is_some() {
            return Err(PostError::Foreign { run: id });
        }
        if run.inbox.len() as u64 >= WAITING_MAX {
            return Err(PostError::Full { run: id });
        }
        run.posted += 1;
        run.inbox.push(StoredMessage::seal(id, run.posted, message));
        Ok(())
    }

    /// Tells the child runs of a run that has just ended to end as well, however many messages wait for them already.
    pub(super) fn end_children(&mut self, parent: RunId) {
        let Ok(message) = encode_message(&Message::parent_ended()) else { return };
        for (id, run) in &mut self.runs {
            if run.copies.parent == Some(parent) && !run.copies.progress.status.is_end() {
                run.posted += 1;
                run.inbox.push(StoredMessage::seal(*id, run.posted, message.clone()));
            }
        }
    }

    /// Moves what waited for a run that has just ended to the one that goes on.
    pub(super) fn pass_on(&mut self, from: RunId, messages: impl Iterator<Item = StoredMessage>, to: RunId) {
        let Some(run) = self.runs.get_mut(&to) else { return };
        if run.copies.progress.status.is_end() {
            return;
        }
        for message in messages {
            if let Some(passed) = message.pass_on(from, to, run.posted + 1) {
                run.posted += 1;
                run.inbox.push(passed);
            }
        }
    }

    pub(super) fn export(&self, runs: &[RunId]) -> Result<Archive, ReadError> {
        let (mut configs, mut blobs) = (BTreeMap::new(), BTreeMap::new());
        let mut exported = Vec::new();
        for id in runs.iter().copied().collect::<BTreeSet<_>>() {
            let run = self.run(id)?;
            let records = run.read(id, 0)?;
            let digest = run.copies.config;
            let json = self.configs.get(&digest).ok_or(ReadError::UnknownConfig { digest })?;
            configs.insert(digest, json.clone());
            for digest in attachments(&records) {
                blobs.extend(self.blob(digest)?.map(|bytes| (digest, bytes)));
            }
            exported.push((run.number, (id, run.request_digest, run.rows.clone())));
        }
        exported.sort_unstable_by_key(|(number, _)| *number);
        Ok(Archive::new(exported.into_iter().map(|(_, run)| run), configs, blobs))
    }

    pub(super) fn import(&mut self, archive: Verified) -> Result<Imported, ImportError> {
        let mut imported = Imported::default();
        // Nothing is kept until all of it may be.
        let mut entering = Self {
            runs: self.runs.clone(),
            keys: self.keys.clone(),
            roots: self.roots.clone(),
            created: self.created,
            changes: self.changes,
            ..Self::default()
        };
        for run in archive.runs {
            if let Some(known) = entering.runs.get(&run.run) {
                run.is_known_as(known.head())?;
                imported.known.push(run.run);
                continue;
            }
            imported.added.push(run.run);
            entering.take_in(run, archive.foreign)?;
        }
        let Self { created, changes, runs, keys, roots, configs: _, blobs: _, spending: _ } = entering;
        self.changes = changes;
        (self.created, self.runs, self.keys, self.roots) = (created, runs, keys, roots);
        for (digest, json) in archive.configs {
            self.configs.entry(digest).or_insert(json);
        }
        // What was erased here is referred to no more, and must not come back.
        let used: BTreeSet<Digest> = self.runs.values().flat_map(Run::files).collect();
        for (digest, bytes) in archive.blobs.into_iter().filter(|(digest, _)| used.contains(digest)) {
            self.blobs.entry(digest).or_insert(bytes);
        }
        Ok(imported)
    }

    fn take_in(&mut self, verified: VerifiedRun, foreign: Foreign) -> Result<(), ImportError> {
        for named in &verified.named {
            if let Some(own) = self.runs.get(&named.run()).filter(|run| run.foreign.is_none()) {
                verified.may_name(*named, &own.copies)?;
            }
        }
        let VerifiedRun { run: id, request_digest, copies, head: _, rows, named: _, files } = verified;
        let damage = || ReadError::Damaged(Damage { run: id, seq: 0, what: Flaw::Form, intact: 0 });
        let run = Run {
            number: self.next(),
            changed: self.next_change(),
            agent: copies.agent.parse().map_err(|_| damage())?,
            copies,
            request_digest,
            epoch: 0,
            owner: None,
            rows,
            snapshot: None,
            posted: 0,
            inbox: Vec::new(),
            files,
            foreign: Some(foreign),
        };
        self.insert(id, run);
        Ok(())
    }
}
