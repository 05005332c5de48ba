//! A session as its carrier sees it, for every protocol of a provider.

use alloc::string::String;

use dalsegno_core::{LiveCommand, OperationId};

use crate::session::{Counts, NoKeys, Output};

/// A session of a live model, across the sockets that it needs. Times are milliseconds of a clock that the caller of its methods chooses.
pub trait ModelSession: Send + Sync {
    /// Says whether the call is over: nothing comes out any more.
    fn is_over(&self) -> bool;

    /// Says whether the provider itself said that the call is over: there is nothing to hang up.
    fn has_closed(&self) -> bool {
        false
    }

    /// Says whether the session takes commands and words.
    fn is_open(&self) -> bool;

    /// Says whether the live model neither speaks nor is about to: the best moment to let go of a call.
    fn is_between(&self) -> bool;

    /// What has come so far.
    fn counts(&self) -> Counts;

    /// Says whether there is silence and nothing is awaited: the time at which a patient caller says the next thing.
    fn is_quiet(&self) -> bool {
        false
    }

    /// Says whether there is silence. There may be something that the live model has not spoken of.
    fn is_still(&self) -> bool {
        false
    }

    /// There is a new socket, to a session of its own.
    fn connected(&mut self, _now: u64) {}

    /// There is a new socket to a session that is there already. It is open once the provider has answered.
    fn attached(&mut self, now: u64) -> Output;

    /// With what the call is answered, as JSON.
    fn acceptance(&self, model: &str, instructions: &str) -> String;

    /// The call was answered, as this command wants it.
    fn answered(&mut self, command: &LiveCommand) -> Output;

    /// The socket is lost.
    fn lost(&mut self, now: u64, reason: &str) -> Output;

    /// No session can be had.
    fn fail(&mut self, now: u64, reason: &str) -> Output;

    /// The caller hangs up.
    fn hang_up(&mut self, now: u64, reason: &str) -> Output;

    /// Takes a command of the core. One that the session has already is acknowledged and nothing else.
    fn command(&mut self, now: u64, command: &LiveCommand) -> Output;

    /// Takes a frame of the provider. What it does not know is counted, and of no consequence.
    fn frame(&mut self, now: u64, frame: &str) -> Output;

    /// The caller says something in text. It interrupts the live model.
    fn say(&mut self, _now: u64, _line: &str) -> Output {
        Output::default()
    }

    /// The caller presses keys.
    fn press(&mut self, _keys: &str) -> Output {
        Output::default()
    }

    /// Begins to send these keys to the caller's line, one after the other, for this operation. What came of them is said in [`Output::keys`], once.
    ///
    /// # Errors
    /// Where none of them can be sent.
    fn send_keys(&mut self, _operation: OperationId, _keys: &str) -> Result<Output, NoKeys> {
        Err(NoKeys::Never)
    }

    /// Sends none of the keys that are left, and says no more of them.
    fn stop_keys(&mut self) {}

    /// Takes a frame of the carrier of the caller's line, where their sound passes through here.
    fn line(&mut self, _now: u64, _frame: &str) -> Output {
        Output::default()
    }

    /// The caller's line is lost, where their sound passes through here: they hear no more of what was said.
    fn line_lost(&mut self, _now: u64) -> Output {
        Output::default()
    }

    /// There is another line to the caller, with this name of its stream.
    fn line_opened(&mut self, _now: u64, _stream: String) -> Output {
        Output::default()
    }

    /// Says whether the caller still hears what was said, as far as that is known here.
    fn is_playing(&self) -> bool {
        false
    }

    /// When something follows from silence alone.
    fn wakes_at(&self) -> Option<u64>;

    /// Time has passed.
    fn tick(&mut self, now: u64) -> Output;
}
