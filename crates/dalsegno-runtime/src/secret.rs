//! Known secrets are scrubbed from whatever is recorded.
//!
//! Scrubbing compares spellings rather than strings: each character of a secret may stand as itself, percent-encoded,
//! or escaped as in JSON, in any mixture, because every library leaves other characters alone. The same holds for the
//! secret in base64 and in hexadecimal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Number;

use dalsegno_secrets::{SCRUBBED, SHORTEST, Secret};

use self::finder::{Finder, Scan};

pub(crate) use self::finder::Spelled;
pub(crate) use self::records::is_shared;

mod finder;
mod form;
mod records;

/// A secret that is too short to be told from innocent text, and so could not be kept out of the records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "its value is shorter than {SHORTEST} bytes, so it cannot be scrubbed from the records: use a longer one"
)]
pub struct ShortSecret {
    /// The secret's name.
    pub name: String,
}

/// The secrets of a workspace, by name.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Arc<BTreeMap<String, Secret>>,
    spelled: Arc<Vec<Arc<Spelled>>>,
    /// The secrets that are numbers, as the bits of their values.
    numbers: Arc<BTreeSet<u64>>,
    /// Made when it is first needed, and again when a secret comes in.
    finder: Arc<OnceLock<Finder>>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.values.iter()).finish()
    }
}

impl Secrets {
    /// Gathers secrets.
    ///
    /// # Errors
    ///
    /// When a value is shorter than six bytes, for such a value cannot be scrubbed.
    pub fn new(values: BTreeMap<String, Secret>) -> Result<Self, ShortSecret> {
        if let Some((name, _)) = values.iter().find(|(_, secret)| secret.expose().len() < SHORTEST) {
            return Err(ShortSecret { name: name.clone() });
        }
        let spelled = values.values().map(|secret| Arc::new(Spelled::new(secret.expose())));
        let known = Self::default().with(spelled.collect::<Vec<_>>());
        Ok(Self { values: Arc::new(values), ..known })
    }

    /// The spellings of a secret; none of one that is too short to be scrubbed: a local endpoint is given a word as its key,
    /// which is no secret and may stand anywhere.
    pub(crate) fn spell(secret: &Secret) -> Option<Arc<Spelled>> {
        let secret = secret.expose();
        (secret.len() >= SHORTEST).then(|| Arc::new(Spelled::new(secret)))
    }

    /// The same with these scrubbed as well.
    pub(crate) fn with(self, others: impl IntoIterator<Item = Arc<Spelled>>) -> Self {
        let mut spelled = self.spelled.to_vec();
        spelled.extend(others);
        let numbers = spelled.iter().filter_map(|spelled| spelled.number).collect();
        Self {
            values: self.values,
            spelled: Arc::new(spelled),
            numbers: Arc::new(numbers),
            finder: Arc::default(),
        }
    }

    /// The secret of this name.
    pub fn get(&self, name: &str) -> Option<&Secret> {
        self.values.get(name)
    }

    /// The text with a mark for each known secret in it, raw or in one of its usual encodings.
    pub fn scrubbed(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.text(&mut text);
        text
    }

    /// Takes every known secret out of a whole text. Parts of a text go through [`Secrets::stream`].
    pub(crate) fn text(&self, text: &mut String) {
        let scan = self.scan(text, 0, false);
        if !scan.found.is_empty() {
            *text = replace(text, &scan.found, 0);
        }
    }

    /// A scrubber of one text that arrives in parts, such as a model's deltas.
    pub(crate) fn stream(&self) -> StreamScrubber {
        StreamScrubber { secrets: self.clone(), held: String::new(), covered: 0 }
    }

    fn is_number(&self, number: &Number) -> bool {
        let same = number.as_f64().is_some_and(|value| self.numbers.contains(&value.to_bits()));
        same || self.is_in(&number.to_string())
    }

    pub(crate) fn is_in(&self, text: &str) -> bool {
        !self.scan(text, 0, false).found.is_empty()
    }

    fn scan(&self, text: &str, covered: usize, in_parts: bool) -> Scan {
        self.finder.get_or_init(|| Finder::new(&self.spelled)).scan(text, covered, in_parts)
    }
}

/// The text with a mark for each place that was found, except for one that began before the text did.
fn replace(text: &str, found: &[(usize, usize)], covered: usize) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    for &(start, end) in found {
        clean.push_str(&text[from..start]);
        if start > 0 || covered == 0 {
            clean.push_str(SCRUBBED);
        }
        from = end;
    }
    clean.push_str(&text[from..]);
    clean
}

/// Scrubs a text that arrives in parts: what may be the beginning of a secret is held back until more is known.
pub(crate) struct StreamScrubber {
    secrets: Secrets,
    held: String,
    /// How many bytes of what is held belong to a secret whose mark was given out already.
    covered: usize,
}

impl StreamScrubber {
    /// Takes the next part, and gives what can be shown of the text so far; possibly nothing.
    pub(crate) fn push(&mut self, part: &str) -> String {
        self.held.push_str(part);
        let mut scan = self.secrets.scan(&self.held, self.covered, true);
        let cut = scan.open;
        scan.found.retain(|&(start, _)| start < cut);
        let mut covered = 0;
        if let Some(last) = scan.found.last_mut() {
            covered = last.1.saturating_sub(cut);
            last.1 = last.1.min(cut);
        }
        let shown =
            if cut == 0 { String::new() } else { replace(&self.held[..cut], &scan.found, self.covered) };
        if cut > 0 {
            self.held.drain(..cut);
            self.covered = covered;
        }
        shown
    }

    /// The rest of the text, when no more parts will come.
    pub(crate) fn finish(self) -> String {
        let scan = self.secrets.scan(&self.held, self.covered, false);
        replace(&self.held, &scan.found, self.covered)
    }
}

#[cfg(test)]
mod tests;
