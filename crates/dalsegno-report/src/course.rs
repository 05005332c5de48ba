//! One run, folded once from its first record to its last, with places from which each step is folded again in no time.

use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentState, Digest, OperationId, RunId, Timestamp};
use dalsegno_history::{End, Fold, HistoryError, Journal, child_run};
use dalsegno_store::{Body, Record, RunSummary};
use serde::Serialize;

/// A copy of the fold is kept before every so many rows. A copy shares the conversation, so that it takes little memory; a step
/// is at most this many steps away from one.
const KEPT_EVERY: usize = 64;

/// A run with all that its steps are shown from.
pub(crate) struct Course {
    pub(crate) run: RunId,
    pub(crate) summary: RunSummary,
    pub(crate) config: Arc<AgentConfig>,
    pub(crate) records: Vec<Record>,
    pub(crate) origin: AgentState,
    pub(crate) rows: Vec<Row>,
    /// Folds that have taken all records before the first one of the row with this index.
    kept: Vec<(usize, Fold)>,
    /// The fold after the last record, or where the journal and the core part.
    pub(crate) last: Fold,
    /// Where the journal and the core part, in words.
    pub(crate) divergence: Option<String>,
}

/// A step of a run with all its records; or what came before the first, or the end.
#[derive(Serialize)]
pub(crate) struct Row {
    /// The step; 0 before the first one.
    #[serde(rename = "n")]
    pub(crate) step: u64,
    /// The time of its first record.
    pub(crate) at: Timestamp,
    /// What it asked for.
    pub(crate) ops: Vec<Asked>,
    /// How the run ended, in its last row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<&'static str>,
    /// Whether the run waited for a person or a time in it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) waited: bool,
    /// Its first record.
    pub(crate) from: usize,
    /// The record after its last one.
    pub(crate) to: usize,
    /// The digest of the course of the run up to here.
    #[serde(skip)]
    pub(crate) mark: Digest,
}

/// One operation, as the outline shows it.
#[derive(Serialize)]
pub(crate) struct Asked {
    #[serde(skip)]
    pub(crate) id: OperationId,
    /// What it is.
    pub(crate) label: String,
    /// Whether it went well; nothing while there is no outcome.
    pub(crate) ok: Option<bool>,
    /// How long it took, in milliseconds.
    pub(crate) ms: u64,
    /// Attempts.
    pub(crate) tries: u32,
    /// The child run that performs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) child: Option<RunId>,
    /// Whether it is a part of a declarative tool.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) part: bool,
}

impl Course {
    /// Reads a run, unless its records were read before, and folds it. A journal from which the core parts is shown up to there.
    ///
    /// # Errors
    /// When the run is unknown, or its journal, its configuration or what it began with cannot be read.
    pub(crate) async fn load(
        journal: &Journal,
        run: RunId,
        read: Option<Vec<Record>>,
    ) -> Result<Self, HistoryError> {
        let summary = journal.summary(run).await?;
        let (config, records) = match read {
            Some(records) => (journal.config(run, summary.config).await?, records),
            None => journal.journal_of(run).await?,
        };
        let fold = journal.begin(run, Arc::clone(&config), &records).await?;
        let origin = fold.state().clone();
        let mut course = Self {
            run,
            summary,
            config,
            rows: Vec::new(),
            kept: vec![(0, fold.clone())],
            last: fold,
            records: Vec::new(),
            origin,
            divergence: None,
        };
        course.fold(&records);
        course.records = records;
        Ok(course)
    }

    fn fold(&mut self, records: &[Record]) {
        let mut mark = Digest::default();
        for (index, record) in records.iter().enumerate() {
            if index > 0 {
                let opens = self.begins_row(record);
                let before = (opens && self.is_kept()).then(|| self.last.clone());
                if let Err(error) = self.last.apply(record) {
                    self.divergence = Some(error.to_string());
                    break;
                }
                if opens {
                    mark = marked(mark, self.last.state());
                    self.kept.extend(before.map(|before| (self.rows.len(), before)));
                    self.open(index, record, mark);
                }
            } else {
                mark = marked(mark, self.last.state());
                self.open(index, record, mark);
            }
            let row = self.rows.last_mut().expect("the first record opens a row");
            row.to = index + 1;
            row.note(record);
        }
    }

    /// Says whether a record is the first one of a row.
    fn begins_row(&self, record: &Record) -> bool {
        match &record.body {
            Body::Requested { step, .. } => self.rows.last().is_none_or(|row| row.step != *step),
            body => end(body).is_some(),
        }
    }

