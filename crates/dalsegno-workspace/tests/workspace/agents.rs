//! Agents that call each other, by name, by capability, as tools, in plans; and what the newer keys turn into.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dalsegno_core::{
    AgentConfig, Budget, Callee, Compact, ContextSettings, EffectClass, Mind, ModelControl, ModelMind,
    OnFailure, PlanCall, PlanStep, Price, Reasoning, StepAction, ToolChoice, ToolKind, Verbosity, Wait,
};
use dalsegno_workspace::{
    AwsKeyBinding, Catalogue, CatalogueTool, HttpBinding, ModelBinding, PromptCache, Provider, SecretRef,
    ToolFiles, Workspace, builtin_tools,
};
use serde_json::json;

fn load() -> (PathBuf, Workspace) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/valid/agents");
    let workspace = Workspace::load(&root).workspace.unwrap();
    (root, workspace)
}

fn config(workspace: &Workspace, agent: &str) -> AgentConfig {
    workspace.agents[&agent.parse().unwrap()].resolve(&builtin_tools()).unwrap()
}

fn model(config: &AgentConfig) -> &ModelMind {
    match &config.mind {
        Mind::Model(model) => model,
        Mind::Plan(_) => panic!("`{}` has steps", config.name),
    }
}

/// The steps of the agent that has one of each kind.
fn steps(workspace: &Workspace) -> Vec<PlanStep> {
    match config(workspace, "flow").mind {
        Mind::Plan(plan) => plan.steps,
        Mind::Model(_) => panic!("`flow` has a model"),
    }
}

fn call(step: &PlanStep) -> &PlanCall {
    match &step.action {
        StepAction::Operation(operation) => &operation.call,
        other => panic!("{other:?}"),
    }
}

/// Loads a workspace of these agents, each `(name, the rest of its file)`.
fn written(agents: &[(&str, &str)]) -> dalsegno_workspace::Loaded {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("agents")).unwrap();
    std::fs::write(folder.path().join("script.toml"), "").unwrap();
    std::fs::write(
        folder.path().join("dalsegno.toml"),
        "[models.default]\nprovider = 'script'\nfile = 'script.toml'\n",
    )
    .unwrap();
    for (name, text) in agents {
        let file = folder.path().join(format!("agents/{name}.toml"));
        std::fs::write(file, format!("name = '{name}'\n{text}")).unwrap();
    }
    Workspace::load(folder.path())
}

#[test]
fn agents_become_tools_of_a_model() {
    let (_, workspace) = load();
    let config = config(&workspace, "lead");
    let tool = |name: &str| &config.tools.tools[&name.parse().unwrap()];
    let names: Vec<_> = config.tools.tools.keys().map(|name| name.as_str()).collect();
    assert_eq!(names, ["agents.helper", "capability.incident-triage", "handoff.flow", "memory.traverse"]);

    let helper = tool("agents.helper");
    assert_eq!(helper.kind, ToolKind::Agent { agent: "helper".parse().unwrap() });
    assert_eq!((helper.description.as_str(), helper.class), ("Helps.", EffectClass::Keyed));
    assert_eq!(helper.input_schema["required"], json!(["text"]));
    assert_eq!(helper.input_schema["properties"]["data"]["type"], "object");
    assert_eq!((helper.timeout_ms, &helper.on_failure), (180_000, &Some(OnFailure::Report)));
    assert!(!helper.approve);

    let by_capability = tool("capability.incident-triage");
    assert_eq!(by_capability.kind, helper.kind);
    // Without a setting, the agent's own limit.
    assert_eq!((by_capability.timeout_ms, by_capability.approve), (240_000, true));

    let flow = tool("handoff.flow");
    assert_eq!(flow.kind, ToolKind::Handoff { agent: "flow".parse().unwrap() });
    assert!(flow.description.ends_with("Uses every kind of step."), "{}", flow.description);
    assert_eq!(flow.input_schema["properties"]["message"]["type"], "string");
    assert_eq!(flow.input_schema.get("required"), None);
}

#[test]
fn a_configuration_knows_what_its_callees_may_use() {
    let (_, workspace) = load();
    let agents = config(&workspace, "lead").agents;
    let names: Vec<_> = agents.keys().map(|name| name.as_str()).collect();
    assert_eq!(names, ["flow", "helper"]);
    let budget = Budget { max_tool_calls: 3, max_tokens: None, max_cost_nano_usd: None };
    assert_eq!(agents[&"helper".parse().unwrap()], Callee { budget });
    assert_eq!(config(&workspace, "flow").agents.len(), 1);
    assert!(config(&workspace, "helper").agents.is_empty());
}

