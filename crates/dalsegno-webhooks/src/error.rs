//! Why webhooks cannot be used.

use std::io;
use std::path::PathBuf;

/// Why the file of webhooks cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or its folder cannot be used.
    #[error("cannot open `{}`, a file of webhooks", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file belongs to another user.
    #[error("`{}`, a file of webhooks, belongs to another user", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// Another program's file.
    #[error("`{}` is not a file of webhooks", path.display())]
    Foreign {
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
    /// The key is not the one that the secrets of the endpoints were made with.
    #[error("`{}` is not the key that the secrets of the webhooks were made with", path.display())]
    OtherKey {
        /// The file of the key.
        path: PathBuf,
    },
    /// What was copied is not what was there.
    #[error("`{}`, a copy of the webhooks, is damaged, as what it was copied from is", path.display())]
    Damaged {
        /// The copy.
        path: PathBuf,
    },
    /// The database failed.
    #[error("cannot use `{}`, the file of webhooks", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

/// Why a webhook cannot be added, listed or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// There is no such webhook.
    #[error("there is no webhook `{id}`: see `dalsegno webhook list`")]
    Unknown {
        /// The id that was given.
        id: String,
    },
    /// The id is the beginning of several ones.
    #[error("`{id}` is the beginning of several webhooks: {}", found.join(", "))]
    Ambiguous {
        /// What was given.
        id: String,
        /// The ids that begin so.
        found: Vec<String>,
    },
    /// It wants no event.
    #[error("a webhook needs at least one event")]
    NoEvent,
    /// The name is none.
    #[error("the name of a webhook has 1 to 64 characters without control characters")]
    Name,
    /// The tenant has as many webhooks as it may have.
    #[error("there are {most} webhooks already, which is the maximum for each tenant and for all tenants")]
    TooMany {
        /// The most.
        most: u32,
    },
    /// An entry of the file cannot be read.
    #[error("the webhook `{id}` is damaged in its file: restore `webhooks.db` from a backup")]
    Damaged {
        /// Its id.
        id: String,
    },
    /// The system gave no random bytes.
    #[error("the system gave no random bytes for the webhook")]
    Random {
        /// Why.
        source: getrandom::Error,
    },
    /// The database failed.
    #[error("the file of webhooks cannot be read or written")]
    Storage(#[from] rusqlite::Error),
}
