//! One canonical byte form for whatever is hashed or compared.
//!
//! Object keys are sorted here, whatever order the map keeps (another crate of a build may switch on
//! `serde_json/preserve_order`), and every part is tagged and length-prefixed, so that no two values share a form.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

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
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
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
            for (index, (name, field)) in sorted(fields).into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                append_json(field, text);
            }
            text.push('}');
        }
    }
}

fn sorted(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    fields
}

/// Feeds a hasher with tagged, length-prefixed parts.
///
/// Parts are gathered in a buffer first: the hasher is fast on long input and slow on many short ones.
pub(crate) struct Canonical {
    bytes: Vec<u8>,
}

impl Canonical {
    /// Begins a form; `domain` keeps forms of different kinds apart.
    pub(crate) fn new(domain: &str) -> Self {
        let mut canonical = Self { bytes: Vec::with_capacity(256) };
        canonical.text(domain);
        canonical
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn tag(&mut self, tag: u8) -> &mut Self {
        self.bytes.push(tag);
        self
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
        Digest(*blake3::hash(&self.bytes).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
