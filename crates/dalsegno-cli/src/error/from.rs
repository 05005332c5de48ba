//! The errors of the rooms below, as errors of commands.

use dalsegno_history::HistoryError;
use dalsegno_runtime::ToolboxError;

use super::Error;

impl From<HistoryError> for Error {
    fn from(error: HistoryError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<ToolboxError> for Error {
    fn from(error: ToolboxError) -> Self {
        match error {
            ToolboxError::Open(error) => Self::Open(error),
            ToolboxError::Engine(error) => Self::Engine(error),
            // By far the largest of all errors, and a rare one.
            error => Self::Toolbox(Box::new(error)),
        }
    }
}
