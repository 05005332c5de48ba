//! One run, stepped both ways: its outline at once, its state at any step, and no more memory for a long run than for its
//! last state.
//!
//! Records are read in pages, of which few are kept. States are folds of all records before them: some are kept on the way,
//! so that a step back folds a few hundred records anew and not all of them. What the core kept of a conversation is shared by
//! all of them.

mod kept;
mod outline;
mod scene;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, RunId};
use dalsegno_store::{Record, RunSummary};

use self::kept::Kept;
pub use self::outline::{Ending, OperationOutline, Outline, Standing, StepOutline};
pub use self::scene::Scene;
use crate::error::HistoryError;
use crate::fold::Fold;
use crate::journal::Journal;

/// Records that are read at once.
const PAGE: usize = 256;

/// Pages that are kept, of at most [`dalsegno_store::Page::BYTES`] each.
const PAGES_KEPT: usize = 8;

/// A run, stepped both ways. Nothing is performed and nothing is written.
pub struct Walk {
    journal: Journal,
    summary: RunSummary,
    config: Arc<AgentConfig>,
    outline: Outline,
    /// The number of the first record of each page that was read.
    starts: Vec<u64>,
    /// Records that were read.
    read: u64,
    /// All records were read that there were at the last look, or that can be read.
    is_read: bool,
    /// The pages that are kept, the latest used last.
    pages: VecDeque<(u64, Arc<Vec<Record>>)>,
    /// The record behind the last one that can be read, where there is one.
    unread: Option<Stop>,
    /// The record at which the fold ended early, where it did.
    unfolded: Option<Stop>,
    /// A fold, with the number of records that it has taken.
    cursor: Option<(u64, Fold)>,
    kept: Kept,
}

/// Where a walk stops, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// The record.
    pub seq: u64,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Journal {
    /// Begins to walk through a run. Only its first records are read: [`Walk::read_on`] reads the others.
    ///
    /// # Errors
    /// When the run is unknown, or its first record or its configuration cannot be read.
    pub async fn walk(&self, run: RunId) -> Result<Walk, HistoryError> {
        let summary = self.store().summary(run).await?;
        let config = self.config(run, summary.config).await?;
        let mut walk = Walk {
            journal: self.clone(),
            summary,
            config,
            outline: Outline::default(),
            starts: Vec::new(),
            read: 0,
            is_read: false,
            pages: VecDeque::new(),
            unread: None,
            unfolded: None,
            cursor: None,
            kept: Kept::default(),
        };
        let page = walk.journal.store().page(run, 0, PAGE).await?;
        if page.records.is_empty()
            && let Some(fault) = page.fault
        {
            return Err(fault.into());
        }
        walk.add(page);
        Ok(walk)
    }
}

impl Walk {
    /// The run's line in the listing, as of the last look.
    pub fn summary(&self) -> &RunSummary {
        &self.summary
    }

    /// The configuration that the run began with.
    pub fn config(&self) -> &Arc<AgentConfig> {
        &self.config
    }

    /// Its steps, as far as they were read.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Records that were read so far.
    pub fn records_read(&self) -> u64 {
        self.read
    }

    /// Says whether all records were read that there were at the last look, or that can be read.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// The first record that cannot be read, if there is one: it is damaged, erased or of a newer release.
    pub fn unread(&self) -> Option<&Stop> {
        self.unread.as_ref()
    }

    /// The first record at which the journal and the core part, as far as the states were computed. There are no states from
    /// there on.
    pub fn unfolded(&self) -> Option<&Stop> {
        self.unfolded.as_ref()
    }

