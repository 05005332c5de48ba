//! The compressed form of large values that repeat what the journal keeps already: their long strings are left out, and
//! found again by their digests.
//!
//! A transcript has the results of tools as the model reads them, and a record has them as values. So a string can stand
//! in a value in two ways: as it is, or inside of a JSON text, where it is written with escapes.

use std::io::{self, Read as _};
use std::ops::Range;

use dalsegno_core::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blob::digest_bytes;
use crate::codec::{DecodeError, EncodeError, decode};
use crate::pack::{LONG, join};

/// The compressor's fastest way: what is long and much alike becomes a tenth of it all the same.
const LEVEL: i32 = 1;

/// Longest compressed value that is decoded, before it was compressed: 1 GiB, more than a file can hold of one plain.
const MAX_DECODED: u64 = 1 << 30;

/// Bytes that go through the compressor at once.
const BUFFER: usize = 64 << 10;

/// A string that was left out of encoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Where it stands in the whole bytes.
    pub(crate) place: usize,
    /// The digest of the string.
    pub(crate) digest: Digest,
    /// How it stands there.
    pub(crate) written: Written,
}

/// How a string stands in encoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// As it is.
    Plain,
    /// With the escapes of JSON, as `serde_json` writes them, and without the quotes around it.
    Escaped,
}

/// A value that was compressed, without the long strings that are kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compressed {
    /// In the order of their places.
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) bytes: Vec<u8>,
}

/// Encodes a value and compresses it meanwhile, without the long strings whose digests `is_kept` knows. It is for values
/// that may be lost: one that is nested more deeply than the decoder goes is found when it is read.
pub(crate) fn encode_compressed<T: Serialize>(
    what: &'static str,
    value: &T,
    is_kept: &mut dyn FnMut(Digest) -> bool,
) -> Result<Compressed, EncodeError> {
    let failed = |source| EncodeError::Compress { what, source };
    let encoder = zstd::stream::write::Encoder::new(Vec::new(), LEVEL).map_err(failed)?;
    // The encoder writes a few bytes at a time.
    let writer = io::BufWriter::with_capacity(BUFFER, encoder);
    let mut sieve = Sieve { writer, place: 0, is_kept, left_out: Vec::new() };
    rmp_serde::encode::write_named(&mut sieve, value).map_err(|source| EncodeError::Form { what, source })?;
    let Sieve { writer, left_out, .. } = sieve;
    let encoder = writer.into_inner().map_err(|error| failed(error.into_error()))?;
    Ok(Compressed { left_out, bytes: encoder.finish().map_err(failed)? })
}

/// Decodes what [`encode_compressed`] wrote; `kept` finds the strings that were left out. The plain bytes are held
/// meanwhile: read in small pieces, their many short texts would take several times as long.
pub(crate) fn decode_compressed<T: DeserializeOwned>(
    what: &'static str,
    compressed: &[u8],
    left_out: &[LeftOut],
    kept: &mut dyn FnMut(Digest) -> Option<Vec<u8>>,
) -> Result<T, DecodeError> {
    let unreadable = |source| DecodeError { what, source: rmp_serde::decode::Error::InvalidDataRead(source) };
    let mut plain = Vec::new();
    zstd::stream::read::Decoder::with_buffer(compressed)
        .and_then(|decoder| decoder.take(MAX_DECODED).read_to_end(&mut plain))
        .map_err(unreadable)?;
    if left_out.is_empty() {
        return decode(what, &plain);
    }
    let mut room = MAX_DECODED;
    let parts = left_out.iter().map(|one| {
        let part = kept(one.digest)?;
        let part = match one.written {
            Written::Plain => part,
            Written::Escaped => escaped(str::from_utf8(&part).ok()?),
        };
        room = room.checked_sub(part.len() as u64)?;
        Some((one.place, part))
    });
    let whole = join(&plain, parts).ok_or_else(|| {
        unreadable(io::Error::new(io::ErrorKind::NotFound, "a string that it refers to is missing"))
    })?;
    decode(what, &whole)
}

