//! What a key allows.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// One thing that a key may allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[non_exhaustive]
pub enum Scope {
    /// To list runs, without what they were asked.
    #[serde(rename = "runs:list")]
    RunsList,
    /// To read runs: requests, records, answers, and what they wait for.
    #[serde(rename = "runs:read")]
    RunsRead,
    /// To start, fork, pause and cancel runs.
    #[serde(rename = "runs:write")]
    RunsWrite,
    /// To erase the content of runs, for ever.
    #[serde(rename = "runs:erase")]
    RunsErase,
    /// To answer what runs wait for, approvals included.
    #[serde(rename = "answers:write")]
    AnswersWrite,
    /// To list the agents; with a key of all tenants, to read their documents.
    #[serde(rename = "agents:read")]
    AgentsRead,
    /// To check, change and delete the documents of agents; only with a key of all tenants.
    #[serde(rename = "agents:write")]
    AgentsWrite,
    /// To list tools, and to read the documents of tools and tenants.
    #[serde(rename = "tools:read")]
    ToolsRead,
    /// To check, try, change and delete the documents of tools, and to change those of tenants but for what `tenants:admin` is for.
    #[serde(rename = "tools:write")]
    ToolsWrite,
    /// To add and delete tenants, and to change which hosts they reach and what they may spend.
    #[serde(rename = "tenants:admin")]
    TenantsAdmin,
    /// To list webhooks, and how their deliveries are going.
    #[serde(rename = "webhooks:read")]
    WebhooksRead,
    /// To add, test, change and remove webhooks: who receives how runs stand, and with `runs:read` what they say.
    #[serde(rename = "webhooks:write")]
    WebhooksWrite,
    /// To read the metrics of the process, which are of all tenants.
    #[serde(rename = "metrics:read")]
    MetricsRead,
}

impl Scope {
    /// Every scope.
    pub const ALL: &[Self] = &[
        Self::RunsList,
        Self::RunsRead,
        Self::RunsWrite,
        Self::RunsErase,
        Self::AnswersWrite,
        Self::AgentsRead,
        Self::AgentsWrite,
        Self::ToolsRead,
        Self::ToolsWrite,
        Self::TenantsAdmin,
        Self::WebhooksRead,
        Self::WebhooksWrite,
        Self::MetricsRead,
    ];

    /// The scope as it is written, such as `runs:read`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RunsList => "runs:list",
            Self::RunsRead => "runs:read",
            Self::RunsWrite => "runs:write",
            Self::RunsErase => "runs:erase",
            Self::AnswersWrite => "answers:write",
            Self::AgentsRead => "agents:read",
            Self::AgentsWrite => "agents:write",
            Self::ToolsRead => "tools:read",
            Self::ToolsWrite => "tools:write",
            Self::TenantsAdmin => "tenants:admin",
            Self::WebhooksRead => "webhooks:read",
            Self::WebhooksWrite => "webhooks:write",
            Self::MetricsRead => "metrics:read",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a scope: expected one of {}", Scope::ALL.iter().map(|scope| format!("`{scope}`")).collect::<Vec<_>>().join(", "))]
pub struct UnknownScope {
    given: String,
}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let known = Self::ALL.iter().copied().find(|scope| scope.as_str() == text);
        known.ok_or_else(|| UnknownScope { given: text.to_owned() })
    }
}
