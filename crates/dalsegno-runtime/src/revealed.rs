//! Secrets of tool servers: read anew whenever they are needed, and scrubbed from then on.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use dalsegno_mcp::Values;
use dalsegno_secrets::Secret;
use dalsegno_workspace::{EnvValue, SecretRef};

use crate::clock::{Clock, SystemClock};
use crate::hidden::Hidden;
use crate::secret_source::{SecretSource, of_tenant};

/// Reads secrets whenever they are needed, and has them scrubbed from then on.
pub(crate) struct Revealed {
    pub(crate) source: Arc<SecretSource>,
    pub(crate) hidden: Arc<Hidden>,
}

impl Revealed {
    pub(crate) fn new(source: Arc<SecretSource>, hidden: Arc<Hidden>) -> Self {
        Self { source, hidden }
    }

    /// Values by name that are read whenever they are needed.
    pub(crate) fn values(&self, values: impl Iterator<Item = (String, EnvValue)>) -> Arc<dyn Values> {
        let (source, hidden) = (Arc::clone(&self.source), Arc::clone(&self.hidden));
        Arc::new(Named { values: values.collect(), source, hidden })
    }
}

/// Values by name, some of them secrets.
struct Named {
    values: BTreeMap<String, EnvValue>,
    source: Arc<SecretSource>,
    hidden: Arc<Hidden>,
}

#[async_trait]
impl Values for Named {
    async fn values(&self) -> Result<BTreeMap<String, String>, String> {
        let mut values = BTreeMap::new();
        for (name, value) in &self.values {
            let value = match value {
                EnvValue::Text(text) => text.clone(),
                EnvValue::Secret(reference) => {
                    let secret = self.source.read(reference, SystemClock.now()).await;
                    let secret = secret.map_err(|error| format!("`{name}` cannot be read: {error}"))?;
                    // Without the space around it, so that it is known wherever it comes back.
                    let secret = Secret::new(secret.expose().trim());
                    let value = secret.expose().to_owned();
                    if let Some(place) = place(reference) {
                        self.hidden.hide(&place, secret);
                    }
                    value
                }
            };
            values.insert(name.clone(), value);
        }
        Ok(values)
    }
}

/// Under what name a secret is scrubbed; none for the search path, which is in every other message.
pub(crate) fn place(reference: &SecretRef) -> Option<String> {
    // No name in the secret store holds a colon.
    match reference {
        SecretRef::Env(name) if name == "PATH" || name == "HOME" => None,
        SecretRef::Env(name) => Some(format!("env:{name}")),
        SecretRef::File(path) | SecretRef::Below { path, .. } => Some(format!("file:{}", path.display())),
        SecretRef::Store(name) => Some(name.clone()),
        SecretRef::OfTenant { tenant, name } => Some(of_tenant(tenant, name)),
    }
}
