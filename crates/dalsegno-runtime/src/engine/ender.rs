//! An engine that knows nothing but the journal: runs can be ended in a workspace whose other files have errors.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dalsegno_workspace::{Broken, Documents, Footprint, InCode, Loaded, Workspace};
use tokio::sync::OnceCell;

use super::{Engine, Inner, open_store, ports};
use crate::clock::{Clock, SystemClock};
use crate::effects::bindings::Bindings;
use crate::effects::ports::Owners;
use crate::error::OpenError;
use crate::secret_source::SecretSource;
use crate::vault::{Programs, Vault};

impl Engine {
    /// Opens the journals of a workspace folder to end runs, whatever errors its agents, tool servers or secrets have: what ends
    /// a run stands in its journal. No model, tool server or secret is used, so that nobody else is told of the end. Where
    /// dalsegno.toml is not TOML and names no other place, the journal is the one at the default place, if there is one:
    /// [`Workspace::store_is_assumed`] says so.
    ///
    /// # Errors
    /// When nobody knows where the journal is, or it cannot be opened.
    pub async fn ender(root: &Path) -> Result<Self, OpenError> {
        let loaded = Workspace::load(root);
        let Loaded { settings, assumed, diagnostics, .. } = &loaded;
        let store_is_assumed = settings.is_none();
        let Some(mut settings) = settings.as_ref().or(assumed.as_ref()).cloned() else {
            return Err(OpenError::Workspace { root: root.to_owned(), diagnostics: diagnostics.clone() });
        };
        // Who is asked about is known all the same, where the rest of the workspace is.
        let tenants = loaded.sound().map(|workspace| workspace.tenants).unwrap_or_default();
        // Nothing is performed, so that there is nothing to authorise, and nothing to scrub from a record.
        // Nothing is asked of anybody, so that no key is needed.
        settings.secrets.clear();
        settings.models.clear();
        settings.telemetry = None;
        settings.servers.clear();
        let workspace = Workspace {
            root: root.to_owned(),
            settings,
            store_is_assumed,
            toolkits: BTreeMap::new(),
            tenants,
            agents: BTreeMap::new(),
            names: BTreeMap::new(),
            pinned: BTreeMap::new(),
            broken: Broken::default(),
            footprint: Footprint::default(),
            in_code: InCode::default(),
            documents: Documents::default(),
        };
        let (store, folder) = open_store(&workspace).await?;
        let owners = Owners::Folder { dir: folder.join("owners"), claimed: OnceCell::new() };
        let (root, settings) = (workspace.root.clone(), workspace.settings.clone());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let source = SecretSource::new(settings.secret_store.clone());
        let vault = Vault::open(&settings, source, Arc::clone(&clock), Programs::Refused).await?;
        let bindings = Bindings::new(root, settings, BTreeMap::new(), BTreeMap::new(), None, vault);
        let ports = Arc::new(ports(workspace, None, Arc::new(bindings), store, owners, clock));
        Ok(Self { inner: Arc::new(Inner { ports, run_ids: None }) })
    }
}
