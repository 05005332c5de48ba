//! Holds cases against the agents and the tools that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentName, ToolKind, ToolName};

use super::{Asked, Case, CaseResult, Draft, Expectations};
use crate::agent::AgentFile;
use crate::code::Code;
use crate::names::{nearest, some};
use crate::report::Report;
use crate::workspace::Workspace;

/// Configurations of agents, by their names.
type Configs = BTreeMap<AgentName, Arc<AgentConfig>>;

/// Two cases of a file have names of their own, also as names of files.
pub(super) fn names(report: &Report, drafts: &[Draft]) {
    let mut seen = BTreeMap::new();
    for draft in drafts {
        let name = &draft.name;
        let Some(before) = seen.insert(slug(&name.value), name) else { continue };
        let place = report.source().position(before.span.start);
        report
            .error(Code::InvalidValue, name.span.clone(), format!("two cases are called `{}`", name.value))
            .label(format!("the other one is on line {}", place.line))
            .help("give each case a name of its own");
    }
}

/// The name of a case as that of a file: its letters and digits, in lower case, with `_` between words.
pub fn slug(name: &str) -> String {
    let mut slug = String::new();
    for letter in name.chars().flat_map(char::to_lowercase) {
        if letter.is_alphanumeric() {
            slug.push(letter);
        } else if !slug.is_empty() && !slug.ends_with('_') {
            slug.push('_');
        }
    }
    // No system takes a name of more than 255 bytes.
    let end = slug.floor_char_boundary(120);
    slug.truncate(end);
    slug.trim_end_matches('_').to_owned()
}

/// The agent and the tenant of a case; reports those that there are not.
pub(super) fn agent<'w>(report: &Report, workspace: &'w Workspace, draft: &Draft) -> Option<&'w AgentFile> {
    if let Err(error) = workspace.check_tenant(&draft.tenant) {
        report.error(
            Code::UnknownTenant,
            draft.name.span.clone(),
            format!("the case cannot be run: {error}"),
        );
        return None;
    }
    let name = &draft.agent;
    let found = workspace.agents.get(&name.value);
    if found.is_none() {
        let broken = workspace.broken.agents.contains_key(name.value.as_str());
        let message = match broken {
            true => format!("the agent `{}` cannot be tested, since its file has errors", name.value),
            false => format!("the workspace has no agent `{}`", name.value),
        };
        let added = report.error(Code::UnknownAgent, name.span.clone(), message);
        let known = || workspace.agents.keys().map(AgentName::as_str);
        match nearest(name.value.as_str(), known()) {
            _ if broken => added.help("correct the errors of the agent first"),
            Some(near) => added.help(format!("did you mean `{near}`?")),
            None => added.help(format!("it has {}", some(known()))),
        };
    }
    found
}

/// A call is taken by an agent that has a voice.
pub(super) fn voice(report: &Report, draft: &Draft, config: &AgentConfig) {
    if !draft.turns.is_empty() && config.voice.is_none() {
        report
            .error(
                Code::InvalidValue,
                draft.agent.span.clone(),
                format!("the agent `{}` takes no calls, and the case has `turns`", config.name),
            )
            .help("add `[voice]` to the agent's file, or write `input` instead of `turns`");
    }
}

/// The names of tools in a case. What comes of requests may be for the runs of these agents, too.
pub(super) fn tools(report: &Report, draft: &Draft, config: &AgentConfig, agents: &Configs) {
    let tools = &config.tools;
    let declared = |name: &str| {
        let tool = name.parse().ok().and_then(|name: ToolName| tools.tools.get(&name));
        tool.is_some_and(|tool| matches!(tool.kind, ToolKind::Declarative { .. }))
    };
    for result in &draft.results {
        if let Asked::Tool(tool) = &result.of
            && declared(tool)
        {
            report
                .error(
                    Code::InvalidValue,
                    result.span.clone(),
                    format!("`{tool}` is a declarative tool, which the core itself performs"),
                )
                .label("no result of it is ever asked for")
                .help("give what comes of its requests: `http = \"POST https://…\"`, `mail = \"…\"`, `tool = \"…\"`");
        }
    }
    let given = draft.results.iter().filter_map(|result| match &result.of {
        Asked::Tool(tool) => Some((tool.as_str(), result.span.clone())),
        _ => None,
    });
    expected(report, &draft.expect, config);
    let is_of_agent = |name: &str| {
        let name = name.parse::<ToolName>();
        name.is_ok_and(|name| agents.values().any(|config| config.tools.tools.contains_key(&name)))
    };
    let given = given.filter(|(name, _)| !is_of_agent(name));
    given.for_each(|(name, span)| called(report, name, span, config));
    for result in &draft.results {
        if let Asked::Agent(agent) = &result.of
            && !agent.parse().is_ok_and(|agent| {
                agents.values().map(|one| &**one).chain([config]).any(|one| one.agents.contains_key(&agent))
            })
        {
            report
                .error(
                    Code::UnknownAgent,
                    result.span.clone(),
                    format!("the agent `{}` does not start `{agent}`", config.name),
                )
                .help(match config.agents.is_empty() {
                    true => "it starts no agent".to_owned(),
                    false => format!("it may start {}", some(config.agents.keys().map(|name| name.as_str()))),
                });
        }
    }
}

