//! Messages for the owner of a run, left by anybody: how they are stored and how many may wait.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use dalsegno_core::{Answer, OperationId, RunId};
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
    /// Something below it may have changed: a child run has ended, or has an answer.
    Look,
    /// Somebody answers a question of the run.
    Answer {
        /// The operation that waits.
        operation: OperationId,
        /// How many attempts it had when it was asked: the answer is none to a question after a later one.
        attempts: u32,
        /// The answer, checked by whoever sent it.
        answer: Answer,
    },
    /// The live model of a call is to be given a note.
    Say {
        /// The words.
        text: String,
        /// Who says it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The run is to stand still: nothing new starts, and what is under way finishes.
    Pause {
        /// Who wants it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A run that was paused is to continue.
    Continue {
        /// Who wants it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
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

impl Message {
    /// What the commit that ends a run tells the runs below it.
    pub fn parent_ended() -> Self {
        Self::Cancel { by: None, reason: Some("the run above it has ended".to_owned()) }
    }
}

/// A message that cannot be posted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// There is no such run.
    #[error("the journal has no run {run}")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// The run is over.
    #[error("run {run} has ended ({status}), so it reads no more messages: start a new run")]
    Ended {
        /// The run.
        run: RunId,
        /// How it ended.
        status: RunStatus,
    },
    /// An archive brought the run, and nobody performs it here.
    #[error(
        "run {run} came in an archive and is foreign: it is not executed, so it reads no messages; fork it"
    )]
    Foreign {
        /// The run.
        run: RunId,
    },
    /// Too many messages wait.
    #[error(
        "the inbox of run {run} is full, with {WAITING_MAX} messages: resume the run, so that it reads them"
    )]
    Full {
        /// The run.
        run: RunId,
    },
    /// The message is too long.
    #[error("the message has {found} bytes, expected at most {MAX_MESSAGE}: send a shorter one")]
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
    pub(crate) fn open(&self, run: RunId) -> Opened {
        let number = self.number;
        let message = if self.is_sound(run) {
            // The bytes are what was written; if they cannot be read, another release wrote them.
            decode("message", &self.bytes).map_err(|source| ReadError::NewerMessage { run, number, source })
        } else {
            Err(ReadError::DamagedMessage { run, number })
        };
        (number, message)
    }

    fn is_sound(&self, run: RunId) -> bool {
        self.checksum == checksum(run, self.number, &self.bytes)
    }

    /// The same message for the run that goes on; none if it is damaged, since a new seal would hide that. What a newer
    /// release wrote is passed on unread.
    pub(crate) fn pass_on(self, from: RunId, to: RunId, number: u64) -> Option<Self> {
        if self.is_sound(from) {
            return Some(Self::seal(to, number, self.bytes));
        }
        tracing::warn!(run = %from, number = self.number, "a damaged message is lost with the run that ends");
        None
    }
}

/// The number of a message, and the message or why it cannot be read.
pub(crate) type Opened = (u64, Result<Message, ReadError>);

/// Which unreadable messages were told already. An owner looks often, and is told once.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<BTreeSet<(RunId, u64)>>);

impl Told {
    /// Most that are remembered. With more of them they are told again.
    const MAX: usize = 10_000;

    /// Leaves out those that cannot be read.
    pub(crate) fn readable(
        &self,
        run: RunId,
        messages: impl IntoIterator<Item = Opened>,
    ) -> Vec<(u64, Message)> {
        let readable = messages.into_iter().filter_map(|(number, message)| match message {
            Ok(message) => Some((number, message)),
            Err(error) => {
                let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if told.len() >= Self::MAX {
                    told.clear();
                }
                if told.insert((run, number)) {
                    tracing::warn!(%run, number, %error, "a message is left unread");
                }
                None
            }
        });
        readable.collect()
    }
}

/// What every message is hashed with first: part of the stored format, as [`chain`](crate::chain)'s word is.
const MESSAGE: &[u8] = b"segno message 1";

fn checksum(run: RunId, number: u64, bytes: &[u8]) -> Checksum {
    let mut hasher = blake3::Hasher::new();
    hasher.update(MESSAGE).update(run.as_bytes()).update(&number.to_le_bytes()).update(bytes);
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
        let stored = StoredMessage::seal(RUN, 3, bytes);
        let (_, error) = stored.open(RUN);
        assert!(matches!(error, Err(ReadError::NewerMessage { number: 3, .. })), "{error:?}");
        // It is for whoever can read it.
        let next = RunId::from_bytes([8; 16]);
        let passed = stored.clone().pass_on(RUN, next, 1).unwrap();
        assert!(matches!(passed.open(next), (1, Err(ReadError::NewerMessage { .. }))));
        assert!(Told::default().readable(RUN, [stored.open(RUN)]).is_empty());
    }

    #[test]
    fn a_damaged_message_is_not_sealed_anew() {
        let message = Message::Cancel { by: None, reason: None };
        let mut stored = StoredMessage::seal(RUN, 3, encode_message(&message).unwrap());
        stored.bytes[1] ^= 1;
        assert!(stored.pass_on(RUN, RunId::from_bytes([8; 16]), 1).is_none());
    }

    #[test]
    fn a_message_stands_for_its_run_and_its_number() {
        let message = Message::Cancel { by: Some("ada".into()), reason: None };
        let stored = StoredMessage::seal(RUN, 3, encode_message(&message).unwrap());
        let (number, opened) = stored.open(RUN);
        assert_eq!((number, opened.unwrap()), (3, message));
        assert!(stored.open(RunId::from_bytes([8; 16])).1.is_err());
        assert!(StoredMessage { number: 4, ..stored }.open(RUN).1.is_err());
    }

    #[test]
    fn a_message_above_the_limit_is_refused() {
        let message = Message::Cancel { by: None, reason: Some("x".repeat(MAX_MESSAGE)) };
        assert!(matches!(encode_message(&message), Err(PostError::TooLong { .. })));
    }
}
