//! Why a file cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a file cannot be opened, made or copied. `what` says what the file is to its users: "the file of access keys".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or its folder cannot be used.
    #[error("cannot open `{}`, {what}", path.display())]
    File {
        /// What it is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file belongs to another user.
    #[error("`{}`, {what}, belongs to another user", path.display())]
    NotOurs {
        /// What it is.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The file holds something else.
    #[error("`{}` is not {what}", path.display())]
    Foreign {
        /// What it is not.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A newer release wrote it.
    #[error("`{}` has version {found}, and this release reads version {known}: use a newer release", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version of this release.
        known: i64,
    },
    /// What was copied is not what was there.
    #[error("`{}`, a copy of {what}, is damaged, as what it was copied from is", path.display())]
    Damaged {
        /// What was copied.
        what: &'static str,
        /// The copy.
        path: PathBuf,
    },
    /// The database failed.
    #[error("cannot use `{}`, {what}", path.display())]
    Storage {
        /// What it is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}
