//! Consent: an address for a person's browser, and what comes back from there.

use std::sync::Arc;

use dalsegno_net::{Origin, Scheme};
use reqwest::Url;
use rmcp::transport::AuthorizationManager;
use rmcp::transport::auth::{AuthError, AuthorizationCallback, AuthorizationMetadata, OAuthClientConfig};
use serde_json::Value;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::bundle::Keeper;
use super::error::excerpt;
use super::wire::Wire;
use super::{Inner, OAuth, OAuthError};

/// A consent that was begun: a person opens its address, and the browser is sent back with an answer.
pub struct Consent {
    inner: Arc<Inner>,
    url: Url,
    manager: AuthorizationManager,
    wire: Arc<Wire>,
}

impl OAuth {
    /// Begins a consent. The authorization server sends the browser to `redirect_uri` afterwards, which is an address on
    /// this machine, such as `http://127.0.0.1:8765/callback`, whose port may be any that is free.
    ///
    /// # Errors
    ///
    /// When the server does not say who gives access, that one may not be reached, or does not take this client.
    pub async fn begin(&self, redirect_uri: &str) -> Result<Consent, OAuthError> {
        let inner = &self.inner;
        let wire = Arc::new(Wire::new(inner.config.client.clone()));
        let keeper = inner.keeper();
        let (mut manager, metadata) = inner.manager(&wire, &keeper, inner.challenge().as_deref()).await?;
        let failed = |error: AuthError| OAuthError::of(&error, &wire);

        let scopes = inner.scopes(&manager).await?;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        inner.identify(&mut manager, &metadata, &keeper, redirect_uri, &scopes).await?.map_err(failed)?;
        let url = manager.get_authorization_url(&scopes).await.map_err(failed)?;
        let url = openable(&url)?;
        Ok(Consent { inner: Arc::clone(inner), url, manager, wire })
    }
}

impl Consent {
    /// The address to open.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Whether an address to which a browser was sent answers this consent, and no other.
    pub fn is_answer(&self, redirected: &Url) -> bool {
        let state = |url: &Url| Some(url.query_pairs().find(|(key, _)| key == "state")?.1.into_owned());
        state(&self.url).is_some_and(|expected| state(redirected) == Some(expected))
    }

    /// Takes the address to which the browser was sent, gets tokens for the code in it, and keeps them.
    ///
    /// # Errors
    ///
    /// When the person or the authorization server said no, the answer is one to another consent or from another
    /// authorization server, or the tokens cannot be kept. The same consent can still be answered where the answer was
    /// not its own.
    pub async fn finish(&self, redirected: &Url) -> Result<Granted, OAuthError> {
        if !self.is_answer(redirected) {
            return Err(OAuthError::Refused("the answer belongs to another consent".to_owned()));
        }
        let said = |key: &str| Some(redirected.query_pairs().find(|(known, _)| known == key)?.1.into_owned());
        if let Some(error) = said("error") {
            let description =
                said("error_description").map(|words| format!(" ({words})")).unwrap_or_default();
            return Err(OAuthError::Refused(excerpt(&format!("{error}{description}"))));
        }
        let failed = |error: AuthError| OAuthError::of(&error, &self.wire);
        let answer = AuthorizationCallback::from_redirect_url(redirected.as_str()).map_err(failed)?;
        let exchanged = self.manager.exchange_code_for_token_with_issuer(
            &answer.code,
            &answer.csrf_token,
            answer.issuer.as_deref(),
        );
        // The SDK logs the code, and what came for it.
        exchanged.with_subscriber(NoSubscriber::new()).await.map_err(failed)?;
        let bundle = self.inner.bundle().await?;
        let bundle =
            bundle.ok_or_else(|| OAuthError::Store("the tokens are not where they were kept".to_owned()))?;
        let ends_at = bundle.ends_at();
        Ok(Granted { renews: bundle.can_refresh(), ends_at, scopes: bundle.credentials.granted_scopes })
    }
}

/// Access that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// What it is good for, as the authorization server says; what was asked for where it says nothing.
    pub scopes: Vec<String>,
    /// When it ends unless it is refreshed, in seconds since the epoch, where that is told.
    pub ends_at: Option<u64>,
    /// Whether it can be refreshed without a person.
    pub renews: bool,
}

impl std::fmt::Debug for Consent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Consent").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

impl Inner {
    /// What to ask for: what the configuration says, else what the server says that it needs, and what was consented to
    /// before.
    async fn scopes(&self, manager: &AuthorizationManager) -> Result<Vec<String>, OAuthError> {
        if !self.config.scopes.is_empty() {
            return Ok(self.config.scopes.clone());
        }
        let mut scopes = manager.select_initial_scopes(&[]).await;
        if let Some(bundle) = self.bundle().await? {
            for scope in bundle.credentials.granted_scopes.into_iter().chain(bundle.wanted) {
                if !scopes.contains(&scope) {
                    scopes.push(scope);
                }
            }
        }
        Ok(scopes)
    }

    /// Tells the manager who this client is: by the id that an operator gave it, by the address of a document, or by an id
    /// that the authorization server gives it now.
    async fn identify(
        &self,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        keeper: &Keeper,
        redirect_uri: &str,
        scopes: &[&str],
    ) -> Result<Result<(), AuthError>, OAuthError> {
        if let Some(client_id) = &self.config.client_id {
            let mut client = OAuthClientConfig::new(client_id, redirect_uri);
            client.client_secret = self.client_secret().await?;
            return Ok(manager.configure_client(client));
        }
        let takes_documents = metadata.additional_fields.get("client_id_metadata_document_supported");
        if let Some(document) = &self.config.client_metadata
            && takes_documents == Some(&Value::Bool(true))
        {
            return Ok(manager.configure_client(OAuthClientConfig::new(document, redirect_uri)));
        }
        if metadata.registration_endpoint.is_none() {
            return Err(OAuthError::Unusable(
                "its authorization server registers no clients by itself: register one there and set `client_id`"
                    .to_owned(),
            ));
        }
        Ok(manager.register_client(CLIENT_NAME, redirect_uri, scopes).await.map(|client| {
            keeper.note_client_secret(client.client_secret);
        }))
    }
}

/// What a browser may be sent to: an address over TLS, or on this machine.
fn openable(url: &str) -> Result<Url, OAuthError> {
    let unusable = || OAuthError::Unusable("the address for the browser is not one over TLS".to_owned());
    let url: Url = url.parse().map_err(|_| unusable())?;
    let origin = Origin::of(&url).map_err(|_| unusable())?;
    let is_here =
        origin.name() == Some("localhost") || origin.address().is_some_and(|address| address.is_loopback());
    if origin.scheme() == Scheme::Https || is_here { Ok(url) } else { Err(unusable()) }
}

/// What people see at the authorization server.
const CLIENT_NAME: &str = "Dalsegno";
