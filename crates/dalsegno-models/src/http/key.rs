//! The key of a provider: read when it is needed, never kept, never printed. That of AWS has several parts.
//!
//! Some providers repeat the key in what they answer. It is taken out of their words before these are cut to a length,
//! since what a cut leaves of it nobody would find again.

use std::borrow::Cow;
use std::sync::Arc;

use reqwest::header::HeaderValue;

use dalsegno_core::{ModelReply, ReplyPart};
use dalsegno_secrets::{Reveal, RevealError, SCRUBBED, SHORTEST, Secret};
use serde_json::Value;

use super::aws::AwsKey;
use super::{chat, gemini};
use crate::model::{ModelError, ModelErrorKind};

/// The fewest bytes at the beginning of a key that are taken for it where a text ends within it.
const BEGINNING: usize = 4;

/// Where the key of a model is.
pub(super) enum Key {
    /// A text that stands in a header.
    Header(Arc<dyn Reveal>),
    /// An access key of AWS, which signs each request.
    Aws(AwsKey),
}

impl Key {
    /// Reads the key.
    pub(super) async fn reveal(&self) -> Result<Revealed, ModelError> {
        match self {
            Self::Header(key) => Ok(Revealed::header(key.reveal().await.map_err(unreadable)?)),
            Self::Aws(key) => key.reveal().await,
        }
    }

    /// Reads a key to use instead of one that the endpoint refused; none if there is no other.
    pub(super) async fn renew(&self, refused: &Revealed) -> Result<Option<Revealed>, ModelError> {
        match (self, &refused.read_from) {
            (Self::Header(key), Some(refused)) => {
                Ok(key.renew(refused).await.map_err(unreadable)?.map(Revealed::header))
            }
            (Self::Aws(key), _) => key.renew(refused).await,
            (Self::Header(_), None) => Ok(None),
        }
    }
}

/// The values of a key as of now.
pub(super) struct Revealed {
    /// The text of a header; or the id of an access key, its secret and, of one that expires, the token of its session.
    pub(super) parts: Vec<Secret>,
    /// The one secret that they were read from, if it is one.
    pub(super) read_from: Option<Secret>,
}

impl Revealed {
    fn header(key: Secret) -> Self {
        Self { parts: vec![key.clone()], read_from: Some(key) }
    }
}

/// The error for a key that cannot be read.
pub(super) fn unreadable(error: RevealError) -> ModelError {
    let message = format!("cannot read the key of the model: {error}");
    // Nothing was sent.
    let kind = if error.transient { ModelErrorKind::Unavailable } else { ModelErrorKind::Refused };
    ModelError { missing_secret: error.missing, ..ModelError::new(kind, message) }
}

