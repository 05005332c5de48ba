//! A telephone rings, and `dalsegno serve` answers it: real sockets, real processes, a provider that is strict and keeps a book.
#![cfg(all(unix, feature = "serve"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod commands;
mod costs;
mod delegates;
mod inputs;
mod keys;
mod kills;
mod kills_waiting;
mod media;
mod media_inputs;
mod media_kills;
mod speech;
#[path = "../cli/support.rs"]
#[allow(dead_code, unused_macros, unused_imports, reason = "some of it is for other tests")]
mod support;
mod talk;
mod transfers;
mod world;
