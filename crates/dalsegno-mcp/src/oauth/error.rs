//! Why there is no access.

use dalsegno_net::{EgressDenied, error_chain};
use dalsegno_protocol::{CallErrorKind, Failure, printable};
use rmcp::transport::AuthError;

use super::wire::Wire;

/// Why there is no access to a server. Never holds a token or a secret.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// Somebody must consent, for the first time or again.
    #[error("{reason}: {remedy}")]
    Consent {
        /// Why.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// The authorization server, or what it points to, may not be reached.
    #[error("{message}; allow `{origin}` as an authorization server if you trust it")]
    Denied {
        /// Who may not be reached.
        origin: String,
        /// By which rule.
        message: String,
    },
    /// The authorization server, or the person, said no.
    #[error("access was refused: {0}")]
    Refused(String),
    /// What the server or its authorization server says of itself cannot be used.
    #[error("cannot use the authorization settings of the server: {0}")]
    Unusable(String),
    /// Nobody answered, or not in a way that says no. It may be otherwise later.
    #[error("the authorization server did not answer: {0}")]
    Unanswered(String),
    /// The tokens, or a secret of the client, cannot be read or kept.
    #[error("{0}")]
    Store(String),
}

impl OAuthError {
    /// What it means for a call.
    pub(crate) fn failure(&self) -> Failure {
        let kind = match self {
            Self::Consent { .. } | Self::Refused(_) => CallErrorKind::Unauthorized,
            Self::Denied { .. } => CallErrorKind::Denied,
            Self::Unusable(_) | Self::Unanswered(_) | Self::Store(_) => CallErrorKind::Start,
        };
        Failure::new(kind, self.to_string())
    }

    /// What an error of the SDK means. Where the way there was denied, the SDK's own words hide it.
    pub(super) fn of(error: &AuthError, wire: &Wire) -> Self {
        if let Some(denied) = wire.denied() {
            return Self::denied(&denied);
        }
        let words = excerpt(&error_chain(error));
        match error {
            AuthError::CredentialStoreError(message) => Self::Store(message.clone()),
            AuthError::DiscoveryRequestFailed { .. }
            | AuthError::TokenRefreshFailed(_)
            | AuthError::HttpError(_) => Self::Unanswered(wire.trouble().unwrap_or(words)),
            AuthError::AuthorizationFailed(_)
            | AuthError::TokenExchangeFailed(_)
            | AuthError::TokenRefreshRejected(_)
            | AuthError::AuthorizationServerMismatch { .. }
            | AuthError::AuthorizationServerMissingIssuer { .. }
            | AuthError::ClientCredentialsError(_)
            | AuthError::RegistrationFailed(_) => match wire.trouble() {
                Some(trouble) => Self::Unanswered(trouble),
                None => Self::Refused(words),
            },
            _ => Self::Unusable(words),
        }
    }

    pub(super) fn denied(denied: &EgressDenied) -> Self {
        Self::Denied { origin: denied.origin.clone(), message: denied.to_string() }
    }
}

/// What another party wrote, in bounds.
pub(super) fn excerpt(text: &str) -> String {
    let text = printable(text).replace('\n', " ");
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Enough for what an authorization server says, and too little for a page of it.
const SHOWN_CHARS: usize = 400;
