//! What the provider's errors mean.

use crate::taken::Error;

/// What follows from an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A response is active: ours has to wait for its end.
    Busy,
    /// There was nothing to cancel.
    NothingToCancel,
    /// The session has it already.
    Known,
    /// No session of this key or this model will go better.
    Fatal,
    /// What was asked for is refused.
    Refused,
}

/// Said of a model of the workspace that plays the live model, once all its attempts have failed.
pub(crate) const OWN_MODEL_FAILED: &str = "model_failed";

/// Codes after which no further attempt helps: a key, money, a model.
const FATAL: [&str; 13] = [
    "account_deactivated",
    "authentication_error",
    "beta_api_shape_disabled",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_quota",
    "invalid_api_key",
    "invalid_model",
    OWN_MODEL_FAILED,
    "model_not_found",
    "permission_error",
    "unsupported_country_region_territory",
    "user_suspended",
];

impl Meaning {
    pub(crate) fn of(error: &Error) -> Self {
        let code = error.code.as_deref().unwrap_or_default();
        let kind = error.kind.as_deref().unwrap_or_default();
        let message = error.message.as_deref().unwrap_or_default();
        match code {
            "conversation_already_has_active_response" => Self::Busy,
            "response_cancel_not_active" => Self::NothingToCancel,
            _ if FATAL.contains(&code) || FATAL.contains(&kind) => Self::Fatal,
            // No document names the code for an item whose id is known.
            _ if code.contains("already_exists") || code.contains("duplicate") => Self::Known,
            _ if message.contains("already exists") => Self::Known,
            _ if message.contains("active response in progress") => Self::Busy,
            _ => Self::Refused,
        }
    }
}
