//! The stored form of bodies and snapshots: MessagePack maps with named fields.
//!
//! Names cost a few bytes a record and buy the right to add fields: an older record lacks the new field and gets its
//! default, and an older release skips a field that it does not know.

use std::io::{self, Read as _};

use dalsegno_core::Digest;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::blob::digest_bytes;
use crate::pack::{LONG, join};
use crate::record::Body;

/// A value that has no stored form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A part of the value has no stored form.
    #[error("cannot encode a {what}")]
    Form {
        /// What kind of value.
        what: &'static str,
        /// The cause.
        source: rmp_serde::encode::Error,
    },
    /// The value cannot be compressed: the process has no memory left.
    #[error("cannot compress a {what}")]
    Compress {
        /// What kind of value.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The value is nested so deeply that reading it back could be refused.
    #[error(
        "cannot encode a {what} that is nested more than {MAX_DEPTH} levels deep: return a flatter value"
    )]
    Depth {
        /// What kind of value.
        what: &'static str,
    },
}

/// Deepest nesting of a stored value. The decoder stops at 1,024 to save its stack, and JSON that came as text is at
/// most 128 deep; in between is room for both.
const MAX_DEPTH: usize = 512;

/// Bytes that are no stored form of the value.
#[derive(Debug, thiserror::Error)]
#[error("cannot decode a {what}")]
pub struct DecodeError {
    what: &'static str,
    source: rmp_serde::decode::Error,
}

/// Encodes a record's body.
///
/// # Errors
/// When a JSON value in it is nested too deeply to be read back.
pub fn encode_body(body: &Body) -> Result<Vec<u8>, EncodeError> {
    encode("record body", body)
}

/// Decodes a record's body.
///
/// # Errors
/// When the bytes are not a body that this release knows.
pub fn decode_body(bytes: &[u8]) -> Result<Body, DecodeError> {
    decode("record body", bytes)
}

/// Encodes a value of another kind.
pub(crate) fn encode<T: Serialize>(what: &'static str, value: &T) -> Result<Vec<u8>, EncodeError> {
    let bytes = rmp_serde::to_vec_named(value).map_err(|source| EncodeError::Form { what, source })?;
    // The encoder has no limit of its own. What it wrote must be readable for ever, so the nesting is walked once. Each
    // level takes a byte at least, so what is short is not deep.
    if bytes.len() <= MAX_DEPTH {
        return Ok(bytes);
    }
    let mut walk = rmp_serde::Deserializer::from_read_ref(bytes.as_slice());
    walk.set_max_depth(MAX_DEPTH);
    match IgnoredAny::deserialize(&mut walk) {
        Ok(_) => Ok(bytes),
        Err(_) => Err(EncodeError::Depth { what }),
    }
}

/// The compressor's fastest way: what is long and much alike becomes a tenth of it all the same.
const LEVEL: i32 = 1;

/// Longest compressed value that is decoded, before it was compressed: 1 GiB, more than a file can hold of one plain.
const MAX_DECODED: u64 = 1 << 30;

/// Strings that were left out of encoded bytes: where each stands in the whole ones, in this order, and its digest.
pub(crate) type LeftOut = Vec<(usize, Digest)>;

/// A value that was compressed, without the long strings that are kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compressed {
    pub(crate) left_out: LeftOut,
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

/// Bytes that go through the compressor at once.
const BUFFER: usize = 64 << 10;

/// Passes on what is written, but for long strings that are kept elsewhere. MessagePack writes a string at once, after
/// its length.
struct Sieve<'a, W> {
    writer: W,
    /// The number of plain bytes so far.
    place: usize,
    is_kept: &'a mut dyn FnMut(Digest) -> bool,
    left_out: LeftOut,
}

impl<W: io::Write> io::Write for Sieve<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let digest =
            (bytes.len() >= LONG).then(|| digest_bytes(bytes)).filter(|digest| (self.is_kept)(*digest));
        match digest {
            Some(digest) => self.left_out.push((self.place, digest)),
            None => self.writer.write_all(bytes)?,
        }
        self.place += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Decodes what [`encode_compressed`] wrote; `kept` finds the strings that were left out. The plain bytes are held
