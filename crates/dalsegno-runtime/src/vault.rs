//! The one way to a secret: read as of now, and scrubbed from then on.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use dalsegno_models::aws_key_parts;
use dalsegno_secrets::{
    CommandSecret, CommandSettings, KEY_VARIABLE, MaybeSecret, Reveal, RevealError, Secret,
};
use dalsegno_workspace::{EnvValue, SecretCommand, SecretRef, Settings, StoreKey};

use crate::clock::Clock;
use crate::error::OpenError;
use crate::hidden::{Held, Hidden};
use crate::known;
use crate::secret::Secrets;
use crate::secret_source::{SecretSource, SecretUnavailable, of_tenant};

/// Whether the programs are started that print secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Programs {
    Started,
    Refused,
}

/// Reads the secrets of a workspace, and remembers each for scrubbing before anyone else has it.
pub(crate) struct Vault {
    source: SecretSource,
    hidden: Arc<Hidden>,
    clock: Arc<dyn Clock>,
    /// The programs that print secrets and may be started: those that dalsegno.toml named when it was read, since a person
    /// agreed to those. All that refer to one share it, so that one start serves them all.
    programs: BTreeMap<SecretCommand, CommandSecret>,
}

impl Vault {
    /// Reads the secrets of `[secrets]`, which tools in process ask for by name, and all others that dalsegno.toml names, so
    /// that they are scrubbed from the start. No program is started here.
    ///
    /// # Errors
    /// When one of `[secrets]` cannot be read, or is too short. A client that needs another one says what is missing.
    pub(crate) async fn open(
        settings: &Settings,
        source: SecretSource,
        clock: Arc<dyn Clock>,
        programs: Programs,
    ) -> Result<Self, OpenError> {
        let mut named = BTreeMap::new();
        for (name, reference) in &settings.secrets {
            if matches!(reference, SecretRef::Command(_)) {
                continue;
            }
            let value = source.read(reference, clock.now()).await;
            let value = value
                .map_err(|error| OpenError::Secret { name: name.clone(), message: error.to_string() })?;
            named.insert(name.clone(), value);
        }
        let secrets = Secrets::new(named).map_err(|short| {
            let message = short.to_string();
            OpenError::Secret { name: short.name, message }
        })?;
        let programs = match programs {
            Programs::Started => programs_of(settings),
            Programs::Refused => BTreeMap::new(),
        };
        let vault = Self { source, hidden: Arc::new(Hidden::new(secrets)), clock, programs };
        for reference in known::of_clients(settings) {
            if !matches!(reference, SecretRef::Command(_)) {
                let _ = vault.reveal(reference).await;
            }
        }
        Ok(vault)
    }

    /// Where the secrets are found.
    pub(crate) fn source(&self) -> &SecretSource {
        &self.source
    }

    /// The time by which secrets expire, in milliseconds since the epoch.
    #[cfg(feature = "oauth")]
    pub(crate) fn now(&self) -> u64 {
        self.clock.now().as_millis()
    }

