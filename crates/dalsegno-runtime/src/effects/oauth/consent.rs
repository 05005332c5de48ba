//! Consent: an address for a person's browser, and what comes back from there.

use std::collections::BTreeMap;

use dalsegno_core::{AgentName, Timestamp};
use dalsegno_net::{Origin, Url};
use dalsegno_secrets::{Put, SecretName};
use dalsegno_tools::{Auth, OAuth2};
use oauth2::{CsrfToken, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope};

use super::client::{self, Credentials, Protocol, TokenError};
use super::secret_name;
use crate::effects::ports::Ports;
use crate::secret_source::SecretUnavailable;

/// Why access could not be given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsentError {
    /// The tenant has no such toolkit.
    #[error("the tenant `{tenant}` has no toolkit `{toolkit}`")]
    UnknownToolkit {
        /// The name that was given.
        toolkit: String,
        /// The tenant.
        tenant: String,
        /// The toolkits that need consent.
        known: Vec<String>,
    },
    /// Nobody has to consent to the use of the toolkit.
    #[error(
        "toolkit `{toolkit}` does not use OAuth, so there is nothing to consent to: its `auth` is not `oauth2`"
    )]
    NotNeeded {
        /// The toolkit.
        toolkit: String,
    },
    /// The tenant may reach nobody.
    #[error(
        "there is no tenant `{tenant}`: write tenants/{tenant}.toml, whose `egress` lists the addresses that its tools may reach"
    )]
    UnknownTenant {
        /// The tenant.
        tenant: String,
    },
    /// The agent has no access of its own.
    #[error(
        "the agent `{agent}` has no access of its own to `{toolkit}`: add `own_access = true` to `[tools.{toolkit}.agents.{agent}]` of \
         tenants/{tenant}.toml, or omit the agent"
    )]
    NoAccessOfItsOwn {
        /// The tenant.
        tenant: String,
        /// The agent.
        agent: AgentName,
        /// The toolkit.
        toolkit: String,
    },
    /// The tenant may not reach the authorization server.
    #[error(
        "the tenant `{tenant}` may not reach the authorization server: add `{origin}` to `egress` of tenants/{tenant}.toml"
    )]
    Egress {
        /// The tenant.
        tenant: String,
        /// Where the tokens are.
        origin: String,
    },
    /// The client's id is not known.
    #[error(
        "the tenant `{tenant}` has no secret `{name}` for `{toolkit}`: add it to `[tools.{toolkit}.secrets]` of tenants/{tenant}.toml"
    )]
    NoClient {
        /// The tenant.
        tenant: String,
        /// The toolkit.
        toolkit: String,
        /// The secret.
        name: String,
    },
    /// An address is none.
    #[error("{message}")]
    Address {
        /// What is wrong with it.
        message: String,
    },
    /// What came back is not an answer to this question.
    #[error("this is not the address to which the browser was redirected: {message}")]
    Foreign {
        /// What is wrong with it.
        message: String,
    },
    /// The person, or the authorization server, said no.
    #[error("access was refused: {reason}")]
    Denied {
        /// Why, in the server's words.
        reason: String,
    },
    /// The authorization server gave no tokens.
    #[error("the authorization server returned no tokens: {message}")]
    NoTokens {
        /// Why.
        message: String,
    },
    /// The secret store, or a secret in it, cannot be read or written.
    #[error(transparent)]
    Secret(#[from] SecretUnavailable),
}

/// A question to a person. It is good for one answer.
pub struct Consent {
    url: Url,
    redirect: RedirectUrl,
    state: CsrfToken,
    verifier: PkceCodeVerifier,
    protocol: Protocol,
    tenant: String,
    agent: Option<AgentName>,
    toolkit: String,
    scopes: Vec<String>,
}

/// Access that was given and is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consented {
    /// The name of the secret under which it is kept.
    pub name: String,
    /// What it is good for.
    pub scopes: Vec<String>,
    /// When it ends unless it is refreshed.
    pub expires_at: Option<Timestamp>,
    /// Whether it can be refreshed without a person.
    pub renews: bool,
}

