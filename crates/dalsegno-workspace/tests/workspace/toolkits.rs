//! Declarative tools and tenants as values: who sees which tools, with which settings and secrets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use dalsegno_core::{AgentConfig, EffectClass, ToolName, ToolOwner};
use dalsegno_workspace::{Catalogue, Diagnostic, Lock, SecretRef, Workspace, builtin_tools};
use serde_json::json;
use tempfile::TempDir;

/// A workspace of these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in files {
        let file = folder.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    folder
}

fn load(root: &Path) -> Workspace {
    let loaded = Workspace::load(root);
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    loaded.workspace.unwrap()
}

fn sample() -> Workspace {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/valid/tools"))
}

fn name(text: &str) -> ToolName {
    text.parse().unwrap()
}

fn names(catalogue: &Catalogue) -> Vec<&str> {
    catalogue.keys().map(ToolName::as_str).collect()
}

/// The configuration of the sample's agent for a tenant.
fn resolved(workspace: &Workspace, tenant: &str) -> AgentConfig {
    let mut catalogue = builtin_tools();
    catalogue.extend(workspace.declared_tools(tenant));
    workspace.agents.values().next().unwrap().resolve(&catalogue).unwrap()
}

const AGENT: &str = "name = \"a\"\n\n[tools]\nallow = [\"transfer.*\"]\napprove = [\"transfer.request_transfer\"]\n\n\
                     [[steps]]\nrespond = \"Hello\"\n";

const TRANSFER: &str = r#"
name = "acme"

[[features.refer.destinations]]
destination_id = "sales"
target_uri = "sip:sales@acme.example"
"#;

#[test]
fn a_document_of_a_tenant_stands_in_for_that_of_the_workspace() {
    let workspace = sample();
    let common = &workspace.toolkits_for("nobody")["save_meal"];
    let own = &workspace.toolkits_for("basil")["save_meal"];
    assert_eq!(workspace.toolkits_for("acme")["save_meal"].toolkit, common.toolkit);
    assert_eq!(own.toolkit.description(), "Keeps a meal in the session.");
    assert!(own.source.as_ref().unwrap().file().ends_with("tenants/basil/tools/save_meal.json"));
    assert_eq!(names(&workspace.declared_tools("basil")), ["crm.close_case", "crm.find_case", "save_meal"]);
}

#[test]
fn what_a_tenant_switches_off_is_offered_to_the_others_only() {
    let workspace = sample();
    assert_eq!(names(&workspace.declared_tools("acme")), ["crm.find_case", "save_meal"]);
    assert_eq!(names(&workspace.declared_tools("cumin")), ["crm.close_case", "crm.find_case", "save_meal"]);
    assert_eq!(names(&workspace.declared_tools("nobody")), names(&workspace.declared_tools("cumin")));
}

#[test]
fn a_declarative_tool_carries_its_document_and_is_made_of_parts() {
    let workspace = sample();
    let catalogue = workspace.declared_tools("cumin");
    let tool = &catalogue[&name("crm.find_case")];
    assert_eq!(tool.description, "Finds cases by a word.");
    assert_eq!(tool.input_schema["required"], json!(["word"]));
    assert_eq!(tool.declared, Some(EffectClass::Composite));
    let document = tool.document.as_ref().unwrap();
    assert_eq!(document.toolkit.source()["name"], "crm");
    assert!(document.toolkit.tool("crm.find_case").is_some());
    assert_eq!(resolved(&workspace, "cumin").tools.tools[&name("save_meal")].class, EffectClass::Composite);
}

/// Models write arguments in the order of the schema.
#[test]
fn a_model_is_told_of_parameters_in_the_order_of_the_document() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tools")).unwrap();
    let document = r#"{
        "name": "judge", "description": "Judges.",
        "parameters": [
            { "name": "why", "type": "string" },
            { "name": "answer", "type": "object", "properties": [
                { "name": "text", "type": "string" }, { "name": "certain", "type": "boolean" }
            ] },
            { "name": "list", "type": "array", "items": { "type": "object", "properties": [
                { "name": "z", "type": "string" }, { "name": "a", "type": "string" }
            ] } }
        ],
        "actions": [{ "type": "respond", "message": "yes" }]
    }"#;
    fs::write(folder.path().join("dalsegno.toml"), "").unwrap();
    fs::write(folder.path().join("tools/judge.json"), document).unwrap();
    let loaded = Workspace::load(folder.path());
    let catalogue =
        loaded.workspace.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics)).declared_tools("nobody");
    let schema = catalogue[&name("judge")].input_schema.to_string();
    let places = ["why", "answer", "text", "certain", "list", "z", "a"]
        .map(|name| schema.find(&format!("\"{name}\":{{")).unwrap());
    assert!(places.is_sorted(), "{schema}");
}

