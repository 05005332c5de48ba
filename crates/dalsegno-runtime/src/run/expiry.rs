//! When the questions that people may leave unanswered are answered with a no.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dalsegno_core::{AgentConfig, AgentState, Gate, GateState, Operation, OperationId, Timestamp};
use dalsegno_history::Progress;

use crate::effects::ports::Ports;
use crate::engine::Engine;
use crate::grant::Grant;

/// When the question of an operation is answered with a no; none where it waits for as long as it takes. A clock that jumps
/// forward while this process lives takes nothing from the time to answer.
pub(crate) fn expiry(
    ports: &Ports,
    limit_ms: Option<u64>,
    operation: &Operation,
    progress: &Progress,
) -> Option<Timestamp> {
    match operation.gate {
        GateState::Waiting(Gate::Approval | Gate::Input | Gate::Elicitation { .. }) => {
            let asked = progress.asked.max(progress.interposed);
            Some(ports.end_of(asked, Duration::from_millis(limit_ms?)))
        }
        // Whether something took place does not become clear by waiting; and a secret that is missing is no answer.
        GateState::Waiting(Gate::InDoubt { .. } | Gate::Secret { .. })
        | GateState::Open
        | GateState::Answered => None,
    }
}

impl Engine {
    /// The questions of a run whose time to be answered is over: their answer is no, also where no process has written that down.
    pub(crate) fn expired(
        &self,
        config: &AgentConfig,
        state: &AgentState,
        progress: &BTreeMap<OperationId, Progress>,
    ) -> BTreeSet<OperationId> {
        let grant = Grant::of(&self.workspace(), config);
        let limit = grant.answer_timeout_ms(config.limits.answer_timeout_ms);
        let now = self.now();
        let open = state.pending().iter().filter(|pending| pending.outcome.is_none());
        let expired = open.filter(|pending| {
            let progress = progress.get(&pending.operation.id);
            let ends = progress.and_then(|known| expiry(self.ports(), limit, &pending.operation, known));
            ends.is_some_and(|ends| ends <= now)
        });
        expired.map(|pending| pending.operation.id).collect()
    }
}
