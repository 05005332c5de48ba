//! Engines that know nothing but the journal: for what must work in a workspace whose other files have errors.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dalsegno_store::{SqliteStore, Store};
use dalsegno_workspace::{Broken, Footprint, InCode, Loaded, Workspace};
use tokio::sync::OnceCell;

use super::{Engine, Inner, Owners, open_store};
use crate::bindings::Bindings;
use crate::clock::{Clock, SystemClock};
use crate::error::OpenError;

/// What a journal is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To keep it, and what lies beside it: its place must be certain.
    Keep,
    /// To tell what it holds.
    Read,
    /// To end runs.
    End,
}

impl Engine {
    /// Opens the journals of a workspace folder, whatever errors its agents, tool servers or secrets have.
    ///
    /// The engine can list, inspect and replay runs. It has no agents, so that starting a run finds none, and it
    /// refuses to go on with one.
    ///
    /// # Errors
    /// When dalsegno.toml does not say where the journal is, or the journal cannot be opened.
    pub async fn journal(root: &Path) -> Result<Self, OpenError> {
        Self::of_journal(root, Purpose::Keep).await
    }

    /// Opens the journals of a workspace folder as [`journal`](Self::journal) does, to tell what they hold. Where dalsegno.toml
    /// is not TOML and names no other place, that is the journal at the default place, if there is one:
    /// [`Workspace::store_is_assumed`] says so.
    ///
    /// # Errors
    /// When nobody knows where the journal is, or it cannot be opened.
    pub async fn reader(root: &Path) -> Result<Self, OpenError> {
        Self::of_journal(root, Purpose::Read).await
    }

    /// Opens the journals of a workspace folder to end runs, whatever errors its agents, tool servers or secrets have: what ends
    /// a run stands in its journal. No model, tool server or secret is used, so that nobody else is told of the end. The journal
    /// is found as [`reader`](Self::reader) finds it.
    ///
    /// # Errors
    /// When nobody knows where the journal is, or it cannot be opened.
    pub async fn ender(root: &Path) -> Result<Self, OpenError> {
        Self::of_journal(root, Purpose::End).await
    }

    async fn of_journal(root: &Path, purpose: Purpose) -> Result<Self, OpenError> {
        let loaded = Workspace::load(root);
        let Loaded { settings, assumed, diagnostics, .. } = &loaded;
        let store_is_assumed = settings.is_none();
        let assumed = assumed.as_ref().filter(|_| purpose != Purpose::Keep);
        let Some(mut settings) = settings.as_ref().or(assumed).cloned() else {
            return Err(OpenError::Workspace { root: root.to_owned(), diagnostics: diagnostics.clone() });
        };
        // Who is asked about is known all the same, where the rest of the workspace is.
        let tenants = loaded.sound().map(|workspace| workspace.tenants).unwrap_or_default();
        // Nothing is performed, so that there is nothing to authorise, and nothing to scrub from a record.
        // Nothing is asked of anybody, so that no key is needed.
        settings.secrets.clear();
        settings.models.clear();
        settings.telemetry = None;
        if purpose == Purpose::End {
            settings.servers.clear();
        }
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
        };
        let (store, owners) = if purpose == Purpose::End {
            let (store, folder) = open_store(&workspace).await?;
            (store, Owners::Folder { dir: folder.join("owners"), claimed: OnceCell::new() })
        } else {
            (open_to_read(&workspace).await?, Owners::None)
        };
        let (root, settings) = (workspace.root.clone(), workspace.settings.clone());
        let bindings = Arc::new(
            Bindings::new(root, settings, BTreeMap::new(), BTreeMap::new(), None, None, SystemClock.now())
                .await?,
        );
        let clock = Arc::new(SystemClock);
        Ok(Self { inner: Arc::new(Inner::new(workspace, bindings, store, owners, clock, Vec::new())) })
    }
}

/// Opens the store that dalsegno.toml names, to read it at least.
async fn open_to_read(workspace: &Workspace) -> Result<Arc<dyn Store>, OpenError> {
    let path = workspace.settings.store.clone();
    // A journal that is there needs no folder, which might be one that cannot be written.
    if !path.exists() {
        return Ok(open_store(workspace).await?.0);
    }
    let store = tokio::task::spawn_blocking(move || open_journal(&path)).await;
    let store = store.map_err(|error| OpenError::Stopped { message: error.to_string() })??;
    Ok(Arc::new(store))
}

/// Opens a journal; one that may only be read is opened to be read. Blocks for a moment.
///
/// # Errors
/// When it cannot be read.
pub fn open_journal(path: &Path) -> Result<SqliteStore, dalsegno_store::OpenError> {
    match SqliteStore::open(path) {
        Err(dalsegno_store::OpenError::ReadOnly { .. }) => SqliteStore::open_read_only(path),
        opened => opened,
    }
}
