//! The one thread that writes: it commits whatever many runs have queued in one transaction (group commit).
//!
//! Each piece of work stands in a savepoint of its own, so one that is refused does not fail the others. Nobody hears
//! of a success before the commit is flushed.

use std::path::Path;
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{Fault, storage_error};
use crate::error::{OpenError, StorageError, StorageKind};

/// Most pieces of work in one transaction: far above what arrives during one flush, and it bounds how long the first
/// one waits for the last.
const BATCH_MAX: usize = 512;
/// Most pieces of work that wait. A caller beyond that waits before it queues.
const QUEUE_MAX: usize = 1024;

/// A handle of the thread. The thread ends, after what is queued, when the handle is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Box<dyn Work>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(connection: Connection, path: &Path) -> Result<Self, OpenError> {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("dalsegno-journal".into())
            .spawn(move || write_all(&connection, receiver))
            .map_err(|source| OpenError::Thread { path: path.to_owned(), source })?;
        Ok(Self { queue: Some(sender), thread: Some(thread) })
    }

    /// A handle of no thread, for a journal that may only be read: all work is refused.
    pub(super) const fn none() -> Self {
        Self { queue: None, thread: None }
    }

    /// Queues a piece of work and waits until it is committed or refused.
    pub(super) async fn call<T, E>(
        &self,
        perform: impl FnOnce(&Connection) -> Result<T, Fault<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
    {
        self.queue(perform, false).await
    }

    /// The same outside any transaction, by itself.
    pub(super) async fn call_alone<T, E>(
        &self,
        perform: impl FnOnce(&Connection) -> Result<T, Fault<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
    {
        self.queue(perform, true).await
    }

    async fn queue<T, E>(
        &self,
        perform: impl FnOnce(&Connection) -> Result<T, Fault<E>> + Send + 'static,
        alone: bool,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let call = Call { perform: Some(perform), result: None, reply, alone };
        let queue = self.queue.as_ref().ok_or(StorageError::of_kind(StorageKind::ReadOnly))?;
        queue.send(Box::new(call)).await.map_err(|_| StorageError::closed())?;
        answer.await.unwrap_or_else(|_| Err(StorageError::closed().into()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the journal panicked");
        }
    }
}

/// A piece of work for the thread.
trait Work: Send {
    /// Does it, within a transaction, and keeps the result.
    fn perform(&mut self, connection: &Connection) -> Changes;

    /// Sends the result, or the reason why the whole transaction failed.
    fn finish(self: Box<Self>, committed: Result<(), StorageError>);

    /// Says whether it is done by itself, outside a transaction.
    fn is_alone(&self) -> bool;
}

/// The fate of the changes that a piece of work made.
enum Changes {
    /// They are to be committed.
    Keep,
    /// They are to be undone.
    Undo,
    /// The storage failed; the database may have rolled back the whole transaction.
    Fault(StorageError),
}

struct Call<F, T, E> {
    perform: Option<F>,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
    alone: bool,
}

impl<F, T, E> Work for Call<F, T, E>
where
    F: FnOnce(&Connection) -> Result<T, Fault<E>> + Send,
    T: Send,
    E: From<StorageError> + Send,
{
    fn perform(&mut self, connection: &Connection) -> Changes {
        let Some(perform) = self.perform.take() else { return Changes::Undo };
        let (result, changes) = match perform(connection) {
            Ok(value) => (Ok(value), Changes::Keep),
            Err(Fault::Refused(error)) => (Err(error), Changes::Undo),
            Err(Fault::Storage(error)) => {
                let error = storage_error(connection, error);
                (Err(error.clone().into()), Changes::Fault(error))
            }
        };
        self.result = Some(result);
        changes
    }

    fn finish(self: Box<Self>, committed: Result<(), StorageError>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(StorageError::closed().into()),
            (Err(error), _) => Err(error.into()),
        };
        // Whoever asked may have given up; the work is done all the same.
        let _ = self.reply.send(result);
    }

    fn is_alone(&self) -> bool {
        self.alone
    }
}

fn write_all(connection: &Connection, mut queue: mpsc::Receiver<Box<dyn Work>>) {
    let mut held = None;
    while let Some(first) = held.take().or_else(|| queue.blocking_recv()) {
        if first.is_alone() {
            alone(connection, first);
            continue;
        }
        let mut batch = vec![first];
        held = gather(&mut queue, &mut batch);
        let committed = commit(connection, &mut batch);
        if let Err(error) = &committed {
            tracing::error!(
                error = error as &dyn std::error::Error,
                work = batch.len(),
                "a commit of the journal failed"
            );
        }
        for work in batch {
            work.finish(committed.clone());
        }
    }
}

/// Does a piece of work that wants no transaction.
fn alone(connection: &Connection, mut work: Box<dyn Work>) {
    let done = match work.perform(connection) {
        Changes::Fault(error) => Err(error),
        Changes::Keep | Changes::Undo => Ok(()),
    };
    work.finish(done);
}

/// Takes all that is queued, up to work that stands alone, which it returns. The callers that were just answered get one
/// chance to queue more: a flush costs far more than that.
fn gather(
    queue: &mut mpsc::Receiver<Box<dyn Work>>,
    batch: &mut Vec<Box<dyn Work>>,
) -> Option<Box<dyn Work>> {
    loop {
        let before = batch.len();
        while batch.len() < BATCH_MAX
            && let Ok(work) = queue.try_recv()
        {
            if work.is_alone() {
                return Some(work);
            }
            batch.push(work);
        }
        if batch.len() == before || batch.len() == BATCH_MAX {
            return None;
        }
        std::thread::yield_now();
    }
}

/// Does a batch in one transaction. On an error nothing of it is in the journal.
fn commit(connection: &Connection, batch: &mut [Box<dyn Work>]) -> Result<(), StorageError> {
    let result = perform(connection, batch);
    if result.is_err() && !connection.is_autocommit() {
        // It fails only if the transaction is gone already.
        let _ = connection.execute_batch("ROLLBACK");
    }
    result
}

fn perform(connection: &Connection, batch: &mut [Box<dyn Work>]) -> Result<(), StorageError> {
    let run = |sql| {
        let mut statement = connection.prepare_cached(sql)?;
        statement.execute([]).map(drop)
    };
    let run = |sql| run(sql).map_err(|error| storage_error(connection, error));
    run("BEGIN IMMEDIATE")?;
    for work in batch {
        run("SAVEPOINT work")?;
        match work.perform(connection) {
            Changes::Keep => {}
            Changes::Undo => run("ROLLBACK TO work")?,
            // A full disk or a failed read ends the transaction, and with it what others did.
            Changes::Fault(error) if connection.is_autocommit() => return Err(error),
            Changes::Fault(_) => run("ROLLBACK TO work")?,
        }
        run("RELEASE work")?;
    }
    run("COMMIT")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{AppendError, StorageKind};

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE line (text TEXT)").unwrap();
        connection
    }

    fn lines(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM line", [], |row| row.get(0)).unwrap()
    }

    type Answer = oneshot::Receiver<Result<(), AppendError>>;

    /// Work that writes a line of so many bytes, and is then refused if `refused`.
    fn work(length: usize, refused: bool) -> (Box<dyn Work>, Answer) {
        let (reply, answer) = oneshot::channel();
        let perform = move |connection: &Connection| {
            connection.execute("INSERT INTO line VALUES (?1)", ["x".repeat(length)])?;
            let run = dalsegno_core::RunId::from_bytes([0; 16]);
            if refused { Err(Fault::Refused(AppendError::UnknownRun { run })) } else { Ok(()) }
        };
        (Box::new(Call { perform: Some(perform), result: None, reply, alone: false }), answer)
    }

    fn commit_all(
        connection: &Connection,
        work: Vec<(Box<dyn Work>, Answer)>,
    ) -> Vec<Result<(), AppendError>> {
        let (mut batch, answers): (Vec<_>, Vec<_>) = work.into_iter().unzip();
        let committed = commit(connection, &mut batch);
        for work in batch {
            work.finish(committed.clone());
        }
        answers.into_iter().map(|answer| answer.blocking_recv().unwrap()).collect()
    }

    #[test]
    fn refused_work_is_undone_and_does_not_fail_the_rest_of_its_batch() {
        let connection = database();
        let results = commit_all(&connection, vec![work(1, false), work(1, true), work(1, false)]);
        assert!(results[0].is_ok() && results[2].is_ok());
        assert!(matches!(results[1], Err(AppendError::UnknownRun { .. })));
        assert_eq!(lines(&connection), 2);
        assert!(connection.is_autocommit());
    }

    #[test]
    fn a_full_disk_is_told_to_everybody_whose_work_is_not_in_the_journal() {
        let connection = database();
        connection.pragma_update_and_check(None, "max_page_count", 20, |_| Ok(())).unwrap();
        let results = commit_all(&connection, vec![work(1, false), work(1_000_000, false), work(1, false)]);
        let stored = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(lines(&connection), i64::try_from(stored).unwrap());
        let Err(AppendError::Storage(error)) = &results[1] else { panic!("{results:?}") };
        assert_eq!(error.kind(), StorageKind::Full);
        assert!(error.to_string().contains("no room"), "{error}");
        assert!(std::error::Error::source(error).is_some());
        // The next batch finds a connection that works.
        assert!(commit_all(&connection, vec![work(1, false)])[0].is_ok());
    }

    #[test]
    fn a_read_only_database_is_told_to_all() {
        let connection = database();
        connection.pragma_update(None, "query_only", true).unwrap();
        for result in commit_all(&connection, vec![work(1, false), work(1, false)]) {
            let Err(AppendError::Storage(error)) = result else { panic!("{result:?}") };
            assert_eq!(error.kind(), StorageKind::ReadOnly);
        }
        assert_eq!(lines(&connection), 0);
    }

    #[test]
    fn all_that_is_queued_is_gathered_up_to_the_limit() {
        let (sender, mut queue) = mpsc::channel(QUEUE_MAX);
        for _ in 0..BATCH_MAX + 10 {
            assert!(sender.try_send(work(1, false).0).is_ok());
        }
        for expected in [BATCH_MAX, 10] {
            let mut batch = Vec::new();
            assert!(gather(&mut queue, &mut batch).is_none());
            assert_eq!(batch.len(), expected);
        }
    }
}
