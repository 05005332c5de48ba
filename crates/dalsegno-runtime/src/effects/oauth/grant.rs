//! What consent brings, as it is kept.

use serde::{Deserialize, Serialize};

use dalsegno_core::Timestamp;
use dalsegno_secrets::Secret;

/// How long before its end a token is refreshed: longer than a call takes, so that none ends on the way.
const AHEAD_MS: u64 = 60_000;

/// The tokens of one access. It is written as JSON, in one secret of the store.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Grant {
    /// Goes with requests.
    pub(super) access_token: String,
    /// Gets the next access token; none where the service gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// When the access token came, in milliseconds since the epoch.
    pub(super) obtained_at: u64,
    /// When it ends; never, or nobody says, where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
    /// What it is good for, as the service says; what was asked for where it says nothing.
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    /// Until when a process that refreshes it is waited for. A refresh token may be good for a single use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claimed_until: Option<u64>,
}

impl Grant {
    /// Reads what the store has; nothing of use where it is no grant.
    pub(super) fn read(value: &Secret) -> Option<Self> {
        serde_json::from_str(value.expose()).ok()
    }

    /// What the store keeps.
    pub(super) fn write(&self) -> Secret {
        // Its fields are texts and numbers, which JSON takes.
        Secret::new(&serde_json::to_string(self).unwrap_or_default())
    }

    pub(super) fn access(&self) -> Secret {
        Secret::new(&self.access_token)
    }

    /// Says whether the access token is still taken at this time.
    pub(super) fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now.as_millis() < end)
    }

    /// Says whether it is so for a while. Of a short-lived token the last quarter of its life is left for the refresh.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| {
            let ahead = AHEAD_MS.min(end.saturating_sub(self.obtained_at) / 4);
            now.as_millis() < end.saturating_sub(ahead)
        })
    }

    /// How long somebody else is to be waited for, in milliseconds.
    pub(super) fn claimed(&self, now: Timestamp) -> Option<u64> {
        let left = self.claimed_until?.saturating_sub(now.as_millis());
        (left > 0).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(lifetime_ms: u64) -> Grant {
        Grant {
            access_token: "a".to_owned(),
            refresh_token: None,
            obtained_at: 1_000_000,
            expires_at: Some(1_000_000 + lifetime_ms),
            scopes: Vec::new(),
            claimed_until: None,
        }
    }

    #[test]
    fn a_token_is_refreshed_a_minute_before_its_end() {
        let grant = grant(3_600_000);
        let at = |ms: u64| Timestamp::from_millis(1_000_000 + ms);
        assert!(grant.is_fresh(at(3_539_999)));
        assert!(!grant.is_fresh(at(3_540_000)) && grant.is_valid(at(3_540_000)));
        assert!(!grant.is_valid(at(3_600_000)));
    }

    #[test]
    fn a_token_of_a_minute_is_not_refreshed_at_once() {
        let grant = grant(60_000);
        assert!(grant.is_fresh(Timestamp::from_millis(1_044_999)));
        assert!(!grant.is_fresh(Timestamp::from_millis(1_045_000)));
    }

    #[test]
    fn what_is_written_is_read() {
        let written = Grant { refresh_token: Some("r".to_owned()), ..grant(5) }.write();
        let read = Grant::read(&written).unwrap();
        assert_eq!((read.access_token.as_str(), read.refresh_token.as_deref()), ("a", Some("r")));
        assert!(Grant::read(&Secret::new("a value that somebody put there")).is_none());
    }
}
