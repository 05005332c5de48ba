//! Calls with a live model: the table of what happens to its calls of tools, and the laws.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod hangup;
mod laws;
mod origins;
mod table;
mod telephone;
mod transfer;
mod world;
