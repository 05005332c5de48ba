//! Copies of runs that leave one journal and enter another: what they hold, and the proof that it fits together.

mod format;

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{Digest, Outcome, RunId, digest_json};

pub use self::format::ArchiveError;
#[cfg(feature = "disk")]
pub(crate) use self::format::SIGNATURE;
use self::format::{ArchivedRun, Contents};
use crate::blob;
use crate::bytes::Link;
use crate::chain::{Head, Row, Verifier};
use crate::copies::Copies;
use crate::error::{BlobError, ReadError, StorageError};
use crate::origin::{Foreign, Signer};
#[cfg(feature = "disk")]
use crate::record::RecordKind;
use crate::record::{Body, Record};
#[cfg(feature = "disk")]
use crate::signing::SigningKey;

/// Runs with all that they need, taken out of a journal by [`Store::export`](crate::Store::export).
///
/// It keeps the stored bytes of every record with its checksum and its link, so that the chain of a run verifies
/// wherever it goes. [`encode`](Self::encode) makes one portable file of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    contents: Contents,
    /// Who signed the file that it was read from.
    signer: Option<Signer>,
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
        Self { contents: Contents::new(runs, configs, blobs), signer: None }
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

    /// Makes the same file, signed with a key: whoever reads it learns who exported it, and that nobody changed it.
    #[cfg(feature = "disk")]
    pub fn encode_signed(&self, key: &SigningKey) -> Vec<u8> {
        format::encode_signed(&self.contents, key)
    }

    /// Who signed the file that it was read from; none where nobody did.
    pub fn signer(&self) -> Option<Signer> {
        self.signer
    }

    /// Reads a portable file. What its runs hold is verified when they are imported. Without the feature `disk` no signature is
    /// verified, and the archive counts as unsigned.
    ///
    /// # Errors
    /// When the bytes are no archive, one of another version, cut, changed or malformed, or signed for other contents.
    pub fn decode(bytes: &[u8]) -> Result<Self, ArchiveError> {
        format::decode(bytes).map(|(contents, signer)| Self { contents, signer })
    }

    /// Verifies all that it holds: each run as by a read from 0, configurations and files by their digests.
    pub(crate) fn verify(self) -> Result<Verified, ImportError> {
        self.verify_with(|_, _| {})
    }

    /// The same; `keep` is given the records of each run.
    pub(crate) fn verify_with(
        self,
        mut keep: impl FnMut(RunId, Vec<Record>),
    ) -> Result<Verified, ImportError> {
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
            let (run, records) = VerifiedRun::new(run)?;
            keep(run.run, records);
            if !known.contains(&run.copies.config) {
                return Err(ImportError::MissingConfig { run: run.run, digest: run.copies.config });
            }
            verified.push(run);
        }
        let foreign = Foreign { signer: self.signer };
        Ok(Verified { foreign, runs: verified, configs, blobs })
    }
}

/// What an archive holds, proved.
pub(crate) struct Verified {
    /// Where its runs come from.
    pub(crate) foreign: Foreign,
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
    /// The other runs that its records name.
    pub(crate) named: Vec<Named>,
    /// The files that its records refer to, by the number of the record.
    pub(crate) files: BTreeMap<u64, BTreeSet<Digest>>,
}

/// Another run that the records of an archived one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// The run that it is a child of.
    Parent(RunId),
    /// A run from which it goes on, or which goes on from it.
    Line(RunId),
}

impl Named {
    pub(crate) const fn run(self) -> RunId {
        match self {
            Self::Parent(run) | Self::Line(run) => run,
        }
    }

    fn all(records: &[Record]) -> Vec<Self> {
        let mut named = Vec::new();
        for record in records {
            match &record.body {
                Body::Started(started) => {
                    named.extend(started.parent.map(|parent| Self::Parent(parent.run)));
                    named.extend(started.predecessor.map(Self::Line));
                }
                Body::Forked { run, .. } | Body::Adopted { run, .. } | Body::HandedOff { run, .. } => {
                    named.push(Self::Line(*run));
                }
                _ => {}
            }
        }
        named
    }
}

