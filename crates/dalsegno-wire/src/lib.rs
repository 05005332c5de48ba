//! The JSON documents of runs, events and answers.
//!
//! `dalsegno … --json` prints these values, and the server sends the same ones. Their keys are a promise to scripts and
//! clients. A document is made of what was read from a journal; nothing here reads or performs.

mod answer;
mod event;
mod lineage;
mod operation;
mod run;
#[cfg(feature = "openapi")]
pub mod schema;
mod step;
pub mod time;

pub use answer::{Answer, Answered, Given};
pub use event::{Entry, Event, Events};
pub use lineage::Lineage;
pub use operation::{attempts, elapsed};
pub use run::{ErasedRun, Listed, Replayed, Run, Shown, Standing, Waiting, end};
pub use step::ShownStep;
