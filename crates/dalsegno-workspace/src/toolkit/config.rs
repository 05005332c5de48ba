//! Checks what tenants and agents set of toolkits.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ToolkitFile;
use super::diagnose::validator;
use crate::code::Code;
use crate::names::{list, nearest, suggestion};
use crate::report::Report;
use crate::tenant::{ToolkitSettings, ToolkitUse};

/// Reports names that no toolkit has, and values that its configuration does not take.
///
/// `find` gives every toolkit of a name: an agent's settings hold for those of all tenants.
pub(crate) fn check_uses<'t>(
    report: &Report,
    uses: &[&ToolkitUse],
    settings: &BTreeMap<String, ToolkitSettings>,
    find: &dyn Fn(&str) -> Vec<&'t ToolkitFile>,
    known: &[&str],
) {
    for used in uses {
        let name = used.toolkit.value.as_str();
        let found = find(name);
        if found.is_empty() {
            let help = match (nearest(name, known.iter().copied()), known) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, []) => "the workspace has no declarative tools: add `tools/*.json`".to_owned(),
                (None, _) => format!("the workspace has {}", list(known)),
            };
            report
                .error(
                    Code::UnknownTool,
                    used.toolkit.span.clone(),
                    format!("there is no tool file `{name}`"),
                )
                .help(help);
            continue;
        }
        let values = settings.get(name).map(|settings| &settings.config);
        for toolkit in found {
            check(report, used, values, toolkit);
        }
    }
}

fn check(report: &Report, used: &ToolkitUse, values: Option<&Map<String, Value>>, file: &ToolkitFile) {
    let (name, toolkit) = (file.name(), &file.toolkit);
    let schema = toolkit.config_schema().cloned().unwrap_or_else(|| serde_json::json!({ "properties": {} }));
    let known: Vec<&str> =
        schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    let is_open = schema.get("additionalProperties").is_some_and(|more| more != &Value::Bool(false));
    for (key, span) in &used.config {
        let Some(value) = values.and_then(|values| values.get(&key.value)) else { continue };
        match schema["properties"].get(&key.value) {
            Some(schema) => {
                let Some(validator) = validator(schema) else { continue };
                for error in validator.iter_errors(value) {
                    report
                        .error(
                            Code::InvalidValue,
                            span.clone(),
                            format!("`{}` does not match its schema: {error}", key.value),
                        )
                        .label(format!("see `config_schema` of `{name}`"));
                }
            }
            None if is_open => {}
            None => {
                report
                    .error(
                        Code::UnknownKey,
                        key.span.clone(),
                        format!("`{}` is not in the configuration of `{name}`", key.value),
                    )
                    .help(suggestion(&key.value, &known));
            }
        }
    }
    let secrets: Vec<&str> = toolkit.secrets().keys().map(String::as_str).collect();
    for secret in used.secrets.iter().filter(|secret| !secrets.contains(&secret.value.as_str())) {
        report
            .error(
                Code::UnknownKey,
                secret.span.clone(),
                format!("`{name}` has no secret `{}`", secret.value),
            )
            .help(suggestion(&secret.value, &secrets));
    }
    let actions: Vec<&str> = toolkit.tools().iter().map(|tool| short(tool.name())).collect();
    for action in used.disabled.iter().filter(|action| !actions.contains(&action.value.as_str())) {
        report
            .error(
                Code::UnknownTool,
                action.span.clone(),
                format!("`{name}` has no action `{}`", action.value),
            )
            .help(suggestion(&action.value, &actions));
    }
}

/// The name of an action within its toolkit.
pub(crate) fn short(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, short)| short)
}
