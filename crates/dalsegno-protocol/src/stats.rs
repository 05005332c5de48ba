//! The state of a server in the sandbox: what it holds, what it did, what it was refused.

use std::collections::BTreeMap;

use crate::denial::DenialKind;

/// A server as it is now. Numbers count from the moment it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStats {
    /// What it does.
    pub state: ServerState,
    /// Instances that are alive.
    pub instances: u64,
    /// Instances that were ever started.
    pub started: u64,
    /// Calls that are under way.
    pub busy: u64,
    /// Calls that have ended, failed ones included.
    pub calls: u64,
    /// Calls that ended without an answer.
    pub failures: u64,
    /// Bytes of linear memory that the live instances hold.
    pub memory: u64,
    /// The most bytes of linear memory that one instance ever held.
    pub memory_peak: u64,
    /// What was refused, by kind; kinds without a refusal are absent.
    pub denials: BTreeMap<DenialKind, u64>,
}

/// What a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// It is loaded and has no instance.
    Cold,
    /// It has instances, and all wait.
    Idle,
    /// A call is under way.
    Busy,
}

impl ServerState {
    /// The name, for people and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Idle => "idle",
            Self::Busy => "busy",
        }
    }
}
