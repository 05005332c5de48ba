//! One canonical byte form for whatever is hashed or compared.
//!
//! Object keys are sorted here, whatever order the map keeps (another crate of a build may switch on
//! `serde_json/preserve_order`), and every part is tagged and length-prefixed, so that no two values share a form.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// A BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Wraps thirty-two bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The thirty-two bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first sixteen bytes, enough for an id.
    pub(crate) fn truncated(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[..16]);
        bytes
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            let bytes = blake3::Hash::from_hex(text.as_bytes())
                .map_err(|_| de::Error::custom("a digest must be 64 hexadecimal digits"))?;
            Ok(Self(*bytes.as_bytes()))
        } else {
            deserializer.deserialize_bytes(DigestBytes)
        }
    }
}

struct DigestBytes;

impl<'de> Visitor<'de> for DigestBytes {
    type Value = Digest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thirty-two bytes of a digest")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Digest, E> {
        bytes.try_into().map(Digest).map_err(|_| E::invalid_length(bytes.len(), &self))
    }
}

/// The digest of a JSON value, the same for every order of its keys.
pub fn digest_json(value: &Value) -> Digest {
    let mut canonical = Canonical::new("json");
    canonical.json(value);
    canonical.finish()
}

/// Prints a JSON value with sorted keys: what a model or a person reads must not depend on the order that a map keeps.
pub(crate) fn print_json(value: &Value) -> String {
    let mut text = String::new();
    append_json(value, &mut text);
    text
}

fn append_json(value: &Value, text: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => append_display(value, text),
        Value::String(string) => append_text(string, text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                append_json(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (index, (name, field)) in sorted(fields).enumerate() {
                if index > 0 {
                    text.push(',');
                }
                append_text(name, text);
                text.push(':');
                append_json(field, text);
            }
            text.push('}');
        }
    }
}

fn append_text(string: &str, text: &mut String) {
    // Nearly all names and texts stand for themselves.
    if string.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        text.push('"');
        text.push_str(string);
        text.push('"');
    } else {
        append_display(&Value::from(string), text);
    }
}

fn append_display(value: &Value, text: &mut String) {
    // Text takes whatever is written to it.
    let _ = write!(text, "{value}");
}

/// The fields in the order of their names. Most maps have them in this order already.
fn sorted(fields: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let sort = || {
        let mut fields: Vec<_> = fields.iter().collect();
        fields.sort_unstable_by_key(|(name, _)| *name);
        fields
    };
    let resorted = (!fields.keys().is_sorted()).then(sort);
    let as_they_are = if resorted.is_some() { None } else { Some(fields.iter()) };
    as_they_are.into_iter().flatten().chain(resorted.into_iter().flatten())
}

/// Feeds a hasher with tagged, length-prefixed parts.
///
/// Parts are gathered in a buffer first: the hasher is fast on long input and slow on many short ones. Most forms are
/// short enough for it, and need neither memory nor a hasher that goes on.
pub(crate) struct Canonical {
    buffer: [u8; BUFFER],
    used: usize,
    /// What did not fit into the buffer.
    before: Option<Box<blake3::Hasher>>,
}

/// Bytes of the buffer: more than the form of a common entry, call or result.
const BUFFER: usize = 512;

impl Canonical {
    /// Begins a form; `domain` keeps forms of different kinds apart.
    pub(crate) fn new(domain: &str) -> Self {
        let mut canonical = Self { buffer: [0; BUFFER], used: 0, before: None };
        canonical.text(domain);
        canonical
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        self.append(bytes)
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.append(&number.to_le_bytes())
    }

    pub(crate) fn tag(&mut self, tag: u8) -> &mut Self {
        self.append(&[tag])
    }

