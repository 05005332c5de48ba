//! Evaluates agents honestly: a data set through an agent, with checks, judges, and statistics that say what they do not know.
//!
//! An [`Eval`](dalsegno_workspace::Eval) says what is evaluated. Each item of its [`DataSet`] is tried a number of times, each way;
//! [`evaluate`] asks a [`Performer`] for every trial, holds the [`Taken`] run against what must hold, and returns a [`Report`]. A trial
//! is a run with a key of its own, so a performer that keeps runs performs none of them twice.
//!
//! - **An item counts once.** Several trials of one item are not independent: an easy item passes each time. So the observation is
//!   the mean of an item's trials, and the population is that of which the items are a sample.
//! - **The order is drawn.** Data sets are sorted by topic or by age. Items are tried in an order that the digests of their ids give, so
//!   that those tried until now are a fair sample of all, and the evaluation may stop as soon as the answer is known.
//! - **What is not known is said.** A trial without a verdict counts neither way; data that do not decide are inconclusive.
#![forbid(unsafe_code)]

mod data;
mod evaluate;
mod html;
mod plan;
mod report;
mod taken;
mod tally;
mod trial;

pub use data::{DataError, DataSet, Item};
pub use evaluate::{EvalError, Limits, Progress, Setup, evaluate};
pub use html::html;
pub use plan::{Performer, Place, Start, Way};
pub use report::{
    Compared, Conclusion, FailedTrial, Goal, ItemReport, ItemWay, JudgeReport, Report, Stopped, WayReport,
};
pub use taken::Taken;
