//! What people answer.

use dalsegno_workspace::{CaseAnswer, Says};
use serde_json::Value;

/// What a person answers, once. Each is about a tool by its name, or about words of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Person {
    to: String,
    says: Says,
}

impl Person {
    fn new(to: &str, says: Says) -> Self {
        Self { to: to.to_owned(), says }
    }

    /// Agrees to a call.
    pub fn approves(tool: &str) -> Self {
        Self::new(tool, Says::Approve)
    }

    /// Refuses a call, for this reason.
    pub fn denies(tool: &str, reason: &str) -> Self {
        Self::new(tool, Says::Deny(reason.to_owned()))
    }

    /// Agrees to a call with these arguments instead.
    pub fn edits(tool: &str, arguments: Value) -> Self {
        Self::new(tool, Says::Edit(arguments))
    }

    /// Answers a question that has these words.
    pub fn gives(question: &str, value: Value) -> Self {
        Self::new(question, Says::Give(value))
    }

    /// Says of a call in doubt that it took place, with this result.
    pub fn did(tool: &str, result: Value) -> Self {
        Self::new(tool, Says::Done(result))
    }

    /// Says of a call in doubt that it did not take place.
    pub fn did_not(tool: &str) -> Self {
        Self::new(tool, Says::NotDone)
    }

    pub(crate) fn answer(&self, number: usize) -> CaseAnswer {
        CaseAnswer { to: Some(self.to.clone()), says: self.says.clone(), after_ms: 0, span: number..number }
    }
}
