//! Documents, calls and their laws, as a shell sees them.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod actions;
mod book;
mod context;
mod documents;
mod hostile;
mod laws;
mod requests;
mod seeds;
mod support;
