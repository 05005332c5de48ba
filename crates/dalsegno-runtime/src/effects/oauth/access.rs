//! A token for a call: the one that is kept while it is good, else the next one.

use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::Received;
use dalsegno_core::{AgentName, FailureCode, Gate, Timestamp};
use dalsegno_secrets::{Expect, Put, Secret, SecretError, SecretName, SecretStore, Version};
use dalsegno_tools::OAuth2;

use super::client::{self, TokenError};
use super::grant::Grant;
use super::{SecretGiver, secret_name};
use crate::effects::failure::AttemptError;
use crate::effects::failure::certain;
use crate::effects::ports::Ports;

/// How long a process that refreshes is waited for: a little longer than the authorization server may take. After that
/// it is taken for dead.
const CLAIM_MS: u64 = 30_000;

/// How many tokens are had in a minute because the service refused the one before.
const REFUSALS_PER_MINUTE: usize = 5;

/// How often it is looked whether the other one is done.
const LOOK: Duration = Duration::from_millis(100);

/// One access of one tenant.
#[derive(Clone)]
struct Access {
    ports: Arc<Ports>,
    tenant: String,
    agent: Option<AgentName>,
    toolkit: String,
    oauth: OAuth2,
    name: String,
    /// The name as the store takes it.
    key: SecretName,
    store: Arc<dyn SecretStore>,
}

impl Ports {
    /// The access token of a toolkit for a tenant, refreshed where that is due. `refused` is one that the service did not
    /// take: another one is needed then, whatever is said of its end.
    ///
    /// # Errors
    /// When nobody has consented or the consent is worth nothing any more: a secret is missing then, which a person gives.
    pub(crate) async fn access_token(
        self: &Arc<Self>,
        oauth: &OAuth2,
        toolkit: &str,
        tenant: &str,
        agent: Option<&AgentName>,
        refused: Option<&Secret>,
    ) -> Result<Secret, AttemptError> {
        let workspace = self.workspace();
        let own = agent.filter(|agent| workspace.has_own_access(tenant, agent, toolkit));
        let name = secret_name(tenant, toolkit, own);
        let unreadable = |error: String| {
            certain(FailureCode::Unavailable, format!("the access to `{toolkit}` cannot be read: {error}"))
        };
        let key: SecretName = name.parse().map_err(|error| unreadable(format!("{error}")))?;
        let store = self.secret_source().store().await.map_err(|error| unreadable(error.to_string()))?;
        let Some(store) = store else { return Err(missing(&name, toolkit)) };
        let (tenant, toolkit) = (tenant.to_owned(), toolkit.to_owned());
        let (ports, oauth, agent) = (Arc::clone(self), oauth.clone(), agent.cloned());
        let access = Access { ports, tenant, agent, toolkit, oauth, name, key, store };
        let (grant, _) = access.read().await?;
        if grant.is_fresh(self.now()) && refused.is_none_or(|refused| refused.expose() != grant.access_token)
        {
            return Ok(grant.access());
        }
        let mut turn = self.refreshes.of(&access.name).lock_owned().await;
        // What another one got meanwhile is tried first.
        let (grant, _) = access.read().await?;
        let now = self.now();
        // A service that takes no token at all must not have a new one made by each call.
        turn.retain(|then| now.as_millis() < then.as_millis().saturating_add(60_000));
        let is_often = turn.len() >= REFUSALS_PER_MINUTE;
        let refused = refused.filter(|refused| !is_often && refused.expose() == grant.access_token).cloned();
        if refused.is_some() {
            turn.push(now);
        }
        // A refresh that has begun is finished, whoever stops waiting: its answer may hold the only token that is good.
        let refresh = tokio::spawn(async move {
            let token = access.refreshed(refused.as_ref()).await;
            drop(turn);
            token
        });
        refresh.await.map_err(|error| certain(FailureCode::Internal, error.to_string()))?
    }
}

impl Access {
    /// What is kept, and hidden from now on.
    async fn read(&self) -> Result<(Grant, Version), AttemptError> {
        let now = self.ports.now().as_millis();
        let owner = self.ports.secret_source().tenant();
        let stored = self.store.get(owner, &self.key, now).await.map_err(|error| self.storage(&error))?;
        let stored = stored.ok_or_else(|| self.missing())?;
        // What somebody else put there is no access.
        let grant = Grant::read(&stored.value).ok_or_else(|| self.missing())?;
        self.hide(&grant);
        Ok((grant, stored.version))
    }

    fn hide(&self, grant: &Grant) {
        let vault = self.ports.bindings.vault();
        vault.hide(&format!("{} access", self.name), &grant.access());
        if let Some(refresh) = &grant.refresh_token {
            vault.hide(&format!("{} refresh", self.name), &Secret::new(refresh));
        }
    }

    /// Writes if nobody else has written; says under which version.
    async fn replace(&self, put: Put) -> Result<Option<Version>, AttemptError> {
        match self.store.put(self.ports.secret_source().tenant(), &self.key, put).await {
            Ok(version) => Ok(Some(version)),
            Err(SecretError::Conflict { .. }) => Ok(None),
            Err(error) => Err(self.storage(&error)),
        }
    }

