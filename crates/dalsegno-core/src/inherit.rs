//! What the next run of a session takes over from the one before it, as a value of its own: in memory, and as it is stored.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use dalsegno_tools::SessionContext;
use serde::{Deserialize, Serialize};

use crate::canonical::Digest;
use crate::state::{AgentState, Phase};
use crate::transcript::{Entry, Gap, Gaps, Transcript};

/// Most entries that a model agent without compaction begins with.
pub(crate) const ENTRIES_MAX: u64 = 20_000;
/// Most bytes of them, about: 64 MiB.
pub(crate) const BYTES_MAX: u64 = 64 << 20;
/// How often the bounds above are allowed for in what is stored. A single run can add that much to a transcript that is just
/// within them.
const STORED_TIMES: u64 = 4;

/// What a run takes over from the one before it in its session.
#[derive(Debug, Clone, PartialEq)]
pub struct Inheritance {
    transcript: Transcript,
    asked: u64,
    session: SessionContext,
    hops: u32,
    said: Vec<String>,
    told: Vec<String>,
    /// About how many bytes the transcript takes; 0 in a state that was folded from the run before.
    bytes: u64,
}

/// An inheritance as it is stored: the transcript in blocks that the runs of a session share, but for its end.
///
/// Its encoding is part of the journal: a field may be added with a default, and none changes its meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inherited {
    head: Digest,
    #[serde(default)]
    head_tokens: u64,
    chain: Digest,
    #[serde(default, skip_serializing_if = "Gap::is_empty")]
    gap: Gap,
    /// The gaps after that one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more_gaps: Vec<Gap>,
    /// The entries but for the last ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    blocks: Vec<Block>,
    /// The last entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tail: Vec<Entry>,
    #[serde(default)]
    asked: u64,
    #[serde(default, skip_serializing_if = "SessionContext::is_empty")]
    session: SessionContext,
    #[serde(default)]
    hops: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    said: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    told: Vec<String>,
    #[serde(default)]
    bytes: u64,
    /// The files that entries name, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<Digest>,
}

/// Entries of a transcript that are kept under the digest of their encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The digest under which a store keeps them.
    pub digest: Digest,
    /// How many entries there are.
    pub entries: u32,
}

/// What is stored of an inheritance does not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InheritError {
    /// A block holds another number of entries than its place says, or there are more or fewer blocks.
    #[error("block {block} of its transcript does not hold the entries that its place says")]
    Block {
        /// Which one, from 0.
        block: usize,
    },
    /// The transcript is longer than any that is stored.
    #[error("its transcript is longer than any session may have")]
    TooLong,
}

impl AgentState {
    /// What the next run of the session takes over from this one, without what no model can be sent any more.
    pub fn inheritance(&self, by_handoff: bool) -> Inheritance {
        let mut taken = self.taken_over(self.transcript.pruned(BYTES_MAX), by_handoff);
        taken.bytes = taken.transcript.bytes();
        taken
    }

    pub(crate) fn taken_over(&self, mut transcript: Transcript, by_handoff: bool) -> Inheritance {
        let session = self.session.clone();
        let said = match &self.phase {
            Phase::HandedOff(handoff) if by_handoff => handoff.said.clone(),
            _ => Vec::new(),
        };
        transcript.close("the run ended before this call had a result");
        Inheritance {
            transcript,
            asked: self.asked,
            session: if by_handoff { session } else { session.next_turn() },
            hops: if by_handoff { self.hops.saturating_add(1) } else { 0 },
            said,
            told: self.told.clone(),
            bytes: 0,
        }
    }

    /// The same new run as one that begins with this.
    #[must_use]
    pub fn inheriting(mut self, taken: Inheritance) -> Self {
        let Inheritance { transcript, asked, session, hops, said, told, bytes } = taken;
        let said_bytes: usize = said.iter().chain(&told).map(String::len).sum();
        self.kept_bytes = self.kept_bytes.saturating_add(said_bytes as u64);
        self.inherited = transcript.len();
        self.inherited_bytes = bytes;
        (self.transcript, self.asked, self.session, self.hops) = (transcript, asked, session, hops);
        (self.said, self.told) = (said, told);
        self
    }
}

