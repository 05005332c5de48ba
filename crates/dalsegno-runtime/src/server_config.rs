//! What dalsegno.toml says of a tool server, in the words of the sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use dalsegno_sandbox::{
    Access, EnvValue, Injection, InvalidOrigin, Lifetime, Limits, Permissions, Preopen, SecretValue,
    ServerConfig,
};
use dalsegno_secrets::Secret;
use dalsegno_workspace::{
    Access as Granted, EnvValue as Variable, Lifetime as Lives, SecretRef, ServerBinding, ServerLimits,
    ServerPermissions,
};

use crate::clock::{Clock, SystemClock};
use crate::error::OpenError;
use crate::hidden::Hidden;
use crate::secret_source::SecretSource;
use crate::tool_server::place;

/// The sandbox's view of a server. `secret` says how a secret is read.
pub(crate) fn server_config(
    name: &str,
    binding: &ServerBinding,
    secret: &dyn Fn(&SecretRef) -> Arc<dyn SecretValue>,
) -> Result<ServerConfig, OpenError> {
    let mut config = ServerConfig::new(name, &binding.module);
    config.digest =
        match &binding.digest {
            Some(digest) => Some(digest.parse().map_err(|error| OpenError::Digest {
                server: name.to_owned(),
                message: format!("{error}"),
            })?),
            None => None,
        };
    config.tools = binding.tools.clone();
    config.permissions = permissions(&binding.permissions, secret)
        .map_err(|error| OpenError::Grant { server: name.to_owned(), message: error.to_string() })?;
    config.lifetime = match binding.lifetime {
        Lives::PerCall => Lifetime::PerCall,
        Lives::PerRun => Lifetime::PerRun,
        Lives::Shared => Lifetime::Shared,
    };
    config.limits = limits(&binding.limits);
    Ok(config)
}

fn permissions(
    granted: &ServerPermissions,
    secret: &dyn Fn(&SecretRef) -> Arc<dyn SecretValue>,
) -> Result<Permissions, InvalidOrigin> {
    let files = granted.files.iter().map(|grant| Preopen {
        host: grant.host.clone(),
        guest: grant.guest.clone(),
        access: match grant.access {
            Granted::Read => Access::Read,
            Granted::Write => Access::Write,
        },
    });
    let env = granted.env.iter().map(|(name, value)| {
        let value = match value {
            Variable::Text(text) => EnvValue::Text(text.clone()),
            Variable::Secret(reference) => EnvValue::Secret(secret(reference)),
        };
        (name.clone(), value)
    });
    let network = granted.network.iter().map(|destination| destination.parse()).collect::<Result<_, _>>()?;
    let secrets = granted.secrets.iter().map(|grant| {
        let (header, prefix) = (grant.header.clone(), grant.prefix.clone());
        Ok(Injection { destination: grant.destination.parse()?, header, prefix, value: secret(&grant.value) })
    });
    Ok(Permissions {
        files: files.collect(),
        env: env.collect(),
        network,
        secrets: secrets.collect::<Result<_, InvalidOrigin>>()?,
        clock: granted.clock,
        random: granted.random,
    })
}

fn limits(limits: &ServerLimits) -> Limits {
    let defaults = Limits::default();
    Limits {
        memory: limits.memory,
        call_timeout: limits.call_timeout,
        start_timeout: limits.start_timeout,
        output: limits.output,
        stderr: limits.stderr,
        table_elements: limits.table_elements,
        concurrency: limits.concurrency.unwrap_or(defaults.concurrency),
        instances: limits.instances,
        module: limits.module,
        compile_timeout: limits.compile_timeout,
        response: limits.response,
    }
}

/// A secret of a server: read anew whenever it is needed, and scrubbed from then on.
pub(crate) struct ServerSecret {
    reference: SecretRef,
    source: Arc<SecretSource>,
    hidden: Arc<Hidden>,
}

impl ServerSecret {
    pub(crate) fn new(reference: SecretRef, source: Arc<SecretSource>, hidden: Arc<Hidden>) -> Self {
        Self { reference, source, hidden }
    }
}

#[async_trait]
impl SecretValue for ServerSecret {
    async fn reveal(&self) -> Result<String, String> {
        let secret = self.source.read(&self.reference, SystemClock.now()).await;
        // Without the space around it, so that it is known wherever it comes back.
        let secret = Secret::new(secret.map_err(|error| error.to_string())?.expose().trim());
        let value = secret.expose().to_owned();
        if let Some(place) = place(&self.reference) {
            self.hidden.hide(&place, secret);
        }
        Ok(value)
    }
}
