//! A session of a live model without I/O: the provider's frames become news of a call, and commands of a call become frames. Pure.
//!
//! A [`LiveSession`] speaks the Realtime API of OpenAI, which other providers and mock servers speak as well. It opens no socket and reads
//! no clock: its caller hands it each frame, each command of the core, each line of the caller and the time, and does
//! what the one [`Output`] of each of them says: frames to send, news to report, whether the socket is to be closed.
//!
//! ```
//! use dalsegno_core::LiveNews;
//! use dalsegno_realtime::{LiveSession, ModelSession as _, Settings};
//!
//! let mut session = LiveSession::new(Settings::default());
//! session.connected(0);
//! let output = session.frame(5, r#"{"type":"session.created","event_id":"e1","session":{"type":"realtime"}}"#);
//! assert_eq!(output.news, [LiveNews::Connected]);
//! let output = session.say(10, "Is there a table?");
//! assert_eq!(output.frames.len(), 2, "the words, and a wish for a response");
//! ```
//!
//! # What it keeps
//!
//! A session of this API ends with its socket. So a [`LiveSession`] keeps the [`Dialogue`], within bounds, and gives it to the provider's
//! next session before it reports [`LiveNews::Attached`](dalsegno_core::LiveNews::Attached): the words of both, calls and
//! their outputs. What was sent and not acknowledged is not among it: the core sends that again, under the same ids.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod duplex;
mod media;
mod port;
mod session;

mod dialogue;
mod failure;
mod sent;
mod taken;

pub use dialogue::{Dialogue, Item};
pub use duplex::{Backend, DuplexSession};
pub use media::{LINE_FRAME_BYTES_MAX, LineFrame, MediaSession};
pub use port::ModelSession;
pub use session::{Counts, KeysEnd, LiveSession, NoKeys, Output, Settings, Tool, reconnect_after};
pub use taken::FRAME_BYTES_MAX;