#[test]
fn a_star_covers_no_agent() {
    let described = "description = 'x'\n[model]\nuse = 'default'\n[tools]\n";
    let loaded = written(&[
        ("a", &format!("{described}allow = ['*']")),
        ("b", &format!("{described}allow = ['agents.*', 'handoff.*']\napprove = ['*']")),
        ("c", &format!("{described}allow = ['agents.c']")),
    ]);
    assert_eq!(loaded.diagnostics, []);
    let workspace = loaded.workspace.unwrap();
    let tools = |agent: &str| -> Vec<_> {
        let tools = config(&workspace, agent).tools.tools;
        tools.iter().map(|(name, tool)| (name.as_str().to_owned(), tool.approve)).collect()
    };
    assert_eq!(
        tools("a").iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["memory.create", "memory.search", "memory.traverse"]
    );
    // All others, not itself; and a handoff waits for nobody.
    let all = [("agents.a", true), ("agents.c", true), ("handoff.a", false), ("handoff.c", false)];
    assert_eq!(tools("b"), all.map(|(name, approve)| (name.to_owned(), approve)));
    // An agent may name itself: the engine bounds how deep runs nest.
    assert_eq!(tools("c"), [("agents.c".to_owned(), false)]);
}

#[test]
fn a_gate_on_an_agent_that_is_not_allowed_is_refused() {
    let loaded = written(&[
        ("a", "[model]\nuse = 'default'\n[tools]\napprove = ['agents.b']\nsettings.'agents.b'.retries = 1"),
        ("b", "description = 'x'\n[[steps]]\nrespond = 'x'"),
    ]);
    let workspace = loaded.workspace.unwrap();
    let refused = workspace.agents[&"a".parse().unwrap()].resolve(&builtin_tools()).unwrap_err();
    let messages: Vec<_> = refused.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    assert_eq!(messages, ["`agents.b` is set up, but the agent does not allow it"; 2]);
}

#[test]
fn an_agent_that_cannot_be_read_is_not_called_unknown() {
    let loaded = written(&[
        ("a", "[[steps]]\nagent = 'b'\n[[steps]]\nagent = { capability = 'c' }"),
        ("b", "capabilities = ['c'\n[[steps]]\nrespond = 'x'"),
    ]);
    let files: Vec<_> = loaded.diagnostics.iter().map(|found| found.file.to_str().unwrap()).collect();
    assert!(files.iter().all(|file| *file == "agents/b.toml"), "{:?}", loaded.diagnostics);
}

#[test]
fn every_key_of_a_model_arrives() {
    let (_, workspace) = load();
    let config = config(&workspace, "lead");
    let mind = model(&config);
    let price = |input, output| Some(Price::new(input, output));
    let models: Vec<_> = std::iter::once(&mind.model).chain(&mind.fallback).collect();
    let prices: Vec<_> = models.iter().map(|model| (model.name.as_str(), model.price.clone())).collect();
    assert_eq!(
        prices,
        [
            ("default", price(250_000, 2_000_000)),
            ("local", price(0, 0)),
            ("remote", price(3_000_000, 15_000_000))
        ]
    );
    assert!(models.iter().all(|model| model.retries == 1));
    let output = mind.output.as_ref().unwrap();
    assert_eq!((output.retries, &output.schema["required"]), (1, &json!(["level"])));
    assert_eq!(mind.context, Some(ContextSettings { max_tokens: 20_000, compact: Compact::Summarise }));
    let limits = config.limits;
    assert_eq!((limits.max_tokens, limits.max_cost_nano_usd), (Some(100_000), Some(500_000_000)));
    assert_eq!((limits.max_state_bytes, limits.repeat_limit), (2 << 20, 5));
}

