//! The tools that a model's provider runs by itself: which of them an agent allows, and which its models ask for.
//!
//! Such a tool runs within a reply, so nothing of ours stands before it: no approval, no rule about arguments, no setting. What is
//! left is whether a model may have it at all.

use std::collections::BTreeMap;

use dalsegno_core::{ModelControl, ProviderTool, ToolName, ToolPattern};
use toml::Spanned;
use toml::de::DeValue;

use super::rules::Entries;
use super::{AgentTools, ToolSettings};
use crate::code::Code;
use crate::names::list;
use crate::report::Report;
use crate::section::{Located, Section};

/// The first part of the names of these tools.
const PREFIX: &str = "provider.";

/// What `[tools]` of an agent says of these tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfProvider {
    allow: Vec<Located<ToolPattern>>,
    deny: Vec<Located<ToolPattern>>,
}

impl OfProvider {
    /// Says whether a tool is allowed; `deny` has the patterns that are about all tools.
    pub(super) fn allows(&self, tool: ProviderTool, deny: &[Located<ToolPattern>]) -> bool {
        let Some(name) = name(tool) else { return false };
        let covers = |patterns: &[Located<ToolPattern>]| patterns.iter().any(|one| one.value.matches(&name));
        covers(&self.allow) && !covers(&self.deny) && !covers(deny)
    }
}

/// The name of a tool in `[tools]`.
fn name(tool: ProviderTool) -> Option<ToolName> {
    format!("{PREFIX}{tool}").parse().ok()
}

fn is_of_provider(pattern: &ToolPattern) -> bool {
    pattern.as_str().starts_with(PREFIX)
}

/// Takes what is about these tools out of the lists of `[tools]`, and reports what no such tool can have.
pub(super) fn take(
    report: &Report,
    allow: &mut Vec<Located<ToolPattern>>,
    asked: &mut Entries,
    denied: &mut Entries,
) -> OfProvider {
    let known = |patterns: &mut Vec<Located<ToolPattern>>| -> Vec<Located<ToolPattern>> {
        let taken = patterns.extract_if(.., |pattern| is_of_provider(&pattern.value));
        taken.filter(|pattern| is_known(report, pattern)).collect()
    };
    let of_provider = OfProvider { allow: known(allow), deny: known(&mut denied.patterns) };
    let gates = asked.patterns.extract_if(.., |pattern| is_of_provider(&pattern.value));
    let gates = gates.map(|pattern| (pattern, "wait for an approval"));
    let rules = asked.rules.extract_if(.., |rule| is_of_provider(&rule.tool.value));
    let rules = rules.map(|rule| (rule.tool, "wait for an approval"));
    let sources = asked.sources.extract_if(.., |rule| is_of_provider(&rule.tool.value));
    let sources = sources.map(|rule| (rule.tool, "wait for an approval"));
    let denials = denied.rules.extract_if(.., |rule| is_of_provider(&rule.tool.value));
    let denials = denials.map(|rule| (rule.tool, "be denied by its arguments"));
    for (pattern, what) in gates.chain(rules).chain(sources).chain(denials) {
        report
            .error(Code::InvalidValue, pattern.span, format!("`{}` cannot {what}", pattern.value))
            .label("the provider runs it within a reply, before anything of it is known here")
            .help("remove it here; without it in `allow`, no provider runs it");
    }
    of_provider
}

/// Reports settings of these tools.
pub(super) fn refuse_settings(report: &Report, settings: &mut BTreeMap<ToolName, Located<ToolSettings>>) {
    for (name, settings) in settings.extract_if(.., |name, _| name.as_str().starts_with(PREFIX)) {
        report
            .error(Code::InvalidValue, settings.span, format!("`{name}` cannot have settings"))
            .label("the provider runs it within a reply: the time and the attempts are those of the model")
            .help("remove them");
    }
}

fn is_known(report: &Report, pattern: &Located<ToolPattern>) -> bool {
    let is_known = ProviderTool::ALL.into_iter().filter_map(name).any(|tool| pattern.value.matches(&tool));
    if !is_known {
        let names = ProviderTool::ALL.map(|tool| format!("{PREFIX}{tool}"));
        report
            .error(
                Code::UnknownTool,
                pattern.span.clone(),
                format!("`{}` is no tool that providers run", pattern.value),
            )
            .help(format!("they are {}", list(names.iter().map(String::as_str))));
    }
    is_known
}

/// Reports the tools that `[model]` asks for and that the agent does not allow.
pub(super) fn check(section: &Section<'_>, tools: &AgentTools) {
    // What is wrong with the list itself was reported when it was read.
    let Some(DeValue::Array(items)) = section.get("provider_tools").map(Spanned::get_ref) else { return };
    for item in items {
        let Some(Ok(tool)) = item.get_ref().as_str().map(str::parse::<ProviderTool>) else { continue };
        if !tools.allows_of_provider(tool) {
            let name = format!("{PREFIX}{tool}");
            section
                .report
                .error(
                    Code::ToolNotAllowed,
                    item.span(),
                    format!("`provider_tools` has `{tool}`, but the agent does not allow `{name}`"),
                )
                .help(format!("add `\"{name}\"` to `allow` of `[tools]`, and not to `deny`"));
        }
    }
}

/// Warns of permissions for tools that none of these models asks for.
pub(super) fn warn_of_unused(report: &Report, tools: &AgentTools, controls: &[&ModelControl]) {
    for pattern in &tools.of_provider.allow {
        let mut used = controls.iter().flat_map(|control| &control.provider_tools);
        if used.any(|tool| name(*tool).is_some_and(|name| pattern.value.matches(&name))) {
            continue;
        }
        report
            .warning(
                Code::NoEffect,
                pattern.span.clone(),
                format!("`{}` has no effect: no model of the agent asks for it", pattern.value),
            )
            .help("remove it, or set `provider_tools` in `[model]`, or in `[models.*]` of dalsegno.toml");
    }
}
