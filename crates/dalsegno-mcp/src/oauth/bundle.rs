//! What is kept of an access, and how the SDK comes to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use reqwest::Url;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Inner, OAuthError, Tokens};

/// All that is kept of the access to one server.
#[derive(Serialize, Deserialize)]
pub(super) struct Bundle {
    /// The address that the tokens are for. They are shown to no other.
    server: String,
    /// The secret that came with the registration of this client, where one came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    /// Scopes that the server asked for since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) wanted: Vec<String>,
    /// The tokens, as the SDK keeps them.
    pub(super) credentials: StoredCredentials,
}

impl Bundle {
    /// Reads what is kept; nothing where it is of no use for this server.
    fn read(text: &str, server: &Url) -> Option<Self> {
        let bundle: Self = serde_json::from_str(text).ok()?;
        (bundle.server == server.as_str()).then_some(bundle)
    }

    pub(super) fn write(&self) -> String {
        // Texts and numbers, which JSON takes.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn access_token(&self) -> Option<String> {
        Some(self.answer()?["access_token"].as_str()?.to_owned())
    }

    pub(super) fn can_refresh(&self) -> bool {
        self.answer().is_some_and(|answer| answer["refresh_token"].is_string())
    }

    /// When the token ends, in seconds since the epoch, where that is told.
    pub(super) fn ends_at(&self) -> Option<u64> {
        let life = self.answer()?["expires_in"].as_u64()?;
        Some(self.credentials.token_received_at?.saturating_add(life))
    }

    /// Whether the token is good for a while. One whose end nobody told is, until the server refuses it.
    pub(super) fn is_fresh(&self) -> bool {
        let Some(answer) = self.answer() else { return false };
        let (Some(life), Some(since)) = (answer["expires_in"].as_u64(), self.credentials.token_received_at)
        else {
            return true;
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // Of a token that lives shortly, the last quarter of its life is left for the refresh.
        now.saturating_add(AHEAD_SECONDS.min(life / 4)) < since.saturating_add(life)
    }

    /// What the authorization server answered.
    fn answer(&self) -> Option<Value> {
        serde_json::to_value(self.credentials.token_response.as_ref()?).ok()
    }
}

impl Inner {
    /// What is kept for this server.
    pub(super) async fn bundle(&self) -> Result<Option<Bundle>, OAuthError> {
        let text = self.config.tokens.load().await.map_err(OAuthError::Store)?;
        Ok(text.and_then(|text| Bundle::read(&text, &self.url)))
    }

    /// The place where the SDK keeps tokens.
    pub(super) fn keeper(&self) -> Keeper {
        Keeper {
            server: self.url.clone(),
            tokens: Arc::clone(&self.config.tokens),
            client_secret: Arc::default(),
        }
    }
}

/// The SDK's way to what is kept. Clones are the same place.
#[derive(Clone)]
pub(super) struct Keeper {
    server: Url,
    tokens: Arc<dyn Tokens>,
    /// The secret that goes with the client's id, where its registration brought one.
    client_secret: Arc<Mutex<Option<String>>>,
}

impl Keeper {
    /// Has this kept with the next tokens.
    pub(super) fn note_client_secret(&self, secret: Option<String>) {
        *self.client_secret.lock().unwrap_or_else(PoisonError::into_inner) = secret;
    }
}

#[async_trait]
impl CredentialStore for Keeper {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let text = self.tokens.load().await.map_err(AuthError::CredentialStoreError)?;
        Ok(text.and_then(|text| Bundle::read(&text, &self.server)).map(|bundle| bundle.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let bundle = Bundle {
            server: self.server.to_string(),
            client_secret: self.client_secret.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            wanted: Vec::new(),
            credentials,
        };
        self.tokens.save(&bundle.write()).await.map_err(AuthError::CredentialStoreError)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.tokens.remove().await.map_err(AuthError::CredentialStoreError)
    }
}

/// How long before its end a token is refreshed: longer than a request takes, so that none ends on the way.
const AHEAD_SECONDS: u64 = 60;
