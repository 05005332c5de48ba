//! An agent file and the tools that exist become the configuration of a run.

use std::fs;

use dalsegno_core::{AgentConfig, EffectClass, OnFailure, OnIndeterminate, ToolKind};
use dalsegno_workspace::{
    AgentFile, Catalogue, CatalogueTool, Diagnostic, Settings, Workspace, builtin_tools,
};
use serde_json::json;

/// An agent with these tables, in a workspace with the servers `risk` and `riskier`.
fn agent(tables: &str) -> (AgentFile, Settings) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("agents")).unwrap();
    fs::write(folder.path().join("any.wasm"), "").unwrap();
    let settings = "[servers.risk]\nwasm = 'any.wasm'\n[servers.riskier]\nwasm = 'any.wasm'\n";
    fs::write(folder.path().join("dalsegno.toml"), settings).unwrap();
    fs::write(folder.path().join("agents/a.toml"), format!("name = 'a'\n{tables}")).unwrap();
    let loaded = Workspace::load(folder.path());
    assert_eq!(loaded.diagnostics, []);
    let mut workspace = loaded.workspace.unwrap();
    (workspace.agents.remove(&"a".parse().unwrap()).unwrap(), workspace.settings)
}

fn with_tools(tools: &str) -> (AgentFile, Settings) {
    agent(&format!("[[steps]]\nrespond = 'x'\n[tools]\n{tools}"))
}

fn catalogue() -> Catalogue {
    let mut catalogue = builtin_tools();
    for name in ["risk.score", "risk.explain", "risk.record"] {
        let tool =
            CatalogueTool { read_only: Some(true), ..CatalogueTool::new(name, json!({ "type": "object" })) };
        catalogue.insert(name.parse().unwrap(), tool);
    }
    catalogue
}

fn resolved(tools: &str) -> AgentConfig {
    with_tools(tools).0.resolve(&catalogue()).unwrap()
}

fn refused(tools: &str) -> Vec<String> {
    let (agent, _) = with_tools(tools);
    let diagnostics = agent.resolve(&catalogue()).unwrap_err();
    let line = |diagnostic: &Diagnostic| {
        let underlined = &agent.source.text()[diagnostic.span.clone().unwrap()];
        format!(
            "{underlined} [{}] {} ({})",
            diagnostic.code,
            diagnostic.message,
            diagnostic.help.as_deref().unwrap()
        )
    };
    diagnostics.iter().map(line).collect()
}

fn names<'a>(tools: impl IntoIterator<Item = &'a dalsegno_core::ToolName>) -> Vec<&'a str> {
    tools.into_iter().map(|tool| tool.as_str()).collect()
}

#[test]
fn what_is_not_allowed_is_known_but_forbidden() {
    let config = resolved("allow = ['risk.score', 'memory.*']");
    assert_eq!(
        names(config.tools.tools.keys()),
        ["memory.create", "memory.search", "memory.traverse", "risk.score"]
    );
    assert_eq!(names(&config.tools.forbidden), ["risk.explain", "risk.record"]);
}

#[test]
fn nothing_is_allowed_by_default() {
    let config = resolved("");
    assert!(config.tools.tools.is_empty());
    assert_eq!(config.tools.forbidden.len(), 6);
}

#[test]
fn a_tool_is_set_up_as_the_file_says() {
    let config = resolved(
        "allow = ['risk.*']\napprove = ['risk.record']\n[tools.settings.'risk.score']\ntimeout = '2s'\nretries = 5\n\
         on_failure = { default = { value = 0 } }\neffect = 'idempotent'\non_indeterminate = 'report'",
    );
    let tool = |name: &str| &config.tools.tools[&name.parse().unwrap()];
    let score = tool("risk.score");
    assert_eq!((score.timeout_ms, score.retries, score.class), (2_000, 5, EffectClass::Idempotent));
    assert_eq!(score.on_failure, Some(OnFailure::Default(json!({ "value": 0 }))));
    assert_eq!(score.on_indeterminate, OnIndeterminate::Report);
    assert!(tool("risk.record").approve && !score.approve);
    // An annotation of a server that nobody vouched for changes nothing.
    assert_eq!(tool("risk.explain").class, EffectClass::Unsafe);
    assert_eq!(tool("risk.explain").on_indeterminate, OnIndeterminate::Ask);
}

