//! Finds the workspace.

use std::path::{Path, PathBuf};

use dalsegno_workspace::Workspace;

use crate::error::Error;

/// The workspace that was named, else the nearest folder upwards that is one.
pub(crate) fn workspace(named: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(folder) = named {
        return Ok(folder.to_path_buf());
    }
    let here = std::env::current_dir().map_err(|source| Error::NoCurrentFolder { source })?;
    Workspace::discover(&here).ok_or(Error::NoWorkspace { here })
}
