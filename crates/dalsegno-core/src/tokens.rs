//! How many tokens something takes, before a provider has counted them.

use crate::reply::{ModelReply, ReplyPart};
use crate::transcript::{Attachment, Entry};

/// What this many bytes of text take in tokens: a third, rounded up.
///
/// English takes about four bytes a token and most other scripts two to three, so the estimate is a little high for
/// most text. It is one formula for all models, because a run's course must not depend on a tokenizer's version; what
/// the provider reports is what is counted in the end.
pub const fn estimate_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(3)
}

/// What a message takes besides its text: role and separators.
const MESSAGE: u64 = 4;

/// What a file takes that is no text. Providers count an image of common size with 1,000 to 1,600 tokens.
const FILE: u64 = 2_000;

/// What a message with so many bytes of text takes.
pub(crate) const fn message(bytes: u64) -> u64 {
    estimate_tokens(bytes) + MESSAGE
}

/// What an entry takes.
pub(crate) fn entry(entry: &Entry) -> u64 {
    let content = match entry {
        Entry::Instructions(text) | Entry::User(text) => text_tokens(text),
        Entry::Assistant(reply) => self::reply(reply),
        Entry::ToolResult { name, content, files, .. } => {
            let text = text_tokens(name) + text_tokens(content);
            files.iter().map(file).fold(text, u64::saturating_add)
        }
        Entry::Attachment(attachment) => file(attachment),
        Entry::Compaction(_) => return 0,
    };
    content.saturating_add(MESSAGE)
}

fn file(Attachment { media_type, bytes, .. }: &Attachment) -> u64 {
    if media_type.starts_with("text/") { estimate_tokens(*bytes) } else { FILE }
}

fn text_tokens(text: &str) -> u64 {
    estimate_tokens(text.len() as u64)
}

/// What the parts of a reply take.
pub(crate) fn reply(reply: &ModelReply) -> u64 {
    let parts = reply.parts.iter().map(|part| match part {
        ReplyPart::Text(text) => text_tokens(text),
        ReplyPart::Call(call) => text_tokens(&call.name) + text_tokens(&call.arguments) + MESSAGE,
        ReplyPart::Opaque { data, .. } => estimate_tokens(crate::event::size(data) as u64),
    });
    parts.sum()
}