#[test]
fn a_result_is_kept_only_where_nothing_changes() {
    let cached = "[tools.settings.'risk.score']\ncache = '10m'";
    let config = resolved(&format!("allow = ['risk.*']\n{cached}\neffect = 'read'"));
    assert_eq!(config.tools.tools[&"risk.score".parse().unwrap()].cache_ms, Some(600_000));
    // What a server says of its tools is not enough.
    assert_eq!(
        refused(&format!("allow = ['risk.*']\n{cached}")),
        ["cache [invalid-value] `cache` does not apply to this tool \
          (remove it, or set `effect = \"read\"` if the tool only reads)"]
    );
    assert_eq!(
        refused("allow = ['memory.*']\n[tools.settings.'memory.search']\ncache = '10m'"),
        ["cache [invalid-value] `cache` does not apply to this tool \
          (remove it: only results of tool servers are cached)"]
    );
}

#[test]
fn the_authors_class_stands_above_the_servers() {
    let mut catalogue = catalogue();
    for tool in catalogue.values_mut() {
        tool.trusted = true;
    }
    let (agent, _) = with_tools("allow = ['risk.*']\n[tools.settings.'risk.score']\neffect = 'unsafe'");
    let config = agent.resolve(&catalogue).unwrap();
    assert_eq!(config.tools.tools[&"risk.score".parse().unwrap()].class, EffectClass::Unsafe);
    assert_eq!(config.tools.tools[&"risk.explain".parse().unwrap()].class, EffectClass::Read);
}

#[test]
fn the_memory_tools_are_performed_by_the_engine() {
    let config = resolved("allow = ['memory.*']");
    let kinds: Vec<_> = config.tools.tools.values().map(|tool| (tool.kind.clone(), tool.class)).collect();
    assert_eq!(
        kinds,
        [
            (ToolKind::MemoryCreate, EffectClass::Keyed),
            (ToolKind::MemorySearch, EffectClass::Read),
            (ToolKind::MemoryTraverse, EffectClass::Read)
        ]
    );
}

#[test]
fn names_that_nobody_offers_are_refused_with_the_nearest_one() {
    assert_eq!(
        refused(
            "allow = ['risk.scroe', 'files.*', 'risk.record']\napprove = ['risk.recrod']\n[tools.settings.'risk.scor']"
        ),
        [
            "'risk.scroe' [unknown-tool] the tool `risk.scroe` does not exist (did you mean `risk.score`?)",
            "'files.*' [unknown-tool] no tool has a name that begins with `files.` \
             (`files` offers no tool: add `[servers.files]` to `dalsegno.toml`, or, if it exists, correct its `tools`)",
            "'risk.recrod' [unknown-tool] the tool `risk.recrod` does not exist (did you mean `risk.record`?)",
            "'risk.scor' [unknown-tool] the tool `risk.scor` does not exist (did you mean `risk.score`?)",
        ]
    );
}

#[test]
fn a_gate_on_a_tool_that_is_not_allowed_is_refused() {
    assert_eq!(
        refused("allow = ['risk.score']\napprove = ['risk.record']"),
        ["'risk.record' [tool-not-allowed] `risk.record` is set up, but the agent does not allow it \
          (add it to `allow`, which now has `risk.score`, or remove it here)"]
    );
}

#[test]
fn a_step_that_calls_what_nobody_offers_is_refused() {
    let (agent, _) = agent("[tools]\nallow = ['risk.*']\n[[steps]]\ntool = 'risk.rate'\n");
    let diagnostics = agent.resolve(&catalogue()).unwrap_err();
    assert_eq!(diagnostics.len(), 1);
    assert_eq!(diagnostics[0].message, "the tool `risk.rate` does not exist");
    assert_eq!(
        diagnostics[0].help.as_deref(),
        Some("`risk` offers `risk.explain`, `risk.record`, `risk.score`")
    );
}

#[test]
fn tools_that_a_model_could_not_tell_apart_are_refused() {
    let mut catalogue = catalogue();
    let twin = CatalogueTool::new("the same to a model", json!({ "type": "object" }));
    catalogue.insert("risk__score".parse().unwrap(), twin);
    let (agent, _) = with_tools("allow = ['*']");
    let diagnostics = agent.resolve(&catalogue).unwrap_err();
    assert_eq!(diagnostics[0].message, "a model sees both `risk.score` and `risk__score` as `risk__score`");
}

#[test]
fn only_the_servers_within_reach_are_started() {
    let reached = |tools: &str| {
        let (agent, settings) = with_tools(tools);
        agent.servers(&settings).into_iter().collect::<Vec<_>>()
    };
    assert!(reached("").is_empty());
    assert!(reached("allow = ['memory.*']").is_empty());
    assert_eq!(reached("allow = ['risk.score']"), ["risk"]);
    assert_eq!(reached("allow = ['risk.*']"), ["risk"]);
    assert_eq!(reached("allow = ['risk.deep.*']"), ["risk"]);
    assert_eq!(reached("allow = ['*']"), ["risk", "riskier"]);
}
