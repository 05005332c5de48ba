//! A journal is opened by its path alone.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use dalsegno_core::RunId;
use dalsegno_history::{HistoryError, Journal, OpenError};
use dalsegno_store::{ReadError, RunFilter};

#[tokio::test]
async fn a_journal_that_is_not_there_is_made_empty_with_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept/journal.db");
    let journal = Journal::open(&path).await.unwrap();
    assert!(path.exists());
    assert!(journal.runs(&RunFilter::default()).await.unwrap().is_empty());
    let run = RunId::from_bytes([7; 16]);
    assert!(journal.known(run).await.unwrap().is_none());
    let error = journal.replay(run).await.unwrap_err();
    assert!(matches!(error, HistoryError::Read(ReadError::UnknownRun { .. })), "{error:?}");
}

#[tokio::test]
async fn a_file_that_is_no_journal_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    std::fs::write(&path, "a note").unwrap();
    let error = Journal::open(&path).await.err().unwrap();
    assert!(matches!(error, OpenError::Store(dalsegno_store::OpenError::NotADatabase { .. })), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a note");
}
