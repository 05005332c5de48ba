//! Calls over the lines of a workspace: the sockets of live models, lost and made anew.
//!
//! A [`Line`] is one of `[voice.lines]`: a live model at a provider. [`Line::call`] begins a call of an agent, or attaches to one
//! that another process began; its [`Call`] takes what the caller says. What the provider sends and what the core asks for
//! is understood by `dalsegno-realtime`, which this crate gives sockets, time and the two channels of the run.
//!
//! **Invariant:** no socket is opened but to the address of the line, over a connection whose address was checked. No key is in
//! an error, and none is kept. Memory is bounded and the call ends, independent of the provider: frames of 1 MiB, the news that
//! the run has room for, ten seconds for each write and each opening.

mod call;
mod caller;
mod control;
mod headers;
mod keys;
mod line;
mod media;
mod own;
mod socket;
mod telephone;
mod telephones;

pub use call::Call;
pub use caller::Caller;
pub use headers::Ringing;
pub use line::{Line, LineError};
pub use media::Answer;
pub use own::WORD;
pub use socket::upgraded;
pub use telephones::{Rung, Telephones};
