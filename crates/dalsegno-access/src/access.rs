//! What a checked credential gives.

use std::collections::BTreeSet;

use crate::scope::Scope;
use crate::ticket::SESSION_NAME;

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
}

impl Access {
    /// The id of the key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The name of the key, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Who acts, as it is recorded: the name of the key, else its id.
    pub fn actor(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} (key {})", self.key),
            None => format!("key {}", self.key),
        }
    }

    /// Says whether its key is the one of a browser that signed in with a ticket.
    pub fn is_session(&self) -> bool {
        self.name.as_deref() == Some(SESSION_NAME)
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
