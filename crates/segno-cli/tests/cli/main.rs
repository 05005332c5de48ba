//! Photographs of the real command: what it prints, where, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod check;
mod doubt;
mod guest;
mod run;
mod show;
mod store;
mod support;
mod suspend;
