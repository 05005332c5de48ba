//! The life of a run: it starts, is driven, waits, is resumed, ends, and starts others.
//!
//! [`driver`] is the loop, [`attempt`] performs one operation once, [`context`] is what a run is performed in, [`errand`] performs
//! one operation without a run. The other modules give the engine its verbs, each in a file of its own.

pub(crate) mod abandon;
pub(crate) mod acquire;
pub(crate) mod adopt;
pub(crate) mod answers;
pub(crate) mod attempt;
pub(crate) mod bound;
pub(crate) mod children;
pub(crate) mod context;
pub(crate) mod converse;
pub(crate) mod declared;
pub(crate) mod driver;
pub(crate) mod ending;
pub(crate) mod engine_tools;
pub(crate) mod errand;
pub(crate) mod expiry;
pub(crate) mod files;
pub(crate) mod fork;
pub(crate) mod handle;
mod later;
pub(crate) mod pausing;
pub(crate) mod resume;
pub(crate) mod runs;
pub(crate) mod start;
pub(crate) mod tasks;
pub(crate) mod worker;
