//! The evaluation: items in a drawn order, until the answer is known or a limit is reached.

use dalsegno_workspace::Eval;
use futures::future::try_join_all;
use futures::stream::{FuturesOrdered, StreamExt as _};

use crate::data::{DataError, DataSet};
use crate::plan::{Performer, Way};
use crate::report::{Report, Stopped};
use crate::tally::{Tally, TriedItem};
use crate::trial::{Cost, attempt, labelled};

/// Items after which models that never reply are asked no further.
const MUTE_MAX: u64 = 8;

/// What is evaluated.
#[derive(Clone, Copy)]
pub struct Setup<'s> {
    /// The eval.
    pub eval: &'s Eval,
    /// Its data set.
    pub data: &'s DataSet,
    /// The ways: the evaluated one, after the one that it is compared with, if there is one.
    pub ways: &'s [Way],
    /// What decides how each judge runs, as a digest, in the order of the judges.
    pub judges: &'s [String],
    /// How far it goes.
    pub limits: &'s Limits,
}

/// How far an evaluation goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How often each item is tried, each way.
    pub trials: u32,
    /// The most items.
    pub items: usize,
    /// Items that are tried at the same time.
    pub jobs: usize,
    /// The most that all runs of the eval may cost, in billionths of a US dollar, with those of earlier evaluations that count in
    /// this one.
    pub nano_usd: Option<u64>,
    /// Whether all items are tried though the answer is known.
    pub all: bool,
    /// The only item that is tried, by its id.
    pub only: Option<String>,
}

/// How far an evaluation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Items that were tried.
    pub items: u64,
    /// Items that will be at most.
    pub of: u64,
    /// Runs that were performed now.
    pub performed: u64,
    /// What all runs cost, in billionths of a US dollar.
    pub cost_nano_usd: u64,
}

/// Why an evaluation ended without a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The data set cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A run could not be performed.
    #[error("{0}")]
    Perform(String),
    /// There is no item of this id.
    #[error("the data set has no item `{0}`")]
    NoItem(String),
    /// The cost has a limit, and a model no price.
    #[error("the cost has a limit, and the model `{0}` no price")]
    Unpriced(String),
}

/// Evaluates, and calls `tell` after each item.
///
/// # Errors
/// When a run cannot be performed, or the data set cannot be read.
pub async fn evaluate<P: Performer>(
    setup: Setup<'_>,
    performer: &P,
    mut tell: impl FnMut(&Progress),
) -> Result<Report, EvalError> {
    let limits = setup.limits;
    if let (Some(_), Some(model)) = (limits.nano_usd, &setup.eval.unpriced) {
        return Err(EvalError::Unpriced(model.clone()));
    }
    let chosen = chosen(&setup)?;
    let mut tally = Tally::new(&setup);
    let mut running = FuturesOrdered::new();
    let mut next = chosen.iter().copied().peekable();
    let (mut largest, mut mute, mut stopped) = (None, 0, None);
    loop {
        while running.len() < limits.jobs.max(1)
            && next.peek().is_some()
            && stopped.is_none()
            && has_room(limits, tally.cost, largest, running.len())
        {
            if let Some(index) = next.next() {
                running.push_back(item(setup, performer, index));
            }
        }
        // In the order in which they were begun: which ends first may depend on how it ends.
        let Some(tried) = running.next().await else { break };
        let tried = tried?;
        largest = largest.max(Some(tried.cost().nano_usd));
        mute = if tried.is_mute() { mute + 1 } else { 0 };
        // What was begun is paid for, and counts.
        tally.add(&setup, tried);
        tell(&Progress {
            items: tally.items,
            of: chosen.len() as u64,
            performed: tally.cost.performed,
            cost_nano_usd: tally.cost.nano_usd,
        });
        if tally.is_decided(&setup) && !limits.all {
            stopped.get_or_insert(Stopped::Decided);
        }
        if mute == MUTE_MAX && tally.items == MUTE_MAX {
            stopped.get_or_insert(Stopped::NoReply);
        }
    }
    let stopped = stopped.unwrap_or(match (next.peek(), chosen.len() < setup.data.len()) {
        (Some(_), _) => Stopped::Money,
        (None, true) => Stopped::Enough,
        (None, false) => Stopped::AllItems,
    });
    Ok(tally.report(&setup, stopped))
}

/// Says whether one more item may begin: what all that run may cost is within the limit, if none costs more than the dearest until now.
fn has_room(limits: &Limits, cost: Cost, largest: Option<u64>, running: usize) -> bool {
    let Some(most) = limits.nano_usd else { return true };
    match largest {
        // Nothing is known of what an item costs before the first one has ended.
        None => running == 0 && most > 0,
        Some(largest) => {
            let reserved = largest.saturating_mul(running as u64 + 1);
            cost.nano_usd.saturating_add(reserved) <= most
        }
    }
}

/// The items that are tried, by their places in the order.
fn chosen(setup: &Setup<'_>) -> Result<Vec<usize>, EvalError> {
    let Some(only) = &setup.limits.only else {
        return Ok((0..setup.data.len().min(setup.limits.items)).collect());
    };
    for index in 0..setup.data.len() {
        if setup.data.item(index)?.id == *only {
            return Ok(vec![index]);
        }
    }
    Err(EvalError::NoItem(only.clone()))
}

/// Tries an item: its trials one after the other, both ways of each at the same time.
async fn item<P: Performer>(setup: Setup<'_>, performer: &P, index: usize) -> Result<TriedItem, EvalError> {
    let item = setup.data.item(index)?;
    let expect = setup.eval.checks.of(&item.value).map_err(|message| {
        EvalError::Data(DataError {
            line: Some(item.line),
            message,
            help: "correct the item, or the eval file",
        })
    })?;
    let mut trials = Vec::new();
    for trial in 0..setup.limits.trials {
        let ways = setup.ways.iter().map(|way| attempt(&setup, performer, (&item, &expect), way, trial));
        trials.push(try_join_all(ways).await?);
    }
    let (mut said, mut cost) = (Vec::new(), Cost::default());
    for judge in 0..setup.eval.judges.len() {
        said.push(labelled(&setup, performer, judge, &item, &mut cost).await?);
    }
    Ok(TriedItem { item, trials, labelled: said, cost })
}
