//! The connections that read, beside the one that writes.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::schema;
use crate::OpenError;

/// How many calls of one process read at the same time: a few for runs, and one that an export to a slow
/// reader may hold.
const READERS: usize = 4;

/// Connections that see what was committed and are not held up by a commit under way.
#[derive(Debug)]
pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

/// The right to one of the connections.
pub(super) struct Turn {
    readers: Arc<Readers>,
    _permit: OwnedSemaphorePermit,
}

impl Readers {
    /// Opens all connections at once: later, another file could be in the place of this one.
    pub(super) fn open(path: &str) -> Result<Self, OpenError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let sqlite = |source| OpenError::from_sqlite(Path::new(path).to_owned(), source);
        let idle = (0..READERS).map(|_| {
            let connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
            schema::set_up(&connection).map_err(sqlite)?;
            Ok(connection)
        });
        let idle = idle.collect::<Result<_, OpenError>>()?;
        Ok(Self { idle: Mutex::new(idle), permits: Arc::new(Semaphore::new(READERS)) })
    }

    /// Waits for a connection, without holding a thread.
    pub(super) async fn turn(self: &Arc<Self>) -> Turn {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        Turn { readers: Arc::clone(self), _permit: permit.expect("nobody closes the semaphore") }
    }
}

impl Turn {
    /// Lends the connection.
    pub(super) fn with<T>(self, work: impl FnOnce(&mut Connection) -> T) -> T {
        let idle = || self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = idle().pop().expect("there are as many turns as connections");
        let mut lent = Lent { connection: Some(connection), readers: &self.readers };
        work(lent.connection.as_mut().expect("it is there until it is dropped"))
    }
}

/// Gives the connection back, also after a panic, which has rolled its transaction back.
struct Lent<'readers> {
    connection: Option<Connection>,
    readers: &'readers Readers,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut idle = self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.connection.take());
    }
}