impl Inheritance {
    /// The stored form. `keep` keeps the entries of a block, in the form that the caller chooses, and returns the digest
    /// under which they are found again.
    ///
    /// Where blocks begin and end follows from the indices of their entries, so that the runs of a session share them. A
    /// block has at most a few mebibytes, or a single entry.
    ///
    /// # Errors
    /// When the transcript is longer than what is stored, or `keep` fails.
    pub fn store<E: From<InheritError>>(
        self,
        mut keep: impl FnMut(&[&Entry]) -> Result<Digest, E>,
    ) -> Result<Inherited, E> {
        let Self { transcript, asked, session, hops, said, told, bytes } = self;
        check(transcript.kept(), bytes)?;
        let entries: Vec<&Entry> = transcript.iter().collect();
        let (gaps, mut blocks, mut at) = (transcript.gaps(), Vec::new(), 0);
        while let Some(count) = next_block(gaps, &entries, at) {
            let digest = keep(&entries[at..at + count])?;
            blocks.push(Block { digest, entries: u32::try_from(count).unwrap_or(u32::MAX) });
            at += count;
        }
        let files = entries.iter().flat_map(|entry| entry.files());
        let mut files: Vec<Digest> = files.map(|file| file.digest).collect();
        files.sort_unstable();
        files.dedup();
        Ok(Inherited {
            head: transcript.head(),
            head_tokens: transcript.head_tokens(),
            chain: transcript.chain(),
            gap: gaps.first(),
            more_gaps: gaps.rest().to_vec(),
            blocks,
            tail: entries[at..].iter().map(|entry| (*entry).clone()).collect(),
            asked,
            session,
            hops,
            said,
            told,
            bytes,
            files,
        })
    }
}

impl Inherited {
    /// The blocks of its transcript, in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The digests of all that a store keeps for it: blocks, and the files that entries name.
    pub fn kept(&self) -> impl Iterator<Item = Digest> {
        self.blocks.iter().map(|block| block.digest).chain(self.files.iter().copied())
    }

    /// What was stored, with the entries of its blocks in their order.
    ///
    /// # Errors
    /// When the blocks are not those that were stored.
    pub fn load(&self, blocks: Vec<Vec<Entry>>) -> Result<Inheritance, InheritError> {
        if blocks.len() != self.blocks.len() {
            return Err(InheritError::Block { block: blocks.len().min(self.blocks.len()) });
        }
        for (number, (block, entries)) in self.blocks.iter().zip(&blocks).enumerate() {
            if entries.len() as u64 != u64::from(block.entries) {
                return Err(InheritError::Block { block: number });
            }
        }
        let entries = blocks.into_iter().flatten().chain(self.tail.iter().cloned()).map(Arc::new);
        let gaps = Gaps::new([self.gap].into_iter().chain(self.more_gaps.iter().copied()));
        let transcript = Transcript::rebuild(self.head, self.head_tokens, self.chain, gaps, entries);
        Ok(Inheritance {
            transcript,
            asked: self.asked,
            session: self.session.clone(),
            hops: self.hops,
            said: self.said.clone(),
            told: self.told.clone(),
            bytes: self.bytes,
        })
    }

    /// Says whether a transcript of so many entries in blocks, with so many bytes as they are encoded, is longer than any
    /// that is stored.
    pub fn is_too_long(entries: u64, bytes: u64) -> bool {
        check(entries, bytes.saturating_sub(entries.saturating_mul(NAMES_BYTES))).is_err()
    }
}

/// What the names of fields take in an encoded entry, at most, about.
const NAMES_BYTES: u64 = 256;

fn check(entries: u64, bytes: u64) -> Result<(), InheritError> {
    let within = entries <= ENTRIES_MAX * STORED_TIMES && bytes <= BYTES_MAX * STORED_TIMES;
    if within { Ok(()) } else { Err(InheritError::TooLong) }
}

/// How many entries a block has, the largest first. Each divides the one before it.
const SIZES: [usize; 3] = [4_096, 512, 64];
/// Most bytes of a block of more than one entry: little enough to be held twice.
const BLOCK_BYTES: u64 = 4 << 20;

