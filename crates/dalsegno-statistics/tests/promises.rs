//! What the verdicts promise, by simulation: how often they are wrong, how soon they are right, and what they do not see.

use dalsegno_statistics::{
    Agreement, Comparison, Differences, Pairs, Sample, Verdict, flip_rate, pass_power,
};
use proptest::prelude::*;

const USUAL: Comparison = Comparison { confidence: 0.95, smallest: 0.1 };

/// Two ways, by how often an example passes under both, only under the first one, and only under the second one.
#[derive(Debug, Clone, Copy)]
struct Ways {
    worse: f64,
    better: f64,
}

impl Ways {
    /// Trials that have nothing to do with each other.
    fn independent(first: f64, second: f64) -> Self {
        Self { worse: first * (1.0 - second), better: (1.0 - first) * second }
    }

    /// Looks after each pair, up to so many, and takes the first verdict. Returns it with the pairs that it took.
    fn compare(self, most: u64, random: &mut fastrand::Rng) -> (Verdict, u64) {
        let mut pairs = Pairs::default();
        for count in 1..=most {
            let drawn = random.f64();
            if drawn < self.worse {
                pairs.worse += 1;
            } else if drawn < self.worse + self.better {
                pairs.better += 1;
            } else {
                pairs.same += 1;
            }
            let verdict = USUAL.judge(&pairs);
            if verdict != Verdict::Inconclusive {
                return (verdict, count);
            }
        }
        (Verdict::Inconclusive, most)
    }

    /// The pairs that McNemar's test needs for this difference, with 95 % confidence and a power of 90 %, if their number is
    /// fixed beforehand: Connor, "Sample size for testing differences in proportions for the paired-sample design"
    /// (Biometrics 43, 1987).
    fn fixed(self) -> f64 {
        let (differing, difference) = (self.worse + self.better, self.better - self.worse);
        let spread = (differing - difference * difference).sqrt();
        ((1.959_964 * differing.sqrt() + 1.281_552 * spread) / difference).powi(2)
    }
}

/// Of so many comparisons of two ways that are the same, the share that calls one of them better.
fn false_alarms(comparisons: u32, most: u64, seed: u64) -> f64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut alarms = 0;
    for index in 0..comparisons {
        // From examples that are hard to ones that are easy, and with noise of any size.
        let rate = f64::from(index % 19 + 1) / 20.0;
        let (verdict, _) = Ways::independent(rate, rate).compare(most, &mut random);
        alarms += u32::from(matches!(verdict, Verdict::Better | Verdict::Worse));
    }
    f64::from(alarms) / f64::from(comparisons)
}

#[test]
fn two_ways_that_are_the_same_are_rarely_told_apart() {
    assert!(false_alarms(300, 200, 1) <= 0.05);
}

#[test]
#[ignore = "a long proof: `cargo test --release -p dalsegno-statistics -- --ignored --nocapture`"]
fn of_ten_thousand_comparisons_of_the_same_at_most_one_in_twenty_is_a_false_alarm() {
    let share = false_alarms(10_000, 1_000, 2);
    println!(
        "false alarms in 10,000 comparisons, looked at after each of 1,000 pairs: {:.2} %",
        share * 100.0
    );
    assert!(share <= 0.05);
}

#[test]
#[ignore = "a long proof: `cargo test --release -p dalsegno-statistics -- --ignored --nocapture`"]
fn a_difference_of_ten_points_is_seen_sooner_than_with_a_fixed_number_of_pairs() {
    let mut random = fastrand::Rng::with_seed(3);
    println!(
        "first, second, share that differs | fixed test | seen within 1.5 times of it | pairs on average | of the fixed test"
    );
    for (first, second, ways) in [
        (0.5, 0.6, Ways::independent(0.5, 0.6)),
        (0.8, 0.9, Ways::independent(0.8, 0.9)),
        (0.7, 0.8, Ways { worse: 0.05, better: 0.15 }),
        (0.7, 0.8, Ways { worse: 0.01, better: 0.11 }),
    ] {
        let fixed = ways.fixed();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred pairs")]
        let most = (1.5 * fixed) as u64;
        let runs: Vec<(Verdict, u64)> = (0..1_000).map(|_| ways.compare(most, &mut random)).collect();
        let seen = runs.iter().filter(|(verdict, _)| *verdict == Verdict::Better).count();
        let taken: u64 = runs.iter().map(|(_, count)| count).sum();
        #[expect(clippy::cast_precision_loss, reason = "a thousand runs")]
        let (power, average) = (seen as f64 / 1_000.0, taken as f64 / 1_000.0);
        let differing = ways.worse + ways.better;
        println!(
            "{first}, {second}, {differing:.2} | {fixed:.0} | {:.1} % | {average:.0} | {:.2}",
            power * 100.0,
            average / fixed
        );
        assert!(power >= 0.85 && average <= 0.9 * fixed, "{power}, {average} of {fixed}");
        assert!(runs.iter().all(|(verdict, _)| *verdict != Verdict::Worse));
    }
}

