//! How much is kept.

/// How many documents of a kind there may be, and how large they may be together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Most documents in use.
    pub documents: u64,
    /// Most bytes of them together.
    pub bytes: u64,
}

/// How much is kept. Each bound keeps one party from taking the disk or the time of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of one document: 256 KiB by default.
    pub document: u64,
    /// The agents, the tools and the tenants of the workspace, each: 1,000 documents and 16 MiB by default.
    pub workspace: Room,
    /// The tools of one tenant: 200 documents and 2 MiB by default.
    pub tenant: Room,
    /// Most versions of one document that are kept, the one in use included: 100 by default. The oldest are dropped.
    pub versions: u64,
    /// Most bytes of these versions: 2 MiB by default. The one in use is always kept.
    pub version_bytes: u64,
    /// Most deleted documents of a kind whose versions are kept: 200 by default. Those that were deleted first are dropped.
    pub deleted: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            document: 256 << 10,
            workspace: Room { documents: 1_000, bytes: 16 << 20 },
            tenant: Room { documents: 200, bytes: 2 << 20 },
            versions: 100,
            version_bytes: 2 << 20,
            deleted: 200,
        }
    }
}
