//! How an agent behaves in a call, in which a live model listens and speaks.

use alloc::collections::BTreeMap;
use alloc::string::String;

use dalsegno_expr::Template;
use serde::{Deserialize, Serialize};

use crate::id::{AgentName, ToolName};

/// How an agent behaves in a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VoiceSettings {
    /// What the live model is told to say when the call begins; without it the caller speaks first. Renders once, when the
    /// call begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub greeting: Option<Template>,
    /// What the live model is told to say when a tool takes long and nobody speaks; nothing is said where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filler: Option<String>,
    /// How long the live model waits for a result, in milliseconds. After that it is told that the tool still works, and the
    /// result follows.
    pub defer_after_ms: u64,
    /// What happens to questions for people that are open when the caller has hung up.
    pub after_hangup: AfterHangup,
    /// The longest time of a call, in milliseconds.
    pub max_duration_ms: u64,
    /// The agent that works for a live model which hears while it speaks and asks for no tools itself: what such a model leaves to others
    /// is a child run of that agent. It is one that this agent may call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegate: Option<AgentName>,
    /// What differs for single tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<ToolName, VoiceTool>,
}

impl VoiceSettings {
    /// What the live model is told to say when a tool takes long, unless the agent's file says something else.
    pub const FILLER: &str = "Say in one short sentence that you are still at it. Add nothing else.";
}

impl Default for VoiceSettings {
    fn default() -> Self {
        Self {
            greeting: None,
            filler: Some(Self::FILLER.into()),
            defer_after_ms: 10_000,
            after_hangup: AfterHangup::Deny,
            max_duration_ms: 30 * 60 * 1_000,
            delegate: None,
            tools: BTreeMap::new(),
        }
    }
}

/// What happens to questions for people that are open when the caller has hung up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterHangup {
    /// The answer is no: the caller is gone.
    #[default]
    Deny,
    /// They stay open, and the run waits for a person.
    Keep,
}

/// What differs for one tool in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoiceTool {
    /// Whether a repeated call with the same arguments is answered by the call before it, as long as the model has not heard
    /// its result.
    pub join: bool,
    /// Whether a call that only reads runs on when the model is interrupted.
    pub keep_when_interrupted: bool,
}

impl Default for VoiceTool {
    fn default() -> Self {
        Self { join: true, keep_when_interrupted: false }
    }
}