/// How many entries the block has that begins at this place; none where the end begins, which is kept with the record.
fn next_block(gaps: &Gaps, entries: &[&Entry], at: usize) -> Option<usize> {
    let gap = gaps.first();
    let opening = usize::try_from(gap.at).ok().filter(|opening| !gap.is_empty() && at < *opening);
    let left = opening.unwrap_or(entries.len()).min(entries.len()).checked_sub(at)?;
    let index = gaps.index(at as u64);
    let aligned = |size: usize| index.is_multiple_of(size as u64);
    let bytes = |count: usize| entries[at..at + count].iter().map(|entry| entry.bytes()).sum::<u64>();
    let fits = |count: usize| count <= left && bytes(count) <= BLOCK_BYTES;
    if let Some(size) = SIZES.into_iter().find(|size| aligned(*size) && fits(*size)) {
        return Some(size);
    }
    // Up to the next index at which a block of the smallest size begins; what stands before a gap is a block as well.
    let smallest = SIZES[SIZES.len() - 1];
    let step = smallest - usize::try_from(index % smallest as u64).unwrap_or(0);
    let count = match opening {
        Some(_) => step.min(left),
        None if step <= left => step,
        None => {
            // The end is kept with the record, unless it is long itself.
            let all = bytes(left);
            return (all > BLOCK_BYTES).then(|| fitting(entries, at, left));
        }
    };
    (count > 0).then(|| if fits(count) { count } else { fitting(entries, at, count) })
}

