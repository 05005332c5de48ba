//! Conversations with agents: a session, run by run.

use askama::Template;

use crate::inbox::WaitingCard;
use crate::run::End;
use crate::runs::Mark;
use crate::shell::{Live, Shell};

/// A conversation with an agent, or the choice of one.
#[derive(Debug, Clone, Template)]
#[template(path = "chat.html")]
pub struct ChatPage {
    /// What surrounds it.
    pub shell: Shell,
    /// The agent; empty where none is chosen yet.
    pub agent: String,
    /// The agents to choose from, as far as the person may list them.
    pub agents: Vec<String>,
    /// The session; empty before the first message.
    pub session: String,
    /// The address of the conversation.
    pub address: String,
    /// The tenant, where the person reaches all of them.
    pub tenant: Option<String>,
    /// What names the next message, so that it is sent once.
    pub key: String,
    /// The message, as it was typed when it was refused.
    pub typed: String,
    /// Why it was refused.
    pub problem: Option<String>,
    /// The messages, the newest last.
    pub turns: Vec<Turn>,
    /// Whether earlier messages are not shown, with the address of the session's runs.
    pub earlier: Option<String>,
    /// What the page follows while the agent works.
    pub live: Option<Live>,
}

/// A message, and what came of it.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The run.
    pub id: String,
    /// The beginning of its id.
    pub short: String,
    /// The agent that was asked.
    pub agent: String,
    /// Where it stands.
    pub mark: Mark,
    /// The message.
    pub text: String,
    /// How it ended.
    pub end: Option<End>,
    /// What it waits for.
    pub waiting: Vec<WaitingCard>,
    /// Whether more is to come.
    pub is_open: bool,
}

impl Turn {
    /// What stands for how far it is.
    pub fn state(&self) -> String {
        let shown = self.waiting.iter().map(|card| card.shown.as_str()).collect::<Vec<_>>().join(" ");
        format!("{} {shown}", self.mark.word)
    }
}
