//! Runs in memory, read out of archives.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::RunId;
use dalsegno_history::{HistoryError, Journal, RunDiff};
use dalsegno_store::{Archive, ArchiveError, ImportError, MemoryStore, Record, Store};

use crate::course::Course;
use crate::now::now;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The bytes are no archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The archive does not hold what it says.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A run cannot be read.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The question has another form.
    #[error("this is no question of a report: {0}")]
    Question(String),
    /// There is no such row.
    #[error("the run has no row {row}: ask for its outline")]
    Row {
        /// The row.
        row: usize,
    },
    /// An edited outcome cannot be read.
    #[error("{0}")]
    Outcome(String),
}

/// Runs that are read, folded and compared without an engine: all that happens is computed from the archives.
#[derive(Default)]
pub struct Report {
    store: Arc<MemoryStore>,
    /// The runs in the order in which they came.
    order: Vec<RunId>,
    /// The records of runs that are not folded yet: they were decoded when they were verified.
    read: BTreeMap<RunId, Vec<Record>>,
    courses: BTreeMap<RunId, Course>,
}

impl Report {
    /// A report of no runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the runs of an archive, after their hash chains, their configurations and their files are verified. Returns them; a
    /// run that is known already with the same records is among them.
    ///
    /// # Errors
    /// When the bytes are no archive, or something in it is not what it was.
    pub fn add(&mut self, archive: &[u8]) -> Result<Vec<RunId>, ReportError> {
        let archive = Archive::decode(archive)?;
        let runs: Vec<RunId> = archive.runs().collect();
        let mut read = self.store.import_read(archive)?;
        for run in &runs {
            if !self.order.contains(run) {
                self.order.push(*run);
                self.read.extend(read.remove_entry(run));
            }
        }
        Ok(runs)
    }

    /// All runs, in the order in which they came.
    pub fn runs(&self) -> Vec<RunId> {
        self.order.clone()
    }

    /// The journal of these runs.
    pub fn journal(&self) -> Journal {
        let store: Arc<dyn Store> = self.store.clone();
        Journal::of(store, None)
    }

    pub(crate) fn course(&mut self, run: RunId) -> Result<&Course, ReportError> {
        if !self.courses.contains_key(&run) {
            let read = self.read.remove(&run);
            let course = now(Course::load(&self.journal(), run, read))?;
            self.courses.insert(run, course);
        }
        Ok(&self.courses[&run])
    }

    pub(crate) fn diff(&self, left: RunId, right: RunId) -> Result<RunDiff, ReportError> {
        Ok(now(self.journal().diff(left, right))?)
    }
}
