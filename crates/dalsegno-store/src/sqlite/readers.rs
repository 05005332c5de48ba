//! A few connections that read, each on a thread where waiting is allowed.
//!
//! A thread that has read something reads the next that waits: under load, no thread sleeps and is woken between two reads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::open::{self, Reading};
use super::{Fault, storage_error};
use crate::error::StorageError;

/// Most reads at once. Reads are rare beside appends: resumes, listings, replays.
const READERS: usize = 4;

/// The connections that read, opened when they are needed.
pub(super) struct Readers {
    path: PathBuf,
    reading: Reading,
    /// Those that read nothing now; none once the store is closed.
    idle: Mutex<Option<Vec<Connection>>>,
    line: Mutex<Line>,
}

/// The reads that wait, and how many threads read.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Read>,
    threads: usize,
}

type Read = Box<dyn FnOnce(&Readers) + Send>;

impl Readers {
    pub(super) fn new(path: PathBuf, reading: Reading) -> Arc<Self> {
        let (idle, line) = (Mutex::new(Some(Vec::new())), Mutex::default());
        Arc::new(Self { path, reading, idle, line })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn reading(&self) -> Reading {
        self.reading
    }

    /// Closes the connections: at once those that read nothing, also while a thread that has read lives on for a moment.
    pub(super) fn close(&self) {
        drop(self.idle().take());
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads on a thread where waiting is allowed, within one read transaction. What its caller no longer waits for is not begun.
    pub(super) async fn call<T, E>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, Fault<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let read = Box::new(move |readers: &Self| {
            if !reply.is_closed() {
                // The caller may have given up meanwhile.
                let _ = reply.send(catch_unwind(AssertUnwindSafe(|| readers.read(read))));
            }
        });
        if self.queue(read) {
            let thread = Thread { readers: Arc::clone(self), is_counted: true };
            tokio::task::spawn_blocking(move || thread.read_all());
        }
        match answer.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(StorageError::closed().into()),
        }
    }

    /// Queues a read, and says whether a thread has to be begun for it.
    fn queue(&self, read: Read) -> bool {
        let mut line = self.line();
        line.waiting.push_back(read);
        let is_room = line.threads < READERS;
        line.threads += usize::from(is_room);
        is_room
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T, E: From<StorageError>>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Fault<E>>,
    ) -> Result<T, E> {
        let idle = self.idle().as_mut().and_then(Vec::pop);
        let connection = match idle {
            Some(connection) => connection,
            None => open::open_reader(&self.path, self.reading)
                .map_err(|error| StorageError::new(self.path.to_str(), error))?,
        };
        let result = run(&connection, "BEGIN").map_err(Fault::Storage).and_then(|()| read(&connection));
        let result = result.map_err(|fault| match fault {
            Fault::Refused(error) => error,
            Fault::Storage(error) => storage_error(&connection, error).into(),
        });
        // A transaction that cannot be ended is ended with its connection.
        if (connection.is_autocommit() || run(&connection, "COMMIT").is_ok())
            && let Some(idle) = self.idle().as_mut()
        {
            idle.push(connection);
        }
        result
    }
}

/// Runs a statement that is planned once for each connection.
fn run(connection: &Connection, sql: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, reading, .. } = self;
        formatter
            .debug_struct("Readers")
            .field("path", path)
            .field("reading", reading)
            .finish_non_exhaustive()
    }
}

/// A thread that reads, which is counted until it finds nothing that waits.
struct Thread {
    readers: Arc<Readers>,
    is_counted: bool,
}

impl Thread {
    fn read_all(mut self) {
        while let Some(read) = self.next() {
            read(&self.readers);
        }
    }

