//! The client under test of the official conformance suite: it lists the tools of a server and calls each of them.
//!
//! `cargo xtask conformance` runs the suite with it. The address is the last argument; the suite says in
//! `MCP_CONFORMANCE_CONTEXT` what it wants to have called, where that matters.
#![expect(clippy::print_stdout, reason = "it says what it sees")]

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_mcp::{
    Answer, Answers, Builtin, CallContext, CallError, CallErrorKind, Endpoint, Grant, Input, OAuth,
    OAuthConfig, OAuthError, Server, ServerConfig, Tokens, ToolDescription,
};
use dalsegno_net::{Client, Egress, Origin, Request, Url};
use dalsegno_secrets::{Reveal, Secret};
use serde_json::{Map, Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url: Url = std::env::args().next_back().ok_or("the address is missing")?.parse()?;
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok();
    let context: Value = context.map(|text| serde_json::from_str(&text)).transpose()?.unwrap_or_default();
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let granted = BTreeSet::from([Origin::of(&url)?]);
    let mut operator = Operator { url, context, scenario, granted, tokens: Arc::default() };

    let mut consents = 0;
    loop {
        let (server, oauth) = operator.server();
        let visited = visit(&server, &operator.context).await;
        server.close().await;
        let error = match visited {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        println!("{error}");
        if !matches!(error.kind, CallErrorKind::Unauthorized | CallErrorKind::Denied) {
            return Err(error.into());
        }
        match operator.consent(&oauth).await {
            Ok(()) if consents < CONSENTS_MAX => consents += 1,
            Ok(()) => return Err("the server is never content".into()),
            // The suite's authorization servers are trusted, wherever they are.
            Err(OAuthError::Denied { origin, .. }) if operator.granted.insert(origin.parse()?) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whoever configures the client, and consents to what it wants.
struct Operator {
    url: Url,
    context: Value,
    scenario: String,
    granted: BTreeSet<Origin>,
    tokens: Arc<Memory>,
}

impl Operator {
    fn server(&self) -> (Server, OAuth) {
        let text = |key: &str| self.context[key].as_str().map(str::to_owned);
        let client = Client::new(Egress::new(self.granted.clone()));
        let secret = text("client_secret").map(|secret| Arc::new(Secret::new(&secret)));
        let is_machine = self.scenario.starts_with("auth/client-credentials");
        let oauth = OAuthConfig {
            grant: if is_machine { Grant::ClientCredentials } else { Grant::Consent },
            client_id: text("client_id"),
            client_metadata: Some(CLIENT_METADATA.to_owned()),
            client_secret: secret.map(|secret| secret as Arc<dyn Reveal>),
            ..OAuthConfig::new(client.clone(), Arc::<Memory>::clone(&self.tokens))
        };
        let oauth = OAuth::new(self.url.clone(), oauth);
        let endpoint = Endpoint { oauth: Some(oauth.clone()), ..Endpoint::new(self.url.clone(), client) };
        let config = ServerConfig::http("conformance", endpoint);
        (Server::new(ServerConfig { answers: Some(Arc::new(Yes)), ..config }), oauth)
    }

    /// Consents, as a person in a browser would.
    async fn consent(&self, oauth: &OAuth) -> Result<(), OAuthError> {
        let consent = oauth.begin("http://127.0.0.1:8765/callback").await?;
        let browser = async {
            let client = Client::new(Egress::new([Origin::of(consent.url())?]));
            let response = client.send(Request::get(consent.url().clone())).await?;
            let location = response.headers().get("location").ok_or("nobody was sent anywhere")?;
            Ok::<Url, Box<dyn Error>>(location.to_str()?.parse()?)
        };
        let redirected = browser.await.map_err(|error| OAuthError::Refused(error.to_string()))?;
        consent.finish(&redirected).await.map(drop)
    }
}

/// Keeps tokens for as long as the process lives.
#[derive(Default)]
struct Memory(Mutex<Option<String>>);

#[async_trait]
impl Tokens for Memory {
    async fn load(&self) -> Result<Option<String>, String> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    async fn save(&self, tokens: &str) -> Result<(), String> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(tokens.to_owned());
        Ok(())
    }

    async fn remove(&self) -> Result<(), String> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

/// Lists what there is, and calls what the scenario names, or everything.
async fn visit(server: &Server, context: &Value) -> Result<(), CallError> {
    let tools = server.catalogue("default").await?;
    println!("{} tools: {:?}", tools.len(), tools.iter().map(|tool| &tool.name).collect::<Vec<_>>());
    if let Some(calls) = context["toolCalls"].as_array() {
        for call in calls {
            let arguments = call["arguments"].as_object().cloned().unwrap_or_default();
            perform(server, call["name"].as_str().unwrap_or_default(), arguments).await?;
        }
    } else {
        let are_asked = |tool: &&ToolDescription| {
            !matches!(tool.builtin, Some(Builtin::ReadResource | Builtin::GetPrompt))
        };
        for tool in tools.iter().filter(are_asked) {
            let mut arguments = arguments(tool);
            // What a client has kept of a schema is seen by what it gives back.
            if let Some(echoed) = arguments.get_mut("schema") {
                *echoed = tools[0].input_schema.value().clone();
            }
            perform(server, &tool.name, arguments).await?;
        }
    }
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
async fn perform(server: &Server, tool: &str, arguments: Map<String, Value>) -> Result<(), CallError> {
    let mut call = CallContext::new("op_conformance", Duration::from_secs(20));
    for _ in 0..10 {
        match server.session("default").call(tool, arguments.clone(), call.clone()).await {
            Ok(Answer::Done(output)) => {
                println!("`{tool}`: {}", output.text);
                return Ok(());
            }
            Ok(Answer::InputRequired(asked)) => {
                println!("`{tool}` asks for {:?}", asked.requests.keys().collect::<Vec<_>>());
                let answers = asked.requests.into_iter().map(|(key, request)| (key, answer(&request)));
                call.input = Input { answers: answers.collect(), request_state: asked.request_state };
            }
            Err(error) if matches!(error.kind, CallErrorKind::Unauthorized | CallErrorKind::Denied) => {
                return Err(error);
            }
            Err(error) => {
                println!("`{tool}`: {error}");
                return Ok(());
            }
        }
    }
    Ok(())
}

/// More often nobody would consent in a row.
const CONSENTS_MAX: u32 = 2;

/// The document that describes the client, as the suite wants it.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";

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
