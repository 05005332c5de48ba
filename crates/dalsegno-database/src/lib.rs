//! Small databases and keys in files for their owner only: made, recognised, opened, copied.
//!
//! The journal, the memory and the secrets have rules of their own. Everything else that is kept in SQLite is a [`Format`].

mod error;
mod format;
mod key;

pub use error::OpenError;
pub use format::{Format, copy};
pub use key::key;
