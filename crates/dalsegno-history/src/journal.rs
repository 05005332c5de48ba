//! The runs of a store, and what each of them began with.

#[cfg(feature = "disk")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentRequest, Digest, RunId};
#[cfg(feature = "disk")]
use dalsegno_store::SqliteStore;
use dalsegno_store::{Body, Owner, ReadError, Record, RunFilter, RunStatus, RunSummary, Started, Store};

use crate::configs::Configs;
use crate::error::HistoryError;
#[cfg(feature = "disk")]
use crate::error::OpenError;
use crate::fold::FoldError;

/// The runs of a workspace, as they were recorded. Clones share everything.
#[derive(Clone)]
pub struct Journal {
    store: Arc<dyn Store>,
    /// The folder in which processes show that they live, where there is one.
    owners: Option<PathBuf>,
    configs: Arc<Configs>,
}

impl Journal {
    /// Opens the journal in a file. Where there is none, an empty one is made, with its folder. A file that may not be written
    /// is opened to be read.
    ///
    /// # Errors
    /// When the folder cannot be made, or the file is no journal, or cannot be read.
    #[cfg(feature = "disk")]
    pub async fn open(path: &Path) -> Result<Self, OpenError> {
        let owners = path.parent().map(|folder| folder.join("owners"));
        let path = path.to_owned();
        let opened = tokio::task::spawn_blocking(move || {
            // A journal that is there needs no folder, which might be one that cannot be written.
            if let (false, Some(folder)) = (path.exists(), path.parent()) {
                let failed = |source| OpenError::Folder { path: folder.to_owned(), source };
                dalsegno_files::make_folder(folder).map_err(failed)?;
            }
            Ok::<_, OpenError>(open_store(&path)?)
        });
        let store = opened.await.map_err(|error| OpenError::Stopped { message: error.to_string() })??;
        Ok(Self::of(Arc::new(store), owners))
    }

    /// The journal in a store that is open already. `owners` is the folder in which the processes that perform its runs show
    /// that they live; without it, every process that is recorded as an owner counts as alive.
    pub fn of(store: Arc<dyn Store>, owners: Option<PathBuf>) -> Self {
        Self { store, owners, configs: Arc::default() }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Lists runs, the newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, HistoryError> {
        Ok(self.store.runs(filter).await?)
    }

    /// Finds the runs whose ids begin with these hexadecimal digits.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn find_runs(&self, prefix: &str) -> Result<Vec<RunId>, HistoryError> {
        Ok(self.store.find_runs(prefix).await?)
    }

    /// The line of a run in the listing.
    ///
    /// # Errors
    /// When the run is unknown, or the store cannot be read.
    pub async fn summary(&self, run: RunId) -> Result<RunSummary, HistoryError> {
        Ok(self.store.summary(run).await?)
    }

    /// The line of a run in the listing, if there is such a run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn known(&self, run: RunId) -> Result<Option<RunSummary>, HistoryError> {
        match self.store.summary(run).await {
            Ok(summary) => Ok(Some(summary)),
            Err(ReadError::UnknownRun { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The first record of a run.
    ///
    /// # Errors
    /// When the run is unknown, or its first record is damaged or erased.
    pub async fn started(&self, run: RunId) -> Result<Started, HistoryError> {
        match self.store.first(run).await?.body {
            Body::Started(started) => Ok(started),
            _ => Err(FoldError::NoStart { run }.into()),
        }
    }

    /// What a run was asked.
    ///
    /// # Errors
    /// As for [`started`](Self::started).
    pub async fn asked(&self, run: RunId) -> Result<AgentRequest, HistoryError> {
        Ok(self.started(run).await?.request)
    }

    /// The run before this one in its session, if there is one.
    ///
    /// # Errors
    /// As for [`started`](Self::started).
    pub async fn predecessor(&self, run: RunId) -> Result<Option<RunId>, HistoryError> {
        Ok(self.started(run).await?.predecessor)
    }

    /// The run that this one is a fork of; none for a run that is no fork.
    ///
    /// # Errors
    /// When the run is unknown or its journal is damaged.
    pub async fn forked_from(&self, run: RunId) -> Result<Option<RunId>, HistoryError> {
        let records = self.store.read(run, 0).await?;
        Ok(records.get(1).and_then(|record| match &record.body {
            Body::Forked { run, .. } => Some(*run),
            _ => None,
        }))
    }

    /// The run above one and all others above that; itself where there is none. `parent` is the run directly above it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn root(&self, run: RunId, parent: Option<RunId>) -> Result<RunId, HistoryError> {
        let (mut root, mut above) = (run, parent);
        while let Some(parent) = above {
            root = parent;
            above = self.store.summary(parent).await?.parent;
        }
        Ok(root)
    }

    /// Says whether a living process performs a run. A run that is `running` without one was interrupted: its process died or
    /// left it, and it can be resumed.
    pub fn is_performed(&self, summary: &RunSummary) -> bool {
        let Some(owner) = summary.owner.filter(|_| summary.status == RunStatus::Running) else {
            return false;
        };
        self.owners.as_ref().is_none_or(|owners| Owner::lives_in(owners, owner))
    }

    /// The configuration that a run began with.
    ///
    /// # Errors
    /// When the run is unknown, or the store cannot be read or has another configuration under its digest.
    pub async fn configuration(&self, run: RunId) -> Result<Arc<AgentConfig>, HistoryError> {
        let summary = self.store.summary(run).await?;
        self.config(run, summary.config).await
    }

    /// A run's configuration, by its digest.
    ///
    /// # Errors
    /// When the store cannot be read, or has no configuration with this digest.
    pub async fn config(&self, run: RunId, digest: Digest) -> Result<Arc<AgentConfig>, HistoryError> {
        let json = self.store.config(digest).await.map_err(|error| HistoryError::of_read(run, error))?;
        self.parse_config(run, digest, json)
    }

    /// The configuration with this digest, which is stored in this form.
    ///
    /// # Errors
    /// When it is none, or does not have this digest.
    pub(crate) fn parse_config(
        &self,
        run: RunId,
        digest: Digest,
        json: String,
    ) -> Result<Arc<AgentConfig>, HistoryError> {
        self.configs.read(digest, json).map_err(|message| HistoryError::Config { run, message })
    }

    /// A run's configuration and its records.
    ///
    /// # Errors
    /// When the run is unknown, or its journal or configuration is damaged.
    pub async fn journal_of(&self, run: RunId) -> Result<(Arc<AgentConfig>, Vec<Record>), HistoryError> {
        let summary = self.store.summary(run).await?;
        let records = self.store.read(run, 0).await?;
        Ok((self.config(run, summary.config).await?, records))
    }
}

/// Opens the store in a file; one that may only be read is opened to be read. Blocks for a moment.
///
/// # Errors
/// When it cannot be read.
#[cfg(feature = "disk")]
pub fn open_store(path: &Path) -> Result<SqliteStore, dalsegno_store::OpenError> {
    match SqliteStore::open(path) {
        Err(dalsegno_store::OpenError::ReadOnly { .. }) => SqliteStore::open_read_only(path),
        opened => opened,
    }
}
