//! What stands in the files arrives in the values, and what does not has its documented default.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dalsegno_core::{
    Approve, Limits, LivePrice, MemoryScope, Mind, ModelMind, OnExceeded, OnFailure, Plan, PlanCall,
    StepAction,
};
use dalsegno_workspace::{
    Access, AgentFile, AwsKeyBinding, DispatchSettings, EnvValue, FileGrant, Lifetime, LineSurface,
    ModelBinding, OidcTenant, SecretCommand, SecretGrant, SecretRef, ServerLimits, TenantKey, VoiceLine,
    Workspace,
};
use serde_json::json;

fn load(sample: &str) -> (PathBuf, Workspace) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/valid").join(sample);
    let workspace = Workspace::load(&root).workspace.unwrap();
    (root, workspace)
}

fn agent<'w>(workspace: &'w Workspace, name: &str) -> &'w AgentFile {
    &workspace.agents[&name.parse().unwrap()]
}

fn plan(agent: &AgentFile) -> &Plan {
    match &agent.mind {
        Mind::Plan(plan) => plan,
        Mind::Model(_) => panic!("`{}` has a model", agent.name),
    }
}

fn model(agent: &AgentFile) -> &ModelMind {
    match &agent.mind {
        Mind::Model(model) => model,
        Mind::Plan(_) => panic!("`{}` has steps", agent.name),
    }
}

