//! Guests in the sandbox: what they may do, what they may not, and what it costs them.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "../support/mod.rs"]
mod support;

mod book;
mod cache;
mod hostile;
mod library;
mod probe;
mod risk;
mod statistics;
