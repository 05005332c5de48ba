//! Scripted replies: a real, deterministic provider for tests, demonstrations and work without a network.
//!
//! A script is a TOML file with one `[[replies]]` for each reply of the model:
//!
//! ```toml
//! [[replies]]
//! text = "Let me look."
//! calls = [{ name = "risk.score", arguments = { text = "{{request.text}}" } }]
//!
//! [[replies]]
//! text = "The risk is {{last.value}}."
//! ```
//!
//! The number of model replies that a transcript already holds decides which reply comes next; with `repeat = true` at
//! the top of the file the first one follows the last. So a script has no
//! state of its own, and a resumed or forked run goes on at the right place. The keys of a reply, all optional:
//!
//! - `text`: a template; it is streamed word by word.
//! - `calls`: each a `name` and either `arguments`, whose strings are templates, or `arguments_text`, which is sent as
//!   it stands and may be broken.
//! - `opaque`: parts for the provider alone, each `provider` and `data`; they come first.
//! - `stop`: `end`, `tool_calls`, `length` or `refusal`; by default `tool_calls` with calls, else `end`. With `length`
//!   the last call is truncated.
//! - `usage`: `input` and `output` tokens, those among them that are `cached_input`, `cache_write`, `cache_write_1h` or
//!   `reasoning`, and `web_searches` of the provider; none by default.
//! - `delay`: how long the reply takes, such as `50ms`.
//! - `error`: a failure instead of the reply: its `kind`, `message`, for how many `attempts` (all by default), and
//!   `retry_after`.
//! - `when`: a text that must be in what the model has read since its last reply; otherwise the run has left the
//!   script, which is an error.
//!
//! Templates read `request.text` (the last user message), `last` (the last tool result) and `results` (by the tool's
//! name, the last result of each). A result is read as JSON where it is JSON, else as text.

mod file;
mod scope;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use dalsegno_core::{CallRequest, Entry, ModelReply, ReplyPart, StopReason, Transcript};
use dalsegno_expr::EvalError;
use serde_json::Value;

use self::file::{Arguments, Reply};
use self::scope::ScriptScope;
use crate::model::{CompletionRequest, DeltaSink, Model, ModelError, ModelErrorKind, Retry};
use crate::output::judge_reply;
use crate::validation::judge_call;

/// Most bytes of a script.
const MAX_SCRIPT_BYTES: u64 = 4 << 20;

/// Most characters of a text that an error quotes.
const MAX_QUOTED_CHARS: usize = 400;

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The file is larger than any script should be.
    #[error("the script `{}` is larger than {MAX_SCRIPT_BYTES} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is not TOML, or has a key or a value that a script does not have.
    #[error("the script `{script}` is not valid: {message}")]
    Syntax {
        /// The file's name.
        script: String,
        /// What is wrong and where.
        message: String,
    },
    /// It has no replies.
    #[error("the script `{script}` has no replies: expected at least one `[[replies]]`")]
    Empty {
        /// The file's name.
        script: String,
    },
    /// One of its replies cannot be used.
    #[error("the script `{script}`, reply {reply} (counted from 0): {message}")]
    Reply {
        /// The file's name.
        script: String,
        /// The number of the reply, counted from 0.
        reply: usize,
        /// What is wrong and what is expected.
        message: String,
    },
}

/// What a script has for a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Scripted {
    /// The reply.
    Replies(ModelReply),
    /// A failure in its place.
    Fails(ModelError),
}

/// A model that replies from a script.
#[derive(Debug, Clone)]
pub struct ScriptModel {
    script: String,
    replies: Vec<Reply>,
    /// After the last reply comes the first one again.
    repeat: bool,
}

