//! The tool servers of a run: opened when an operation needs one, and compared then with what the run knows of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use dalsegno_core::Received;
use dalsegno_core::{AgentConfig, FailureCode, Gate, RunId, ToolKind};
use dalsegno_protocol::CallErrorKind;
use dalsegno_workspace::SecretRef;

use crate::effects::bindings::{Bindings, Cells};
use crate::effects::failure::AttemptError;
use crate::effects::failure::describe;
use crate::effects::failure::{certain, no_answer};
use crate::effects::ports::Ports;
use crate::error::EngineError;
use crate::known;
use crate::names::DEFAULT_TENANT;

/// The servers that a run is bound to.
#[derive(Default)]
pub(crate) struct Bound {
    /// The digests that the journal knows, by server.
    known: BTreeMap<String, String>,
    /// The servers that were compared in this process.
    checked: Cells<String, ()>,
    /// Those that have another digest than the journal knows, or that it did not know, and no record says yet.
    news: Mutex<Vec<(String, String)>>,
}

impl Bound {
    pub(crate) fn new(known: BTreeMap<String, String>) -> Self {
        Self { known, ..Self::default() }
    }

    /// What is to be recorded.
    pub(crate) fn take_news(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks that a server can be used for a call: that the secrets are there that it needs, and that it offers what it
    /// offered when the run began. Another module is fine as long as the tools are the same, and is written down. Nothing
    /// is sent of the call.
    ///
    /// # Errors
    /// When a secret is missing, which a person gives; when the server cannot be opened or asked, which may pass; when it
    /// offers something else.
    pub(crate) async fn check(
        &self,
        ports: &Ports,
        run: RunId,
        tenant: &str,
        config: &AgentConfig,
        server: &str,
    ) -> Result<(), AttemptError> {
        if let Some(name) = missing_secret(ports, server).await {
            let message = format!(
                "tool server `{server}` needs the secret `{name}`, which the secret store does not have"
            );
            let gate = Some(Gate::Secret { name }.into());
            return Err(AttemptError { gate, ..certain(FailureCode::Unavailable, message) });
        }
        let cell = self.checked.get(server.to_owned());
        let compared = cell.get_or_try_init(|| self.compare(&ports.bindings, run, config, server)).await;
        let Err(error) = compared else { return Ok(()) };
        match error {
            EngineError::Catalogue(error) => {
                let missing = match error.kind {
                    CallErrorKind::Unauthorized => missing_grant(&ports.bindings, tenant, server).await,
                    _ => None,
                };
                let gate = missing.map(|name| Gate::Secret { name }.into());
                // Only its tools were asked for.
                Err(AttemptError { gate, received: Received::No, ..no_answer(&error) })
            }
            error => Err(certain(FailureCode::Unavailable, describe(&error))),
        }
    }

    async fn compare(
        &self,
        bindings: &Bindings,
        run: RunId,
        config: &AgentConfig,
        server: &str,
    ) -> Result<(), EngineError> {
        let loaded = bindings.server(server).await?;
        let digest = loaded.digest(DEFAULT_TENANT).await?;
        if self.known.get(server) == Some(&digest) {
            return Ok(());
        }
        let offered = bindings.catalogue([server.to_owned()]).await?;
        let prefix = format!("{server}.");
        let ours = config
            .tools
            .tools
            .iter()
            .filter(|(name, tool)| tool.kind == ToolKind::External && name.as_str().starts_with(&prefix));
        for (name, tool) in ours {
            let same = offered.get(name).is_some_and(|now| {
                *now.input_schema == *tool.input_schema
                    && now.output_schema == tool.output_schema
                    && now.description == tool.description
            });
            if !same {
                let (server, tool) = (server.to_owned(), name.to_string());
                return Err(EngineError::Rebind { run, server, tool });
            }
        }
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        news.push((server.to_owned(), digest));
        Ok(())
    }
}

/// The first secret that a server needs and the secret store does not have.
async fn missing_secret(ports: &Ports, server: &str) -> Option<String> {
    let binding = ports.bindings.settings().servers.get(server)?;
    // One that is added to requests is needed only by calls that send some: without it these are refused.
    let added =
        |reference: &&SecretRef| binding.permissions.secrets.iter().any(|one| one.value == **reference);
    for reference in known::of_server(binding).filter(|reference| !added(reference)) {
        if let SecretRef::Store(name) = reference
            && !ports.bindings.vault().is_stored(name).await
        {
            return Some(name.clone());
        }
    }
    None
}

/// The access to a server that a person must give, where it is missing.
async fn missing_grant(bindings: &Bindings, tenant: &str, server: &str) -> Option<String> {
    let loaded = bindings.server(server).await.ok()?;
    loaded.open(tenant, true).missing(server).await
}