    fn append(&mut self, bytes: &[u8]) -> &mut Self {
        match self.buffer.get_mut(self.used..self.used + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.used += bytes.len();
            }
            None => self.flush(bytes),
        }
        self
    }

    /// Hands what is in the buffer, and what has no room there, to the hasher.
    #[cold]
    fn flush(&mut self, bytes: &[u8]) {
        let hasher = self.before.get_or_insert_with(Box::default);
        hasher.update(&self.buffer[..self.used]).update(bytes);
        self.used = 0;
    }

    pub(crate) fn json(&mut self, value: &Value) -> &mut Self {
        match value {
            Value::Null => self.tag(b'n'),
            Value::Bool(false) => self.tag(b'f'),
            Value::Bool(true) => self.tag(b't'),
            Value::Number(number) => {
                if let Some(number) = number.as_u64() {
                    self.tag(b'u').number(number)
                } else if let Some(number) = number.as_i64() {
                    self.tag(b'i').number(number.cast_unsigned())
                } else {
                    self.tag(b'd').number(number.as_f64().unwrap_or(f64::NAN).to_bits())
                }
            }
            Value::String(text) => self.tag(b's').text(text),
            Value::Array(items) => {
                self.tag(b'a').number(items.len() as u64);
                for item in items {
                    self.json(item);
                }
                self
            }
            Value::Object(map) => {
                self.tag(b'o').number(map.len() as u64);
                for (name, field) in sorted(map) {
                    self.text(name).json(field);
                }
                self
            }
        }
    }

    pub(crate) fn finish(&self) -> Digest {
        let rest = &self.buffer[..self.used];
        let hash = match &self.before {
            None => blake3::hash(rest),
            Some(before) => before.clone().update(rest).finalize(),
        };
        Digest(*hash.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_digest_covers_all_parts_however_long_they_are() {
        for length in [0, 1, 900, 1_000, 1_015, 1_016, 1_017, 1_024, 1_025, 3_000, 100_000] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            let mut canonical = Canonical::new("length");
            canonical.text(&text).tag(7).text("end");
            let mut bytes = Vec::new();
            for part in ["length", &text] {
                bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
                bytes.extend_from_slice(part.as_bytes());
            }
            bytes.push(7);
            bytes.extend_from_slice(&3u64.to_le_bytes());
            bytes.extend_from_slice(b"end");
            assert_eq!(canonical.finish().as_bytes(), blake3::hash(&bytes).as_bytes(), "{length}");
            assert_eq!(canonical.finish(), canonical.finish());
        }
    }

    #[test]
    fn what_is_printed_is_what_any_printer_of_json_prints() {
        let value = json!({
            "plain": "text", "uml\u{e4}ut \u{1f600}": "\u{7f}", "quo\"te": "back\\slash", "control\n": "\u{0}\u{1f}\t",
            "numbers": [0, -1, 1.5, 1e300, u64::MAX, i64::MIN], "rest": [null, true, false, {}, []],
        });
        let printed = print_json(&value);
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), value);
        for text in ["", "a", "\"", "\\", "\n", "\u{0}", "\u{1f}", " ", "\u{7f}", "\u{e4}", "\u{2028}", "a/b"]
        {
            assert_eq!(print_json(&json!(text)), json!(text).to_string());
        }
    }

    #[test]
    fn the_order_of_keys_does_not_change_a_digest() {
        let one: Value = serde_json::from_str(r#"{"a": 1, "b": {"c": 2, "d": [3]}}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"b": {"d": [3], "c": 2}, "a": 1}"#).unwrap();
        assert_eq!(digest_json(&one), digest_json(&other));
    }

    #[test]
    fn values_that_differ_have_different_digests() {
        let values =
            [json!(null), json!(0), json!(0.0), json!(-1), json!("0"), json!([]), json!({}), json!([[], []])];
        for (index, left) in values.iter().enumerate() {
            for right in &values[index + 1..] {
                assert_ne!(digest_json(left), digest_json(right), "{left} {right}");
            }
        }
        assert_ne!(digest_json(&json!(["ab", "c"])), digest_json(&json!(["a", "bc"])));
    }
}
