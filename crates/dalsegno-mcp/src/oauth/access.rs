//! A token for a request: the one that is kept while it is good, else the next one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::transport::AuthorizationManager;
use rmcp::transport::auth::{AuthError, AuthorizationMetadata, ClientCredentialsConfig, OAuthClientConfig};

use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::bundle::{Bundle, Keeper};
use super::error::excerpt;
use super::wire::Wire;
use super::{Grant, Inner, OAuth, OAuthError};

impl OAuth {
    /// The token to send; none where nobody has consented yet. The server may take requests without one, and says what it
    /// wants where it does not.
    pub(crate) async fn token(&self) -> Result<Option<String>, OAuthError> {
        match self.inner.bundle().await? {
            Some(bundle) if bundle.is_fresh() => Ok(bundle.access_token()),
            // What the server wanted is kept, and no token.
            Some(bundle) if bundle.access_token().is_none() => Ok(None),
            Some(bundle) => self.renew(bundle.access_token(), false).await.map(Some),
            None if self.inner.config.grant == Grant::ClientCredentials => {
                self.renew(None, false).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// Another token in the place of one that the server did not take.
    pub(crate) async fn refused(&self, sent: Option<String>, challenge: &str) -> Result<String, OAuthError> {
        self.inner.note_challenge(challenge);
        if sent.is_none() && self.inner.config.grant == Grant::Consent {
            return Err(self.inner.missing("no person has consented to the access yet"));
        }
        self.renew(sent, true).await
    }

    /// Notes what the server wants beyond what was consented to, and says so.
    pub(crate) async fn wants(&self, scope: Option<&str>) -> OAuthError {
        let inner = &self.inner;
        let shown = excerpt(scope.unwrap_or_default());
        let wanted: Vec<String> =
            scope.unwrap_or_default().split_whitespace().take(SCOPES_MAX).map(str::to_owned).collect();
        if inner.config.grant == Grant::ClientCredentials || !inner.config.scopes.is_empty() {
            return OAuthError::Refused(format!(
                "the server wants the scope `{shown}`, which is not among the `scopes` of its configuration"
            ));
        }
        let _turn = inner.turn.lock().await;
        let kept = async {
            if let Some(mut bundle) = inner.bundle().await? {
                bundle.wanted = wanted;
                inner.config.tokens.save(&bundle.write()).await.map_err(OAuthError::Store)?;
            }
            Ok(())
        };
        match kept.await {
            Ok(()) => inner
                .missing(&format!("the server wants the scope `{shown}`, to which no person has consented")),
            Err(error) => error,
        }
    }

    async fn renew(&self, stale: Option<String>, is_refused: bool) -> Result<String, OAuthError> {
        let inner = Arc::clone(&self.inner);
        // A caller that goes away must not take new tokens along that are not kept yet.
        let renewing = tokio::spawn(async move { inner.renew(stale.as_deref(), is_refused).await });
        renewing.await.unwrap_or_else(|error| Err(OAuthError::Unanswered(error.to_string())))
    }
}

impl Inner {
    /// Gets another token than `stale`. Whoever waited for his turn takes what the one before him got.
    async fn renew(&self, stale: Option<&str>, is_refused: bool) -> Result<String, OAuthError> {
        let mut renewed = self.turn.lock().await;
        let bundle = self.bundle().await?;
        if let Some(token) = bundle.as_ref().and_then(|bundle| other(bundle, stale)) {
            return Ok(token);
        }
        if is_refused {
            let now = Instant::now();
            renewed.retain(|then| now.duration_since(*then) < MINUTE);
            if renewed.len() >= REFUSALS_PER_MINUTE {
                let message = "the server refuses every token; try again in a minute";
                return Err(OAuthError::Refused(message.to_owned()));
            }
            renewed.push(now);
        }
        match (self.config.grant, bundle) {
            (Grant::ClientCredentials, _) => self.ask().await?,
            (Grant::Consent, Some(bundle)) if bundle.can_refresh() => self.refresh(&bundle, stale).await?,
            (Grant::Consent, Some(_)) => return Err(self.ended("the access has ended").await),
            (Grant::Consent, None) => return Err(self.missing("no person has consented to the access yet")),
        }
        let bundle = self.bundle().await?;
        let token = bundle.and_then(|bundle| bundle.access_token());
        token.ok_or_else(|| OAuthError::Store("the new tokens are not where they were kept".to_owned()))
    }

    /// Gets tokens with the refresh token. They are kept when this returns.
    async fn refresh(&self, bundle: &Bundle, stale: Option<&str>) -> Result<(), OAuthError> {
        let wire = Arc::new(Wire::new(self.config.client.clone()));
        let keeper = self.keeper();
        let (mut manager, _) = self.manager(&wire, &keeper, self.challenge().as_deref()).await?;
        let failed = |error: AuthError| OAuthError::of(&error, &wire);
        // Looks whether the server still names the authorization server that the tokens are from.
        if !manager.initialize_from_store().await.map_err(failed)? {
            return Err(self.missing("the server has moved to another authorization server"));
        }
        let secret = match &bundle.client_secret {
            Some(secret) => Some(secret.clone()),
            None => self.client_secret().await?,
        };
        keeper.note_client_secret(bundle.client_secret.clone());
        if let Some(secret) = secret {
            let client = OAuthClientConfig::new(&bundle.credentials.client_id, self.url.as_str());
            manager.configure_client(client.with_client_secret(secret)).map_err(failed)?;
        }
        match manager.refresh_token().await {
            Ok(_) => Ok(()),
            Err(AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired) => {
                // Another process may have used the refresh token, which is good for a single use then, and be about to
                // keep what it got.
                for _ in 0..LOOKS {
                    let bundle = self.bundle().await?;
                    if bundle.is_some_and(|bundle| other(&bundle, stale).is_some()) {
                        return Ok(());
                    }
                    tokio::time::sleep(LOOK).await;
                }
                Err(self.ended("the access has ended: the authorization server no longer accepts it").await)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Forgets tokens that are worth nothing any more, and says so.
    async fn ended(&self, reason: &str) -> OAuthError {
        match self.config.tokens.remove().await {
            Ok(()) => self.missing(reason),
            Err(message) => OAuthError::Store(message),
        }
    }

    /// Gets tokens with the client's own id and secret.
    async fn ask(&self) -> Result<(), OAuthError> {
        let wire = Arc::new(Wire::new(self.config.client.clone()));
        let (mut manager, _) = self.manager(&wire, &self.keeper(), self.challenge().as_deref()).await?;
        let failed = |error: AuthError| OAuthError::of(&error, &wire);
        let missing = |what: &str| OAuthError::Store(format!("`client_credentials` needs a `{what}`"));
        let client_id = self.config.client_id.clone().ok_or_else(|| missing("client_id"))?;
        let client_secret = self.client_secret().await?.ok_or_else(|| missing("client_secret"))?;
        let scopes = match self.config.scopes.is_empty() {
            true => manager.select_initial_scopes(&[]).await,
            false => self.config.scopes.clone(),
        };
        let resource = Some(self.url.to_string());
        let client = ClientCredentialsConfig::ClientSecret { client_id, client_secret, scopes, resource };
        manager.validate_client_credentials_metadata(&client).map_err(failed)?;
        manager.configure_client_credentials(&client).map_err(failed)?;
        // The SDK logs what came.
        let asked = manager.exchange_client_credentials(&client).with_subscriber(NoSubscriber::new());
        asked.await.map_err(failed)?;
        Ok(())
    }

    /// The SDK's manager, with what the server and its authorization server say of themselves.
    pub(super) async fn manager(
        &self,
        wire: &Arc<Wire>,
        keeper: &Keeper,
        challenge: Option<&str>,
    ) -> Result<(AuthorizationManager, AuthorizationMetadata), OAuthError> {
        let failed = |error: AuthError| OAuthError::of(&error, wire);
        let way = Arc::clone(wire);
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(self.url.clone(), way).await.map_err(failed)?;
        manager.set_credential_store(keeper.clone());
        let found = manager.resolve_metadata_from_challenge(challenge).await.map_err(failed)?;
        if !found.source.is_discovered() {
            return Err(match wire.denied() {
                Some(denied) => OAuthError::denied(&denied),
                None => OAuthError::Unusable("it does not say who its authorization server is".to_owned()),
            });
        }
        manager.set_metadata(found.metadata.clone());
        Ok((manager, found.metadata))
    }

    /// The secret of the client from the configuration.
    pub(super) async fn client_secret(&self) -> Result<Option<String>, OAuthError> {
        let Some(secret) = &self.config.client_secret else { return Ok(None) };
        let secret = secret
            .reveal()
            .await
            .map_err(|error| OAuthError::Store(format!("the client's secret cannot be read: {error}")))?;
        Ok(Some(secret.expose().to_owned()))
    }
}

/// The token that is kept, if it is good and another one than `stale`.
fn other(bundle: &Bundle, stale: Option<&str>) -> Option<String> {
    let token = bundle.access_token()?;
    (bundle.is_fresh() && stale != Some(token.as_str())).then_some(token)
}

/// How often, and how long apart, it is looked whether another process keeps new tokens.
const LOOKS: u32 = 10;
const LOOK: Duration = Duration::from_millis(200);

/// More scopes than these nobody asks for at once.
const SCOPES_MAX: usize = 100;

/// How many tokens are had in a minute because the server refused the one before: a server that refuses all of them must not
/// have its authorization server asked with each call.
const REFUSALS_PER_MINUTE: usize = 5;

const MINUTE: Duration = Duration::from_secs(60);
