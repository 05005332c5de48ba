//! `greet`: the smallest tool server that is worth anything.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{Json, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
struct HelloParams {
    /// Who is greeted.
    name: String,
}

#[derive(Serialize, JsonSchema)]
struct Hello {
    /// The greeting.
    text: String,
}

struct GreetServer;

#[tool_router]
impl GreetServer {
    /// Greets somebody.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn hello(&self, Parameters(params): Parameters<HelloParams>) -> Result<Json<Hello>, String> {
        if params.name.trim().is_empty() {
            return Err("`name` is empty, expected somebody's name".to_owned());
        }
        Ok(Json(Hello { text: format!("Hello, {}!", params.name) }))
    }
}

#[tool_handler]
impl ServerHandler for GreetServer {}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    stdio::serve(GreetServer)
}
