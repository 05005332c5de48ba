//! What a model was sent for one completion, as people and programs read it.

use std::collections::BTreeSet;

use dalsegno_core::{Attachment, Digest, Entry, JsonSchema, OperationId, OrderedJson, ReplyPart, RunId};
use dalsegno_history::Prompt;
use serde::Serialize;

use super::output::Stream;
use super::request::value_lines;
use super::steps::reply_lines;
use super::text::{Style, Words, count, short, styled};

/// A prompt as a document. The keys are a promise.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'p> {
    run_id: RunId,
    step: u64,
    operation: OperationId,
    model: &'p str,
    temperature: Option<f64>,
    max_output_tokens: Option<u32>,
    messages: Vec<Message<'p>>,
    /// The form of a structured answer.
    output_schema: Option<OrderedJson>,
    tools: Vec<Tool<'p>>,
}

/// A message of a prompt.
#[derive(Debug, Serialize)]
struct Message<'p> {
    role: &'static str,
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Call<'p>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'p str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    /// The files that a tool returned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<File<'p>>,
}

/// A file that a tool returned.
#[derive(Debug, Serialize)]
struct File<'p> {
    name: &'p str,
    media_type: &'p str,
    bytes: u64,
    /// Whether the request had room for it.
    sent: bool,
}

/// A call that the model asked for earlier.
#[derive(Debug, Serialize)]
struct Call<'p> {
    call_id: &'p str,
    name: &'p str,
    arguments: &'p str,
}

/// A tool that the model may call.
#[derive(Debug, Serialize)]
struct Tool<'p> {
    name: String,
    description: &'p str,
    input_schema: OrderedJson,
}

impl<'p> Document<'p> {
    /// The prompt of this run.
    pub(crate) fn of(run: RunId, prompt: &'p Prompt) -> Self {
        let settings = &prompt.reading.settings;
        Self {
            run_id: run,
            step: prompt.step,
            operation: prompt.operation,
            model: &settings.name,
            temperature: settings.temperature,
            max_output_tokens: settings.max_output_tokens,
            messages: messages(prompt).map(|(_, message)| message).collect(),
            output_schema: prompt.reading.schema.as_ref().map(JsonSchema::ordered),
            tools: tools(prompt),
        }
    }
}

/// The messages of a prompt, each with its entry.
fn messages(prompt: &Prompt) -> impl Iterator<Item = (&Entry, Message<'_>)> {
    let transcript = &prompt.reading.transcript;
    let sent = transcript.sent_files();
    transcript.iter().filter_map(move |entry| Some((entry, Message::of(entry, &sent)?)))
}

impl<'p> Message<'p> {
    /// The message of an entry, if it is one. These files of results are sent.
    fn of(entry: &'p Entry, sent: &BTreeSet<Digest>) -> Option<Self> {
        let plain = |role, text| Self {
            role,
            text,
            calls: Vec::new(),
            call_id: None,
            tool: None,
            is_error: false,
            files: Vec::new(),
        };
        Some(match entry {
            Entry::Instructions(text) => plain("system", text.clone()),
            Entry::User(text) => plain("user", text.clone()),
            Entry::Attachment(file) => {
                plain("attachment", format!("{} ({}, {} bytes)", file.name, file.media_type, file.bytes))
            }
            Entry::Assistant(reply) => {
                let calls = reply.parts.iter().filter_map(|part| match part {
                    ReplyPart::Call(call) => {
                        let (call_id, name, arguments) = (&*call.call_id, &*call.name, &*call.arguments);
                        Some(Call { call_id, name, arguments })
                    }
                    ReplyPart::Text(_) | ReplyPart::Opaque { .. } => None,
                });
                Self { calls: calls.collect(), ..plain("assistant", reply.text()) }
            }
            Entry::ToolResult { call_id, name, content, is_error, files } => Self {
                call_id: Some(call_id),
                tool: Some(name),
                is_error: *is_error,
                files: files.iter().map(|file| File::of(file, sent)).collect(),
                ..plain("tool", content.clone())
            },
            // It says what is left out, and is not sent itself.
            Entry::Compaction(_) => return None,
        })
    }
}

