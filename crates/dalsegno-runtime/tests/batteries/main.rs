//! The tools that come with Dalsegno, end to end, against servers on this machine that behave like the real ones.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "../support/mod.rs"]
mod support;

mod google;
mod server;

mod calendar;
mod consent;
mod meal;
