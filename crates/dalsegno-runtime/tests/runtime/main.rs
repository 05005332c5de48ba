//! The engine on workspaces in temporary folders, with tools in process: what a run does, and what comes of it.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod below;
mod budget;
mod busy;
mod call_crash;
mod calls;
mod context;
mod declarative;
mod dispatch;
mod elicitation;
mod errands;
mod forks;
mod grants;
mod images;
mod later;
mod names;
mod pauses;
mod runs;
mod secrets;
mod sessions;
mod snapshots;
mod tail;
mod tenant_keys;
mod told;
mod tool_servers;
mod workers;
