//! What an evaluation found, as a value.

use std::collections::BTreeMap;

use dalsegno_core::RunId;
use dalsegno_statistics::{Agreement, Figure, Interval, Verdict};
use serde::Serialize;

/// What an evaluation found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The eval.
    pub eval: String,
    /// The items of the data set.
    pub items_in_data: u64,
    /// The items that were tried.
    pub items: u64,
    /// How often each was tried, each way.
    pub trials: u32,
    /// How sure intervals and verdicts are, such as 0.95.
    pub confidence: f64,
    /// The ways, the evaluated one last.
    pub ways: Vec<WayReport>,
    /// How the evaluated way compares with the other one, if there is one.
    pub comparison: Option<Compared>,
    /// Whether the pass rate is reached that the eval asks for.
    pub goal: Option<Goal>,
    /// The judges.
    pub judges: Vec<JudgeReport>,
    /// What came of each item that was tried, in the order of the data set.
    pub results: Vec<ItemReport>,
    /// Trials of the evaluated way that did not pass, at most 200.
    pub failures: Vec<FailedTrial>,
    /// Trials without a reply of a model, by reason. They count neither way.
    pub no_reply: BTreeMap<String, u64>,
    /// Why no further item was tried.
    pub stopped: Stopped,
    /// Runs that were performed now.
    pub performed: u64,
    /// Runs that an earlier evaluation had performed.
    pub known: u64,
    /// Tokens of all runs.
    pub tokens: u64,
    /// What all runs cost, in billionths of a US dollar.
    pub cost_nano_usd: u64,
    /// What of it was spent now.
    pub cost_now_nano_usd: u64,
    /// A model without a price: what it costs is not known, and counts as nothing.
    pub unpriced: Option<String>,
}

/// One way of running the agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WayReport {
    /// The way.
    pub name: String,
    /// Trials with a verdict.
    pub trials: u64,
    /// Those of them that passed.
    pub passed: u64,
    /// Trials without a verdict: a judge gave none, or a model no reply.
    pub no_verdict: u64,
    /// The pass rate: the mean over items, each of which counts once. None where no trial has a verdict.
    pub pass_rate: Option<Figure>,
    /// The chance that all trials of an item pass, where there are several.
    pub pass_power: Option<Figure>,
    /// The chance that two trials of an item differ, where there are several.
    pub flip_rate: Option<f64>,
    /// How many trials did not pass, by each check and judge.
    pub failed_by: BTreeMap<String, u64>,
    /// Tokens.
    pub tokens: u64,
    /// The cost with that of its judges, in billionths of a US dollar.
    pub cost_nano_usd: u64,
}

/// How the evaluated way compares with the other one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    /// What it comes to.
    pub verdict: Verdict,
    /// Items that were compared.
    pub items: u64,
    /// Items on which the evaluated way did better.
    pub better: u64,
    /// Items on which it did worse.
    pub worse: u64,
    /// The difference of the pass rates, above 0 where the evaluated way passes more often, and what it may truly be.
    pub difference: f64,
    /// What the difference may truly be.
    pub interval: Interval,
    /// The smallest difference that counts.
    pub smallest: f64,
    /// The smallest difference that so many items show in four of five evaluations.
    pub visible: Option<f64>,
}

/// The pass rate that must be reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Goal {
    /// The rate.
    pub at_least: f64,
    /// Whether it is reached.
    pub conclusion: Conclusion,
}

/// Whether something holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// It does.
    Reached,
    /// It does not.
    NotReached,
    /// So many items do not tell.
    Inconclusive,
}

/// What a judge did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgeReport {
    /// The judge.
    pub name: String,
    /// Answers that it let pass.
    pub passed: u64,
    /// Answers that it did not.
    pub failed: u64,
    /// How often it gave no verdict, by reason; at most 20 reasons.
    pub no_verdict: BTreeMap<String, u64>,
    /// How it agrees with people, where answers have labels.
    pub labelled: Option<Agreement>,
    /// The share of answers on which it agrees with them.
    pub agreement: Option<Figure>,
    /// Cohen's kappa.
    pub kappa: Option<Figure>,
}

/// What came of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ItemReport {
    /// The item.
    pub item: String,
    /// Its line in the data set.
    pub line: u64,
    /// What came of it each way, in the order of [`Report::ways`].
    pub ways: Vec<ItemWay>,
}

/// What came of an item one way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ItemWay {
    /// Trials with a verdict.
    pub trials: u64,
    /// Those of them that passed.
    pub passed: u64,
    /// Trials without a verdict.
    pub no_verdict: u64,
    /// The run of each trial, in order.
    #[serde(rename = "run_ids")]
    pub runs: Vec<RunId>,
}

/// A trial that did not pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedTrial {
    /// The item.
    pub item: String,
    /// Its line in the data set.
    pub line: u64,
    /// The number of the trial, from 1.
    pub trial: u32,
    /// Its run.
    #[serde(rename = "run_id")]
    pub run: RunId,
    /// What does not hold: the check or the judge, and why.
    pub failures: Vec<(String, String)>,
}

/// Why no further item was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// All items were tried.
    AllItems,
    /// As many as were wanted were tried.
    Enough,
    /// The answer is known.
    Decided,
    /// The next item might have cost more than there was left.
    Money,
    /// No model replied.
    NoReply,
}
