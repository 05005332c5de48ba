//! Who is who: the agents of the workspace by name and by capability, known before any of them is read.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use dalsegno_core::AgentName;
use toml::de::{DeTable, DeValue};

use crate::code::Code;
use crate::names::{list, nearest, some};
use crate::report::Report;
use crate::section::Located;

/// The agents of a workspace.
#[derive(Default)]
pub(crate) struct Directory {
    agents: BTreeMap<AgentName, Listed>,
    capabilities: BTreeMap<String, BTreeSet<AgentName>>,
    /// Not every file could be read, so what is missing here may well exist.
    is_partial: bool,
    /// Of some file nobody can say even under which name it would be listed.
    has_unlisted: bool,
    /// Something was looked for that may well exist, since [`has_missed`](Self::has_missed) was asked last.
    missed: Cell<bool>,
}

/// What others know of an agent.
struct Listed {
    description: Arc<str>,
    /// The file could not be read, so nothing is known of it.
    is_unknown: bool,
}

impl Directory {
    /// Lists an agent of which no more than the file's name may be known.
    pub(crate) fn add(&mut self, file: &Path, root: Option<&DeTable<'_>>) {
        let text = |key: &str| root.and_then(|root| root.get(key)).and_then(|value| value.get_ref().as_str());
        let stem = file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
        let named = text("name").and_then(|name| name.parse::<AgentName>().ok());
        self.is_partial |= named.is_none();
        let is_unknown = named.is_none();
        let Some(name) = named.or_else(|| stem.parse().ok()) else {
            self.has_unlisted = true;
            return;
        };
        for capability in root.map(capabilities).unwrap_or_default() {
            self.capabilities.entry(capability).or_default().insert(name.clone());
        }
        let description = text("description").unwrap_or_default().trim().into();
        self.agents.entry(name).or_insert(Listed { description, is_unknown });
    }

    /// Notes that the TOML of some file is damaged.
    pub(crate) fn set_partial(&mut self) {
        self.is_partial = true;
    }

    /// Says whether something was looked for that is not here and may well exist, since this was asked last.
    pub(crate) fn has_missed(&self) -> bool {
        self.missed.take()
    }

    /// All agents that are known by name.
    pub(super) fn names(&self) -> impl Iterator<Item = &AgentName> {
        if self.has_unlisted {
            self.missed.set(true);
        }
        self.agents.keys()
    }

    /// What the agent says that it does; `None` where it should say so and does not.
    pub(super) fn description(&self, name: &AgentName) -> Option<Arc<str>> {
        let listed = self.agents.get(name)?;
        (listed.is_unknown || !listed.description.is_empty()).then(|| Arc::clone(&listed.description))
    }

    /// Finds an agent by its name; reports it where there is none.
    pub(super) fn agent(&self, report: &Report, name: &Located<String>) -> Option<AgentName> {
        let found = name.value.parse::<AgentName>().ok().filter(|name| self.agents.contains_key(name));
        if found.is_none() && self.is_partial {
            self.missed.set(true);
        } else if found.is_none() {
            let help = match nearest(&name.value, self.agents.keys().map(AgentName::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None if self.agents.len() < 2 => format!("create `agents/{}.toml`", name.value),
                None => format!("the agents are {}", some(self.agents.keys().map(AgentName::as_str))),
            };
            report
                .error(
                    Code::UnknownAgent,
                    name.span.clone(),
                    format!("the workspace has no agent `{}`", name.value),
                )
                .help(help);
        }
        found
    }

    /// Finds the one agent that has a capability; reports it where nobody has it, or several.
    pub(super) fn capability(&self, report: &Report, wanted: &Located<String>) -> Option<AgentName> {
        let capability = wanted.value.replace('_', "-");
        let Some(agents) = self.capabilities.get(&capability) else {
            if !self.is_partial {
                let known = self.capabilities.keys().map(String::as_str);
                let help = match nearest(&capability, known.clone()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if self.capabilities.is_empty() => {
                        format!("add `capabilities = [\"{capability}\"]` to the agent that has it")
                    }
                    None => format!("the capabilities are {}", some(known)),
                };
                report
                    .error(
                        Code::UnknownCapability,
                        wanted.span.clone(),
                        format!("no agent has the capability `{capability}`"),
                    )
                    .help(help);
            } else {
                self.missed.set(true);
            }
            return None;
        };
        if agents.len() > 1 {
            report
                .error(
                    Code::AmbiguousCapability,
                    wanted.span.clone(),
                    format!("{} agents have the capability `{capability}`", agents.len()),
                )
                .label(format!("they are {}", some(agents.iter().map(AgentName::as_str))))
                .help("name the agent, or keep the capability in only one of them");
            return None;
        }
        agents.first().cloned()
    }

    /// Reports an agent that would be a tool without a description.
    pub(super) fn undescribed(&self, report: &Report, at: &Located<String>, agents: &[&AgentName]) {
        let [first, ..] = agents else { return };
        let problem = match agents {
            [one] => format!("the agent `{one}` has no `description`"),
            several => format!(
                "these agents have no `description`: {}",
                list(several.iter().map(|name| name.as_str()))
            ),
        };
        report
            .error(Code::MissingDescription, at.span.clone(), problem)
            .label("models read the description to choose a tool")
            .help(format!("add `description = \"…\"` to `agents/{first}.toml`"));
    }
}

/// The capabilities of an agent file, as far as they are such; `_` counts as `-`.
fn capabilities(root: &DeTable<'_>) -> Vec<String> {
    let items = root.get("capabilities").map(|value| value.get_ref());
    let Some(DeValue::Array(items)) = items else { return Vec::new() };
    items
        .iter()
        .filter_map(|item| item.get_ref().as_str())
        .map(|capability| capability.replace('_', "-"))
        .filter(|capability| capability.parse::<AgentName>().is_ok())
        .collect()
}
