//! Copies of runs that leave one journal and enter another: what they hold, and the proof that it fits together.

mod format;

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{Digest, RunId, digest_json};

pub use self::format::ArchiveError;
use self::format::{ArchivedRun, Contents};
use crate::blob;
use crate::bytes::Link;
use crate::chain::{Head, Row, Verifier};
use crate::copies::Copies;
use crate::error::{BlobError, ReadError, StorageError};
use crate::record::{Body, Record};

/// Runs with all that they need, taken out of a journal by [`Store::export`](crate::Store::export).
///
/// It keeps the stored bytes of every record with its checksum and its link, so that the chain of a run verifies
/// wherever it goes. [`encode`](Self::encode) makes one portable file of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    contents: Contents,
}

impl Archive {
    /// Collects what was read from a journal.
    pub(crate) fn new(
        runs: impl IntoIterator<Item = (RunId, Digest, Vec<Row>)>,
        configs: BTreeMap<Digest, String>,
        blobs: BTreeMap<Digest, Vec<u8>>,
    ) -> Self {
        let runs =
            runs.into_iter().map(|(run, request, rows)| ArchivedRun::new(run, request, rows)).collect();
        Self { contents: Contents::new(runs, configs, blobs) }
    }

    /// The runs in it, the oldest first.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = RunId> {
        self.contents.runs.iter().map(|run| run.run)
    }

    /// Makes one portable file: a line that says what it is, MessagePack in which all text stands as it is, the file's
    /// length, and a checksum over everything before it.
    pub fn encode(&self) -> Vec<u8> {
        format::encode(&self.contents)
    }

    /// Reads a portable file. What its runs hold is verified when they are imported.
    ///
    /// # Errors
    /// When the bytes are no archive, one of another version, cut, changed or malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, ArchiveError> {
        format::decode(bytes).map(|contents| Self { contents })
    }

    /// Verifies all that it holds: each run as by a read from 0, configurations and files by their digests.
    pub(crate) fn verify(self) -> Result<Verified, ImportError> {
        let Contents { runs, configs, blobs } = self.contents;
        let mut known = BTreeSet::new();
        for (digest, json) in &configs {
            let value = serde_json::from_str(json).map_err(|_| ImportError::Config { digest: *digest })?;
            if digest_json(&value) != *digest {
                return Err(ImportError::Config { digest: *digest });
            }
            known.insert(*digest);
        }
        let blobs: Vec<(Digest, Vec<u8>)> =
            blobs.into_iter().map(|(digest, bytes)| (digest, bytes.into_inner())).collect();
        for (digest, bytes) in &blobs {
            blob::check(*digest, bytes)?;
        }
        let mut ids = BTreeSet::new();
        let mut verified = Vec::with_capacity(runs.len());
        for run in runs {
            if !ids.insert(run.run) {
                return Err(ImportError::Twice { run: run.run });
            }
            let run = VerifiedRun::new(run)?;
            if !known.contains(&run.copies.config) {
                return Err(ImportError::MissingConfig { run: run.run, digest: run.copies.config });
            }
            verified.push(run);
        }
        Ok(Verified { runs: verified, configs, blobs })
    }
}

/// What an archive holds, proved.
pub(crate) struct Verified {
    pub(crate) runs: Vec<VerifiedRun>,
    pub(crate) configs: Vec<(Digest, String)>,
    pub(crate) blobs: Vec<(Digest, Vec<u8>)>,
}

/// A run of an archive whose records are proved, and what its entry is to repeat of them.
pub(crate) struct VerifiedRun {
    pub(crate) run: RunId,
    pub(crate) request_digest: Digest,
    pub(crate) copies: Copies,
    pub(crate) head: Head,
    pub(crate) rows: Vec<Row>,
}

impl VerifiedRun {
    fn new(archived: ArchivedRun) -> Result<Self, ImportError> {
        let (run, request_digest, rows) = archived.into_rows();
        let unreadable = |source| ImportError::Run { run, source };
        let mut verifier = Verifier::new(run, 0, Link::default());
        let records: Vec<Record> =
            rows.iter().map(|row| verifier.check(row)).collect::<Result<_, _>>().map_err(unreadable)?;
        let head =
            Head { next_seq: rows.len() as u64, link: rows.last().map(|row| row.link).unwrap_or_default() };
        let copies = Copies::of(run, &records).map_err(unreadable)?;
        Ok(Self { run, request_digest, copies, head, rows })
    }

    /// Says whether a run that is here already is this one.
    pub(crate) fn is_known_as(&self, head: Head) -> Result<(), ImportError> {
        if head.next_seq == self.head.next_seq && head.link == self.head.link {
            Ok(())
        } else {
            Err(ImportError::RunConflict { run: self.run })
        }
    }

    /// The error, when a root run that goes on would meet this one in its session.
    pub(crate) fn busy(&self, by: RunId) -> ImportError {
        ImportError::SessionBusy { run: self.run, session: self.copies.session.clone(), by }
    }
}

/// The files that the first of these records refers to.
pub(crate) fn attachments(records: &[Record]) -> impl Iterator<Item = Digest> {
    records.first().into_iter().flat_map(|record| files(&record.body))
}

/// The files that a body refers to.
pub(crate) fn files(body: &Body) -> impl Iterator<Item = Digest> {
    let started = match body {
        Body::Started(started) => Some(started),
        _ => None,
    };
    started.into_iter().flat_map(|started| &started.request.attachments).map(|attachment| attachment.digest)
}

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// The runs that are new here.
    pub added: Vec<RunId>,
    /// The runs that were here already, with the same records.
    pub known: Vec<RunId>,
}

/// An archive that was not imported. Nothing of it was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A run in the archive is damaged, forged or of a newer release.
    #[error("run {run} of the archive cannot be imported: export it again where it came from")]
    Run {
        /// The run.
        run: RunId,
        /// What is wrong with it.
        source: ReadError,
    },
    /// The archive has a run twice.
    #[error("the archive has run {run} twice: export it again where it came from")]
    Twice {
        /// The run.
        run: RunId,
    },
    /// The archive lacks the configuration of a run.
    #[error("the archive lacks the configuration {digest} of run {run}: export it again where it came from")]
    MissingConfig {
        /// The run.
        run: RunId,
        /// The configuration's digest.
        digest: Digest,
    },
    /// A configuration is not what its digest says.
    #[error(
        "the configuration {digest} of the archive is not what its digest says: export it again where it came from"
    )]
    Config {
        /// Its digest.
        digest: Digest,
    },
    /// A file is not what its digest says, or too long.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The run is here with other records.
    #[error(
        "run {run} is here already, with other records: keep this one, or import the archive into an empty journal"
    )]
    RunConflict {
        /// The run.
        run: RunId,
    },
    /// The start key of a run belongs to another run.
    #[error("the key `{key}` of run {run} belongs to run {by} here: import the archive into another journal")]
    KeyConflict {
        /// The key.
        key: String,
        /// The run in the archive.
        run: RunId,
        /// The run that has the key.
        by: RunId,
    },
    /// A session would have two root runs that go on.
    #[error(
        "run {run} goes on in the session `{session}`, and so does run {by}: end that one first, or import the \
         archive into another journal"
    )]
    SessionBusy {
        /// The run in the archive.
        run: RunId,
        /// The session.
        session: String,
        /// The run that goes on.
        by: RunId,
    },
    /// A run that is here already cannot be compared with the archive's.
    #[error(transparent)]
    Unreadable(ReadError),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<ReadError> for ImportError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Storage(error) => Self::Storage(error),
            error => Self::Unreadable(error),
        }
    }
}
