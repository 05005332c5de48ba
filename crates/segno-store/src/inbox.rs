//! Messages for the owner of a run, left by anybody: how they are stored and how many may wait.

use segno_core::{Answer, OperationId, RunId};
use serde::{Deserialize, Serialize};

use crate::bytes::Checksum;
use crate::codec::{EncodeError, decode, encode};
use crate::error::{ReadError, StorageError};
use crate::run::RunStatus;

/// Most messages that wait for one run: far more than people write, and little to read at once.
pub(crate) const WAITING_MAX: u64 = 1_000;
/// Longest message, in bytes: what an outcome may have.
const MAX_MESSAGE: usize = 8 << 20;

/// A message for the owner of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// The run is to end.
    Cancel {
        /// Who wants it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Somebody answers a question of the run.
    Answer {
        /// The operation that waits.
        operation: OperationId,
        /// The answer, checked by whoever sent it.
        answer: Answer,
    },
    /// Some of its operations are to be given up.
    GiveUp {
        /// The operations; those that are over already stay as they are.
        operations: Vec<OperationId>,
        /// Who wants it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// A message that cannot be posted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// There is no such run.
    #[error("no run {run} in the journal")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// The run is over.
    #[error("run {run} has ended ({status}): no message can reach it")]
    Ended {
        /// The run.
        run: RunId,
        /// How it ended.
        status: RunStatus,
    },
    /// Too many messages wait.
    #[error(
        "{WAITING_MAX} messages wait for run {run}, and no more are taken: resume it, so that it reads them"
    )]
    Full {
        /// The run.
        run: RunId,
    },
    /// The message is too long.
    #[error("a message has {found} bytes, and at most {MAX_MESSAGE} are taken: send a shorter one")]
    TooLong {
        /// Its length in bytes.
        found: usize,
    },
    /// The message has no stored form.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The run's entry is damaged.
    #[error(transparent)]
    Unreadable(ReadError),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Encodes a message.
pub(crate) fn encode_message(message: &Message) -> Result<Vec<u8>, PostError> {
    let bytes = encode("message", message)?;
    if bytes.len() > MAX_MESSAGE {
        return Err(PostError::TooLong { found: bytes.len() });
    }
    Ok(bytes)
}

/// A message as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredMessage {
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) checksum: Checksum,
}

impl StoredMessage {
    /// Seals an encoded message of a run under its number.
    pub(crate) fn seal(run: RunId, number: u64, bytes: Vec<u8>) -> Self {
        let checksum = checksum(run, number, &bytes);
        Self { number, bytes, checksum }
    }

    /// Verifies and decodes it.
    pub(crate) fn open(&self, run: RunId) -> Result<(u64, Message), ReadError> {
        let number = self.number;
        if self.checksum != checksum(run, number, &self.bytes) {
            return Err(ReadError::DamagedMessage { run, number });
        }
        match decode("message", &self.bytes) {
            Ok(message) => Ok((number, message)),
            // The bytes are what was written; if they cannot be read, another release wrote them.
            Err(source) => Err(ReadError::NewerMessage { run, number, source }),
        }
    }
}

fn checksum(run: RunId, number: u64, bytes: &[u8]) -> Checksum {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"segno message 1").update(run.as_bytes()).update(&number.to_le_bytes()).update(bytes);
    let mut checksum = [0; 16];
    hasher.finalize_xof().fill(&mut checksum);
    Checksum::from_bytes(checksum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunId = RunId::from_bytes([7; 16]);

    #[test]
    fn a_message_of_a_kind_that_this_release_does_not_know_is_of_a_newer_release() {
        let bytes = rmp_serde::to_vec_named(&serde_json::json!({"teleport": {"to": 1}})).unwrap();
        let error = StoredMessage::seal(RUN, 3, bytes).open(RUN).unwrap_err();
        assert!(matches!(error, ReadError::NewerMessage { number: 3, .. }), "{error}");
    }

    #[test]
    fn a_message_stands_for_its_run_and_its_number() {
        let message = Message::Cancel { by: Some("ada".into()), reason: None };
        let stored = StoredMessage::seal(RUN, 3, encode_message(&message).unwrap());
        assert_eq!(stored.open(RUN).unwrap(), (3, message));
        assert!(stored.open(RunId::from_bytes([8; 16])).is_err());
        assert!(StoredMessage { number: 4, ..stored }.open(RUN).is_err());
    }

    #[test]
    fn a_message_above_the_limit_is_refused() {
        let message = Message::Cancel { by: None, reason: Some("x".repeat(MAX_MESSAGE)) };
        assert!(matches!(encode_message(&message), Err(PostError::TooLong { .. })));
    }
}
