//! Access to tool servers by OAuth: tokens in the secret store.

use std::sync::Arc;

use async_trait::async_trait;
use dalsegno_mcp::{Grant, OAuth, OAuthConfig, Tokens};
use dalsegno_net::{Client, Egress, Origin, Url};
use dalsegno_secrets::{Put, Secret, SecretName};
use dalsegno_workspace::{OAuthBinding, OAuthGrant};
use serde_json::Value;

use crate::vault::Vault;

/// How a server is asked for access, as dalsegno.toml says.
pub(crate) fn access(
    server: &str,
    url: &Url,
    origin: &Origin,
    binding: &OAuthBinding,
    vault: &Arc<Vault>,
) -> Result<OAuth, String> {
    let others = binding.authorization_servers.iter().map(|origin| origin.parse::<Origin>());
    let others = others.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    // The server and those whom the operator named, and nobody else whom the server points to.
    let client = Client::new(Egress::new(others.into_iter().chain([origin.clone()])));
    let name = secret_name(server);
    let tokens = Stored {
        key: name.parse().map_err(|error: dalsegno_secrets::NameError| error.to_string())?,
        name,
        vault: Arc::clone(vault),
    };
    let config = OAuthConfig {
        grant: match binding.grant {
            OAuthGrant::AuthorizationCode => Grant::Consent,
            OAuthGrant::ClientCredentials => Grant::ClientCredentials,
        },
        client_id: binding.client_id.clone(),
        client_metadata: binding.client_metadata.clone(),
        client_secret: binding.client_secret.as_ref().map(|secret| vault.handle(secret)),
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
    vault: Arc<Vault>,
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
                self.vault.hide(&format!("{}:{what}", self.name), &Secret::new(secret));
            }
        }
    }
}

#[async_trait]
impl Tokens for Stored {
    async fn load(&self) -> Result<Option<String>, String> {
        let store = self.vault.source().store().await.map_err(|error| error.to_string())?;
        let Some(store) = store else { return Ok(None) };
        let stored = store.get(self.vault.source().tenant(), &self.key, self.vault.now()).await;
        let stored = stored.map_err(|error| error.to_string())?;
        Ok(stored.map(|stored| {
            self.hide(stored.value.expose());
            stored.value.expose().to_owned()
        }))
    }

    async fn save(&self, tokens: &str) -> Result<(), String> {
        self.hide(tokens);
        let store = self.vault.source().make().await.map_err(|error| error.to_string())?;
        let put = Put::new(Secret::new(tokens), self.vault.now());
        let put = store.put(self.vault.source().tenant(), &self.key, put).await;
        put.map(drop).map_err(|error| error.to_string())
    }

    async fn remove(&self) -> Result<(), String> {
        let store = self.vault.source().store().await.map_err(|error| error.to_string())?;
        let Some(store) = store else { return Ok(()) };
        store
            .remove(self.vault.source().tenant(), &self.key)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }
}
