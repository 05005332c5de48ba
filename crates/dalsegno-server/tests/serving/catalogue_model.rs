//! Of every sequence of changes, by API and to files, each tenant sees what a small model says, and nothing of others.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::catalogue::{ANY, NEW, says, write};
use crate::client::Client;
use crate::world::World;

const TENANTS: [&str; 2] = ["acme", "rival"];
const NAMES: [&str; 2] = ["one", "two"];

/// Where a document stands: in the workspace, or with a tenant.
type At = (Option<usize>, usize);

/// What there is, as the model has it.
#[derive(Debug, Default, Clone)]
struct Model {
    files: BTreeMap<At, String>,
    documents: BTreeMap<At, String>,
}

impl Model {
    /// What stands at one place: a document before a file.
    fn at(&self, at: At) -> Option<&String> {
        self.documents.get(&at).or_else(|| self.files.get(&at))
    }

    /// What a tenant has under a name: its own before that of all.
    fn seen(&self, tenant: usize, name: usize) -> Option<&String> {
        self.at((Some(tenant), name)).or_else(|| self.at((None, name)))
    }
}

#[derive(Debug, Clone)]
enum Move {
    Put(At, u8),
    Delete(At),
    WriteFile(At, u8),
    RemoveFile(At),
    /// Another process opens the workspace.
    Reopen,
}

fn step() -> impl Strategy<Value = Move> {
    let at = || (prop::option::of(0..TENANTS.len()), 0..NAMES.len());
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, word)| Move::Put(at, word)),
        2 => at().prop_map(Move::Delete),
        3 => (at(), any::<u8>()).prop_map(|(at, word)| Move::WriteFile(at, word)),
        1 => at().prop_map(Move::RemoveFile),
        1 => Just(Move::Reopen),
    ]
}

fn file((tenant, name): At) -> String {
    let name = NAMES[name];
    tenant.map_or_else(
        || format!("tools/{name}.json"),
        |tenant| format!("tenants/{}/tools/{name}.json", TENANTS[tenant]),
    )
}

fn path((tenant, name): At) -> String {
    let name = NAMES[name];
    tenant.map_or_else(
        || format!("/v1/tools/{name}"),
        |tenant| format!("/v1/tenants/{}/tools/{name}", TENANTS[tenant]),
    )
}

fn word((tenant, _): At, word: u8) -> String {
    format!("{} {word}", tenant.map_or("all", |tenant| TENANTS[tenant]))
}

/// What a tool returns, as its document says.
fn output(file: &&dalsegno_workspace::ToolkitFile) -> String {
    let document: serde_json::Value = serde_json::from_str(file.source.as_ref().unwrap().text()).unwrap();
    document["output"].as_str().unwrap().trim_matches('\'').to_owned()
}

/// What a tenant's tool says, as the client of the tenant finds by trying it.
async fn tried(client: &Client, tenant: usize, name: usize) -> Option<String> {
    let tools = client.get(&format!("/v1/tenants/{}/tools", TENANTS[tenant])).await.json();
    let listed = tools["items"].as_array().unwrap().iter().find(|tool| tool["name"] == NAMES[name])?.clone();
    let body = serde_json::json!({});
    let answer = match listed["of"].as_str() {
        Some("tenant") => {
            client.post(&format!("/v1/tenants/{}/tools/{}/try", TENANTS[tenant], NAMES[name]), &body).await
        }
        _ => return Some("of all".to_owned()),
    };
    Some(answer.json()["outcome"]["output"].as_str().unwrap().to_owned())
}

async fn check(world: &World, clients: &[Client], model: &Model) {
    world.engine.look().await;
    let fresh = dalsegno_runtime::load_workspace(world.root()).sound().unwrap();
    for workspace in [world.engine.workspace().as_ref(), &fresh] {
        for (tenant, called) in TENANTS.iter().enumerate() {
            let toolkits = workspace.toolkits_for(called);
            for (name, tool) in NAMES.iter().enumerate() {
                let says = toolkits.get(tool).map(output);
                assert_eq!(says.as_ref(), model.seen(tenant, name), "{called} {tool}");
            }
        }
    }
    for (tenant, client) in clients.iter().enumerate() {
        for name in 0..NAMES.len() {
            let own = model.at((Some(tenant), name)).cloned();
            let all = model.at((None, name)).map(|_| "of all".to_owned());
            assert_eq!(tried(client, tenant, name).await, own.clone().or(all));
            // Its own document is the one that the key reads.
            let shown = client.get(&path((Some(tenant), name))).await;
            assert_eq!(shown.status == 200, own.is_some());
            let other = TENANTS[1 - tenant];
            assert!(!shown.text.contains(other), "{shown:?}");
        }
    }
}

#[test]
fn each_tenant_sees_what_the_model_says_after_every_sequence_of_changes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() });
    runner
        .run(&prop::collection::vec(step(), 1..10), |steps| {
            runtime.block_on(async {
                let world = World::new().await;
                let all = world.all("*");
                let clients = TENANTS.map(|tenant| world.all(tenant));
                let mut model = Model::default();
                for step in steps {
                    match step {
                        Move::Put(at, which) => {
                            let text = word(at, which);
                            let client = at.0.map_or(&all, |tenant| &clients[tenant]);
                            let condition = if model.at(at).is_some() { ANY } else { NEW };
                            let wrong = if model.at(at).is_some() { NEW } else { ANY };
                            let document = says(NAMES[at.1], &text);
                            client.put(&path(at), "json", wrong, &document).await.is_problem(412, "stale");
                            let put = client.put(&path(at), "json", condition, &document).await;
                            assert!([200, 201].contains(&put.status), "{put:?}");
                            model.documents.insert(at, text);
                        }
                        Move::Delete(at) => {
                            let client = at.0.map_or(&all, |tenant| &clients[tenant]);
                            let deleted = client.delete(&path(at), ANY).await;
                            let expected = match (model.documents.remove(&at), model.files.contains_key(&at))
                            {
                                (Some(_), _) => 200,
                                (None, true) => 409,
                                (None, false) => 404,
                            };
                            assert_eq!(deleted.status, expected, "{deleted:?}");
                        }
                        Move::WriteFile(at, which) => {
                            let text = format!("file of {}", word(at, which));
                            write(&world, &file(at), &says(NAMES[at.1], &text));
                            model.files.insert(at, text);
                        }
                        Move::RemoveFile(at) => {
                            if model.files.remove(&at).is_some() {
                                std::fs::remove_file(world.root().join(file(at))).unwrap();
                            }
                        }
                        Move::Reopen => {
                            let other = dalsegno_runtime::Engine::open(world.root()).await.unwrap();
                            let toolkits = other.workspace().toolkits_for("acme").len();
                            assert_eq!(
                                toolkits,
                                (0..NAMES.len()).filter(|name| model.seen(0, *name).is_some()).count()
                            );
                        }
                    }
                    check(&world, &clients, &model).await;
                }
            });
            Ok(())
        })
        .unwrap();
}
