//! What the parts of declarative tools need besides themselves: whom a tenant may reach, and secrets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{AgentName, FailureCode, Gate, Outcome, Terms, ToolOwner};
use dalsegno_secrets::Secret;
use dalsegno_tools::{ApiCall, ApiResponse, Auth, Email, OAuth2, Path, Text, Toolkit};
use dalsegno_workspace::SecretRef;
use serde_json::Value;

use crate::effects::endpoint::{Exchange, references};
use crate::effects::failure::AttemptError;
use crate::effects::failure::certain;
use crate::effects::mail;
use crate::effects::ports::Ports;
use crate::request::{OF_REQUEST, REFERENCE};
use crate::secret_source::SecretUnavailable;

/// Where the secrets are that came with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfUser {
    /// In the secret store; what the caller said has a reference in their place.
    Kept,
    /// Where the caller put them: nothing is written down.
    Given,
}

/// A document that asks for something, and on whose behalf.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    /// The document.
    pub(crate) toolkit: Toolkit,
    /// Its owner. A document without one gets no secret.
    pub(crate) owner: Option<ToolOwner>,
    /// The agent that calls its tool, if one does: a tenant may have secrets for that agent alone.
    pub(crate) agent: Option<AgentName>,
    /// What the caller says of the user.
    pub(crate) user: Value,
    pub(crate) of_user: OfUser,
}

/// One attempt at a part of a declarative tool: on whose behalf, and on which terms.
pub(crate) struct Part<'a> {
    pub(crate) ports: &'a Arc<Ports>,
    pub(crate) tenant: &'a str,
    pub(crate) asker: &'a Asker,
    pub(crate) terms: &'a Terms,
    pub(crate) attempt: u32,
    pub(crate) operation: String,
}

