//! What a report says besides its archive: the engine's digests, and what a reader has to know.

use dalsegno_core::RunId;
use dalsegno_history::{HistoryError, Journal};
use dalsegno_report::Seal;
use dalsegno_report::page::{Facts, Note};
use dalsegno_store::{Archive, Damage};

use crate::error::Error;
use crate::render::text::short;

/// A text with the run's id as people read it.
fn brief_ids(text: &str, run: RunId) -> String {
    text.replace(&run.to_string(), &short(run))
}

/// Computes the digests of all runs of an archive, from the journal that they are in.
///
/// # Errors
/// When the journal cannot be read.
pub(super) async fn facts(
    journal: &Journal,
    root: RunId,
    with: Option<RunId>,
    archive: &Archive,
    damaged: &[Damage],
) -> Result<Facts, Error> {
    let (mut seals, mut notes) = (Vec::new(), Vec::new());
    for run in archive.runs() {
        let mut note = |text: String| notes.push(Note { run: Some(run), text });
        if let Some(damage) = damaged.iter().find(|damage| damage.run == run) {
            // What is intact is shown; there is nothing to compare it with.
            note(format!("The journal is damaged: {}.", brief_ids(&damage.to_string(), run)));
            continue;
        }
        let status = journal.summary(run).await?.status;
        if !status.is_end() {
            note(format!("Run {} had not ended when this file was written: it was {status}.", short(run)));
        }
        match Seal::of(journal, run).await {
            Ok(seal) => {
                if !seal.replays {
                    note(format!("Run {} does not replay: its journal and the core part.", short(run)));
                }
                seals.push(seal);
            }
            // The others can be shown all the same.
            Err(
                error
                @ (HistoryError::Fold(_) | HistoryError::Config { .. } | HistoryError::Beginning { .. }),
            ) => {
                note(format!("Run {} cannot be shown: {error}.", short(run)));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Facts { version: env!("CARGO_PKG_VERSION").to_owned(), root, with, seals, notes })
}
