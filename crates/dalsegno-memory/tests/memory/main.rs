//! Memories in SQLite and in the memory of the process: one behaviour.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[macro_use]
mod common;

mod amend;
mod borders;
mod conformance;
mod corpus;
mod exchange;
mod file;
mod relations;
mod scopes;
mod seeds;
mod walks;
