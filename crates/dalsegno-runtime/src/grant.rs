//! What today's workspace grants a run that keeps the configuration with which it began.
//!
//! The configuration decides what the core asks for, so that a fold comes to the same. This decides, when an operation is
//! about to start, whether the agent's file of today still lets it: the file may take tools away, ask for approvals and
//! lower limits, and never gives a run more than it began with.

use std::collections::BTreeSet;
use std::sync::Arc;

use dalsegno_core::{
    AgentConfig, AgentName, Budget, EffectClass, FailureCode, Limits, Mind, Request, Tool, ToolCall,
    ToolName, ToolPattern,
};
use dalsegno_workspace::{AgentTools, Workspace};
use serde_json::{Value, json};

/// What today's workspace grants a run.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    agent: AgentName,
    /// The agent's file of today; none where there is no such agent any more.
    today: Option<Today>,
    /// The tools of which the file now demands that their arguments come from certain sources, while the run began without that: where
    /// they come from is known to the core alone, so a person is asked each time.
    newly_traced: BTreeSet<ToolName>,
    /// The tools that may change something, where runs are trials of an eval.
    trial: Option<Arc<[ToolPattern]>>,
}

#[derive(Debug, Clone)]
struct Today {
    tools: AgentTools,
    agents: BTreeSet<AgentName>,
    limits: Limits,
    has_model: bool,
}

/// What is to become of an operation that is about to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It may start.
    Granted,
    /// A person must agree first.
    Ask,
    /// It may not start.
    Refused(FailureCode, String),
}

impl Grant {
    /// What a workspace grants a run of an agent.
    pub(crate) fn of(workspace: &Workspace, config: &AgentConfig) -> Self {
        let agent = &config.name;
        let today = workspace.agents.get(agent).map(|file| Today {
            tools: file.tools.clone(),
            agents: file.agents.keys().cloned().collect(),
            limits: file.limits,
            has_model: matches!(file.mind, Mind::Model(_)),
        });
        let is_traced_anew = |(name, tool): &(&ToolName, &Tool)| {
            let mut rules = today.iter().flat_map(|today| today.tools.approve_from(name));
            rules.any(|rule| !tool.approve_from.contains(rule))
        };
        let newly_traced = config.tools.tools.iter().filter(is_traced_anew);
        let newly_traced = newly_traced.map(|(name, _)| name.clone()).collect();
        Self { agent: agent.clone(), today, newly_traced, trial: None }
    }

    /// The same for a trial of an eval, where only these tools may change something: a person would have to agree to any other call.
    pub(crate) fn on_trial(self, allowed: Option<Arc<[ToolPattern]>>) -> Self {
        Self { trial: allowed, ..self }
    }

    /// Says whether an operation would act on the world though it is part of a trial.
    pub(crate) fn is_held_back(
        &self,
        request: &Request,
        above: Option<&ToolCall>,
        class: EffectClass,
    ) -> bool {
        let Some(allowed) = &self.trial else { return false };
        let acts = matches!(
            request,
            Request::ToolCall(_) | Request::ApiCall(_) | Request::Email(_) | Request::Transfer(_)
        ) && !matches!(class, EffectClass::Read | EffectClass::Composite);
        let tool = above.or_else(|| request.as_tool_call()).map(|call| &call.tool_name);
        acts && !tool.is_some_and(|tool| allowed.iter().any(|pattern| pattern.matches(tool)))
    }

    /// Says whether an operation may start. `above` is the call of the declarative tool that asks for it, `step` the run's step.
    pub(crate) fn leave(&self, request: &Request, above: Option<&ToolCall>, step: u64) -> Leave {
        let Some(today) = &self.today else {
            let message = format!("the workspace has no agent `{}` any more: put its file back", self.agent);
            return Leave::Refused(FailureCode::NotPermitted, message);
        };
        if step > today.limits.max_steps && !matches!(request, Request::Timer(_) | Request::Input(_)) {
            let most = today.limits.max_steps;
            let message =
                format!("the file of the agent `{}` now allows {most} steps (`max_steps`)", self.agent);
            return Leave::Refused(FailureCode::LimitExceeded, message);
        }
        let built_in = |name: &str| name.parse::<ToolName>().ok();
        let tool = match (above, request) {
            (Some(call), _) => call.tool_name.clone(),
            (None, Request::ToolCall(call)) => call.tool_name.clone(),
            (None, Request::AgentCall(call)) => {
                if !today.agents.contains(&call.agent) {
                    return self.refused(&format!("the agent `{}`", call.agent));
                }
                let arguments = json!({ "text": call.text, "data": call.data });
                return match built_in(&format!("agents.{}", call.agent)) {
                    Some(tool) => self.by_rules(today, &tool, Some(&arguments)),
                    None => Leave::Granted,
                };
            }
            // A plan names its writes in steps of their own; a model calls a tool for them.
            (None, Request::MemoryCreate(_)) if today.has_model => match built_in("memory.create") {
                Some(tool) => tool,
                None => return Leave::Granted,
            },
            (
                None,
                Request::MemoryCreate(_)
                | Request::MemorySearch(_)
                | Request::MemoryTraverse(_)
                | Request::ModelCompletion(_)
                | Request::ApiCall(_)
                | Request::Email(_)
                | Request::Transfer(_)
                | Request::Input(_)
                | Request::Timer(_),
            ) => return Leave::Granted,
        };
        if !today.tools.allows(&tool) {
            return self.refused(&format!("`{tool}`"));
        }
        // For a part of a declarative tool, the arguments of the tool count.
        let arguments = above.or_else(|| request.as_tool_call()).map(|call| &call.parameters);
        self.by_rules(today, &tool, arguments)
    }

    /// What the rules of today say of a call.
    fn by_rules(&self, today: &Today, tool: &ToolName, arguments: Option<&Value>) -> Leave {
        if let Some(rule) = arguments.and_then(|arguments| today.tools.denies(tool, arguments)) {
            let message =
                format!("the file of the agent `{}` now denies this call of `{tool}`: {rule}", self.agent);
            return Leave::Refused(FailureCode::NotPermitted, message);
        }
        let by_rule = arguments.is_some_and(|arguments| today.tools.asks(tool, arguments).is_some());
        let asks = today.tools.always_asks(tool) || by_rule || self.newly_traced.contains(tool);
        if asks { Leave::Ask } else { Leave::Granted }
    }

    fn refused(&self, what: &str) -> Leave {
        let message = format!(
            "the file of the agent `{}` does not allow {what} any more, which counts for runs that began before, too",
            self.agent
        );
        Leave::Refused(FailureCode::NotPermitted, message)
    }

    /// The longest active time by now, in milliseconds.
    pub(crate) fn timeout_ms(&self, pinned: u64) -> u64 {
        self.today.as_ref().map_or(pinned, |today| today.limits.timeout_ms.min(pinned))
    }

    /// How long a question waits by now, in milliseconds.
    pub(crate) fn answer_timeout_ms(&self, pinned: Option<u64>) -> Option<u64> {
        let today = self.today.as_ref().and_then(|today| today.limits.answer_timeout_ms);
        match (pinned, today) {
            (Some(pinned), Some(today)) => Some(pinned.min(today)),
            (pinned, today) => pinned.or(today),
        }
    }

    /// What the run may use by now, if that is less than what it might use until now.
    pub(crate) fn narrower(&self, until_now: Budget) -> Option<Budget> {
        let today = self.today.as_ref()?.limits.budget();
        let least = until_now.min(today);
        (least != until_now).then_some(least)
    }
}
