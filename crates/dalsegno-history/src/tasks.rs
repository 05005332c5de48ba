//! Tasks of tool servers, as far as the journal knows of them.

use std::collections::BTreeMap;

use dalsegno_core::{Gate, OperationId, Timestamp};
use dalsegno_store::AttemptCause;

/// The tasks of the open operations of a step, by the server's ids for them, and when they were noted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tasks(BTreeMap<OperationId, (String, Timestamp)>);

impl Tasks {
    /// Takes a `tasked` record.
    pub fn note(&mut self, operation: OperationId, task: String, at: Timestamp) {
        self.0.insert(operation, (task, at));
    }

    /// The task of an operation that goes on at its server, as far as is known.
    pub fn get(&self, operation: OperationId) -> Option<&String> {
        self.0.get(&operation).map(|(task, _)| task)
    }

    /// When the task of an operation was noted.
    pub fn since(&self, operation: OperationId) -> Option<Timestamp> {
        self.0.get(&operation).map(|(_, at)| *at)
    }

    /// Takes an `attempted` record. An attempt that follows a question goes on with the task that asked it; any other one
    /// begins anew.
    pub fn attempted(&mut self, operation: OperationId, cause: AttemptCause) {
        match cause {
            AttemptCause::Answered | AttemptCause::Queued => {}
            AttemptCause::Recovered | AttemptCause::Failed { .. } => self.forget(operation),
        }
    }

    /// Takes a `waiting` record. What is in doubt is a person's matter from here on: its server could not say.
    pub fn gated(&mut self, operation: OperationId, gate: &Gate) {
        match gate {
            Gate::InDoubt { .. } => self.forget(operation),
            Gate::Approval | Gate::Input | Gate::Secret { .. } | Gate::Elicitation { .. } => {}
        }
    }

    /// Forgets the task of an operation.
    pub fn forget(&mut self, operation: OperationId) {
        self.0.remove(&operation);
    }

    /// Forgets all tasks: the next step begins.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether no operation has a task.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use dalsegno_core::FailureCode;

    use super::*;

    const ID: OperationId = OperationId::from_bytes([1; 16]);

    fn known() -> Tasks {
        let mut tasks = Tasks::default();
        tasks.note(ID, "t1".to_owned(), Timestamp::from_millis(7));
        tasks
    }

    #[test]
    fn a_task_outlives_its_question_and_no_other_attempt() {
        let failed = AttemptCause::Failed { code: FailureCode::Timeout, possibly_received: true };
        for (cause, goes_on) in [
            (AttemptCause::Answered, true),
            (AttemptCause::Queued, true),
            (AttemptCause::Recovered, false),
            (failed, false),
        ] {
            let mut tasks = known();
            tasks.attempted(ID, cause);
            assert_eq!(tasks.get(ID).is_some(), goes_on, "{cause:?}");
        }
    }

    #[test]
    fn a_task_in_doubt_is_not_asked_about_again() {
        let elicitation = Gate::Elicitation { requests: BTreeMap::new(), request_state: None };
        for (gate, goes_on) in [
            (elicitation, true),
            (Gate::Secret { name: "x".to_owned() }, true),
            (Gate::InDoubt { reason: "x".to_owned() }, false),
        ] {
            let mut tasks = known();
            tasks.gated(ID, &gate);
            assert_eq!(tasks.get(ID).is_some(), goes_on, "{gate:?}");
        }
    }
}