impl Consent {
    /// The address that the person opens.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Says whether an address answers this very question, be it with a no.
    ///
    /// # Errors
    /// [`ConsentError::Foreign`] where it does not.
    pub fn accepts(&self, answered: &Url) -> Result<(), ConsentError> {
        match self.code(answered) {
            Ok(_) | Err(ConsentError::Denied { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads the code from the address that the browser was sent to.
    fn code(&self, answered: &Url) -> Result<String, ConsentError> {
        let foreign = |message: &str| ConsentError::Foreign { message: message.to_owned() };
        let ours = self.redirect.url();
        let is_ours = answered.scheme() == ours.scheme()
            && answered.host_str() == ours.host_str()
            && answered.port_or_known_default() == ours.port_or_known_default()
            && answered.path() == ours.path();
        if !is_ours {
            return Err(foreign(&format!("expected one that begins with `{ours}`")));
        }
        let mut fields: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in answered.query_pairs() {
            if fields.insert(name.into_owned(), value.into_owned()).is_some() {
                return Err(foreign("it names a field twice"));
            }
        }
        // Whoever made the browser come here with another state did not answer the question that was asked.
        if fields.get("state").is_none_or(|state| state != self.state.secret()) {
            return Err(foreign("its `state` belongs to another question"));
        }
        if let Some(error) = fields.get("error") {
            let more = fields.get("error_description").map(|words| format!(": {words}")).unwrap_or_default();
            let reason = format!("{error}{more}").chars().filter(|one| !one.is_control()).take(300).collect();
            return Err(ConsentError::Denied { reason });
        }
        fields.remove("code").ok_or_else(|| foreign("it has no `code`"))
    }
}

impl Ports {
    /// Begins the consent to the use of a toolkit.
    pub(crate) async fn ask_consent(
        &self,
        toolkit: &str,
        tenant: &str,
        agent: Option<&AgentName>,
        redirect: &Url,
    ) -> Result<Consent, ConsentError> {
        let toolkit = toolkit.replace('-', "_");
        let oauth = self.oauth(&toolkit, tenant)?;
        if !self.workspace().tenants.contains_key(tenant) {
            return Err(ConsentError::UnknownTenant { tenant: tenant.to_owned() });
        }
        if let Some(agent) = agent.filter(|agent| !self.workspace().has_own_access(tenant, agent, &toolkit)) {
            let (tenant, agent) = (tenant.to_owned(), agent.clone());
            return Err(ConsentError::NoAccessOfItsOwn { tenant, agent, toolkit });
        }
        let address = |message: String| ConsentError::Address { message };
        let token_url = Url::parse(&oauth.token_url)
            .map_err(|error| address(format!("`token_url` is not a URL: {error}")))?;
        let origin = Origin::of(&token_url).map_err(|error| address(error.to_string()))?;
        if self.endpoints.client(&self.workspace(), tenant).egress().permits(&origin).is_err() {
            return Err(ConsentError::Egress { tenant: tenant.to_owned(), origin: origin.to_string() });
        }
        let credentials = self.credentials(&oauth, &toolkit, tenant, agent).await?.ok_or_else(|| {
            let (tenant, toolkit) = (tenant.to_owned(), toolkit.clone());
            ConsentError::NoClient { tenant, toolkit, name: oauth.client_id_secret.clone() }
        })?;
        let protocol = client::protocol(&oauth, &credentials).map_err(|error| address(error.to_string()))?;
        let redirect = RedirectUrl::from_url(redirect.clone());
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let mut request = protocol
            .authorize_url(CsrfToken::new_random)
            .set_redirect_uri(std::borrow::Cow::Borrowed(&redirect))
            .add_scopes(oauth.scopes.iter().cloned().map(Scope::new))
            .set_pkce_challenge(challenge);
        for (name, value) in &oauth.auth_params {
            request = request.add_extra_param(name.clone(), value.clone());
        }
        let (url, state) = request.url();
        let (tenant, agent, scopes) = (tenant.to_owned(), agent.cloned(), oauth.scopes.clone());
        Ok(Consent { url, redirect, state, verifier, protocol, tenant, agent, toolkit, scopes })
    }

    /// Ends the consent to the use of a toolkit, and keeps the tokens that it brings.
    pub(crate) async fn take_consent(
        &self,
        consent: Consent,
        answered: &Url,
    ) -> Result<Consented, ConsentError> {
        let code = consent.code(answered)?;
        let Consent { redirect, verifier, protocol, tenant, agent, toolkit, scopes, .. } = consent;
        let net = self.endpoints.client(&self.workspace(), &tenant);
        let response = client::exchange(&protocol, code, verifier, redirect, &net).await;
        let response =
            response.map_err(|error: TokenError| ConsentError::NoTokens { message: error.to_string() })?;
        let now = self.now();
        let grant = client::grant(&response, None, &scopes, now);
        let name = secret_name(&tenant, &toolkit, agent.as_ref());
        let parsed: SecretName = name.parse().map_err(SecretUnavailable::from)?;
        let source = self.secret_source();
        let store = source.make().await?;
        let put = Put::new(grant.write(), now.as_millis());
        store.put(source.tenant(), &parsed, put).await.map_err(SecretUnavailable::from)?;
        Ok(Consented {
            name,
            scopes: grant.scopes,
            expires_at: grant.expires_at.map(Timestamp::from_millis),
            renews: grant.refresh_token.is_some(),
        })
    }

    /// How a toolkit of a tenant proves who calls, where that needs consent.
    fn oauth(&self, toolkit: &str, tenant: &str) -> Result<OAuth2, ConsentError> {
        let workspace = self.workspace();
        let toolkits = workspace.toolkits_for(tenant);
        let Some(file) = toolkits.get(toolkit) else {
            let known = toolkits.values().filter(|file| matches!(file.toolkit.auth(), Auth::OAuth2(_)));
            let known = known.map(|file| file.toolkit.name().to_owned()).collect();
            return Err(ConsentError::UnknownToolkit {
                toolkit: toolkit.to_owned(),
                tenant: tenant.to_owned(),
                known,
            });
        };
        match file.toolkit.auth() {
            Auth::OAuth2(oauth) => Ok(oauth.clone()),
            Auth::None | Auth::Bearer { .. } | Auth::ApiKey { .. } => {
                Err(ConsentError::NotNeeded { toolkit: toolkit.to_owned() })
            }
        }
    }

    /// The client of a toolkit, as the tenant has it; none where its id is said nowhere. One without a secret is a public
    /// client.
    pub(super) async fn credentials(
        &self,
        oauth: &OAuth2,
        toolkit: &str,
        tenant: &str,
        agent: Option<&AgentName>,
    ) -> Result<Option<Credentials>, SecretUnavailable> {
        let workspace = self.workspace();
        let owner = workspace.owner_of(tenant, toolkit);
        let read = async |name: &str| match workspace.toolkit_secret(tenant, &owner, agent, toolkit, name) {
            Some(reference) => self.bindings.vault().reveal(reference).await.map(Some),
            None => Ok(None),
        };
        let id = match &oauth.client_id {
            Some(id) => Some(dalsegno_secrets::Secret::new(id)),
            None => read(&oauth.client_id_secret).await?,
        };
        let Some(id) = id else { return Ok(None) };
        Ok(Some(Credentials { id, secret: read(&oauth.client_secret).await? }))
    }
}
