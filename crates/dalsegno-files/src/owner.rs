//! Whose a file is.

use std::path::Path;

/// Whose a file or folder is, seen from the user who runs this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// This user's, or root's, who can do everything anyway.
    Ours,
    /// Another user's, by the number of that user.
    Other(u32),
    /// Nothing stands there, or it cannot be looked at.
    Unknown,
}

/// The user who runs this process.
#[cfg(unix)]
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Says whose a file or folder is. Of a symbolic link, first the link itself counts, then what it leads to.
#[cfg(unix)]
pub fn ownership(path: &Path) -> Ownership {
    use std::os::unix::fs::MetadataExt;

    let of = |found: std::io::Result<std::fs::Metadata>| match found {
        Ok(found) if [user(), 0].contains(&found.uid()) => Ownership::Ours,
        Ok(found) => Ownership::Other(found.uid()),
        Err(_) => Ownership::Unknown,
    };
    match of(std::fs::symlink_metadata(path)) {
        Ownership::Ours => of(std::fs::metadata(path)),
        link => link,
    }
}

/// Elsewhere than on Unix this is not known, and everything counts as this user's.
#[cfg(not(unix))]
pub fn ownership(path: &Path) -> Ownership {
    if path.exists() { Ownership::Ours } else { Ownership::Unknown }
}

/// Says whether a file or folder is this user's, or root's.
pub fn is_ours(path: &Path) -> bool {
    ownership(path) == Ownership::Ours
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn what_this_user_made_is_ours() {
        let dir = tempfile::tempdir().unwrap();
        assert!(is_ours(dir.path()));
        assert!(is_ours(Path::new("/")), "root's");
        assert_eq!(ownership(&dir.path().join("missing")), Ownership::Unknown);
    }

    #[test]
    fn a_file_of_another_user_is_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "").unwrap();
        // Only root may give a file away.
        if std::os::unix::fs::chown(&file, Some(65_534), None).is_err() || user() != 0 {
            return;
        }
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(ownership(&file), Ownership::Other(65_534));
        assert_eq!(ownership(&link), Ownership::Other(65_534));
    }
}
