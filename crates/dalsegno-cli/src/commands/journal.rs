//! The journal of a workspace, whatever errors its other files have: to tell what it holds, and to keep it.

use dalsegno_history::Journal;
use dalsegno_runtime::{OpenError, load_workspace};
use dalsegno_workspace::{Loaded, Settings, Workspace};

use super::Context;
use crate::error::Error;

/// A journal, and what is known of its workspace.
pub(super) struct Kept {
    pub(super) journal: Journal,
    /// What dalsegno.toml says, with defaults in place of what does not fit.
    pub(super) settings: Settings,
    /// The workspace, if it can be used.
    pub(super) workspace: Option<Workspace>,
}

impl Context<'_> {
    /// Only tells what was recorded, which a mistake in a file must not hinder. Where dalsegno.toml is not TOML and names no
    /// other place, that is the journal at the default place, if there is one; a warning says so.
    pub(super) async fn reader(&mut self) -> Result<Kept, Error> {
        let loaded = load_workspace(&self.root);
        let assumed = loaded.assumed.clone().filter(|_| loaded.settings.is_none());
        if let Some(assumed) = &assumed {
            self.warn_assumed(&assumed.store);
        }
        let opened = self.open(loaded, assumed).await;
        opened.inspect_err(|error| self.warn_unreadable(error)).map_err(Error::from)
    }

    /// The journal at the place that dalsegno.toml means, to be kept.
    pub(super) async fn journal(&self) -> Result<Kept, Error> {
        Ok(self.open(load_workspace(&self.root), None).await?)
    }

    async fn open(&self, loaded: Loaded, assumed: Option<Settings>) -> Result<Kept, OpenError> {
        let Some(settings) = loaded.settings.clone().or(assumed) else {
            return Err(OpenError::Workspace { root: self.root.clone(), diagnostics: loaded.diagnostics });
        };
        let journal = Journal::open(&settings.store).await?;
        Ok(Kept { journal, settings, workspace: loaded.sound().ok() })
    }
}