impl Part<'_> {
    /// Calls an endpoint once. A token that it does not take is refreshed, and shown once more: a request without a token
    /// was not worked on.
    pub(crate) async fn call_endpoint(&self, call: &ApiCall) -> Result<Outcome, AttemptError> {
        let Self { ports, tenant, terms, attempt, .. } = *self;
        let mut secrets = BTreeMap::new();
        let mut token = None;
        for path in references(call) {
            let secret = self.secret(path).await?;
            secrets.insert(path.clone(), secret.expose().to_owned());
            if self.oauth(path).is_some() {
                token = Some((path, secret));
            }
        }
        let client = ports.endpoints.client(&ports.workspace(), tenant);
        let outcome = Exchange { call, terms, attempt, secrets: &secrets }.perform(&client).await?;
        let (Outcome::ApiAnswered(ApiResponse { status: 401, .. }), Some((path, refused))) =
            (&outcome, token)
        else {
            return Ok(outcome);
        };
        let Some((toolkit, oauth)) = self.oauth(path) else { return Ok(outcome) };
        let agent = self.asker.agent.as_ref();
        let next = ports.access_token(oauth, toolkit, tenant, agent, Some(&refused)).await?;
        secrets.insert(path.clone(), next.expose().to_owned());
        Exchange { call, terms, attempt, secrets: &secrets }.perform(&client).await
    }

    /// Sends a mail once.
    pub(crate) async fn send_mail(&self, mail: &Email) -> Result<Outcome, AttemptError> {
        let texts = mail.username.iter().chain(&mail.password);
        let references: Vec<&Path> = texts.flat_map(Text::secrets).map(|secret| &secret.path).collect();
        let mut secrets = BTreeMap::new();
        for path in references {
            secrets.insert(path.clone(), self.secret(path).await?.expose().to_owned());
        }
        let resolve = |text: &Text| {
            let resolved = text.resolve(|path| secrets.get(path).cloned());
            resolved.map_err(|error| certain(FailureCode::Unavailable, error.to_string()))
        };
        let login = match (&mail.username, &mail.password) {
            (Some(name), Some(password)) => Some((resolve(name)?, resolve(password)?)),
            (None, None) => None,
            // A run that began before this was looked at may ask for it.
            (Some(_), None) | (None, Some(_)) => {
                let message = "a login needs a name and a password, and the mail has one of them";
                return Err(certain(FailureCode::InvalidArguments, message.to_owned()));
            }
        };
        let client = self.ports.endpoints.client(&self.ports.workspace(), self.tenant);
        let timeout = Duration::from_millis(self.terms.timeout_ms);
        mail::send(mail, login, &self.operation, client.egress(), timeout).await
    }

    /// The secret that a part refers to, as of now; it is scrubbed from then on.
    async fn secret(&self, path: &Path) -> Result<Secret, AttemptError> {
        let Self { ports, tenant, asker, .. } = *self;
        let agent = asker.agent.as_ref();
        if let Some((toolkit, oauth)) = self.oauth(path) {
            return ports.access_token(oauth, toolkit, tenant, agent, None).await;
        }
        let written = path.to_string();
        let reference = match written.strip_prefix("secrets.") {
            Some(name) => {
                let toolkit = asker.toolkit.name();
                let found = asker.owner.as_ref().and_then(|owner| {
                    ports.workspace().toolkit_secret(tenant, owner, agent, toolkit, name).cloned()
                });
                found.ok_or_else(|| {
                    if asker.owner.is_none() {
                        let message = format!(
                            "the document `{toolkit}` is not in this workspace, so it gets no secret: put its file into `tools/`, or into `tenants/{tenant}/tools/`"
                        );
                        return certain(FailureCode::NotPermitted, message);
                    }
                    let message = format!(
                        "the tenant `{tenant}` has no secret `{name}` for `{toolkit}`: add it to `[tools.{toolkit}.secrets]` of tenants/{tenant}.toml"
                    );
                    certain(FailureCode::Unavailable, message)
                })?
            }
            None => {
                let absent =
                    || certain(FailureCode::Unavailable, format!("the request came without `{written}`"));
                let given = at(&asker.user, path).ok_or_else(absent)?;
                if let (OfUser::Given, Value::String(secret)) = (asker.of_user, given) {
                    let secret = Secret::new(secret);
                    ports.bindings.vault().hide(&written, &secret);
                    return Ok(secret);
                }
                let kept = given[REFERENCE].as_str().filter(|name| name.starts_with(OF_REQUEST));
                SecretRef::Store(kept.ok_or_else(absent)?.to_owned())
            }
        };
        ports.bindings.vault().reveal(&reference).await.map_err(|error| {
            let missing = match &error {
                SecretUnavailable::NotStored { name } => Some(name.clone()),
                _ => None,
            };
            let message = format!("the secret `{written}` cannot be read: {error}");
            AttemptError {
                gate: missing.map(|name| Gate::Secret { name }.into()),
                ..certain(FailureCode::Unavailable, message)
            }
        })
    }

    /// How the document proves who calls, if that is what the secret is for and consent gives it: a tenant may have a
    /// token of its own as well.
    fn oauth(&self, path: &Path) -> Option<(&str, &OAuth2)> {
        let Asker { toolkit, owner, agent, .. } = self.asker;
        let Auth::OAuth2(oauth) = toolkit.auth() else { return None };
        let is_token = path.to_string().strip_prefix("secrets.") == Some(oauth.access_token.as_str());
        let workspace = self.ports.workspace();
        let (owner, name) = (owner.as_ref()?, toolkit.name());
        let own = workspace.toolkit_secret(self.tenant, owner, agent.as_ref(), name, &oauth.access_token);
        (is_token && own.is_none()).then_some((name, oauth))
    }
}

/// What stands at a path below `user`.
fn at<'v>(user: &'v Value, path: &Path) -> Option<&'v Value> {
    let written = path.to_string();
    written.strip_prefix("user.")?.split('.').try_fold(user, |value, name| value.get(name))
}