#[test]
fn a_tenant_sets_above_the_agent_and_the_agent_above_the_document() {
    let workspace = sample();
    let agent = workspace.agents.values().next().unwrap();
    let config = |tenant: &str| {
        let catalogue = workspace.declared_tools(tenant);
        let tool = catalogue[&name("crm.find_case")].document.clone().unwrap();
        json!(tool.config_with(agent.tools.toolkits.get("crm")))
    };
    assert_eq!(config("acme"), json!({ "queue": "second", "limit": 3 }));
    assert_eq!(config("basil"), json!({ "queue": "first", "limit": 20 }));
    let alone = workspace.declared_tools("basil")[&name("crm.find_case")].document.clone().unwrap();
    assert_eq!(json!(alone.config_with(None)), json!({ "queue": "first", "limit": 10 }));
}

#[test]
fn patterns_cover_declarative_tools_and_the_agent_switches_off_single_ones() {
    let workspace = sample();
    let config = resolved(&workspace, "cumin");
    let allowed: Vec<_> = config.tools.tools.keys().map(ToolName::as_str).collect();
    assert_eq!(allowed, ["crm.close_case", "save_meal"]);
    assert!(config.tools.forbidden.contains(&name("crm.find_case")));
    assert!(config.tools.tools[&name("crm.close_case")].approve);
    assert!(!config.tools.tools[&name("save_meal")].approve);
}

#[test]
fn a_tool_that_a_tenant_does_not_have_is_forbidden_and_no_mistake() {
    let workspace = sample();
    let config = resolved(&workspace, "acme");
    assert!(!config.tools.tools.contains_key(&name("crm.close_case")));
    assert!(config.tools.forbidden.contains(&name("crm.close_case")));
}

#[test]
fn a_tool_built_from_features_is_there_for_its_tenant_alone() {
    let files = [("dalsegno.toml", ""), ("agents/a.toml", AGENT), ("tenants/acme.toml", TRANSFER)];
    let folder = folder(&files);
    let workspace = load(folder.path());
    assert_eq!(workspace.check(&Lock::default(), &Catalogue::new()), []);
    assert_eq!(names(&workspace.declared_tools("acme")), ["transfer.request_transfer"]);
    assert_eq!(names(&workspace.declared_tools("other")), Vec::<&str>::new());
    let tool = resolved(&workspace, "acme").tools.tools[&name("transfer.request_transfer")].clone();
    assert!(tool.approve);
    let shown = format!("{} {}", tool.description, tool.input_schema);
    assert!(shown.contains("sales") && !shown.contains("sip:"), "{shown}");
    assert!(resolved(&workspace, "other").tools.forbidden.contains(&name("transfer.request_transfer")));
}

#[test]
fn a_slip_in_the_name_of_a_tool_of_a_tenant_is_found_all_the_same() {
    let agent = AGENT.replace("transfer.*", "transfr.*");
    let files = [("dalsegno.toml", ""), ("agents/a.toml", &agent), ("tenants/acme.toml", TRANSFER)];
    let folder = folder(&files);
    let found = load(folder.path()).check(&Lock::default(), &Catalogue::new());
    let codes: BTreeSet<_> = found.iter().map(|found| found.code.as_str()).collect();
    assert_eq!(codes, BTreeSet::from(["tool-not-allowed", "unknown-tool"]), "{found:?}");
}

