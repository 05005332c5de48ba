//! The tools that a model's provider runs by itself: nothing but a name in `allow` gives them to an agent.

use std::fs;

use dalsegno_core::{Mind, ProviderTool};
use dalsegno_workspace::{Loaded, Workspace, builtin_tools};

/// A workspace with an agent `a` of this text, whose models are `claude`, `chat` and `searching`, which searches by default.
fn written(agent: &str) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("agents")).unwrap();
    let settings = "\
        [models.claude]\nprovider = 'anthropic'\nmodel = 'c'\napi_key = { env = 'K' }\n\
        [models.chat]\nprovider = 'openai'\nmodel = 'g'\napi_key = { env = 'K' }\n\
        [models.searching]\nprovider = 'openai-responses'\nmodel = 'g'\napi_key = { env = 'K' }\nprovider_tools = ['web_search']\n";
    fs::write(folder.path().join("dalsegno.toml"), settings).unwrap();
    fs::write(folder.path().join("agents/a.toml"), format!("name = 'a'\n{agent}")).unwrap();
    Workspace::load(folder.path())
}

/// What an agent's model and its fallbacks ask of their providers; none if the workspace has an error.
fn asked(agent: &str) -> Option<Vec<Vec<ProviderTool>>> {
    let workspace = written(agent).workspace?;
    let config = workspace.agents.values().next()?.resolve(&builtin_tools()).unwrap();
    let Mind::Model(mind) = config.mind else { return None };
    let models = std::iter::once(&mind.model).chain(&mind.fallback);
    Some(models.map(|model| model.control.provider_tools.clone()).collect())
}

/// Each message about an agent, with its help.
fn messages(agent: &str) -> Vec<String> {
    let diagnostics = written(agent).diagnostics;
    let told = diagnostics.iter().map(|one| format!("{}: {}", one.code, one.message));
    told.collect()
}

#[test]
fn a_tool_that_is_asked_for_and_allowed_reaches_the_model() {
    use ProviderTool::{CodeExecution, WebSearch};
    let claude = "model = { use = 'claude', provider_tools = ['web_search', 'code_execution'] }";
    for allow in ["['provider.web_search', 'provider.code_execution']", "['provider.*']"] {
        let agent = format!("tools.allow = {allow}\n{claude}");
        assert_eq!(asked(&agent), Some(vec![vec![WebSearch, CodeExecution]]), "{allow}");
        assert_eq!(messages(&agent), [""; 0], "{allow}");
    }
    // The default of a model, for an agent that allows it and for one that does not.
    let allowed =
        "tools.allow = ['provider.web_search']\nmodel = { use = 'claude', fallback = ['searching'] }";
    assert_eq!(asked(allowed), Some(vec![vec![], vec![WebSearch]]));
    assert_eq!(messages(allowed), [""; 0]);
    for agent in ["", "tools.allow = ['*']\n", "tools = { allow = ['provider.web_search'], deny = ['*'] }\n"]
    {
        let agent = format!("{agent}model = {{ use = 'searching' }}");
        assert_eq!(asked(&agent), Some(vec![vec![]]), "{agent}");
    }
}

#[test]
fn a_tool_that_is_not_allowed_is_refused() {
    let asks = "model = { use = 'claude', provider_tools = ['web_search'] }";
    let lists = "`provider_tools` has `web_search`, but the agent does not allow `provider.web_search`";
    for tools in [
        "",
        "tools.allow = ['*']",
        "tools.allow = ['provider.web_fetch']",
        "tools = { allow = ['provider.*'], deny = ['provider.web_search'] }",
        "tools = { allow = ['provider.web_search'], deny = ['*'] }",
    ] {
        let agent = format!("{tools}\n{asks}");
        assert_eq!(asked(&agent), None, "{tools}");
        assert!(messages(&agent).contains(&format!("tool-not-allowed: {lists}")), "{:?}", messages(&agent));
    }
}

#[test]
fn what_such_a_tool_cannot_have_is_refused() {
    let cases = [
        (
            "approve = ['provider.web_search']",
            "invalid-value: `provider.web_search` cannot wait for an approval",
        ),
        (
            "approve = [{ tool = 'provider.*', when = 'args.query == null' }]",
            "invalid-value: `provider.*` cannot wait for an approval",
        ),
        (
            "approve = [{ tool = 'provider.web_search', unless_from = { 'args.query' = ['user'] } }]",
            "invalid-value: `provider.web_search` cannot wait for an approval",
        ),
        (
            "deny = [{ tool = 'provider.web_search', when = 'args.query == null' }]",
            "invalid-value: `provider.web_search` cannot be denied by its arguments",
        ),
        (
            "deny = ['provider.web_serach']",
            "unknown-tool: `provider.web_serach` is no tool that providers run",
        ),
        (
            "settings.'provider.web_search' = { timeout = '1s' }",
            "invalid-value: `provider.web_search` cannot have settings",
        ),
    ];
    for (rule, expected) in cases {
        let agent = format!(
            "model = {{ use = 'claude', provider_tools = ['web_search'] }}\n[tools]\nallow = ['provider.*']\n{rule}"
        );
        assert_eq!(asked(&agent), None, "{rule}");
        assert_eq!(messages(&agent), [expected], "{rule}");
    }
    let misspelt = "tools.allow = ['provider.web_serach']\nmodel = { use = 'claude' }";
    assert_eq!(messages(misspelt)[0], "unknown-tool: `provider.web_serach` is no tool that providers run");
    let unknown = "tools.allow = ['provider.*']\nmodel = { use = 'claude', provider_tools = ['shell'] }";
    let told = messages(unknown);
    let refused = "invalid-value: expected `code_execution`, `web_fetch` or `web_search`";
    assert_eq!(told.iter().filter(|one| *one == refused).count(), 1, "{told:?}");
}

#[test]
fn a_wire_without_the_tool_says_so() {
    let agent = "tools.allow = ['provider.*']\nmodel = { use = 'chat', provider_tools = ['web_search'] }";
    let expected = "unsupported-setting: the wire `openai` has no `provider_tools = [\"web_search\"]`";
    assert_eq!(messages(agent), [expected]);
    let agent = "tools.allow = ['provider.*']\nmodel = { use = 'searching', provider_tools = ['web_fetch'] }";
    let expected =
        "unsupported-setting: the wire `openai-responses` has no `provider_tools = [\"web_fetch\"]`";
    assert_eq!(messages(agent), [expected]);
}

#[test]
fn a_permission_without_effect_is_told() {
    let expected = "no-effect: `provider.web_search` has no effect: no model of the agent asks for it";
    assert_eq!(messages("tools.allow = ['provider.web_search']\nmodel = { use = 'claude' }"), [expected]);
    let plan = "tools.allow = ['provider.web_search']\n[[steps]]\nrespond = 'x'";
    assert_eq!(messages(plan), [expected]);
}

#[test]
fn nothing_else_can_be_called_provider() {
    let folder = tempfile::tempdir().unwrap();
    let server = "[servers.provider]\ncommand = ['true']\n";
    fs::write(folder.path().join("dalsegno.toml"), server).unwrap();
    let loaded = Workspace::load(folder.path());
    let told: Vec<_> = loaded.diagnostics.iter().map(|one| one.message.as_str()).collect();
    assert!(told.contains(&"a server cannot be called `provider`"), "{told:?}");
}