    /// Reads some more records into the outline. False when there are no more.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn read_on(&mut self) -> Result<bool, HistoryError> {
        if !self.is_read {
            let page = self.journal.store().page(self.summary.run, self.read, PAGE).await?;
            self.add(page);
        }
        Ok(!self.is_read)
    }

    /// Reads all records into the outline.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn read_all(&mut self) -> Result<(), HistoryError> {
        while self.read_on().await? {}
        Ok(())
    }

    /// Looks whether something was recorded since the last look; [`Self::read_on`] reads it.
    ///
    /// # Errors
    /// When the storage fails, or the run is not there any more.
    pub async fn refresh(&mut self) -> Result<bool, HistoryError> {
        self.summary = self.journal.store().summary(self.summary.run).await?;
        let is_behind = self.summary.records > self.read && self.unread.is_none();
        if is_behind {
            self.is_read = false;
        }
        Ok(is_behind)
    }

    fn add(&mut self, page: dalsegno_store::Page) {
        if page.records.is_empty() || page.fault.is_some() {
            self.is_read = true;
        }
        if let Some(fault) = page.fault {
            self.unread = Some(Stop { seq: self.read + page.records.len() as u64, why: fault.to_string() });
        }
        if page.records.is_empty() {
            return;
        }
        page.records.iter().for_each(|record| self.outline.take(record));
        self.starts.push(self.read);
        let start = self.read;
        self.read += page.records.len() as u64;
        self.is_read |= self.read >= self.summary.records;
        self.keep_page(start, Arc::new(page.records));
    }

    fn keep_page(&mut self, start: u64, records: Arc<Vec<Record>>) {
        if self.pages.len() == PAGES_KEPT {
            self.pages.pop_front();
        }
        self.pages.push_back((start, records));
    }

    /// The page with a record that was read.
    async fn page(&mut self, seq: u64) -> Result<(u64, Arc<Vec<Record>>), HistoryError> {
        let index = self.starts.partition_point(|start| *start <= seq).saturating_sub(1);
        let start = self.starts.get(index).copied().unwrap_or_default();
        if let Some(place) = self.pages.iter().position(|(kept, _)| *kept == start)
            && let Some(page) = self.pages.remove(place)
        {
            self.pages.push_back(page.clone());
            return Ok(page);
        }
        let end = self.starts.get(index + 1).copied().unwrap_or(self.read);
        let most = usize::try_from(end - start).unwrap_or(PAGE);
        let page = self.journal.store().page(self.summary.run, start, most).await?;
        // What could be read before and cannot be now was erased or damaged meanwhile.
        if let Some(fault) = page.fault.filter(|_| page.records.len() < most) {
            return Err(fault.into());
        }
        let records = Arc::new(page.records);
        self.keep_page(start, Arc::clone(&records));
        Ok((start, records))
    }

    /// Folds so many records of the run, those of the runs before it aside. False when the fold ends before that.
    async fn seek(&mut self, records: u64) -> Result<bool, HistoryError> {
        if self.unfolded.as_ref().is_some_and(|stop| records > stop.seq) || records > self.read {
            return Ok(false);
        }
        let nearest = self.kept.nearest(records).map(|(at, _)| at);
        let here = self.cursor.as_ref().map(|(at, _)| *at).filter(|at| *at <= records);
        if here.is_none() || here < nearest {
            self.cursor = match self.kept.nearest(records) {
                Some((at, fold)) => Some((at, fold.clone())),
                None => match self.begin().await? {
                    Some(fold) => Some((1, fold)),
                    None => return Ok(false),
                },
            };
        }
        while let Some((at, mut fold)) = self.cursor.take() {
            if at >= records {
                self.cursor = Some((at, fold));
                break;
            }
            let (start, page) = self.page(at).await?;
            let from = usize::try_from(at - start).unwrap_or(usize::MAX);
            let most = usize::try_from(records - at).unwrap_or(usize::MAX);
            let mut at = at;
            for record in page.iter().skip(from).take(most) {
                if let Err(error) = fold.apply(record) {
                    self.unfolded = Some(Stop { seq: record.seq, why: error.to_string() });
                    return Ok(false);
                }
                at += 1;
                self.kept.pass(at, &fold);
            }
            self.cursor = Some((at, fold));
        }
        Ok(true)
    }

    /// The fold after the first record; none where what the run began with cannot be read.
    async fn begin(&mut self) -> Result<Option<Fold>, HistoryError> {
        let (_, page) = self.page(0).await?;
        let run = self.summary.run;
        match self.journal.begin(run, Arc::clone(&self.config), &page).await {
            Ok(fold) => {
                self.kept.always(1, &fold);
                Ok(Some(fold))
            }
            Err(error) if error.is_passing() => Err(error),
            Err(error) => {
                self.unfolded = Some(Stop { seq: 0, why: error.to_string() });
                Ok(None)
            }
        }
    }

    /// The fold where the walk stands.
    fn fold(&self) -> Option<&Fold> {
        self.cursor.as_ref().map(|(_, fold)| fold)
    }
}