    fn put(&self, grant: &Grant, expect: Version) -> Put {
        let now = self.ports.now().as_millis();
        Put { expect: Expect::Newest(expect), ..Put::new(grant.write(), now) }
    }

    /// Gets a token that is good. Nobody else of this process is here for the same access.
    async fn refreshed(&self, refused: Option<&Secret>) -> Result<Secret, AttemptError> {
        let mut waited = Duration::ZERO;
        loop {
            let (grant, version) = self.read().await?;
            let now = self.ports.now();
            let is_refused = refused.is_some_and(|refused| refused.expose() == grant.access_token);
            let is_usable = !is_refused && grant.is_valid(now);
            if !is_refused && grant.is_fresh(now) {
                return Ok(grant.access());
            }
            // Another process is at it: a refresh token may be good for one use only.
            if grant.claimed(now).is_some() && waited < Duration::from_millis(CLAIM_MS) {
                if is_usable {
                    return Ok(grant.access());
                }
                tokio::time::sleep(LOOK).await;
                waited += LOOK;
                continue;
            }
            let Some(token) = grant.refresh_token.clone() else {
                if is_usable {
                    return Ok(grant.access());
                }
                self.withdraw(&grant, version, now).await?;
                return Err(self.missing());
            };
            let claim = Grant { claimed_until: Some(now.as_millis() + CLAIM_MS), ..grant.clone() };
            let Some(claimed) = self.replace(self.put(&claim, version)).await? else { continue };
            match self.next(token, &grant).await {
                Ok(next) => {
                    self.hide(&next);
                    // It is kept before it is used: the token before it may be worth nothing now.
                    if self.replace(self.put(&next, claimed)).await?.is_some() {
                        return Ok(next.access());
                    }
                }
                Err(Next::Refused) => {
                    if self.withdraw(&grant, claimed, self.ports.now()).await? {
                        return Err(self.missing());
                    }
                }
                Err(Next::Failed(error)) => {
                    // The next one may try at once. Where this does not work the claim ends by itself.
                    let _ = self.replace(self.put(&grant, claimed)).await;
                    if is_usable {
                        tracing::warn!(access = self.name, error = error.failure.message, "not refreshed");
                        return Ok(grant.access());
                    }
                    return Err(*error);
                }
            }
        }
    }

    /// Asks for the next tokens.
    async fn next(&self, token: String, before: &Grant) -> Result<Grant, Next> {
        let Self { ports, tenant, agent, toolkit, oauth, .. } = self;
        let failed = |code, message: String, transient| {
            let error = certain(code, format!("the access to `{toolkit}` cannot be refreshed: {message}"));
            Next::Failed(Box::new(AttemptError { transient, received: Received::No, ..error }))
        };
        let unavailable = |message: String| failed(FailureCode::Unavailable, message, false);
        let credentials = ports.credentials(oauth, toolkit, tenant, agent.as_ref()).await;
        let credentials = credentials.map_err(|error| unavailable(error.to_string()))?;
        let credentials = credentials.ok_or_else(|| {
            unavailable(format!("the tenant has no secret `{}` for it", oauth.client_id_secret))
        })?;
        let protocol =
            client::protocol(oauth, &credentials).map_err(|error| unavailable(error.to_string()))?;
        let net = ports.endpoints.client(&ports.workspace(), tenant);
        match client::refresh(&protocol, token, &net).await {
            Ok(response) => Ok(client::grant(&response, Some(before), &oauth.scopes, ports.now())),
            Err(TokenError::Refused(_)) => Err(Next::Refused),
            Err(TokenError::Denied(message)) => Err(failed(FailureCode::NotPermitted, message, false)),
            Err(error @ TokenError::Unanswered(_)) => {
                Err(failed(FailureCode::Unavailable, error.to_string(), true))
            }
            Err(error @ (TokenError::Client(_) | TokenError::Address(_))) => {
                Err(unavailable(error.to_string()))
            }
        }
    }

    /// Takes an access away that is worth nothing, unless somebody has written a new one. Says whether it was so.
    async fn withdraw(&self, grant: &Grant, version: Version, now: Timestamp) -> Result<bool, AttemptError> {
        // A version that has ended is given out to nobody, and whoever waits for the secret sees none.
        let put = Put { expires_at: Some(now.as_millis()), ..self.put(grant, version) };
        Ok(self.replace(put).await?.is_some())
    }

    fn missing(&self) -> AttemptError {
        missing(&self.name, &self.toolkit)
    }

    fn storage(&self, error: &SecretError) -> AttemptError {
        let message = format!("the access to `{}` cannot be kept: {error}", self.toolkit);
        certain(FailureCode::Unavailable, message)
    }
}

/// Why there are no next tokens.
enum Next {
    /// The consent is worth nothing any more.
    Refused,
    Failed(Box<AttemptError>),
}

fn missing(name: &str, toolkit: &str) -> AttemptError {
    let giver = SecretGiver::of(name);
    let message = format!("`{toolkit}` has no access, or its access was revoked: give it with `{giver}`");
    AttemptError {
        gate: Some(Gate::Secret { name: name.to_owned() }.into()),
        ..certain(FailureCode::Unavailable, message)
    }
}
