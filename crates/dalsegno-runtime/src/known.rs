//! The secrets that a run may meet, read before it starts: a service may repeat what another process, or another run,
//! has sent to it.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use dalsegno_secrets::Secret;
use dalsegno_workspace::{EnvValue, ModelBinding, RemoteBinding, SecretRef, ServerBinding, Settings};
use serde_json::Value;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::request::kept_secrets;
use crate::secret_source::SecretUnavailable;
use crate::vault::place;

/// How the names of the tokens begin that consent has brought.
const GRANTS: &str = "oauth.";

/// The fields of a grant that are secrets, whoever wrote it.
const OF_GRANT: [&str; 4] = ["access_token", "refresh_token", "id_token", "client_secret"];

/// A time at which no version of a secret has expired.
const BEFORE_ALL: u64 = 0;

impl Engine {
    /// Has every secret scrubbed from now on that a run of this tenant may meet: those that dalsegno.toml and the
    /// tenant's file name, the tokens of the tenant and of the tool servers, and those that came with a request of
    /// which `user` is a part. Of the secret store all versions count that are kept, also expired ones.
    ///
    /// A variable, a file or an entry of the store that is missing is skipped: there is no value to scrub.
    ///
    /// # Errors
    /// When a file or the secret store is there and cannot be read. Nothing may be recorded then.
    pub(crate) async fn know_secrets(&self, tenant: &str, user: &Value) -> Result<(), EngineError> {
        let mut stored: BTreeSet<String> = {
            let paths = &self.bindings().settings().secret_paths;
            kept_secrets(user, paths).map(str::to_owned).collect()
        };
        let mut own = BTreeSet::new();
        for reference in self.references(tenant) {
            match reference {
                SecretRef::Store(name) => {
                    stored.insert(name.clone());
                }
                // The files of a tenant name the tenant's own.
                SecretRef::OfTenant { tenant: _, name } => {
                    own.insert(name.clone());
                }
                // It is known from its first use on: to start the program for each run would be dear, and another process
                // has a value of its own.
                SecretRef::Command(_) => {}
                SecretRef::Env(_) | SecretRef::File(_) | SecretRef::Below { .. } => {
                    self.know(&reference).await?;
                }
            }
        }
        self.know_stored(tenant, None, &stored).await?;
        if own.is_empty() { Ok(()) } else { self.know_stored(tenant, Some(tenant), &own).await }
    }

    /// The secrets that the files of the workspace name for this tenant.
    fn references(&self, tenant: &str) -> Vec<SecretRef> {
        let workspace = self.workspace();
        let settings = &workspace.settings;
        let own = workspace.tenants.get(tenant).into_iter().flat_map(|tenant| {
            let toolkits = tenant.toolkits.values().flat_map(|toolkit| {
                let of_agents = toolkit.of_agents.values().flat_map(|agent| agent.secrets.values());
                toolkit.secrets.values().chain(of_agents)
            });
            tenant.secrets.values().chain(toolkits)
        });
        settings
            .secrets
            .values()
            .chain(of_clients(settings))
            .chain(own)
            .filter(|reference| place(reference).is_some())
            .cloned()
            .collect()
    }

    /// Has a secret scrubbed that is not in the store.
    async fn know(&self, reference: &SecretRef) -> Result<(), EngineError> {
        match self.bindings().vault().reveal(reference).await {
            Ok(_) => {}
            Err(SecretUnavailable::Variable { .. }) => {}
            Err(SecretUnavailable::File { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(EngineError::Scrubbing { message: error.to_string() }),
        }
        Ok(())
    }

    /// Has these secrets of the store scrubbed, of the workspace or of an owner; and of the workspace's the tokens that are
    /// for this tenant or for a tool server.
    async fn know_stored(
        &self,
        tenant: &str,
        owner: Option<&str>,
        named: &BTreeSet<String>,
    ) -> Result<(), EngineError> {
        let failed = |message: String| EngineError::Scrubbing { message };
        let source = self.secret_source();
        let Some(store) = source.store().await.map_err(|error| failed(error.to_string()))? else {
            return Ok(());
        };
        let whose = source.owner(owner).map_err(|error| failed(error.to_string()))?;
        let of_tenant = format!("{GRANTS}{tenant}.");
        let is_grant = |name: &str| {
            // The name of a server has no dot, and that of a tenant's access has one.
            let server = name.strip_prefix(GRANTS).is_some_and(|server| !server.contains('.'));
            owner.is_none() && (server || name.starts_with(&of_tenant))
        };
        let entries = store.list(&whose).await.map_err(|error| failed(error.to_string()))?;
        for entry in entries {
            let name = entry.name.as_str();
            let is_grant = is_grant(name);
            if !is_grant && !named.contains(name) {
                continue;
            }
            for version in &entry.versions {
                let version = version.version;
                let stored = store.get_version(&whose, &entry.name, version, BEFORE_ALL).await;
                let Some(stored) = stored.map_err(|error| failed(error.to_string()))? else { continue };
                let place = format!("{} {name} {version}", owner.unwrap_or_default());
                if is_grant {
                    let grant: Value = serde_json::from_str(stored.value.expose()).unwrap_or_default();
                    self.note_grant(&place, &grant);
                } else {
                    self.note(&place, stored.value.expose());
                }
            }
        }
        Ok(())
    }

    /// Has the tokens of a grant scrubbed, as deep in it as they stand.
    fn note_grant(&self, place: &str, grant: &Value) {
        let Value::Object(fields) = grant else { return };
        for (name, value) in fields {
            match value {
                Value::String(secret) if OF_GRANT.contains(&name.as_str()) => {
                    self.note(&format!("{place} {name}"), secret);
                }
                // As deep as JSON is read.
                value => self.note_grant(place, value),
            }
        }
    }

    fn note(&self, place: &str, secret: &str) {
        self.bindings().vault().hide(&format!("known {place}"), &Secret::new(secret));
    }
}

/// The secrets that dalsegno.toml names for models, tool servers, telemetry and triggers.
pub(crate) fn of_clients(settings: &Settings) -> impl Iterator<Item = &SecretRef> {
    let models = settings.models.values().filter_map(|model| match model {
        ModelBinding::Http(http) => Some(http.secrets().map(|(_, reference)| reference)),
        ModelBinding::Script { .. } | ModelBinding::Cassette { .. } | ModelBinding::InCode => None,
    });
    let models = models.flatten();
    let servers = settings.servers.values().flat_map(of_server);
    let telemetry = settings.telemetry.iter().flat_map(|telemetry| telemetry.headers.values());
    let triggers = settings.triggers.values().map(|trigger| &trigger.secret);
    let lines = settings.lines.values().flat_map(|line| line.secrets());
    models.chain(servers).chain(telemetry).chain(triggers).chain(lines)
}

/// The secrets that a tool server, or its requests, hold.
pub(crate) fn of_server(server: &ServerBinding) -> impl Iterator<Item = &SecretRef> {
    let (env, headers) = match &server.remote {
        None => (Some(server.permissions.env.values()), None),
        Some(RemoteBinding::Command(command)) => (Some(command.env.values()), None),
        Some(RemoteBinding::Endpoint(endpoint)) => (None, Some(endpoint.headers.values())),
    };
    let held = env.into_iter().flatten().filter_map(|value| match value {
        EnvValue::Secret(reference) => Some(reference),
        EnvValue::Text(_) => None,
    });
    let added = server.permissions.secrets.iter().map(|secret| &secret.value);
    held.chain(headers.into_iter().flatten()).chain(added).filter(|reference| place(reference).is_some())
}