#[test]
fn every_key_of_the_settings_arrives() {
    let (root, workspace) = load("every-key");
    let settings = &workspace.settings;
    assert_eq!(settings.models["default"], ModelBinding::Script { file: root.join("script.toml") });
    assert_eq!(settings.store, root.join("state/dalsegno.db"));
    assert_eq!(settings.memory.path, root.join("state/memory.db"));
    assert_eq!(settings.memory.seeds, [root.join("known.jsonl")]);
    assert_eq!(settings.secrets["CRM_TOKEN"], SecretRef::Env("CRM_TOKEN".to_owned()));
    assert!(settings.signers["berlin"].starts_with("d75a9801"));
    let granted = &settings.tenants["acme"];
    assert_eq!(granted.env_prefixes, ["ACME_"]);
    assert_eq!(granted.file_prefixes, [root.join("secrets/acme")]);
    assert_eq!(settings.secrets["signing_key"], SecretRef::File(PathBuf::from("/run/secrets/signing")));

    let oidc = settings.serve.oidc.as_ref().unwrap();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(oidc.issuer, "https://login.example.com/realms/main");
    assert_eq!(oidc.audience, words(&["dalsegno", "https://agents.example.com"]));
    assert_eq!(oidc.algorithms, words(&["ES256", "RS256"]));
    let tenants = [("operators", "*"), ("org-1", "acme")].map(|(from, to)| (from.to_owned(), to.to_owned()));
    let claim = OidcTenant::Claim { claim: "user.organization".to_owned(), tenants: Some(tenants.into()) };
    assert_eq!(oidc.tenant, claim);
    assert_eq!((oidc.scopes_claim.as_str(), oidc.name_claim.as_str()), ("realm_access.roles", "email"));
    assert_eq!(oidc.scopes["reader"], words(&["runs:list", "runs:read"]));
    assert_eq!(oidc.scopes["agents approver"], words(&["answers:write"]));
    assert_eq!(oidc.addresses, words(&["https://10.1.2.3:8443"]));
    let sign_in = oidc.sign_in.as_ref().unwrap();
    assert_eq!(sign_in.client_id, "dalsegno");
    assert_eq!(sign_in.client_secret, Some(SecretRef::Env("OIDC_SECRET".to_owned())));
    assert_eq!(sign_in.scopes, ["email", "profile"]);

    let price = LivePrice {
        input: 4_000_000,
        output: 16_000_000,
        cached_input: Some(400_000),
        audio_input: Some(32_000_000),
        audio_output: Some(64_000_000),
        cached_audio_input: Some(400_000),
        minute: None,
    };
    let line = VoiceLine {
        surface: LineSurface::Realtime,
        price: Some(price),
        model: "gpt-realtime-2.1".to_owned(),
        base_url: Some("https://voice.example.com/v1".to_owned()),
        api_key: Some(SecretRef::Env("VOICE_KEY".to_owned())),
        max_calls: 8,
        telephone: None,
    };
    assert_eq!(settings.lines["front"], line);
    let night = &settings.lines["night"];
    assert_eq!(night.surface, LineSurface::Live { backend: Some("gpt-5.2".to_owned()) });
    assert_eq!(night.price.unwrap().minute, Some(60_000));
    let transfer_to = &settings.lines["desk"].telephone.as_ref().unwrap().numbers["+33176540001"].transfer_to;
    let allowed = ["tel:+33140000000", "sip:desk@acme.example", "tel:+33140000001"];
    let allowed = allowed.map(|target| transfer_to.iter().any(|pattern| pattern.matches(target)));
    assert_eq!(allowed, [true, true, false]);

    let server = &settings.servers["files"];
    assert_eq!(server.module, root.join("files.bin"));
    assert!(server.digest.as_deref().unwrap().starts_with("sha256:ba78"));
    assert_eq!(server.tools.as_deref().unwrap(), ["read", "list"]);
    assert!(server.trust_annotations);
    let grant = |host: &str, guest: &str, access, create| FileGrant {
        host: root.join(host),
        guest: guest.to_owned(),
        access,
        create,
    };
    assert_eq!(
        server.permissions.files,
        [grant("data", "/data", Access::Read, false), grant("out", "/out", Access::Write, true)]
    );
    assert_eq!(
        server.limits,
        ServerLimits {
            memory: 32 << 20,
            call_timeout: Duration::from_millis(250),
            total_timeout: Duration::from_secs(600),
            output: 64 << 10,
            stderr: 512,
            concurrency: Some(4),
            start_timeout: Duration::from_secs(2),
            table_elements: 5_000,
            instances: 16,
            module: 8 << 20,
            compile_timeout: Duration::from_secs(45),
            response: 2 << 20,
        }
    );
    assert_eq!(server.lifetime, Lifetime::Shared);
    let permissions = &server.permissions;
    assert_eq!(permissions.env["REGION"], EnvValue::Text("eu".to_owned()));
    let network = [
        "https://crm.example.com",
        "http://127.0.0.1:8080",
        "https://a.example.com",
        "https://b.example.com",
    ];
    assert_eq!(permissions.network, network);
    let secret = |destination: &str, header: &str, prefix: &str, value| SecretGrant {
        destination: destination.to_owned(),
        header: header.to_owned(),
        prefix: prefix.to_owned(),
        value,
    };
    for expected in [
        secret("https://crm.example.com", "authorization", "Bearer ", SecretRef::Env("CRM_TOKEN".to_owned())),
        secret("https://a.example.com", "x-key", "", SecretRef::File(PathBuf::from("/run/secrets/a"))),
        secret("https://b.example.com", "x-key", "", SecretRef::Store("b".to_owned())),
    ] {
        assert!(permissions.secrets.contains(&expected), "{:?}", permissions.secrets);
    }
    assert!(permissions.clock && permissions.random);
}

#[test]
fn every_key_of_the_dispatch_arrives() {
    let (_, workspace) = load("every-key");
    let expected = DispatchSettings {
        concurrency: 100,
        tenant_concurrency: 20,
        queue: 50,
        breaker_failures: 3,
        breaker_cool_down: Duration::from_secs(5),
    };
    assert_eq!(workspace.settings.dispatch, expected);
    let (_, workspace) = load("smallest");
    assert_eq!(workspace.settings.dispatch, DispatchSettings::default());
}

