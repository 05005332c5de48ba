//! Where the arguments of a call come from: rules that ask a person unless a value stands in what the user wrote, or in another
//! source that is trusted with it.
//!
//! A text that a tool returns may tell a model to pay a stranger, and a model may obey. What it calls then has values that stand in that
//! text and in none that the author of the agent trusts. This is found by the values alone, so it does not depend on what a model
//! understands. It is the idea of Debenedetti and others, "Defeating Prompt Injections by Design" (2025), for whole values.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use dalsegno_expr::Expression;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AgentConfig, Mind, PlanCall, PlanOperation, StepAction, Tool, first_rule_met};
use crate::id::ToolPattern;
use crate::sought::{Sought, leaves};
use crate::state::AgentState;
use crate::transcript::Entry;

/// Most bytes of what the user wrote in a session that are kept: the newest.
const TOLD_BYTES: usize = 64 * 1024;

/// Characters of a value that are shown with the rule that it meets.
const SHOWN: usize = 200;

/// A source of values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Origin {
    /// What the user wrote in this run and in earlier ones of its session, and what the caller says of the user. In a run that another
    /// agent started, only the latter: the request is in the words of a model.
    User,
    /// The settings of the tenant.
    Tenant,
    /// The agent's instructions, as its file has them.
    Instructions,
    /// What these tools returned in this run or, where a model reads it, in its session.
    Tool(ToolPattern),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::User => "user",
            Self::Tenant => "tenant",
            Self::Instructions => "instructions",
            Self::Tool(pattern) => pattern.as_str(),
        })
    }
}

impl FromStr for Origin {
    type Err = <ToolPattern as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "user" => Self::User,
            "tenant" => Self::Tenant,
            "instructions" => Self::Instructions,
            pattern => Self::Tool(pattern.parse()?),
        })
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.to_string()
    }
}

impl TryFrom<String> for Origin {
    type Error = <ToolPattern as FromStr>::Err;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Demands that a person agrees to a call, unless certain arguments come from certain sources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OriginRule {
    /// The calls that it is about; all of them when absent. It reads `args`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Expression>,
    /// By argument, such as `args.to`: the sources of which one must have its value.
    pub unless_from: BTreeMap<String, Vec<Origin>>,
}

impl OriginRule {
    /// Says why a call with these arguments needs a person's approval, if it does.
    fn asks(&self, arguments: &Value, sources: &Sources<'_>) -> Option<String> {
        if let Some(when) = &self.when {
            first_rule_met([when], arguments)?;
        }
        self.unless_from.iter().find_map(|(path, origins)| {
            let strange = at(arguments, path).into_iter().find_map(|value| {
                leaves(value).find(|leaf| !origins.iter().any(|origin| sources.has(origin, leaf)))
            })?;
            let origins: Vec<String> = origins.iter().map(|origin| alloc::format!("`{origin}`")).collect();
            let strange: String = strange.to_string().chars().take(SHOWN).collect();
            Some(alloc::format!("`{path}` is not from {}: {strange}", origins.join(" or ")))
        })
    }
}

impl Tool {
    /// Says which rule demands that a person agrees to a call with these arguments, in a run in this state.
    pub(crate) fn asks_in(
        &self,
        config: &AgentConfig,
        state: &AgentState,
        arguments: &Value,
    ) -> Option<String> {
        let sources = Sources { config, state };
        self.asks(arguments)
            .or_else(|| self.approve_from.iter().find_map(|rule| rule.asks(arguments, &sources)))
    }
}

/// The values at a path such as `args.orders.id`: in a list, that of each item. One that is missing carries nothing.
fn at<'v>(arguments: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut found = alloc::vec![arguments];
    for name in path.split('.').skip(1) {
        let items = found.into_iter().flat_map(|value| match value {
            Value::Array(items) => items.iter().collect(),
            value => alloc::vec![value],
        });
        // What is no object where one is expected is traced itself: a value of a strange form must not pass.
        found =
            items.filter_map(|value| if value.is_object() { value.get(name) } else { Some(value) }).collect();
    }
    found
}