/// Passes on what is written, but for long strings that are kept elsewhere. MessagePack writes a string at once, after
/// its length.
struct Sieve<'a, W> {
    writer: W,
    /// The number of plain bytes so far.
    place: usize,
    is_kept: &'a mut dyn FnMut(Digest) -> bool,
    left_out: Vec<LeftOut>,
}

impl<W: io::Write> Sieve<'_, W> {
    /// Leaves the next bytes out if they are a string that is kept.
    fn leaves_out(&mut self, bytes: &[u8], string: &[u8], written: Written) -> bool {
        let digest = digest_bytes(string);
        let kept = (self.is_kept)(digest);
        if kept {
            self.left_out.push(LeftOut { place: self.place, digest, written });
            self.place += bytes.len();
        }
        kept
    }

    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.place += bytes.len();
        self.writer.write_all(bytes)
    }

    /// Passes a text on without the long strings of JSON that are kept.
    fn pass_json(&mut self, text: &[u8]) -> io::Result<()> {
        let (mut passed, mut from) = (0, 0);
        while let Some(inner) = next_string(text, from) {
            from = inner.end + 1;
            if inner.len() >= LONG {
                self.pass(&text[passed..inner.start])?;
                passed = if self.leaves_out_of_json(&text[inner.clone()]) { inner.end } else { inner.start };
            }
        }
        self.pass(&text[passed..])
    }

    /// Leaves the inside of a string of JSON out if the string is kept, and would be written in just this way.
    fn leaves_out_of_json(&mut self, inner: &[u8]) -> bool {
        if !inner.contains(&b'\\') {
            return self.leaves_out(inner, inner, Written::Plain);
        }
        let quoted = [b"\"", inner, b"\""].concat();
        let Ok(string) = serde_json::from_slice::<String>(&quoted) else { return false };
        escaped(&string) == inner && self.leaves_out(inner, string.as_bytes(), Written::Escaped)
    }
}

