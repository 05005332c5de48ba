//! The folder in which all of it happens, and of which nothing is left.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Place;
use crate::error::Error;

/// A folder that is removed with all that is in it.
pub(super) struct Folder {
    path: PathBuf,
    beside: PathBuf,
    /// The folder that it stands in was not there before.
    made_beside: bool,
}

impl Folder {
    /// Makes it.
    pub(super) fn make(place: &Place) -> Result<Self, Error> {
        let beside = place.folder.clone();
        let unwritable = |source| Error::CannotMeasure { place: beside.clone(), source };
        let made_beside = !beside.exists();
        if made_beside {
            dalsegno_files::make_folder(&beside).map_err(unwritable)?;
        }
        let path = beside.join(format!("{}-{}", place.name, uuid::Uuid::new_v4().simple()));
        dalsegno_files::make_folder(&path).map_err(unwritable)?;
        Ok(Self { path, beside, made_beside })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that it stands in.
    pub(super) fn beside(&self) -> &Path {
        &self.beside
    }

    /// Removes it; a second time does nothing.
    pub(super) fn remove(&self) -> Result<(), Error> {
        match fs::remove_dir_all(&self.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::LeftBehind { path: self.path.clone(), source });
            }
            Ok(()) | Err(_) => {}
        }
        if self.made_beside {
            // Somebody else may have put something there meanwhile; then it stays.
            let _ = fs::remove_dir(&self.beside);
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Only after a panic there is anything left.
        let _ = self.remove();
    }
}
