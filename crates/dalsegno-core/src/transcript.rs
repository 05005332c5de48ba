//! What a model reads: an append-only sequence of shared entries.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::canonical::{Canonical, Digest};
use crate::reply::{CallRequest, ModelReply};
use crate::tokens;

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
    /// From here on the model is sent less of what stands before; see [`Transcript::view`].
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

    fn feed(&self, canonical: &mut Canonical) {
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

/// An append-only sequence of shared entries with a chained digest.
///
/// Entries are kept in sealed chunks and a short tail, so that a copy for a model call costs a few pointers however
/// long the conversation is, and its digest is known without reading it again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    sealed: Vec<Arc<[Arc<Entry>]>>,
    tail: Vec<Arc<Entry>>,
    replies: u64,
    /// The number of entries with files.
    attachments: u64,
    /// The digest of what stands before the first entry.
    head: Digest,
    head_tokens: u64,
    chain: Digest,
    /// The last cut, if there is one.
    compaction: Option<Compaction>,
    /// The estimated tokens of what the model is sent.
    tokens: u64,
    /// The entries that are left out for good.
    gap: Gap,
}

/// Entries of a transcript that no model can be sent any more and that are not kept. All others keep their indices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gap {
    /// The index of the first one: that of the first reply.
    pub(crate) at: u64,
    /// How many there are.
    pub(crate) count: u64,
}

impl Gap {
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The place among the kept entries of the entry with this index, or of the first one after it that is kept.
    fn place(self, index: u64) -> u64 {
        if index <= self.at { index } else { index.saturating_sub(self.count).max(self.at) }
    }

    /// The index of the entry at this place.
    pub(crate) const fn index(self, place: u64) -> u64 {
        if place < self.at { place } else { place.saturating_add(self.count) }
    }
}

/// Entries in a sealed chunk.
const CHUNK: usize = 64;

impl Transcript {
    /// Begins a transcript whose digest covers what stands before its entries, settings and tools, which take this many
    /// tokens.
    pub(crate) fn begin(head: Digest, head_tokens: u64) -> Self {
        Self { head, head_tokens, chain: head, tokens: head_tokens, ..Self::default() }
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        if matches!(entry, Entry::ToolResult { .. }) {
            self.settle_last();
        }
        let mut canonical = Canonical::new("entry");
        canonical.bytes(self.chain.as_bytes());
        entry.feed(&mut canonical);
        self.chain = canonical.finish();
        self.append(Arc::new(entry));
        if self.compaction_is_last() {
            self.tokens = self.view().count();
        }
    }

    /// Forgets what the shell found of the last entry's calls, where it is a reply: their results follow.
    fn settle_last(&mut self) {
        let last = match self.tail.last_mut() {
            Some(last) => Some(last),
            None => self.sealed.last_mut().and_then(|chunk| Arc::make_mut(chunk).last_mut()),
        };
        if let Some(last) = last.filter(|last| last.calls().any(|call| call.validation.is_some()))
            && let Entry::Assistant(reply) = Arc::make_mut(last)
        {
            reply.settle();
        }
    }

    fn append(&mut self, entry: Arc<Entry>) {
        match &*entry {
            Entry::Assistant(_) => self.replies += 1,
            Entry::Compaction(compaction) => self.compaction = Some(compaction.clone()),
            Entry::Attachment(_) | Entry::Instructions(_) | Entry::User(_) | Entry::ToolResult { .. } => {}
        }
        self.attachments += u64::from(!entry.files().is_empty());
        self.tokens = self.tokens.saturating_add(tokens::entry(&entry));
        self.tail.push(entry);
        if self.tail.len() == CHUNK {
            self.sealed.push(self.tail.drain(..).collect());
        }
    }

    fn compaction_is_last(&self) -> bool {
        matches!(self.iter().next_back(), Some(Entry::Compaction(_)))
    }

    fn count(&self) -> u64 {
        self.iter().map(tokens::entry).fold(self.head_tokens, u64::saturating_add)
    }

