//! The engine's own tools about the workspace and its runs, for agents whose file names them. Each sees one tenant.

use std::collections::BTreeMap;

use dalsegno_core::{AgentName, FailureCode, Outcome, RunId, Surface, ToolCall, ToolName, ToolReturn};
use dalsegno_store::{RunFilter, RunStatus};
use serde_json::{Map, Value, json};

use crate::effects::failure::AttemptError;
use crate::effects::failure::certain;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::run::context::{OfCall, RunContext};
use crate::run::converse::KeysSent;
use crate::run::handle::Cancelled;

/// Most agents or tools that are listed.
const LISTED: usize = 200;
/// How many runs a count looks at.
const COUNTED: u32 = 1_000;
/// Most characters of a description.
const WORDS: usize = 300;

/// The tool that sends keys to the caller's line.
pub(crate) const SEND_DIGITS: &str = "call.send_digits";

/// Which of the tools it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineTool {
    Describe,
    Agents,
    Runs,
    Cancel,
    Metrics,
    SendDigits,
}

impl EngineTool {
    /// The engine's tool of this name, unless a server of the workspace or a tool in process has the name.
    pub(crate) fn of(name: &ToolName, engine: &Engine) -> Option<Self> {
        let tool = match name.as_str() {
            "workspace.describe" => Self::Describe,
            "agents.list" => Self::Agents,
            "runs.list" => Self::Runs,
            "runs.cancel" => Self::Cancel,
            "metrics.read" => Self::Metrics,
            SEND_DIGITS => Self::SendDigits,
            _ => return None,
        };
        let server = name.as_str().split('.').next().unwrap_or_default();
        (!engine.bindings().settings().servers.contains_key(server)).then_some(tool)
    }
}

impl Engine {
    /// Performs one of the engine's tools for the run's tenant.
    pub(crate) async fn engine_tool(
        &self,
        tool: EngineTool,
        context: &RunContext,
        call: &ToolCall,
        of_call: Option<OfCall<'_>>,
    ) -> Result<Outcome, AttemptError> {
        let tenant = context.tenant.as_str();
        let text = |name: &str| call.parameters[name].as_str();
        let result = match tool {
            EngineTool::Describe => self.describe(tenant),
            EngineTool::Agents => self.list_agents(text("capability")),
            EngineTool::Runs => {
                let limit = call.parameters["limit"].as_u64().and_then(|limit| u32::try_from(limit).ok());
                let limit = limit.unwrap_or(20).clamp(1, 100);
                self.list_runs(tenant, text("agent"), text("status"), limit).await.map_err(failed)?
            }
            EngineTool::Cancel => {
                let run = text("run").and_then(|run| run.parse::<RunId>().ok());
                let reason = text("reason").map(str::to_owned);
                match run {
                    Some(run) if run != context.run => {
                        let by = format!("the agent {} in run {}", context.config.name, context.run);
                        self.cancel_for(tenant, run, by, reason).await.map_err(failed)?
                    }
                    Some(_) => return Ok(refused("the run that calls cannot end itself")),
                    None => return Ok(refused("`run` is not the id of a run")),
                }
            }
            EngineTool::Metrics => self.count_runs(tenant).await.map_err(failed)?,
            EngineTool::SendDigits => {
                let digits = text("digits").unwrap_or_default();
                return send_digits(context, digits, of_call).await;
            }
        };
        Ok(match result {
            Value::Null => refused("there is no such run of this tenant"),
            result => Outcome::ToolReturned(ToolReturn::structured(result)),
        })
    }

    fn describe(&self, tenant: &str) -> Value {
        let workspace = self.workspace();
        let tools: Vec<String> = workspace.declared_tools(tenant).keys().map(ToString::to_string).collect();
        let mut described = self.list_agents(None);
        described["tenant"] = json!(tenant);
        described["tools"] = json!(tools.iter().take(LISTED).collect::<Vec<_>>());
        described["truncated"] = json!(described["truncated"] == json!(true) || tools.len() > LISTED);
        described
    }

    fn list_agents(&self, capability: Option<&str>) -> Value {
        let workspace = self.workspace();
        let plain = |name: &str| name.replace('_', "-");
        let has = |capabilities: &[String]| {
            capability.is_none_or(|wanted| capabilities.iter().any(|own| plain(own) == plain(wanted)))
        };
        let listed = workspace.agents.values().filter_map(|file| {
            let capabilities: Vec<String> = file.capabilities.iter().map(ToString::to_string).collect();
            let description: String = file.description.chars().take(WORDS).collect();
            has(&capabilities).then(
                || json!({ "name": file.name, "description": description, "capabilities": capabilities }),
            )
        });
        let mut agents: Vec<Value> = listed.take(LISTED + 1).collect();
        let truncated = agents.len() > LISTED;
        agents.truncate(LISTED);
        json!({ "agents": agents, "truncated": truncated })
    }

