//! One MCP client for tool servers that are child processes or speak streamable HTTP.
//!
//! Both eras of the protocol are spoken: the stateless revision 2026-07-28, found by `server/discover`, and those that
//! begin with `initialize`. Which one a server speaks is found out at its first start and remembered.
//!
//! The way of a call:
//!
//! 1. [`Server::new`] takes a [`ServerConfig`]. Nothing is started.
//! 2. [`Server::catalogue`] starts or reaches the server and asks which tools there are. Its resources and prompts are
//!    read by tools as well, the [`Builtin`] ones.
//! 3. [`Server::session`] gives the [`ServerSession`] of one tenant, whose connection stands from its first call to the end.
//!    What ends meanwhile is started again, after pauses that grow.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use dalsegno_mcp::{Answer, CallContext, Command, Server, ServerConfig};
//!
//! let command = Command::new("mcp-server-files", ["--root", "/srv/data"]);
//! let server = Server::new(ServerConfig::stdio("files", command));
//! let session = server.session("default");
//! let call = CallContext::new("op_1", Duration::from_secs(5));
//! match session.call("list", serde_json::Map::new(), call).await? {
//!     Answer::Done(output) => println!("{}", output.text),
//!     Answer::InputRequired(input) => println!("it asks for {} things", input.requests.len()),
//! }
//! server.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! A server of the new era may answer a call later, as a task: the task is followed to its end. Whoever gives a
//! [`TaskOwner`] learns its id before it is asked about, and can find it again with [`CallContext::task`], in another
//! process as well.
//!
//! A server behind an address may want to know who asks, by OAuth 2.1: [`Endpoint::oauth`] has the access, which a person
//! gives once by [`OAuth::begin`] or the client gets by itself. It is shown to that server only.
//!
//! **Invariant:** whatever a server does (hang, exit, flood, talk nonsense), a call ends with a [`CallError`] within its
//! time, memory stays bounded, and the next call gets a server that works, if there is one. No child process outlives
//! the engine.

mod config;

mod connection;
mod follow;
mod handler;
mod wire;

#[cfg_attr(not(feature = "oauth"), path = "no_oauth.rs")]
mod oauth;

mod http;
mod lines;
mod pace;
mod process;

mod server;

pub use config::{Answers, Command, Endpoint, Limits, Reach, ServerConfig};
pub use dalsegno_protocol::{
    Annotations, Answer, Builtin, CallContext, CallError, CallErrorKind, Caller, Input, InputRequired,
    Received, Task, TaskOwner, ToolDescription, ToolOutput,
};
#[cfg(feature = "oauth")]
pub use oauth::{Consent, Grant, Granted, OAuthConfig, Tokens};
pub use oauth::{OAuth, OAuthError};
pub use server::{Server, ServerSession};
