//! Runs MCP tool servers compiled to WebAssembly, with nothing granted by default.
//!
//! A tool server is an ordinary MCP server that speaks JSON-RPC lines over standard input and output, compiled to a
//! `wasi:cli/command` component or to a WASI 0.1 command module. The host gives it two pipes, the folders that its
//! configuration names, and nothing else: no environment, no arguments, no network, a fixed wall clock and fixed
//! random bytes. What configuration grants beyond that stands in [`Permissions`]; what a guest is refused is a
//! [`Denial`], counted in [`ToolServer::stats`] and told with the call.
//!
//! The way of a call:
//!
//! 1. [`Sandbox::new`] builds the engine, once for a process.
//! 2. [`Sandbox::load`] reads, verifies and compiles a module, or takes it from the cache: a [`ToolServer`].
//! 3. [`ToolServer::catalogue`] starts an instance and asks which tools there are. Its resources and prompts are read by
//!    tools as well, the [`Builtin`] ones.
//! 4. [`ToolServer::open`] gives a [`ServerSession`], whose instance starts with the first [`ServerSession::call`].
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use dalsegno_sandbox::{CallContext, Sandbox, SandboxOptions, ServerConfig};
//!
//! let sandbox = Sandbox::new(SandboxOptions::default())?;
//! let server = sandbox.load(ServerConfig::new("risk", "risk.wasm")).await?;
//! let session = server.open("tenant");
//! let arguments = serde_json::Map::from_iter([("text".to_owned(), "everything is down".into())]);
//! let output = session.call("score", arguments, CallContext::new("op_1", Duration::from_secs(5))).await?;
//! println!("{:?}", output.structured);
//! session.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! **Invariant:** whatever a guest does (spin, trap, flood, talk nonsense, exit), the call ends with a [`CallError`]
//! within its timeout, the host's memory stays bounded, and the next call gets a fresh instance.

mod config;
mod denial;
mod error;
mod permissions;
mod stats;

mod bounds;
mod cache;
mod compiled;
mod compiling;
mod engine;
mod place;
mod server;

mod exchange;
mod guard;
mod guest;
mod http;
mod instance;
mod pipe;
mod pool;
mod session;
mod transport;

pub use config::{InvalidDigest, Lifetime, Limits, ModuleDigest, ServerConfig};
pub use dalsegno_net::{InvalidOrigin, Origin, Resolver};
pub use dalsegno_protocol::{
    Annotations, Builtin, CallContext, CallError, CallErrorKind, Caller, Denial, DenialKind, Received,
    ServerState, ServerStats, ToolDescription, ToolOutput,
};
pub use engine::{Allocation, Sandbox, SandboxOptions};
pub use error::LoadError;
pub use permissions::{Access, Injection, Permissions, Preopen};
pub use place::CachePlace;
pub use server::ToolServer;
pub use session::ServerSession;
