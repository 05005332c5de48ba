//! Reads `[features]` of a tenant: what tools are built from.

use std::collections::BTreeMap;

use dalsegno_tools::Transfer;

use super::keys::DESTINATION;
use crate::code::Code;
use crate::section::{Located, Section};

/// What tools are built from. Nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    /// Where calls can be transferred, `[features.refer]`.
    pub refer: Option<Refer>,
}

/// Where calls can be transferred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refer {
    /// Whether the tool is offered; `true` by default.
    pub enabled: bool,
    /// Whether the first call only asks for a confirmation. `true` by default: a transfer cannot be taken back.
    pub require_confirmation: bool,
    /// What to say before a transfer, with `{{label}}` for the destination; may be empty.
    pub handoff_phrase: String,
    /// The destinations in the order of the file.
    pub destinations: Vec<Destination>,
}

/// Where a call can be transferred to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// What the model calls it.
    pub id: String,
    /// What people call it; the id by default.
    pub label: String,
    /// When the model should choose it; may be empty.
    pub description_for_model: String,
    /// Where the call goes. No model reads it.
    pub target_uri: String,
    /// Whether it is offered; `true` by default.
    pub enabled: bool,
    /// Those with a higher number are listed first; 0 by default.
    pub priority: u32,
}

impl Refer {
    /// The destinations that are offered: those of the highest priority first, else in the order of the file.
    pub fn offered(&self) -> Vec<&Destination> {
        let mut offered: Vec<_> =
            self.destinations.iter().filter(|destination| self.enabled && destination.enabled).collect();
        offered.sort_by_key(|destination| std::cmp::Reverse(destination.priority));
        offered
    }
}

pub(super) fn read(file: &Section<'_>) -> Features {
    let features = file.section("features");
    Features { refer: features.and_then(|features| features.section("refer")).map(|section| refer(&section)) }
}

fn refer(section: &Section<'_>) -> Refer {
    let mut destinations = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for item in section.items("destinations", "a list of tables: `[[features.refer.destinations]]`") {
        let what = DESTINATION.what;
        let Some(item) = Section::of(section.report, "destinations", item, what, &DESTINATION) else {
            continue;
        };
        let Some((id, destination)) = destination(&item) else { continue };
        let line = section.report.source().position(id.span.start).line;
        if let Some(first) = seen.get(&id.value) {
            section
                .report
                .error(Code::InvalidValue, id.span, format!("there are two destinations `{}`", id.value))
                .label(format!("the other one is on line {first}"))
                .help("rename one of them");
        } else {
            seen.insert(id.value, line);
            destinations.push(destination);
        }
    }
    let refer = Refer {
        enabled: section.boolean("enabled").unwrap_or(true),
        require_confirmation: section.boolean("require_confirmation").unwrap_or(true),
        handoff_phrase: text(section, "handoff_phrase"),
        destinations,
    };
    if refer.enabled && section.has("destinations") && refer.offered().is_empty() {
        section
            .report
            .warning(
                Code::NoEffect,
                section.span.clone(),
                "no destination is enabled, so the tenant has no `transfer.request_transfer`",
            )
            .help("enable one, or write `enabled = false` here");
    }
    refer
}

fn destination(section: &Section<'_>) -> Option<(Located<String>, Destination)> {
    let id =
        checked(section, "destination_id", is_id, "expected letters, digits, `_`, `-` and `.`, at most 64");
    let target = checked(
        section,
        "target_uri",
        is_target,
        "expected `sip:…`, `sips:…`, `tel:+…` or a number such as `+14155552000`",
    );
    let (label, description) = (text(section, "label"), text(section, "description_for_model"));
    let (enabled, priority) = (section.boolean("enabled"), section.integer("priority"));
    let (id, target) = (id?, target?);
    let destination = Destination {
        label: if label.is_empty() { id.value.clone() } else { label },
        id: id.value.clone(),
        description_for_model: description,
        target_uri: target.value,
        enabled: enabled.unwrap_or(true),
        priority: priority.unwrap_or(0),
    };
    Some((id, destination))
}

fn text(section: &Section<'_>, key: &str) -> String {
    section.string(key).map(|text| text.value.trim().to_owned()).unwrap_or_default()
}

fn checked(
    section: &Section<'_>,
    key: &str,
    fits: fn(&str) -> bool,
    expected: &str,
) -> Option<Located<String>> {
    let text = section.string(key)?;
    if fits(&text.value) {
        return Some(text);
    }
    section
        .report
        .error(Code::InvalidValue, text.span, format!("`{key}` cannot be `{}`", text.value))
        .label(expected);
    None
}

fn is_id(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    text.len() <= 64
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && text.bytes().all(inside)
}

fn is_target(text: &str) -> bool {
    if Transfer::to(text).is_none() {
        return false;
    }
    let number = text.strip_prefix("tel:").unwrap_or(text);
    if let Some(digits) = number.strip_prefix('+') {
        return (6..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    }
    let address = text.strip_prefix("sip:").or_else(|| text.strip_prefix("sips:"));
    address.is_some_and(|address| {
        !address.is_empty() && !address.contains(|letter: char| letter.is_whitespace() || letter.is_control())
    })
}
