//! Which handshake a server understands.

use std::sync::atomic::{AtomicU8, Ordering};

use rmcp::model::ProtocolVersion;
use rmcp::service::ClientLifecycleMode;

/// Which handshake a server understands. It is learned from the first connection and saves the others a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// Nobody has asked yet.
    Unknown,
    /// `server/discover`, then requests that stand for themselves.
    Modern,
    /// `initialize` first.
    Legacy,
}

impl Era {
    /// The era of a revision that was agreed on.
    pub fn of(version: &ProtocolVersion) -> Self {
        if version.has_initialize() { Self::Legacy } else { Self::Modern }
    }

    /// How a connection begins.
    pub fn lifecycle(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Unknown => ClientLifecycleMode::Auto {
                preferred_versions,
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Self::Modern => ClientLifecycleMode::Discover { preferred_versions },
            Self::Legacy => ClientLifecycleMode::Initialize,
        }
    }
}

/// The era of a server as far as it is known, shared by its connections.
#[derive(Debug, Default)]
pub struct LearnedEra(AtomicU8);

impl LearnedEra {
    /// What is known now.
    pub fn get(&self) -> Era {
        match self.0.load(Ordering::Relaxed) {
            MODERN => Era::Modern,
            LEGACY => Era::Legacy,
            _ => Era::Unknown,
        }
    }

    /// Notes what was learned.
    pub fn learn(&self, era: Era) {
        let code = match era {
            Era::Unknown => UNKNOWN,
            Era::Modern => MODERN,
            Era::Legacy => LEGACY,
        };
        self.0.store(code, Ordering::Relaxed);
    }
}

const UNKNOWN: u8 = 0;
const MODERN: u8 = 1;
const LEGACY: u8 = 2;
