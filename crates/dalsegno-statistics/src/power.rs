//! The chance that several trials in a row pass.

/// An unbiased estimate of the chance that `in_a_row` trials of an example pass, where `passed` of `trials` did: the share of all
/// choices of so many trials that passed throughout.
///
/// It is called pass^k, by Yao and others, "τ-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains" (2024).
/// `None` where there are fewer trials than that, or more passed than there are.
pub fn pass_power(passed: u64, trials: u64, in_a_row: u64) -> Option<f64> {
    if trials < in_a_row || passed > trials {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "there are never 2^53 trials")]
    let factor = |index: u64| passed.saturating_sub(index) as f64 / (trials - index) as f64;
    Some((0..in_a_row).map(factor).product())
}

/// An unbiased estimate of the chance that two trials of an example differ, one that passes and one that does not, where `passed` of
/// `trials` did: how noisy the example is.
///
/// `None` where there are fewer than two trials, or more passed than there are.
pub fn flip_rate(passed: u64, trials: u64) -> Option<f64> {
    if trials < 2 || passed > trials {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "there are never 2^53 trials")]
    let [passed, failed, trials] = [passed, trials - passed, trials].map(|number| number as f64);
    Some(2.0 * passed * failed / (trials * (trials - 1.0)))
}
