//! What computes: replays, comparisons, exports, forks, inboxes and the states of steps. How many there are at once is bounded,
//! for the process and for each tenant, and so is how many wait and how long. They have threads of their own, so that a request that
//! computes nothing never waits for one that does.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use dalsegno_access::Access;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::spawn_blocking;

use crate::problem::{Code, Problem};
use crate::shares::Shares;

/// The longest that a read waits until it begins.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most reads of a tenant that wait, besides those under way.
const WAITING: usize = 8;
/// Most archives that are held while clients take them: of a tenant, and of all.
const TAKEN_OF_TENANT: usize = 2;
const TAKEN: usize = 8;
/// The bytes of an archive that are given to a connection at once.
const PIECE: usize = 64 << 10;

/// The room of a server for reads that compute.
pub(crate) struct Costly {
    /// One for each read under way.
    all: Arc<Semaphore>,
    /// One for each archive that a client takes.
    taken: Arc<Semaphore>,
    of_tenant: usize,
    tenants: Shares<Tenant>,
    stopping: watch::Receiver<bool>,
}

/// The room of one tenant, or of the keys of all tenants.
struct Tenant {
    /// One for each read, whether it waits or is under way.
    places: Arc<Semaphore>,
    under_way: Arc<Semaphore>,
    taken: Arc<Semaphore>,
}

/// What a read holds until its work has ended, also where its client has gone away before.
struct Held {
    _permits: [OwnedSemaphorePermit; 3],
    // As long as a read of it is there, the room is the same for all.
    _tenant: Arc<Tenant>,
}

/// The room of an archive, until its client has it.
pub(crate) struct Taking {
    _permits: [OwnedSemaphorePermit; 2],
    _tenant: Arc<Tenant>,
}

impl Costly {
    /// Room for as many reads as there are processors, of which a tenant has half.
    pub(crate) fn new(stopping: watch::Receiver<bool>) -> Self {
        let all = std::thread::available_parallelism().map_or(2, NonZeroUsize::get).max(2);
        Self {
            all: Arc::new(Semaphore::new(all)),
            taken: Arc::new(Semaphore::new(TAKEN)),
            of_tenant: all / 2,
            tenants: Shares::default(),
            stopping,
        }
    }

    /// Computes something for a client, when there is room. A client that goes away stops it: at the next place at which it reads
    /// the journal.
    ///
    /// # Errors
    /// What the work returns; a problem where there is no room in time, or the server stops.
    pub(crate) async fn perform<T: Send + 'static>(
        &self,
        access: &Access,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        let (here, gone) = oneshot::channel::<Infallible>();
        let done = self.complete(access, async move {
            tokio::select! {
                done = work => done,
                _ = gone => Err(Problem::stopping()),
            }
        });
        let done = done.await;
        drop(here);
        done
    }

    /// Does something that computes for a client, when there is room, and to the end, also when the client goes away.
    ///
    /// # Errors
    /// What the work returns; a problem where there is no room in time, or the server stops before it begins.
    pub(crate) async fn complete<T: Send + 'static>(
        &self,
        access: &Access,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        let held = self.in_time(self.enter(access)).await?;
        let runtime = Handle::current();
        // A fold computes without a pause, and would keep a thread of the runtime from all other requests.
        let done = spawn_blocking(move || {
            let _held = held;
            runtime.block_on(work)
        });
        done.await.unwrap_or_else(|error| Err(Problem::defect(&error)))
    }

    /// Room for an archive, from before it is made until its client has taken it.
    ///
    /// # Errors
    /// A problem where there is no room in time, or the server stops.
    pub(crate) async fn taking(&self, access: &Access) -> Result<Taking, Problem> {
        let tenant = self.tenant(access);
        self.in_time(async {
            let own = permit(&tenant.taken).await?;
            Ok(Taking { _permits: [own, permit(&self.taken).await?], _tenant: tenant })
        })
        .await
    }

    async fn enter(&self, access: &Access) -> Result<Held, Problem> {
        let tenant = self.tenant(access);
        let place = Arc::clone(&tenant.places).try_acquire_owned().map_err(|_| {
            let detail = format!(
                "{} replays, comparisons, exports, forks, inboxes or steps of this tenant are computed or wait for it, which is the maximum",
                self.of_tenant + WAITING
            );
            Problem::new(Code::TooMany, detail, "wait for an answer before you ask for another").retry_after(2)
        })?;
        // The tenant's own first, so that what waits for it takes nothing from the others.
        let own = permit(&tenant.under_way).await?;
        Ok(Held { _permits: [place, own, permit(&self.all).await?], _tenant: tenant })
    }

    async fn in_time<T>(&self, room: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
        let mut stopping = self.stopping.clone();
        tokio::select! {
            room = tokio::time::timeout(PATIENCE, room) => room.unwrap_or_else(|_| {
                let detail = format!("the server computes for other requests, and had no room for this one within {} s", PATIENCE.as_secs());
                Err(Problem::new(Code::Unavailable, detail, "try again later").retry_after(5))
            }),
            _ = stopping.wait_for(|stopping| *stopping) => Err(Problem::stopping()),
        }
    }

    fn tenant(&self, access: &Access) -> Arc<Tenant> {
        let room = |number| Arc::new(Semaphore::new(number));
        self.tenants.of(access, || Tenant {
            places: room(self.of_tenant + WAITING),
            under_way: room(self.of_tenant),
            taken: room(TAKEN_OF_TENANT),
        })
    }
}

async fn permit(room: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    // It is never closed.
    Arc::clone(room).acquire_owned().await.map_err(|_| Problem::stopping())
}

/// The body of an archive, piece by piece: its room is free when the client has all of it, or is gone.
pub(crate) fn taken(bytes: Vec<u8>, taking: Taking) -> Body {
    let pieces = futures::stream::unfold((Bytes::from(bytes), taking), async |(mut rest, taking)| {
        if rest.is_empty() {
            return None;
        }
        let piece = rest.split_to(rest.len().min(PIECE));
        Some((Ok::<_, Infallible>(piece), (rest, taking)))
    });
    Body::from_stream(pieces)
}