#[test]
fn a_secret_is_looked_up_in_one_tenant_and_then_in_the_workspace() {
    let settings = "[secrets]\n\"crm.token\" = { env = \"SHARED\" }\n\"save_meal.key\" = { env = \"SHARED_KEY\" }\n\
         [tenants.acme]\nenv_prefixes = [\"ACME\", \"SALES\"]\n[tenants.basil]\nenv_prefixes = [\"BASIL\"]\n";
    let crm = r#"{ "name": "crm", "auth": { "type": "bearer", "secret": "token" }, "actions": [
        { "name": "find", "description": "Finds.", "actions": [{ "type": "respond", "message": "None." }] }] }"#;
    let folder = folder(&[
        ("dalsegno.toml", settings),
        ("agents/a.toml", "name = \"a\"\n\n[[steps]]\nrespond = \"Hello\"\n"),
        ("tools/crm.json", crm),
        (
            "tenants/acme.toml",
            "name = \"acme\"\n\n[tools.crm.secrets]\ntoken = { env = \"ACME\" }\n\n\
             [tools.crm.agents.sales.secrets]\ntoken = { env = \"SALES\" }\n",
        ),
        ("tenants/basil.toml", "name = \"basil\"\n\n[secrets]\ntoken = { env = \"BASIL\" }\n"),
        ("tenants/cumin.toml", "name = \"cumin\"\n"),
        ("tenants/dill.toml", "name = \"dill\"\n"),
        ("tenants/dill/tools/crm.json", crm),
    ]);
    let workspace = load(folder.path());
    let secret = |tenant: &str| {
        let owner = workspace.owner_of(tenant, "crm");
        workspace.toolkit_secret(tenant, &owner, None, "crm", "token").cloned()
    };
    assert_eq!(secret("acme"), Some(SecretRef::Env("ACME".to_owned())));
    let of_agent = |tenant: &str, agent: &str| {
        let owner = workspace.owner_of(tenant, "crm");
        workspace.toolkit_secret(tenant, &owner, Some(&agent.parse().unwrap()), "crm", "token").cloned()
    };
    assert_eq!(of_agent("acme", "sales"), Some(SecretRef::Env("SALES".to_owned())));
    assert_eq!(of_agent("acme", "support"), Some(SecretRef::Env("ACME".to_owned())));
    assert_eq!(of_agent("basil", "sales"), Some(SecretRef::Env("BASIL".to_owned())));
    assert_eq!(secret("basil"), Some(SecretRef::Env("BASIL".to_owned())));
    assert_eq!(secret("cumin"), Some(SecretRef::Env("SHARED".to_owned())));
    assert_eq!(secret("nobody"), Some(SecretRef::Env("SHARED".to_owned())));
    // Its own document could send the secret of the workspace anywhere.
    assert_eq!(secret("dill"), None);
    assert_eq!(workspace.toolkit_secret("acme", &ToolOwner::Workspace, None, "crm", "key"), None);
    // A run keeps the document with which it began, whatever the tenant has under that name now.
    let pinned = |tenant: &str, owner: &ToolOwner| {
        workspace.toolkit_secret(tenant, owner, None, "crm", "token").cloned()
    };
    assert_eq!(pinned("cumin", &ToolOwner::Tenant("cumin".to_owned())), None);
    assert_eq!(pinned("acme", &ToolOwner::Tenant("basil".to_owned())), None);
    assert_eq!(pinned("dill", &ToolOwner::Workspace), Some(SecretRef::Env("SHARED".to_owned())));
}

/// What is wrong with `tenants/evil.toml` that names these secrets, in a workspace that grants it what `settings` say.
fn refused(settings: &str, secrets: &str) -> Vec<String> {
    let tenant = format!("name = \"evil\"\negress = [\"http://127.0.0.1:19999\"]\n[secrets]\n{secrets}");
    let folder = folder(&[
        ("dalsegno.toml", settings),
        ("agents/a.toml", "name = \"a\"\n\n[[steps]]\nrespond = \"Hello\"\n"),
        ("tenants/evil.toml", &tenant),
    ]);
    let loaded = Workspace::load(folder.path());
    let errors = loaded.diagnostics.iter().filter(|problem| problem.is_error());
    let errors = errors.map(|problem| {
        assert_eq!(problem.code, dalsegno_workspace::Code::SecretNotGranted, "{problem}");
        assert!(problem.file.ends_with("evil.toml") && problem.span.is_some(), "{problem}");
        problem.to_string()
    });
    errors.collect()
}

