//! Reads journals: inspects, replays, compares and exports runs, and finds where they can be forked.
//!
//! [`Journal`] opens the runs of a workspace. It has no model, no tool server and no socket, and this crate imports none: so
//! a replay performs nothing because it cannot.
//!
//! ```no_run
//! # async fn example(run: dalsegno_core::RunId) -> Result<(), Box<dyn std::error::Error>> {
//! use dalsegno_history::Journal;
//!
//! let journal = Journal::open(std::path::Path::new(".dalsegno/dalsegno.db")).await?;
//! let report = journal.replay(run).await?;
//! assert!(report.identical, "{:?}", report.divergence);
//! # Ok(())
//! # }
//! ```
//!
//! [`Fold`] is the one reader of journals: every answer of this crate comes from it, and so does the state with which an
//! engine resumes a run.

mod compare;
mod configs;
mod diff;
mod doubt;
mod error;
mod export;
mod fold;
mod fork;
mod ids;
mod inspect;
mod journal;
mod kind;
mod latest;
mod line;
mod lineage;
mod moments;
mod progress;
mod replay;
mod tasks;
mod turns;
mod upkeep;
mod used;
mod waiting;
mod walk;
mod what_if;
mod why;
mod with_config;

pub use compare::{Change, requests as request_changes, values as changes};
pub use diff::{FirstDifference, PlaceDiff, RunDiff, Side};
pub use doubt::{LeftOpen, is_indeterminate, is_unrepeatable};
pub use error::{HistoryError, OpenError};
pub use fold::{Advance, Divergence, End, Fold, FoldError, Machine, Moved, Pause, Suspension};
pub use fork::{ForkPoint, ReadOutcome};
pub use ids::{adopted_run, child_run, successor_run};
pub use inspect::{Inspection, OperationView, Prompt, StepView};
pub use journal::Journal;
#[cfg(feature = "disk")]
pub use journal::open_store;
pub use kind::ErrorKind;
pub use latest::Latest;
pub use line::Descendant;
pub use lineage::successor;
pub use moments::Moment;
pub use progress::{LONGEST_BACKOFF, Progress, Situation, comes_later, suspend};
#[cfg(feature = "disk")]
pub use replay::several_at_once;
pub use replay::{ReplayReport, ReplayVerdict};
pub use tasks::Tasks;
pub use turns::{Speaker, Turn, TurnCall, Turns, is_call};
pub use used::{Spending, Spent, Unreadable};
pub use waiting::{WaitingOperation, gates, waiting};
pub use walk::{Ending, OperationOutline, Outline, Scene, Standing, StepOutline, Stop, Walk};
pub use what_if::{Next, WhatIf, what_if};
pub use why::{Author, Edited, Found, Provenance, Source, TemplateRead, Traced, TracedPart};
pub use with_config::{
    Answered, Branch, ChangedCompletion, ChangedRequest, ConfigReport, Parting, RecordedRun, Sent,
};
