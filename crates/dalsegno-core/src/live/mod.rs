//! A call: what the shell reports of it, what the core asks of the live model, and where a call stands.

mod command;
mod news;
mod state;

pub use command::{CommandKind, LiveCommand};
pub use news::{AudioTokens, EndedBy, LiveNews, LiveTokens, ResponseEnd, Surface, TEXT_BYTES_MAX};
pub(crate) use state::{Answered, Arrival, Digits, HangsUp, Line, Over, Stage, Talk, Waits, Work};
pub use state::{Live, LiveCall};
