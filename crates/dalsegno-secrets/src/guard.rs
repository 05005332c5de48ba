//! Files that nobody but their owner may read.

use std::fs::Metadata;

/// What others than the owner may do with a file that should be nobody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "can be read by other users (mode {mode:04o}, expected 0600); run `chmod 600` on it, and \
         replace the secrets in it"
)]
pub struct TooOpen {
    /// The permissions, as of `chmod`.
    pub mode: u32,
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
