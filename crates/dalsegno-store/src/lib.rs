//! The journal of every run: records, hash chain, snapshots, owners.
//!
//! A run is an append-only sequence of [`Record`]s; its state at any point is the fold of the core over them. The
//! journal is the truth: what a listing needs of it is repeated in the run's entry, which every read and acquisition
//! compares with the records, and a [`Snapshot`] is only a cache that can be thrown away.
//!
//! # The protocol
//!
//! A process claims an [`Owner`] (an operating-system lock that ends with the process), creates or acquires a run and
//! gets a [`Lease`]. Each append states the next sequence number and the owner's epoch; a mismatch is refused whole.
//! So a stale owner can do no harm, and there is no lease to wait for when a process dies: a free lock means that its
//! runs may be adopted at once.
//!
//! ```
//! use dalsegno_core::{AgentRequest, Digest, RunId, Signal, Timestamp};
//! use dalsegno_store::{Body, Created, MemoryStore, NewRecord, NewRun, Owner, Start, Started, Store};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new();
//! let owner = Owner::in_process();
//! let run = RunId::from_bytes([7; 16]);
//! let started = Started {
//!     agent: "triage".parse()?,
//!     config: Digest::from_bytes([1; 32]),
//!     semantics: 1,
//!     request: AgentRequest::text("disk full"),
//!     session: "s1".into(),
//!     predecessor: None,
//!     start_key: None,
//!     modules: Default::default(),
//!     parent: None,
//!     depth: 0,
//!     budget: None,
//!     context: None,
//!     by_handoff: false,
//!     ask_effects: false,
//! };
//! let new = NewRun::new(run, "{}", Digest::from_bytes([2; 32]), owner.id(), Timestamp::from_millis(0), started);
//! let Created::New(mut lease) = store.create(new).await? else { unreachable!() };
//! let record = NewRecord::new(Timestamp::from_millis(1), Body::signalled(Signal::Cancel));
//! assert_eq!(store.append(&mut lease, vec![record]).await?, [1]);
//! assert_eq!(store.read(run, 0).await?.len(), 2);
//! store.release(lease).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Upkeep
//!
//! A worker asks for runs that it may take ([`Store::takeable`]) and for the next time to wake ([`Store::next_wake`]).
//! [`Store::gc`] deletes what ended long ago, [`Store::erase`] the content of one run while its chain still verifies.
//! [`SqliteStore::doctor`] examines a whole file and [`SqliteStore::backup`] copies it while others write.
//!
//! Two stores keep the same promises: [`SqliteStore`], one file, and [`MemoryStore`], its twin for tests. The feature
//! `conformance` has the suite that every store must pass. Without the feature `disk` there is no [`SqliteStore`], no claim of
//! an owner and no signature: what is left reads archives into a [`MemoryStore`], and compiles for a browser.
#![cfg_attr(
    not(feature = "disk"),
    allow(
        dead_code,
        rustdoc::broken_intra_doc_links,
        reason = "what stores on a disk share with the one in memory is not all used"
    )
)]

mod archive;
#[cfg(feature = "disk")]
mod backup;
mod blob;
mod block;
mod bytes;
mod chain;
pub mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;
mod copies;
#[cfg(feature = "disk")]
mod doctor;
mod erase;
mod error;
mod gc;
mod inbox;
mod lease;
mod memory;
mod origin;
mod owner;
#[cfg(feature = "disk")]
mod pack;
mod page;
mod progress;
mod record;
mod run;
mod shares;
#[cfg(feature = "disk")]
mod sieve;
#[cfg(feature = "disk")]
mod signing;
#[cfg_attr(not(feature = "disk"), path = "no_snapshot.rs")]
mod snapshot;
mod spending;
#[cfg(feature = "disk")]
mod sqlite;
mod store;
#[cfg(feature = "conformance")]
pub mod tamper;
mod waiting;

pub use archive::{Archive, ArchiveError, ImportError, Imported};
#[cfg(feature = "disk")]
pub use backup::BackupError;
pub use blob::digest_bytes;
pub use block::{decode_block, encode_block};
pub use bytes::{Checksum, Link};
#[cfg(feature = "disk")]
pub use doctor::{Checkup, Finding};
pub use erase::{EraseError, Erased};
pub use error::{
    AcquireError, AppendError, BlobError, CreateError, Damage, Flaw, OpenError, OwnerError, ReadError,
    RecordError, SnapshotError, StorageError, StorageKind,
};
pub use gc::{GcError, GcOptions, GcReport};
pub use inbox::{Message, PostError};
pub use lease::Lease;
pub use memory::MemoryStore;
pub use origin::{Foreign, Signer, SignerError};
pub use owner::{Owner, OwnerId};
pub use page::Page;
pub use progress::Progress;
pub use record::{
    AttemptCause, Body, Denial, Evidence, NewRecord, Parent, Record, RecordKind, Start, Started, WaitingFor,
};
pub use run::{Change, Created, Follows, NewRun, Recent, RunFilter, RunStatus, RunSummary, Snapshot};
#[cfg(feature = "disk")]
pub use signing::SigningKey;
pub use spending::{Allowance, ReserveError};
#[cfg(feature = "disk")]
pub use sqlite::SqliteStore;
pub use store::Store;
pub use waiting::Waiting;
