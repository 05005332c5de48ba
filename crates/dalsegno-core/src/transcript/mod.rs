//! What a model reads: a sequence of shared entries that grows at its end, and lets go of what no model can be sent any more.

mod entry;
mod gaps;
mod stored;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::canonical::{Canonical, Digest};
use crate::tokens;

pub use self::entry::{Attachment, Compaction, Entry};
use self::gaps::Released;
pub(crate) use self::gaps::{Gap, Gaps};

/// A sequence of shared entries with a chained digest, which grows at its end.
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
    /// What the model is sent, where that is not all of the entries. It shares them.
    sent: Option<Box<Self>>,
    /// The entries that are left out for good.
    gaps: Gaps,
    /// What still matters of these.
    released: Released,
}

/// Entries in a sealed chunk.
const CHUNK: usize = 64;

impl FromIterator<Entry> for Transcript {
    /// A transcript of these entries alone, for a model that is asked outside of a run's state.
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        let mut transcript = Self::begin(Digest::default(), 0);
        entries.into_iter().for_each(|entry| transcript.push(entry));
        transcript
    }
}

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
        let is_cut = matches!(entry, Entry::Compaction(_));
        let entry = Arc::new(entry);
        if let Some(sent) = self.sent.as_mut().filter(|_| !is_cut) {
            sent.append(Arc::clone(&entry));
        }
        self.append(entry);
        if is_cut {
            self.send();
        }
    }

    /// Computes anew what the model is sent, after a cut.
    fn send(&mut self) {
        let Some(cut) = &self.compaction else { return };
        let sent = self.cut(cut);
        self.tokens = sent.tokens;
        self.sent = Some(Box::new(sent));
    }

    /// Forgets what the shell found of the last entry's calls, where it is a reply: their results follow.
    fn settle_last(&mut self) {
        let Some(last) = self.last_mut() else { return };
        if !last.calls().any(|call| call.validation.is_some()) {
            return;
        }
        if let Entry::Assistant(reply) = Arc::make_mut(last) {
            reply.settle();
        }
        let last = Arc::clone(last);
        // It is the last one of what is sent as well.
        if let Some(sent) = self.sent.as_mut().and_then(|sent| sent.last_mut()) {
            *sent = last;
        }
    }

    fn last_mut(&mut self) -> Option<&mut Arc<Entry>> {
        match self.tail.last_mut() {
            Some(last) => Some(last),
            None => self.sealed.last_mut().and_then(|chunk| Arc::make_mut(chunk).last_mut()),
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

    /// The number of entries, with those that are left out for good.
    pub fn len(&self) -> u64 {
        self.kept().saturating_add(self.gaps.count())
    }

    /// The number of entries that are kept: all but those that no model can be sent any more.
    pub fn kept(&self) -> u64 {
        (self.sealed.len() * CHUNK + self.tail.len()) as u64
    }

    /// What is left out for good.
    pub(crate) const fn gaps(&self) -> &Gaps {
        &self.gaps
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
        let is_kept = |index: u64| index < opening || index >= end;
        let kept = self.from(0).filter(|(index, _)| is_kept(*index));
        let bytes = kept.map(|(_, entry)| entry.bytes()).fold(0, u64::saturating_add);
        let elided = if bytes > most { cut.elided } else { 0 };
        let mut pruned = self.without(is_kept, elided);
        pruned.released = Released::default();
        pruned
    }

    /// Lets go of the entries that the last cut leaves out, but for those at these indices: what the run was asked. With
    /// `results`, also of the results that it leaves out: the notes stay that stand for them. All that a run does with a
    /// transcript stays the same, unless it has a summary made of results that have gone.
    pub(crate) fn release(&mut self, asked: &Range<u64>, results: bool) {
        let Some(cut) = &self.compaction else { return };
        let (opening, dropped) = (self.opening(), cut.dropped);
        let is_kept = |index: u64| index < opening || index >= dropped || asked.contains(&index);
        *self = self.without(is_kept, if results { cut.elided } else { 0 });
    }

    /// The same transcript without some entries, and with the results before an index replaced by the notes that stand for
    /// them.
    fn without(&self, is_kept: impl Fn(u64) -> bool, elided: u64) -> Self {
        let mut released = self.released.clone();
        let mut indices = Vec::new();
        let mut entries = Vec::new();
        let opening = self.opening();
        for (index, entry) in self.from(0) {
            if !is_kept(index) {
                released.add(index, entry);
                continue;
            }
            let short = entry.elided().filter(|_| index >= opening && index < elided);
            indices.push(index);
            entries.push(short.map_or_else(|| Arc::clone(entry), Arc::new));
        }
        let gaps = Gaps::between(indices.into_iter(), self.len());
        let mut less = Self::rebuild(self.head, self.head_tokens, self.chain, gaps, entries.into_iter());
        less.released = released;
        less
    }

    /// A transcript of its parts.
    pub(crate) fn rebuild(
        head: Digest,
        head_tokens: u64,
        chain: Digest,
        gaps: Gaps,
        entries: impl Iterator<Item = Arc<Entry>>,
    ) -> Self {
        let mut transcript = Self::begin(head, head_tokens);
        entries.for_each(|entry| transcript.append(entry));
        transcript.gaps = gaps;
        transcript.chain = chain;
        transcript.send();
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
        let place = usize::try_from(self.gaps.place(index)).unwrap_or(usize::MAX);
        let chunks = (place / CHUNK).min(self.sealed.len());
        let entries = self.sealed[chunks..].iter().flat_map(|chunk| chunk.iter()).chain(&self.tail);
        let first = chunks * CHUNK;
        let places = (first as u64..).zip(entries).skip(place.saturating_sub(first));
        places.map(|(place, entry)| (self.gaps.index(place), entry))
    }

    /// The number of entries before the first reply, which no compaction touches.
    pub(crate) fn opening(&self) -> u64 {
        // What is left out begins with the first reply.
        if !self.gaps.first().is_empty() {
            return self.gaps.first().at;
        }
        let opening = self.iter().take_while(|entry| !matches!(entry, Entry::Assistant(_)));
        opening.count() as u64
    }

    /// What the model is sent: all entries, or what the last compaction leaves of them. Between two compactions it only
    /// grows at its end, so that a provider's prompt cache holds.
    #[must_use]
    pub fn view(&self) -> Self {
        let mut view = match &self.sent {
            Some(sent) => Self::clone(sent),
            None => self.clone(),
        };
        view.chain = self.chain;
        view
    }

    /// What the model is sent after a cut.
    fn cut(&self, compaction: &Compaction) -> Self {
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
        let count = self.kept().saturating_sub(self.gaps.place(index));
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let kept = self.iter().rev().take(count).find_map(|entry| match entry {
            Entry::Assistant(reply) => Some(reply.text()).filter(|text| !text.is_empty()),
            Entry::Instructions(_)
            | Entry::User(_)
            | Entry::Attachment(_)
            | Entry::Compaction(_)
            | Entry::ToolResult { .. } => None,
        });
        // What has gone stands before all replies that are kept.
        let released = || self.released.text.as_ref().filter(|(at, _)| *at >= index);
        kept.or_else(|| released().map(|(_, text)| text.clone()))
    }

    /// Says whether there is a reply among the entries from an index on.
    pub(crate) fn has_reply_from(&self, index: u64) -> bool {
        self.released.reply.is_some_and(|at| at >= index)
            || self.from(index).any(|(_, entry)| matches!(**entry, Entry::Assistant(_)))
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

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::reply::{ModelReply, ReplyPart, StopReason};

    /// A question, then replies with results; the first reply says something.
    fn long() -> Transcript {
        let mut transcript = Transcript::begin(Digest::default(), 0);
        transcript.push(Entry::User("look".into()));
        for turn in 0..100 {
            let text = if turn == 0 { "I begin." } else { "" };
            let parts = vec![ReplyPart::Text(text.into())];
            transcript.push(Entry::Assistant(ModelReply::new(parts, StopReason::End)));
            let (call_id, name, content) = ("c".into(), "read".into(), "x".repeat(200));
            transcript.push(Entry::ToolResult { call_id, name, content, is_error: false, files: vec![] });
        }
        transcript
    }

    #[test]
    fn what_was_let_go_of_a_reply_is_still_known() {
        let mut whole = long();
        whole.push(Entry::User("and now?".into()));
        whole.push(Entry::Compaction(Compaction {
            dropped: 201,
            elided: 0,
            summary: None,
            files_from: None,
        }));
        let mut less = whole.clone();
        less.release(&(0..0), true);
        assert_eq!((less.kept(), less.len()), (3, whole.len()));
        for index in 0..whole.len() {
            assert_eq!(less.last_text_from(index), whole.last_text_from(index), "{index}");
            assert_eq!(less.has_reply_from(index), whole.has_reply_from(index), "{index}");
        }
        assert_eq!((less.last_text(), less.has_reply_from(0)), (Some("I begin.".into()), true));
        assert_eq!(less.view(), whole.view());
    }

    #[test]
    fn entries_between_two_gaps_keep_their_indices() {
        let mut whole = long();
        whole.push(Entry::Compaction(Compaction {
            dropped: 181,
            elided: 190,
            summary: None,
            files_from: None,
        }));
        let mut less = whole.clone();
        less.release(&(100..103), true);
        assert_eq!(less.gaps(), &Gaps::new([Gap { at: 1, count: 99 }, Gap { at: 103, count: 78 }]));
        let indices: Vec<u64> = less.from(50).map(|(index, _)| index).collect();
        assert_eq!(indices, (100..103).chain(181..202).collect::<Vec<u64>>());
        assert!(less.from(101).zip(whole.from(101)).take(1).all(|(one, other)| one == other));
        assert_eq!((less.view(), less.tokens()), (whole.view(), whole.tokens()));
        // As much again is let go at the next cut, and the notes of results stay what they are.
        for transcript in [&mut whole, &mut less] {
            let cut = Compaction { dropped: 183, elided: 198, summary: None, files_from: None };
            transcript.push(Entry::Compaction(cut));
        }
        less.release(&(100..103), true);
        assert_eq!((less.view(), less.chain(), less.len()), (whole.view(), whole.chain(), whole.len()));
    }

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
