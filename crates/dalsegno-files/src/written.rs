//! Making files and folders.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// Makes a folder, and those above it that are missing, for their owner only (0700). One that is there stays as it is.
///
/// # Errors
/// When one of them cannot be made, or something else stands there.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes a file that only its owner may read and write (0600), and opens it to be written.
///
/// # Errors
/// When something stands there already, a symbolic link included, or the file cannot be made.
pub fn create_new(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().write(true).create_new(true)).open(path)
}

/// Opens a file to be written, which is made for its owner only (0600) when it is missing. What it holds stays.
///
/// # Errors
/// When it cannot be made or opened.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().write(true).create(true).truncate(false)).open(path)
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Makes an empty file for its owner only (0600), for a database that another library opens. Says whether it was made: one
/// that is there stays as it is.
///
/// No handle of the file is ever open here. Closing one would drop the locks that this process holds on the file.
///
/// # Errors
/// When the file cannot be made.
pub fn reserve(path: &Path) -> io::Result<bool> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(false);
    }
    let empty = beside(path, 0o600)?.into_temp_path();
    match empty.persist_noclobber(path) {
        Ok(()) => Ok(true),
        Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(failed) => Err(failed.error),
    }
}

/// Writes a new file for its owner only (0600), as a whole or not at all.
///
/// # Errors
/// When something stands there already, or the file cannot be written.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = filled(path, 0o600, bytes)?;
    file.persist_noclobber(path).map(drop).map_err(|failed| failed.error)
}

/// Writes a file for its owner only (0600), as a whole or not at all, in the place of one that may be there. Of a symbolic link
/// the link is replaced, and not what it leads to.
///
/// # Errors
/// When the file cannot be written; what stood there is as it was.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = filled(path, 0o600, bytes)?;
    file.persist(path).map(drop).map_err(|failed| failed.error)
}

/// Writes a file that people share, as a whole or not at all. It gets the rights of the one in whose place it is put, else
/// those that the umask leaves.
///
/// # Errors
/// When a symbolic link stands there, or the file cannot be written; what stood there is as it was.
pub fn replace_shared(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let old = match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            return Err(io::Error::other("it is a symbolic link: remove it, or put a file in its place"));
        }
        Ok(found) => Some(found),
        Err(_) => None,
    };
    let file = filled(path, 0o666, bytes)?;
    if let Some(old) = old {
        file.as_file().set_permissions(old.permissions())?;
    }
    file.persist(path).map(drop).map_err(|failed| failed.error)
}

/// A file with these bytes, safe on the disk, under a name of its own beside another. It is removed unless it is put in its place.
fn filled(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = beside(path, mode)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn beside(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = Builder::new();
    builder.prefix(".dalsegno-").suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    builder.tempfile_in(folder)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        make_folder(&at("a/b")).unwrap();
        assert_eq!((mode(&at("a")), mode(&at("a/b"))), (0o700, 0o700));
        create_new(&at("new")).unwrap();
        open_or_create(&at("opened")).unwrap();
        assert!(reserve(&at("reserved")).unwrap());
        write_new(&at("written"), b"one").unwrap();
        replace(&at("replaced"), b"one").unwrap();
        for name in ["new", "opened", "reserved", "written", "replaced"] {
            assert_eq!(mode(&at(name)), 0o600, "{name}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6, "nothing is left beside them");
    }

    #[test]
    fn what_is_there_stays_unless_it_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "old").unwrap();
        assert!(!reserve(&file).unwrap());
        assert_eq!(write_new(&file, b"new").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(create_new(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        open_or_create(&file).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"old");
        replace(&file, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, link) = (dir.path().join("victim"), dir.path().join("link"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        assert!(!reserve(&link).unwrap());
        assert!(create_new(&link).is_err() && write_new(&link, b"x").is_err());
        let refused = replace_shared(&link, b"x").unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        replace(&link, b"x").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_shared_file_keeps_its_rights() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("dalsegno.lock");
        replace_shared(&file, b"one").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        replace_shared(&file, b"two").unwrap();
        assert_eq!((mode(&file), fs::read(&file).unwrap()), (0o640, b"two".to_vec()));
    }
}
