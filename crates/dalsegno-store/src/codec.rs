//! The stored form of bodies and snapshots: MessagePack maps with named fields.
//!
//! Names cost a few bytes a record and buy the right to add fields: an older record lacks the new field and gets its
//! default, and an older release skips a field that it does not know.

use std::io;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

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
    pub(crate) what: &'static str,
    pub(crate) source: rmp_serde::decode::Error,
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
