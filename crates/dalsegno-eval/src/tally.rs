//! Counts trials, and says what they come to.

use std::collections::BTreeMap;

use dalsegno_statistics::{
    Agreement, Comparison, Differences, Figure, Sample, Verdict, flip_rate, pass_power,
};

use crate::data::Item;
use crate::evaluate::Setup;
use crate::report::{
    Compared, Conclusion, FailedTrial, Goal, ItemReport, ItemWay, JudgeReport, Report, Stopped, WayReport,
};
use crate::trial::{Cost, Said, Tried};

/// Trials that did not pass and are listed.
const FAILURES_MAX: usize = 200;

/// Reasons that are told.
const REASONS_MAX: usize = 20;

/// How sure intervals and verdicts are.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// What came of an item.
pub(crate) struct TriedItem {
    pub(crate) item: Item,
    /// By trial, and in it by way.
    pub(crate) trials: Vec<Vec<Tried>>,
    /// What each judge and a person said of the item's own answer.
    pub(crate) labelled: Vec<Option<(Said, bool)>>,
    /// What asking about these answers cost.
    pub(crate) cost: Cost,
}

impl TriedItem {
    /// What all of its runs cost.
    pub(crate) fn cost(&self) -> Cost {
        let mut cost = self.cost;
        self.trials.iter().flatten().for_each(|tried| cost.add(tried.cost));
        cost
    }

    /// Says whether no model replied in any of its trials.
    pub(crate) fn is_mute(&self) -> bool {
        self.trials.iter().flatten().all(|tried| tried.no_reply.is_some())
    }
}

#[derive(Default)]
struct OfWay {
    trials: u64,
    passed: u64,
    no_verdict: u64,
    rates: Sample,
    powers: Sample,
    flips: Sample,
    failed_by: BTreeMap<String, u64>,
    cost: Cost,
}

#[derive(Default)]
struct OfJudge {
    passed: u64,
    failed: u64,
    no_verdict: BTreeMap<String, u64>,
    agreement: Agreement,
    is_labelled: bool,
}

/// All items so far.
pub(crate) struct Tally {
    ways: Vec<OfWay>,
    judges: Vec<OfJudge>,
    differences: Differences,
    better: u64,
    worse: u64,
    pub(crate) items: u64,
    pub(crate) cost: Cost,
    results: Vec<ItemReport>,
    failures: Vec<FailedTrial>,
    no_reply: BTreeMap<String, u64>,
    /// The first verdict that was more than inconclusive.
    verdict: Verdict,
    goal: Conclusion,
}

impl Tally {
    pub(crate) fn new(setup: &Setup<'_>) -> Self {
        Self {
            ways: setup.ways.iter().map(|_| OfWay::default()).collect(),
            judges: setup.eval.judges.iter().map(|_| OfJudge::default()).collect(),
            differences: Differences::default(),
            better: 0,
            worse: 0,
            items: 0,
            cost: Cost::default(),
            results: Vec::new(),
            failures: Vec::new(),
            no_reply: BTreeMap::new(),
            verdict: Verdict::Inconclusive,
            goal: Conclusion::Inconclusive,
        }
    }

    /// Counts an item.
    pub(crate) fn add(&mut self, setup: &Setup<'_>, tried: TriedItem) {
        self.items += 1;
        self.cost.add(tried.cost());
        let TriedItem { item, trials, labelled, .. } = tried;
        for (way, of_way) in self.ways.iter_mut().enumerate() {
            of_way.add(trials.iter().filter_map(|trial| trial.get(way)));
        }
        let ways =
            (0..self.ways.len()).map(|way| ItemWay::of(trials.iter().filter_map(|trial| trial.get(way))));
        self.results.push(ItemReport { item: item.id.clone(), line: item.line, ways: ways.collect() });
        if let [_, _] = self.ways[..] {
            self.compare(&trials);
        }
        for tried in trials.iter().flatten() {
            if let Some(why) = &tried.no_reply {
                count(&mut self.no_reply, why);
            }
            for (judge, said) in self.judges.iter_mut().zip(&tried.judged) {
                judge.add(said.as_ref());
            }
        }
        for (judge, said) in self.judges.iter_mut().zip(&labelled) {
            let Some((said, person)) = said else { continue };
            judge.is_labelled = true;
            match said.verdict() {
                Some(verdict) => judge.agreement.add(verdict, *person),
                None => judge.add(Some(said)),
            }
        }
        for (number, trial) in (1..).zip(trials) {
            let Some(tried) = trial.into_iter().next_back() else { continue };
            if tried.passed == Some(false) && self.failures.len() < FAILURES_MAX {
                self.failures.push(FailedTrial {
                    item: item.id.clone(),
                    line: item.line,
                    trial: number,
                    run: tried.run,
                    failures: tried.failures,
                });
            }
        }
        self.conclude(setup);
    }

    /// Holds both ways of an item against each other: the mean of its trials is one observation.
    fn compare(&mut self, trials: &[Vec<Tried>]) {
        let pairs = trials.iter().filter_map(|trial| match &trial[..] {
            [first, second] => first.passed.zip(second.passed),
            _ => None,
        });
        let points = pairs.map(|(first, second)| f64::from(i8::from(second) - i8::from(first)));
        let (sum, number) = points.fold((0.0, 0.0), |(sum, number), point| (sum + point, number + 1.0));
        if number > 0.0 {
            self.differences.add(sum / number);
            self.better += u64::from(sum > 0.0);
            self.worse += u64::from(sum < 0.0);
        }
    }

    fn comparison(setup: &Setup<'_>) -> Comparison {
        Comparison { confidence: CONFIDENCE, smallest: setup.eval.smallest }
    }

