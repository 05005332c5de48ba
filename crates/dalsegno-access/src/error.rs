//! Why keys cannot be used.

/// Why keys cannot be added, listed or revoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no such key.
    #[error("there is no access key `{id}`: see `dalsegno key list`")]
    Unknown {
        /// The id that was given.
        id: String,
    },
    /// The id is the beginning of several ones.
    #[error("`{id}` is the beginning of several access keys: {}", found.join(", "))]
    Ambiguous {
        /// What was given.
        id: String,
        /// The ids that begin so.
        found: Vec<String>,
    },
    /// A key without scopes allows nothing.
    #[error("an access key needs at least one scope")]
    NoScope,
    /// The name is none.
    #[error(
        "the name of an access key has 1 to 64 visible characters, and is not that of a browser's session"
    )]
    Name,
    /// An entry of the file cannot be read.
    #[error("the access key `{id}` is damaged in its file: revoke it, and make a new one")]
    Damaged {
        /// Its id.
        id: String,
    },
    /// The system gave no random bytes.
    #[error("the system gave no random bytes for the key")]
    Random {
        /// Why.
        source: getrandom::Error,
    },
    /// The database failed.
    #[error("the file of access keys cannot be read or written")]
    Storage(#[from] rusqlite::Error),
}

/// Why a key or a token that a client showed is not good.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It is no key, or none that is known.
    #[error("the access key is unknown")]
    Unknown,
    /// It was revoked.
    #[error("the access key was revoked")]
    Revoked,
    /// Its time is over.
    #[error("the access key has expired")]
    Expired,
    /// The token is not one that is accepted. Why, only the log says.
    #[error("the token is not accepted")]
    Token,
    /// The time of the token is over.
    #[error("the token has expired")]
    TokenExpired,
    /// The keys of the issuer cannot be had, so that nothing can be said of the token.
    #[error("the identity provider cannot be asked for its keys now")]
    Issuer,
    /// Whether it is good cannot be said now.
    #[error("the access key cannot be checked now")]
    Unavailable(#[source] KeyError),
}