    /// Reads a secret as of now; it is scrubbed from then on.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn reveal(&self, reference: &SecretRef) -> Result<Secret, SecretUnavailable> {
        let secret = match reference {
            SecretRef::Command(command) => {
                self.program(command)?.reveal().await.map_err(SecretUnavailable::Unprinted)?
            }
            reference => self.source.read(reference, self.clock.now()).await?,
        };
        self.hide_read(reference, &secret);
        Ok(secret)
    }

    /// Reads another value than one that its receiver refused, if there is one; it is scrubbed from then on.
    async fn renew(
        &self,
        reference: &SecretRef,
        refused: &Secret,
    ) -> Result<Option<Secret>, SecretUnavailable> {
        let SecretRef::Command(command) = reference else {
            // Somebody may have changed it since it was read.
            let secret = self.reveal(reference).await?;
            return Ok((secret.expose() != refused.expose()).then_some(secret));
        };
        let secret = self.program(command)?.renew(refused).await.map_err(SecretUnavailable::Unprinted)?;
        if let Some(secret) = &secret {
            self.hide_read(reference, secret);
        }
        Ok(secret)
    }

    fn hide_read(&self, reference: &SecretRef, secret: &Secret) {
        let Some(place) = place(reference) else { return };
        // The credentials of AWS come as one document, whose parts are sent one by one.
        for (name, part) in aws_parts(secret) {
            self.hidden.hide(&format!("{place} {name}"), part);
        }
        self.hidden.hide(&place, secret.clone());
    }

    /// The program that prints a secret.
    fn program(&self, command: &SecretCommand) -> Result<&CommandSecret, SecretUnavailable> {
        let refused = || SecretUnavailable::NoPrograms { program: command.program.display().to_string() };
        self.programs.get(command).ok_or_else(refused)
    }

    /// What a client gets of a secret: it reads this one, and no other.
    pub(crate) fn handle(self: &Arc<Self>, reference: &SecretRef) -> Arc<dyn Reveal> {
        Arc::new(Handle { vault: Arc::clone(self), reference: reference.clone() })
    }

    /// What a client gets of named values of which some are secrets.
    pub(crate) fn values<'v>(
        self: &Arc<Self>,
        values: impl IntoIterator<Item = (&'v String, &'v EnvValue)>,
    ) -> BTreeMap<String, MaybeSecret> {
        let value = |value: &EnvValue| match value {
            EnvValue::Text(text) => MaybeSecret::Text(text.clone()),
            EnvValue::Secret(reference) => MaybeSecret::Secret(self.handle(reference)),
        };
        values.into_iter().map(|(name, given)| (name.clone(), value(given))).collect()
    }

    /// Says whether the secret store has a secret now.
    pub(crate) async fn is_stored(&self, name: &str) -> bool {
        self.source.stored(name, self.clock.now()).await.is_ok()
    }

    /// Scrubs a secret from now on that did not come from here; `name` tells it from others.
    pub(crate) fn hide(&self, name: &str, secret: &Secret) {
        // Without the space around it, so that it is known wherever it comes back.
        self.hidden.hide(name, secret.trimmed());
    }

    /// Keeps the secrets of a request for a run of it.
    pub(crate) fn hold(&self, names: Vec<String>) -> Held {
        self.hidden.hold(names)
    }

    /// The secrets that are scrubbed, as of now.
    pub(crate) fn secrets(&self) -> Secrets {
        self.hidden.secrets()
    }
}

/// The programs that print secrets.
fn programs_of(settings: &Settings) -> BTreeMap<SecretCommand, CommandSecret> {
    // No program sees the key of the secret store.
    let mut hidden_variables = vec![KEY_VARIABLE.to_owned()];
    if let StoreKey::Env(name) = &settings.secret_store.key {
        hidden_variables.push(name.clone());
    }
    let programs = settings.secret_commands().map(|(_, command)| {
        let SecretCommand { program, arguments, directory, ttl, timeout } = command.clone();
        let (directory, hidden_variables) = (Some(directory), hidden_variables.clone());
        let settings = CommandSettings { program, arguments, directory, hidden_variables, ttl, timeout };
        (command.clone(), CommandSecret::new(settings))
    });
    programs.collect()
}

/// One secret.
struct Handle {
    vault: Arc<Vault>,
    reference: SecretRef,
}

#[async_trait]
impl Reveal for Handle {
    async fn reveal(&self) -> Result<Secret, RevealError> {
        Ok(self.vault.reveal(&self.reference).await?)
    }

    async fn renew(&self, refused: &Secret) -> Result<Option<Secret>, RevealError> {
        Ok(self.vault.renew(&self.reference, refused).await?)
    }
}

impl From<SecretUnavailable> for RevealError {
    fn from(error: SecretUnavailable) -> Self {
        match error {
            SecretUnavailable::Unprinted(error) => error,
            SecretUnavailable::NotStored { ref name } => {
                Self { missing: Some(name.clone()), ..Self::new(error.to_string()) }
            }
            error => Self::new(error.to_string()),
        }
    }
}

/// The parts of a document with credentials of AWS that are secrets themselves; none of any other secret.
fn aws_parts(secret: &Secret) -> Vec<(&'static str, Secret)> {
    if !secret.expose().starts_with('{') {
        return Vec::new();
    }
    let parts = aws_key_parts(secret).unwrap_or_default();
    ["AccessKeyId", "SecretAccessKey", "SessionToken"].into_iter().zip(parts).collect()
}

/// Under what name a secret is scrubbed; none for the search path, which is in every other message.
pub(crate) fn place(reference: &SecretRef) -> Option<String> {
    // No name in the secret store holds a colon.
    match reference {
        SecretRef::Env(name) if name == "PATH" || name == "HOME" => None,
        SecretRef::Env(name) => Some(format!("env:{name}")),
        SecretRef::File(path) | SecretRef::Below { path, .. } => Some(format!("file:{}", path.display())),
        SecretRef::Command(command) => {
            Some(format!("command:{} {}", command.program.display(), command.arguments.join(" ")))
        }
        SecretRef::Store(name) => Some(name.clone()),
        SecretRef::OfTenant { tenant, name } => Some(of_tenant(tenant, name)),
    }
}