    fn next(&mut self) -> Option<Read> {
        let mut line = self.readers.line();
        let next = line.waiting.pop_front();
        if next.is_none() {
            // While the line is locked: a read that comes after this begins another thread.
            line.threads -= 1;
            self.is_counted = false;
        }
        next
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        // It was never begun, since its runtime shuts down. Where no other thread reads, those that wait hear that nothing does.
        let mut line = self.readers.line();
        line.threads -= 1;
        let left = if line.threads == 0 { std::mem::take(&mut line.waiting) } else { VecDeque::new() };
        drop(line);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::error::ReadError;
    use crate::sqlite::SqliteStore;
    use crate::store::Store as _;

    fn readers(folder: &Path) -> Arc<Readers> {
        let path = folder.join("journal.db");
        drop(SqliteStore::open(&path).unwrap());
        Readers::new(path, Reading::Shared)
    }

    fn one(connection: &Connection) -> Result<i64, Fault<ReadError>> {
        Ok(connection.query_row("SELECT 1", [], |row| row.get(0))?)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn few_threads_read_for_many_and_all_are_answered() {
        let folder = tempfile::tempdir().unwrap();
        let readers = readers(folder.path());
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let (readers, now, most) = (Arc::clone(&readers), Arc::clone(&now), Arc::clone(&most));
            calls.spawn(async move {
                let read = move |connection: &Connection| {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let found = one(connection);
                    now.fetch_sub(1, Ordering::SeqCst);
                    found
                };
                readers.call(read).await
            });
        }
        while let Some(answer) = calls.join_next().await {
            assert_eq!(answer.unwrap().unwrap(), 1);
        }
        assert!((1..=READERS).contains(&most.load(Ordering::SeqCst)));
        // The threads are over, and the next read has one.
        assert_eq!(readers.call(one).await.unwrap(), 1);
        assert!(readers.idle().as_ref().unwrap().len() <= READERS);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_store_that_is_dropped_after_a_read_is_closed_and_leaves_no_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        for time in 0..200 {
            let store = SqliteStore::open(&path).unwrap();
            store.last_change().await.unwrap();
            drop(store);
            assert!(!folder.path().join("journal.db-wal").exists(), "{time}");
        }
    }

    #[tokio::test]
    async fn a_read_that_panics_takes_no_other_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let readers = readers(folder.path());
        let own = Arc::clone(&readers);
        let panics = tokio::spawn(async move {
            own.call(|_: &Connection| -> Result<(), Fault<ReadError>> { panic!("a defect") }).await
        });
        assert!(panics.await.unwrap_err().is_panic());
        assert_eq!(readers.call(one).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn what_no_caller_waits_for_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let readers = readers(folder.path());
        // All threads are busy until they are let go.
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let mut busy = tokio::task::JoinSet::new();
        for _ in 0..READERS {
            let (readers, released) = (Arc::clone(&readers), Arc::clone(&released));
            busy.spawn(async move {
                let read = move |connection: &Connection| {
                    let _ = released.lock().unwrap().recv();
                    one(connection)
                };
                readers.call(read).await
            });
        }
        while readers.line().threads < READERS || !readers.line().waiting.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let was_read = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&was_read);
        let given_up = readers.call(move |connection: &Connection| {
            counted.fetch_add(1, Ordering::SeqCst);
            one(connection)
        });
        tokio::time::timeout(Duration::from_millis(10), given_up).await.unwrap_err();
        drop(release);
        while let Some(answer) = busy.join_next().await {
            answer.unwrap().unwrap();
        }
        assert_eq!(readers.call(one).await.unwrap(), 1);
        assert_eq!(was_read.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_runtime_that_shuts_down_leaves_no_read_that_waits_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let readers = readers(folder.path());
        // A thread that was counted and is never begun.
        assert!(readers.queue(Box::new(|_: &Readers| {})));
        let (reply, answer) = oneshot::channel::<()>();
        assert!(readers.queue(Box::new(move |_: &Readers| drop(reply))));
        readers.line().threads = 1;
        drop(Thread { readers: Arc::clone(&readers), is_counted: true });
        assert!(answer.blocking_recv().is_err());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(readers.call(one)).unwrap(), 1);
    }
}