/// The names of tools in what must hold.
pub(crate) fn expected(report: &Report, expect: &Expectations, config: &AgentConfig) {
    for calls in [&expect.calls, &expect.effects].into_iter().flatten() {
        calls.value.iter().for_each(|call| called(report, &call.tool, calls.span.clone(), config));
    }
    let tools = &config.tools;
    let forbidden = expect.never.iter().map(|rule| &rule.tool);
    for pattern in expect.never_calls.iter().chain(forbidden) {
        let mut all = tools.tools.keys().chain(&tools.forbidden);
        if !all.any(|tool| pattern.value.matches(tool)) && !is_agent(pattern.value.as_str(), config) {
            unknown(report, pattern.span.clone(), pattern.value.as_str(), config);
        }
    }
    expect.never.iter().for_each(|rule| rule.check(report, tools));
}

/// A tool that is called.
fn called(report: &Report, name: &str, span: Range<usize>, config: &AgentConfig) {
    let tools = &config.tools;
    let parsed = name.parse::<ToolName>();
    if parsed.as_ref().is_ok_and(|name| tools.tools.contains_key(name)) || is_agent(name, config) {
        return;
    }
    if !parsed.is_ok_and(|name| tools.forbidden.contains(&name)) {
        return unknown(report, span, name, config);
    }
    report
        .error(Code::ToolNotAllowed, span, format!("the agent `{}` may not use `{name}`", config.name))
        .label("no run of it makes such a call")
        .help("correct the name, or write `never_calls` if that is what the case shows");
}

fn is_agent(name: &str, config: &AgentConfig) -> bool {
    let agent = name.strip_prefix("agents.").and_then(|agent| agent.parse().ok());
    agent.is_some_and(|agent| config.agents.contains_key(&agent))
}

fn unknown(report: &Report, span: Range<usize>, name: &str, config: &AgentConfig) {
    let tools = &config.tools;
    let added = report.error(Code::UnknownTool, span, format!("the tool `{name}` does not exist"));
    let known = || tools.tools.keys().chain(&tools.forbidden).map(ToolName::as_str);
    match nearest(name, known()) {
        Some(near) => added.help(format!("did you mean `{near}`?")),
        None if tools.tools.is_empty() => added.help(format!("the agent `{}` has no tools", config.name)),
        None => added.help(format!(
            "the agent `{}` has {}",
            config.name,
            some(tools.tools.keys().map(ToolName::as_str))
        )),
    };
}

/// A bound on the cost holds only where each model has a price: without one, a reply costs nothing.
pub(crate) fn price(report: &Report, expect: &Expectations, agent: &AgentFile) {
    let (Some(bound), Some(unpriced)) = (&expect.max_cost_nano_usd, agent.unpriced()) else { return };
    report
        .error(
            Code::MissingPrice,
            bound.span.clone(),
            format!("the cost cannot be bounded: the model `{}` {}", unpriced.model, unpriced.lack()),
        )
        .help(format!("{}, or use `max_tokens`", unpriced.help()));
}

/// The names in the results that all cases of a file share: some case must know them.
pub(super) fn shared(report: &Report, cases: &[Case]) {
    let Some(first) = cases.first() else { return };
    let mut seen = BTreeSet::new();
    for CaseResult { of, span, .. } in &first.draft.shared {
        let Asked::Tool(tool) = of else { continue };
        let is_known = |case: &Case| {
            tool.parse::<ToolName>().is_ok_and(|name| {
                let tools = &case.config.tools;
                tools.tools.contains_key(&name) || tools.forbidden.contains(&name)
            })
        };
        if !cases.iter().any(is_known) && seen.insert(tool) {
            unknown(report, span.clone(), tool, &first.config);
        }
    }
}

/// The configuration that the declarative tools of a case read.
pub(super) fn toolkits(report: &Report, draft: &Draft, config: &AgentConfig) {
    for (toolkit, document) in &config.toolkits {
        if let Some(name) = document.missing().first() {
            report
                .error(
                    Code::MissingKey,
                    draft.name.span.clone(),
                    format!(
                        "the case cannot be run: the tenant `{}` has no `{name}` in the configuration of `{toolkit}`",
                        draft.tenant
                    ),
                )
                .help(format!("add it to `[tools.{toolkit}.config]` in the tenant's file, or name another tenant"));
        }
    }
}
