//! Tool servers that are WebAssembly modules: dalsegno.toml in the words of the sandbox.

use std::sync::Arc;

use dalsegno_sandbox::{
    Access, CachePlace, Injection, InvalidOrigin, Lifetime, Limits, LoadError, Permissions, Preopen, Sandbox,
    SandboxOptions, ServerConfig,
};
use dalsegno_workspace::{
    Access as Granted, Lifetime as Lives, ServerBinding, ServerLimits, ServerPermissions,
};
use tokio::sync::OnceCell;

use crate::effects::tool_server::ToolServer;
use crate::error::OpenError;
use crate::error::make_folder;
use crate::vault::Vault;

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
        vault: &Arc<Vault>,
    ) -> Result<ToolServer, OpenError> {
        let failed = |source| OpenError::Server { server: name.to_owned(), source };
        let sandbox = self.sandbox.get_or_try_init(|| async { open().map_err(failed) }).await?;
        for grant in binding.permissions.files.iter().filter(|grant| grant.create) {
            make_folder(&grant.host)?;
        }
        let config = server_config(name, binding, vault)?;
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

/// The sandbox's view of a server.
fn server_config(name: &str, binding: &ServerBinding, vault: &Arc<Vault>) -> Result<ServerConfig, OpenError> {
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
    config.permissions = permissions(&binding.permissions, vault)
        .map_err(|error| OpenError::Grant { server: name.to_owned(), message: error.to_string() })?;
    config.lifetime = match binding.lifetime {
        Lives::PerCall => Lifetime::PerCall,
        Lives::PerRun => Lifetime::PerRun,
        Lives::Shared => Lifetime::Shared,
    };
    config.limits = limits(&binding.limits);
    Ok(config)
}

fn permissions(granted: &ServerPermissions, vault: &Arc<Vault>) -> Result<Permissions, InvalidOrigin> {
    let files = granted.files.iter().map(|grant| Preopen {
        host: grant.host.clone(),
        guest: grant.guest.clone(),
        access: match grant.access {
            Granted::Read => Access::Read,
            Granted::Write => Access::Write,
        },
    });
    let network = granted.network.iter().map(|destination| destination.parse()).collect::<Result<_, _>>()?;
    let secrets = granted.secrets.iter().map(|grant| {
        let (header, prefix) = (grant.header.clone(), grant.prefix.clone());
        let value = vault.handle(&grant.value);
        Ok(Injection { destination: grant.destination.parse()?, header, prefix, value })
    });
    Ok(Permissions {
        files: files.collect(),
        env: vault.values(&granted.env),
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