    /// The number of entries, with those that are left out for good.
    pub fn len(&self) -> u64 {
        self.kept().saturating_add(self.gap.count)
    }

    /// The number of entries that are kept.
    pub(crate) fn kept(&self) -> u64 {
        (self.sealed.len() * CHUNK + self.tail.len()) as u64
    }

    /// What is left out for good.
    pub(crate) const fn gap(&self) -> Gap {
        self.gap
    }

    /// About how many bytes the kept entries take.
    pub(crate) fn bytes(&self) -> u64 {
        self.iter().map(Entry::bytes).fold(0, u64::saturating_add)
    }

    /// The same transcript without what no model can be sent any more: the entries that the last cut leaves out. It reads
    /// the same in every respect. Where it takes more than `most` bytes then, results that are left out are replaced by the
    /// notes that stand for them, so that only a summary reads less.
    #[must_use]
    pub(crate) fn pruned(&self, most: u64) -> Self {
        let Some(cut) = &self.compaction else { return self.clone() };
        let opening = self.opening();
        // The files that are sent all the same stand behind their message.
        let end = cut.files_from.map_or(cut.dropped, |from| from.min(cut.dropped));
        let end = end.min(self.len()).max(opening).max(self.gap.at.saturating_add(self.gap.count));
        let gap = match end - opening {
            0 => Gap::default(),
            count => Gap { at: opening, count },
        };
        let kept = || {
            let before = self.from(0).take_while(move |(index, _)| *index < opening);
            before.chain(self.from(end)).map(|(index, entry)| (index, Arc::clone(entry)))
        };
        let bytes = kept().map(|(_, entry)| entry.bytes()).fold(0, u64::saturating_add);
        let entries = kept().map(|(index, entry)| {
            let short = entry.elided().filter(|_| bytes > most && index >= opening && index < cut.elided);
            short.map_or(entry, Arc::new)
        });
        Self::rebuild(self.head, self.head_tokens, self.chain, gap, entries)
    }

    /// A transcript of its parts.
    pub(crate) fn rebuild(
        head: Digest,
        head_tokens: u64,
        chain: Digest,
        gap: Gap,
        entries: impl Iterator<Item = Arc<Entry>>,
    ) -> Self {
        let mut transcript = Self::begin(head, head_tokens);
        entries.for_each(|entry| transcript.append(entry));
        transcript.gap = gap;
        if transcript.compaction.is_some() {
            transcript.tokens = transcript.view().count();
        }
        transcript.chain = chain;
        transcript
    }

    /// What the tools and settings before the first entry take, in estimated tokens.
    pub(crate) const fn head_tokens(&self) -> u64 {
        self.head_tokens
    }

