//! The stored form of a transcript, as a part of a state.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::gaps::Released;
use super::{Entry, Gap, Gaps, Transcript};

impl Serialize for Transcript {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries: Vec<&Entry> = self.iter().collect();
        let first = self.gaps.first();
        let rest = Rest { gaps: self.gaps.rest().to_vec(), released: self.released.clone() };
        if !rest.is_empty() {
            (self.head, self.head_tokens, self.chain, entries, first, rest).serialize(serializer)
        } else if !first.is_empty() {
            (self.head, self.head_tokens, self.chain, entries, first).serialize(serializer)
        } else {
            (self.head, self.head_tokens, self.chain, entries).serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Transcript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Parts)
    }
}

/// What a transcript has beside its entries and its first gap.
#[derive(Default, Serialize, Deserialize)]
struct Rest {
    /// The gaps after the first one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<Gap>,
    #[serde(default, skip_serializing_if = "Released::is_empty")]
    released: Released,
}

impl Rest {
    const fn is_empty(&self) -> bool {
        self.gaps.is_empty() && self.released.is_empty()
    }
}

/// Reads the parts of a transcript: four of one without a gap, five of one with a gap, six where there is more to say.
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
        let first: Gap = parts.next_element()?.unwrap_or_default();
        let Rest { gaps, released } = parts.next_element()?.unwrap_or_default();
        let gaps = Gaps::new([first].into_iter().chain(gaps));
        let entries = entries.into_iter().map(Arc::new);
        let mut transcript = Transcript::rebuild(head, head_tokens, chain, gaps, entries);
        transcript.released = released;
        Ok(transcript)
    }
}
