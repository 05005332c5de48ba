//! What a run leaves in doubt that was told to end.

use std::collections::BTreeMap;

use dalsegno_core::{
    EffectClass, FailureCode, Gate, GateState, Operation, OperationId, Outcome, Pending, RunId,
};

use crate::waiting::{WaitingOperation, waits_at};

/// What a run leaves that was told to end.
#[derive(Debug, Clone, Default)]
pub struct LeftOpen {
    /// The operations that had no outcome.
    open: BTreeMap<OperationId, Operation>,
    /// Those of them of which it is unknown whether they took place, and why.
    pub in_doubt: BTreeMap<OperationId, (Operation, String)>,
}

impl LeftOpen {
    /// Of a state that is about to be told to end.
    pub(crate) fn of(pending: &[Pending]) -> Self {
        let open = pending.iter().filter(|pending| pending.outcome.is_none());
        let open = open.map(|pending| (pending.operation.id, pending.operation.clone()));
        Self { open: open.collect(), in_doubt: BTreeMap::new() }
    }

    /// Takes a `late` record.
    pub(crate) fn take(&mut self, id: OperationId, outcome: &Outcome) {
        match (outcome, self.open.get(&id)) {
            (Outcome::Failed(failure), Some(operation))
                if is_indeterminate(outcome) && is_unrepeatable(operation.terms.class) =>
            {
                self.in_doubt.insert(id, (operation.clone(), failure.message.clone()));
            }
            _ => drop(self.in_doubt.remove(&id)),
        }
    }

    /// What a person is asked about it.
    pub fn waiting(&self, run: RunId) -> Vec<WaitingOperation> {
        let waiting = self.in_doubt.values().map(|(operation, reason)| {
            let gate = Gate::InDoubt { reason: reason.clone() };
            let asked = Operation { gate: GateState::Waiting(gate.clone()), ..operation.clone() };
            waits_at(run, &asked, &gate)
        });
        waiting.collect()
    }
}

/// Says whether it is unknown if an effect with this outcome took place.
pub fn is_indeterminate(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(failure) if failure.code == FailureCode::Indeterminate)
}

/// Says whether an effect of this class took place twice when it is performed twice.
pub fn is_unrepeatable(class: EffectClass) -> bool {
    match class {
        EffectClass::Keyed | EffectClass::Unsafe => true,
        EffectClass::Read | EffectClass::Idempotent | EffectClass::Composite => false,
    }
}
