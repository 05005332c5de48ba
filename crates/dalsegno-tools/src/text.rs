//! Text and JSON in which secrets are references, never values.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::path::Path;

/// What stands where a secret would.
pub(crate) const HIDDEN: &str = "[secret]";

/// Text with references to secrets, which a shell resolves when it sends it.
///
/// `Display` shows `[secret]` for each of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Text {
    /// The parts, in order.
    pub parts: Vec<TextPart>,
}

/// A part of a [`Text`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextPart {
    /// Text as it is.
    Literal(String),
    /// A secret's text.
    Secret(SecretReference),
}

/// A place for a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SecretReference {
    /// Which: `secrets.<name>` of the call's toolkit, or a secret path of the context such as `user.auth_token`.
    pub path: Path,
    /// How its text is written here.
    #[serde(default)]
    pub encoding: Encoding,
}

/// How a value is written into its place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// As it is.
    #[default]
    Plain,
    /// Percent-encoded, as one part of a URL: all but letters, digits, `-`, `.`, `_` and `~`.
    Percent,
}

/// A secret that a request needs and nobody has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the secret `{path}` is not there")]
pub struct MissingSecret {
    /// Which.
    pub path: Path,
}

impl Text {
    /// Text without secrets.
    pub fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::default() } else { Self { parts: alloc::vec![TextPart::Literal(text)] } }
    }

    /// Returns the text with its secrets, as it is sent.
    ///
    /// # Errors
    /// Fails if `resolve` does not know one of them.
    pub fn resolve(&self, mut resolve: impl FnMut(&Path) -> Option<String>) -> Result<String, MissingSecret> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TextPart::Literal(literal) => text.push_str(literal),
                TextPart::Secret(SecretReference { path, encoding }) => {
                    let secret = resolve(path).ok_or_else(|| MissingSecret { path: path.clone() })?;
                    match encoding {
                        Encoding::Plain => text.push_str(&secret),
                        Encoding::Percent => percent_encode(&secret, "", &mut text),
                    }
                }
            }
        }
        Ok(text)
    }

    /// Returns the references, in order.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretReference> {
        self.parts.iter().filter_map(|part| match part {
            TextPart::Secret(secret) => Some(secret),
            TextPart::Literal(_) => None,
        })
    }

    /// Returns the text where it holds no secret.
    pub fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [TextPart::Literal(text)] => Some(text),
            _ => None,
        }
    }

    pub(crate) fn push_literal(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(TextPart::Literal(last)) = self.parts.last_mut() {
            last.push_str(text);
        } else {
            self.parts.push(TextPart::Literal(text.to_owned()));
        }
    }

    pub(crate) fn push_secret(&mut self, path: Path, encoding: Encoding) {
        self.parts.push(TextPart::Secret(SecretReference { path, encoding }));
    }

    /// The bytes of all literal parts.
    pub(crate) fn len(&self) -> usize {
        self.parts
            .iter()
            .map(|part| match part {
                TextPart::Literal(text) => text.len(),
                TextPart::Secret(_) => 0,
            })
            .sum()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            TextPart::Literal(text) => f.write_str(text),
            TextPart::Secret(_) => f.write_str(HIDDEN),
        })
    }
}

/// A JSON value some of whose strings hold secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// The value, with `[secret]` where secrets stand.
    pub value: Value,
    /// The strings that hold secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretString>,
}

/// A string of a [`Payload`] that holds secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretString {
    /// Its JSON pointer in the value.
    pub pointer: String,
    /// Its text.
    pub text: Text,
}

impl Payload {
    /// Returns the value with its secrets, as it is sent.
    ///
    /// # Errors
    /// Fails if `resolve` does not know one of them.
    pub fn resolve(&self, mut resolve: impl FnMut(&Path) -> Option<String>) -> Result<Value, MissingSecret> {
        let mut value = self.value.clone();
        for secret in &self.secrets {
            let text = secret.text.resolve(&mut resolve)?;
            if let Some(place) = value.pointer_mut(&secret.pointer) {
                *place = Value::String(text);
            }
        }
        Ok(value)
    }
}

/// Percent-encodes all but unreserved characters and those of `keep`.
pub(crate) fn percent_encode(value: &str, keep: &str, text: &mut String) {
    for byte in value.bytes() {
        let char = char::from(byte);
        if byte.is_ascii_alphanumeric() || "-._~".contains(char) || (byte.is_ascii() && keep.contains(char)) {
            text.push(char);
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_shown_as_such_and_resolved_only_on_demand() {
        let path: Path = "secrets.key".parse().unwrap();
        let mut text = Text::literal("k=");
        text.push_secret(path.clone(), Encoding::Percent);
        text.push_literal("&x=1");
        assert_eq!(text.to_string(), "k=[secret]&x=1");
        assert_eq!(text.resolve(|_| Some("a b/é".into())), Ok("k=a%20b%2F%C3%A9&x=1".into()));
        assert_eq!(text.resolve(|_| None), Err(MissingSecret { path }));
        let payload = Payload {
            value: json!({"a": [HIDDEN]}),
            secrets: alloc::vec![SecretString { pointer: "/a/0".into(), text }],
        };
        assert_eq!(payload.resolve(|_| Some("s".into())), Ok(json!({"a": ["k=s&x=1"]})));
        let stored = serde_json::to_string(&payload).unwrap();
        assert_eq!(serde_json::from_str::<Payload>(&stored).unwrap(), payload);
    }
}