impl AgentConfig {
    /// Says whether a rule of a tool asks where arguments come from.
    pub(crate) fn traces_arguments(&self) -> bool {
        self.tools.tools.values().any(|tool| !tool.approve_from.is_empty())
    }
}

impl AgentState {
    /// Keeps what the user wrote, for this run and the next ones of its session, if a rule of the agent asks where arguments come
    /// from. In the transcript it stands among other words.
    pub(crate) fn keep_what_is_told(&mut self, config: &AgentConfig) {
        if !config.traces_arguments()
            || self.request.called_by.is_some()
            || self.request.text.len() > TOLD_BYTES
        {
            return;
        }
        self.told.push(self.request.text.clone());
        let mut bytes = 0_usize;
        let kept = self.told.iter().rev().take_while(|text| {
            bytes = bytes.saturating_add(text.len());
            bytes <= TOLD_BYTES
        });
        let dropped = self.told.len() - kept.count();
        self.told.drain(..dropped);
    }
}

/// All that values may come from.
struct Sources<'s> {
    config: &'s AgentConfig,
    state: &'s AgentState,
}

impl Sources<'_> {
    fn has(&self, origin: &Origin, leaf: &Value) -> bool {
        let Some(sought) = Sought::of(leaf) else { return true };
        let request = self.state.request();
        match origin {
            Origin::User => {
                let is_of_user = request.called_by.is_none();
                sought.is_in(&request.user)
                    || is_of_user && (sought.is_in_text(&request.text) || sought.is_in(&request.data))
                    || self.state.told.iter().any(|text| sought.is_in_text(text))
            }
            Origin::Tenant => sought.is_in(&request.tenant_settings),
            Origin::Instructions => match &self.config.mind {
                Mind::Model(mind) => {
                    mind.instructions.as_ref().is_some_and(|text| sought.is_in_text(text.source()))
                }
                Mind::Plan(_) => false,
            },
            Origin::Tool(pattern) => self.is_returned(pattern, &sought),
        }
    }

    fn is_returned(&self, pattern: &ToolPattern, sought: &Sought<'_>) -> bool {
        let tools = &self.config.tools;
        let in_transcript = self.state.transcript().iter().any(|entry| match entry {
            Entry::ToolResult { name, content, is_error: false, .. } => {
                tools.find(name).is_some_and(|(tool, _)| pattern.matches(tool))
                    && match serde_json::from_str::<Value>(content) {
                        Ok(value) => sought.is_in(&value),
                        Err(_) => sought.is_in_text(content),
                    }
            }
            _ => false,
        });
        let Mind::Plan(plan) = &self.config.mind else { return in_transcript };
        let returned = |operation: &PlanOperation| {
            let PlanCall::Tool { tool, .. } = &operation.call else { return false };
            let id = operation.id.as_ref().filter(|_| pattern.matches(tool));
            id.and_then(|id| self.state.results().get(id.as_str())).is_some_and(|result| sought.is_in(result))
        };
        plan.steps.iter().any(|step| match &step.action {
            StepAction::Operation(operation) => returned(operation),
            StepAction::Parallel(branches) => branches.iter().any(|branch| returned(&branch.operation)),
            StepAction::ForEach(each) => returned(&each.operation),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_goes_into_lists() {
        let arguments = json!({ "orders": [{ "id": 1 }, { "id": 2 }], "to": { "name": "a" } });
        assert_eq!(at(&arguments, "args.orders.id"), [&json!(1), &json!(2)]);
        assert_eq!(at(&arguments, "args.to.name"), [&json!("a")]);
        assert_eq!(at(&arguments, "args"), [&arguments]);
        assert!(at(&arguments, "args.to.other").is_empty());
        assert_eq!(at(&json!({ "to": "a" }), "args.to.name"), [&json!("a")]);
        assert_eq!(leaves(&arguments).count(), 3);
    }

    #[test]
    fn a_source_has_its_word() {
        for word in ["user", "tenant", "instructions", "contacts.*", "*"] {
            assert_eq!(word.parse::<Origin>().unwrap().to_string(), word);
        }
        assert!("no tool".parse::<Origin>().is_err());
    }
}
