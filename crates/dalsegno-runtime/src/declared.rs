//! What the parts of declarative tools need besides themselves: whom a tenant may reach, and secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dalsegno_core::{
    AgentName, AgentRequest, FailureCode, Gate, Outcome, RunId, Terms, Timestamp, ToolDocument, ToolKind,
    ToolName, ToolOwner,
};
use dalsegno_net::{Client, Egress, Origin, Transport};
use dalsegno_secrets::{Put, Secret, SecretName};
use dalsegno_tools::{ApiCall, ApiResponse, Auth, Email, OAuth2, Path, Text, Toolkit};
use dalsegno_workspace::{SecretRef, ToolkitFile, Workspace};
use serde_json::{Value, json};

use crate::attempt::Attempt;
use crate::endpoint::{Exchange, references};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::failure::AttemptError;
use crate::failure::certain;
use crate::mail;
use crate::secret_source::SecretUnavailable;

/// How long a secret is kept that came with a request. A run that waits longer asks for it again.
const REQUEST_SECRET_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// How the names of such secrets begin.
const OF_REQUEST: &str = "request.";

/// What stands in a request where a secret stood: the name that it has in the secret store.
const REFERENCE: &str = "dalsegno_secret";

/// Clients under the rules of each tenant, kept for their connections, each with what it may reach: a tenant's file can change.
#[derive(Default)]
pub(crate) struct Endpoints {
    clients: Mutex<BTreeMap<String, (BTreeSet<String>, Client)>>,
    /// Who carries the requests, where it is not the network.
    transport: Option<Arc<dyn Transport>>,
}

impl Endpoints {
    pub(crate) fn over(transport: Option<Arc<dyn Transport>>) -> Self {
        Self { clients: Mutex::default(), transport }
    }

