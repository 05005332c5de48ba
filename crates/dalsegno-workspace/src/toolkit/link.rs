//! What documents name beyond themselves: other tools, and agents.

use std::collections::BTreeSet;

use dalsegno_core::{AgentName, ToolName};
use serde_json::Value;

use super::ToolkitFile;
use super::load::below;
use crate::agent::RESERVED;
use crate::catalogue::{Catalogue, engine_tools};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::json::JsonFile;
use crate::names::{list, nearest, some};
use crate::report::Report;

/// What exists in a workspace besides a document.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) catalogue: &'a Catalogue,
    /// Servers of whose tools nothing is known.
    pub(crate) unknown: &'a BTreeSet<String>,
    pub(crate) agents: &'a BTreeSet<AgentName>,
    /// What those agents can do.
    pub(crate) capabilities: &'a BTreeSet<String>,
}

/// Reports the tools and the agents that a document names and that are not there.
pub(crate) fn check_mentions(file: &ToolkitFile, around: &Around<'_>) -> Vec<Diagnostic> {
    let Some(source) = &file.source else { return Vec::new() };
    let report = Report::new(source.clone());
    // It was read before, so it is JSON.
    let Some(json) = JsonFile::parse(&report, source.text()) else { return Vec::new() };
    visit(&report, &json, json.value(), &mut String::new(), around);
    report.finish().1
}

fn visit(report: &Report, file: &JsonFile<'_>, value: &Value, pointer: &mut String, around: &Around<'_>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                below(pointer, &index.to_string(), |pointer| visit(report, file, item, pointer, around));
            }
        }
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str);
            match text("type") {
                Some("tool") => {
                    if let Some(name) = text("name") {
                        tool(report, file, &format!("{pointer}/name"), name, around);
                    }
                }
                Some("handoff") => {
                    if let Some(name) = text("target_agent") {
                        agent(report, file, &format!("{pointer}/target_agent"), name, around.agents);
                    }
                }
                _ => {}
            }
            // Of a tool; a name without a point is one of the same document, which has been looked up.
            if let Some(name) =
                fields.get("verify").and_then(|verify| verify.get("tool")).and_then(Value::as_str)
                && name.contains('.')
            {
                tool(report, file, &format!("{pointer}/verify/tool"), name, around);
            }
            for name in LISTS {
                if let Some(actions) = fields.get(*name) {
                    below(pointer, name, |pointer| visit(report, file, actions, pointer, around));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn tool(report: &Report, file: &JsonFile<'_>, pointer: &str, name: &str, around: &Around<'_>) {
    let plain = |name: &str| name.replace('-', "_");
    let engine = engine_tools();
    let is_known =
        around.catalogue.keys().chain(engine.keys()).any(|tool| plain(tool.as_str()) == plain(name));
    if !is_known && let Some((kind, rest)) = name.split_once('.').filter(|(kind, _)| RESERVED.contains(kind))
    {
        return callee(report, file, pointer, kind, rest, around);
    }
    let server = plain(name.split('.').next().unwrap_or(name));
    if is_known || around.unknown.iter().any(|unknown| plain(unknown) == server) {
        return;
    }
    let known = around.catalogue.keys().chain(engine.keys()).map(ToolName::as_str);
    let help = match nearest(name, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the tools are {}", some(known)),
    };
    report
        .error(Code::UnknownTool, file.span(pointer), format!("the tool `{name}` does not exist"))
        .help(help);
}

/// Reports an agent that a document calls as a tool and that is not there.
fn callee(report: &Report, file: &JsonFile<'_>, pointer: &str, kind: &str, name: &str, around: &Around<'_>) {
    match kind {
        "agents" => agent(report, file, pointer, name, around.agents),
        "capability" => {
            let plain = |name: &str| name.replace('_', "-");
            if around.capabilities.iter().any(|known| plain(known) == plain(name)) {
                return;
            }
            let known = || around.capabilities.iter().map(String::as_str);
            let help = match nearest(name, known()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if around.capabilities.is_empty() => {
                    format!("add `capabilities = [\"{name}\"]` to the agent that has it")
                }
                None => format!("the capabilities are {}", list(known())),
            };
            let problem = format!("no agent has the capability `{name}`");
            report.error(Code::UnknownAgent, file.span(pointer), problem).help(help);
        }
        _ => {
            let problem = format!("a document cannot hand over with a call of `{kind}.{name}`");
            report.error(Code::InvalidValue, file.span(pointer), problem).help(format!(
                "write the action `{{ \"type\": \"handoff\", \"target_agent\": \"{name}\" }}`"
            ));
        }
    }
}

fn agent(report: &Report, file: &JsonFile<'_>, pointer: &str, name: &str, agents: &BTreeSet<AgentName>) {
    let plain = |name: &str| name.replace('_', "-");
    if agents.iter().any(|agent| plain(agent.as_str()) == plain(name)) {
        return;
    }
    let help = match nearest(name, agents.iter().map(AgentName::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the agents are {}", list(agents.iter().map(AgentName::as_str))),
    };
    report.error(Code::UnknownAgent, file.span(pointer), format!("there is no agent `{name}`")).help(help);
}

/// Where actions stand.
const LISTS: &[&str] = &["actions", "on_success", "on_failure", "then_actions", "else_actions"];
