//! What was said and done in a call, for a session that does not know it.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use dalsegno_core::{AgentState, CommandKind, Entry, ReplyPart};

/// Most items that are kept. A session of the provider holds fewer words than that.
const ITEMS_MAX: usize = 512;

/// Most bytes of them.
const BYTES_MAX: usize = 256 * 1_024;

/// Most bytes of it in words: escaped as JSON they still fit into the arguments of a call.
const WORDS_BYTES_MAX: usize = 7 * 1_024;

/// What stands for words that the caller did not hear.
pub(crate) const CUT: &str = " […]";

/// One thing that was said or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// The caller's words.
    Caller(String),
    /// The live model's words.
    Agent(String),
    /// Something that the live model was told.
    Note(String),
    /// The live model's call of a tool.
    Call {
        /// The provider's id of the call.
        call_id: String,
        /// The tool's name as the model wrote it.
        name: String,
        /// The arguments as the model wrote them.
        arguments: String,
    },
    /// The output of a call.
    Output {
        /// The provider's id of the call.
        call_id: String,
        /// What the model reads.
        content: String,
    },
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Self::Caller(text) | Self::Agent(text) | Self::Note(text) => text.len(),
            Self::Call { call_id, name, arguments } => call_id.len() + name.len() + arguments.len(),
            Self::Output { call_id, content } => call_id.len() + content.len(),
        }
    }
}

/// The last part of what was said and done in a call, in order and within bounds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dialogue {
    items: VecDeque<Item>,
    bytes: usize,
}

impl Dialogue {
    /// What a run's state holds of it, for a process that attaches to a call, and for a call in a conversation that began
    /// earlier. What the outbox will bring is left out.
    pub fn of(state: &AgentState) -> Self {
        let mut dialogue = Self::default();
        let outbox = state.live().map(|live| live.commands()).unwrap_or_default();
        let comes = |call_id: &str| {
            outbox.iter().any(
                |command| matches!(&command.kind, CommandKind::Output { call_id: id, .. } if id == call_id),
            )
        };
        let mut notes: BTreeSet<&str> = BTreeSet::new();
        for command in outbox {
            if let CommandKind::Note { text } = &command.kind {
                notes.insert(text);
            }
        }
        let comes_as_note = |text: &str| {
            let note = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
            note.is_some_and(|note| notes.contains(note))
        };
        for entry in state.transcript().iter() {
            match entry {
                // A note of before stands in brackets, and so may what a caller says: none of them speaks with more weight than a
                // caller does.
                Entry::User(text) if comes_as_note(text) => {}
                Entry::User(text) => dialogue.push(Item::Caller(text.clone())),
                Entry::Assistant(reply) => {
                    for part in &reply.parts {
                        match part {
                            ReplyPart::Text(text) => dialogue.push(Item::Agent(text.clone())),
                            ReplyPart::Call(call) => dialogue.push(Item::Call {
                                call_id: call.call_id.clone(),
                                name: call.name.clone(),
                                arguments: call.arguments.clone(),
                            }),
                            _ => {}
                        }
                    }
                }
                Entry::ToolResult { call_id, content, .. } if !comes(call_id) => {
                    dialogue.push(Item::Output { call_id: call_id.clone(), content: content.clone() });
                }
                Entry::ToolResult { .. }
                | Entry::Instructions(_)
                | Entry::Attachment(_)
                | Entry::Compaction(_) => {}
            }
        }
        let calls = state.live().map(|live| live.calls()).unwrap_or_default();
        for call in calls.iter().filter(|call| !call.is_answered()) {
            dialogue.push(Item::Call {
                call_id: call.call_id.clone(),
                name: call.name.clone(),
                arguments: call.arguments().into(),
            });
        }
        dialogue
    }

    /// Adds what was said or done last; the oldest is forgotten where there is no room. An output whose call is forgotten goes with it,
    /// since providers refuse an output without its call.
    pub fn push(&mut self, item: Item) {
        if let Item::Output { call_id, .. } = &item {
            let is_its = |item: &Item| matches!(item, Item::Call { call_id: id, .. } if id == call_id);
            if !self.items.iter().any(is_its) {
                return;
            }
        }
        self.bytes += item.bytes();
        self.items.push_back(item);
        while self.items.len() > 1 && (self.items.len() > ITEMS_MAX || self.bytes > BYTES_MAX) {
            let Some(forgotten) = self.items.pop_front() else { break };
            self.bytes -= forgotten.bytes();
            if let Item::Call { call_id, .. } = &forgotten {
                let is_its = |item: &Item| matches!(item, Item::Output { call_id: id, .. } if id == call_id);
                if let Some(place) = self.items.iter().position(is_its)
                    && let Some(output) = self.items.remove(place)
                {
                    self.bytes -= output.bytes();
                }
            }
        }
    }

    /// The caller did not hear the end of what the agent said, before it said so many things more.
    pub(crate) fn cut(&mut self, later: usize) {
        let mut said = self.items.iter_mut().rev().filter(|item| matches!(item, Item::Agent(_)));
        if let Some(Item::Agent(text)) = said.nth(later) {
            text.push_str(CUT);
            self.bytes += CUT.len();
        }
    }

    /// Forgets a call that the provider has taken out of the conversation.
    pub(crate) fn withdraw(&mut self, withdrawn: &str) {
        let is_it = |item: &Item| matches!(item, Item::Call { call_id, .. } | Item::Output { call_id, .. } if call_id == withdrawn);
        self.items.retain(|item| !is_it(item));
        self.bytes = self.items.iter().map(Item::bytes).sum();
    }

    /// The last part of it in words, for the agent that does the work of the call: one line for each thing, within bounds.
    pub(crate) fn text(&self) -> String {
        let mut lines = VecDeque::new();
        let mut bytes = 0;
        for item in self.items.iter().rev() {
            let (who, text) = match item {
                Item::Caller(text) => ("caller", text),
                Item::Agent(text) => ("agent", text),
                Item::Note(text) => ("note", text),
                Item::Output { content, .. } => ("result", content),
                Item::Call { .. } => continue,
            };
            let plain = text.chars().map(|one| if one.is_control() { ' ' } else { one });
            let line = alloc::format!("{who}: {}", plain.collect::<String>());
            bytes += line.len() + 1;
            if bytes > WORDS_BYTES_MAX && !lines.is_empty() {
                break;
            }
            lines.push_front(line);
        }
        let mut text = lines.into_iter().collect::<Vec<_>>().join("\n");
        text.truncate(text.floor_char_boundary(WORDS_BYTES_MAX));
        text
    }

    /// Says whether nothing was said or done.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What was said and done, from the oldest on.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.iter()
    }
}
