//! Keys that are sent to the caller's line, such as those by which a switchboard is told where to connect the call.
//!
//! They are sent one at a time, each after the provider has sent the one before: so a key that is refused is the last one, and it is
//! known how many were sent. None is ever sent again: where an answer is missing, the provider may have sent the key.

use alloc::borrow::ToOwned as _;
use alloc::collections::VecDeque;
use alloc::string::String;

use dalsegno_core::OperationId;

use super::{DuplexSession, sent};
use crate::port::ModelSession as _;
use crate::session::{KeysEnd, NoKeys, Output};

/// Keys that are being sent.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    operation: OperationId,
    left: VecDeque<char>,
    /// How many were sent.
    sent: usize,
    /// The id of the frame that is not answered.
    waits_for: String,
}

impl DuplexSession {
    pub(super) fn begin_keys(&mut self, operation: OperationId, keys: &str) -> Result<Output, NoKeys> {
        if self.keys.is_some() || !self.is_open() {
            return Err(NoKeys::NotNow);
        }
        let mut output = Output::default();
        self.keys = Some(Keys { operation, left: keys.chars().collect(), sent: 0, waits_for: String::new() });
        self.next_key(&mut output);
        Ok(output)
    }

    fn next_key(&mut self, output: &mut Output) {
        let Some(keys) = &mut self.keys else { return };
        match keys.left.pop_front() {
            Some(key) => {
                // No other frame has this id, whichever process sent it.
                keys.waits_for = alloc::format!("{}-{}", keys.operation, keys.sent + 1);
                output.frames.push(sent::key(&keys.waits_for, key));
            }
            None => {
                self.keys = None;
                output.keys = Some(KeysEnd::Sent);
            }
        }
    }

    /// The provider has sent a key.
    pub(super) fn key_sent(&mut self, about: Option<&str>, output: &mut Output) {
        // Some servers do not name what they answer.
        match self.keys.as_mut().filter(|keys| about.is_none_or(|about| about == keys.waits_for)) {
            Some(keys) => {
                keys.sent += 1;
                self.next_key(output);
            }
            None => self.counts.stray += 1,
        }
    }

    /// The provider refuses the frame of this id; whether that is a key.
    pub(super) fn key_refused(&mut self, about: &str, reason: &str, output: &mut Output) -> bool {
        let refused = self.keys.take_if(|keys| keys.waits_for == about);
        output.keys =
            refused.as_ref().map(|keys| KeysEnd::Refused { sent: keys.sent, reason: reason.to_owned() });
        refused.is_some()
    }

    /// The connection is lost, or the call is over: the answer to the last key does not come.
    pub(super) fn break_off_keys(&mut self, output: &mut Output) {
        if let Some(keys) = self.keys.take() {
            let reason = "the connection to the session was lost before the provider had said that it sent all of them";
            output.keys = Some(KeysEnd::Unknown { sent: keys.sent, reason: reason.to_owned() });
        }
    }
}
