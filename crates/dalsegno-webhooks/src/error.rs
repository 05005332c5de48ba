//! Why webhooks cannot be used.

use std::path::PathBuf;

/// Why the file of webhooks, or the key of their secrets, cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// One of the files cannot be opened, made or copied.
    #[error(transparent)]
    File(#[from] dalsegno_database::OpenError),
    /// The key is not the one that the secrets of the endpoints were made with.
    #[error("`{}` is not the key that the secrets of the webhooks were made with", path.display())]
    OtherKey {
        /// The file of the key.
        path: PathBuf,
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
