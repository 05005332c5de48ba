//! What a person is asked: for access to a toolkit, or to a tool server.

use dalsegno_runtime::{Consent, Consented, Engine, ServerConsent};
use url::Url;

use crate::args::AuthArgs;
use crate::error::Error;

/// A question to a person.
pub(super) enum Question {
    Toolkit(Box<Consent>),
    Server(Box<ServerConsent>),
}

impl Question {
    /// Finds out what has this name, and asks for access to it.
    pub(super) async fn ask(args: &AuthArgs, engine: &Engine, redirect: &Url) -> Result<Self, Error> {
        if engine.workspace().settings.servers.contains_key(&args.name) {
            let asked = engine.begin_server_access(&args.name, redirect.as_str()).await?;
            return Ok(Self::Server(Box::new(asked)));
        }
        let asked = engine.ask_consent(&args.name, &args.tenant, args.agent.as_ref(), redirect).await?;
        Ok(Self::Toolkit(Box::new(asked)))
    }

    /// The address that the person opens.
    pub(super) fn url(&self) -> &Url {
        match self {
            Self::Toolkit(consent) => consent.url(),
            Self::Server(consent) => consent.url(),
        }
    }

    /// Says whether an address answers this very question; words that say why it does not.
    pub(super) fn accepts(&self, answered: &Url) -> Result<(), String> {
        match self {
            Self::Toolkit(consent) => consent.accepts(answered).map_err(|error| error.to_string()),
            Self::Server(consent) if consent.is_answer(answered) => Ok(()),
            Self::Server(_) => Err("its `state` belongs to another question".to_owned()),
        }
    }

    /// Takes the answer, and keeps the access that it gives.
    pub(super) async fn take(self, engine: &Engine, answered: &Url) -> Result<Consented, Error> {
        match self {
            Self::Toolkit(consent) => Ok(engine.take_consent(*consent, answered).await?),
            Self::Server(consent) => Ok(consent.finish(answered).await?),
        }
    }
}
