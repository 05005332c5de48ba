//! How far long work has come.

/// How far a check or a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is done.
    pub done: u64,
    /// What there is in all: runs for a check, pages of the file for a copy.
    pub total: u64,
}