impl<'p> File<'p> {
    fn of(file: &'p Attachment, sent: &BTreeSet<Digest>) -> Self {
        let Attachment { name, media_type, digest, bytes } = file;
        Self { name, media_type, bytes: *bytes, sent: sent.contains(digest) }
    }

    fn line(&self) -> String {
        let left_out = if self.sent { "" } else { ", left out: newer files take the room" };
        format!("with {} ({}, {} bytes{left_out})", self.name, self.media_type, self.bytes)
    }
}

fn tools(prompt: &Prompt) -> Vec<Tool<'_>> {
    let toolbox = &prompt.config.tools;
    let all = toolbox.tools.iter().filter(|_| prompt.reading.tools);
    all.map(|(name, tool)| Tool {
        name: toolbox.model_name(name),
        description: &tool.description,
        input_schema: tool.input_schema.ordered(),
    })
    .collect()
}

/// Which messages of a prompt are shown, and which are marked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marked {
    /// The last ones that are marked as new.
    pub(crate) new: usize,
    /// Most messages that are shown: the last ones.
    pub(crate) most: usize,
}

impl Marked {
    /// All messages, and no marks.
    pub(crate) const NONE: Self = Self { new: 0, most: usize::MAX };
}

/// Shows a prompt: every message in full, then the tools by name.
pub(crate) fn show(prompt: &Prompt, marked: Marked, stream: &mut Stream) {
    let settings = &prompt.reading.settings;
    let mut facts = vec![format!("model `{}`", settings.name)];
    facts.extend(settings.temperature.map(|temperature| format!("temperature {temperature}")));
    facts.extend(settings.max_output_tokens.map(|most| format!("at most {most} tokens")));
    let title = styled(Style::Bold, format_args!("step {}", prompt.step));
    let id = styled(Style::Dim, short(prompt.operation));
    stream.line(title.and(format_args!(" · {} · ", facts.join(" · "))).and(id));
    let all = prompt.reading.transcript.iter().filter(|entry| !matches!(entry, Entry::Compaction(_))).count();
    let skipped = all.saturating_sub(marked.most);
    if skipped > 0 {
        stream.line(styled(Style::Dim, format_args!("\n{} before these", count(skipped as u64, "message"))));
    }
    for (index, (entry, message)) in messages(prompt).enumerate().skip(skipped) {
        let mark = if index + marked.new >= all { "+ " } else { "" };
        let of = match (message.tool, message.is_error) {
            (Some(tool), true) => format!(" {tool} (error)"),
            (Some(tool), false) => format!(" {tool}"),
            (None, _) => String::new(),
        };
        stream.line(Words::from("\n").and(styled(Style::Bold, format_args!("{mark}{}{of}", message.role))));
        let mut lines = Vec::new();
        match entry {
            Entry::Assistant(reply) => reply_lines(&reply.parts, &mut lines),
            _ => lines.extend(message.text.lines().map(str::to_owned)),
        }
        lines.extend(message.files.iter().map(File::line));
        for line in lines {
            stream.line(format!("  {line}").trim_end());
        }
    }
    if let Some(schema) = &prompt.reading.schema {
        stream.line(Words::from("\n").and(styled(Style::Bold, "form of the answer")));
        let mut lines = Vec::new();
        value_lines(schema, &mut lines);
        lines.iter().for_each(|line| stream.line(format_args!("  {line}")));
    }
    let tools = tools(prompt);
    if !tools.is_empty() {
        stream.line(Words::from("\n").and(styled(Style::Bold, "tools")));
        for tool in tools {
            stream.line(format_args!("  {}", tool.name));
        }
    }
}
