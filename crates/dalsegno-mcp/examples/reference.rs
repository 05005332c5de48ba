//! Starts a tool server as a child process, or reaches one at an address, lists what it offers, and calls one of its
//! tools.
//!
//! ```text
//! cargo run -p dalsegno-mcp --example reference -- TOOL ARGUMENTS PROGRAM ARGUMENT…
//! cargo run -p dalsegno-mcp --example reference -- TOOL ARGUMENTS ADDRESS
//! ```
//!
//! `ARGUMENTS` is a JSON object. The child sees `PATH` and `PYTHONPATH` and nothing else of the environment.
#![expect(clippy::print_stdout, reason = "it says what it sees")]

use std::error::Error;
use std::time::Duration;

use dalsegno_mcp::{Answer, CallContext, Command, Endpoint, Server, ServerConfig, ServerSession};
use dalsegno_net::{Client, Egress, Origin, Url};
use dalsegno_secrets::MaybeSecret;
use serde_json::Map;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let missing = "expected TOOL ARGUMENTS PROGRAM ARGUMENT…";
    let tool = words.next().ok_or(missing)?;
    let arguments = serde_json::from_str(&words.next().ok_or(missing)?)?;
    let program = words.next().ok_or(missing)?;
    let config = if program.starts_with("http://") {
        let url: Url = program.parse()?;
        let client = Client::new(Egress::new([Origin::of(&url)?]));
        ServerConfig::http("reference", Endpoint::new(url, client))
    } else {
        let mut command = Command::new(program, words);
        let seen = ["PATH", "PYTHONPATH"].into_iter();
        let seen =
            seen.filter_map(|name| Some((name.to_owned(), MaybeSecret::Text(std::env::var(name).ok()?))));
        command.environment = seen.collect();
        ServerConfig::stdio("reference", command)
    };
    let server = Server::new(config);
    let tools = server.catalogue("default").await?;
    let session = server.session("default");
    let resources = count(&session, "resources").await;
    let prompts = count(&session, "prompts").await;
    let protocol = session.protocol().await?;
    println!("protocol {protocol}; {} tools, {resources} resources, {prompts} prompts", tools.len());
    let answered =
        session.call(&tool, arguments, CallContext::new("op_reference", Duration::from_secs(20))).await;
    let result = match answered? {
        Answer::Done(output) if output.is_error => Err(output.text.into()),
        Answer::Done(output) => {
            let shown: String = output.text.chars().take(200).collect();
            println!("`{tool}` says: {}", shown.replace('\n', " "));
            Ok(())
        }
        Answer::InputRequired(_) => Err("it asks for input".into()),
    };
    server.close().await;
    result
}

/// How many entries a list of the server has; none where it has no such list.
async fn count(session: &ServerSession, list: &str) -> usize {
    let call = CallContext::new("op_reference", Duration::from_secs(20));
    match session.call(&format!("{list}.list"), Map::new(), call).await {
        Ok(Answer::Done(output)) => {
            output.structured.and_then(|listed| Some(listed[list].as_array()?.len())).unwrap_or_default()
        }
        Ok(Answer::InputRequired(_)) | Err(_) => 0,
    }
}
