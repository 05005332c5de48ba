//! What people answer.

use dalsegno_core::{Gate, OperationId, RunId};
use dalsegno_runtime::{GateInput, Settlement};
use serde_json::json;

use super::Operator;

impl Operator {
    /// Answers to some of what a run and those below it wait for; to all of it for one who is diligent.
    ///
    /// Nobody lies: an effect in doubt was done if the receiver has it, and while a message is on its way nobody knows.
    pub(super) async fn answers(&mut self, run: RunId, diligent: bool) -> Vec<GateInput> {
        let inspection = match self.reader.inspect(run, None).await {
            Ok(inspection) => inspection,
            Err(_) if self.world.judge(|guarantees| guarantees.rests_on_erased(run)) => return Vec::new(),
            Err(error) => {
                self.broken(format!("run {run} cannot be inspected: {error}"));
                return Vec::new();
            }
        };
        let mut answers = Vec::new();
        for waiting in inspection.waiting {
            if !diligent && self.random.chance(400) {
                continue;
            }
            let (run, id) = (waiting.run, waiting.operation);
            // What is true of one attempt says nothing of the next.
            let seen = Some(waiting.gate.clone());
            let settlement = match waiting.gate {
                Gate::Approval if self.random.chance(250) => Settlement::Deny { reason: None },
                Gate::Approval => Settlement::Approve { edited: None, reason: None },
                Gate::Input if self.random.chance(200) => Settlement::Deny { reason: None },
                Gate::Input => Settlement::Give { value: json!("so be it") },
                // It is put, or not.
                Gate::Secret { .. } | Gate::Elicitation { .. } => continue,
                Gate::InDoubt { .. } => {
                    let done = self.world.judge(|guarantees| {
                        guarantees.took_place(run, id).map(|done| done.then(|| guarantees.reply_of(run, id)))
                    });
                    match done {
                        None => continue,
                        Some(None) => Settlement::NotDone,
                        Some(Some(result)) => Settlement::Done { result },
                    }
                }
            };
            let alias = self.world.judge(|guarantees| guarantees.operation(run, id));
            self.world.note(&format!("somebody says of {alias}: {settlement:?}"));
            answers.push(GateInput { operation: Some(id), seen, settlement, by: Some("eve".into()) });
        }
        answers
    }

    /// What a run has asked for and has no outcome of.
    pub(super) async fn pending(&self, run: RunId) -> Vec<OperationId> {
        let Ok(inspection) = self.reader.inspect(run, None).await else { return Vec::new() };
        let pending = inspection.state.pending().iter().filter(|pending| pending.outcome.is_none());
        // An effect in doubt cannot be given up.
        let pending = pending.filter(|pending| {
            !matches!(pending.operation.gate, dalsegno_core::GateState::Waiting(Gate::InDoubt { .. }))
        });
        pending.map(|pending| pending.operation.id).collect()
    }
}