impl VerifiedRun {
    fn new(archived: ArchivedRun) -> Result<(Self, Vec<Record>), ImportError> {
        let (run, request_digest, rows) = archived.into_rows();
        let unreadable = |source| ImportError::Run { run, source };
        let mut verifier = Verifier::new(run, 0, Link::default());
        let records: Vec<Record> =
            rows.iter().map(|row| verifier.check(row)).collect::<Result<_, _>>().map_err(unreadable)?;
        let head =
            Head { next_seq: rows.len() as u64, link: rows.last().map(|row| row.link).unwrap_or_default() };
        let copies = Copies::of(run, &records).map_err(unreadable)?;
        let named = Named::all(&records);
        let files = records.iter().map(|record| (record.seq, files(&record.body).collect::<BTreeSet<_>>()));
        let files = files.filter(|(_, used)| !used.is_empty()).collect();
        Ok((Self { run, request_digest, copies, head, rows, named, files }, records))
    }

    /// Says whether a run that is here already is this one.
    pub(crate) fn is_known_as(&self, head: Head) -> Result<(), ImportError> {
        if head.next_seq == self.head.next_seq && head.link == self.head.link {
            Ok(())
        } else {
            Err(ImportError::RunConflict { run: self.run })
        }
    }

    /// Says whether the run may name one that is this journal's own: never as its parent, since it would be taken for a
    /// child that was started here; otherwise only within one tenant's session.
    pub(crate) fn may_name(&self, named: Named, own: &Copies) -> Result<(), ImportError> {
        let allowed = match named {
            Named::Parent(_) => false,
            Named::Line(_) => own.tenant == self.copies.tenant && own.session == self.copies.session,
        };
        if allowed { Ok(()) } else { Err(ImportError::Reaches { run: self.run, own: named.run() }) }
    }
}

/// The files that these records refer to.
pub(crate) fn attachments(records: &[Record]) -> impl Iterator<Item = Digest> {
    records.iter().flat_map(|record| files(&record.body))
}

/// Says whether a record of this kind may refer to files.
#[cfg(feature = "disk")]
pub(crate) const fn has_files(kind: u8) -> bool {
    kind == RecordKind::Started as u8
        || kind == RecordKind::Inherited as u8
        || kind == RecordKind::Resolved as u8
        || kind == RecordKind::Late as u8
        || kind == RecordKind::Forked as u8
}

/// The files that a body refers to: those of a request, those of results, and all that a run took over from the one before
/// it.
pub(crate) fn files(body: &Body) -> impl Iterator<Item = Digest> {
    let (started, inherited) = match body {
        Body::Started(started) => (Some(started), None),
        Body::Inherited(inherited) => (None, Some(inherited)),
        _ => (None, None),
    };
    let attachments = started.into_iter().flat_map(|started| &started.request.attachments);
    let inherited = inherited.into_iter().flat_map(|inherited| inherited.kept());
    attachments.map(|attachment| attachment.digest).chain(inherited).chain(returned(body))
}

/// The files of the results in a body. They come with its record.
pub(crate) fn returned(body: &Body) -> impl Iterator<Item = Digest> {
    let outcomes = match body {
        Body::Resolved { outcome, .. } | Body::Late { outcome, .. } => std::slice::from_ref(outcome),
        Body::Forked { outcomes, .. } => outcomes.as_slice(),
        _ => &[],
    };
    let files = outcomes.iter().flat_map(|outcome| match outcome {
        Outcome::ToolReturned(returned) => returned.files.as_slice(),
        _ => &[],
    });
    files.map(|file| file.digest)
}

/// The parts of what a run took over that must be here for it to begin: all but files of requests, which may be erased.
pub(crate) fn needed(body: &Body) -> impl Iterator<Item = Digest> {
    let inherited = match body {
        Body::Inherited(inherited) => Some(inherited),
        _ => None,
    };
    inherited.into_iter().flat_map(|inherited| inherited.blocks()).map(|block| block.digest)
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
        "the journal already has run {run}, with other records: keep that run, or import the archive into an empty journal"
    )]
    RunConflict {
        /// The run.
        run: RunId,
    },
    /// A run would reach one of this journal's own that is none of its business.
    #[error(
        "run {run} of the archive names run {own}, which is this journal's own, as its parent or as a run of another \
         tenant or session: import the archive into another journal, or ask its sender"
    )]
    Reaches {
        /// The run in the archive.
        run: RunId,
        /// The run of this journal.
        own: RunId,
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
