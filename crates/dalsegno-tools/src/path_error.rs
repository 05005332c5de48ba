//! Why a path cannot be read or written.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// Says why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is not a path: {reason}")]
pub struct PathError {
    pub(crate) path: String,
    pub(crate) reason: String,
}

/// Says why a value cannot be written where a path leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WriteError {
    /// `[+]` or an index on something else.
    #[error("`{path}` is {found}, not a list")]
    NotAList {
        /// Where.
        path: String,
        /// The type that stands there.
        found: String,
    },
    /// A name below something that has no names.
    #[error("`{path}` is {found}, not an object")]
    NotAnObject {
        /// Where.
        path: String,
        /// The type that stands there.
        found: String,
    },
    /// An index past the end.
    #[error("`{path}` has no item {index}: `[+]` appends")]
    NoSuchItem {
        /// The list.
        path: String,
        /// The index.
        index: usize,
    },
    /// The path may not be written.
    #[error("`{path}` cannot be written: {reason}")]
    ReadOnly {
        /// The path.
        path: String,
        /// Why.
        reason: String,
    },
    /// The session would grow too large.
    #[error("the session would hold more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
}

impl WriteError {
    /// The reason in one word, as a trace shows it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotAList { .. } => "not_a_list",
            Self::NotAnObject { .. } => "not_an_object",
            Self::NoSuchItem { .. } => "no_such_item",
            Self::ReadOnly { .. } => "read_only",
            Self::TooLarge { .. } => "too_large",
        }
    }
}
