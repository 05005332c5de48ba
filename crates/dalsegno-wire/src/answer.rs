//! An answer to what a run waits for, as clients send it.

#[cfg(feature = "openapi")]
use crate::schema;
use dalsegno_core::OperationId;
use dalsegno_runtime::Settlement;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An answer to one operation. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Answer {
    /// The operation that is answered; without it, the only one that waits.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::OperationId>))]
    pub operation: Option<OperationId>,
    /// What `waiting_for` named as `shown`: an approval has to name it, so that nothing else is agreed to.
    #[serde(default)]
    pub shown: Option<String>,
    /// The answer itself.
    pub answer: Given,
    /// The person on whose behalf the client answers; recorded beside the key.
    #[serde(default)]
    pub by: Option<String>,
}

/// What is answered: one of these forms.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Given {
    /// The call may be made, with these arguments in place of its own if there are any.
    Approve {
        /// The arguments.
        #[serde(default)]
        arguments: Option<Value>,
        /// Why.
        #[serde(default)]
        reason: Option<String>,
    },
    /// It may not; or the question is not answered.
    Deny {
        /// Why.
        #[serde(default)]
        reason: Option<String>,
    },
    /// The answer to a question.
    Value(Value),
    /// In doubt: it took place, with this result if it is known.
    Happened {
        /// What it returned.
        #[serde(default)]
        result: Option<Value>,
    },
    /// In doubt: it arrived and was refused.
    Refused {
        /// What the receiver said.
        error: String,
    },
    /// In doubt: it did not take place, and starts again.
    NotHappened {},
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Given {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        schema::given()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Given {
    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        schemas.extend(schema::forms());
    }
}

impl Given {
    /// Says whether it agrees to a call.
    pub fn is_approval(&self) -> bool {
        matches!(self, Self::Approve { .. })
    }
}

impl From<Given> for Settlement {
    fn from(given: Given) -> Self {
        match given {
            Given::Approve { arguments, reason } => Self::Approve { edited: arguments, reason },
            Given::Deny { reason } => Self::Deny { reason },
            Given::Value(value) => Self::Give { value },
            Given::Happened { result } => Self::Done { result },
            Given::Refused { error } => Self::Refused { error },
            Given::NotHappened {} => Self::NotDone,
        }
    }
}

/// What came of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Answered {
    /// It is in the journal.
    Recorded,
    /// Another process performs the run: it has the answer in its inbox, and records it.
    PassedOn,
}
