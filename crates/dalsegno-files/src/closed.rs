//! Taking the rights of others away from what an earlier version, or a person, left open.

use std::io;
use std::path::{Path, PathBuf};

/// A file or folder that other users had rights on, and have no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// Where it is.
    pub path: PathBuf,
    /// The mode that it had, as of `chmod`.
    pub mode: u32,
}

/// Takes the rights of all other users away from a file or folder of this user. What belongs to another user, is a link or is
/// not there stays as it is. Returns what was changed.
///
/// # Errors
/// When it is open to others and the rights cannot be changed.
#[cfg(unix)]
pub fn close(path: &Path) -> io::Result<Option<Closed>> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    // By name, and not through a handle: closing a handle of a database would drop its locks.
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(None) };
    let mode = found.mode() & 0o7777;
    let is_plain = found.is_dir() || found.is_file();
    if !is_plain || found.uid() != crate::owner::user() || mode & 0o077 == 0 {
        return Ok(None);
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & 0o700))?;
    Ok(Some(Closed { path: path.to_owned(), mode }))
}

/// Elsewhere than on Unix the rules of the folder apply.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn close(_: &Path) -> io::Result<Option<Closed>> {
    Ok(None)
}

/// Does the same for a database of SQLite with its log and its shared memory. Returns what was changed; what cannot be changed is left
/// out.
pub fn close_database(path: &Path) -> Vec<Closed> {
    let files = ["", "-wal", "-shm"].map(|suffix| {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        PathBuf::from(file)
    });
    files.iter().filter_map(|file| close(file).ok().flatten()).collect()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_is_open_to_others_is_closed_once() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let closed = close(&folder).unwrap();
        assert_eq!(closed, Some(Closed { path: folder.clone(), mode: 0o755 }));
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(close(&folder).unwrap(), None);
        assert_eq!(close(&dir.path().join("missing")).unwrap(), None);
    }

    #[test]
    fn a_link_leads_to_nothing_that_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(close(&link).unwrap(), None);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
    }

    #[test]
    fn a_database_is_closed_with_the_files_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("journal.db");
        for name in ["journal.db", "journal.db-wal"] {
            fs::write(dir.path().join(name), "").unwrap();
            fs::set_permissions(dir.path().join(name), Permissions::from_mode(0o644)).unwrap();
        }
        assert_eq!(close_database(&file).len(), 2);
        assert!(close_database(&file).is_empty());
    }
}
