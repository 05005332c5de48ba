//! A tenant: on whose behalf runs work, and what their tools may reach.

mod egress;
mod features;
mod keys;
mod known;
mod load;
mod read;
mod settings;
mod toolkit;
mod transfer;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

pub use self::features::{Destination, Features, Refer};
pub(crate) use self::keys::{CONFIG, DISABLED, FILE, TENANT_NAME};
pub use self::known::NoTenant;
pub(crate) use self::load::{ReadTenants, load};
pub(crate) use self::read::{is_tenant_name, time_zone};
pub(crate) use self::toolkit::{ToolkitUse, toolkit_uses};
use crate::settings::SecretRef;
use crate::source::SourceFile;
use crate::toolkit::ToolkitFile;

/// One tenant of the workspace, `tenants/*.toml`.
///
/// A run that names no tenant is one of the tenant `default`, whose file may exist as well.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// The tenant's name.
    pub name: String,
    /// Who the tenant is, for people; may be empty.
    pub description: String,
    /// What tools read as `tenant.settings`. `base_url` and `endpoints` have been checked.
    pub settings: Map<String, Value>,
    /// The zone of times without an offset, one of the IANA database; without it such times are refused.
    pub time_zone: Option<String>,
    /// Most that the tenant's runs may spend on models in a day of its zone, in billionths of a US dollar; no bound of its own
    /// when absent.
    pub max_cost_nano_usd_per_day: Option<u64>,
    /// Whom declarative tools may reach: scheme, host and port of each, as `https://api.example.com`. Nobody by
    /// default.
    pub egress: BTreeSet<String>,
    /// The tenant's secrets by name.
    pub secrets: BTreeMap<String, SecretRef>,
    /// The documents of declarative tools that the tenant has for itself, `tenants/<name>/tools/*.json` and those built
    /// from its features. One with the name of a document of the workspace stands in for it.
    pub tools: BTreeMap<String, ToolkitFile>,
    /// The names of the tenant's own documents that have errors. They are not in use, and neither are the documents of the
    /// workspace that they stand in for: those would do something else.
    pub broken_tools: BTreeSet<String>,
    /// What the tenant sets of single tools and toolkits.
    pub toolkits: BTreeMap<String, ToolkitSettings>,
    /// What tools are built from.
    pub features: Features,
    /// The file itself.
    pub source: SourceFile,
    /// Where the names in `toolkits` stand.
    pub(crate) uses: Vec<ToolkitUse>,
}

/// What a tenant or an agent sets of a toolkit. Empty by default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolkitSettings {
    /// Values of the public configuration, `config` in templates.
    pub config: Map<String, Value>,
    /// Where the values of the toolkit's secrets are found; only a tenant sets these.
    pub secrets: BTreeMap<String, SecretRef>,
    /// What single agents have in the place of it, by the agent's name; only a tenant sets this.
    pub of_agents: BTreeMap<String, OfAgent>,
    /// The actions that are not offered.
    pub disabled: BTreeSet<String>,
}

/// What an agent has of a toolkit in the place of what its tenant has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfAgent {
    /// Secrets, by name.
    pub secrets: BTreeMap<String, SecretRef>,
    /// Whether a person consents for this agent alone.
    pub own_access: bool,
}

impl Tenant {
    /// Says whether the tenant sees the same tools as everybody.
    pub(crate) fn is_plain(&self) -> bool {
        self.tools.is_empty() && self.toolkits.values().all(|settings| settings.disabled.is_empty())
    }

    /// What templates read as `tenant`: the name, the time zone and the settings, and nothing secret.
    pub fn context(&self) -> Value {
        json!({ "name": self.name, "time_zone": self.time_zone, "settings": self.settings })
    }
}
