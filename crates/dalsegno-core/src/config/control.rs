//! How a model is asked, beyond its temperature and the length of its replies.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::operation::ToolChoice;

/// How a model is asked. What is not set is the provider's own default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelControl {
    /// Whether the model may, must not or must call tools; it decides by itself when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The same for the first reply of a run, in place of `tool_choice`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<ToolChoice>,
    /// Nucleus sampling: the share of probability, from 0 to 1, among which tokens are chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Texts at which a reply ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The seed of sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How much the model reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// Whether one reply may hold several calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// How long answers are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<Verbosity>,
    /// The provider's class of service, in its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// Whether the provider makes arguments fit the schemas of tools, where it can for a schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// The tools that the provider runs by itself while it makes a reply. What they did is in the reply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub provider_tools: Vec<ProviderTool>,
    /// Whether replies may come later, at the lower price of the provider's batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<bool>,
}

impl ModelControl {
    /// Says whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What this sets, and below it what `defaults` sets.
    #[must_use]
    pub fn or(self, defaults: &Self) -> Self {
        Self {
            tool_choice: self.tool_choice.or_else(|| defaults.tool_choice.clone()),
            first: self.first.or_else(|| defaults.first.clone()),
            top_p: self.top_p.or(defaults.top_p),
            stop: if self.stop.is_empty() { defaults.stop.clone() } else { self.stop },
            seed: self.seed.or(defaults.seed),
            reasoning: self.reasoning.or(defaults.reasoning),
            parallel_tool_calls: self.parallel_tool_calls.or(defaults.parallel_tool_calls),
            verbosity: self.verbosity.or(defaults.verbosity),
            service_tier: self.service_tier.or_else(|| defaults.service_tier.clone()),
            strict: self.strict.or(defaults.strict),
            provider_tools: match self.provider_tools.is_empty() {
                true => defaults.provider_tools.clone(),
                false => self.provider_tools,
            },
            batch: self.batch.or(defaults.batch),
        }
    }
}

/// A tool that a model's provider runs by itself, on its own machines and at its own price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderTool {
    /// Runs code that the model writes.
    CodeExecution,
    /// Reads a page of the web.
    WebFetch,
    /// Searches the web.
    WebSearch,
}

impl ProviderTool {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::CodeExecution, Self::WebFetch, Self::WebSearch];

    /// Returns its name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CodeExecution => "code_execution",
            Self::WebFetch => "web_fetch",
            Self::WebSearch => "web_search",
        }
    }
}

impl fmt::Display for ProviderTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ProviderTool {
    type Err = UnknownProviderTool;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == text).ok_or(UnknownProviderTool)
    }
}

/// No provider's tool has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected `code_execution`, `web_fetch` or `web_search`")]
pub struct UnknownProviderTool;

/// How much a model reasons before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// Not at all.
    None,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// With at most this many tokens.
    MaxTokens(u32),
}

/// How long answers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verbosity {
    /// Short.
    Low,
    /// As usual.
    Medium,
    /// Long.
    High,
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use serde_json::json;

    use super::*;
    use crate::canonical::Canonical;
    use crate::config::ModelSettings;

    #[test]
    fn what_is_not_set_is_not_stored_and_not_fed() {
        let plain = ModelSettings::named("m");
        assert!(serde_json::to_value(&plain).unwrap().get("control").is_none());
        let digest = |settings: &ModelSettings| {
            let mut canonical = Canonical::new("test");
            settings.feed(&mut canonical);
            canonical.finish()
        };
        let mut by_hand = Canonical::new("test");
        by_hand.text("m").number(u64::MAX).number(u64::MAX);
        assert_eq!(digest(&plain), by_hand.finish());
        let set = ModelControl { seed: Some(7), ..ModelControl::default() };
        assert_ne!(digest(&ModelSettings { control: set.into(), ..plain.clone() }), digest(&plain));
    }

    #[test]
    fn everything_is_stored_in_words() {
        let control = ModelControl {
            tool_choice: Some(ToolChoice::Required),
            first: Some(ToolChoice::Tool("crm.find".parse().unwrap())),
            top_p: Some(0.5),
            stop: vec!["END".into()],
            seed: Some(7),
            reasoning: Some(Reasoning::MaxTokens(2_000)),
            parallel_tool_calls: Some(false),
            verbosity: Some(Verbosity::Low),
            service_tier: Some("flex".into()),
            strict: Some(true),
            provider_tools: vec![ProviderTool::WebSearch, ProviderTool::CodeExecution],
            batch: Some(true),
        };
        let stored = json!({
            "tool_choice": "required", "first": { "tool": "crm.find" }, "top_p": 0.5, "stop": ["END"], "seed": 7,
            "reasoning": { "max_tokens": 2_000 }, "parallel_tool_calls": false, "verbosity": "low",
            "service_tier": "flex", "strict": true, "provider_tools": ["web_search", "code_execution"],
            "batch": true,
        });
        assert_eq!(serde_json::to_value(&control).unwrap(), stored);
        assert_eq!(serde_json::from_value::<ModelControl>(stored).unwrap(), control);
        assert_eq!(ModelControl::default().or(&control), control);
        assert_eq!(control.clone().or(&ModelControl::default()), control);
    }
}
