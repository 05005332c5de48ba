//! What a model reads of a state.

use alloc::string::String;
use alloc::vec::Vec;

use crate::canonical::Digest;
use crate::config::{AgentConfig, Mind, ModelSettings};
use crate::operation::{ModelCompletion, Prompt, Purpose};
use crate::reply::ReplyPart;
use crate::schema::JsonSchema;
use crate::state::AgentState;
use crate::step::ExecutionError;
use crate::tokens;
use crate::transcript::{Entry, Transcript};

/// All that a model is sent for a completion.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Which model, and how it is asked.
    pub settings: ModelSettings,
    /// What it reads.
    pub transcript: Transcript,
    /// The form of a structured answer.
    pub schema: Option<JsonSchema>,
    /// Whether it is told of the agent's tools.
    pub tools: bool,
}

impl AgentState {
    /// What the model is sent for a pending completion of this state.
    ///
    /// # Errors
    /// When the completion was not requested under this configuration.
    pub fn reading(
        &self,
        config: &AgentConfig,
        completion: &ModelCompletion,
    ) -> Result<Reading, ExecutionError> {
        let mut settings = completion.settings(config)?.clone();
        let mind = match &config.mind {
            Mind::Model(mind) => Some(mind),
            Mind::Plan(_) => None,
        };
        let (transcript, schema, tools) = match &completion.purpose {
            Purpose::Step(prompt) => (step(prompt), prompt.schema.clone(), false),
            Purpose::Summary { until } => {
                let context = mind.and_then(|mind| mind.context);
                let most = context.map_or(u64::MAX, |context| context.max_tokens);
                (summary(&self.transcript, *until, most), None, false)
            }
            Purpose::Reply => {
                let output = mind.and_then(|mind| mind.output.as_ref());
                (self.transcript.view(), output.map(|output| output.schema.clone()), true)
            }
        };
        if let Some(most) = completion.max_output_tokens {
            settings.max_output_tokens = Some(settings.max_output_tokens.map_or(most, |own| own.min(most)));
        }
        Ok(Reading { settings, transcript, schema, tools })
    }
}

impl ModelCompletion {
    /// The model that is asked, and how.
    ///
    /// # Errors
    /// When the completion was not requested under this configuration.
    pub fn settings<'a>(&'a self, config: &'a AgentConfig) -> Result<&'a ModelSettings, ExecutionError> {
        let own = match (&self.purpose, &config.mind) {
            (Purpose::Step(prompt), _) => Some(&prompt.model),
            (Purpose::Reply | Purpose::Summary { .. }, Mind::Model(mind)) => mind.settings(self.fallback),
            (Purpose::Reply | Purpose::Summary { .. }, Mind::Plan(_)) => None,
        };
        own.ok_or(ExecutionError::WrongConfig { expected: "another model" })
    }
}

fn step(prompt: &Prompt) -> Transcript {
    let mut transcript = Transcript::begin(Digest::default(), 0);
    if let Some(instructions) = &prompt.instructions {
        transcript.push(Entry::Instructions(instructions.clone()));
    }
    transcript.push(Entry::User(String::clone(&prompt.text)));
    transcript
}

/// Asks for a summary of the entries before `until`, an earlier summary included: of the newest of them that can be sent
/// within this many tokens.
pub(crate) fn summary(transcript: &Transcript, until: u64, max_tokens: u64) -> Transcript {
    let opening = transcript.opening();
    let before = transcript.compaction();
    let mut lines = Vec::new();
    let from = before.map_or(opening, |compaction| compaction.dropped.max(opening));
    for (_, entry) in transcript.from(from).take_while(|(index, _)| *index < until) {
        match &**entry {
            Entry::Instructions(_) | Entry::Compaction(_) => {}
            Entry::User(said) => lines.push(line("user", said)),
            Entry::Attachment(attachment) => lines.push(line("file", &attachment.name)),
            Entry::Assistant(reply) => {
                for part in &reply.parts {
                    match part {
                        ReplyPart::Text(said) => lines.push(line("assistant", said)),
                        ReplyPart::Call(call) => {
                            let who = alloc::format!("assistant calls {}", call.name);
                            lines.push(line(&who, &call.arguments));
                        }
                        ReplyPart::Opaque { .. } => {}
                    }
                }
            }
            Entry::ToolResult { name, content, .. } => {
                lines.push(line(&alloc::format!("result of {name}"), content));
            }
        }
    }
    let mut prompt = Transcript::begin(Digest::default(), 0);
    prompt.push(Entry::Instructions(SUMMARISE.into()));
    let mut text = String::new();
    if let Some(summary) = before.and_then(|compaction| compaction.summary.as_deref()) {
        text.push_str("earlier summary: ");
        text.push_str(summary);
        text.push('\n');
    }
    let fixed = prompt.tokens().saturating_add(tokens::message((text.len() + LEFT_OUT.len()) as u64));
    let mut room = usize::try_from(max_tokens.saturating_sub(fixed).saturating_mul(3)).unwrap_or(usize::MAX);
    let mut first = lines.len();
    while let Some(line) = first.checked_sub(1).and_then(|before| lines.get(before))
        && let Some(rest) = room.checked_sub(line.len())
    {
        room = rest;
        first -= 1;
    }
    if first > 0 {
        text.push_str(LEFT_OUT);
    }
    text.extend(lines.drain(first..));
    prompt.push(Entry::User(text));
    prompt
}

/// What stands for the messages for which there is no room.
const LEFT_OUT: &str = "[older messages are left out]\n";

const SUMMARISE: &str = "You shorten the record of an agent's work. Reply with a summary of the messages below: what was \
    asked, what was done with which result, every name, number and identifier that may still matter, and what is open. \
    Write nothing else.";

/// Most bytes of one message in what is to be summarised; a longer one is cut.
const SUMMARISED_BYTES: usize = 2_000;

fn line(who: &str, said: &str) -> String {
    let end = said.floor_char_boundary(SUMMARISED_BYTES);
    let cut = if end < said.len() { " […]" } else { "" };
    alloc::format!("{who}: {}{cut}\n", &said[..end])
}