/// How many of the next `most` entries make a block that is not too long: at least one.
fn fitting(entries: &[&Entry], at: usize, most: usize) -> usize {
    let mut bytes = 0u64;
    let fitting = entries[at..at + most].iter().take_while(|entry| {
        bytes = bytes.saturating_add(entry.bytes());
        bytes <= BLOCK_BYTES
    });
    fitting.count().max(1)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::{format, vec};

    use super::*;
    use crate::reply::{ModelReply, ReplyPart, StopReason};
    use crate::state::AgentRequest;
    use crate::transcript::{Attachment, Compaction};
    use crate::{RunId, Timestamp};

    const RUN: RunId = RunId::from_bytes([7; 16]);

    /// A session of so many turns, each of which has a message, a result and a reply.
    fn session(turns: usize) -> Transcript {
        let mut transcript = Transcript::begin(Digest::default(), 5);
        transcript.push(Entry::Instructions("be brief".into()));
        for turn in 0..turns {
            turn_of(&mut transcript, turn);
        }
        transcript
    }

    fn turn_of(transcript: &mut Transcript, turn: usize) {
        transcript.push(Entry::User(format!("message {turn}")));
        let said = |text: &str| {
            let parts = vec![ReplyPart::Text(format!("{text} {turn}"))];
            Entry::Assistant(ModelReply::new(parts, StopReason::End))
        };
        transcript.push(said("I look at"));
        let (call_id, name) = (format!("c{turn}"), "read".into());
        let (content, files) = ("x".repeat(200), vec![]);
        transcript.push(Entry::ToolResult { call_id, name, content, is_error: false, files });
        transcript.push(said("answer"));
    }

    fn cut(transcript: &mut Transcript, dropped: u64, elided: u64, files_from: Option<u64>) {
        transcript.push(Entry::Compaction(Compaction { dropped, elided, summary: None, files_from }));
    }

    fn state(transcript: Transcript) -> AgentState {
        let mut state = AgentState::start(RUN, AgentRequest::text("x"), Timestamp::default());
        (state.transcript, state.hops, state.asked) = (transcript, 3, 9);
        state
    }

    type Kept = BTreeMap<Digest, Vec<Entry>>;

    fn store(taken: Inheritance, kept: &mut Kept) -> Inherited {
        let keep = |entries: &[&Entry]| {
            let entries: Vec<Entry> = entries.iter().map(|entry| (*entry).clone()).collect();
            let mut canonical = crate::canonical::Canonical::new("test");
            canonical.text(&format!("{entries:?}"));
            let digest = canonical.finish();
            kept.insert(digest, entries);
            Ok::<_, InheritError>(digest)
        };
        taken.store(keep).unwrap()
    }

    fn load(inherited: &Inherited, kept: &Kept) -> Inheritance {
        let blocks = inherited.blocks().iter().map(|block| kept[&block.digest].clone());
        inherited.load(blocks.collect()).unwrap()
    }

    #[test]
    fn what_was_pruned_reads_the_same_in_every_respect() {
        let mut whole = session(100);
        let mut pruned = whole.clone();
        for (dropped, elided, files_from) in
            [(41, 41, None), (121, 200, None), (121, 300, None), (401, 403, Some(399))]
        {
            for transcript in [&mut whole, &mut pruned] {
                cut(transcript, dropped, elided, files_from);
                turn_of(transcript, 1_000);
            }
            pruned = pruned.pruned(u64::MAX);
            assert!(pruned.kept() < whole.kept());
            assert_eq!(pruned.len(), whole.len());
            assert_eq!((pruned.tokens(), pruned.chain()), (whole.tokens(), whole.chain()));
            assert_eq!(pruned.view(), whole.view());
            assert_eq!(pruned.opening(), whole.opening());
            for index in 0..whole.len() + 2 {
                let of = |transcript: &Transcript| {
                    let entries = transcript.from(index.max(dropped));
                    entries.map(|(index, entry)| (index, Entry::clone(entry))).collect::<Vec<_>>()
                };
                assert_eq!(of(&pruned), of(&whole), "{index}");
            }
            for index in dropped..whole.len() {
                assert_eq!(pruned.last_text_from(index), whole.last_text_from(index), "{index}");
            }
        }
        assert_eq!(pruned.opening(), 2);
    }

    #[test]
    fn results_that_are_left_out_go_where_the_transcript_is_too_long() {
        let mut whole = session(50);
        cut(&mut whole, 41, 150, None);
        let short = whole.pruned(1_000);
        assert!(short.bytes() < whole.pruned(u64::MAX).bytes());
        assert_eq!(short.view(), whole.view());
        assert_eq!(short.tokens(), whole.tokens());
    }

    #[test]
    fn what_is_stored_is_loaded_as_it_was() {
        for turns in [0, 1, 15, 16, 17, 200, 1_500] {
            let mut transcript = session(turns);
            if turns > 100 {
                cut(&mut transcript, 151, 160, None);
            }
            let taken = state(transcript).inheritance(true);
            let mut kept = Kept::new();
            let inherited = store(taken.clone(), &mut kept);
            assert_eq!(load(&inherited, &kept), taken, "{turns}");
            let state = AgentState::start(RUN, AgentRequest::text("y"), Timestamp::default());
            let state = state.inheriting(taken);
            assert_eq!((state.hops, state.asked, state.said.len()), (4, 9, 0));
            assert_eq!(state.inherited, state.transcript.len());
        }
    }

    #[test]
    fn a_message_stores_a_few_entries_however_long_the_session_is() {
        let (mut kept, mut before, mut most) = (Kept::new(), 0, 0);
        for turns in 0..1_200 {
            let inherited = store(state(session(turns)).inheritance(false), &mut kept);
            assert!(inherited.tail.len() < 64 && inherited.blocks.len() < 20, "{inherited:?}");
            most = most.max(inherited.blocks.len());
            let entries: usize = kept.values().map(Vec::len).sum();
            assert!(entries - before <= 4_096, "message {turns}");
            before = entries;
        }
        // Each entry is in at most one block of each size.
        assert!(before <= 3 * 4_801, "{before}");
        assert!(most > 7);
    }

    #[test]
    fn the_files_of_a_transcript_are_named_once() {
        let mut transcript = session(1);
        let file = |byte: u8| Attachment {
            name: "a".into(),
            media_type: "image/png".into(),
            digest: Digest::from_bytes([byte; 32]),
            bytes: 1,
        };
        for byte in [1, 2, 1] {
            transcript.push(Entry::Attachment(file(byte)));
        }
        let (call_id, name, content) = ("c".into(), "look".into(), "a picture".into());
        let files = vec![file(3), file(2)];
        transcript.push(Entry::ToolResult { call_id, name, content, is_error: false, files });
        let inherited = store(state(transcript).inheritance(false), &mut Kept::new());
        assert_eq!(
            inherited.kept().collect::<Vec<_>>(),
            [1, 2, 3].map(|byte| Digest::from_bytes([byte; 32]))
        );
    }

    #[test]
    fn large_entries_are_in_blocks_of_their_own() {
        let mut transcript = Transcript::begin(Digest::default(), 0);
        for _ in 0..5 {
            transcript.push(Entry::User("x".repeat(3 << 20)));
        }
        let mut kept = Kept::new();
        let taken = state(transcript).inheritance(false);
        let inherited = store(taken.clone(), &mut kept);
        assert_eq!(inherited.blocks().len(), 4);
        assert_eq!(load(&inherited, &kept), taken);
    }

    #[test]
    fn blocks_that_are_not_those_that_were_stored_are_refused() {
        let mut kept = Kept::new();
        let inherited = store(state(session(40)).inheritance(false), &mut kept);
        assert_eq!(inherited.load(vec![]), Err(InheritError::Block { block: 0 }));
        let mut blocks: Vec<_> = inherited.blocks().iter().map(|block| kept[&block.digest].clone()).collect();
        blocks[1].pop();
        assert_eq!(inherited.load(blocks), Err(InheritError::Block { block: 1 }));
        assert!(Inherited::is_too_long(1_000_000, 0) && !Inherited::is_too_long(20_000, 64 << 20));
    }
}