/// The key behind a prefix, as a header that is marked as sensitive.
pub(super) fn header(key: &Secret, prefix: &str) -> Result<HeaderValue, ModelError> {
    let mut value = HeaderValue::try_from(format!("{prefix}{}", key.expose())).map_err(|_| {
        let message = "the model's key has characters that no header can hold: check that it is the key alone, \
                       on one line";
        ModelError::new(ModelErrorKind::Refused, message)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// What must not be told of one exchange: the values of the key, where there is one.
#[derive(Clone, Copy)]
pub(super) struct Hidden<'k>(&'k [Secret]);

impl<'k> Hidden<'k> {
    pub(super) fn new(key: Option<&'k Revealed>) -> Self {
        Self(key.map_or(&[], |key| &key.parts))
    }

    /// The values that are long enough to be told from other text.
    fn values(self) -> impl Iterator<Item = &'k [u8]> {
        self.0.iter().map(|secret| secret.expose().as_bytes()).filter(|value| value.len() >= SHORTEST)
    }

    /// The text without the key, which may stand in it as itself, escaped as in JSON, or percent-encoded, in any
    /// mixture. A text may end within it.
    pub(super) fn scrub(self, text: &str) -> Cow<'_, str> {
        if self.values().next().is_none() {
            return Cow::Borrowed(text);
        }
        let (bytes, mut clean, mut kept, mut at) = (text.as_bytes(), String::new(), 0, 0);
        while at < bytes.len() {
            match self.at(&bytes[at..]) {
                // A key is whole characters and so are its spellings, so both ends are boundaries.
                Some(length) => {
                    clean.push_str(&text[kept..at]);
                    clean.push_str(SCRUBBED);
                    at += length;
                    kept = at;
                }
                None => at += 1,
            }
        }
        if kept == 0 {
            return Cow::Borrowed(text);
        }
        clean.push_str(&text[kept..]);
        Cow::Owned(clean)
    }

    /// The error without the key.
    pub(super) fn error(self, mut error: ModelError) -> ModelError {
        if let Cow::Owned(message) = self.scrub(&error.message) {
            error.message = message;
        }
        error
    }

    /// The reply without the key in what is plain text but opaque to everyone else. Other opaque parts are signed or
    /// encrypted, and refused if a byte is missing.
    pub(super) fn reply(self, mut reply: ModelReply) -> ModelReply {
        let texts = reply.parts.iter_mut().flat_map(|part| match part {
            ReplyPart::Opaque { provider, data } => match provider.as_str() {
                chat::PROVIDER => plain(data),
                gemini::PROVIDER => gemini::plain(data).into_iter().collect(),
                _ => Vec::new(),
            },
            ReplyPart::Text(_) | ReplyPart::Call(_) => Vec::new(),
        });
        for text in texts {
            if let Cow::Owned(clean) = self.scrub(text) {
                *text = clean;
            }
        }
        reply
    }

    /// How many bytes a value of the key takes at the beginning of a text, if one stands there or the text ends within it.
    fn at(self, text: &[u8]) -> Option<usize> {
        self.values().filter_map(|value| spelled_at(value, text)).max()
    }
}

/// How many bytes a value takes at the beginning of a text, if it stands there or the text ends within it.
fn spelled_at(value: &[u8], text: &[u8]) -> Option<usize> {
    let begins = |byte: u8| value.first() == Some(&byte) || matches!(byte, b'%' | b'\\');
    if !text.first().is_some_and(|byte| begins(*byte)) {
        return None;
    }
    // A key may itself hold what looks like an escape, so that a text can be read in several ways: these are the
    // places where what was read of the key so far may end.
    let mut ends = vec![0];
    for (index, byte) in value.iter().enumerate() {
        let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
        let (high, low) = (digit(byte >> 4), digit(byte & 15));
        let escaped = [b'\\', *byte];
        let itself = &escaped[1..];
        let escaped = if byte.is_ascii_alphanumeric() { itself } else { &escaped };
        let spellings = [itself, escaped, &[b'%', high, low], &[b'\\', b'u', b'0', b'0', high, low]];
        let mut next = Vec::new();
        for (end, spelling) in ends.iter().flat_map(|end| spellings.map(|spelling| (*end, spelling))) {
            let rest = &text[end..];
            let read = rest.len().min(spelling.len());
            if !is_spelled(&rest[..read], &spelling[..read]) {
                continue;
            }
            if read == spelling.len() {
                next.push(end + read);
            } else if index >= BEGINNING {
                // The text ends here, perhaps within an escape.
                return Some(text.len());
            }
        }
        next.sort_unstable();
        next.dedup();
        ends = next;
    }
    ends.pop()
}

/// What is plain text of an opaque part of Chat Completions.
fn plain(data: &mut Value) -> Vec<&mut String> {
    let members = data.as_object_mut().into_iter().flatten();
    let texts = members.filter_map(|(name, value)| match value {
        Value::String(text) if chat::PLAIN.contains(&name.as_str()) => Some(text),
        _ => None,
    });
    texts.collect()
}

/// Whether a text is what it should be; the digits of an escape may be of either case.
fn is_spelled(text: &[u8], expected: &[u8]) -> bool {
    if expected.len() == 1 { text == expected } else { text.eq_ignore_ascii_case(expected) }
}