impl<W: io::Write> io::Write for Sieve<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() < LONG {
            self.pass(bytes)?;
        } else if !self.leaves_out(bytes, bytes, Written::Plain) {
            self.pass_json(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Finds the inside of the next string of JSON. The text need not be JSON: then what stands between two quotes is taken for
/// a string.
fn next_string(text: &[u8], from: usize) -> Option<Range<usize>> {
    let start = from + text.get(from..)?.iter().position(|byte| *byte == b'"')? + 1;
    let mut end = start;
    loop {
        match text.get(end)? {
            b'"' => return Some(start..end),
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
}

/// A string as it stands in a JSON text, without the quotes around it.
fn escaped(string: &str) -> Vec<u8> {
    let mut quoted = serde_json::Value::from(string).to_string().into_bytes();
    quoted.pop();
    quoted.split_off(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn compressed_bytes_that_are_cut_or_changed_are_an_error_or_another_value_but_never_a_panic() {
        let value = json!({ "step": 1, "text": "x".repeat(500), "list": [1, 2, null, 4.5] });
        let Compressed { bytes, .. } = encode_compressed("value", &value, &mut |_| true).unwrap();
        let read = |bytes: &[u8]| decode_compressed::<Value>("value", bytes, &[], &mut |_| None);
        assert_eq!(read(&bytes).unwrap(), value);
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length}");
        }
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[index] ^= 1 << bit;
                let _ = read(&changed);
            }
        }
    }

    #[test]
    fn long_strings_that_are_kept_elsewhere_are_left_out_and_found_again() {
        let long = |letter: &str, length| letter.repeat(length);
        let texts =
            [long("a", LONG), long("b", LONG - 1), long("c", 70_000), "short".into(), long("a", LONG)];
        let kept = [digest_bytes(texts[0].as_bytes()), digest_bytes(texts[1].as_bytes())];
        let found = encode_compressed("texts", &texts, &mut |digest| kept.contains(&digest)).unwrap();
        // Both copies of the kept one, but neither the short ones nor the one that is not kept.
        assert_eq!(found.left_out.iter().map(|one| one.digest).collect::<Vec<_>>(), [kept[0]; 2]);
        let read = |left_out: &[LeftOut], text: Option<&str>| {
            let mut kept = |_| text.map(|text| text.as_bytes().to_vec());
            decode_compressed::<[String; 5]>("texts", &found.bytes, left_out, &mut kept)
        };
        assert_eq!(read(&found.left_out, Some(&texts[0])).unwrap(), texts);
        assert!(read(&found.left_out, None).is_err());
        assert!(read(&found.left_out, Some("shorter")).is_err());
        assert!(read(&found.left_out[1..], Some(&texts[0])).is_err());
        let far = [LeftOut { place: usize::MAX, ..found.left_out[0] }];
        assert!(read(&far, Some(&texts[0])).is_err());
    }

    /// What is left out of a text when these strings are kept; the text is read back as it was.
    fn left_out_of(text: &str, kept: &[&str]) -> Vec<(Digest, Written)> {
        let kept: BTreeMap<Digest, &str> =
            kept.iter().map(|text| (digest_bytes(text.as_bytes()), *text)).collect();
        let found = encode_compressed("text", &text, &mut |digest| kept.contains_key(&digest)).unwrap();
        let mut find = |digest| kept.get(&digest).map(|text| text.as_bytes().to_vec());
        let read: String = decode_compressed("text", &found.bytes, &found.left_out, &mut find).unwrap();
        assert_eq!(read, text);
        found.left_out.iter().map(|one| (one.digest, one.written)).collect()
    }

    #[test]
    fn strings_in_json_texts_are_left_out_too() {
        let plain = "word ".repeat(1_000);
        let lines = "a \"quoted\" line\n\tand \u{1} \\ and é €\n".repeat(200);
        let (plain, lines) = (plain.as_str(), lines.as_str());
        let of = |text: &str| digest_bytes(text.as_bytes());
        let value = json!({ "number": 5, "\"": plain, "nested": [{ "lines": lines }, plain], "empty": "" });
        let expected =
            [(of(plain), Written::Plain), (of(lines), Written::Escaped), (of(plain), Written::Plain)];
        let mut found = left_out_of(&value.to_string(), &[plain, lines]);
        found.sort_unstable_by_key(|(_, written)| *written == Written::Escaped);
        let mut sorted = expected;
        sorted.sort_unstable_by_key(|(_, written)| *written == Written::Escaped);
        assert_eq!(found, sorted);
        // The text before and after it is not JSON, or is only part of it.
        let around = format!("It said: {value} \"and");
        assert_eq!(left_out_of(&around, &[plain]), [expected[0], expected[0]]);
        assert_eq!(left_out_of(&value.to_string(), &[]), []);
        // The whole text comes before what is in it.
        let whole = value.to_string();
        assert_eq!(left_out_of(&whole, &[plain, &whole]), [(of(&whole), Written::Plain)]);
    }

    #[test]
    fn a_string_with_other_escapes_than_ours_stays() {
        let lines = "line\n".repeat(1_000);
        let text = json!({ "lines": lines }).to_string();
        assert_eq!(left_out_of(&text, &[&lines]).len(), 1);
        for (ours, other) in [("\\n", "\\u000a"), ("l", "\\u006c"), ("i", "\\/i")] {
            assert_eq!(left_out_of(&text.replace(ours, other), &[&lines]), []);
        }
        // Half of a pair, an end within an escape, and no end at all.
        for end in ["\\ud800\"}", "\\", "\\\"", ""] {
            let broken = format!("{{\"lines\":\"{}{end}", "line\\n".repeat(1_000));
            assert_eq!(left_out_of(&broken, &[&lines]), []);
        }
    }

    #[test]
    fn a_part_that_is_no_text_is_not_put_into_json() {
        let lines = "line\n".repeat(1_000);
        let text: Value = json!({ "lines": lines });
        let found = encode_compressed("text", &text.to_string(), &mut |digest| {
            digest == digest_bytes(lines.as_bytes())
        });
        let Compressed { left_out, bytes } = found.unwrap();
        assert_eq!(left_out.len(), 1);
        let mut damaged = |_| Some(vec![0xff; lines.len()]);
        assert!(decode_compressed::<String>("text", &bytes, &left_out, &mut damaged).is_err());
    }
}
