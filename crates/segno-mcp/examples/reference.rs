//! Starts a tool server as a child process, lists what it offers, and calls one of its tools.
//!
//! ```text
//! cargo run -p segno-mcp --example reference -- TOOL ARGUMENTS PROGRAM ARGUMENT…
//! ```
//!
//! `ARGUMENTS` is a JSON object. The child sees `PATH` and nothing else of the environment.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use segno_mcp::{Answer, CallContext, Command, Server, ServerConfig};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let missing = "expected TOOL ARGUMENTS PROGRAM ARGUMENT…";
    let tool = words.next().ok_or(missing)?;
    let arguments = serde_json::from_str(&words.next().ok_or(missing)?)?;
    let mut command = Command::new(words.next().ok_or(missing)?, words);
    let path = std::env::var("PATH").unwrap_or_default();
    command.environment = Arc::new(BTreeMap::from([("PATH".to_owned(), path)]));

    let server = Server::new(ServerConfig::stdio("reference", command));
    let tools = server.catalogue("default").await?;
    let session = server.session("default");
    let (resources, prompts) = (session.resources().await, session.prompts().await);
    println!(
        "protocol {}; {} tools, {} resources, {} prompts",
        session.protocol().await?,
        tools.len(),
        resources.map_or(0, |resources| resources.len()),
        prompts.map_or(0, |prompts| prompts.len()),
    );
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
