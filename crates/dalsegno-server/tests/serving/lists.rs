//! Every list has pages: all entries, each once, for any size of a page, also while some are added and removed.

use dalsegno_access::Scope;
use serde_json::{Value, json};

use crate::catalogue::{ANY, NEW, says};
use crate::client::Client;
use crate::world::World;

/// What each list has, and what names its entries.
const LISTS: [(&str, &str, &str); 6] = [
    ("/v1/agents", "agents", "name"),
    ("/v1/tools", "items", "name"),
    ("/v1/tenants", "items", "name"),
    ("/v1/tenants/acme/tools", "items", "name"),
    ("/v1/tools/tool-0/versions", "items", "number"),
    ("/v1/webhooks", "items", "id"),
];

/// The names of all entries, page by page as the header `Link` leads.
async fn all(client: &Client, path: &str, (key, name): (&str, &str), limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut next = Some(format!("{path}?limit={limit}"));
    while let Some(address) = next {
        let answer = client.get(&address).await;
        assert_eq!(answer.status, 200, "{address}: {answer:?}");
        let page = answer.json();
        let items = page[key].as_array().unwrap();
        assert!(items.len() <= limit, "{address}: {page}");
        found.extend(items.iter().map(|one| one[name].to_string()));
        next = answer.header("link").map(|link| {
            let address = link.trim_start_matches('<').split('>').next().unwrap().to_owned();
            assert!(
                address.contains(&format!("cursor={}", page["next"].as_str().unwrap())),
                "{link}: {page}"
            );
            address
        });
        assert_eq!(next.is_none(), page["next"].is_null(), "{page}");
    }
    found
}

async fn world() -> (World, Client) {
    let world = World::new().await;
    let client = world.all("*");
    for number in 0..5 {
        for path in [format!("/v1/tools/tool-{number}"), format!("/v1/tenants/acme/tools/own-{number}")] {
            let name = path.rsplit('/').next().unwrap().replace('-', "_");
            assert_eq!(client.put(&path, "json", NEW, &says(&name, "hi")).await.status, 201, "{path}");
        }
        let changed =
            client.put("/v1/tools/tool-0", "json", ANY, &says("tool_0", &format!("{number}"))).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        let url = format!("https://hooks.example.com/{number}");
        assert_eq!(client.post("/v1/webhooks", &json!({ "url": url })).await.status, 201);
    }
    (world, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_list_has_each_entry_once_for_every_size_of_a_page() {
    let (_world, client) = world().await;
    for (path, key, name) in LISTS {
        let whole = all(&client, path, (key, name), 200).await;
        assert!(whole.len() >= 2, "{path}: {whole:?}");
        for limit in 1..=whole.len() + 1 {
            assert_eq!(all(&client, path, (key, name), limit).await, whole, "{path} with {limit}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_is_of_one_list_of_one_reader_and_what_is_none_is_refused() {
    let (world, client) = world().await;
    let tenant = world.client("acme", &[Scope::ToolsRead, Scope::AgentsRead, Scope::WebhooksRead]);
    for (path, ..) in LISTS {
        for wrong in ["cursor=x", "cursor=", "cursor=%00", "limit=0", "limit=201", "limit=x"] {
            client.get(&format!("{path}?{wrong}")).await.is_problem(400, "bad_request");
        }
        client.get(&format!("{path}?after=x")).await.is_problem(400, "bad_request");
        let cursor = client.get(&format!("{path}?limit=1")).await.json()["next"].as_str().unwrap().to_owned();
        for (other, ..) in LISTS.iter().filter(|(other, ..)| *other != path) {
            let answer = client.get(&format!("{other}?cursor={cursor}")).await;
            answer.is_problem(404, "not_found");
        }
        // What a key of one tenant sees is another list, but for the agents, which are the same for all.
        if path != "/v1/agents" {
            let answer = tenant.get(&format!("{path}?cursor={cursor}")).await;
            assert!(
                [403, 404].contains(&answer.status) || path == "/v1/tenants/acme/tools",
                "{path}: {answer:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_is_removed_between_two_pages_takes_no_other_with_it() {
    let (_world, client) = world().await;
    let first = client.get("/v1/tools?limit=2").await.json();
    let last = first["items"][1]["name"].as_str().unwrap().to_owned();
    let removed = client.delete(&format!("/v1/tools/{}", last.replace('_', "-")), ANY).await;
    assert_eq!(removed.status, 200, "{removed:?}");
    let cursor = first["next"].as_str().unwrap();
    let second = client.get(&format!("/v1/tools?cursor={cursor}")).await.json();
    let names: Vec<&str> =
        second["items"].as_array().unwrap().iter().map(|one: &Value| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["tool_2", "tool_3", "tool_4"], "{last}");
}