#[test]
fn every_kind_of_step_arrives() {
    let (_, workspace) = load();
    let steps = steps(&workspace);
    let PlanCall::MemoryTraverse { from, relation, depth: 3, limit: 10 } = call(&steps[0]) else {
        panic!("{:?}", steps[0])
    };
    assert_eq!((from.source(), relation.as_deref()), ("{{request.text}}", Some("caused_by")));
    let PlanCall::MemoryCreate { relations, .. } = call(&steps[1]) else { panic!("{:?}", steps[1]) };
    assert_eq!((relations[0].relation.as_str(), relations[0].to.source()), ("caused_by", "{{request.text}}"));
    let StepAction::Set(set) = &steps[2].action else { panic!("{:?}", steps[2]) };
    assert_eq!((set["count"].source(), set["owners"].source()), ("1", "steps.around.entities"));

    let StepAction::ForEach(each) = &steps[3].action else { panic!("{:?}", steps[3]) };
    assert_eq!((each.list.source(), each.concurrency), ("vars.owners", 4));
    assert_eq!(each.operation.on_failure, Some(OnFailure::Default(json!("nothing"))));
    let PlanCall::Agent { agent, text: Some(text), data: Some(data) } = &each.operation.call else {
        panic!("{each:?}")
    };
    assert_eq!((agent.as_str(), data.source()), ("helper", &json!({ "owner": "{{item}}" })));
    assert!(text.source().starts_with("{{item.name}}"));
    assert!(
        matches!(call(&steps[4]), PlanCall::Agent { agent, text: None, data: None } if agent.as_str() == "helper")
    );

    let PlanCall::Model { model, instructions: Some(instructions), prompt, schema: Some(schema) } =
        call(&steps[5])
    else {
        panic!("{:?}", steps[5])
    };
    assert_eq!((model.name.as_str(), model.temperature), ("local", Some(0.0)));
    assert_eq!((model.max_output_tokens, model.timeout_ms, model.retries), (Some(100), 10_000, 0));
    assert_eq!((instructions.source(), prompt.source()), ("Be short.", "{{request.text}}"));
    assert_eq!(**schema, json!({ "type": "object" }));
    assert!(
        matches!(call(&steps[6]), PlanCall::Model { model, schema: None, .. } if model.name == "default")
    );

    let PlanCall::Ask { schema: Some(schema), .. } = call(&steps[7]) else { panic!("{:?}", steps[7]) };
    assert_eq!(schema["required"], json!(["level"]));
    assert_eq!(call(&steps[8]), &PlanCall::Wait(Wait::For { ms: 600_000 }));
    assert!(
        matches!(call(&steps[9]), PlanCall::Wait(Wait::Until(until)) if until.source() == "request.data.at")
    );
    assert!(matches!(&steps[10].action, StepAction::Parallel(branches) if branches.len() == 5));
    let StepAction::Output(output) = &steps[11].action else { panic!("{:?}", steps[11]) };
    assert_eq!(output.source()["list"], json!([1, true, "{{steps.one}}"]));
    let StepAction::Handoff(handoff) = &steps[12].action else { panic!("{:?}", steps[12]) };
    assert_eq!(handoff.target.as_str(), "helper");
    assert_eq!(handoff.message.as_ref().unwrap().source(), "{{request.text}}");
    assert_eq!(handoff.data.as_ref().unwrap().source(), &json!({ "level": "{{steps.answer.level}}" }));
}

