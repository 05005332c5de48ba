//! What a model was sent.

use dalsegno_core::{Entry, OperationId, ReplyPart};
use dalsegno_history::Scene;

use super::operation::{Block, words};
use crate::markup::Markup;
use crate::text;

/// Most messages of a prompt on a page: the newest.
const MESSAGES: usize = 200;
/// Most characters of one message.
const MESSAGE: usize = 20_000;

/// What a model was sent for one completion.
#[derive(Debug, Clone)]
pub struct PromptCard {
    /// The model and how it was asked.
    pub facts: Vec<String>,
    /// How many messages there are beside those that are shown.
    pub left_out: Option<String>,
    /// The messages that the completion before was sent as well.
    pub known: Vec<Message>,
    /// Those that are new.
    pub new: Vec<Message>,
    /// The names of the tools that it may call.
    pub tools: Vec<String>,
    /// The form of a structured answer.
    pub schema: Option<Markup>,
}

/// A message.
#[derive(Debug, Clone)]
pub struct Message {
    /// Who says it.
    pub role: &'static str,
    /// The tool whose result it is.
    pub tool: Option<String>,
    /// Whether that is an error.
    pub is_error: bool,
    /// What it says.
    pub blocks: Vec<Block>,
}

impl PromptCard {
    /// The prompt of a completion; none for another operation.
    pub(super) fn of(scene: &Scene, id: OperationId) -> Option<Self> {
        let prompt = scene.prompt(id)?;
        let settings = &prompt.reading.settings;
        let mut facts = vec![settings.name.clone()];
        facts.extend(settings.temperature.map(|temperature| format!("temperature {temperature}")));
        facts.extend(
            settings.max_output_tokens.map(|most| format!("at most {}", text::count(most.into(), "token"))),
        );
        let all = prompt.reading.transcript.iter().filter(|entry| !matches!(entry, Entry::Compaction(_)));
        let count =
            prompt.reading.transcript.iter().filter(|entry| !matches!(entry, Entry::Compaction(_))).count();
        let new = scene.new_messages(id).min(count);
        let skipped = count.saturating_sub(MESSAGES);
        let mut messages: Vec<Message> = all.skip(skipped).map(Message::of).collect();
        let new = messages.split_off(messages.len().saturating_sub(new));
        let toolbox = &prompt.config.tools;
        let tools =
            toolbox.tools.keys().filter(|_| prompt.reading.tools).map(|name| toolbox.model_name(name));
        Some(Self {
            facts,
            left_out: (skipped > 0)
                .then(|| format!("{} before these", text::count(skipped as u64, "message"))),
            known: messages,
            new,
            tools: tools.collect(),
            schema: prompt.reading.schema.as_ref().map(|schema| Markup::json(schema)),
        })
    }

    /// The heading above the messages that are not new.
    pub fn known_title(&self) -> String {
        format!("{} sent before as well", text::count(self.known.len() as u64, "message"))
    }
}

impl Message {
    fn of(entry: &Entry) -> Self {
        let shown = |words: &str| text::shown(words, MESSAGE);
        let said = |role, text: &str| Self {
            role,
            tool: None,
            is_error: false,
            blocks: vec![Block::Text(shown(text))],
        };
        match entry {
            Entry::Instructions(words) => said("system", words),
            Entry::User(words) => said("user", words),
            Entry::Attachment(file) => said(
                "file",
                &format!("{} ({}, {})", file.name, file.media_type, text::count(file.bytes, "byte")),
            ),
            Entry::Assistant(reply) => Self {
                role: "assistant",
                tool: None,
                is_error: false,
                blocks: reply.parts.iter().map(part).collect(),
            },
            Entry::ToolResult { name, content, is_error, files, .. } => {
                let mut blocks = vec![words(content)];
                blocks.extend(files.iter().map(|file| {
                    let words =
                        format!("{} ({}, {})", file.name, file.media_type, text::count(file.bytes, "byte"));
                    Block::Text(text::line(&words, 200))
                }));
                Self { role: "tool", tool: Some(text::line(name, 120)), is_error: *is_error, blocks }
            }
            Entry::Compaction(compaction) => {
                said("compaction", compaction.summary.as_deref().unwrap_or_default())
            }
        }
    }
}

/// A part of a reply.
pub(super) fn part(part: &ReplyPart) -> Block {
    match part {
        ReplyPart::Text(words) => Block::Text(text::shown(words, MESSAGE)),
        ReplyPart::Call(call) => match serde_json::from_str(&call.arguments) {
            Ok(arguments) => Block::Call(text::line(&call.name, 120), Markup::json(&arguments)),
            Err(_) => {
                Block::Call(text::line(&call.name, 120), Markup::json(&call.arguments.to_string().into()))
            }
        },
        ReplyPart::Opaque { provider, .. } => {
            Block::Note(format!("content that only {provider} reads, such as its reasoning"))
        }
    }
}
