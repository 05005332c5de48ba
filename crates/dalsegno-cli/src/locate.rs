//! Finds the workspace, and refuses one that belongs to another user.

use std::path::{Path, PathBuf};

use dalsegno_workspace::Workspace;

use crate::error::Error;
use crate::trust;

/// The workspace that was named, else the nearest folder upwards that is one. It is this user's, or root's, or one that
/// this user trusts.
pub(crate) fn workspace(named: Option<&Path>) -> Result<PathBuf, Error> {
    let root = find(named)?;
    match trust::foreign(&root) {
        None => Ok(root),
        Some((place, user)) => Err(Error::ForeignWorkspace { root, place, user }),
    }
}

fn find(named: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(folder) = named {
        return Ok(folder.to_path_buf());
    }
    let here = std::env::current_dir().map_err(|source| Error::NoCurrentFolder { source })?;
    let home = std::env::home_dir();
    Workspace::discover(&here, home.as_deref()).ok_or(Error::NoWorkspace { here })
}