    /// Says whether the fold is kept before the next row.
    fn is_kept(&self) -> bool {
        !self.rows.is_empty() && self.rows.len().is_multiple_of(KEPT_EVERY)
    }

    fn open(&mut self, index: usize, record: &Record, mark: Digest) {
        self.rows.push(Row {
            step: self.last.state().step(),
            at: record.at,
            ops: Vec::new(),
            end: end(&record.body),
            waited: false,
            from: index,
            to: index + 1,
            mark,
        });
    }

    /// The fold after the first record of a row, when its step was asked for, and after its last one.
    pub(crate) fn at(&self, row: usize) -> Option<(Fold, Fold)> {
        let wanted = self.rows.get(row)?;
        let place = self.kept.partition_point(|(kept, _)| *kept <= row).checked_sub(1)?;
        let (kept, fold) = &self.kept[place];
        let mut fold = fold.clone();
        // The first record of a run is in the state that it began in.
        let first = self.rows[*kept].from.max(1);
        for record in self.records.get(first..=wanted.from).unwrap_or_default() {
            fold.apply(record).ok()?;
        }
        let asked = fold.clone();
        for record in &self.records[(wanted.from + 1).max(first)..wanted.to] {
            fold.apply(record).ok()?;
        }
        Some((asked, fold))
    }

    /// The digest of the whole course of the run: of each step, its conversation, its requests and what it had used.
    pub(crate) fn mark(&self) -> Digest {
        self.rows.last().map(|row| row.mark).unwrap_or_default()
    }

    /// The end that the core came to.
    pub(crate) fn end(&self) -> Option<&End> {
        self.last.ended.as_ref()
    }
}

impl Row {
    fn note(&mut self, record: &Record) {
        let asked = self.ops.iter_mut().find(|asked| Some(asked.id) == record.operation);
        match (&record.body, asked) {
            (Body::Requested { label, .. }, None) => {
                let Some(id) = record.operation else { return };
                let child = label.starts_with("agent `").then(|| child_run(id));
                let (label, part) = (label.clone(), record.parent.is_some());
                self.ops.push(Asked { id, label, ok: None, ms: 0, tries: 1, child, part });
            }
            (Body::Attempted { attempt, .. }, Some(asked)) => asked.tries = *attempt,
            (Body::Resolved { outcome, attempts, elapsed_ms }, Some(asked)) => {
                asked.ok = Some(crate::detail::is_well(outcome));
                asked.ms = *elapsed_ms;
                asked.tries = *attempts;
            }
            (Body::Answered { answer }, Some(asked)) => {
                if let Some(outcome) = answer.outcome() {
                    asked.ok = Some(crate::detail::is_well(&outcome));
                }
            }
            (Body::Waiting { .. } | Body::Suspended { .. } | Body::Paused { .. }, _) => self.waited = true,
            _ => {}
        }
    }
}

/// How a body ends a run.
fn end(body: &Body) -> Option<&'static str> {
    match body {
        Body::Completed { .. } => Some("completed"),
        Body::Failed { .. } => Some("failed"),
        Body::Cancelled { .. } => Some("cancelled"),
        Body::Abandoned { .. } => Some("abandoned"),
        Body::HandedOff { .. } => Some("handed off"),
        _ => None,
    }
}

/// Adds a step to the digest of a course. It costs the same at step 10,000: of the conversation only the chained digest is read.
///
/// The values stand one after another, those of no fixed length behind their length: this crate alone computes the digest, on
/// both sides, so that it needs no form that others could read.
fn marked(before: Digest, state: &AgentState) -> Digest {
    let mut course = blake3::Hasher::new();
    course.update(before.as_bytes()).update(state.transcript().chain().as_bytes());
    let counts = [
        state.step(),
        state.transcript().len(),
        state.decisions().len() as u64,
        state.pending().len() as u64,
    ];
    for count in counts {
        course.update(&count.to_le_bytes());
    }
    let usage = serde_json::to_string(&state.usage()).unwrap_or_default();
    let words = state.decisions().iter().map(ToString::to_string);
    for text in words.chain([usage]) {
        course.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    for pending in state.pending() {
        course.update(pending.operation.id.as_bytes()).update(pending.operation.digest.as_bytes());
    }
    Digest::from_bytes(course.finalize().into())
}
