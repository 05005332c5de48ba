//! Whether messages wait for a run, asked often by each run that is under way: one query for all runs of a process after
//! each change of the file, and none while nothing changes.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dalsegno_core::RunId;
use rusqlite::Connection;

use super::open;
use super::read::bytes;

/// Most runs that are remembered to exist. With more of them their inboxes are read one by one again.
const KNOWN_MAX: usize = 100_000;

/// The runs for which messages wait, as of the file's last change.
#[derive(Debug, Default)]
pub(super) struct Doorbell(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    /// Opened with the first question. Nothing is written through it, so that every commit changes its version.
    connection: Option<Connection>,
    /// The version of the file that `waiting` is of, or of an older one.
    version: Option<i64>,
    waiting: HashSet<RunId>,
    /// Runs whose inboxes were read: they exist.
    known: HashSet<RunId>,
}

impl Doorbell {
    /// Says whether it is certain that a run exists and that no message waits for it. It takes some microseconds and waits
    /// for nobody.
    pub(super) fn is_silent(&self, run: RunId) -> bool {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !heard.known.contains(&run) || heard.listen().is_err() {
            return false;
        }
        !heard.waiting.contains(&run)
    }

    /// The version of the file: another one after each commit of any process.
    pub(super) fn version(&self, path: &Path) -> Result<u64, rusqlite::Error> {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.open(path)?.map_or(Err(rusqlite::Error::InvalidQuery), version).map(i64::cast_unsigned)
    }

    /// Remembers that a run exists.
    pub(super) fn know(&self, run: RunId, path: &Path) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a connection every inbox is read.
        let _ = heard.open(path);
        if heard.known.len() >= KNOWN_MAX {
            heard.known.clear();
        }
        heard.known.insert(run);
    }
}

/// The version of the file that a connection sees.
fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

impl Heard {
    /// The connection, opened if it is not yet.
    fn open(&mut self, path: &Path) -> Result<Option<&Connection>, rusqlite::Error> {
        if self.connection.is_none() {
            let connection = open::open_reader(path, open::Reading::Shared)?;
            connection.busy_timeout(Duration::ZERO)?;
            self.connection = Some(connection);
        }
        Ok(self.connection.as_ref())
    }

    /// Brings `waiting` up to date.
    fn listen(&mut self) -> Result<(), rusqlite::Error> {
        let connection = self.connection.as_ref().ok_or(rusqlite::Error::InvalidQuery)?;
        let version = version(connection)?;
        if self.version == Some(version) {
            return Ok(());
        }
        // What is found is of this version or of a later one, which is then read again.
        self.version = None;
        let mut statement = connection.prepare_cached(WAITING)?;
        let rows = statement.query_map([], |row| Ok(bytes(row.get_ref(0)?).map(RunId::from_bytes)))?;
        self.waiting = rows.collect::<Result<HashSet<_>, _>>()?.into_iter().flatten().collect();
        self.version = Some(version);
        Ok(())
    }
}

/// The runs with messages.
const WAITING: &str = "SELECT run.run FROM (SELECT DISTINCT run AS id FROM inbox) JOIN run USING (id)";

#[cfg(test)]
mod tests {
    use super::super::SqliteStore;
    use crate::conformance::{create, new_run, note, run_id};
    use crate::{Message, Owner, Store};

    #[tokio::test]
    async fn a_run_without_messages_is_not_asked_for_them_and_one_with_messages_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let (store, owner) = (SqliteStore::open(&path).unwrap(), Owner::in_process());
        let mut one = create(&store, new_run(1, &owner)).await;
        let other = create(&store, new_run(2, &owner)).await;
        // Of a run that was never asked for, nothing is certain.
        assert!(!store.doorbell.is_silent(one.run()));
        for run in [one.run(), other.run()] {
            assert_eq!(store.inbox(run).await.unwrap(), []);
            assert!(store.doorbell.is_silent(run));
        }
        // Another process writes, and this one does.
        let behind = SqliteStore::open(&path).unwrap();
        behind.post(run_id(1), Message::Look).await.unwrap();
        assert!(!store.doorbell.is_silent(run_id(1)) && store.doorbell.is_silent(run_id(2)));
        store.post(run_id(2), Message::Look).await.unwrap();
        assert!(!store.doorbell.is_silent(run_id(2)));
        assert_eq!(store.inbox(run_id(1)).await.unwrap(), [(1, Message::Look)]);
        store.append_with(&mut one, vec![note(1)], vec![1]).await.unwrap();
        assert!(store.doorbell.is_silent(run_id(1)) && !store.doorbell.is_silent(run_id(2)));
        assert!(store.inbox(run_id(9)).await.is_err());
    }
}
