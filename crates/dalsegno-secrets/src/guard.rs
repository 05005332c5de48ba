//! Files that nobody but their owner may read.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// What others than the owner may do with a file that should be nobody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "may be used by others than its owner (mode {mode:04o}, expected 0600); run `chmod 600` on it, and \
         consider what it holds known to those others"
)]
pub struct TooOpen {
    /// The permissions, as of `chmod`.
    pub mode: u32,
}

/// Makes a file that only its owner may read and write; an existing one is an error.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Checks that a file is its owner's alone. Elsewhere than on Unix the folder's own rules have to do.
#[cfg(unix)]
pub(crate) fn check(metadata: &Metadata) -> Result<(), TooOpen> {
    let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o7777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(TooOpen { mode }) }
}

/// Checks that a file is its owner's alone. Elsewhere than on Unix the folder's own rules have to do.
#[cfg(not(unix))]
pub(crate) fn check(_metadata: &Metadata) -> Result<(), TooOpen> {
    Ok(())
}
