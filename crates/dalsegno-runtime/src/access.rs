//! Access to tool servers by OAuth: tokens in the secret store, and consent.

use std::sync::Arc;

use async_trait::async_trait;
use dalsegno_core::Timestamp;
use dalsegno_mcp::{CLIENT_SECRET, Consent, Grant, OAuth, OAuthConfig, OAuthError, Tokens};
use dalsegno_net::{Client, Egress, Origin, Url};
use dalsegno_secrets::{Put, Secret, SecretName};
use dalsegno_workspace::{EnvValue, OAuthBinding, OAuthGrant};
use serde_json::Value;

use crate::clock::{Clock, SystemClock};
use crate::engine::Engine;
use crate::error::OpenError;
use crate::hidden::Hidden;
use crate::names::DEFAULT_TENANT;
use crate::oauth::Consented;
use crate::revealed::Revealed;
use crate::secret_source::SecretSource;

/// How a server is asked for access, as dalsegno.toml says.
pub(crate) fn access(
    server: &str,
    url: &Url,
    origin: &Origin,
    binding: &OAuthBinding,
    revealed: &Revealed,
) -> Result<OAuth, String> {
    let others = binding.authorization_servers.iter().map(|origin| origin.parse::<Origin>());
    let others = others.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    // The server and those whom the operator named, and nobody else whom the server points to.
    let client = Client::new(Egress::new(others.into_iter().chain([origin.clone()])));
    let name = secret_name(server);
    let tokens = Stored {
        key: name.parse().map_err(|error: dalsegno_secrets::NameError| error.to_string())?,
        name,
        source: Arc::clone(&revealed.source),
        hidden: Arc::clone(&revealed.hidden),
    };
    let secret = binding.client_secret.iter();
    let secret = secret.map(|secret| (CLIENT_SECRET.to_owned(), EnvValue::Secret(secret.clone())));
    let config = OAuthConfig {
        grant: match binding.grant {
            OAuthGrant::AuthorizationCode => Grant::Consent,
            OAuthGrant::ClientCredentials => Grant::ClientCredentials,
        },
        client_id: binding.client_id.clone(),
        client_metadata: binding.client_metadata.clone(),
        secrets: revealed.values(secret),
        scopes: binding.scopes.clone(),
        remedy: format!("run `dalsegno auth {server}`"),
        ..OAuthConfig::new(client, Arc::new(tokens))
    };
    Ok(OAuth::new(url.clone(), config))
}

/// The secret that a person must give before the server can be used, where one is missing.
pub(crate) async fn missing(oauth: &OAuth, server: &str) -> Option<String> {
    let is_given = oauth.grant() != Grant::Consent || oauth.is_given().await.unwrap_or(true);
    (!is_given).then(|| secret_name(server))
}

/// The name under which the tokens of a server are kept. A server's name has no dot, so that no toolkit's has the same.
pub(crate) fn secret_name(server: &str) -> String {
    format!("oauth.{server}")
}

/// Tokens in the secret store, scrubbed from whatever is recorded.
struct Stored {
    name: String,
    key: SecretName,
    source: Arc<SecretSource>,
    hidden: Arc<Hidden>,
}

impl Stored {
    /// Has every secret in it scrubbed from now on.
    fn hide(&self, tokens: &str) {
        let tokens: Value = serde_json::from_str(tokens).unwrap_or_default();
        let answer = &tokens["credentials"]["token_response"];
        let secrets = [
            ("access", &answer["access_token"]),
            ("refresh", &answer["refresh_token"]),
            ("identity", &answer["id_token"]),
            ("client", &tokens["client_secret"]),
        ];
        for (what, secret) in secrets {
            if let Some(secret) = secret.as_str() {
                self.hidden.hide(&format!("{}:{what}", self.name), Secret::new(secret));
            }
        }
    }
}

#[async_trait]
impl Tokens for Stored {
    async fn load(&self) -> Result<Option<String>, String> {
        let store = self.source.store().await.map_err(|error| error.to_string())?;
        let Some(store) = store else { return Ok(None) };
        let now = SystemClock.now().as_millis();
        let stored = store.get(self.source.tenant(), &self.key, now).await;
        let stored = stored.map_err(|error| error.to_string())?;
        Ok(stored.map(|stored| {
            self.hide(stored.value.expose());
            stored.value.expose().to_owned()
        }))
    }

    async fn save(&self, tokens: &str) -> Result<(), String> {
        self.hide(tokens);
        let store = self.source.make().await.map_err(|error| error.to_string())?;
        let put = Put::new(Secret::new(tokens), SystemClock.now().as_millis());
        let put = store.put(self.source.tenant(), &self.key, put).await;
        put.map(drop).map_err(|error| error.to_string())
    }

    async fn remove(&self) -> Result<(), String> {
        let store = self.source.store().await.map_err(|error| error.to_string())?;
        let Some(store) = store else { return Ok(()) };
        store.remove(self.source.tenant(), &self.key).await.map(drop).map_err(|error| error.to_string())
    }
}

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
        let opened = self.bindings().server(server).await.map_err(opening)?;
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
        let opened = self.bindings().server(server).await.map_err(opening)?;
        let oauth =
            opened.oauth().ok_or_else(|| ServerAccessError::NotNeeded { server: server.to_owned() })?;
        let forgotten = oauth.forget().await;
        forgotten.map_err(|source| ServerAccessError::Access { server: server.to_owned(), source })
    }
}
