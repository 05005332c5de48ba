//! The outcomes of a step are all there: the run ends, tools are called in the place of those that failed, or the plan
//! goes on.

use alloc::vec::Vec;

use serde_json::Value;

use super::allowance::Allowance;
use super::place::Place;
use super::request::{self, Draft};
use super::result::{FallBack, Folded};
use crate::config::AgentConfig;
use crate::phase::{Stop, budget, think};
use crate::response::RunErrorCode;
use crate::state::{AgentState, Decision};

/// What the operations of a step came to.
#[derive(Default)]
pub(super) struct Settled<'p> {
    /// The first failure that ends the run.
    stop: Option<Stop>,
    fallbacks: Vec<(usize, Place<'p>, FallBack)>,
}

/// Calls of tools that stand in for others.
pub(super) struct Again<'c> {
    /// One for each call: the branch or the item that it is for.
    pub(super) places: Vec<usize>,
    pub(super) drafts: Vec<Draft>,
    pub(super) allowance: Allowance<'c>,
}

impl<'p> Settled<'p> {
    /// Takes what an operation came to; its result is for the caller to keep.
    pub(super) fn take(&mut self, branch: usize, place: Place<'p>, folded: Folded) -> Option<Value> {
        match folded {
            Folded::Value(value) => return Some(value),
            Folded::FallBack(fallback) => self.fallbacks.push((branch, place, fallback)),
            Folded::Stop(stop) => self.stop(stop),
        }
        None
    }

    /// Ends the run once all outcomes are taken, unless something before this does.
    pub(super) fn stop(&mut self, stop: Stop) {
        self.stop.get_or_insert(stop);
    }

    /// Draws up the calls that stand in for those that failed; `None` when there are none.
    pub(super) fn fall_back<'c>(
        self,
        config: &'c AgentConfig,
        place: Place<'_>,
        state: &mut AgentState,
    ) -> Result<Option<Again<'c>>, Stop> {
        if let Some(stop) = self.stop {
            return Err(stop);
        }
        if let Some(limit) = budget::overrun(config, state) {
            let beyond = budget::beyond(config, state, limit);
            let help = think::RAISE_THE_LIMIT;
            return Err(place.stop(RunErrorCode::LimitExceeded, format_args!("{beyond}"), help));
        }
        if self.fallbacks.is_empty() {
            return Ok(None);
        }
        let mut allowance = Allowance::new(config, state);
        allowance.step(place)?;
        let mut drafts = Vec::new();
        let mut places = Vec::new();
        for (branch, place, FallBack { from, to, parameters, reason }) in self.fallbacks {
            drafts.push(request::stand_in(config, place, &to, parameters, state, &mut allowance)?);
            places.push(branch);
            state.decide(Decision::FallBackTool {
                from: from.as_str().into(),
                to: to.as_str().into(),
                reason,
            });
        }
        Ok(Some(Again { places, drafts, allowance }))
    }
}
