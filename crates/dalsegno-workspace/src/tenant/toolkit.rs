//! Reads what a tenant or an agent sets of toolkits.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{OfAgent, ToolkitSettings};
use crate::agent::json;
use crate::code::Code;
use crate::section::{Located, Section};
use crate::settings::{Paths, secrets};
use crate::shape::Form;

/// Where the parts of a toolkit's settings stand: what they name is checked when all toolkits are known.
#[derive(Debug, Clone)]
pub(crate) struct ToolkitUse {
    /// The toolkit.
    pub(crate) toolkit: Located<String>,
    /// The keys of its configuration, each with the place of the value.
    pub(crate) config: Vec<(Located<String>, Range<usize>)>,
    /// The names of its secrets.
    pub(crate) secrets: Vec<Located<String>>,
    /// The actions that are not offered.
    pub(crate) disabled: Vec<Located<String>>,
}

/// Reads the tables below `key`, one for each toolkit. `-` in a name means `_`.
pub(crate) fn toolkit_uses(
    parent: &Section<'_>,
    key: &str,
    paths: Option<&Paths<'_>>,
) -> (BTreeMap<String, ToolkitSettings>, Vec<ToolkitUse>) {
    let (mut settings, mut uses) = (BTreeMap::new(), Vec::new());
    let Some(Form::Map(Form::Table(shape))) = parent.form(key) else { return (settings, uses) };
    for (name, value) in parent.tables(key) {
        let what = format!("the settings of `{}`", name.value);
        let Some(section) = Section::of(parent.report, &name.value, value, &what, shape) else { continue };
        let toolkit = Located { value: name.value.replace('-', "_"), span: name.span };
        let mut used = ToolkitUse { toolkit, config: Vec::new(), secrets: Vec::new(), disabled: Vec::new() };
        let mut read = ToolkitSettings::default();
        for (key, value) in section.tables("config") {
            if let Some(json) = json(section.report, &key.value, value, &mut |_, _| {}) {
                read.config.insert(key.value.clone(), json);
                used.config.push((key, value.span()));
            }
        }
        if let Some(paths) = paths {
            used.secrets = section.tables("secrets").into_iter().map(|(name, _)| name).collect();
            read.secrets = secrets::read(&section, "secrets", "the secret", paths);
            if let Some(Form::Map(Form::Table(shape))) = section.form("agents") {
                for (agent, value) in section.tables("agents") {
                    let what = format!("agent `{}`'s settings of `{}`", agent.value, used.toolkit.value);
                    let own = Section::of(section.report, &agent.value, value, &what, shape);
                    let Some(own) = own else { continue };
                    used.secrets.extend(own.tables("secrets").into_iter().map(|(name, _)| name));
                    let secrets = secrets::read(&own, "secrets", "the secret", paths);
                    let own_access = own.boolean("own_access").unwrap_or_default();
                    read.of_agents.insert(agent.value, OfAgent { secrets, own_access });
                }
            }
        }
        for action in section.list::<String>("disabled") {
            let action = action.map(|action| action.replace('-', "_"));
            read.disabled.insert(action.value.clone());
            used.disabled.push(action);
        }
        if settings.insert(used.toolkit.value.clone(), read).is_some() {
            let problem = format!("`{}` is set twice: `-` and `_` are the same", used.toolkit.value);
            parent
                .report
                .error(Code::InvalidValue, used.toolkit.span.clone(), problem)
                .help("keep one of them");
        }
        uses.push(used);
    }
    (settings, uses)
}
