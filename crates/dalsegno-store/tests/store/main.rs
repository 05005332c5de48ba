//! The store of journals, in SQLite and in memory.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod archive;
mod conformance;
mod corpus;
mod damage;
mod golden;
mod spending;
