//! The errors of `dalsegno auth`.

use std::io;

use dalsegno_runtime::{ConsentError, ServerAccessError};

use super::{Error, ErrorClass};
use crate::exit::Exit;

/// Why no access was given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConsentTrouble {
    #[error(transparent)]
    Toolkit(Box<ConsentError>),
    #[error(transparent)]
    Server(Box<ServerAccessError>),
    #[error("cannot listen on port {port} for the login redirect")]
    Listen { port: u16, source: io::Error },
    #[error("no consent within {seconds} s")]
    TimedOut { seconds: u64 },
    #[error("the input ended before the address was pasted")]
    NothingPasted,
}

impl ConsentTrouble {
    pub(super) fn class(&self) -> ErrorClass {
        let bad_input = |code| ErrorClass::new(Exit::BadInput, code);
        let failed = |code| ErrorClass::new(Exit::Failed, code);
        match self {
            Self::Toolkit(error) => toolkit(error),
            Self::Server(error) => match **error {
                ServerAccessError::Access { .. } => failed("no_consent"),
                _ => bad_input("consent"),
            },
            Self::Listen { .. } => bad_input("port")
                .with_help("name a free port with `--port`, or paste the address with `--no-listen`"),
            Self::TimedOut { .. } => failed("no_consent")
                .with_help("start again; add `--no-listen` if the browser runs on another machine"),
            Self::NothingPasted => failed("no_consent").with_help("start again: each address works once"),
        }
    }
}

fn toolkit(error: &ConsentError) -> ErrorClass {
    let bad_input = |code| ErrorClass::new(Exit::BadInput, code);
    match error {
        ConsentError::Denied { .. } => ErrorClass::new(Exit::Failed, "no_consent"),
        ConsentError::NoTokens { .. } => ErrorClass::new(Exit::Failed, "no_tokens"),
        ConsentError::UnknownToolkit { known, .. } if known.is_empty() => bad_input("unknown_tool")
            .with_help("add one with `dalsegno tools add google_calendar`, or write it in `tools/*.json`"),
        ConsentError::UnknownToolkit { known, .. } => {
            bad_input("unknown_tool").with_help(format!("those that need consent: {}", known.join(", ")))
        }
        ConsentError::Foreign { .. } => {
            bad_input("consent").with_help("ask again with `dalsegno auth`: each question has one answer")
        }
        _ => bad_input("consent"),
    }
}

impl From<ConsentError> for Error {
    fn from(error: ConsentError) -> Self {
        match error {
            ConsentError::Secret(error) => Self::Secret(error),
            error => ConsentTrouble::Toolkit(Box::new(error)).into(),
        }
    }
}

impl From<ServerAccessError> for Error {
    fn from(error: ServerAccessError) -> Self {
        match error {
            ServerAccessError::Open(error) => Self::Open(error),
            error => ConsentTrouble::Server(Box::new(error)).into(),
        }
    }
}