    async fn list_runs(
        &self,
        tenant: &str,
        agent: Option<&str>,
        status: Option<&str>,
        limit: u32,
    ) -> Result<Value, EngineError> {
        let agent = match agent.map(str::parse::<AgentName>) {
            Some(Ok(agent)) => Some(agent),
            // No run is of an agent that has no name.
            Some(Err(_)) => return Ok(json!({ "runs": [] })),
            None => None,
        };
        let status =
            status.and_then(|status| RunStatus::ALL.iter().copied().find(|one| one.as_str() == status));
        let filter =
            RunFilter { agent, status, tenant: Some(tenant.to_owned()), limit, ..RunFilter::default() };
        let runs = self.journal().runs(&filter).await?;
        let shown = runs.iter().map(|run| {
            json!({
                "run": run.run, "agent": run.agent, "status": run.status.as_str(), "session": run.session,
                "started_at": run.started_at.as_millis(), "updated_at": run.updated_at.as_millis(),
            })
        });
        Ok(json!({ "runs": shown.collect::<Vec<_>>() }))
    }

    /// Null where the tenant has no such run: whether another one has it is nobody's business.
    async fn cancel_for(
        &self,
        tenant: &str,
        run: RunId,
        by: String,
        reason: Option<String>,
    ) -> Result<Value, EngineError> {
        let Some(summary) = self.journal().known(run).await?.filter(|summary| summary.tenant == tenant)
        else {
            return Ok(Value::Null);
        };
        if summary.status.is_end() {
            return Ok(json!({ "run": run, "status": summary.status.as_str() }));
        }
        // Boxed: it may perform the end of the run, which has tools of its own.
        match Box::pin(self.cancel(run, Some(by), reason)).await {
            Ok(Cancelled::Ended(_)) => Ok(json!({ "run": run, "status": "cancelled" })),
            Ok(Cancelled::Requested { .. }) => Ok(json!({ "run": run, "status": "told_to_end" })),
            Err(EngineError::Ended { .. }) => Ok(json!({ "run": run, "status": "over" })),
            Err(error) => Err(error),
        }
    }

    async fn count_runs(&self, tenant: &str) -> Result<Value, EngineError> {
        let filter = RunFilter { tenant: Some(tenant.to_owned()), limit: COUNTED, ..RunFilter::default() };
        let runs = self.journal().runs(&filter).await?;
        let mut agents: BTreeMap<String, BTreeMap<&str, u64>> = BTreeMap::new();
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for run in &runs {
            let status = run.status.as_str();
            *all.entry(status).or_default() += 1;
            if agents.len() < LISTED || agents.contains_key(run.agent.as_str()) {
                *agents.entry(run.agent.to_string()).or_default().entry(status).or_default() += 1;
            }
        }
        let mut counted = Map::new();
        counted.insert("counted".to_owned(), json!(runs.len()));
        counted.insert("truncated".to_owned(), json!(runs.len() as u64 >= u64::from(COUNTED)));
        counted.insert("by_status".to_owned(), json!(all));
        counted.insert("by_agent".to_owned(), json!(agents));
        Ok(Value::Object(counted))
    }
}

/// Sends keys to the caller's line by the switchboard that carries the call.
async fn send_digits(
    context: &RunContext,
    digits: &str,
    of_call: Option<OfCall<'_>>,
) -> Result<Outcome, AttemptError> {
    let call = of_call.filter(|call| call.request.surface.is_some_and(Surface::outlives_its_process));
    let Some((OfCall { request, operation }, switchboard)) = call.zip(context.ports.switchboard.get()) else {
        let message = "the run is no telephone call, so there is no line that digits could be sent to";
        return Err(certain(FailureCode::NotPermitted, message.to_owned()));
    };
    Ok(match switchboard.send_keys(request, operation, digits).await? {
        KeysSent::All => Outcome::ToolReturned(ToolReturn::structured(json!({ "sent": digits }))),
        KeysSent::First { count, reason } => {
            let sent: String = digits.chars().take(count).collect();
            refused(&format!("only `{sent}` was sent: {reason}"))
        }
    })
}

fn refused(message: &str) -> Outcome {
    Outcome::ToolReturned(ToolReturn { text: message.to_owned(), is_error: true, ..ToolReturn::default() })
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` passes")]
fn failed(error: EngineError) -> AttemptError {
    certain(FailureCode::Unavailable, error.to_string())
}
