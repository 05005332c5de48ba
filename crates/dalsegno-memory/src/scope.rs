//! Who asks, for how wide a scope, and which scopes that reaches.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::{self, NameError};

/// Who asks: one agent in one session, in one workspace of one tenant.
///
/// All four names are checked when it is made, so that resolving a scope cannot fail.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    tenant: String,
    workspace: String,
    agent: String,
    session: String,
}

impl Principal {
    /// Names who asks.
    ///
    /// # Errors
    /// Says which of the four is not a name: empty, over 256 bytes, or holding control characters.
    pub fn new(tenant: &str, workspace: &str, agent: &str, session: &str) -> Result<Self, PrincipalError> {
        for (part, name) in
            [("tenant", tenant), ("workspace", workspace), ("agent", agent), ("session", session)]
        {
            name::check(name).map_err(|problem| PrincipalError { part, problem })?;
        }
        Ok(Self {
            tenant: tenant.to_owned(),
            workspace: workspace.to_owned(),
            agent: agent.to_owned(),
            session: session.to_owned(),
        })
    }

    /// The tenant: the border that nothing crosses.
    #[must_use]
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The workspace within the tenant.
    #[must_use]
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// The agent within the workspace.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The session of that agent.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }
}

/// A part of a principal that is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {part} {problem}")]
pub struct PrincipalError {
    part: &'static str,
    problem: NameError,
}

/// How widely a memory is shared, from the narrowest to the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One session of one agent.
    Session,
    /// All sessions of one agent in one workspace.
    Agent,
    /// All agents of one workspace.
    Workspace,
    /// All workspaces of one tenant.
    Tenant,
}

impl Scope {
    /// All scopes, from the narrowest to the widest.
    pub const ALL: [Self; 4] = [Self::Session, Self::Agent, Self::Workspace, Self::Tenant];

    /// The name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Agent => "agent",
            Self::Workspace => "workspace",
            Self::Tenant => "tenant",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| UnknownScope { given: text.chars().take(64).collect() })
    }
}

/// A word that names no scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope `{given}`, expected `session`, `agent`, `workspace` or `tenant`")]
pub struct UnknownScope {
    given: String,
}

/// Turns a principal and a requested scope into the scopes it reaches.
///
/// This is the only place where that is decided, and the only maker of [`ScopeSet`].
///
/// | requested | reads | writes |
/// | --- | --- | --- |
/// | `session` | this session | this session |
/// | `agent` | this agent, this session | this agent |
/// | `workspace` | this workspace, this agent, this session | this workspace |
/// | `tenant` | this tenant, this workspace, this agent, this session | this tenant |
///
/// So a wider request also sees what the principal itself keeps more narrowly, and a narrow one never sees
/// more than was asked for. Agents of the same name in two workspaces are two agents; sessions of the same
/// name under two agents are two sessions.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScopeResolver;

impl ScopeResolver {
    /// Returns what the principal reads and writes when it asks for that scope.
    #[must_use]
    pub fn resolve(&self, principal: &Principal, requested: Scope) -> ScopeSet {
        let read = Scope::ALL
            .into_iter()
            .filter(|level| *level <= requested)
            .map(|level| ScopeKey::of(principal, level))
            .collect();
        ScopeSet { read, write: ScopeKey::of(principal, requested) }
    }
}

/// The scopes that one operation may read, and the one it writes.
///
/// Nothing but [`ScopeResolver::resolve`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeSet {
    read: Vec<ScopeKey>,
    write: ScopeKey,
}

impl ScopeSet {
    /// The scope that a write goes to.
    #[must_use]
    pub fn written(&self) -> Scope {
        self.write.level
    }

    /// The keys of all readable scopes.
    pub(crate) fn read_keys(&self) -> &[ScopeKey] {
        &self.read
    }

    /// The key of the writable scope.
    pub(crate) fn write_key(&self) -> &ScopeKey {
        &self.write
    }
}

/// One scope as it is stored: names that do not matter at its level are empty, which no principal's name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScopeKey {
    pub(crate) level: Scope,
    pub(crate) tenant: String,
    pub(crate) workspace: String,
    pub(crate) agent: String,
    pub(crate) session: String,
}

impl ScopeKey {
    fn of(principal: &Principal, level: Scope) -> Self {
        let within =
            |widest: Scope, name: &str| if level <= widest { name.to_owned() } else { String::new() };
        Self {
            level,
            tenant: principal.tenant.clone(),
            workspace: within(Scope::Workspace, &principal.workspace),
            agent: within(Scope::Agent, &principal.agent),
            session: within(Scope::Session, &principal.session),
        }
    }

    /// The five parts in their order, for the columns of a row or a hash.
    pub(crate) fn parts(&self) -> [&str; 5] {
        [self.level.as_str(), &self.tenant, &self.workspace, &self.agent, &self.session]
    }
}

#[cfg(test)]
mod tests {
    use super::{Principal, Scope, ScopeResolver};

    fn parts(requested: Scope) -> (Vec<String>, String) {
        let principal = Principal::new("t", "w", "a", "s").unwrap();
        let scopes = ScopeResolver.resolve(&principal, requested);
        let read = scopes.read_keys().iter().map(|key| key.parts().join("/")).collect();
        (read, scopes.write_key().parts().join("/"))
    }

    #[test]
    fn a_request_reads_its_own_scope_and_narrower_and_writes_its_own() {
        let all = ["session/t/w/a/s", "agent/t/w/a/", "workspace/t/w//", "tenant/t///"];
        for (index, scope) in Scope::ALL.into_iter().enumerate() {
            let (read, write) = parts(scope);
            assert_eq!(read, all[..=index], "{scope}");
            assert_eq!(write, all[index], "{scope}");
        }
    }

    #[test]
    fn a_scope_is_written_as_it_is_read() {
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse(), Ok(scope));
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
        }
        let error = "Workspace".parse::<Scope>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown scope `Workspace`, expected `session`, `agent`, `workspace` or `tenant`"
        );
    }

    #[test]
    fn a_principal_says_which_name_is_missing() {
        let error = Principal::new("t", "w", "", "s").unwrap_err();
        assert_eq!(error.to_string(), "the agent is empty, expected 1 to 256 bytes");
    }
}
