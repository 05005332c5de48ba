//! The spellings of a secret: as characters, each of which has several, in base64 and in hexadecimal.

use std::collections::BTreeSet;

use dalsegno_secrets::SHORTEST;

/// How many characters of a form are looked for first, in every spelling. More would be found less often by chance, and
/// would multiply what is looked for.
const BEGINNING: usize = 2;

/// A secret, or an encoding of it, as a sequence of characters that have several spellings each.
pub(super) struct Form(Vec<Letter>);

/// One character of a form.
struct Letter {
    plain: String,
    /// Other spellings, in which the case of letters says nothing.
    escapes: Vec<String>,
}

/// Buffers of a comparison, kept from one to the next.
#[derive(Default)]
pub(super) struct Places {
    now: Vec<usize>,
    next: Vec<usize>,
    /// How many spellings were compared: the work of a scan.
    #[cfg(test)]
    pub(super) compared: usize,
}

impl Form {
    /// The form of a text that may be escaped for a URL or for JSON.
    fn of(text: &str) -> Self {
        Self(text.chars().map(Letter::new).collect())
    }

    /// The form of bytes in hexadecimal digits.
    fn hexadecimal(bytes: &[u8]) -> Self {
        let digits = data_encoding::HEXLOWER.encode(bytes);
        let letters =
            digits.chars().map(|digit| Letter { plain: String::new(), escapes: vec![digit.into()] });
        Self(letters.collect())
    }

    /// How the form may begin, in lower case: its first characters in each mixture of their spellings.
    pub(super) fn beginnings(&self) -> BTreeSet<Vec<u8>> {
        let mut all = BTreeSet::from([Vec::new()]);
        for letter in self.0.iter().take(BEGINNING) {
            let spellings: Vec<String> = letter.spellings().map(str::to_ascii_lowercase).collect();
            let longer = all.iter().flat_map(|begun| {
                spellings.iter().map(|spelling| [begun.as_slice(), spelling.as_bytes()].concat())
            });
            all = longer.collect();
        }
        all
    }

    /// Where the longest spelling that begins at `start` ends, and whether the text ends in the middle of one.
    pub(super) fn find(&self, text: &[u8], start: usize, places: &mut Places) -> (Option<usize>, bool) {
        if !self.0.first().is_some_and(|letter| letter.may_start(text[start])) {
            return (None, false);
        }
        let mut open = false;
        // All places that some spelling of the characters so far leads to.
        places.now.clear();
        places.now.push(start);
        for letter in &self.0 {
            places.next.clear();
            #[cfg(test)]
            {
                places.compared += places.now.len();
            }
            for &place in &places.now {
                letter.read(&text[place..], &mut open, |length| places.next.push(place + length));
            }
            if places.next.is_empty() {
                return (None, open);
            }
            places.next.sort_unstable();
            places.next.dedup();
            std::mem::swap(&mut places.now, &mut places.next);
        }
        (places.now.last().copied(), open)
    }
}

impl Letter {
    fn new(letter: char) -> Self {
        let plain = letter.to_string();
        let mut percent = String::new();
        for byte in plain.bytes() {
            percent.push_str(&format!("%{byte:02x}"));
        }
        let mut json = String::new();
        for unit in letter.encode_utf16(&mut [0; 2]) {
            json.push_str(&format!("\\u{unit:04x}"));
        }
        let mut escapes = vec![percent, json];
        let short = match letter {
            // As forms are encoded.
            ' ' => Some("+"),
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\u{8}' => Some("\\b"),
            '\u{c}' => Some("\\f"),
            '\n' => Some("\\n"),
            '\r' => Some("\\r"),
            '\t' => Some("\\t"),
            _ => None,
        };
        escapes.extend(short.map(str::to_owned));
        Self { plain, escapes }
    }

    /// Every spelling.
    fn spellings(&self) -> impl Iterator<Item = &str> {
        let plain = Some(self.plain.as_str()).filter(|plain| !plain.is_empty());
        plain.into_iter().chain(self.escapes.iter().map(String::as_str))
    }

    fn may_start(&self, byte: u8) -> bool {
        let plain = self.plain.as_bytes().first() == Some(&byte);
        plain || self.escapes.iter().any(|escape| escape.as_bytes()[0].eq_ignore_ascii_case(&byte))
    }

    /// Reads this character at the start of a text: the length of each spelling that is there, and whether the text
    /// ends before it could be known.
    fn read(&self, text: &[u8], open: &mut bool, mut found: impl FnMut(usize)) {
        let mut read = |spelling: &[u8], same: fn(&[u8], &[u8]) -> bool| {
            let shared = spelling.len().min(text.len());
            if !spelling.is_empty() && same(&spelling[..shared], &text[..shared]) {
                if shared == spelling.len() { found(shared) } else { *open = true }
            }
        };
        read(self.plain.as_bytes(), |left, right| left == right);
        for escape in &self.escapes {
            read(escape.as_bytes(), <[u8]>::eq_ignore_ascii_case);
        }
    }
}

/// A secret as it is, and as servers commonly echo it.
pub(super) fn forms(secret: &str) -> Vec<Form> {
    let mut encoded = BTreeSet::new();
    for engine in [&data_encoding::BASE64_NOPAD, &data_encoding::BASE64URL_NOPAD] {
        // A secret inside a longer encoded text, such as `Basic` credentials, may begin at any of three offsets; of
        // each only the characters that depend on the secret alone are compared.
        for offset in 0..3 {
            let mut bytes = vec![0; offset];
            bytes.extend_from_slice(secret.as_bytes());
            let first = [0, 2, 3][offset];
            let last = bytes.len() * 8 / 6;
            encoded.insert(engine.encode(&bytes)[first..last].to_owned());
        }
    }
    let mut forms: Vec<Form> = encoded.iter().map(|text| Form::of(text)).collect();
    forms.push(Form::of(secret));
    if !secret.is_ascii() {
        // As a service shows it that reads the bytes of a header as ISO 8859-1.
        let misread: String = secret.bytes().map(char::from).collect();
        forms.push(Form::of(&misread));
    }
    forms.push(Form::hexadecimal(secret.as_bytes()));
    forms
}

/// The bits of the number that a secret is, unless it is as small as the numbers that stand everywhere.
pub(super) fn number(secret: &str) -> Option<u64> {
    let number: f64 = secret.trim().parse().ok()?;
    (number.is_finite() && number.to_string().len() >= SHORTEST).then(|| number.to_bits())
}
