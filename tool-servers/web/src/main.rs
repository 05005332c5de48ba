//! `web`: reads pages over HTTP, from the hosts that its configuration grants.
//!
//! It asks for whatever a caller wants; the host decides whether the request goes anywhere. A redirect is followed by
//! another request, which the host checks like the first.

mod http;

use std::collections::BTreeMap;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use rmcp::{Json, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `status` takes.
#[derive(Debug, Deserialize, JsonSchema)]
struct StatusParams {
    /// The address, `http` or `https`.
    url: String,
}

/// What `status` answers.
#[derive(Debug, Serialize, JsonSchema)]
struct Status {
    /// The status code.
    status: u16,
    /// Where it sends the caller, if it does.
    location: Option<String>,
}

/// What `fetch` takes.
#[derive(Debug, Deserialize, JsonSchema)]
struct FetchParams {
    /// The address, `http` or `https`.
    url: String,
    /// Further headers of the request.
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// What `fetch` answers.
#[derive(Debug, Serialize, JsonSchema)]
struct Page {
    /// Where it was found in the end.
    url: String,
    /// The status code.
    status: u16,
    /// What it is, such as `text/html`.
    content_type: Option<String>,
    /// Its beginning as text.
    text: String,
    /// Whether there was more.
    truncated: bool,
}

/// The server. It holds nothing: a guest's memory is only a cache, gone at any call.
struct WebServer;

#[tool_router]
impl WebServer {
    /// Asks for an address and says what status it has, without following a redirect.
    #[tool(annotations(read_only_hint = true, open_world_hint = true))]
    fn status(&self, Parameters(params): Parameters<StatusParams>) -> Result<Json<Status>, String> {
        let response = http::get(&http::Address::parse(&params.url)?, &BTreeMap::new())?;
        Ok(Json(Status { status: response.status(), location: response.header("location") }))
    }

    /// Reads a page as text. Follows up to five redirects, each of which must be granted as well.
    #[tool(annotations(read_only_hint = true, open_world_hint = true))]
    fn fetch(&self, Parameters(params): Parameters<FetchParams>) -> Result<Json<Page>, String> {
        let mut address = http::Address::parse(&params.url)?;
        for _ in 0..=REDIRECTS_MAX {
            let response = http::get(&address, &params.headers)?;
            let status = response.status();
            if let (300..=399, Some(location)) = (status, response.header("location")) {
                address = address.join(&location)?;
                continue;
            }
            let content_type = response.header("content-type");
            let (bytes, truncated) = response.read(TEXT_BYTES_MAX)?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            return Ok(Json(Page { url: address.to_string(), status, content_type, text, truncated }));
        }
        Err(format!("more than {REDIRECTS_MAX} redirects, the last one to `{address}`"))
    }
}

#[tool_handler]
impl ServerHandler for WebServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("web", env!("CARGO_PKG_VERSION")))
            .with_instructions("Reads pages from the hosts that are granted.")
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    stdio::serve(WebServer)
}

const REDIRECTS_MAX: usize = 5;

/// More than this no model should read at once.
const TEXT_BYTES_MAX: usize = 64 * 1024;
