//! Why a case cannot be folded to an end.

use std::ops::Range;

/// Why a case cannot be folded to an end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Trouble {
    /// The case gives no outcome for a request.
    Missing(Box<Missing>),
    /// What the case gives does not fit.
    Unfit {
        /// Where it stands.
        span: Range<usize>,
        /// What is wrong.
        message: String,
    },
    /// The script or the cassette cannot be used.
    Source(String),
    /// The run does not end.
    Endless,
    /// The core and this crate do not understand each other.
    Defect(String),
}

/// A request for which a case gives no outcome.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Missing {
    /// The step.
    pub(crate) step: u64,
    /// What was asked, such as ``the tool `risk.score` ``.
    pub(crate) asked: String,
    /// What it says, as JSON.
    pub(crate) arguments: String,
    /// What comes nearest of what is given, and how it differs.
    pub(crate) nearest: Option<String>,
    /// Where that stands, if it is in the case's file.
    pub(crate) span: Option<Range<usize>>,
    /// What to write.
    pub(crate) write: String,
}
