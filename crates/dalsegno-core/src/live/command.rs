//! What the core asks of a live model.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::canonical::Canonical;
use crate::id::{OperationId, RunId};

/// Something for the session of a live model. It is sent after the commit that it follows from, and stays in the state until
/// the session has [taken](crate::LiveNews::Taken) or [refused](crate::LiveNews::Refused) it; so it may be sent again, under
/// the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCommand {
    /// Its identity, derived from the run, its place among the run's commands and its content.
    pub id: OperationId,
    /// What it is.
    pub kind: CommandKind,
}

/// What a command is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandKind {
    /// How the live model is to behave from here on.
    Session {
        /// The system prompt.
        instructions: String,
    },
    /// The telephone call that rings is to be answered.
    Answer {
        /// The system prompt: how the live model is to behave from the first word on.
        instructions: String,
    },
    /// The one output of a call.
    Output {
        /// The provider's id of the call.
        call_id: String,
        /// What the model reads.
        content: String,
    },
    /// Something that the model must know.
    Note {
        /// The words.
        text: String,
    },
    /// The model is to speak: of the results and notes that it has, or as it is told.
    Respond {
        /// What it is told for this response alone.
        instructions: Option<String>,
        /// Whether it may call tools.
        tools: bool,
    },
    /// The call is to end.
    Close {
        /// Why.
        reason: String,
    },
}

impl CommandKind {
    /// The kind as text, such as `output`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Session { .. } => "session",
            Self::Answer { .. } => "answer",
            Self::Output { .. } => "output",
            Self::Note { .. } => "note",
            Self::Respond { .. } => "respond",
            Self::Close { .. } => "close",
        }
    }

    /// Whether a response that begins afterwards reads it.
    pub(crate) const fn is_read(&self) -> bool {
        matches!(self, Self::Output { .. } | Self::Note { .. })
    }
}

impl LiveCommand {
    pub(crate) fn mint(namespace: RunId, place: u64, kind: CommandKind) -> Self {
        let mut canonical = Canonical::new("command");
        canonical.bytes(namespace.as_bytes()).number(place);
        match &kind {
            CommandKind::Session { instructions } => canonical.tag(0).text(instructions),
            CommandKind::Output { call_id, content } => canonical.tag(1).text(call_id).text(content),
            CommandKind::Note { text } => canonical.tag(2).text(text),
            CommandKind::Respond { instructions, tools } => {
                canonical.tag(3).tag(u8::from(*tools)).tag(u8::from(instructions.is_some()));
                canonical.text(instructions.as_deref().unwrap_or_default())
            }
            CommandKind::Close { reason } => canonical.tag(4).text(reason),
            CommandKind::Answer { instructions } => canonical.tag(5).text(instructions),
        };
        Self { id: OperationId::from_bytes(canonical.finish().truncated()), kind }
    }
}
