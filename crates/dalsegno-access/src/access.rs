//! What a checked credential gives.

use std::collections::BTreeSet;

use crate::scope::Scope;
use crate::ticket::SESSIONS;

/// Whose runs a key reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Those of one tenant.
    Tenant(String),
    /// Those of all tenants.
    All,
}

impl Reach {
    /// As it is written: the tenant's name, or `*`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tenant(tenant) => tenant,
            Self::All => "*",
        }
    }
}

/// What a client may do, from a credential that was checked. Nothing else makes one.
#[derive(Debug, Clone)]
pub struct Access {
    pub(crate) key: String,
    pub(crate) name: Option<String>,
    pub(crate) reach: Reach,
    pub(crate) scopes: BTreeSet<Scope>,
    /// When the token ends that it is from, in milliseconds since the epoch; none for that of a key.
    pub(crate) token_ends: Option<u64>,
}

impl Access {
    /// The id of the key, or of who holds the token.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The name of the key, if it has one, or that in the token.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Who acts, as it is recorded: the name and the id.
    pub fn actor(&self) -> String {
        let kind = if self.token_ends.is_some() { "token" } else { "key" };
        match &self.name {
            Some(name) => format!("{name} ({kind} {})", self.key),
            None => format!("{kind} {}", self.key),
        }
    }

    /// When it ends, in milliseconds since the epoch, if it is from a token. That of a key ends when the key does.
    pub fn token_ends(&self) -> Option<u64> {
        self.token_ends
    }

    /// Says whether its key is the one of a browser that signed in with a ticket or by an identity provider.
    pub fn is_session(&self) -> bool {
        self.token_ends.is_none() && self.name.as_deref().is_some_and(|name| name.starts_with(SESSIONS))
    }

    /// Says whether it allows something.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Says whether what belongs to this tenant is in reach.
    pub fn sees(&self, tenant: &str) -> bool {
        match &self.reach {
            Reach::All => true,
            Reach::Tenant(own) => own == tenant,
        }
    }

    /// The only tenant that is in reach; none where all are.
    pub fn tenant(&self) -> Option<&str> {
        match &self.reach {
            Reach::All => None,
            Reach::Tenant(own) => Some(own),
        }
    }
}