    /// Says whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.sealed.is_empty() && self.tail.is_empty()
    }

    /// The number of model replies among the entries.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// Says whether there are files among the entries.
    pub fn has_attachments(&self) -> bool {
        self.attachments > 0
    }

    /// The digest of what stands before the first entry: settings and tools.
    pub(crate) fn head(&self) -> Digest {
        self.head
    }

    /// The digest of settings, tools and all entries.
    pub fn chain(&self) -> Digest {
        self.chain
    }

    /// The last cut, if there is one.
    pub(crate) fn compaction(&self) -> Option<&Compaction> {
        self.compaction.as_ref()
    }

    /// The estimated tokens of what the model is sent: the entries of the [view](Self::view), tools included.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The entries from the first to the last.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.shared().map(|entry| &**entry)
    }

    pub(crate) fn shared(&self) -> impl DoubleEndedIterator<Item = &Arc<Entry>> {
        self.sealed.iter().flat_map(|chunk| chunk.iter()).chain(&self.tail)
    }

    /// The entries from an index on, without going through those before it.
    pub(crate) fn from(&self, index: u64) -> impl Iterator<Item = (u64, &Arc<Entry>)> {
        let gap = self.gap;
        let place = usize::try_from(gap.place(index)).unwrap_or(usize::MAX);
        let chunks = (place / CHUNK).min(self.sealed.len());
        let entries = self.sealed[chunks..].iter().flat_map(|chunk| chunk.iter()).chain(&self.tail);
        let first = chunks * CHUNK;
        let places = (first as u64..).zip(entries).skip(place.saturating_sub(first));
        places.map(move |(place, entry)| (gap.index(place), entry))
    }

    /// The number of entries before the first reply, which no compaction touches.
    pub(crate) fn opening(&self) -> u64 {
        // What is left out begins with the first reply.
        if !self.gap.is_empty() {
            return self.gap.at;
        }
        let opening = self.iter().take_while(|entry| !matches!(entry, Entry::Assistant(_)));
        opening.count() as u64
    }

    /// What the model is sent: all entries, or what the last compaction leaves of them. Between two compactions it only
    /// grows at its end, so that a provider's prompt cache holds.
    #[must_use]
    pub fn view(&self) -> Self {
        let Some(compaction) = &self.compaction else { return self.clone() };
        let Compaction { dropped, elided, summary, files_from: _ } = compaction;
        let opening = self.opening();
        let mut view = Self::begin(self.head, self.head_tokens);
        for (_, entry) in self.from(0).take_while(|(index, _)| *index < opening) {
            view.append(Arc::clone(entry));
        }
        if let Some(note) = note(opening, *dropped, summary.as_deref()) {
            view.append(Arc::new(note));
        }
        for file in self.files(compaction) {
            view.append(Arc::clone(file));
        }
        for (index, entry) in self.from(opening.max(*dropped)) {
            match &**entry {
                Entry::Compaction(_) => {}
                Entry::Instructions(_)
                | Entry::User(_)
                | Entry::Attachment(_)
                | Entry::Assistant(_)
                | Entry::ToolResult { .. } => match entry.elided().filter(|_| index < *elided) {
                    Some(short) => view.append(Arc::new(short)),
                    None => view.append(Arc::clone(entry)),
                },
            }
        }
        view.chain = self.chain;
        view
    }

    /// The files that a cut keeps of what it leaves out.
    pub(crate) fn files(&self, cut: &Compaction) -> impl Iterator<Item = &Arc<Entry>> {
        let from = cut.files_from.map_or(cut.dropped, |from| from.max(self.opening()));
        // They stand together, right after the message that they belong to.
        let is_file = |entry: &Entry| matches!(entry, Entry::Attachment(_));
        let files = self.from(from).take_while(move |(index, entry)| *index < cut.dropped && is_file(entry));
        files.map(|(_, entry)| entry)
    }

    /// The last thing that the model said, if it said anything.
    pub fn last_text(&self) -> Option<String> {
        self.last_text_from(0)
    }

    /// The last thing that the model said in the entries from an index on.
    pub(crate) fn last_text_from(&self, index: u64) -> Option<String> {
        let count = self.kept().saturating_sub(self.gap.place(index));
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.iter().rev().take(count).find_map(|entry| match entry {
            Entry::Assistant(reply) => Some(reply.text()).filter(|text| !text.is_empty()),
            Entry::Instructions(_)
            | Entry::User(_)
            | Entry::Attachment(_)
            | Entry::Compaction(_)
            | Entry::ToolResult { .. } => None,
        })
    }

    /// The last reply of the model, as an entry, since it is shared.
    pub(crate) fn last_reply(&self) -> Option<Arc<Entry>> {
        self.shared().rev().find(|entry| matches!(***entry, Entry::Assistant(_))).cloned()
    }

    /// Answers the calls of the last reply that have no result in these words: providers refuse a transcript without.
    pub(crate) fn close(&mut self, why: &str) {
        // An id may stand for several calls: each result answers one of them, the first ones first.
        let mut answered: BTreeMap<&str, usize> = BTreeMap::new();
        let mut open = Vec::new();
        for entry in self.iter().rev() {
            match entry {
                Entry::ToolResult { call_id, .. } => {
                    *answered.entry(call_id).or_default() += 1;
                }
                Entry::Assistant(reply) => {
                    for call in reply.calls() {
                        match answered.get_mut(call.call_id.as_str()) {
                            Some(results @ 1..) => *results -= 1,
                            Some(0) | None => open.push((call.call_id.clone(), call.name.clone())),
                        }
                    }
                    break;
                }
                Entry::Instructions(_) | Entry::User(_) | Entry::Attachment(_) | Entry::Compaction(_) => {}
            }
        }
        for (call_id, name) in open {
            let (content, files) = (why.into(), Vec::new());
            self.push(Entry::ToolResult { call_id, name, content, is_error: true, files });
        }
    }
}