#[test]
fn every_key_of_a_plan_arrives() {
    let (_, workspace) = load("every-key");
    let agent = agent(&workspace, "planned");
    assert_eq!((agent.version.as_str(), agent.description.as_str()), ("1.2.3", "Uses every key of a plan."));
    assert_eq!(agent.capabilities.iter().collect::<Vec<_>>(), ["another-thing", "one-thing"]);
    assert_eq!(agent.memory_scope, MemoryScope::Agent);
    let limits = Limits {
        max_steps: 10,
        max_tool_calls: 5,
        timeout_ms: 300_000,
        answer_timeout_ms: Some(86_400_000),
        on_exceeded: OnExceeded::Fail,
        ..Limits::default()
    };
    assert_eq!(agent.limits, limits);

    let steps = &plan(agent).steps;
    let StepAction::Operation(past) = &steps[0].action else { panic!("{:?}", steps[0]) };
    assert_eq!(past.on_failure, Some(OnFailure::Report));
    let PlanCall::MemorySearch { query, limit: 3, min_score: 0.25 } = &past.call else { panic!("{past:?}") };
    assert_eq!(query.source(), "{{request.text}} {{tenant.name}}");

    let StepAction::Operation(read) = &steps[1].action else { panic!("{:?}", steps[1]) };
    let PlanCall::Tool { tool, with, approve: Approve::When(approve) } = &read.call else {
        panic!("{read:?}")
    };
    assert_eq!((tool.as_str(), approve.source()), ("files.read", "steps.past[0].score < 0.5"));
    let arguments = json!({"text": "x", "path": "/data/note.txt", "from": 0, "flags": [true, 1.5], "hits": "{{steps.past}}"});
    assert_eq!(with.source(), &arguments);
    assert_eq!(steps[1].when.as_ref().unwrap().source(), "steps.past.length > 0");

    let StepAction::Parallel(branches) = &steps[2].action else { panic!("{:?}", steps[2]) };
    assert_eq!(branches.len(), 3);
    assert!(matches!(&branches[0].operation.call, PlanCall::Tool { approve: Approve::Always, .. }));
    assert_eq!(branches[0].when.as_ref().unwrap().source(), "steps.read");
    assert!(matches!(&branches[1].operation.call, PlanCall::MemorySearch { limit: 5, min_score: 0.0, .. }));
    assert!(
        matches!(&branches[2].operation.call, PlanCall::MemoryCreate { entity_type, .. } if entity_type == "file")
    );
    let StepAction::Respond(respond) = &steps[3].action else { panic!("{:?}", steps[3]) };
    assert_eq!(respond.source(), "{{steps.all}}");
}

#[test]
fn every_key_of_a_model_agent_arrives() {
    let (_, workspace) = load("every-key");
    let agent = agent(&workspace, "asking");
    let mind = model(agent);
    assert_eq!(mind.model.name, "default");
    assert_eq!((mind.model.temperature, mind.model.max_output_tokens), (Some(0.2), Some(1024)));
    assert_eq!(mind.model.timeout_ms, 60_000);
    assert_eq!(mind.instructions.as_ref().unwrap().source(), "You work for {{tenant.name}}.");
    assert_eq!(mind.prompt.source(), "{{request.text}} {{memory.hits}}");
    let recall = mind.recall.as_ref().unwrap();
    assert_eq!((recall.query.source(), recall.limit, recall.min_score), ("{{request.text}}", 5, 0.3));
    assert_eq!((agent.memory_scope, agent.limits.on_exceeded), (MemoryScope::Session, OnExceeded::Answer));
}

#[test]
fn what_is_absent_has_its_default() {
    let (root, workspace) = load("smallest");
    assert_eq!(workspace.settings.store, root.join(".dalsegno/dalsegno.db"));
    assert_eq!(workspace.settings.memory.path, root.join(".dalsegno/memory.db"));
    let agent = agent(&workspace, "a");
    assert_eq!((agent.version.as_str(), agent.description.as_str()), ("0.0.0", ""));
    assert_eq!((agent.limits, agent.memory_scope), (Limits::default(), MemoryScope::Workspace));
    assert!(agent.tools.allow.is_empty());

    let (_, workspace) = load("model-by-default");
    assert_eq!(model(self::agent(&workspace, "a")).prompt.source(), "{{request.text}}");
}

#[test]
fn where_the_store_is_can_be_known_despite_errors_elsewhere() {
    let store = |settings: &str| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("dalsegno.toml"), settings).unwrap();
        std::fs::create_dir(folder.path().join("agents")).unwrap();
        std::fs::write(folder.path().join("agents/broken.toml"), "name = ").unwrap();
        let loaded = Workspace::load(folder.path());
        assert!(loaded.workspace.is_none() && loaded.has_errors());
        let store = loaded.settings?.store;
        Some(store.strip_prefix(folder.path()).unwrap().to_path_buf())
    };
    let default = Some(PathBuf::from(".dalsegno/dalsegno.db"));
    let named = Some(PathBuf::from("state/dalsegno.db"));
    assert_eq!(store(""), default);
    assert_eq!(store("[servers.gone]\nwasm = \"gone.wasm\""), default);
    assert_eq!(store("[modles]\n[store]\npath = \"state/dalsegno.db\""), named);
    // Each of these may mean another place than the one that is read.
    for unknown in
        ["[stroe]\npath = \"x\"", "[store]\npth = \"x\"", "[store]\npath = 3", "store = 3", "[store\n"]
    {
        assert_eq!(store(unknown), None, "{unknown}");
    }
}

