//! Reads `[tools]`.

use std::collections::BTreeMap;

use segno_core::{EffectClass, OnFailure, OnIndeterminate, ToolName};
use toml::de::DeValue;

use super::expressions::json;
use super::{AgentTools, ToolSettings};
use crate::code::Code;
use crate::section::{Located, Section, wrong_type};

pub(super) fn read(file: &Section<'_>) -> AgentTools {
    let Some(section) = file.section("tools", "`[tools]`", &["allow", "approve", "settings"]) else {
        return AgentTools::default();
    };
    AgentTools {
        allow: section.list("allow"),
        approve: section.list("approve"),
        settings: settings(&section),
    }
}

fn settings(section: &Section<'_>) -> BTreeMap<ToolName, Located<ToolSettings>> {
    let mut settings = BTreeMap::new();
    for (key, value) in section.tables("settings") {
        let what = format!("the settings of `{}`", key.value);
        let Some(section) = Section::of(section.report, &key.value, value, &what, SETTING_KEYS) else {
            continue;
        };
        let read = ToolSettings {
            timeout_ms: section.millis("timeout"),
            retries: section.integer("retries", 0..=RETRIES_MAX),
            on_failure: on_failure(&section),
            effect: section.choice("effect", EFFECTS),
            on_indeterminate: section.choice("on_indeterminate", ON_INDETERMINATE),
        };
        match key.value.parse() {
            Ok(name) => {
                settings.insert(name, Located { value: read, span: key.span });
            }
            Err(error) => {
                section
                    .report
                    .error(Code::InvalidValue, key.span, format!("{error}"))
                    .help("put the whole name in quotes: `[tools.settings.\"risk.score\"]`");
            }
        }
    }
    settings
}

/// Reads what a failure does, in a tool's settings or in a step.
pub(super) fn on_failure(section: &Section<'_>) -> Option<OnFailure> {
    let value = section.get("on_failure")?;
    match value.get_ref() {
        DeValue::String(_) => {
            section.choice("on_failure", &[("report", OnFailure::Report), ("fail", OnFailure::Fail)])
        }
        DeValue::Table(_) => {
            let table = section.section("on_failure", "`on_failure`", &["default"])?;
            table.require("default", "add `default = …`, the value that stands in for the result");
            json(section.report, "default", table.get("default")?, &mut |_, _| {}).map(OnFailure::Default)
        }
        _ => wrong_type(section.report, "on_failure", value, "`\"report\"`, `\"fail\"` or `{ default = … }`"),
    }
}

const SETTING_KEYS: &[&str] = &["timeout", "retries", "on_failure", "effect", "on_indeterminate"];

const EFFECTS: &[(&str, EffectClass)] = &[
    ("read", EffectClass::Read),
    ("idempotent", EffectClass::Idempotent),
    ("keyed", EffectClass::Keyed),
    ("unsafe", EffectClass::Unsafe),
];

const ON_INDETERMINATE: &[(&str, OnIndeterminate)] =
    &[("ask", OnIndeterminate::Ask), ("report", OnIndeterminate::Report), ("retry", OnIndeterminate::Retry)];

/// With doubling pauses, ten retries take a quarter of an hour; more is an outage, not a hiccup.
const RETRIES_MAX: u64 = 10;
