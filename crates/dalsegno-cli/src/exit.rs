//! The exit codes: a promise to scripts.

use std::process::ExitCode;

/// How the command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything asked for was done.
    Done,
    /// The run failed, or the machine did.
    Failed,
    /// The arguments, the workspace or the answer are wrong; nothing was started.
    BadInput,
    /// A replay differs from its journal, a case does not hold, or a change alters what recorded runs would do.
    Diverged,
    /// The run waits for a person.
    Suspended,
    /// Nothing could be compared, so that nothing is known.
    Inconclusive,
    /// The run was interrupted and can be resumed.
    Interrupted,
}

impl Exit {
    /// The code that the process ends with.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::BadInput => 2,
            Self::Diverged => 3,
            Self::Suspended => 4,
            Self::Inconclusive => 5,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
