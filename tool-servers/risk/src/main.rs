//! `risk`: scores incident reports, says why, and keeps a list of escalations.
//!
//! An ordinary MCP server that speaks JSON-RPC lines over standard input and output. Nothing here knows which host
//! runs it; the same file works under any runtime that offers `wasi:cli/command`.

mod escalations;
mod score;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use rmcp::service::RequestContext;
use rmcp::{Json, RoleServer, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use escalations::{Escalation, Recorded};
use score::{PastIncident, Risk};

/// What `score` takes.
#[derive(Debug, Deserialize, JsonSchema)]
struct ScoreParams {
    /// The incident report, as it was written.
    text: String,
    /// Similar incidents of the past, with what became of them.
    #[serde(default)]
    similar: Vec<PastIncident>,
}

/// What `explain` takes.
#[derive(Debug, Deserialize, JsonSchema)]
struct ExplainParams {
    /// The incident report, as it was written.
    text: String,
}

/// What `explain` answers.
#[derive(Debug, Serialize, JsonSchema)]
struct Explanation {
    /// One sentence for each reason, the weightiest first.
    sentences: Vec<String>,
}

/// What `record` takes.
#[derive(Debug, Deserialize, JsonSchema)]
struct RecordParams {
    /// The incident: its id or its text.
    incident: String,
    /// The risk that was decided upon, between 0 and 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    risk: f64,
    /// What was decided.
    decision: String,
    /// Who decided.
    #[serde(default)]
    by: Option<String>,
}

/// The server. It holds nothing: a guest's memory is only a cache, gone at any call.
struct RiskServer;

#[tool_router]
impl RiskServer {
    /// Scores the risk of an incident report between 0 and 1 and names the factors that led there.
    #[tool(annotations(read_only_hint = true, idempotent_hint = true, open_world_hint = false))]
    fn score(&self, Parameters(params): Parameters<ScoreParams>) -> Result<Json<Risk>, String> {
        check_length("text", &params.text)?;
        if params.similar.len() > PAST_INCIDENTS_MAX {
            return Err(format!(
                "`similar` holds {} incidents, expected at most {PAST_INCIDENTS_MAX}: pass the closest ones",
                params.similar.len()
            ));
        }
        Ok(Json(score::score(&params.text, &params.similar)))
    }

    /// Explains in plain sentences what makes an incident report risky or harmless.
    #[tool(annotations(read_only_hint = true, idempotent_hint = true, open_world_hint = false))]
    fn explain(&self, Parameters(params): Parameters<ExplainParams>) -> Result<Json<Explanation>, String> {
        check_length("text", &params.text)?;
        let sentences = score::explain(&score::score(&params.text, &[]));
        Ok(Json(Explanation { sentences }))
    }

    /// Appends a decision about an incident to the list of escalations and tells which line it became.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    fn record(
        &self,
        Parameters(params): Parameters<RecordParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Recorded>, String> {
        check_length("incident", &params.incident)?;
        check_length("decision", &params.decision)?;
        if !(0.0..=1.0).contains(&params.risk) {
            return Err(format!("`risk` is {}, expected a number between 0 and 1", params.risk));
        }
        let operation = context.meta.get(OPERATION_KEY).and_then(|value| value.as_str()).map(str::to_owned);
        let RecordParams { incident, risk, decision, by } = params;
        escalations::append(&Escalation { incident, risk, decision, by, operation }).map(Json)
    }
}

#[tool_handler]
impl ServerHandler for RiskServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("risk", env!("CARGO_PKG_VERSION")))
            .with_instructions("Scores incident reports and keeps a list of escalations.")
    }
}

fn check_length(field: &str, text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err(format!("`{field}` is empty, expected some text"));
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("`{field}` has {} bytes, expected at most {TEXT_BYTES_MAX}", text.len()));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    stdio::serve(RiskServer)
}

/// A report longer than this is a log file; the caller should summarise it first.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// More past incidents than this say nothing new about one report.
const PAST_INCIDENTS_MAX: usize = 100;

/// Where a host puts the id of the operation that this call belongs to.
const OPERATION_KEY: &str = "dalsegno/operation";