    fn conclude(&mut self, setup: &Setup<'_>) {
        if self.verdict == Verdict::Inconclusive && self.ways.len() == 2 {
            self.verdict = Self::comparison(setup).judge_differences(&self.differences);
        }
        if let (Conclusion::Inconclusive, Some(at_least), Some(way)) =
            (self.goal, setup.eval.at_least, self.ways.last())
        {
            if way.rates.is_below(at_least, CONFIDENCE) {
                self.goal = Conclusion::NotReached;
            } else if way.rates.is_above(at_least, CONFIDENCE) {
                self.goal = Conclusion::Reached;
            }
        }
    }

    /// Says whether all that is asked is known. An evaluation that asks nothing tries all items.
    pub(crate) fn is_decided(&self, setup: &Setup<'_>) -> bool {
        let compares = self.ways.len() == 2;
        let is_open = compares && self.verdict == Verdict::Inconclusive
            || setup.eval.at_least.is_some() && self.goal == Conclusion::Inconclusive;
        (compares || setup.eval.at_least.is_some()) && !is_open
    }

    pub(crate) fn report(mut self, setup: &Setup<'_>, stopped: Stopped) -> Report {
        self.results.sort_unstable_by_key(|result| result.line);
        let comparison = (self.ways.len() == 2).then(|| {
            let comparison = Self::comparison(setup);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of items")]
            let items = self.differences.count() as u64;
            Compared {
                verdict: self.verdict,
                items,
                better: self.better,
                worse: self.worse,
                difference: self.differences.mean(),
                interval: comparison.interval_of(&self.differences),
                smallest: comparison.smallest,
                visible: comparison.visible_by(&self.differences),
            }
        });
        let ways = self.ways.into_iter().zip(setup.ways);
        let judges = self.judges.into_iter().zip(&setup.eval.judges);
        Report {
            eval: setup.eval.name.clone(),
            items_in_data: setup.data.len() as u64,
            items: self.items,
            trials: setup.limits.trials,
            confidence: CONFIDENCE,
            ways: ways.map(|(of_way, way)| of_way.report(&way.name)).collect(),
            comparison,
            goal: setup.eval.at_least.map(|at_least| Goal { at_least, conclusion: self.goal }),
            judges: judges.map(|(of_judge, judge)| of_judge.report(&judge.name)).collect(),
            results: self.results,
            failures: self.failures,
            no_reply: self.no_reply,
            stopped,
            performed: self.cost.performed,
            known: self.cost.known,
            tokens: self.cost.tokens,
            cost_nano_usd: self.cost.nano_usd,
            cost_now_nano_usd: self.cost.now_nano_usd,
            unpriced: setup.eval.unpriced.clone(),
        }
    }
}

impl ItemWay {
    fn of<'t>(trials: impl Iterator<Item = &'t Tried>) -> Self {
        let mut found = Self::default();
        for tried in trials {
            found.runs.push(tried.run);
            match tried.passed {
                Some(has_passed) => {
                    found.trials += 1;
                    found.passed += u64::from(has_passed);
                }
                None => found.no_verdict += 1,
            }
        }
        found
    }
}

impl OfWay {
    fn add<'t>(&mut self, trials: impl Iterator<Item = &'t Tried> + Clone) {
        for tried in trials.clone() {
            self.cost.add(tried.cost);
            for (what, _) in &tried.failures {
                count(&mut self.failed_by, what);
            }
        }
        let ItemWay { trials: number, passed, no_verdict, .. } = ItemWay::of(trials);
        self.trials += number;
        self.passed += passed;
        self.no_verdict += no_verdict;
        if number > 0 {
            #[expect(clippy::cast_precision_loss, reason = "at most a thousand trials")]
            self.rates.add(passed as f64 / number as f64, 1.0);
        }
        if number > 1 {
            self.powers.add(pass_power(passed, number, number).unwrap_or_default(), 1.0);
            self.flips.add(flip_rate(passed, number).unwrap_or_default(), 1.0);
        }
    }

    fn report(self, name: &str) -> WayReport {
        let figure = |sample: &Sample| {
            let value = sample.mean()?;
            Some(Figure { value, interval: sample.interval(CONFIDENCE) })
        };
        WayReport {
            name: name.to_owned(),
            trials: self.trials,
            passed: self.passed,
            no_verdict: self.no_verdict,
            pass_rate: figure(&self.rates),
            pass_power: figure(&self.powers),
            flip_rate: self.flips.mean(),
            failed_by: self.failed_by,
            tokens: self.cost.tokens,
            cost_nano_usd: self.cost.nano_usd,
        }
    }
}

impl OfJudge {
    fn add(&mut self, said: Option<&Said>) {
        match said {
            None => {}
            Some(Said::Pass) => self.passed += 1,
            Some(Said::Fail) => self.failed += 1,
            Some(Said::Nonsense(why)) => count(&mut self.no_verdict, why),
        }
    }

    fn report(self, name: &str) -> JudgeReport {
        JudgeReport {
            name: name.to_owned(),
            passed: self.passed,
            failed: self.failed,
            no_verdict: self.no_verdict,
            labelled: self.is_labelled.then_some(self.agreement),
            agreement: self.agreement.raw(CONFIDENCE),
            kappa: self.agreement.kappa(CONFIDENCE),
        }
    }
}

/// Counts a reason. When there are many, the rest is counted together.
fn count(reasons: &mut BTreeMap<String, u64>, why: &str) {
    let is_new = !reasons.contains_key(why) && reasons.len() >= REASONS_MAX;
    let why = if is_new { "other reasons" } else { why };
    *reasons.entry(why.to_owned()).or_default() += 1;
}
