//! What the parts of declarative tools need besides themselves: whom a tenant may reach, and secrets.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dalsegno_core::{AgentRequest, FailureCode, Gate, Outcome, RunId, Terms, Timestamp, ToolKind, ToolName};
use dalsegno_net::{Client, Egress, Origin};
use dalsegno_secrets::{Put, Secret, SecretName};
use dalsegno_tools::{ApiCall, ApiResponse, Auth, Email, OAuth2, Path, Text, Toolkit};
use dalsegno_workspace::{SecretRef, Workspace};
use serde_json::{Value, json};

use crate::attempt::{Attempt, certain};
use crate::endpoint::{Exchange, references};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::mail;
use crate::policy::AttemptError;
use crate::secret_source::SecretUnavailable;

/// How long a secret is kept that came with a request. A run that waits longer asks for it again.
const REQUEST_SECRET_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// How the names of such secrets begin.
const OF_REQUEST: &str = "request.";

/// What stands in a request where a secret stood: the name that it has in the secret store.
const REFERENCE: &str = "dalsegno_secret";

/// Clients under the rules of each tenant, kept for their connections.
#[derive(Default)]
pub(crate) struct Endpoints(Mutex<BTreeMap<String, Client>>);

impl Endpoints {
    /// The client of a tenant. Of one without a file nobody may be reached.
    pub(crate) fn client(&self, workspace: &Workspace, tenant: &str) -> Client {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(tenant) {
            return client.clone();
        }
        let grants = workspace.tenants.get(tenant).into_iter().flat_map(|tenant| &tenant.egress);
        // They were checked when the workspace was read; one that is no origin grants nothing.
        let origins = grants.filter_map(|grant| grant.parse::<Origin>().ok());
        let client = Client::new(Egress::new(origins));
        if workspace.tenants.contains_key(tenant) {
            clients.insert(tenant.to_owned(), client.clone());
        }
        client
    }
}

/// Where the secrets are that came with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfUser {
    /// In the secret store; what the caller said has a reference in their place.
    Kept,
    /// Where the caller put them: nothing is written down.
    Given,
}

/// One attempt at a part of a declarative tool: on whose behalf, and on which terms.
pub(crate) struct Part<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) tenant: &'a str,
    /// The document whose tool asks for it.
    pub(crate) toolkit: Option<&'a Toolkit>,
    pub(crate) user: &'a Value,
    pub(crate) of_user: OfUser,
    pub(crate) terms: &'a Terms,
    pub(crate) attempt: u32,
    pub(crate) operation: String,
}

impl Attempt {
    /// What this is an attempt at, where a declarative tool asks for it.
    pub(crate) fn part(&self) -> Part<'_> {
        Part {
            engine: &self.context.engine,
            tenant: &self.context.tenant,
            toolkit: self.toolkit(),
            user: &self.user,
            of_user: OfUser::Kept,
            terms: &self.terms,
            attempt: self.attempt,
            operation: self.operation.to_string(),
        }
    }

    /// The document whose tool asks for this.
    fn toolkit(&self) -> Option<&Toolkit> {
        let config = &self.context.config;
        match &config.tools.tools.get(self.tool.as_ref()?)?.kind {
            ToolKind::Declarative { toolkit, .. } => Some(config.toolkits.get(toolkit)?.toolkit()),
            _ => None,
        }
    }
}