#[test]
fn a_tenants_file_names_only_secrets_of_that_tenant() {
    // The review's: the master key, and what another tenant was given access with.
    let evil = "k = { file = \".dalsegno/secrets.key\" }\no = { store = \"oauth.acme.crm\" }\n";
    let granted = "[tenants.evil]\nenv_prefixes = [\"EVIL_\"]\nfile_prefixes = [\"secrets/evil\", \".\"]\n";
    assert_eq!(refused("", evil).len(), 2);
    assert_eq!(refused(granted, evil).len(), 2, "no grant reaches what is the engine's own");
    for (secret, of_none, of_some) in [
        ("{ env = \"ACME_TOKEN\" }", 1, 1),
        ("{ env = \"EVIL_TOKEN\" }", 1, 0),
        ("{ file = \"secrets/evil/token\" }", 1, 0),
        ("{ file = \"anywhere/token\" }", 1, 0),
        ("{ file = \"/etc/shadow\" }", 1, 1),
        ("{ file = \"secrets/evil/../../../outside\" }", 1, 1),
        ("{ file = \"secrets/evil/../../.dalsegno/secrets.key\" }", 1, 1),
        ("{ file = \".dalsegno/secrets.key.next\" }", 1, 1),
        ("{ file = \".dalsegno/artifacts/token\" }", 1, 1),
        ("{ store = \"request.00.auth_token\" }", 1, 1),
        ("{ store = \"token\" }", 0, 0),
    ] {
        let secret = format!("s = {secret}\n");
        assert_eq!(refused("", &secret).len(), of_none, "{secret}");
        assert_eq!(refused(granted, &secret).len(), of_some, "{secret}");
    }
    // Where the operator keeps the engine's files elsewhere, they are the engine's all the same.
    let elsewhere =
        format!("[secret_store]\nkey = {{ file = \"keys/master\" }}\n[store]\npath = \"runs.db\"\n{granted}");
    assert_eq!(refused(&elsewhere, "s = { file = \"keys/master\" }\n").len(), 1);
    assert_eq!(refused(&elsewhere, "s = { file = \"keys/../runs.db\" }\n").len(), 1);
    // Nobody else's grant counts.
    assert_eq!(
        refused("[tenants.acme]\nenv_prefixes = [\"ACME_\"]\n", "s = { env = \"ACME_TOKEN\" }\n").len(),
        1
    );
}

#[test]
fn a_name_in_the_secret_store_is_looked_up_among_the_tenants_own() {
    let folder = folder(&[
        ("dalsegno.toml", "[secrets]\n\"crm.token\" = { store = \"token\" }\n"),
        ("agents/a.toml", "name = \"a\"\n\n[[steps]]\nrespond = \"Hello\"\n"),
        ("tenants/acme.toml", "name = \"acme\"\n\n[secrets]\ntoken = { store = \"token\" }\n"),
    ]);
    let workspace = load(folder.path());
    let own = SecretRef::OfTenant { tenant: "acme".to_owned(), name: "token".to_owned() };
    assert_eq!(workspace.tenants["acme"].secrets["token"], own);
    assert_eq!(workspace.settings.secrets["crm.token"], SecretRef::Store("token".to_owned()));
}

#[test]
fn a_configuration_that_a_document_requires_is_set_by_the_agent_or_by_a_tenant() {
    let crm = r#"{ "name": "crm", "config_schema": { "type": "object", "required": ["queue"], "properties": { "queue": { "type": "string" } } },
        "actions": [{ "name": "find", "description": "Finds.", "actions": [{ "type": "respond", "message": "{{config.queue}}" }] }] }"#;
    let agent = "name = \"a\"\n\n[tools]\nallow = [\"crm.*\"]\n\n[[steps]]\ntool = \"crm.find\"\n";
    let codes = |tenant: &str, agent: &str| {
        let files = [
            ("dalsegno.toml", ""),
            ("agents/a.toml", agent),
            ("tools/crm.json", crm),
            ("tenants/acme.toml", tenant),
        ];
        let folder = folder(&files);
        let found = load(folder.path()).check(&Lock::default(), &Catalogue::new());
        found.iter().map(|found| (found.code.as_str(), found.message.clone())).collect::<Vec<_>>()
    };
    let missing = codes("name = \"acme\"\n", agent);
    assert_eq!(missing, [("missing-key", "`queue` is missing from the configuration of `crm`".to_owned())]);
    assert_eq!(codes("name = \"acme\"\n[tools.crm.config]\nqueue = \"first\"\n", agent), []);
    let own = agent.replace("\n[[steps]]", "\n[tools.toolkits.crm.config]\nqueue = \"first\"\n\n[[steps]]");
    assert_eq!(codes("name = \"acme\"\n", &own), []);
}

