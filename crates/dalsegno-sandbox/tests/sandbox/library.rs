//! Guests with resources and prompts, which agents read by tools.

use std::time::Duration;

use dalsegno_sandbox::{Builtin, CallErrorKind, Received, ServerSession};
use serde_json::{Value, json};

use crate::support::{arguments, call, library_server, load, method_key};

async fn done(session: &ServerSession, tool: &str, given: Value) -> dalsegno_sandbox::ToolOutput {
    session.call(tool, arguments(given), call()).await.unwrap()
}

#[tokio::test]
async fn the_resources_and_prompts_of_a_guest_are_listed_and_read() {
    let server = load(&library_server(), |_| {}).await;
    let session = server.open("tenant");
    // Nobody has asked for the catalogue before.
    let listed = done(&session, "resources.list", json!({})).await.structured.unwrap();
    let entry = json!({ "uri": "test://a", "name": "a" });
    assert_eq!(listed, json!({ "resources": [entry], "templates": [], "truncated": false }));
    assert_eq!(done(&session, "resources.read", json!({ "uri": "test://a" })).await.text, "a page");
    let listed = done(&session, "prompts.list", json!({})).await.structured.unwrap();
    assert_eq!(listed["prompts"], json!([{ "name": "greet", "arguments": [] }]));
    let prompt = done(&session, "prompts.get", json!({ "name": "greet" })).await.structured.unwrap();
    assert_eq!(prompt, json!({ "messages": [{ "role": "user", "text": "Hello" }] }));
    session.close().await;
}

#[tokio::test]
async fn the_catalogue_has_what_the_capabilities_of_a_guest_give() {
    let library = load(&library_server(), |_| {}).await;
    let tools = library.catalogue().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["look", "resources.list", "resources.read", "prompts.list", "prompts.get"]);
    assert_eq!(tools[2].builtin, Some(Builtin::ReadResource));

    let tools = Some(vec!["look".to_owned(), "resources.read".to_owned()]);
    let narrowed = load(&library_server(), |config| config.tools = tools).await;
    let names: Vec<String> = narrowed.catalogue().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["look", "resources.read"]);
    let error = narrowed.open("tenant").call("prompts.list", arguments(json!({})), call()).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::UnknownTool, Received::No));
}

#[tokio::test]
async fn a_guest_that_does_not_answer_what_a_built_in_tool_asks_is_stopped_at_the_timeout() {
    let known = format!("(i32.const {})", method_key("resources/read"));
    let hanging = library_server().replace(&known, "(i32.const 0)");
    let server = load(&hanging, |config| config.limits.call_timeout = Duration::from_millis(500)).await;
    let session = server.open("tenant");
    let given = arguments(json!({ "uri": "test://a" }));
    let error = session.call("resources.read", given, call()).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Timeout, Received::Possibly), "{error}");
    // The next call gets a fresh instance.
    assert!(done(&session, "resources.list", json!({})).await.structured.is_some());
}

#[tokio::test]
async fn a_guest_without_resources_has_no_tools_to_read_them() {
    let without = library_server().replace(r#"\"resources\":{},"#, "               ");
    let server = load(&without, |_| {}).await;
    let given = arguments(json!({ "uri": "test://a" }));
    let session = server.open("tenant");
    let error = session.call("resources.read", given, call()).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::UnknownTool, Received::No), "{error}");
    assert!(done(&session, "prompts.list", json!({})).await.structured.is_some());
}
