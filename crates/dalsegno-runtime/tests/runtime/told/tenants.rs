//! Tenants that are none, and files of tools and tenants that have errors.

use dalsegno_core::AgentRequest;
use dalsegno_runtime::{Engine, EngineError, MemoryPlace, RunReport, StartOptions};
use dalsegno_workspace::NoTenant;
use serde_json::json;

use crate::support::{World, answer};

const SAYS: &str = "[[steps]]\nrespond = \"fine\"\n";
const CALLS: &str = "[tools]\nallow = [\"greet\"]\n[[steps]]\nid = \"it\"\ntool = \"greet\"\n";

fn document(says: &str) -> String {
    json!({"name": "greet", "description": "Speaks.", "actions": [{"type": "respond", "message": says}]})
        .to_string()
}

fn write(world: &World, file: &str, text: &str) {
    let path = world.path().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

async fn run(engine: &Engine, agent: &str, tenant: &str) -> Result<RunReport, EngineError> {
    let request = AgentRequest { tenant: tenant.to_owned(), ..AgentRequest::text("hi") };
    let handle = engine.start(&agent.parse().unwrap(), request, StartOptions::default()).await?;
    Ok(handle.finish().await.unwrap())
}

#[tokio::test]
async fn a_tenant_that_does_not_exist_is_refused_before_anything_is_written_down() {
    let world = World::new(SAYS).tenants(&["acme"]);
    let engine = world.engine().await;
    for (tenant, expected) in [
        ("acm", "there is no tenant `acm`: did you mean `acme`?"),
        (
            "zebra",
            "there is no tenant `zebra`: the workspace has `acme`; add `tenants/zebra.toml` for another one",
        ),
        ("Acme Corp/..", "`Acme Corp/..` is not the name of a tenant"),
        ("", "`` is not the name of a tenant"),
    ] {
        let error = run(&engine, "a", tenant).await.unwrap_err();
        assert!(matches!(error, EngineError::Tenant(_)), "{error:?}");
        assert!(error.to_string().starts_with(expected), "{error}");
        let place = MemoryPlace {
            scope: Some(dalsegno_memory::Scope::Tenant),
            tenant: Some(tenant.to_owned()),
            ..MemoryPlace::default()
        };
        assert!(matches!(engine.memory_scopes(&place), Err(EngineError::Tenant(_))), "{tenant}");
    }
    assert!(engine.journal().runs(&dalsegno_store::RunFilter::default()).await.unwrap().is_empty());
    // The default tenant needs no file.
    for tenant in ["acme", "default"] {
        assert_eq!(answer(&run(&engine, "a", tenant).await.unwrap()), "fine");
    }
}

#[tokio::test]
async fn a_broken_tool_takes_out_itself_and_the_agents_that_need_it() {
    let world = World::new(SAYS).agent("b", CALLS).tenants(&["acme"]);
    write(&world, "tools/greet.json", "{ this is no JSON");
    let engine = world.engine().await;
    assert!(engine.workspace().broken.tools.contains("greet"));
    assert_eq!(answer(&run(&engine, "a", "acme").await.unwrap()), "fine");
    let error = run(&engine, "b", "acme").await.unwrap_err();
    let EngineError::Agent { diagnostics, .. } = &error else { panic!("{error:?}") };
    assert!(diagnostics.iter().any(|found| found.file.ends_with("greet.json")), "{diagnostics:?}");
}

#[tokio::test]
async fn a_broken_tool_of_a_tenant_is_not_replaced_by_that_of_the_workspace() {
    let world = World::new(CALLS).tenants(&["acme", "other"]);
    write(&world, "tools/greet.json", &document("shared"));
    write(&world, "tenants/acme/tools/greet.json", "{}");
    let engine = world.engine().await;
    assert_eq!(answer(&run(&engine, "a", "other").await.unwrap()), "shared");
    assert!(matches!(run(&engine, "a", "acme").await, Err(EngineError::Agent { .. })));
}

#[tokio::test]
async fn a_broken_tenant_is_refused_and_the_others_run() {
    let world = World::new(CALLS).tenants(&["acme", "other"]);
    write(&world, "tools/greet.json", &document("shared"));
    // Half of a change: as TOML it is fine, but it grants what is no address.
    write(&world, "tenants/acme.toml", "name = \"acme\"\negress = [\"nowhere at all\"]\n");
    let engine = world.engine().await;
    assert_eq!(answer(&run(&engine, "a", "other").await.unwrap()), "shared");
    let error = run(&engine, "a", "acme").await.unwrap_err();
    assert!(matches!(error, EngineError::Tenant(NoTenant::Broken { .. })), "{error:?}");
}

#[tokio::test]
async fn an_error_of_the_settings_still_refuses_the_workspace() {
    let world = World::new(SAYS).settings("nonsense = 1\n");
    assert!(world.builder().open(world.path()).await.is_err());
}