#[test]
fn every_kind_of_model_arrives() {
    let (root, workspace) = load();
    let settings = &workspace.settings;
    let local = HttpBinding {
        provider: Provider::Openai,
        model: "qwen3:4b".to_owned(),
        base_url: Some("http://127.0.0.1:11434/v1".to_owned()),
        allow_http: false,
        api_key: None,
        aws_key: None,
        keys: None,
        region: None,
        api_key_header: None,
        concurrency: Some(8),
        extra: json!({ "reasoning_effort": "low", "seed": 7 }).as_object().unwrap().clone(),
        headers: BTreeMap::new(),
        idle_timeout: None,
        stream_options: true,
        cache: PromptCache::default(),
        tool_files: ToolFiles::default(),
    };
    assert_eq!(settings.models["local"], ModelBinding::Http(local));
    let ModelBinding::Http(remote) = &settings.models["remote"] else { panic!() };
    assert_eq!((remote.provider, &remote.base_url), (Provider::Anthropic, &None));
    assert_eq!(remote.cache, PromptCache::OneHour);
    assert_eq!(remote.api_key, Some(SecretRef::File(root.join("key.txt"))));
    let ModelBinding::Http(third) = &settings.models["third"] else { panic!() };
    assert_eq!((remote.tool_files, third.tool_files), (ToolFiles::Images, ToolFiles::Off));
    assert_eq!((third.headers["x-team"].as_str(), third.stream_options), ("ops", false));
    assert_eq!(third.idle_timeout, Some(Duration::from_secs(90)));
    let control = &settings.controls["third"];
    assert_eq!((control.reasoning, control.top_p, control.seed), (Some(Reasoning::Low), Some(0.9), Some(7)));
    assert_eq!((control.verbosity, control.strict), (Some(Verbosity::Medium), Some(false)));
    assert_eq!(settings.controls["fourth"].reasoning, Some(Reasoning::MaxTokens(2048)));
    assert!(!settings.controls.contains_key("default"));
    let ModelBinding::Http(near) = &settings.models["near"] else { panic!() };
    assert!(near.allow_http && near.concurrency.is_none());
    assert_eq!(near.provider, Provider::OpenaiResponses);
    assert_eq!(near.base_url.as_deref(), Some("http://models.internal:8080/v1"));
    assert_eq!(near.api_key, Some(SecretRef::Env("NEAR_KEY".to_owned())));
    let bedrock = |name: &str| match &settings.models[name] {
        ModelBinding::Http(http) => http.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(bedrock("bedrock").region.as_deref(), Some("eu-central-1"));
    assert_eq!(bedrock("bedrock").aws_key, None);
    let parts = AwsKeyBinding::Parts {
        access_key_id: SecretRef::Env("AWS_ACCESS_KEY_ID".to_owned()),
        secret_access_key: SecretRef::Store("aws.secret".to_owned()),
        session_token: Some(SecretRef::Env("AWS_SESSION_TOKEN".to_owned())),
    };
    assert_eq!(bedrock("bedrock_keys").aws_key, Some(parts));
    let of_keys: Vec<String> = bedrock("bedrock_keys").secrets().map(|(key, _)| key).collect();
    assert_eq!(of_keys, ["access_key_id", "secret_access_key", "session_token"]);
    let profile = bedrock("bedrock_profile");
    assert!(matches!(profile.aws_key, Some(AwsKeyBinding::Document(SecretRef::Command(_)))), "{profile:?}");
    assert_eq!(settings.secret_commands().filter(|(place, _)| place == "models.bedrock_profile").count(), 1);
    let file = root.join("recorded.jsonl");
    assert_eq!(settings.models["recorded"], ModelBinding::Cassette { file });
    assert_eq!(settings.prices.len(), 4);
}

#[test]
fn a_tool_falls_back_to_another_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/valid/every-key");
    let workspace = Workspace::load(&root).workspace.unwrap();
    let agent = &workspace.agents[&"planned".parse().unwrap()];
    let offered = |names: &[&str]| -> Catalogue {
        let tool = CatalogueTool::new("", json!({ "type": "object" }));
        names.iter().map(|name| (name.parse().unwrap(), tool.clone())).collect()
    };
    let config = agent.resolve(&offered(&["files.list", "files.read"])).unwrap();
    let list = &config.tools.tools[&"files.list".parse().unwrap()];
    assert_eq!(list.on_failure, Some(OnFailure::Fallback("files.read".parse().unwrap())));
    let refused = agent.resolve(&offered(&["files.list"])).unwrap_err();
    let missing = refused.iter().filter(|found| found.message == "the tool `files.read` does not exist");
    // Its settings, the step that calls it, and the tool and the step that fall back to it.
    assert_eq!(missing.count(), 4, "{refused:?}");
    // And the tool that asks it when a call is in doubt.
    let asks = "`verify` asks `files.read`, which is not among the agent's tools";
    assert!(refused.iter().any(|found| found.message == asks) && refused.len() == 5, "{refused:?}");
}

#[test]
fn a_bound_on_the_cost_needs_the_prices_of_all_that_count() {
    let problems = |agents: &[(&str, &str)]| -> Vec<String> {
        written(agents).diagnostics.iter().map(|found| found.code.to_string()).collect()
    };
    let bounded = "description = 'x'\n[limits]\nmax_cost_usd = 1\n";
    let plan = format!("{bounded}[[steps]]\nrespond = 'x'");
    let asking = "description = 'x'\n[model]\nuse = 'default'\n";
    assert!(problems(&[("a", &plan)]).is_empty());
    let step = format!("{bounded}[[steps]]\nmodel = {{ prompt = 'x' }}");
    assert_eq!(problems(&[("a", &step)]), ["missing-price"]);
    // By way of an agent in between, and of agents that call each other.
    let first = format!("{bounded}[[steps]]\nagent = 'b'");
    let second = "[[steps]]\nagent = 'c'\n[[steps]]\nwhen = 'request.data'\nagent = 'a'";
    assert_eq!(problems(&[("a", &first), ("b", second), ("c", asking)]), ["missing-price"]);
    // A handoff starts a run of its own, with limits of its own.
    let handoff = format!("{bounded}[[steps]]\nhandoff = 'c'");
    assert!(problems(&[("a", &handoff), ("c", asking)]).is_empty());
}

