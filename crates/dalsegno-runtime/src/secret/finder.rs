//! Finds secrets in a text, in time that follows from the text and hardly from how many secrets there are.
//!
//! One pass looks for the beginnings of all spellings at once. Only where one stands is a secret compared to its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use aho_corasick::AhoCorasick;

use super::form::{Form, Places, forms, number};

/// How many beginnings are gathered before they are looked at: a bound for the memory of a scan.
const GATHERED: usize = 4096;

/// The spellings of one secret.
pub(crate) struct Spelled {
    forms: Vec<Form>,
    /// The secret as a number, as the bits of its value: `0123456` may come back as `123456`.
    pub(super) number: Option<u64>,
}

impl Spelled {
    pub(crate) fn new(secret: &str) -> Self {
        Self { forms: forms(secret), number: number(secret) }
    }
}

/// What a text holds.
pub(super) struct Scan {
    /// Where secrets stand: from and to, in bytes, in order and apart.
    pub(super) found: Vec<(usize, usize)>,
    /// From where on the text may be the beginning of a secret whose end is still to come; its length if from nowhere.
    pub(super) open: usize,
    /// How many spellings were compared.
    #[cfg(test)]
    pub(super) compared: usize,
}

/// Looks for a number of secrets.
pub(super) struct Finder {
    secrets: Vec<Arc<Spelled>>,
    /// All beginnings; none where there are no secrets, or more than an automaton takes.
    beginnings: Option<AhoCorasick>,
    /// The forms that begin so, by beginning: the secret, and the form of it.
    begun: Vec<Vec<(usize, usize)>>,
    /// The length of the longest beginning.
    longest: usize,
}

impl Finder {
    pub(super) fn new(secrets: &[Arc<Spelled>]) -> Self {
        let mut all: BTreeMap<Vec<u8>, Vec<(usize, usize)>> = BTreeMap::new();
        for (secret, spelled) in secrets.iter().enumerate() {
            for (form, spellings) in spelled.forms.iter().enumerate() {
                for beginning in spellings.beginnings() {
                    all.entry(beginning).or_default().push((secret, form));
                }
            }
        }
        let longest = all.keys().map(Vec::len).max().unwrap_or(0);
        let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(all.keys());
        let beginnings = automaton.ok().filter(|_| !all.is_empty());
        Self { secrets: secrets.to_vec(), beginnings, begun: all.into_values().collect(), longest }
    }

    /// Finds all spellings of secrets. The first `covered` bytes are known to belong to one. Whether the text may end in
    /// the middle of a secret is looked for where it comes `in_parts`.
    pub(super) fn scan(&self, text: &str, covered: usize, in_parts: bool) -> Scan {
        let bytes = text.as_bytes();
        let mut sweep =
            Sweep { finder: self, bytes, places: Places::default(), spots: Vec::new(), open: bytes.len() };
        if covered > 0 {
            sweep.spots.push((0, covered));
        }
        match &self.beginnings {
            Some(beginnings) => {
                let mut gathered = Vec::new();
                for begun in beginnings.find_overlapping_iter(bytes) {
                    let forms = &self.begun[begun.pattern().as_usize()];
                    gathered.extend(forms.iter().map(|&form| (begun.start(), form)));
                    if gathered.len() >= GATHERED {
                        sweep.compare(&mut gathered);
                    }
                }
                sweep.compare(&mut gathered);
                if in_parts {
                    // The text may end in the middle of a beginning, too.
                    sweep.compare_all(bytes.len().saturating_sub(self.longest));
                }
            }
            None => sweep.compare_all(0),
        }
        sweep.spots.sort_unstable();
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (start, end) in sweep.spots {
            // Secrets that overlap are taken out together, or a part of one would survive the other.
            match found.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                Some(_) | None => found.push((start, end)),
            }
        }
        Scan {
            found,
            open: sweep.open,
            #[cfg(test)]
            compared: sweep.places.compared,
        }
    }
}

/// A scan under way.
struct Sweep<'a> {
    finder: &'a Finder,
    bytes: &'a [u8],
    places: Places,
    spots: Vec<(usize, usize)>,
    open: usize,
}

impl Sweep<'_> {
    /// Compares forms where they begin. A form that begins there in two spellings is compared once.
    fn compare(&mut self, begun: &mut Vec<(usize, (usize, usize))>) {
        begun.sort_unstable();
        begun.dedup();
        let finder = self.finder;
        for (start, (secret, form)) in begun.drain(..) {
            self.look(&finder.secrets[secret].forms[form], start);
        }
    }

    /// Compares every form at every place from this one on.
    fn compare_all(&mut self, from: usize) {
        let finder = self.finder;
        for start in from..self.bytes.len() {
            for form in finder.secrets.iter().flat_map(|secret| &secret.forms) {
                self.look(form, start);
            }
        }
    }

    fn look(&mut self, form: &Form, start: usize) {
        let (end, open) = form.find(self.bytes, start, &mut self.places);
        if open {
            self.open = self.open.min(start);
        }
        if let Some(end) = end {
            self.spots.push((start, end));
        }
    }
}
