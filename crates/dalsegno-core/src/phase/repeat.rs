//! A model that goes round in circles is told so once, then stopped.
//!
//! A call is the same as another one when tool, arguments and result are the same: who asks whether a job is done and is
//! told of progress each time gets on.

use alloc::string::String;
use alloc::vec::Vec;

use crate::canonical::{Canonical, Digest};
use crate::join::Settled;
use crate::reply::CallRequest;
use crate::state::CallRecord;

/// The longest sequence of calls that is looked for.
const LONGEST: usize = 4;

/// Finds repetitions in the calls of one reply.
pub(super) struct Watch<'a> {
    /// How often is too often; off where absent.
    limit: Option<usize>,
    calls: &'a mut Vec<CallRecord>,
    /// How many of the calls the model has read the results of.
    read: usize,
}

/// What a call repeats.
pub(super) enum Repeats {
    /// It does for the first time: the model is warned, in these words.
    First(String),
    /// It goes on after the warning.
    StillAfterWarning(String),
}

impl<'a> Watch<'a> {
    /// Begins a reply. `limit` is the configuration's; nothing repeats at the first time, so 1 counts as 2.
    pub(super) fn begin(limit: u32, calls: &'a mut Vec<CallRecord>) -> Self {
        let limit = (limit > 0).then(|| usize::try_from(limit).unwrap_or(usize::MAX).max(2));
        let read = calls.len();
        Self { limit, calls, read }
    }

    /// Takes a call and its result.
    pub(super) fn take(&mut self, call: Digest, settled: &Settled) -> Option<Repeats> {
        let times = self.limit?;
        let mut canonical = Canonical::new("result");
        canonical.text(&settled.content).tag(u8::from(settled.is_error));
        for file in &settled.files {
            canonical.bytes(file.digest.as_bytes());
        }
        self.calls.push(CallRecord { call, result: canonical.finish(), warned: false });
        let length = (1..=LONGEST).find(|length| repeats(self.calls, *length, times))?;
        let what = if length == 1 {
            alloc::format!("the same call {times} times with the same result")
        } else {
            alloc::format!("the same {length} calls {times} times in a row with the same results")
        };
        let window = self.calls.len() - length * times;
        let warned =
            self.calls.get(window..self.read).is_some_and(|calls| calls.iter().any(|call| call.warned));
        if warned {
            return Some(Repeats::StillAfterWarning(what));
        }
        if let Some(last) = self.calls.last_mut() {
            last.warned = true;
        }
        Some(Repeats::First(what))
    }

    /// Ends a reply: forgets what can be part of no repetition any more.
    pub(super) fn finish(self) {
        let most = self.limit.map_or(0, |times| times.saturating_mul(LONGEST));
        let excess = self.calls.len().saturating_sub(most);
        self.calls.drain(..excess);
    }
}

/// Says whether the last calls are `times` times the same `length` calls.
fn repeats(calls: &[CallRecord], length: usize, times: usize) -> bool {
    let Some(start) = length.checked_mul(times).and_then(|count| calls.len().checked_sub(count)) else {
        return false;
    };
    let window = &calls[start..];
    let pairs = window.iter().zip(&window[length..]);
    pairs.rev().all(|(one, next)| (one.call, one.result) == (next.call, next.result))
}

/// The digest of a call: the same for the same tool and the same arguments in any order of keys.
pub(super) fn digest(call: &CallRequest) -> Digest {
    let mut canonical = Canonical::new("call");
    canonical.text(&call.name);
    match call.checked() {
        Some(arguments) => canonical.tag(0).json(arguments),
        None => canonical.tag(1).text(&call.arguments),
    };
    canonical.finish()
}
