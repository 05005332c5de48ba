//! A call that is written down: the caller and the live model, for tests, demonstrations and work without a telephone.
//!
//! A script is a TOML file with one `[[turns]]` for each thing that the caller or the live model does, in order:
//!
//! ```toml
//! [[turns]]
//! caller = "Is there a table for two tonight?"
//!
//! [[turns]]
//! model = "Let me look."
//! calls = [{ tool = "book.find", arguments = { people = 2 } }]
//!
//! [[turns]]
//! model = "There is one at eight."
//! ```
//!
//! A turn is one of these:
//!
//! - `caller`: what the caller says. It comes when the live model has spoken of everything that it has; with `after` it comes that
//!   long after the turn before, even while something is under way.
//! - `model`: what the live model says in its next response, and the `calls` that it asks for: each a `tool`, `arguments`, and a
//!   `call_id` if it matters. With `for` it speaks that long. With `interrupt` the next turn cuts it off after that time:
//!   the caller's words, the loss of the connection, the end of the call.
//! - `digits`: keys that the caller presses.
//! - `drop`: the connection is lost for that long.
//!
//! After the last turn the caller hangs up, once the live model has spoken of everything; with `hang_up` as a turn, that long after
//! the turn before. A response for which the script has no words has none.
//!
//! [`LiveTwin`] is a function of the time and of the commands that it is given: its driver says what time it is.

mod caller;
mod script;
mod twin;

pub use caller::CallerTurn;
pub use script::{LiveAsk, LiveScript, LiveScriptError, LiveTurn};
pub use twin::LiveTwin;