#[test]
fn a_program_that_prints_a_secret_is_found_wherever_it_is_named() {
    let (root, workspace) = load("programs");
    let settings = &workspace.settings;
    let ModelBinding::Http(model) = &settings.models["default"] else { panic!() };
    let token = SecretCommand {
        program: "gcloud".into(),
        arguments: vec!["auth".to_owned(), "print-access-token".to_owned()],
        directory: root.clone(),
        ttl: Duration::from_secs(50 * 60),
        timeout: Duration::from_secs(10),
    };
    assert_eq!(model.api_key, Some(SecretRef::Command(Box::new(token))));
    assert_eq!(model.api_key_header.as_deref(), Some("authorization"));
    let SecretRef::Command(webhook) = &settings.secrets["webhook"] else { panic!() };
    assert_eq!(webhook.program, root.join("bin/print-webhook-key"), "a path is the workspace's");
    let named: Vec<String> = settings.secret_commands().map(|(section, _)| section).collect();
    let others = [
        "servers.crm",
        "servers.files",
        "servers.notes",
        "servers.tickets",
        "triggers.payments",
        "voice.lines.desk",
        "voice.lines.desk",
        "voice.lines.front",
    ];
    assert_eq!(named, [&["secrets", "models.default"][..], &others].concat());
}

#[test]
fn tenants_have_keys_of_models_in_every_form() {
    let (root, workspace) = load("tenant-keys");
    let settings = &workspace.settings;
    let of = |name: &str| match &settings.models[name] {
        ModelBinding::Http(http) => http,
        other => panic!("{other:?}"),
    };
    let default = of("default");
    let text = |tenant: &str| default.key_of(tenant).cloned();
    assert_eq!(text("acme"), Some(TenantKey::Text(SecretRef::Env("ACME_ANTHROPIC_KEY".to_owned()))));
    assert_eq!(text("globex"), Some(TenantKey::Text(SecretRef::File("/run/secrets/globex".into()))));
    assert_eq!(text("initech"), Some(TenantKey::Text(SecretRef::Store("initech.anthropic".to_owned()))));
    let Some(TenantKey::Text(SecretRef::Command(command))) = text("umbrella") else { panic!() };
    assert_eq!((command.ttl, &command.directory), (Duration::from_secs(50 * 60), &root));
    // Without a key for all, a tenant that is not there has none; with one, it has that.
    assert!(default.lacks_key("default") && !default.lacks_key("acme"));
    assert_eq!((of("second").key_of("acme"), of("second").lacks_key("acme")), (None, false));
    assert!(!of("bedrock").lacks_key("nobody") && !of("signed").lacks_key("nobody"));
    let stark = AwsKeyBinding::Parts {
        access_key_id: SecretRef::Env("STARK_KEY_ID".to_owned()),
        secret_access_key: SecretRef::Store("stark.secret".to_owned()),
        session_token: Some(SecretRef::File("/run/secrets/stark".into())),
    };
    assert_eq!(of("bedrock").key_of("stark"), Some(&TenantKey::Aws(stark)));
    let Some(TenantKey::Aws(AwsKeyBinding::Document(_))) = of("bedrock").key_of("globex") else { panic!() };
    let names: Vec<String> = of("bedrock").secrets().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "api_key",
            "keys.acme",
            "keys.default",
            "keys.globex.credentials",
            "keys.initech",
            "keys.stark.access_key_id",
            "keys.stark.secret_access_key",
            "keys.stark.session_token",
            "keys.umbrella",
        ]
    );
    // A person agrees to each program that prints a key.
    let programs: Vec<String> = settings.secret_commands().map(|(section, _)| section).collect();
    let parts = ["models.parts.keys"; 3];
    assert_eq!(programs[..3], ["models.bedrock.keys", "models.bedrock.keys", "models.default.keys"]);
    assert_eq!(programs[3..], parts);
}
