//! The example of the documentation: a meal is kept and sent away.

use dalsegno_core::AgentRequest;
use dalsegno_runtime::StartOptions;
use serde_json::json;

use crate::server::Server;
use crate::support::{World, answer};

const AGENT: &str = "[tools]\nallow = [\"save_meal\"]\n\
    [[steps]]\nid = \"meal\"\ntool = \"save_meal\"\nwith = { dishes = [\"soup\"] }\non_failure = { default = \"nothing\" }\n\
    [[steps]]\nrespond = \"kept: {{workflow.logged_meals}}\"\n";

async fn log(status: u16) -> (Server, String) {
    let server = Server::start(move |_| (status, json!({"id": 1})));
    let world = World::new(AGENT);
    let battery = dalsegno_workspace::batteries().iter().find(|one| one.name == "save_meal").unwrap();
    for folder in ["tools", "tenants"] {
        std::fs::create_dir(world.path().join(folder)).unwrap();
    }
    std::fs::write(world.path().join("tools/save_meal.json"), battery.text).unwrap();
    let tenant = format!(
        "name = \"default\"\negress = [\"{0}\"]\n[settings.endpoints]\nmeal_log = \"{0}/meals\"\n",
        server.origin
    );
    std::fs::write(world.path().join("tenants/default.toml"), tenant).unwrap();
    let engine = world.engine().await;
    let handle =
        engine.start(&"a".parse().unwrap(), AgentRequest::text("soup"), StartOptions::default()).await;
    let report = handle.unwrap().finish().await.unwrap();
    let said = answer(&report).to_owned();
    (server, said)
}

#[tokio::test]
async fn a_meal_is_sent_away_and_kept() {
    let (server, said) = log(201).await;
    assert_eq!(said, "Got it! I've logged your meal.\n\nkept: [{\"dishes\":[\"soup\"]}]");
    let got = server.got("POST /meals");
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].json(), json!({"meal": {"dishes": ["soup"]}}));
}

#[tokio::test]
async fn a_meal_that_could_not_be_sent_is_not_kept() {
    let (server, said) = log(400).await;
    assert_eq!(said, "Sorry, I couldn't save that meal.\n\nkept: ");
    assert_eq!(server.got("POST /meals").len(), 1);
}