#[test]
fn more_places_of_the_caller_can_hold_secrets() {
    let document = r#"{ "name": "crm", "description": "Asks.", "actions": [{ "type": "api_call", "method": "GET",
        "url": "https://crm.example.com/x", "headers": { "X-Key": "{{user.crm.token}}" } },
        { "type": "respond", "message": "{{user.crm.token}}" }] }"#;
    let files = |settings: &str| {
        let agent = "name = \"a\"\n\n[[steps]]\nrespond = \"Hello\"\n";
        let folder =
            folder(&[("dalsegno.toml", settings), ("agents/a.toml", agent), ("tools/crm.json", document)]);
        Workspace::load(folder.path()).diagnostics
    };
    assert!(!files("").iter().any(Diagnostic::is_error));
    // Named as a secret, what stands there can be sent and not be said.
    let found = files("secret_paths = [\"user.crm.token\"]\n");
    assert!(found.iter().any(|found| found.is_error() && found.file.ends_with("crm.json")), "{found:?}");
    for wrong in ["crm.token", "user", "user.crm[0]", "user..x", "tenant.settings.key"] {
        let found = files(&format!("secret_paths = [\"{wrong}\"]\n"));
        assert!(
            found.iter().any(|found| found.is_error() && found.file.ends_with("dalsegno.toml")),
            "{wrong}"
        );
    }
}

#[test]
fn the_context_of_a_tenant_holds_settings_and_no_secret() {
    let workspace = sample();
    let context = workspace.tenants["acme"].context();
    assert_eq!(context["name"], "acme");
    assert_eq!(context["settings"]["endpoints"]["meal_log"], "https://api.acme.example/v1/meals");
    assert!(!context.to_string().contains("ACME_CRM_TOKEN"));
    assert_eq!(workspace.tenants["acme"].egress, BTreeSet::from(["https://api.acme.example".to_owned()]));
}

#[test]
fn hostile_documents_end_in_problems_within_limits() {
    let deep = format!("{}1{}", "{\"a\":".repeat(5_000), "}".repeat(5_000));
    let nested = (0..40).fold("[]".to_owned(), |inner, _| {
        format!("[{{\"type\":\"conditional\",\"condition\":\"true\",\"then_actions\":{inner}}}]")
    });
    let nested = format!("{{\"name\":\"x\",\"description\":\"x\",\"actions\":{nested}}}");
    let many = format!(
        "{{\"name\":\"x\",{}\"z\":1}}",
        (0..50_000).map(|n| format!("\"k{n}\":1,")).collect::<String>()
    );
    let pattern = r#"{"name":"x","description":"x","parameters":[{"name":"p","type":"string","pattern":"((a{1000}){1000}){1000}"}],"actions":[]}"#;
    let prototype = r#"{"name":"x","description":"x","actions":[{"type":"context.set","path":"__proto__.a","value":"1"}]}"#;
    for text in ["", "[]", "null", "\u{feff}{}", "{", &deep, &nested, &many, pattern, prototype] {
        let files = [
            ("dalsegno.toml", ""),
            ("agents/a.toml", "name = \"a\"\n\n[[steps]]\nrespond = \"Hello\"\n"),
            ("tools/x.json", text),
        ];
        let folder = folder(&files);
        let loaded = Workspace::load(folder.path());
        assert!(loaded.has_errors(), "{}", text.chars().take(80).collect::<String>());
        assert!(loaded.diagnostics.len() <= 210, "{}", loaded.diagnostics.len());
    }
}

