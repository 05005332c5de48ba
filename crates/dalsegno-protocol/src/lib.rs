//! The parts that both kinds of MCP clients share: requests, what is taken from answers, and the words for both.
//!
//! The sandbox speaks with guests over pipes, the client of other servers with processes and addresses. Each knows how a
//! request gets to its servers, how long to wait and what ends a connection; it says so with one trait, [`Ask`]. The
//! requests, the reading of answers and the types that callers meet are here once:
//!
//! - [`CallContext`] goes with a call; [`Answer`], [`CallError`] and [`Denial`] come back.
//! - [`Offer`] says which tools of a server may be called.
//! - [`tools`] lists what a server offers, page by page, within bounds: its own tools, and with them the [`Builtin`]
//!   ones, by which an agent reads the server's resources and prompts.
//! - [`call`] calls a tool, [`perform`] a built-in one. Both end with an [`Answer`].
//! - [`call_or_task`] calls a tool of a server that may answer later: [`task()`] asks about the task that it made of the
//!   call, [`answer_task`] answers what that wants to know, [`cancel_task`] ends it.
//! - [`parse_line`] understands a line of JSON-RPC, [`Era`] and [`LearnedEra`] say which handshake a server knows.
//!
//! **Invariant:** nothing of what a server says is taken without a bound on its size, its number of pages or its form.
//! No transport is here, and nothing that runs by itself.

mod ask;
mod builtin;
mod call;
mod catalogue;
mod content;
mod denial;
mod era;
mod failure;
mod files;
mod line;
mod offer;
mod order;
mod output;
mod patience;
mod request;
mod stats;
mod task;

pub use ask::Ask;
pub use builtin::{Builtin, perform};
pub use call::{CallContext, TaskOwner};
pub use catalogue::{Annotations, ToolDescription, tools};
pub use dalsegno_core::Received;
pub use denial::{Denial, DenialKind};
pub use era::{Era, LearnedEra};
pub use failure::{CallError, CallErrorKind, Failed, Failure, printable, refusal};
pub use files::{ResultFile, ResultFiles};
pub use line::{UNANSWERED_MAX, is_request, parse_line};
pub use offer::Offer;
pub use order::keep_order;
pub use output::{Answer, Input, InputRequired, ToolOutput};
pub use patience::Patience;
pub use request::{Called, Caller, call, call_or_task, client, meta};
pub use stats::{ServerState, ServerStats};
pub use task::{Task, TaskState, answer_task, cancel_task, is_unknown_task, task};
