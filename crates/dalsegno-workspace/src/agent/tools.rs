//! Reads `[tools]`.

use std::collections::BTreeMap;

use dalsegno_core::{EffectClass, OnFailure, OnIndeterminate, ToolName, ToolPattern};
use toml::de::DeValue;

use super::callees::RESERVED;
use super::expressions::json;
use super::keys::SETTINGS;
use super::{AgentTools, ToolSettings, provider_tools, rules};
use crate::code::Code;
use crate::section::{Located, Section, wrong_type};
use crate::tenant::toolkit_uses;

pub(super) fn read(file: &Section<'_>) -> AgentTools {
    let Some(section) = file.section("tools") else { return AgentTools::default() };
    let (mut settings, stand_ins) = settings(&section);
    provider_tools::refuse_settings(section.report, &mut settings);
    let mut asked = rules::read(&section, "approve");
    let mut denied = rules::read(&section, "deny");
    let mut allow: Vec<_> = section.list("allow").into_iter().map(plain).collect();
    let of_provider = provider_tools::take(section.report, &mut allow, &mut asked, &mut denied);
    let (toolkits, toolkit_uses) = toolkit_uses(&section, "toolkits", None);
    AgentTools {
        allow,
        approve: asked.patterns,
        deny: denied.patterns,
        approve_rules: asked.rules,
        source_rules: asked.sources,
        deny_rules: denied.rules,
        settings,
        of_provider,
        toolkits,
        stand_ins,
        toolkit_uses,
    }
}

/// In a capability `_` counts as `-`.
pub(super) fn plain(pattern: Located<ToolPattern>) -> Located<ToolPattern> {
    match plain_name(pattern.value.as_str()).map(|text| text.parse()) {
        Some(Ok(value)) => Located { value, ..pattern },
        Some(Err(_)) | None => pattern,
    }
}

fn plain_name(name: &str) -> Option<String> {
    name.strip_prefix("capability.").map(|name| format!("capability.{}", name.replace('_', "-")))
}

/// Settings of single tools, and the tools that stand in for them.
type Settings = (BTreeMap<ToolName, Located<ToolSettings>>, Vec<Located<ToolName>>);

fn settings(section: &Section<'_>) -> Settings {
    let mut settings = BTreeMap::new();
    let mut stand_ins = Vec::new();
    for (key, value) in section.tables("settings") {
        let what = format!("the settings of `{}`", key.value);
        let Some(section) = Section::of(section.report, &key.value, value, &what, &SETTINGS) else {
            continue;
        };
        let (on_failure, stand_in) = on_failure(&section).unzip();
        stand_ins.extend(stand_in.flatten());
        let read = ToolSettings {
            timeout_ms: section.millis("timeout"),
            retries: section.integer("retries"),
            on_failure,
            effect: section.choice("effect", EFFECTS),
            on_indeterminate: section.choice("on_indeterminate", ON_INDETERMINATE),
            cache_ms: section
                .millis("cache")
                .map(|value| Located { value, span: section.key_span("cache").unwrap_or(key.span.clone()) }),
            verify: super::verify::read(&section),
        };
        match plain_name(&key.value).as_ref().unwrap_or(&key.value).parse() {
            Ok(name) => {
                settings.insert(name, Located { value: read, span: key.span });
            }
            Err(error) => {
                section
                    .report
                    .error(Code::InvalidValue, key.span, format!("{error}"))
                    .help("put the full name in quotes: `[tools.settings.\"risk.score\"]`");
            }
        }
    }
    (settings, stand_ins)
}

/// Reads what a failure does, in a tool's settings or in a step, and where the tool stands that stands in.
pub(super) fn on_failure(section: &Section<'_>) -> Option<(OnFailure, Option<Located<ToolName>>)> {
    let value = section.get("on_failure")?;
    let table = match value.get_ref() {
        DeValue::String(_) => {
            let choices = &[("report", OnFailure::Report), ("fail", OnFailure::Fail)];
            return section.choice("on_failure", choices).map(|choice| (choice, None));
        }
        DeValue::Table(_) => section.section("on_failure")?,
        _ => {
            return wrong_type(
                section.report,
                "on_failure",
                value,
                "`\"report\"`, `\"fail\"`, `{ default = … }` or `{ fallback = \"server.tool\" }`",
            );
        }
    };
    let (code, problem, help) = match (table.get("default"), table.get("fallback")) {
        (Some(value), None) => {
            let value = json(section.report, "default", value, &mut |_, _| {})?;
            return Some((OnFailure::Default(value), None));
        }
        (None, Some(_)) => {
            let tool = table.parsed::<ToolName>("fallback")?;
            let server = tool.value.as_str().split('.').next().unwrap_or_default();
            if server == "memory" || RESERVED.contains(&server) {
                section
                    .report
                    .error(
                        Code::InvalidValue,
                        tool.span,
                        format!("`{}` cannot be a fallback for a tool", tool.value),
                    )
                    .label("it would be called with the same arguments");
                return None;
            }
            return Some((OnFailure::Fallback(tool.value.clone()), Some(tool)));
        }
        (Some(_), Some(_)) => (
            Code::InvalidValue,
            "`on_failure` has both `default` and `fallback`",
            "keep one: the fallback tool can have its own `default`",
        ),
        (None, None) => (
            Code::MissingKey,
            "`on_failure` has neither `default` nor `fallback`",
            "add `default = …`, the value that replaces the result, or `fallback = \"server.tool\"`",
        ),
    };
    section.report.error(code, value.span(), problem).help(help);
    None
}

const EFFECTS: &[(&str, EffectClass)] = &[
    ("read", EffectClass::Read),
    ("idempotent", EffectClass::Idempotent),
    ("keyed", EffectClass::Keyed),
    ("unsafe", EffectClass::Unsafe),
];

const ON_INDETERMINATE: &[(&str, OnIndeterminate)] =
    &[("ask", OnIndeterminate::Ask), ("report", OnIndeterminate::Report), ("retry", OnIndeterminate::Retry)];
