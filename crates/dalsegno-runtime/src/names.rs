//! Names that stand for what has no name of its own.

/// The workspace's own name inside its memory file, which no other workspace shares.
pub(crate) const WORKSPACE: &str = "workspace";

/// The tenant of a run without one.
pub(crate) const DEFAULT_TENANT: &str = "default";