#[test]
fn ways_that_differ_by_more_than_the_smallest_difference_are_rarely_called_equal() {
    let mut random = fastrand::Rng::with_seed(4);
    let ways = Ways { worse: 0.05, better: 0.16 };
    let equal = (0..100).filter(|_| ways.compare(300, &mut random).0 == Verdict::Equal).count();
    assert!(equal <= 5, "{equal} of 100");
}

#[test]
fn ways_that_hardly_differ_are_equal_in_the_end() {
    let pairs = Pairs { better: 10, worse: 10, same: 1_980 };
    assert_eq!(USUAL.judge(&pairs), Verdict::Equal);
    // The same share of so few pairs says nothing.
    assert_eq!(USUAL.judge(&Pairs { better: 1, worse: 1, same: 18 }), Verdict::Inconclusive);
    assert_eq!(USUAL.judge(&Pairs::default()), Verdict::Inconclusive);
}

#[test]
fn a_difference_is_named_by_its_side() {
    assert_eq!(USUAL.judge(&Pairs { better: 20, worse: 2, same: 30 }), Verdict::Better);
    assert_eq!(USUAL.judge(&Pairs { better: 2, worse: 20, same: 30 }), Verdict::Worse);
}

#[test]
fn an_interval_has_the_mean_at_all_times_but_rarely() {
    let mut random = fastrand::Rng::with_seed(5);
    let missed = (0..100).filter(|index| {
        let rate = f64::from(index % 9 + 1) / 10.0;
        let mut passed = 0;
        (1..=150).any(|trials| {
            passed += u64::from(random.f64() < rate);
            let interval = Sample::of_trials(passed, trials).interval(0.95);
            rate < interval.low || rate > interval.high
        })
    });
    let missed = missed.count();
    assert!(missed <= 5, "{missed} of 100");
}

#[test]
fn the_visible_difference_is_seen_in_about_four_of_five_comparisons() {
    let mut random = fastrand::Rng::with_seed(6);
    for seen in [Pairs { better: 30, worse: 30, same: 140 }, Pairs { better: 5, worse: 5, same: 90 }] {
        let difference = USUAL.visible(&seen).unwrap();
        #[expect(clippy::cast_precision_loss, reason = "a hundred pairs")]
        let differing = ((seen.better + seen.worse) as f64 / seen.count() as f64).max(difference);
        let ways =
            Ways { worse: (differing - difference) / 2.0, better: f64::midpoint(differing, difference) };
        let runs = 300;
        let told = (0..runs).filter(|_| ways.compare(seen.count(), &mut random).0 == Verdict::Better).count();
        // Looking after each pair sees somewhat more than looking once, at the end.
        assert!((runs * 3 / 4..=runs * 19 / 20).contains(&told), "{told} of {runs} at {difference}");
    }
    assert_eq!(USUAL.visible(&Pairs { better: 1, worse: 0, same: 0 }), None);
}

