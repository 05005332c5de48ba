//! Tickets: what an operator signs a browser in with, once and within minutes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use data_encoding::HEXLOWER;

use crate::access::{Access, Reach};
use crate::error::KeyError;
use crate::key::{Key, KeyEntry, NewKey, random};
use crate::scope::Scope;
use crate::store::KeyStore;

/// How long a ticket is good, in milliseconds.
pub const TICKET_LASTS: u64 = 5 * 60 * 1_000;
/// How long a browser stays signed in with a ticket, in milliseconds.
pub const SESSION_LASTS: u64 = 12 * 60 * 60 * 1_000;
/// How the names of all keys begin that browsers have, and no others.
pub(crate) const SESSIONS: &str = "browser (";
/// The name of the keys that tickets become, as `dalsegno key list` shows it.
pub const SESSION_NAME: &str = "browser (sign-in link)";

/// The digits of a ticket: 256 random bits.
const TICKET: usize = 64;

/// The tickets of one process. They are kept in memory, as their hashes: a process that ends takes them along.
#[derive(Debug, Default)]
pub struct Tickets {
    /// When each one ends, in milliseconds since the epoch.
    open: Mutex<BTreeMap<[u8; 32], u64>>,
}

/// Why a ticket signs no browser in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoEntry {
    /// It was used, its time is over, or it is none. Which one it is, no client learns.
    #[error("the sign-in link was used before, or is older than five minutes")]
    Over,
    /// The key of the session cannot be made.
    #[error(transparent)]
    Keys(#[from] KeyError),
}

/// What a session that came from a ticket may do: what the pages offer, and no more.
const SESSION_SCOPES: [Scope; 6] = [
    Scope::RunsList,
    Scope::RunsRead,
    Scope::RunsWrite,
    Scope::AnswersWrite,
    Scope::AgentsRead,
    Scope::ToolsRead,
];

impl KeyStore {
    /// Makes the key of a browser whose user an identity provider signed in: of the same reach and scopes as the token, for
    /// [`SESSION_LASTS`].
    ///
    /// # Errors
    /// When the token allows nothing, or the key cannot be written.
    pub fn add_session(&self, access: &Access, now: u64) -> Result<(KeyEntry, Key), KeyError> {
        if access.scopes.is_empty() {
            return Err(KeyError::NoScope);
        }
        let name = Some(format!("{SESSIONS}{})", access.name().unwrap_or_else(|| access.key())));
        let expires_at = Some(now.saturating_add(SESSION_LASTS));
        let new = NewKey { name, reach: access.reach.clone(), scopes: access.scopes.clone(), expires_at };
        self.insert(&new, now)
    }

    /// Makes the key of a browser whose user signed in with a key: of the same reach and scopes, for [`SESSION_LASTS`] and no longer than
    /// that key. It is revoked with it.
    ///
    /// # Errors
    /// When there is no such key, or the new one cannot be written.
    pub fn add_session_of_key(&self, access: &Access, now: u64) -> Result<(KeyEntry, Key), KeyError> {
        let id = access.key();
        let known = self.find(id)?.ok_or_else(|| KeyError::Unknown { id: id.to_owned() })?;
        let end = now.saturating_add(SESSION_LASTS);
        let expires_at = Some(known.entry.expires_at.map_or(end, |expires_at| expires_at.min(end)));
        let name = Some(session_of(id));
        let new = NewKey { name, reach: access.reach.clone(), scopes: access.scopes.clone(), expires_at };
        self.insert(&new, now)
    }
}

/// The name of the keys of browsers whose users signed in with this key.
pub(crate) fn session_of(key: &str) -> String {
    format!("{SESSIONS}key {key})")
}

impl Tickets {
    /// Makes a ticket, `now` in milliseconds since the epoch.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn issue(&self, now: u64) -> Result<String, KeyError> {
        let ticket = random::<{ TICKET / 2 }>().map_err(|source| KeyError::Random { source })?;
        let ticket = HEXLOWER.encode(&ticket);
        let mut open = self.open();
        open.retain(|_, end| *end > now);
        open.insert(hash(&ticket), now.saturating_add(TICKET_LASTS));
        Ok(ticket)
    }

    /// Takes a ticket and makes the key of a session for it. The ticket is good for nothing from then on.
    ///
    /// The session is a key like any other: it is listed, revoked and expires as keys do. It reaches all tenants, since who starts a
    /// server owns the workspace, and has the scopes of what the pages do.
    ///
    /// # Errors
    /// When the ticket is not good, or the key cannot be written.
    pub fn redeem(&self, ticket: &str, keys: &KeyStore, now: u64) -> Result<(KeyEntry, Key), NoEntry> {
        // What is looked up is a hash, of which no client learns a part from the time that it takes.
        let end = self.open().remove(&hash(ticket)).ok_or(NoEntry::Over)?;
        if end <= now {
            return Err(NoEntry::Over);
        }
        let scopes = SESSION_SCOPES.into_iter().collect();
        let expires_at = Some(now.saturating_add(SESSION_LASTS));
        let new = NewKey { name: Some(SESSION_NAME.to_owned()), reach: Reach::All, scopes, expires_at };
        Ok(keys.insert(&new, now)?)
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], u64>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(ticket: &str) -> [u8; 32] {
    *blake3::hash(ticket.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once_and_for_five_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let keys = KeyStore::open(folder.path().join("access.db")).unwrap();
        let tickets = Tickets::default();
        let ticket = tickets.issue(1_000).unwrap();
        assert_eq!(ticket.len(), TICKET);
        assert!(!format!("{tickets:?}").contains(&ticket), "only its hash is kept");
        assert!(matches!(tickets.redeem("", &keys, 1_000), Err(NoEntry::Over)));
        let (entry, key) = tickets.redeem(&ticket, &keys, 1_000 + TICKET_LASTS - 1).unwrap();
        assert!(matches!(tickets.redeem(&ticket, &keys, 1_000), Err(NoEntry::Over)), "used");
        let access = keys.check(key.expose(), 1_000 + TICKET_LASTS).unwrap();
        assert!(access.tenant().is_none());
        let scopes: Vec<Scope> = Scope::ALL.iter().copied().filter(|scope| access.may(*scope)).collect();
        assert!(scopes.len() == SESSION_SCOPES.len() && access.may(Scope::AnswersWrite), "{scopes:?}");
        assert!(!access.may(Scope::RunsErase) && !access.may(Scope::TenantsAdmin), "{scopes:?}");
        // No other key looks like a session: it would be revoked when its user signs out.
        let (name, scopes) = (Some(SESSION_NAME.to_owned()), SESSION_SCOPES.into_iter().collect());
        let named = NewKey { name, scopes, ..NewKey::default() };
        assert!(matches!(keys.add(&named, 1_000), Err(KeyError::Name)));
        assert_eq!(entry.expires_at, Some(1_000 + TICKET_LASTS - 1 + SESSION_LASTS));
        let late = tickets.issue(1_000).unwrap();
        assert!(matches!(tickets.redeem(&late, &keys, 1_000 + TICKET_LASTS), Err(NoEntry::Over)), "expired");
        assert_eq!(keys.list().unwrap().len(), 1, "only a good ticket becomes a key");
    }
}