#[test]
fn two_hundred_agents_that_all_call_each_other_load() {
    let description = "x".repeat(1_000);
    let text = format!(
        "description = '{description}'\n[model]\nuse = 'default'\n[tools]\nallow = ['agents.*']\n[limits]\nmax_tokens = 1000\n"
    );
    let names: Vec<_> = (0..200).map(|number| format!("a{number}")).collect();
    let agents: Vec<_> = names.iter().map(|name| (name.as_str(), text.as_str())).collect();
    let workspace = written(&agents).workspace.unwrap();
    assert_eq!(config(&workspace, "a0").tools.tools.len(), 199);
}

/// Models write an answer in the order of its schema.
#[test]
fn a_schema_keeps_the_order_of_its_file() {
    let keys = |schema: &dalsegno_core::JsonSchema| schema.to_string();
    let written_in = |text: &str| {
        let loaded = written(&[("helper", text)]);
        assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
        let config = config(&loaded.workspace.unwrap(), "helper");
        (keys(&model(&config).output.as_ref().unwrap().schema), config.digest())
    };
    let model = "description = 'd'\n[model]\nuse = 'default'\n";
    let inline = "schema = { type = 'object', properties = { why = { type = 'string' }, answer = { enum = ['b', 'a'] } } }";
    let expected = r#"{"type":"object","properties":{"why":{"type":"string"},"answer":{"enum":["b","a"]}}}"#;
    let (inline, digest) = written_in(&format!("{model}[output]\n{inline}\n"));
    assert_eq!(inline, expected);
    let tables = "[output.schema]\ntype = 'object'\n[output.schema.properties]\nwhy.type = 'string'\n\
                  answer.enum = ['b', 'a']\n";
    assert_eq!(written_in(&format!("{model}{tables}")), (inline, digest));
    let swapped = "schema = { type = 'object', properties = { answer = { enum = ['b', 'a'] }, why = { type = 'string' } } }";
    assert_ne!(
        written_in(&format!("{model}[output]\n{swapped}\n")).1,
        digest,
        "the order is part of the configuration"
    );
}

#[test]
fn a_schema_in_a_file_keeps_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("agents")).unwrap();
    write("script.toml", "");
    write("dalsegno.toml", "[models.default]\nprovider = 'script'\nfile = 'script.toml'\n");
    write("answer.json", "{\n  \"type\": \"object\",\n  \"properties\": { \"why\": {}, \"answer\": {} }\n}");
    write(
        "agents/a.toml",
        "name = 'a'\ndescription = 'd'\nsteps = [{ model = { prompt = 'x', schema = 'answer.json' } }]\n",
    );
    let loaded = Workspace::load(folder.path());
    let config = config(loaded.workspace.as_ref().expect("a workspace"), "a");
    let Mind::Plan(plan) = config.mind else { panic!() };
    let PlanCall::Model { schema: Some(schema), .. } = call(&plan.steps[0]) else { panic!() };
    assert_eq!(schema.to_string(), r#"{"type":"object","properties":{"why":{},"answer":{}}}"#);
}

/// What an agent sets stands above what `dalsegno.toml` sets for the model; each model of the agent has its own.
#[test]
fn an_agent_has_the_last_word_on_how_its_model_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("agents")).unwrap();
    let endpoint = "provider = 'openai'\nbase_url = 'http://127.0.0.1:1/v1'\nmodel = 'm'\n";
    write(
        "dalsegno.toml",
        &format!(
            "[models.one]\n{endpoint}top_p = 0.9\nseed = 7\n[models.two]\n{endpoint}verbosity = 'low'\n"
        ),
    );
    write(
        "agents/a.toml",
        "name = 'a'\ntools.allow = ['memory.search']\n[model]\nuse = 'one'\nfallback = ['two']\ntop_p = 0.5\n\
         first = 'memory.search'\nreasoning = 'high'\n",
    );
    let loaded = Workspace::load(folder.path());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    let config = config(loaded.workspace.as_ref().unwrap(), "a");
    let (first, reasoning) =
        (Some(ToolChoice::Tool("memory.search".parse().unwrap())), Some(Reasoning::High));
    let own = ModelControl { top_p: Some(0.5), first, reasoning, ..ModelControl::default() };
    let mind = model(&config);
    assert_eq!(*mind.model.control, ModelControl { seed: Some(7), ..own.clone() });
    assert_eq!(*mind.fallback[0].control, ModelControl { verbosity: Some(Verbosity::Low), ..own });
}
