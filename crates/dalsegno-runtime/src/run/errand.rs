//! One request, performed outside of a run by the rules of runs: the same room, attempts, classes and scrubbing.
//!
//! Nothing of it is journaled and no person is asked. Where a run would wait for a person, the outcome is a failure that
//! says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{
    AgentConfig, Failure, FailureCode, Gate, Mind, OnIndeterminate, OperationId, Outcome, Plan, Reading,
    Received, Request, RunId, Terms, Tool, ToolName, Toolbox,
};
use dalsegno_history::Situation;
use dalsegno_memory::ScopeSet;
use dalsegno_protocol::Caller;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::effects::policy::{self, Effect, RetryDecision};
use crate::engine::Engine;
use crate::run::attempt::Attempt;
use crate::run::context::{RunContext, Surroundings};
use crate::run::declared::Asker;
use crate::run::handle::RunEvent;

/// The name of the agent that calls tools outside of runs, as documents read it.
pub(crate) const TRIAL: &str = "trial";

/// One request outside of a run.
pub(crate) struct Errand {
    pub(crate) operation: OperationId,
    pub(crate) request: Request,
    pub(crate) terms: Terms,
    /// The document that asks for it, if one does.
    pub(crate) asker: Option<Asker>,
    /// On whose behalf a tool is called.
    pub(crate) caller: Caller,
    /// The tool that is called, as it is offered now, if one is.
    pub(crate) tool: Option<(ToolName, Tool)>,
    /// What a model is sent, and the tools that it is told of, if one is asked.
    pub(crate) reading: Option<(Reading, Toolbox)>,
    /// Where the words of a reply go while they arrive; none where nobody waits for them.
    pub(crate) events: Option<broadcast::Sender<RunEvent>>,
    /// The memory that is read and written.
    pub(crate) scopes: ScopeSet,
}

/// What came of an errand.
pub(crate) struct Done {
    /// The outcome, bounded and without secrets.
    pub(crate) outcome: Outcome,
    /// Whether an attempt may have been acted on.
    pub(crate) received: Received,
}

impl Engine {
    /// Performs an errand for a tenant.
    pub(crate) async fn perform_errand(&self, tenant: &str, errand: Errand) -> Done {
        let context = self.errand_context(tenant, &errand).await;
        let mut done = self.attempt_errand(&context, errand).await;
        context.sessions.close().await;
        done.outcome = done.outcome.bounded();
        self.bindings().secrets().scrub(&mut done.outcome);
        done
    }

    /// What the attempts of an errand share: what they would share in a run of an agent with this tool.
    async fn errand_context(&self, tenant: &str, errand: &Errand) -> Arc<RunContext> {
        let name = TRIAL.parse().expect("it is the name of an agent");
        let tools = match &errand.reading {
            Some((_, toolbox)) => toolbox.clone(),
            None => Toolbox { tools: errand.tool.clone().into_iter().collect(), ..Toolbox::default() },
        };
        let config = AgentConfig { tools, ..AgentConfig::new(name, Mind::Plan(Plan::default())) };
        // Its server was asked just now what it offers, so that there is nothing to compare.
        let mut modules = BTreeMap::new();
        if let Some((tool, _)) = &errand.tool
            && let Some((server, _)) = tool.as_str().split_once('.')
            && self.bindings().tool(tool).is_none()
            && let Ok(digest) = self.bindings().digest(server).await
        {
            modules.insert(server.to_owned(), digest);
        }
        let of = Surroundings { session: TRIAL, tenant, user: &Value::Null, modules: &modules };
        let run = RunId::from_bytes(*uuid::Uuid::new_v4().as_bytes());
        self.context_within(run, Arc::new(config), &of, errand.scopes.clone(), errand.events.clone()).0
    }

    async fn attempt_errand(&self, context: &Arc<RunContext>, errand: Errand) -> Done {
        let Errand { operation, request, terms, asker, caller, reading, tool: _, events: _, scopes: _ } =
            errand;
        let reading = reading.map(|(reading, _)| reading);
        let terms = match terms.on_indeterminate {
            OnIndeterminate::Ask => Terms { on_indeterminate: OnIndeterminate::Report, ..terms },
            OnIndeterminate::Report | OnIndeterminate::Retry => terms,
        };
        let effect = Effect { id: operation, terms: &terms, request: &request };
        let (began, at) = (Instant::now(), self.now().as_millis());
        let (mut attempt, mut doubtful, mut received) = (1, false, Received::No);
        loop {
            let answer = Attempt {
                context: Arc::clone(context),
                step: None,
                at,
                operation,
                attempt,
                terms,
                request: request.clone(),
                reading: reading.clone(),
                asker: asker.clone(),
                caller: caller.clone(),
                of_call: None,
                tasking: None,
                is_shown: false,
            };
            let answer = answer.in_turn().await;
            if !matches!(&answer, Err(error) if error.received == Received::No) {
                received = Received::Possibly;
            }
            let age = began.elapsed();
            let now = Situation { attempt, doubtful, age, key_age: age, recoveries: 0, at: self.now() };
            let outcome = match policy::judge(effect, now, answer) {
                RetryDecision::Again { pause, possibly_received, .. } => {
                    doubtful |= possibly_received;
                    tokio::time::sleep(pause).await;
                    attempt += 1;
                    continue;
                }
                RetryDecision::Take(outcome) => outcome,
                RetryDecision::Gate(gate) => Outcome::Failed(unsettled(&gate)),
                RetryDecision::Ask(reason) => Outcome::Failed(policy::indeterminate(&reason)),
            };
            return Done { outcome, received };
        }
    }
}

/// Why there is no outcome where a run would wait for a person.
fn unsettled(gate: &Gate) -> Failure {
    let message = match gate {
        Gate::Secret { name } => format!("the secret `{name}` is not in the secret store"),
        Gate::Elicitation { requests, .. } => {
            let names: Vec<&str> = requests.keys().map(String::as_str).collect();
            let names = names.join(", ");
            format!(
                "its server asks for input first ({}), and only a run can wait for that: allow the tool to an agent",
                names.escape_debug()
            )
        }
        Gate::Approval | Gate::Input | Gate::InDoubt { .. } => {
            "a person has to answer a question first, and only a run can wait for that".to_owned()
        }
    };
    Failure::new(FailureCode::Unavailable, message)
}