#[test]
fn trials_in_a_row_are_counted_like_choices_of_trials() {
    for trials in 0..8_u64 {
        for passed in 0..=trials {
            for in_a_row in 0..=trials {
                let chosen = (0_u32..1 << trials).filter(|set| u64::from(set.count_ones()) == in_a_row);
                let (mut all, mut passing) = (0.0, 0.0);
                for set in chosen {
                    all += 1.0;
                    // The first ones passed.
                    passing += f64::from(u8::from(set >> passed == 0));
                }
                let estimate = pass_power(passed, trials, in_a_row).unwrap();
                assert!(
                    (estimate - passing / all).abs() < 1e-12,
                    "{passed} of {trials}, {in_a_row} in a row"
                );
            }
        }
    }
    assert_eq!(pass_power(3, 2, 1), None);
    assert_eq!(pass_power(2, 2, 3), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_interval_has_what_was_observed(
        values in prop::collection::vec((prop::num::f64::ANY, prop::num::f64::ANY), 0..8),
        confidence in 0.5..0.999,
    ) {
        let sample = Sample::new(values);
        let interval = sample.interval(confidence);
        prop_assert!(0.0 <= interval.low && interval.low <= interval.high && interval.high <= 1.0);
        if let Some(mean) = sample.mean().filter(|mean| mean.is_finite()) {
            prop_assert!(interval.low <= mean + 1e-9 && mean <= interval.high + 1e-9);
        }
    }

    #[test]
    fn more_confidence_takes_more_room(passed in 0..60_u64, failed in 0..60_u64) {
        let sample = Sample::of_trials(passed, passed + failed);
        let (wide, narrow) = (sample.interval(0.99), sample.interval(0.9));
        prop_assert!(wide.low <= narrow.low && narrow.high <= wide.high);
    }

    #[test]
    fn a_verdict_is_mirrored_with_its_pairs(better in 0..40_u64, worse in 0..40_u64, same in 0..200_u64) {
        let mirrored = match USUAL.judge(&Pairs { better: worse, worse: better, same }) {
            Verdict::Better => Verdict::Worse,
            Verdict::Worse => Verdict::Better,
            other => other,
        };
        prop_assert_eq!(USUAL.judge(&Pairs { better, worse, same }), mirrored);
    }
}

#[test]
fn differences_of_single_pairs_say_the_same_as_the_pairs() {
    let pairs = Pairs { better: 7, worse: 3, same: 20 };
    let mut differences = Differences::default();
    for (difference, times) in [(1.0, 7), (-1.0, 3), (0.0, 20)] {
        (0..times).for_each(|_| differences.add(difference));
    }
    assert_eq!(USUAL.judge_differences(&differences), USUAL.judge(&pairs));
    let (one, other) = (USUAL.interval_of(&differences), USUAL.interval(&pairs));
    assert!((one.low - other.low).abs() < 1e-9 && (one.high - other.high).abs() < 1e-9);
    assert_eq!(USUAL.visible_by(&differences), USUAL.visible(&pairs));
    assert!((differences.mean() - pairs.difference()).abs() < 1e-12);
    differences.add(f64::NAN);
    assert!((differences.count() - 30.0).abs() < 1e-12);
}

#[test]
fn an_interval_is_left_on_the_side_of_the_claim() {
    let sample = Sample::of_trials(5, 100);
    assert!(sample.is_below(0.5, 0.95) && !sample.is_above(0.5, 0.95));
    assert!(!sample.is_below(0.05, 0.95) && sample.is_above(0.001, 0.95));
}

#[test]
fn two_trials_differ_as_often_as_pairs_of_them_do() {
    for trials in 2..8_u64 {
        for passed in 0..=trials {
            let is_passed = |index: u64| index < passed;
            let (mut differ, mut all) = (0.0, 0.0);
            for first in 0..trials {
                for second in 0..trials {
                    if first != second {
                        all += 1.0;
                        differ += f64::from(u8::from(is_passed(first) != is_passed(second)));
                    }
                }
            }
            assert!((flip_rate(passed, trials).unwrap() - differ / all).abs() < 1e-12);
        }
    }
    assert_eq!((flip_rate(1, 1), flip_rate(3, 2)), (None, None));
}

#[test]
fn kappa_is_that_of_the_textbook_and_its_interval_has_the_true_one() {
    // Fleiss, Levin and Paik: 0.7 of agreement where chance gives half of it.
    let agreement = Agreement { both_pass: 35, both_fail: 35, only_judge: 15, only_person: 15 };
    assert!((agreement.raw(0.95).unwrap().value - 0.7).abs() < 1e-12);
    assert!((agreement.kappa(0.95).unwrap().value - 0.4).abs() < 1e-12);
    assert_eq!(Agreement { both_pass: 9, ..Agreement::default() }.kappa(0.95), None);
    assert_eq!(Agreement::default().raw(0.95), None);
    // Five that agree are no proof.
    let few = Agreement { both_pass: 3, both_fail: 2, ..Agreement::default() }.kappa(0.95).unwrap();
    assert!(few.value > 0.999 && few.interval.low < 0.3, "{few:?}");
    let mut random = fastrand::Rng::with_seed(7);
    let missed = (0..200).filter(|index| {
        let (share, agree) = (0.3 + 0.1 * f64::from(index % 5), 0.6 + 0.1 * f64::from(index % 4));
        let mut agreement = Agreement::default();
        let truth = {
            // The person says yes with `share`, and the judge the same with `agree`.
            let judge = share * agree + (1.0 - share) * (1.0 - agree);
            let chance = share * judge + (1.0 - share) * (1.0 - judge);
            (agree - chance) / (1.0 - chance)
        };
        for _ in 0..80 {
            let person = random.f64() < share;
            let judge = if random.f64() < agree { person } else { !person };
            agreement.add(judge, person);
        }
        let found = agreement.kappa(0.95).unwrap().interval;
        truth < found.low || truth > found.high
    });
    let missed = missed.count();
    assert!(missed <= 10, "{missed} of 200");
}