#[test]
fn a_retry_count_beside_unsafe_is_refused_and_beside_a_post_it_is_noted() {
    use dalsegno_workspace::Severity;
    let load = |more: &str| {
        let document = format!(
            r#"{{"name": "order", "description": "Orders.", "actions": [
                {{"type": "api_call", "url": "https://api.example.com/orders", "retry_count": 2{more}}}]}}"#
        );
        let files =
            [("dalsegno.toml", ""), ("agents/a.toml", AGENT), ("tools/order.json", document.as_str())];
        Workspace::load(folder(&files).path()).diagnostics
    };
    let severities = |more: &str| {
        let found = load(more).into_iter().filter(|one| one.message.contains("retry_count"));
        found.map(|one| one.severity).collect::<Vec<_>>()
    };
    assert_eq!(severities(r#", "effect": "unsafe""#), [Severity::Error]);
    assert_eq!(severities(""), [Severity::Note]);
    assert_eq!(severities(r#", "effect": "keyed""#), []);
}

/// What `check` says of a workspace whose agent `a` allows these tools and whose document `delegate` calls another one.
fn checked(called: &str, agent: &str) -> Vec<String> {
    let document = json!({
        "name": "delegate",
        "description": "Has another one work.",
        "actions": [{"type": "tool", "name": called, "arguments": {"text": "go"}}],
    });
    let helper = "name = \"my-helper\"\ndescription = \"Helps.\"\ncapabilities = [\"first-aid\"]\n\
                  [[steps]]\nrespond = \"done\"\n";
    let folder = folder(&[
        ("dalsegno.toml", "[models.default]\nprovider = \"script\"\nfile = \"script.toml\"\n"),
        ("script.toml", ""),
        ("tools/delegate.json", &document.to_string()),
        ("agents/my-helper.toml", helper),
        ("agents/a.toml", agent),
    ]);
    let loaded = Workspace::load(folder.path());
    let checked = loaded.workspace.map(|workspace| workspace.check(&Lock::default(), &Catalogue::new()));
    let found = loaded.diagnostics.into_iter().chain(checked.into_iter().flatten());
    found.map(|found| format!("{}: {}", found.severity, found)).collect()
}

#[test]
fn agents_that_a_document_calls_as_tools_are_there() {
    let model = |allow: &str| {
        format!(
            "name = \"a\"\nprompt = \"x\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"delegate\", \"{allow}\"]\n"
        )
    };
    for called in ["agents.my-helper", "agents.my_helper", "capability.first-aid", "runs.list", "agents.list"]
    {
        let found = checked(called, &model(&called.replace("my_helper", "my-helper")));
        assert!(found.is_empty(), "{called}: {found:?}");
    }
    for (called, problem) in [
        ("agents.my-helpr", "there is no agent `my-helpr`"),
        ("capability.first-ad", "no agent has the capability `first-ad`"),
        ("handoff.my-helper", "a document cannot hand over with a call of `handoff.my-helper`"),
        ("runs.lits", "the tool `runs.lits` does not exist"),
    ] {
        let found = checked(called, &model("agents.my-helper"));
        assert!(matches!(&found[..], [only] if only.contains(problem)), "{called}: {found:?}");
    }
}

#[test]
fn a_plan_allows_the_agents_that_its_documents_call() {
    let plan = |allow: &str| {
        format!(
            "name = \"a\"\n[tools]\nallow = [\"delegate\", \"{allow}\"]\n[[steps]]\ntool = \"delegate\"\n"
        )
    };
    for allow in ["agents.my-helper", "agents.*"] {
        let found = checked("agents.my_helper", &plan(allow));
        assert!(found.is_empty(), "{allow}: {found:?}");
    }
    let found = checked("agents.my-helper", &plan("capability.first-aid"));
    assert!(matches!(&found[..], [only] if only.contains("has no effect")), "{found:?}");
}

#[test]
fn what_a_document_asks_about_a_call_in_doubt_counts_unless_the_agent_asks_something_else() {
    let desk = r#"{"name": "desk", "description": "Books", "actions": [
        {"name": "book", "description": "Books", "verify": {"tool": "find", "verdict": "'unknown'", "delay": 2},
         "actions": [{"type": "api_call", "url": "https://a.example/"}]},
        {"name": "find", "description": "Finds",
         "actions": [{"type": "api_call", "method": "GET", "url": "https://a.example/"}]}
    ]}"#;
    let agent = |allow: &str, settings: &str| {
        format!("name = \"a\"\n\n[tools]\nallow = [{allow}]\n{settings}\n[[steps]]\nrespond = \"Hello\"\n")
    };
    let verify = |agent: &str| {
        let folder = folder(&[("agents/a.toml", agent), ("tools/desk.json", desk), ("dalsegno.toml", "")]);
        let loaded = Workspace::load(folder.path());
        let config = resolved(loaded.workspace.as_ref().unwrap(), "");
        let verify = config.tools.tools[&name("desk.book")].verify.clone();
        let told = loaded.workspace.unwrap().check(&Lock::default(), &Catalogue::new());
        (verify.map(|verify| (verify.tool.to_string(), verify.delay_ms)), told)
    };
    let (asked, told) = verify(&agent("\"desk.*\"", ""));
    assert_eq!((asked, told), (Some(("desk.find".to_owned(), 2_000)), Vec::new()));
    let own = "[tools.settings.\"desk.book\"]\nverify = { tool = \"desk.find\", verdict = \"'unknown'\" }\n";
    let (asked, told) = verify(&agent("\"desk.*\"", own));
    assert_eq!((asked, told), (Some(("desk.find".to_owned(), 1_000)), Vec::new()));
    let (_, told) = verify(&agent("\"desk.book\"", ""));
    let told: Vec<&str> = told.iter().map(|found| found.message.as_str()).collect();
    let words =
        "`verify` in the document of `desk.book` asks `desk.find`, which is not among the agent's tools";
    assert_eq!(told, [words]);
}