/// A result that is no longer than the note that would replace it stays.
const ELIDED_BYTES: usize = 64;

/// What stands for the entries that are left out.
fn note(opening: u64, dropped: u64, summary: Option<&str>) -> Option<Entry> {
    let count = dropped.checked_sub(opening).filter(|count| *count > 0)?;
    let mut text = note_title(count, summary.is_some());
    text.push_str(summary.unwrap_or_default());
    Some(Entry::User(text))
}

/// How what stands for so many entries begins.
fn note_title(count: u64, summary: bool) -> String {
    if summary {
        alloc::format!("[Summary of the {count} messages before this one]\n")
    } else {
        alloc::format!("[{count} messages before this one are left out]")
    }
}

/// The tokens of what stands for so many entries, with a summary of so many bytes.
pub(crate) fn note_tokens(count: u64, summary_bytes: Option<u64>) -> u64 {
    if count == 0 {
        return 0;
    }
    let title = note_title(count, summary_bytes.is_some()).len() as u64;
    tokens::message(title.saturating_add(summary_bytes.unwrap_or(0)))
}

impl Serialize for Transcript {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries: Vec<&Entry> = self.iter().collect();
        if self.gap.is_empty() {
            (self.head, self.head_tokens, self.chain, entries).serialize(serializer)
        } else {
            (self.head, self.head_tokens, self.chain, entries, self.gap).serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Transcript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Parts)
    }
}

/// Reads the parts of a transcript: four of one without a gap, else five.
struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Transcript;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the parts of a transcript")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Transcript, A::Error> {
        let missing = |count| de::Error::invalid_length(count, &self);
        let head = parts.next_element()?.ok_or_else(|| missing(0))?;
        let head_tokens = parts.next_element()?.ok_or_else(|| missing(1))?;
        let chain = parts.next_element()?.ok_or_else(|| missing(2))?;
        let entries: Vec<Entry> = parts.next_element()?.ok_or_else(|| missing(3))?;
        let gap = parts.next_element()?.unwrap_or_default();
        Ok(Transcript::rebuild(head, head_tokens, chain, gap, entries.into_iter().map(Arc::new)))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::reply::StopReason;

    #[test]
    fn the_files_of_a_cut_stand_together() {
        let file = |name: &str| {
            let (name, media_type) = (name.into(), "text/plain".into());
            Entry::Attachment(Attachment { name, media_type, digest: Digest::default(), bytes: 1 })
        };
        let said = || Entry::Assistant(ModelReply::new(vec![], StopReason::End));
        let mut transcript = Transcript::begin(Digest::default(), 0);
        let question = || Entry::User("look".into());
        for entry in [question(), said(), question(), file("a"), file("b"), said(), question(), file("c")] {
            transcript.push(entry);
        }
        let files = |files_from, dropped| {
            let cut = Compaction { dropped, elided: 0, summary: None, files_from };
            let names = transcript.files(&cut).map(|entry| match &**entry {
                Entry::Attachment(file) => file.name.clone(),
                entry => panic!("{entry:?}"),
            });
            names.collect::<Vec<String>>()
        };
        assert_eq!(files(Some(3), 8), ["a", "b"], "what stands behind the reply is another question's");
        assert_eq!(files(Some(3), 4), ["a"]);
        assert_eq!(files(Some(7), 8), ["c"]);
        assert_eq!(files(None, 8), Vec::<String>::new());
    }
}
