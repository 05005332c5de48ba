//! The agents that the documents begin from.

use dalsegno_core::*;
use serde_json::{Value, json};

/// The agent `triage` with a handful of tools; `mail.send` needs approval, `host.kill` is known but not allowed. It may
/// start the agents `scout` and `clerk`.
fn agent(mind: Mind) -> AgentConfig {
    let mut config = AgentConfig::new("triage".parse().expect("a name"), mind);
    let tool = |class| Tool { class, ..Tool::new("does something".into(), json!({"type": "object"})) };
    let tools = [
        ("log.read", tool(EffectClass::Read)),
        ("risk.score", tool(EffectClass::Read)),
        ("mail.send", Tool { approve: true, ..tool(EffectClass::Unsafe) }),
        ("ticket.open", tool(EffectClass::Unsafe)),
        ("memory.search", Tool { kind: ToolKind::MemorySearch, ..tool(EffectClass::Read) }),
        ("memory.create", Tool { kind: ToolKind::MemoryCreate, ..tool(EffectClass::Keyed) }),
    ];
    for (name, tool) in tools {
        config.tools.tools.insert(name.parse().expect("a tool name"), tool);
    }
    config.tools.forbidden.insert("host.kill".parse().expect("a tool name"));
    for (name, max_tool_calls, max_tokens) in [("scout", 8, None), ("clerk", 64, Some(5_000))] {
        let budget = Budget { max_tool_calls, max_tokens, max_cost_nano_usd: None };
        config.agents.insert(name.parse().expect("an agent name"), Callee { budget });
    }
    config
}

/// The agent with a plan that has no steps yet.
pub(crate) fn plan() -> AgentConfig {
    agent(Mind::Plan(serde_json::from_value(json!({"steps": []})).expect("a plan")))
}

/// The agent with a model.
pub(crate) fn model() -> AgentConfig {
    let mind = json!({
        "model": {"name": "local"},
        "instructions": "You triage incidents for {{tenant.name}}.",
        "prompt": "{{request.text}} on {{request.data.host}}",
    });
    agent(Mind::Model(serde_json::from_value(mind).expect("a mind")))
}

/// The same agent with these documents of declarative tools; all of their tools may be called. The error is a document that
/// is not sound.
pub(crate) fn with_tools(mut config: AgentConfig, documents: &[Value]) -> Result<AgentConfig, String> {
    for source in documents {
        let compiled = dalsegno_tools::compile(source);
        let toolkit = compiled.toolkit.ok_or_else(|| format!("this is not a sound tool: {source}"))?;
        let document = ToolDocument::new(toolkit, serde_json::Map::new());
        let toolkit = document.toolkit().name().to_owned();
        for declared in document.toolkit().tools() {
            let name = declared.name().parse().expect("a tool name");
            let kind = ToolKind::Declarative { toolkit: toolkit.clone(), tool: declared.name().to_owned() };
            let schema = declared.schema().clone();
            let tool = Tool { kind, class: EffectClass::Composite, ..Tool::new("declared".into(), schema) };
            config.tools.tools.insert(name, tool);
        }
        config.toolkits.insert(toolkit, document);
    }
    Ok(config)
}
