//! What a server answers to a call.

use std::collections::BTreeMap;

use rmcp::model::{CallToolResult, ContentBlock, InputRequiredResult};
use serde_json::Value;

use crate::content;
use crate::denial::Denial;
use crate::files::ResultFiles;

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// With a result.
    Done(ToolOutput),
    /// With questions. The same call goes on when it is made again with the answers and the state that came with them.
    InputRequired(InputRequired),
}

/// What a tool answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// The structured result, if there is one. Not checked against the output schema.
    pub structured: Option<Value>,
    /// All blocks, joined by line breaks: text as it is, everything else in a few words that say what it is.
    pub text: String,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// Blocks that are not text (images, audio, resources), as the protocol writes them.
    pub content: Vec<Value>,
    /// The files in these blocks that a model may read; none in a failure.
    pub files: ResultFiles,
    /// What a server in the sandbox was refused meanwhile, the latest 32. Other calls of the same instance may have caused
    /// some of it.
    pub denials: Vec<Denial>,
}

/// What a server wants to know before it goes on.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct InputRequired {
    /// The questions by the server's own names for them, as the protocol writes them.
    pub requests: BTreeMap<String, Value>,
    /// What the server wants back, unread and unchanged.
    pub request_state: Option<String>,
}

/// What a server is told that asked before; empty at a first call.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Input {
    /// Answers by the server's own names for its questions.
    pub answers: BTreeMap<String, Value>,
    /// What it wanted back with them.
    pub request_state: Option<String>,
}

impl Input {
    /// The answers, where there are any.
    pub(crate) fn responses(&self) -> Option<BTreeMap<String, Value>> {
        (!self.answers.is_empty()).then(|| self.answers.clone())
    }
}

/// Sorts the blocks of a result.
pub(crate) fn output(result: CallToolResult) -> ToolOutput {
    let is_error = result.is_error.unwrap_or(false);
    let mut texts = Vec::with_capacity(result.content.len());
    let (mut content, mut files) = (Vec::new(), ResultFiles::default());
    for block in result.content {
        match block {
            ContentBlock::Text(text) => texts.push(text.text),
            other => {
                texts.push(content::words(&other));
                if !is_error {
                    files.add_block(&other);
                }
                // A block that was just read can be written again.
                content.extend(serde_json::to_value(other));
            }
        }
    }
    ToolOutput {
        structured: result.structured_content,
        text: texts.join("\n"),
        is_error,
        content,
        files,
        denials: Vec::new(),
    }
}

pub(crate) fn input_required(result: InputRequiredResult) -> InputRequired {
    let requests = result.input_requests.unwrap_or_default().into_iter();
    let requests = requests.filter_map(|(key, request)| Some((key, serde_json::to_value(request).ok()?)));
    InputRequired { requests: requests.collect(), request_state: result.request_state }
}