impl ScriptModel {
    /// Reads a script from a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a valid script.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ScriptError> {
        let path = path.as_ref();
        let read = |source| ScriptError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        File::open(path).map_err(read)?.take(MAX_SCRIPT_BYTES + 1).read_to_string(&mut text).map_err(read)?;
        if text.len() as u64 > MAX_SCRIPT_BYTES {
            return Err(ScriptError::TooLarge { path: path.to_owned() });
        }
        Self::named(&path.display().to_string(), &text)
    }

    /// Reads a script from text.
    ///
    /// # Errors
    /// Fails if the text is not a valid script.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        Self::named("script", text)
    }

    /// The names in templates that no transcript gives a value: what reads them becomes empty. Each with the number of its
    /// reply, from 0.
    pub fn unknown_names(&self) -> Vec<(usize, String)> {
        let mut unknown = Vec::new();
        for (number, reply) in self.replies.iter().enumerate() {
            let text = reply.text.iter().flat_map(|text| text.paths());
            let arguments = reply.calls.iter().filter_map(|call| match &call.arguments {
                Arguments::Template(template) => Some(template.paths()),
                Arguments::Text(_) => None,
            });
            for reference in text.chain(arguments.flatten()) {
                let found = (number, reference.root);
                if !scope::NAMES.contains(&found.1.as_str()) && !unknown.contains(&found) {
                    unknown.push(found);
                }
            }
        }
        unknown
    }

    fn named(script: &str, text: &str) -> Result<Self, ScriptError> {
        let (replies, repeat) = file::parse(script, text)?;
        Ok(Self { script: script.to_owned(), replies, repeat })
    }

    /// A script of replies that are JSON, each as a script's file has it. There may be none.
    ///
    /// # Errors
    /// Fails if one of them is no reply; the error has its number.
    pub fn of_replies(script: &str, replies: &[Value]) -> Result<Self, ScriptError> {
        let replies = replies.iter().enumerate().map(|(number, reply)| {
            file::reply(reply).map_err(|message| ScriptError::Reply {
                script: script.to_owned(),
                reply: number,
                message,
            })
        });
        Ok(Self { script: script.to_owned(), replies: replies.collect::<Result<_, _>>()?, repeat: false })
    }

    /// Says what the model replies as its reply of this number, counted from 0, without waiting for anything: the reply, or
    /// the failure that the script has in its place.
    ///
    /// # Errors
    /// When the script has no such reply, or the run has left it.
    pub fn say(&self, number: u64, request: &CompletionRequest) -> Result<Scripted, ModelError> {
        let reply = self.reply(number, &request.transcript)?;
        if let Some(scripted) = &reply.error
            && request.attempt <= scripted.attempts
        {
            let error = self.error(scripted.kind, number, &scripted.message);
            return Ok(Scripted::Fails(match scripted.retry_after {
                Some(wait) => error.with_retry(Retry::After(wait)),
                None => error,
            }));
        }
        Ok(Scripted::Replies(self.render(number, reply, request)?))
    }

    /// The number of replies in the script.
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Says whether the script has no replies, which no valid file is.
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// An error that names the script and the reply.
    fn error(&self, kind: ModelErrorKind, reply: u64, message: &str) -> ModelError {
        let message = format!("the script `{}`, reply {reply} (counted from 0): {message}", self.script);
        ModelError::new(kind, message)
    }

    /// An error of the script itself, which another attempt would not change.
    fn misfit(&self, reply: u64, message: &str) -> ModelError {
        self.error(ModelErrorKind::Protocol, reply, message).with_retry(Retry::Never)
    }

    fn reply(&self, number: u64, transcript: &Transcript) -> Result<&Reply, ModelError> {
        let index = if self.repeat { number % self.replies.len().max(1) as u64 } else { number };
        let found = usize::try_from(index).ok().and_then(|index| self.replies.get(index));
        let Some(reply) = found else {
            let message = format!(
                "the script ends before it: it has {}; the model last read {}",
                match self.replies.len() {
                    1 => "1 reply".to_owned(),
                    many => format!("{many} replies"),
                },
                quoted(&unread(transcript)),
            );
            return Err(self.misfit(number, &message));
        };
        if let Some(expected) = &reply.when {
            let read = unread(transcript);
            if !read.contains(expected.as_str()) {
                let message = format!(
                    "expected the model to have read {}, but it read {}",
                    quoted(expected),
                    quoted(&read)
                );
                return Err(self.misfit(number, &message));
            }
        }
        Ok(reply)
    }

    fn render(
        &self,
        number: u64,
        reply: &Reply,
        request: &CompletionRequest,
    ) -> Result<ModelReply, ModelError> {
        let scope = ScriptScope { transcript: &request.transcript };
        let failed = |what: &str, error: &EvalError| self.misfit(number, &format!("{what}: {error}"));
        let mut parts: Vec<ReplyPart> = reply.opaque.clone();
        if let Some(text) = &reply.text {
            let text = text.render_text(&scope).map_err(|error| failed("`text`", &error))?;
            parts.push(ReplyPart::Text(text));
        }
        for (index, call) in reply.calls.iter().enumerate() {
            let arguments = match &call.arguments {
                Arguments::Text(text) => text.clone(),
                Arguments::Template(template) => {
                    let value = template.render(&scope);
                    value
                        .map_err(|error| failed(&format!("the arguments of `{}`", call.name), &error))?
                        .to_string()
                }
            };
            let truncated = reply.stop == StopReason::Length && index + 1 == reply.calls.len();
            let validation = judge_call(&request.tools, &call.name, &arguments, truncated);
            let call_id = format!("call_{number}_{index}");
            parts.push(ReplyPart::Call(CallRequest {
                call_id,
                name: call.name.clone(),
                arguments,
                validation: Some(validation),
            }));
        }
        let mut rendered = ModelReply::new(parts, reply.stop);
        rendered.input_tokens = reply.usage.input;
        rendered.output_tokens = reply.usage.output;
        rendered.details = reply.usage.details;
        rendered.output = judge_reply(request, &rendered);
        Ok(rendered)
    }
}

#[async_trait]
impl Model for ScriptModel {
    async fn complete(
        &self,
        request: &CompletionRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let number = request.transcript.replies();
        let reply = self.reply(number, &request.transcript)?;
        tracing::debug!(script = %self.script, reply = number, attempt = request.attempt, "scripted reply");
        if let Some(delay) = reply.delay {
            tokio::time::sleep(delay).await;
        }
        let rendered = match self.say(number, request)? {
            Scripted::Replies(rendered) => rendered,
            Scripted::Fails(error) => return Err(error),
        };
        for part in &rendered.parts {
            if let ReplyPart::Text(text) = part {
                text.split_inclusive(char::is_whitespace).for_each(|word| sink.text(word));
            }
        }
        Ok(rendered)
    }
}

/// What the model has not replied to yet: user messages and tool results since its last reply.
fn unread(transcript: &Transcript) -> String {
    let mut texts = Vec::new();
    for entry in transcript.iter().rev() {
        match entry {
            Entry::User(text) => texts.push(text.as_str()),
            Entry::ToolResult { content, .. } => texts.push(content.as_str()),
            Entry::Instructions(_) | Entry::Attachment(_) | Entry::Compaction(_) => {}
            Entry::Assistant(_) => break,
        }
    }
    texts.reverse();
    texts.join("\n")
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}
