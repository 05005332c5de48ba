//! The client under test of the official conformance suite: it lists the tools of a server and calls each of them.
//!
//! `cargo xtask conformance` runs the suite with it. The address is the last argument; the suite says in
//! `MCP_CONFORMANCE_CONTEXT` what it wants to have called, where that matters.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use segno_mcp::{Answer, Answers, CallContext, Endpoint, Server, ServerConfig, ToolDescription};
use segno_net::{Client, Egress, Origin, Url};
use serde_json::{Map, Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url: Url = std::env::args().next_back().ok_or("the address is missing")?.parse()?;
    let client = Client::new(Egress::new([Origin::of(&url)?]));
    let config = ServerConfig::http("conformance", Endpoint::new(url, client));
    let server = Server::new(ServerConfig { answers: Some(Arc::new(Yes)), ..config });
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok();
    let context: Value = context.map(|text| serde_json::from_str(&text)).transpose()?.unwrap_or_default();

    let tools = server.catalogue("default").await?;
    println!("{} tools: {:?}", tools.len(), tools.iter().map(|tool| &tool.name).collect::<Vec<_>>());
    if let Some(calls) = context["toolCalls"].as_array() {
        for call in calls {
            let arguments = call["arguments"].as_object().cloned().unwrap_or_default();
            perform(&server, call["name"].as_str().unwrap_or_default(), arguments).await;
        }
    } else {
        for tool in &tools {
            let mut arguments = arguments(tool);
            // What a client has kept of a schema is seen by what it gives back.
            if let Some(echoed) = arguments.get_mut("schema") {
                *echoed = tools[0].input_schema.clone();
            }
            perform(&server, &tool.name, arguments).await;
        }
    }
    let session = server.session("default");
    if let Ok(prompts) = session.prompts().await {
        println!("{} prompts", prompts.len());
    }
    if let Ok(resources) = session.resources().await {
        println!("{} resources", resources.len());
    }
    server.close().await;
    Ok(())
}

/// Says yes to every question, with what the question itself proposes.
struct Yes;

#[async_trait]
impl Answers for Yes {
    async fn elicit(&self, question: Value) -> Option<Value> {
        Some(sample(&question["requestedSchema"]))
    }
}

/// Calls a tool, and goes on with the same call for as long as the server asks for input.
async fn perform(server: &Server, tool: &str, arguments: Map<String, Value>) {
    let mut call = CallContext::new("op_conformance", Duration::from_secs(20));
    for _ in 0..10 {
        match server.session("default").call(tool, arguments.clone(), call.clone()).await {
            Ok(Answer::Done(output)) => {
                println!("`{tool}`: {}", output.text);
                return;
            }
            Ok(Answer::InputRequired(asked)) => {
                println!("`{tool}` asks for {:?}", asked.requests.keys().collect::<Vec<_>>());
                let answers = asked.requests.into_iter().map(|(key, request)| (key, answer(&request)));
                call.input = answers.collect();
                call.request_state = asked.request_state;
            }
            Err(error) => {
                println!("`{tool}`: {error}");
                return;
            }
        }
    }
}

/// What somebody would answer who says yes to everything.
fn answer(request: &Value) -> Value {
    match request["method"].as_str() {
        Some("elicitation/create") => {
            let content = sample(&request["params"]["requestedSchema"]);
            json!({ "action": "accept", "content": content })
        }
        Some("roots/list") => json!({ "roots": [] }),
        _ => json!({ "role": "assistant", "model": "none", "content": { "type": "text", "text": "yes" } }),
    }
}

fn arguments(tool: &ToolDescription) -> Map<String, Value> {
    sample(&tool.input_schema).as_object().cloned().unwrap_or_default()
}

/// A value that fits a plain schema.
fn sample(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!("text"),
        Some("integer") => json!(2),
        Some("number") => json!(2.5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        _ => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            Value::Object(properties.map(|(name, schema)| (name.clone(), sample(schema))).collect())
        }
    }
}
