//! The agents that an agent may call as tools or hand over to.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{AgentName, EffectClass, Tool, ToolKind, ToolName, ToolPattern};
use serde_json::{Value, json};

use super::directory::Directory;
use super::{AgentTool, AgentTools, ToolSettings};
use crate::catalogue::CatalogueTool;
use crate::code::Code;
use crate::report::Report;
use crate::section::Located;
use crate::toolkit::Shelf;

/// Whom an agent may start or hand over to.
#[derive(Default)]
pub(super) struct Callees {
    /// Those that may run as its children.
    pub(super) children: BTreeSet<AgentName>,
    /// Those that may go on in its place.
    pub(super) successors: BTreeSet<AgentName>,
    /// Those that a model sees as tools.
    pub(super) tools: BTreeMap<ToolName, AgentTool>,
}

/// What a pattern of `[tools]` says about agents.
enum Wanted<'p> {
    Agents(&'p str),
    Handoff(&'p str),
    Capability(&'p str),
}

fn wanted(pattern: &ToolPattern) -> Option<Wanted<'_>> {
    if pattern.as_str() == LIST {
        return None;
    }
    let (kind, name) = pattern.as_str().split_once('.')?;
    match kind {
        "agents" => Some(Wanted::Agents(name)),
        "handoff" => Some(Wanted::Handoff(name)),
        "capability" => Some(Wanted::Capability(name)),
        _ => None,
    }
}

/// Says whether a pattern names agents, not tools of servers.
pub(super) fn names_agents(pattern: &ToolPattern) -> bool {
    wanted(pattern).is_some()
}

/// Says whether a name is that of an agent as a tool.
pub(super) fn is_agent_tool(name: &ToolName) -> bool {
    name.as_str() != LIST
        && RESERVED
            .iter()
            .any(|kind| name.as_str().strip_prefix(kind).is_some_and(|rest| rest.starts_with('.')))
}

/// The engine's own tool that lists agents. An agent of the name `list` is reached by `agents.*` or by a capability.
pub(in crate::agent) const LIST: &str = "agents.list";

/// Finds the agents that `allow` covers, and reports those that are not there.
pub(super) fn read(
    report: &Report,
    tools: &AgentTools,
    directory: &Directory,
    own: Option<&AgentName>,
) -> Callees {
    let mut callees = Callees::default();
    for pattern in &tools.allow {
        let Some(wanted) = wanted(&pattern.value) else { continue };
        let at = |name: &str| Located { value: name.to_owned(), span: pattern.span.clone() };
        match wanted {
            Wanted::Capability("*") => {
                report
                    .error(Code::InvalidValue, pattern.span.clone(), "`capability.*` names no capability")
                    .help("name one, such as `capability.incident-triage`, or allow `agents.*`");
            }
            Wanted::Capability(name) => {
                if let Some(agent) = directory.capability(report, &at(name)) {
                    let text = format!("capability.{}", name.replace('_', "-"));
                    callees.add(report, &text, &at(name), &[agent], directory);
                }
            }
            Wanted::Agents("*") | Wanted::Handoff("*") => {
                let others: Vec<_> = directory.names().filter(|name| Some(*name) != own).cloned().collect();
                callees.add(report, pattern.value.as_str(), &at("*"), &others, directory);
            }
            Wanted::Agents(name) | Wanted::Handoff(name) => {
                if let Some(agent) = directory.agent(report, &at(name)) {
                    callees.add(report, pattern.value.as_str(), &at(name), &[agent], directory);
                }
            }
        }
    }
    refuse_gates(report, tools);
    callees
}

/// What a plan allows of agents, no step reads: a step names the agent itself. A document that calls agents as tools
/// needs the permission.
pub(super) fn warn_of_unread(report: &Report, tools: &AgentTools, shelf: &Shelf<'_>) {
    let called: BTreeSet<ToolName> = shelf.called();
    let is_called = |pattern: &ToolPattern| {
        // In a document `-` and `_` are the same.
        let plain = pattern.as_str().replace('_', "-").parse::<ToolPattern>();
        called.iter().any(|name| plain.as_ref().is_ok_and(|plain| plain.matches(name)))
    };
    let patterns = tools.allow.iter().filter(|pattern| names_agents(&pattern.value));
    for pattern in patterns.filter(|pattern| !is_called(&pattern.value)) {
        report
            .warning(
                Code::NoEffect,
                pattern.span.clone(),
                format!("`{}` has no effect: the agent has steps and no model", pattern.value),
            )
            .help("remove it: a step calls an agent with `agent = \"NAME\"`, which needs no permission");
    }
}

/// A handoff ends the run, so there is nothing that could wait for a person.
fn refuse_gates(report: &Report, tools: &AgentTools) {
    let is_handoff = |text: &str| text.starts_with("handoff.");
    for pattern in tools.gates().filter(|pattern| is_handoff(pattern.value.as_str())) {
        report
            .error(
                Code::GatedHandoff,
                pattern.span.clone(),
                format!("`{}` cannot wait for an approval", pattern.value),
            )
            .label("a handoff ends the run, so nothing can wait")
            .help("gate the next agent's tools, or call it as `agents.<name>`, which a person can approve");
    }
    for (name, settings) in tools.settings.iter().filter(|(name, _)| is_handoff(name.as_str())) {
        report
            .error(Code::GatedHandoff, settings.span.clone(), format!("`{name}` cannot have settings"))
            .label("a handoff ends the run, so nothing can be retried or reported")
            .help("remove them");
    }
}

impl Callees {
    fn add(
        &mut self,
        report: &Report,
        name: &str,
        at: &Located<String>,
        agents: &[AgentName],
        directory: &Directory,
    ) {
        let mut undescribed = Vec::new();
        let is_handoff = name.starts_with("handoff.");
        for agent in agents {
            let Some(description) = directory.description(agent) else {
                undescribed.push(agent);
                continue;
            };
            let name =
                name.strip_suffix('*').map_or_else(|| name.to_owned(), |kind| format!("{kind}{agent}"));
            // The name has at most 11 letters before that of the agent, which has at most 64.
            let Ok(name) = name.parse::<ToolName>() else { continue };
            if is_handoff {
                self.successors.insert(agent.clone());
            } else {
                self.children.insert(agent.clone());
            }
            let kind = if is_handoff {
                ToolKind::Handoff { agent: agent.clone() }
            } else {
                ToolKind::Agent { agent: agent.clone() }
            };
            self.tools.insert(name, AgentTool { kind, description, timeout_ms: None });
        }
        directory.undescribed(report, at, &undescribed);
    }
}

impl AgentTool {
    /// The tool as a model sees it.
    pub(super) fn offered(&self) -> CatalogueTool {
        let (description, schema) = match &self.kind {
            ToolKind::Handoff { agent } => (
                format!("Hands over to `{agent}`, which goes on in your place. {}", self.description),
                handoff_schema(),
            ),
            _ => (self.description.to_string(), agent_schema()),
        };
        CatalogueTool {
            kind: self.kind.clone(),
            // A child run has the id of the operation, so starting it twice starts it once.
            declared: Some(EffectClass::Keyed),
            ..CatalogueTool::new(description, schema)
        }
    }

    /// A child run lasts as long as its own limits say, and no handoff waits for a person.
    pub(super) fn adapt(&self, tool: Tool, settings: Option<&Located<ToolSettings>>) -> Tool {
        let timeout_ms = settings.and_then(|settings| settings.value.timeout_ms).or(self.timeout_ms);
        let is_handoff = matches!(self.kind, ToolKind::Handoff { .. });
        Tool {
            timeout_ms: timeout_ms.unwrap_or(tool.timeout_ms),
            approve: tool.approve && !is_handoff,
            approve_when: if is_handoff { Vec::new() } else { tool.approve_when },
            approve_from: if is_handoff { Vec::new() } else { tool.approve_from },
            ..tool
        }
    }
}

fn agent_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "text": { "type": "string", "minLength": 1, "description": "What to do, in plain words." },
            "data": { "type": "object", "description": "What else the agent needs, as data." },
        },
        "required": ["text"],
        "additionalProperties": false,
    })
}

fn handoff_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "message": { "type": "string", "description": "What the next agent should know and do." },
        },
        "additionalProperties": false,
    })
}

/// Names of servers that would clash with what the engine offers itself.
pub(crate) const RESERVED: &[&str] = &["agents", "capability", "handoff", "provider"];