/// meanwhile: read in small pieces, their many short texts would take several times as long.
pub(crate) fn decode_compressed<T: DeserializeOwned>(
    what: &'static str,
    compressed: &[u8],
    left_out: &[(usize, Digest)],
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
    let parts = left_out.iter().map(|(place, digest)| {
        let part = kept(*digest)?;
        room = room.checked_sub(part.len() as u64)?;
        Some((*place, part))
    });
    let whole = join(&plain, parts).ok_or_else(|| {
        unreadable(io::Error::new(io::ErrorKind::NotFound, "a string that it refers to is missing"))
    })?;
    decode(what, &whole)
}

/// Decodes a value of another kind.
pub(crate) fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, DecodeError> {
    rmp_serde::from_slice(bytes).map_err(|source| DecodeError { what, source })
}

#[cfg(test)]
mod tests {
    use dalsegno_core::{Failure, FailureCode, Outcome};

    use super::*;
    use crate::record::{AttemptCause, Start};

    #[test]
    fn a_field_that_this_release_does_not_know_is_skipped() {
        #[derive(Serialize)]
        #[serde(rename_all = "snake_case")]
        enum Later {
            Attempted { attempt: u32, cause: AttemptCause, start: Start, host: &'static str },
        }
        let (attempt, cause, start) = (2, AttemptCause::Recovered, Start::Now);
        let bytes = rmp_serde::to_vec_named(&Later::Attempted { attempt, cause, start, host: "b" }).unwrap();
        assert_eq!(decode_body(&bytes).unwrap(), Body::Attempted { attempt, cause, start, reason: None });
    }

    #[test]
    fn a_kind_that_this_release_does_not_know_is_an_error() {
        let bytes = rmp_serde::to_vec_named(&serde_json::json!({"teleported": {"to": 1}})).unwrap();
        assert!(decode_body(&bytes).is_err());
    }

    #[test]
    fn cut_bytes_are_an_error_at_every_length() {
        let outcome = Outcome::Failed(Failure::new(FailureCode::Timeout, "no answer"));
        let bytes = encode_body(&Body::Resolved { outcome, attempts: 3, elapsed_ms: 30_000 }).unwrap();
        for length in 0..bytes.len() {
            assert!(decode_body(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn compressed_bytes_that_are_cut_or_changed_are_an_error_or_another_value_but_never_a_panic() {
        let value = serde_json::json!({ "step": 1, "text": "x".repeat(500), "list": [1, 2, null, 4.5] });
        let Compressed { bytes, .. } = encode_compressed("value", &value, &mut |_| true).unwrap();
        let read = |bytes: &[u8]| decode_compressed::<serde_json::Value>("value", bytes, &[], &mut |_| None);
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
        assert_eq!(found.left_out.iter().map(|(_, digest)| *digest).collect::<Vec<_>>(), [kept[0]; 2]);
        let read = |left_out: &[(usize, Digest)], text: Option<&str>| {
            let mut kept = |_| text.map(|text| text.as_bytes().to_vec());
            decode_compressed::<[String; 5]>("texts", &found.bytes, left_out, &mut kept)
        };
        assert_eq!(read(&found.left_out, Some(&texts[0])).unwrap(), texts);
        assert!(read(&found.left_out, None).is_err());
        assert!(read(&found.left_out, Some("shorter")).is_err());
        assert!(read(&found.left_out[1..], Some(&texts[0])).is_err());
        let far = [(usize::MAX, kept[0])];
        assert!(read(&far, Some(&texts[0])).is_err());
    }

    #[test]
    fn as_many_levels_as_may_be_are_read_back() {
        let nested = |levels| {
            let nest = |value, _| serde_json::Value::Array(vec![value]);
            let value = (0..levels).fold(serde_json::Value::Null, nest);
            let outcome = Outcome::ToolReturned(dalsegno_core::ToolReturn::structured(value));
            encode_body(&Body::late(outcome))
        };
        for levels in 450..MAX_DEPTH {
            if let Ok(bytes) = nested(levels) {
                assert!(decode_body(&bytes).is_ok(), "{levels}");
            }
        }
        assert!(nested(450).is_ok());
        assert!(nested(MAX_DEPTH).is_err());
    }

    #[test]
    fn a_value_nested_too_deeply_to_be_read_back_is_refused() {
        let mut value = serde_json::Value::Null;
        for _ in 0..600 {
            value = serde_json::Value::Array(vec![value]);
        }
        let outcome = Outcome::ToolReturned(dalsegno_core::ToolReturn::structured(value));
        assert!(encode_body(&Body::late(outcome)).is_err());
    }
}
