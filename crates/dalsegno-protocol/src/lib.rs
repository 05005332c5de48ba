//! What both kinds of MCP clients share: which requests they send, and what they take from the answers.
//!
//! The sandbox speaks with guests over pipes, the client of other servers with processes and addresses. How a request
//! gets there, how long it is waited for and what ends a connection is their own matter; they say it with one trait,
//! [`Ask`]. What is asked, and what is made of the word of another party, stands here once:
//!
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
mod catalogue;
mod content;
mod era;
mod failure;
mod line;
mod output;
mod patience;
mod request;
mod task;

pub use ask::Ask;
pub use builtin::{Builtin, perform};
pub use catalogue::{Annotations, ToolDescription, tools};
pub use era::{Era, LearnedEra};
pub use failure::{CallErrorKind, Failure, Received, printable, refusal};
pub use line::{UNANSWERED_MAX, is_request, parse_line};
pub use output::{Answer, Input, InputRequired, ToolOutput};
pub use patience::Patience;
pub use request::{Called, Caller, call, call_or_task, client, meta};
pub use task::{Task, TaskState, answer_task, cancel_task, is_unknown_task, task};
