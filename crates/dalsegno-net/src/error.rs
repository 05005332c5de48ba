//! What can go wrong between a request and its answer.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::address::AddressKind;
use crate::builder::SetupError;
use crate::origin::InvalidOrigin;

/// A request that the rules do not allow. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{origin}` may not be reached: {reason}")]
pub struct EgressDenied {
    /// Scheme, host and port.
    pub origin: String,
    /// Why not.
    pub reason: DenialReason,
}

impl EgressDenied {
    /// The denial among the causes of another library's error, such as one of [`Client::pinned`](crate::Client::pinned).
    pub fn among_causes<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(EgressError::Denied(denied)) = error.downcast_ref::<EgressError>() {
                return Some(denied);
            }
            cause = error.source();
        }
        None
    }
}

/// Why the rules do not allow a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DenialReason {
    /// It is not among the grants.
    NotGranted {
        /// What is granted.
        granted: Vec<String>,
    },
    /// The name resolves to an address outside of the public network, and that address was not granted.
    Address {
        /// The address.
        address: IpAddr,
        /// What it is.
        kind: AddressKind,
    },
    /// A receiver over TLS sent the request on to one in the clear.
    Downgrade,
    /// It names nobody who could be reached.
    Invalid(&'static str),
}

impl fmt::Display for DenialReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGranted { granted } if granted.is_empty() => {
                formatter.write_str("no network is granted")
            }
            Self::NotGranted { granted } => {
                write!(formatter, "granted are only {}", Quoted(granted))
            }
            Self::Address { address, kind } => {
                write!(formatter, "it leads to {address}, {kind}, which is not granted by itself")
            }
            Self::Downgrade => formatter.write_str("it is a redirect from `https` to `http`"),
            Self::Invalid(reason) => formatter.write_str(reason),
        }
    }
}

struct Quoted<'a>(&'a [String]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.0.iter().enumerate() {
            write!(formatter, "{}`{word}`", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl From<InvalidOrigin> for EgressDenied {
    fn from(invalid: InvalidOrigin) -> Self {
        Self { origin: invalid.shown, reason: DenialReason::Invalid(invalid.reason) }
    }
}

/// Why there is no address to dial. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// The rules do not allow it.
    #[error(transparent)]
    Denied(#[from] EgressDenied),
    /// The name has no address, or nobody could be asked in time.
    #[error("cannot resolve the host name `{name}`: {message}")]
    Unresolved {
        /// The name.
        name: String,
        /// What the resolver said.
        message: String,
    },
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// The rules do not allow it.
    #[error(transparent)]
    Denied(#[from] EgressDenied),
    /// No connection came to stand.
    #[error("cannot reach `{url}`: {message}")]
    Unreachable {
        /// Who was to be reached.
        url: String,
        /// What happened.
        message: String,
    },
    /// The connection broke after the request was begun.
    #[error("`{url}` did not answer the request: {message}")]
    Broken {
        /// Who was asked.
        url: String,
        /// What happened.
        message: String,
    },
    /// No answer came in time.
    #[error("`{url}` did not answer within {} ms", after.as_millis())]
    Timeout {
        /// Who was asked.
        url: String,
        /// How long it was waited for.
        after: Duration,
        /// Whether the request can have been sent.
        sent: bool,
    },
    /// The answer is longer than it may be.
    #[error("the answer of `{url}` is too large, expected at most {limit} bytes")]
    TooLarge {
        /// Who answered.
        url: String,
        /// The most that is read.
        limit: u64,
    },
    /// The receiver sends the request from one place to the next.
    #[error("too many redirects: at most {limit} are followed, and `{url}` would be the next")]
    Redirects {
        /// Where the last one led.
        url: String,
        /// How many are followed.
        limit: u32,
    },
    /// A redirect that leads nowhere.
    #[error("`{url}` answered with a redirect to an address that is not valid")]
    Location {
        /// Who answered.
        url: String,
    },
    /// A redirect that would carry a body to another origin than the one that it was written for.
    #[error(
        "`{url}` redirects the body of the request to `{to}`, which is another origin: send it there directly"
    )]
    BodyElsewhere {
        /// Who answered.
        url: String,
        /// Where it would go.
        to: String,
    },
    /// A redirect was followed, and what it led to failed.
    #[error("after a redirect: {source}")]
    Redirected {
        /// What failed.
        source: Box<Self>,
    },
    /// The client could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl NetError {
    /// Whether the request may have reached somebody who acts upon it.
    ///
    /// After a redirect it always may: a receiver can act and then say where the result is found.
    pub fn is_possibly_received(&self) -> bool {
        match self {
            Self::Denied(_) | Self::Unreachable { .. } | Self::Setup(_) => false,
            Self::Timeout { sent, .. } => *sent,
            Self::Broken { .. }
            | Self::TooLarge { .. }
            | Self::Redirects { .. }
            | Self::Location { .. }
            | Self::BodyElsewhere { .. }
            | Self::Redirected { .. } => true,
        }
    }

    /// The denial, where the rules did not allow the request or a redirect of it.
    pub fn denied(&self) -> Option<&EgressDenied> {
        match self {
            Self::Denied(denied) => Some(denied),
            Self::Redirected { source } => source.denied(),
            Self::Unreachable { .. }
            | Self::Setup(_)
            | Self::Timeout { .. }
            | Self::Broken { .. }
            | Self::TooLarge { .. }
            | Self::Redirects { .. }
            | Self::Location { .. }
            | Self::BodyElsewhere { .. } => None,
        }
    }
}

impl From<InvalidOrigin> for NetError {
    fn from(invalid: InvalidOrigin) -> Self {
        Self::Denied(invalid.into())
    }
}
