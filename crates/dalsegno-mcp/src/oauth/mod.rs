//! Access by OAuth 2.1 for servers behind an address.
//!
//! The protocol is the SDK's: metadata of the protected resource and of the authorization server, PKCE, the resource
//! indicator, registration, the check of the issuer. What is added here: every request goes to granted origins only,
//! tokens are kept by the caller, one refresh serves all calls that wait for it, and a server that publishes no
//! metadata gets no guesses.

mod access;
mod bundle;
mod consent;
mod error;
mod wire;

use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use dalsegno_net::Client;
use dalsegno_secrets::Reveal;
use reqwest::Url;
use tokio::sync::Mutex;

pub use consent::{Consent, Granted};
pub use error::OAuthError;

/// How a server is asked for access.
#[derive(Clone)]
pub struct OAuthConfig {
    /// The client, under rules that allow the server itself and its authorization server, and nobody else.
    pub client: Client,
    /// Where tokens are kept.
    pub tokens: Arc<dyn Tokens>,
    /// Who gives access.
    pub grant: Grant,
    /// What the authorization server knows this client by. Without it, the client registers itself where the
    /// authorization server takes that.
    pub client_id: Option<String>,
    /// The address of a document that describes this client, for authorization servers that take it for a `client_id`.
    pub client_metadata: Option<String>,
    /// The secret of the client, if it has one. Read whenever it is needed.
    pub client_secret: Option<Arc<dyn Reveal>>,
    /// What to ask for, exactly. Empty asks for what the server says that it needs.
    pub scopes: Vec<String>,
    /// What somebody must do where consent is missing, for messages, such as ``run `dalsegno auth crm` ``.
    pub remedy: String,
}

impl OAuthConfig {
    /// A client that registers itself, and asks a person for what the server says that it needs.
    pub fn new(client: Client, tokens: Arc<dyn Tokens>) -> Self {
        Self {
            client,
            tokens,
            grant: Grant::Consent,
            client_id: None,
            client_metadata: None,
            client_secret: None,
            scopes: Vec::new(),
            remedy: "a person must consent to the access".to_owned(),
        }
    }
}

/// Who gives access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grant {
    /// A person, in a browser: [`OAuth::begin`].
    #[default]
    Consent,
    /// The client itself, by its id and its secret.
    ClientCredentials,
}

/// Keeps what an authorization server gave, for one server. It is one text, secret as a whole.
#[async_trait]
pub trait Tokens: Send + Sync {
    /// What was kept last.
    ///
    /// # Errors
    ///
    /// Words that say why it cannot be read.
    async fn load(&self) -> Result<Option<String>, String>;

    /// Keeps this in the place of what was there.
    ///
    /// # Errors
    ///
    /// Words that say why it cannot be kept.
    async fn save(&self, tokens: &str) -> Result<(), String>;

    /// Forgets what is there, if anything.
    ///
    /// # Errors
    ///
    /// Words that say why it is still there.
    async fn remove(&self) -> Result<(), String>;
}

/// The access to one server. Clones share it: one refresh serves them all.
#[derive(Clone)]
pub struct OAuth {
    inner: Arc<Inner>,
}

struct Inner {
    /// The server, which is also the resource that tokens are for.
    url: Url,
    config: OAuthConfig,
    /// Held by who gets new tokens: when that was because the server refused one, in the last minute.
    turn: Mutex<Vec<Instant>>,
    /// What the server said when it refused a request last.
    challenge: StdMutex<Option<String>>,
}

impl OAuth {
    /// The access to the server at this address.
    pub fn new(url: Url, config: OAuthConfig) -> Self {
        let (turn, challenge) = (Mutex::default(), StdMutex::default());
        Self { inner: Arc::new(Inner { url, config, turn, challenge }) }
    }

    /// Who gives access.
    pub fn grant(&self) -> Grant {
        self.inner.config.grant
    }

    /// Whether it is the access to the server at this address.
    pub(crate) fn is_for(&self, url: &Url) -> bool {
        self.inner.url == *url
    }

    /// Whether tokens for this server are kept, still good or not.
    ///
    /// # Errors
    ///
    /// When what keeps them cannot be read.
    pub async fn is_given(&self) -> Result<bool, OAuthError> {
        Ok(self.inner.bundle().await?.is_some_and(|bundle| bundle.access_token().is_some()))
    }

    /// Forgets the tokens. The authorization server is not told.
    ///
    /// # Errors
    ///
    /// When they could not be removed.
    pub async fn forget(&self) -> Result<(), OAuthError> {
        self.inner.config.tokens.remove().await.map_err(OAuthError::Store)
    }
}

impl std::fmt::Debug for OAuth {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OAuth").field("grant", &self.inner.config.grant).finish_non_exhaustive()
    }
}

impl Inner {
    fn challenge(&self) -> Option<String> {
        self.challenge.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_challenge(&self, challenge: &str) {
        if challenge.len() <= CHALLENGE_BYTES_MAX {
            *self.challenge.lock().unwrap_or_else(PoisonError::into_inner) = Some(challenge.to_owned());
        }
    }

    fn missing(&self, reason: &str) -> OAuthError {
        OAuthError::Consent { reason: reason.to_owned(), remedy: self.config.remedy.clone() }
    }
}

/// A header that is longer is none of the protocol.
const CHALLENGE_BYTES_MAX: usize = 8 * 1024;
