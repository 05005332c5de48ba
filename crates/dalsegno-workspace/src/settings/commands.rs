//! Programs that print secrets.

use std::path::PathBuf;
use std::time::Duration;

use super::{EnvValue, ModelBinding, RemoteBinding, SecretRef, ServerBinding, Settings};

/// A program that prints a secret to its standard output, such as an access token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretCommand {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: PathBuf,
    /// Its arguments. No shell reads them.
    pub arguments: Vec<String>,
    /// The folder that it is started in: the workspace's.
    pub directory: PathBuf,
    /// How long what it printed is used.
    pub ttl: Duration,
    /// The longest that it may take.
    pub timeout: Duration,
}

impl SecretCommand {
    /// How long what a program printed is used by default: shorter than the usual tokens live.
    pub const TTL: Duration = Duration::from_secs(5 * 60);

    /// The longest that a program may take by default: some ask the network, and wait for it.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
}

impl Settings {
    /// The programs that print secrets, each with the section of dalsegno.toml that names it, such as `models.default`.
    pub fn secret_commands(&self) -> impl Iterator<Item = (String, &SecretCommand)> {
        let secrets = self.secrets.values().map(|reference| ("secrets".to_owned(), reference));
        let models = self.models.iter().flat_map(|(name, model)| {
            let http = match model {
                ModelBinding::Http(http) => Some(http),
                ModelBinding::Script { .. } | ModelBinding::Cassette { .. } | ModelBinding::InCode => None,
            };
            let references = http.into_iter().flat_map(|http| http.secrets());
            references.map(move |(key, reference)| {
                let of_tenant = if key.starts_with("keys.") { ".keys" } else { "" };
                (format!("models.{name}{of_tenant}"), reference)
            })
        });
        let servers = self.servers.iter().flat_map(|(name, server)| {
            references(server).map(move |reference| (format!("servers.{name}"), reference))
        });
        let triggers =
            self.triggers.iter().map(|(name, trigger)| (format!("triggers.{name}"), &trigger.secret));
        let lines = self.lines.iter().flat_map(|(name, line)| {
            line.secrets().map(move |reference| (format!("voice.lines.{name}"), reference))
        });
        secrets.chain(models).chain(servers).chain(triggers).chain(lines).filter_map(|(place, reference)| {
            match reference {
                SecretRef::Command(command) => Some((place, &**command)),
                _ => None,
            }
        })
    }
}

/// All secrets that a server, its requests or its access need.
fn references(server: &ServerBinding) -> impl Iterator<Item = &SecretRef> {
    let (env, endpoint) = match &server.remote {
        None => (Some(&server.permissions.env), None),
        Some(RemoteBinding::Command(command)) => (Some(&command.env), None),
        Some(RemoteBinding::Endpoint(endpoint)) => (None, Some(endpoint)),
    };
    let held = env.into_iter().flat_map(|env| env.values()).filter_map(|value| match value {
        EnvValue::Secret(reference) => Some(reference),
        EnvValue::Text(_) => None,
    });
    let sent = endpoint.into_iter().flat_map(|endpoint| {
        let access = endpoint.oauth.iter().filter_map(|oauth| oauth.client_secret.as_ref());
        endpoint.headers.values().chain(access)
    });
    let added = server.permissions.secrets.iter().map(|secret| &secret.value);
    held.chain(sent).chain(added)
}
