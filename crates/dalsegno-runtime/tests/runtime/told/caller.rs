//! On whose behalf a tool is called.

use dalsegno_core::{AgentRequest, EffectClass};
use dalsegno_runtime::StartOptions;
use serde_json::json;

use crate::support::{Behaviour, World, answer};

#[tokio::test]
async fn a_tool_is_told_tenant_user_session_and_the_models_own_id_of_the_call() {
    let world = World::new(
        "prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"t.it\"]\n",
    )
    .script("[[replies]]\ncalls = [{ name = \"t.it\", arguments = {} }]\n[[replies]]\ntext = \"done\"\n")
    .tool("t.it", EffectClass::Read, Behaviour::Echo)
    .tenants(&["acme"]);
    let engine = world.engine().await;
    let user = json!({"id": 7, "name": "Ada"});
    let request = AgentRequest { tenant: "acme".to_owned(), user, ..AgentRequest::text("hi") };
    let options = StartOptions { session: Some("desk".to_owned()), ..StartOptions::default() };
    let handle = engine.start(&"a".parse().unwrap(), request, options).await.unwrap();
    assert_eq!(answer(&handle.finish().await.unwrap()), "done");
    let calls = world.tools["t.it"].calls.lock().unwrap().clone();
    let [call] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!((call.tenant.as_str(), call.user.as_deref()), ("acme", Some("7")));
    assert_eq!((call.session.as_str(), call.call_id.as_deref()), ("desk", Some("call_0_0")));
}

#[tokio::test]
async fn a_kept_result_stands_for_the_same_user_only() {
    let world = World::new(
        "[tools]\nallow = [\"*\"]\nsettings = { \"t.it\" = { effect = \"read\", cache = \"1h\" } }\n\
         [[steps]]\nid = \"it\"\ntool = \"t.it\"\n[[steps]]\nrespond = \"done\"\n",
    )
    .tool("t.it", EffectClass::Read, Behaviour::Echo);
    let engine = world.engine().await;
    for (user, calls) in [("ada", 1), ("ada", 1), ("eve", 2)] {
        let request = AgentRequest { user: json!({"id": user}), ..AgentRequest::text("hi") };
        let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
        assert_eq!(answer(&handle.finish().await.unwrap()), "done");
        assert_eq!(world.count("t.it"), calls, "{user}");
    }
}
