//! Tool servers that are WebAssembly modules: dalsegno.toml in the words of the sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use dalsegno_sandbox::{
    Access, CachePlace, EnvValue, Injection, InvalidOrigin, Lifetime, Limits, LoadError, Permissions,
    Preopen, Sandbox, SandboxOptions, SecretValue, ServerConfig,
};
use dalsegno_secrets::Secret;
use dalsegno_workspace::{
    Access as Granted, EnvValue as Variable, Lifetime as Lives, SecretRef, ServerBinding, ServerLimits,
    ServerPermissions,
};
use tokio::sync::OnceCell;

use crate::clock::{Clock, SystemClock};
use crate::effects::tool_server::ToolServer;
use crate::error::OpenError;
use crate::error::make_folder;
use crate::hidden::Hidden;
use crate::revealed::{Revealed, place};
use crate::secret_source::SecretSource;

/// The sandbox, opened for the first module.
#[derive(Default)]
pub(crate) struct Modules {
    sandbox: OnceCell<Sandbox>,
}

impl Modules {
    /// Loads the module of a server.
    pub(crate) async fn load(
        &self,
        name: &str,
        binding: &ServerBinding,
        revealed: &Revealed,
    ) -> Result<ToolServer, OpenError> {
        let failed = |source| OpenError::Server { server: name.to_owned(), source };
        let sandbox = self.sandbox.get_or_try_init(|| async { open().map_err(failed) }).await?;
        for grant in binding.permissions.files.iter().filter(|grant| grant.create) {
            make_folder(&grant.host)?;
        }
        let secret = |reference: &SecretRef| {
            let (source, hidden) = (Arc::clone(&revealed.source), Arc::clone(&revealed.hidden));
            Arc::new(ServerSecret { reference: reference.clone(), source, hidden }) as Arc<dyn SecretValue>
        };
        let config = server_config(name, binding, &secret)?;
        sandbox.load(config).await.map(ToolServer::Module).map_err(failed)
    }
}

fn open() -> Result<Sandbox, LoadError> {
    let cache = CachePlace::of_user();
    if cache.is_none() {
        tracing::warn!("compiled modules are not kept: set `HOME`, or `DALSEGNO_CACHE` and `DALSEGNO_STATE`");
    }
    Sandbox::new(SandboxOptions { cache, ..SandboxOptions::default() })
}

/// The sandbox's view of a server. `secret` says how a secret is read.
fn server_config(
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
struct ServerSecret {
    reference: SecretRef,
    source: Arc<SecretSource>,
    hidden: Arc<Hidden>,
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