    /// The client of a tenant, under the rules that the workspace has. Of one without a file nobody may be reached.
    pub(crate) fn client(&self, workspace: &Workspace, tenant: &str) -> Client {
        let grants = workspace.tenants.get(tenant).map(|tenant| &tenant.egress);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(grants), Some((granted, client))) = (grants, clients.get(tenant))
            && granted == grants
        {
            return client.clone();
        }
        // They were checked when the workspace was read; one that is no origin grants nothing.
        let origins = grants.into_iter().flatten().filter_map(|grant| grant.parse::<Origin>().ok());
        let mut client = Client::new(Egress::new(origins));
        if let Some(transport) = &self.transport {
            client = client.carried_by(Arc::clone(transport));
        }
        if let Some(grants) = grants {
            clients.insert(tenant.to_owned(), (grants.clone(), client.clone()));
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
    /// The agent whose tool asks for it; a tenant may have secrets for it alone.
    pub(crate) agent: Option<&'a AgentName>,
    /// The document whose tool asks for it.
    pub(crate) toolkit: Option<&'a Toolkit>,
    /// Whose that document is; none for one of nobody's, which gets no secret.
    pub(crate) owner: Option<ToolOwner>,
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
            agent: Some(&self.context.config.name),
            toolkit: self.document().map(ToolDocument::toolkit),
            owner: self.document().map(|document| self.owner_of(document)),
            user: &self.user,
            of_user: OfUser::Kept,
            terms: &self.terms,
            attempt: self.attempt,
            operation: self.operation.to_string(),
        }
    }

    /// Whose a document is that the run began with. Older configurations do not say it: then it is the workspace's only if
    /// that has the same one today.
    pub(crate) fn owner_of(&self, document: &ToolDocument) -> ToolOwner {
        let (workspace, name) = (self.context.engine.workspace(), document.toolkit().name());
        let same = |file: &ToolkitFile| file.toolkit.source() == document.toolkit().source();
        match document.owner() {
            Some(owner) => owner.clone(),
            None if workspace.toolkits.get(name).is_some_and(same) => ToolOwner::Workspace,
            None => ToolOwner::Tenant(self.context.tenant.clone()),
        }
    }

    /// The document whose tool asks for this.
    fn document(&self) -> Option<&ToolDocument> {
        let config = &self.context.config;
        match &config.tools.tools.get(self.tool.as_ref()?)?.kind {
            ToolKind::Declarative { toolkit, .. } => config.toolkits.get(toolkit),
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
        let client = engine.endpoints().client(&engine.workspace(), tenant);
        let outcome = Exchange { call, terms, attempt, secrets: &secrets }.perform(&client).await?;
        let (Outcome::ApiAnswered(ApiResponse { status: 401, .. }), Some((path, refused))) =
            (&outcome, token)
        else {
            return Ok(outcome);
        };
        let Some((toolkit, oauth)) = self.oauth(path) else { return Ok(outcome) };
        let next = engine.access_token(oauth, toolkit, tenant, self.agent, Some(&refused)).await?;
        secrets.insert(path.clone(), next.expose().to_owned());
        Exchange { call, terms, attempt, secrets: &secrets }.perform(&client).await
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
        let client = self.engine.endpoints().client(&self.engine.workspace(), self.tenant);
        let timeout = Duration::from_millis(self.terms.timeout_ms);
        mail::send(mail, login, &self.operation, client.egress(), timeout).await
    }

    /// The secret that a part refers to, as of now; it is scrubbed from then on.
    async fn secret(&self, path: &Path, now: Timestamp) -> Result<Secret, AttemptError> {
        let Self { engine, tenant, .. } = *self;
        if let Some((toolkit, oauth)) = self.oauth(path) {
            return engine.access_token(oauth, toolkit, tenant, self.agent, None).await;
        }
        let written = path.to_string();
        let reference = match written.strip_prefix("secrets.") {
            Some(name) => {
                let toolkit = self.toolkit.map_or("", Toolkit::name);
                let found = self.owner.as_ref().and_then(|owner| {
                    engine.workspace().toolkit_secret(tenant, owner, self.agent, toolkit, name).cloned()
                });
                found.ok_or_else(|| {
                    if self.owner.is_none() {
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
        let owner = self.owner.as_ref()?;
        let own =
            workspace.toolkit_secret(self.tenant, owner, self.agent, toolkit.name(), &oauth.access_token);
        (is_token && own.is_none()).then_some((toolkit.name(), oauth))
    }
}

/// What a caller says of the user, but for secrets: these are new with each start.
pub(crate) fn without_secrets(user: &Value, paths: &BTreeSet<String>) -> Value {
    let mut user = user.clone();
    for path in paths {
        // One that did not come leaves no trace.
        if let Some(place) = place(&mut user, path) {
            *place = Value::Null;
        }
    }
    user
}

/// The names of the secrets that came with a request, in the secret store.
pub(crate) fn kept_secrets<'u>(
    user: &'u Value,
    paths: &'u BTreeSet<String>,
) -> impl Iterator<Item = &'u str> {
    let find = move |path: &'u String| {
        path.strip_prefix("user.")?.split('.').try_fold(user, |value, name| value.get(name))
    };
    let places = paths.iter().filter_map(find);
    places.filter_map(|place| place[REFERENCE].as_str()).filter(|name| name.starts_with(OF_REQUEST))
}

/// What a foreign run was asked, without what only this workspace may say: the tenant's settings, and references to
/// secrets, which would be those of another run.
pub(crate) fn without_what_is_ours(mut request: AgentRequest, paths: &BTreeSet<String>) -> AgentRequest {
    request.tenant_settings = Value::Null;
    request.user = without_secrets(&request.user, paths);
    request
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
        for path in &self.bindings().settings().secret_paths {
            let Some(place) = place(&mut request.user, path) else { continue };
            if place.is_null() {
                continue;
            }
            let failed = |message: String| EngineError::UserSecret { path: path.clone(), message };
            let name = format!("{OF_REQUEST}{run}.{}", path.trim_start_matches("user."));
            // Anything but text could pass for a reference, and lead to a secret that is not the caller's.
            let Value::String(value) = place else {
                return Err(failed("it is not text: give it as a string".to_owned()));
            };
            let known: SecretName = name.parse().map_err(|error| failed(format!("{error}")))?;
            let source = self.bindings().secret_source();
            let store = source.make().await.map_err(|error| failed(error.to_string()))?;
            let now = self.now().as_millis();
            self.bindings().hide(&name, Secret::new(value));
            let mut put = Put::new(Secret::new(value), now);
            put.expires_at = Some(now.saturating_add(REQUEST_SECRET_MS));
            store.put(source.tenant(), &known, put).await.map_err(|error| failed(error.to_string()))?;
            *place = json!({ REFERENCE: name });
        }
        Ok(())
    }

    /// Lets an agent hand over to those whom its declarative tools name.
    ///
    /// # Errors
    /// When the file of one of these has errors.
    pub(crate) fn admit_handoffs(&self, config: &mut dalsegno_core::AgentConfig) -> Result<(), EngineError> {
        let plain = |name: &str| name.replace('-', "_");
        let documents = config.toolkits.values();
        let named = documents.flat_map(|document| document.toolkit().tools()).filter(|tool| {
            tool.name().parse::<ToolName>().is_ok_and(|name| config.tools.tools.contains_key(&name))
        });
        let named: Vec<String> = named.flat_map(|tool| tool.mentions().agents).map(plain).collect();
        let workspace = self.workspace();
        for (name, file) in &workspace.agents {
            if named.contains(&plain(name.as_str())) {
                let callee = dalsegno_core::Callee { budget: file.limits.budget() };
                config.agents.entry(name.clone()).or_insert(callee);
            }
        }
        let broken = workspace.broken.agents.keys().filter(|name| named.contains(&plain(name)));
        for name in broken.filter_map(|name| name.parse().ok()) {
            self.check_agent(&name)?;
        }
        Ok(())
    }
}

/// What stands at a path below `user`, which `dalsegno.toml` names, to be changed.
fn place<'v>(user: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    path.strip_prefix("user.")?.split('.').try_fold(user, |value, name| value.get_mut(name))
}
