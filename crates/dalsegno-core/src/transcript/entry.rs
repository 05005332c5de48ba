//! An entry of a transcript.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::canonical::{Canonical, Digest};
use crate::reply::{CallRequest, ModelReply};

/// What an entry takes besides its text, in bytes, about.
const ENTRY_BYTES: u64 = 32;

/// One entry of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The system prompt.
    Instructions(String),
    /// A message of the user.
    User(String),
    /// A reply of the model.
    Assistant(ModelReply),
    /// A file that belongs to the user's message before it.
    Attachment(Attachment),
    /// From here on the model is sent less of what stands before; see [`Transcript::view`](crate::Transcript::view).
    Compaction(Compaction),
    /// The result of a call that the model asked for.
    ToolResult {
        /// The provider's id of the call.
        call_id: String,
        /// The tool's name as the model wrote it.
        name: String,
        /// What the model reads.
        content: String,
        /// The call failed or was refused.
        is_error: bool,
        /// The files that the tool returned with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<Attachment>,
    },
}

impl Entry {
    /// The note that stands for a result which is left out; none for what is never left out, or is as short itself.
    pub(crate) fn elided(&self) -> Option<Self> {
        match self {
            Self::ToolResult { call_id, name, content, is_error, files }
                if content.len() > ELIDED_BYTES || !files.is_empty() =>
            {
                let what = match files.len() {
                    0 => String::new(),
                    1 => " and 1 file".into(),
                    count => alloc::format!(" and {count} files"),
                };
                Some(Self::ToolResult {
                    call_id: call_id.clone(),
                    name: name.clone(),
                    content: alloc::format!("[{} bytes{what} of this result are left out]", content.len()),
                    is_error: *is_error,
                    files: Vec::new(),
                })
            }
            Self::Instructions(_)
            | Self::User(_)
            | Self::Assistant(_)
            | Self::Attachment(_)
            | Self::Compaction(_)
            | Self::ToolResult { .. } => None,
        }
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let text = match self {
            Self::Instructions(text) | Self::User(text) => text.len(),
            Self::Assistant(reply) => reply.bytes(),
            Self::Attachment(file) => file.name.len() + file.media_type.len(),
            Self::Compaction(cut) => cut.summary.as_ref().map_or(0, String::len),
            Self::ToolResult { call_id, name, content, files, .. } => {
                let files = files.iter().map(Attachment::size).sum::<usize>();
                call_id.len() + name.len() + content.len() + files
            }
        };
        (text as u64).saturating_add(ENTRY_BYTES)
    }

    /// The files that it names: one of the user, or those of a result.
    pub fn files(&self) -> &[Attachment] {
        match self {
            Self::Attachment(file) => core::slice::from_ref(file),
            Self::ToolResult { files, .. } => files,
            Self::Instructions(_) | Self::User(_) | Self::Assistant(_) | Self::Compaction(_) => &[],
        }
    }

    /// The tools that the model wants called, where this is a reply.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &CallRequest> {
        let reply = match self {
            Self::Assistant(reply) => Some(reply),
            Self::Instructions(_)
            | Self::User(_)
            | Self::Attachment(_)
            | Self::Compaction(_)
            | Self::ToolResult { .. } => None,
        };
        reply.into_iter().flat_map(ModelReply::calls)
    }

    pub(super) fn feed(&self, canonical: &mut Canonical) {
        match self {
            Self::Instructions(text) => {
                canonical.tag(0).text(text);
            }
            Self::User(text) => {
                canonical.tag(1).text(text);
            }
            Self::Assistant(reply) => reply.feed(canonical.tag(2)),
            Self::ToolResult { call_id, name, content, is_error, files } => {
                canonical.tag(3).text(call_id).text(name).text(content).tag(u8::from(*is_error));
                files.iter().for_each(|file| file.feed(canonical));
            }
            Self::Attachment(attachment) => attachment.feed(canonical.tag(4)),
            Self::Compaction(compaction) => {
                canonical.tag(5).number(compaction.dropped).number(compaction.elided);
                canonical.tag(u8::from(compaction.summary.is_some()));
                canonical.text(compaction.summary.as_deref().unwrap_or_default());
                if let Some(from) = compaction.files_from {
                    canonical.number(from);
                }
            }
        }
    }
}

/// A file of the user or one that a tool returned, kept by its content outside the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its name, for the model and for people.
    pub name: String,
    /// Its media type, such as `image/png`.
    pub media_type: String,
    /// The digest of its bytes, under which the store keeps them.
    pub digest: Digest,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Attachment {
    /// About how many bytes its description takes.
    pub(crate) fn size(&self) -> usize {
        self.name.len() + self.media_type.len() + ENTRY_BYTES as usize
    }

    pub(crate) fn feed(&self, canonical: &mut Canonical) {
        canonical.text(&self.name).text(&self.media_type);
        canonical.bytes(self.digest.as_bytes()).number(self.bytes);
    }
}

/// A cut in what the model is sent; the transcript itself keeps all entries.
///
/// The entries before the first reply stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Entries before this index are left out.
    pub dropped: u64,
    /// Tool results before this index are replaced by a note of their size.
    pub elided: u64,
    /// What stands for the entries that are left out, where the model was asked for it.
    pub summary: Option<String>,
    /// The files from this index on are sent all the same, right after what stands for the entries that are left out:
    /// they belong to what the run was asked. None are where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_from: Option<u64>,
}

/// A result that is no longer than the note that would replace it stays.
const ELIDED_BYTES: usize = 64;
