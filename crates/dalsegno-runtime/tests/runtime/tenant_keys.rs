//! Keys of tenants for models: which key a run has, and what comes of a run that has none.

use dalsegno_core::{AgentRequest, RunErrorCode, Status};
use dalsegno_runtime::{Engine, EngineError, ErrorKind, RunEnd, RunReport, Settlement, StartOptions};

use crate::support::World;
use crate::support::provider::Provider;

/// A workspace whose agent asks this provider, with these keys.
fn world(provider: &Provider, keys: &str) -> World {
    let agent = "prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\nretries = 0\n";
    let world = World::new(agent).tenants(&["acme", "other"]).settings(&format!(
        "[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"{}\"\n{keys}",
        provider.address
    ));
    for name in ["acme", "other", "shared"] {
        std::fs::write(world.path().join(name), format!("k3y-of-{name}")).unwrap();
    }
    world
}

async fn start(engine: &Engine, agent: &str, tenant: &str) -> Result<RunReport, EngineError> {
    let request = AgentRequest { tenant: tenant.into(), ..AgentRequest::text("x") };
    let handle = engine.start(&agent.parse().unwrap(), request, StartOptions::default()).await?;
    Ok(handle.finish().await.unwrap())
}

/// The provider tells all keys that it was sent. In the answer of a run each of them is a secret, also those of other tenants.
#[track_caller]
fn tells_no_key(report: &RunReport) {
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert_eq!(response.status, Status::Completed, "{response:?}");
    let told = response.answer.as_deref().unwrap();
    let keys = told.strip_prefix("you sent ").unwrap_or_else(|| panic!("{told}"));
    assert!(keys.split(" and ").all(|key| key == "[secret]"), "{told}");
}

#[tokio::test]
async fn a_tenant_has_its_own_key_and_the_others_have_that_of_the_model() {
    let provider = Provider::start();
    let world = world(&provider, "api_key = { file = \"shared\" }\nkeys = { acme = { file = \"acme\" } }\n");
    let engine = world.engine().await;
    for tenant in ["acme", "other", "default", "acme"] {
        let report = start(&engine, "a", tenant).await.unwrap();
        tells_no_key(&report);
    }
    assert_eq!(provider.keys(), ["k3y-of-acme", "k3y-of-shared", "k3y-of-shared", "k3y-of-acme"]);
    // Another process is told the key of a tenant for which it has sent nothing.
    let report = start(&world.engine().await, "a", "other").await.unwrap();
    tells_no_key(&report);
}

#[tokio::test]
async fn without_a_key_for_all_a_tenant_without_one_starts_no_run() {
    for keys in ["keys = { acme = { file = \"acme\" } }\n", "[models.default.keys]\n"] {
        let provider = Provider::start();
        let world = world(&provider, keys)
            .agent("b", "[model]\nuse = \"spare\"\nfallback = [\"default\"]\n")
            .agent("c", "[[steps]]\nmodel = { use = \"default\", prompt = \"x\" }\n")
            .agent("d", "[[steps]]\nid = \"one\"\nagent = \"a\"\n[[steps]]\nrespond = \"{{steps.one}}\"\n");
        let settings = std::fs::read_to_string(world.path().join("dalsegno.toml")).unwrap();
        let world = world
            .settings(&format!("[models.spare]\nprovider = \"script\"\nfile = \"script.toml\"\n{settings}"));
        std::fs::write(world.path().join("script.toml"), "[[replies]]\ntext = \"Yes.\"\n").unwrap();
        let engine = world.engine().await;
        for (agent, tenant) in [("a", "other"), ("b", "other"), ("c", "other"), ("a", "default")] {
            let error = start(&engine, agent, tenant).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert_eq!(
                error.to_string(),
                format!(
                    "the agent `{agent}` asks the model `default`, which has no key for the tenant `{tenant}`: add `{tenant} = {{ env = \
                     \"NAME\" }}` to `[models.default.keys]` of dalsegno.toml, or an `api_key` to `[models.default]` for all tenants \
                     without a key of their own"
                )
            );
        }
        // A child run is one that cannot be started.
        let report = start(&engine, "d", "other").await.unwrap();
        let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
        let error = response.error.as_ref().unwrap();
        assert_eq!(error.code, RunErrorCode::AgentFailed, "{error:?}");
        assert!(error.message.contains("no key for the tenant `other`"), "{error:?}");
        assert_eq!(provider.keys(), [] as [&str; 0], "the provider is not asked");
    }
}

#[tokio::test]
async fn a_run_that_goes_on_after_its_tenants_key_was_taken_away_asks_nobody() {
    let provider = Provider::start();
    let keys = "keys = { acme = { store = \"acme.key\" }, other = { file = \"other\" } }\n";
    let world = world(&provider, keys);
    // It waits for the secret that is not stored.
    let report = start(&world.engine().await, "a", "acme").await.unwrap();
    assert!(matches!(report.end, RunEnd::Suspended { .. }), "{report:?}");
    let settings = std::fs::read_to_string(world.path().join("dalsegno.toml")).unwrap();
    let settings = settings.replace("acme = { store = \"acme.key\" }, ", "");
    std::fs::write(world.path().join("dalsegno.toml"), settings).unwrap();
    // It is told to look again.
    let report = world.resume(report.run, Some(Settlement::Approve { edited: None, reason: None })).await;
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    let error = response.error.as_ref().unwrap();
    assert!(error.message.contains("it has no key for the tenant `acme`"), "{error:?}");
    assert_eq!(provider.keys(), [] as [&str; 0]);
    assert!(world.engine().await.journal().replay(report.run).await.unwrap().identical);
}

#[cfg(unix)]
#[tokio::test]
async fn each_key_that_a_program_prints_is_printed_for_its_tenant_alone() {
    let provider = Provider::start();
    let printed = |name: &str| {
        format!("{name} = {{ command = [\"/bin/sh\", \"print.sh\", \"{name}\"], ttl = \"50m\" }}")
    };
    let world =
        world(&provider, &format!("[models.default.keys]\n{}\n{}\n", printed("acme"), printed("other")));
    std::fs::write(world.path().join("print.sh"), "echo $1 >> starts\necho k3y-of-$1\n").unwrap();
    let engine = world.engine().await;
    for tenant in ["acme", "other", "other", "acme"] {
        tells_no_key(&start(&engine, "a", tenant).await.unwrap());
    }
    assert_eq!(provider.keys(), ["k3y-of-acme", "k3y-of-other", "k3y-of-other", "k3y-of-acme"]);
    assert_eq!(std::fs::read_to_string(world.path().join("starts")).unwrap(), "acme\nother\n");
}
