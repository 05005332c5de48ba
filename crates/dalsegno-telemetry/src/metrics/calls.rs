//! Numbers of calls.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::{AgentLabels, EndLabels};
use super::{Histograms, seconds};
use crate::call::Measured;

pub(super) struct CallMetrics {
    turn: Histograms<AgentLabels>,
    first_result: Histograms<AgentLabels>,
    interrupt: Histograms<AgentLabels>,
    silence: Histograms<AgentLabels>,
    fillers: Family<AgentLabels, Counter>,
    late: Family<AgentLabels, Counter>,
    joined: Family<AgentLabels, Counter>,
    gaps: Family<AgentLabels, Counter>,
    ends: Family<EndLabels, Counter>,
}

impl CallMetrics {
    pub(super) fn new() -> Self {
        Self {
            turn: Family::new_with_constructor(short),
            first_result: Family::new_with_constructor(short),
            interrupt: Family::new_with_constructor(short),
            silence: Family::new_with_constructor(short),
            fillers: Family::default(),
            late: Family::default(),
            joined: Family::default(),
            gaps: Family::default(),
            ends: Family::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "call_turn_seconds",
            "From the end of the caller's turn to the beginning of the answer",
            self.turn.clone(),
        );
        registry.register(
            "call_first_result_seconds",
            "From a live model's call of a tool to its output",
            self.first_result.clone(),
        );
        registry.register(
            "call_interrupt_seconds",
            "From the caller's first word to the end of the response that it interrupts",
            self.interrupt.clone(),
        );
        registry.register(
            "call_silence_seconds",
            "Time in which neither side spoke while an output was awaited",
            self.silence.clone(),
        );
        registry.register(
            "call_fillers",
            "Times that a live model was asked to say that it is still at it",
            self.fillers.clone(),
        );
        registry.register("call_late", "Outputs that said that their result follows", self.late.clone());
        registry.register(
            "call_joined",
            "Calls of tools that an operation answered which another call had begun",
            self.joined.clone(),
        );
        registry.register("call_gaps", "Times that a connection to a live model was lost", self.gaps.clone());
        registry.register("call_ends", "Calls that are over, by who ended them", self.ends.clone());
    }

    pub(super) fn count(&self, agent: &str, measured: Measured) {
        let took = |family: &Histograms<AgentLabels>, millis: u64| {
            family.get_or_create(&AgentLabels { agent: agent.to_owned() }).observe(seconds(millis));
        };
        let one = |family: &Family<AgentLabels, Counter>| {
            family.get_or_create(&AgentLabels { agent: agent.to_owned() }).inc();
        };
        match measured {
            Measured::Turn(millis) => took(&self.turn, millis),
            Measured::FirstResult(millis) => took(&self.first_result, millis),
            Measured::Interrupt(millis) => took(&self.interrupt, millis),
            Measured::Silence(millis) => took(&self.silence, millis),
            Measured::Filler => one(&self.fillers),
            Measured::Late => one(&self.late),
            Measured::Joined => one(&self.joined),
            Measured::Gap => one(&self.gaps),
            Measured::End(by) => {
                self.ends.get_or_create(&EndLabels { agent: agent.to_owned(), by }).inc();
            }
        }
    }
}

/// From what is not noticed to what is not waited for.
fn short() -> Histogram {
    Histogram::new([0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 15.0, 30.0])
}
