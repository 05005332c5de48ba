//! The page "Write a tool server": its code is the code of `tool-servers/greet`, and that runs.

use std::path::Path;

use dalsegno_sandbox::ServerConfig;
use serde_json::json;

use crate::support::{arguments, call, guest_module, sandbox};

/// The first block of the page that is marked so.
fn block<'p>(page: &'p str, mark: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("\n```{mark}\n")).unwrap();
    rest.split_once("\n```\n").unwrap().0
}

#[test]
fn the_page_shows_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let page = read("docs/src/write-a-tool-server.md");
    assert_eq!(block(&page, "rust"), read("tool-servers/greet/src/main.rs").trim_end());
    assert_eq!(block(&page, "toml"), read("tool-servers/greet/Cargo.toml").trim_end());
}

#[tokio::test]
async fn the_server_of_the_page_runs() {
    let server = sandbox().load(ServerConfig::new("greet", guest_module("greet"))).await.unwrap();
    let tools = server.catalogue().await.unwrap();
    assert_eq!(tools[0].name, "hello");
    assert_eq!(tools[0].description.as_deref(), Some("Greets somebody."));
    assert_eq!(tools[0].input_schema["properties"]["name"]["description"], "Who is greeted.");

    let session = server.open("tenant");
    let output = session.call("hello", arguments(json!({"name": "Ada"})), call()).await.unwrap();
    assert_eq!(output.structured, Some(json!({"text": "Hello, Ada!"})));
    let output = session.call("hello", arguments(json!({"name": " "})), call()).await.unwrap();
    assert!(output.is_error, "{output:?}");
}
