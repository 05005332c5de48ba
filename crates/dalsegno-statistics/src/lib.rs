//! Do two ways of running an agent differ, or is it noise?
//!
//! A model that is asked the same thing twice may reply differently. So a single trial says little, and a number of trials that is
//! fixed beforehand is either too small for a small difference or wasted on a large one. The tests here may be looked at after each
//! trial, and stopped as soon as they have an answer: their error does not grow by that. All of them are bets against a claim about
//! a mean, by Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (Journal of the Royal Statistical
//! Society B 86, 2024). A player who bets against a true claim at fair odds is unlikely ever to multiply their money: the
//! probability to reach 20 times of it, at any time, is at most 1 in 20 (Ville's inequality). So a claim against which the money
//! has grown 20-fold is refused with 95 % confidence.
//!
//! - [`Comparison`] judges pairs of trials: the same example under two ways. See [`Pairs`].
//! - [`Differences`] are the same for examples with several trials each, which count once.
//! - [`Sample::interval`] says between which values a mean lies.
//! - [`pass_power`] is the chance that several trials in a row pass.
//! - [`flip_rate`] is the chance that two trials of an example differ.
//! - [`Agreement`] says how far a judge agrees with people.
//! - [`Comparison::visible`] is the smallest difference that so many pairs would have shown.
//!
//! Nothing here draws a random number, reads a clock, or depends on the order of trials.
#![forbid(unsafe_code)]

mod agreement;
mod bets;
mod differences;
mod pairs;
mod power;

pub use agreement::{Agreement, Figure};
pub use bets::{Interval, Sample};
pub use differences::Differences;
pub use pairs::{Comparison, Pairs, Verdict};
pub use power::{flip_rate, pass_power};
