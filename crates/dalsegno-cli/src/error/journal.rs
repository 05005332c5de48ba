//! The classes of errors that come of reading and writing journals.

use dalsegno_history::{FoldError, HistoryError};
use dalsegno_runtime::RunFailure;
use dalsegno_store::ReadError;

use super::{ErrorClass, LIST_RUNS};
use crate::exit::Exit;
use crate::render::text::short;

pub(super) fn history(error: &HistoryError) -> ErrorClass {
    match error {
        HistoryError::Read(ReadError::UnknownRun { .. }) => {
            ErrorClass::new(Exit::BadInput, "unknown_run").with_help(LIST_RUNS)
        }
        HistoryError::Read(error) => unreadable(error),
        HistoryError::Stranger { .. } => ErrorClass::new(Exit::Failed, "foreign"),
        HistoryError::Fold(FoldError::Diverged { .. }) => ErrorClass::new(Exit::Diverged, "diverged")
            .with_help("use the release that recorded the run, and report this difference"),
        HistoryError::Fork { .. } => ErrorClass::new(Exit::BadInput, "bad_fork"),
        HistoryError::Beginning { .. } => ErrorClass::new(Exit::Failed, "damaged"),
        HistoryError::Erase(error) => match error {
            dalsegno_store::EraseError::UnknownRun { .. } => {
                ErrorClass::new(Exit::BadInput, "unknown_run").with_help(LIST_RUNS)
            }
            dalsegno_store::EraseError::NotEnded { .. }
            | dalsegno_store::EraseError::UnderWay { .. }
            | dalsegno_store::EraseError::Needed { .. } => ErrorClass::new(Exit::BadInput, "not_ended"),
            dalsegno_store::EraseError::UnknownOperation { .. } => {
                ErrorClass::new(Exit::BadInput, "unknown_operation")
            }
            _ => ErrorClass::new(Exit::Failed, "store"),
        },
        _ => ErrorClass::new(Exit::Failed, "engine"),
    }
}

/// Of a journal that is there.
pub(super) fn unreadable(error: &ReadError) -> ErrorClass {
    match error {
        ReadError::Damaged(damage) => {
            let help = match damage.intact {
                0 => "nothing of this run can be read; restore the journal from a backup".to_owned(),
                intact => {
                    format!(
                        "restore the journal from a backup; the first {intact} records of this run still verify"
                    )
                }
            };
            ErrorClass::new(Exit::Failed, "damaged").with_help(help)
        }
        ReadError::Erased { .. } => ErrorClass::new(Exit::Failed, "erased"),
        _ => ErrorClass::new(Exit::Failed, "engine"),
    }
}

pub(super) fn run_failure(error: &RunFailure) -> ErrorClass {
    match error {
        RunFailure::Append { run, .. } => ErrorClass::new(Exit::Failed, "store").with_help(format!(
            "nothing that was recorded is lost: correct the cause, then run `dalsegno resume {}`",
            short(run)
        )),
        _ => ErrorClass::new(Exit::Failed, "defect"),
    }
}