impl Part<'_> {
    /// Calls an endpoint once. A token that it does not take is refreshed, and shown once more: a request without a token
    /// was not worked on.
    pub(crate) async fn call_endpoint(&self, call: &ApiCall) -> Result<Outcome, AttemptError> {
        let Self { engine, tenant, terms, attempt, .. } = *self;
        let now = engine.now();
        let mut secrets = BTreeMap::new();
        let mut token = None;
        for path in references(call) {
            let secret = self.secret(path, now).await?;
            secrets.insert(path.clone(), secret.expose().to_owned());
            if self.oauth(path).is_some() {
                token = Some((path, secret));
            }
        }
        let client = engine.endpoints().client(engine.workspace(), tenant);
        let outcome = Exchange { call, terms, attempt, now, secrets: &secrets }.perform(&client).await?;
        let (Outcome::ApiAnswered(ApiResponse { status: 401, .. }), Some((path, refused))) =
            (&outcome, token)
        else {
            return Ok(outcome);
        };
        let Some((toolkit, oauth)) = self.oauth(path) else { return Ok(outcome) };
        let next = engine.access_token(oauth, toolkit, tenant, Some(&refused)).await?;
        secrets.insert(path.clone(), next.expose().to_owned());
        Exchange { call, terms, attempt, now, secrets: &secrets }.perform(&client).await
    }

    /// Sends a mail once.
    pub(crate) async fn send_mail(&self, mail: &Email) -> Result<Outcome, AttemptError> {
        let now = self.engine.now();
        let texts = mail.username.iter().chain(&mail.password);
        let references: Vec<&Path> = texts.flat_map(Text::secrets).map(|secret| &secret.path).collect();
        let mut secrets = BTreeMap::new();
        for path in references {
            secrets.insert(path.clone(), self.secret(path, now).await?.expose().to_owned());
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
        let client = self.engine.endpoints().client(self.engine.workspace(), self.tenant);
        let timeout = Duration::from_millis(self.terms.timeout_ms);
        mail::send(mail, login, &self.operation, client.egress(), timeout).await
    }

    /// The secret that a part refers to, as of now; it is scrubbed from then on.
    async fn secret(&self, path: &Path, now: Timestamp) -> Result<Secret, AttemptError> {
        let Self { engine, tenant, .. } = *self;
        if let Some((toolkit, oauth)) = self.oauth(path) {
            return engine.access_token(oauth, toolkit, tenant, None).await;
        }
        let written = path.to_string();
        let reference = match written.strip_prefix("secrets.") {
            Some(name) => {
                let toolkit = self.toolkit.map_or("", Toolkit::name);
                engine.workspace().toolkit_secret(tenant, toolkit, name).cloned().ok_or_else(|| {
                    let message = format!(
                        "the tenant `{tenant}` has no secret `{name}` for `{toolkit}`: add it to `[tools.{toolkit}.secrets]` of tenants/{tenant}.toml"
                    );
                    certain(FailureCode::Unavailable, message)
                })?
            }
            None => {
                let absent =
                    || certain(FailureCode::Unavailable, format!("the request came without `{written}`"));
                let given = at(self.user, path).ok_or_else(absent)?;
                if let (OfUser::Given, Value::String(secret)) = (self.of_user, given) {
                    let secret = Secret::new(secret);
                    engine.bindings().hide(&written, secret.clone());
                    return Ok(secret);
                }
                let kept = given[REFERENCE].as_str().filter(|name| name.starts_with(OF_REQUEST));
                SecretRef::Store(kept.ok_or_else(absent)?.to_owned())
            }
        };
        engine.bindings().reveal(&reference, now).await.map_err(|error| {
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
        let toolkit = self.toolkit?;
        let Auth::OAuth2(oauth) = toolkit.auth() else { return None };
        let is_token = path.to_string().strip_prefix("secrets.") == Some(oauth.access_token.as_str());
        let workspace = self.engine.workspace();
        let own = workspace.toolkit_secret(self.tenant, toolkit.name(), &oauth.access_token);
        (is_token && own.is_none()).then_some((toolkit.name(), oauth))
    }
}

/// What a caller says of the user, but for secrets: these are new with each start.
pub(crate) fn without_secrets(user: &Value) -> Value {
    let mut user = user.clone();
    for path in SECRET_PATHS {
        if let Some(place) = path.iter().try_fold(&mut user, |value, name| value.get_mut(name)) {
            *place = Value::Null;
        }
    }
    user
}

/// What stands at a path below `user`.
fn at<'v>(user: &'v Value, path: &Path) -> Option<&'v Value> {
    let written = path.to_string();
    written.strip_prefix("user.")?.split('.').try_fold(user, |value, name| value.get(name))
}

impl Engine {
    /// Puts the secrets that came with a request into the secret store, and references in their place.
    pub(crate) async fn keep_secrets(
        &self,
        run: RunId,
        request: &mut AgentRequest,
    ) -> Result<(), EngineError> {
        for path in SECRET_PATHS {
            let Some(place) = path.iter().try_fold(&mut request.user, |value, name| value.get_mut(name))
            else {
                continue;
            };
            if place.is_null() {
                continue;
            }
            let failed = |message: String| EngineError::UserSecret {
                path: format!("user.{}", path.join(".")),
                message,
            };
            let name = format!("{OF_REQUEST}{run}.{}", path.join("."));
            // Anything but text could pass for a reference, and lead to a secret that is not the caller's.
            let Value::String(value) = place else {
                return Err(failed("it is not text: give it as a string".to_owned()));
            };
            let known: SecretName = name.parse().map_err(|error| failed(format!("{error}")))?;
            let source = self.bindings().secret_source();
            let store = source.make().await.map_err(|error| failed(error.to_string()))?;
            let now = self.now().as_millis();
            let mut put = Put::new(Secret::new(value), now);
            put.expires_at = Some(now.saturating_add(REQUEST_SECRET_MS));
            store.put(source.tenant(), &known, put).await.map_err(|error| failed(error.to_string()))?;
            *place = json!({ REFERENCE: name });
        }
        Ok(())
    }

    /// Lets an agent hand over to those whom its declarative tools name.
    pub(crate) fn admit_handoffs(&self, config: &mut dalsegno_core::AgentConfig) {
        let plain = |name: &str| name.replace('-', "_");
        let documents = config.toolkits.values();
        let named = documents.flat_map(|document| document.toolkit().tools()).filter(|tool| {
            tool.name().parse::<ToolName>().is_ok_and(|name| config.tools.tools.contains_key(&name))
        });
        let named: Vec<String> = named.flat_map(|tool| tool.mentions().agents).map(plain).collect();
        for (name, file) in &self.workspace().agents {
            if named.contains(&plain(name.as_str())) {
                let callee = dalsegno_core::Callee { budget: file.limits.budget() };
                config.agents.entry(name.clone()).or_insert(callee);
            }
        }
    }
}

/// The places of a caller's context that hold secrets.
const SECRET_PATHS: [&[&str]; 1] = [&["auth_token"]];
