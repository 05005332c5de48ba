//! Finished spans on their way to a collector: a bounded queue and one task.

mod config;
mod http;
mod queue;

pub use self::config::{ExportConfig, ExportError};
pub use self::queue::ExportStats;
pub(crate) use self::queue::{Counters, Exporter};
