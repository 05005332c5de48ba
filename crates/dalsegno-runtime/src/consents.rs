//! The consent of a person: to the use of a tool server, and of a toolkit.

use dalsegno_core::{AgentName, Timestamp};
use dalsegno_mcp::{Consent, Grant, OAuthError};
use dalsegno_net::Url;

use crate::effects::access::secret_name;
use crate::effects::oauth::{Consent as ToolkitConsent, ConsentError, Consented};
use crate::engine::Engine;
use crate::error::OpenError;
use crate::names::DEFAULT_TENANT;

/// Why access to a tool server could not be given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerAccessError {
    /// The server cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Nobody has to consent to the use of the server.
    #[error(
        "tool server `{server}` has no OAuth settings, so there is nothing to consent to: if it uses OAuth, add `[servers.{server}.oauth]` to dalsegno.toml"
    )]
    NotNeeded {
        /// The server.
        server: String,
    },
    /// The client gets access by itself.
    #[error(
        "tool server `{server}` has the grant `client_credentials`, which needs no person's consent: run the agent"
    )]
    ByItself {
        /// The server.
        server: String,
    },
    /// The server, its authorization server or the person said no, or one of them cannot be used.
    #[error("tool server `{server}`: {source}")]
    Access {
        /// The server.
        server: String,
        /// Why.
        source: OAuthError,
    },
}

/// The consent to the use of a tool server, which was begun: a person opens its address.
#[derive(Debug)]
pub struct ServerConsent {
    server: String,
    consent: Consent,
}

impl ServerConsent {
    /// The address for the person's browser.
    pub fn url(&self) -> &Url {
        self.consent.url()
    }

    /// Whether an address to which a browser was sent answers this consent, and no other.
    pub fn is_answer(&self, redirected: &Url) -> bool {
        self.consent.is_answer(redirected)
    }

    /// Takes the address to which the browser was sent, and keeps the tokens that it brings.
    ///
    /// # Errors
    /// When somebody said no, or the tokens cannot be had or kept.
    pub async fn finish(&self, redirected: &Url) -> Result<Consented, ServerAccessError> {
        let failed = |source| ServerAccessError::Access { server: self.server.clone(), source };
        let granted = self.consent.finish(redirected).await.map_err(failed)?;
        Ok(Consented {
            name: secret_name(&self.server),
            scopes: granted.scopes,
            expires_at: granted.ends_at.map(|end| Timestamp::from_millis(end.saturating_mul(1_000))),
            renews: granted.renews,
        })
    }
}

/// A program has nothing to consent to, whether it may be started or not.
fn opening(error: OpenError) -> ServerAccessError {
    match error {
        OpenError::Program { server } => ServerAccessError::NotNeeded { server },
        error => ServerAccessError::Open(error),
    }
}

impl Engine {
    /// Begins the consent to the use of a tool server. `redirect_uri` is where this process listens, on this machine.
    ///
    /// # Errors
    /// When the server needs no consent, cannot be reached, or does not say who gives access.
    pub async fn begin_server_access(
        &self,
        server: &str,
        redirect_uri: &str,
    ) -> Result<ServerConsent, ServerAccessError> {
        let opened = self.ports().bindings.server(server).await.map_err(opening)?;
        let name = || server.to_owned();
        let oauth = opened.oauth().ok_or_else(|| ServerAccessError::NotNeeded { server: name() })?;
        if oauth.grant() == Grant::ClientCredentials {
            return Err(ServerAccessError::ByItself { server: name() });
        }
        // A server says what it wants when it refuses a request, and some say it nowhere else.
        if let Err(error) = opened.catalogue(DEFAULT_TENANT).await {
            tracing::debug!(server, %error, "asked before the consent");
        }
        let begun = oauth.begin(redirect_uri).await;
        let consent = begun.map_err(|source| ServerAccessError::Access { server: name(), source })?;
        Ok(ServerConsent { server: name(), consent })
    }

    /// Forgets the tokens of a tool server. Its authorization server is not told.
    ///
    /// # Errors
    /// When the server wants no OAuth, or the tokens could not be removed.
    pub async fn forget_server_access(&self, server: &str) -> Result<(), ServerAccessError> {
        let opened = self.ports().bindings.server(server).await.map_err(opening)?;
        let oauth =
            opened.oauth().ok_or_else(|| ServerAccessError::NotNeeded { server: server.to_owned() })?;
        let forgotten = oauth.forget().await;
        forgotten.map_err(|source| ServerAccessError::Access { server: server.to_owned(), source })
    }

    /// Asks for access to a toolkit whose `auth` is `oauth2`: for all agents of a tenant, or for the one that has an access of its own
    /// (`[tools.TOOLKIT.agents.AGENT] own_access` of the tenant's file). `redirect` is where the browser comes back to.
    ///
    /// # Errors
    /// When there is no such toolkit or tenant, the tenant may not reach the authorization server, or the client's id is
    /// not known.
    pub async fn ask_consent(
        &self,
        toolkit: &str,
        tenant: &str,
        agent: Option<&AgentName>,
        redirect: &Url,
    ) -> Result<ToolkitConsent, ConsentError> {
        self.ports().ask_consent(toolkit, tenant, agent, redirect).await
    }

    /// Takes the address that the browser was sent to, gets tokens for it and keeps them.
    ///
    /// # Errors
    /// When the address answers another question or says no, there are no tokens, or they cannot be kept.
    pub async fn take_consent(
        &self,
        consent: ToolkitConsent,
        answered: &Url,
    ) -> Result<Consented, ConsentError> {
        self.ports().take_consent(consent, answered).await
    }
}
