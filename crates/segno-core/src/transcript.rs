//! What a model reads: an append-only sequence of shared entries.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::canonical::{Canonical, Digest};
use crate::reply::ModelReply;

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
    },
}

impl Entry {
    fn feed(&self, canonical: &mut Canonical) {
        match self {
            Self::Instructions(text) => {
                canonical.tag(0).text(text);
            }
            Self::User(text) => {
                canonical.tag(1).text(text);
            }
            Self::Assistant(reply) => reply.feed(canonical.tag(2)),
            Self::ToolResult { call_id, name, content, is_error } => {
                canonical.tag(3).text(call_id).text(name).text(content).tag(u8::from(*is_error));
            }
        }
    }
}

/// An append-only sequence of shared entries with a chained digest.
///
/// Entries are kept in sealed chunks and a short tail, so that a copy for a model call costs a few pointers however
/// long the conversation is, and its digest is known without reading it again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    sealed: Vec<Arc<[Arc<Entry>]>>,
    tail: Vec<Arc<Entry>>,
    replies: u64,
    chain: Digest,
}

/// Entries in a sealed chunk.
const CHUNK: usize = 64;

impl Transcript {
    /// Begins a transcript whose digest covers what stands before its entries: settings and tools.
    pub(crate) fn begin(head: Digest) -> Self {
        Self { chain: head, ..Self::default() }
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        let mut canonical = Canonical::new("entry");
        canonical.bytes(self.chain.as_bytes());
        entry.feed(&mut canonical);
        self.chain = canonical.finish();
        self.append(entry);
    }

    fn append(&mut self, entry: Entry) {
        if matches!(entry, Entry::Assistant(_)) {
            self.replies += 1;
        }
        self.tail.push(Arc::new(entry));
        if self.tail.len() == CHUNK {
            self.sealed.push(self.tail.drain(..).collect());
        }
    }

    /// The number of entries.
    pub fn len(&self) -> u64 {
        (self.sealed.len() * CHUNK + self.tail.len()) as u64
    }

    /// Says whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.sealed.is_empty() && self.tail.is_empty()
    }

    /// The number of model replies among the entries.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// The digest of settings, tools and all entries.
    pub fn chain(&self) -> Digest {
        self.chain
    }

    /// The entries from the first to the last.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.sealed.iter().flat_map(|chunk| chunk.iter()).chain(&self.tail).map(|entry| &**entry)
    }

    /// The last thing that the model said, if it said anything.
    pub fn last_text(&self) -> Option<String> {
        self.iter().rev().find_map(|entry| match entry {
            Entry::Assistant(reply) => Some(reply.text()).filter(|text| !text.is_empty()),
            Entry::Instructions(_) | Entry::User(_) | Entry::ToolResult { .. } => None,
        })
    }
}

impl Serialize for Transcript {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries: Vec<&Entry> = self.iter().collect();
        (self.chain, entries).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Transcript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (chain, entries) = <(Digest, Vec<Entry>)>::deserialize(deserializer)?;
        let mut transcript = Self::begin(chain);
        for entry in entries {
            transcript.append(entry);
        }
        Ok(transcript)
    }
}
