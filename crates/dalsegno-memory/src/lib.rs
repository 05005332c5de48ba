//! What agents keep and recall: entities with observations and relations, full-text search, scopes.
//!
//! A [`Memory`] holds *observations*, each a short text about a named *entity* ("INC-0042 double charge"),
//! and typed *relations* between entities. Agents add to it with [`Memory::create`] and
//! [`Memory::relate`]; they ask it with [`Memory::search`] and follow relations with [`Memory::traverse`].
//! [`SqliteMemory`] keeps it in one SQLite file, or in SQLite's own memory for tests and trials.
//!
//! # Scope
//! Every observation lives in exactly one scope: a session, an agent, a workspace or a tenant. No operation
//! takes a filter that could be forgotten; each takes a [`ScopeSet`], and only [`ScopeResolver`] makes one,
//! from a [`Principal`] (who asks) and a [`Scope`] (what for). Scope is part of every word in the full-text
//! index, so that a search walks over nothing but what its principal may read, and BM25 counts nothing
//! else: what other tenants keep changes no score and no order.
//!
//! # Writing once
//! A write names its operation. The same operation again gives the same answer and writes nothing, so that
//! a run which resumes after a crash repeats its writes without doubling them.
//!
//! # Time
//! Observations and relations hold from one time to another. Ending one keeps it: a walk can be taken as of
//! any earlier time, and [`Memory::export`] writes what no longer stands too. [`Memory::correct`] ends an
//! observation and writes its successor; only [`Memory::delete`] removes something with its history.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! use dalsegno_memory::{Memory, NewObservation, Principal, Scope, ScopeResolver, SearchQuery, Source, SqliteMemory};
//!
//! let memory = SqliteMemory::in_memory()?;
//! let principal = Principal::new("acme", "support", "triage", "session-1")?;
//! let scopes = ScopeResolver.resolve(&principal, Scope::Workspace);
//! let observation = NewObservation {
//!     operation: [7; 16],
//!     entity: "INC-0042 double charge".to_owned(),
//!     entity_type: "incident".to_owned(),
//!     text: "Customers were charged twice after the payment worker restarted.".to_owned(),
//!     metadata: serde_json::json!({"severity": "high"}),
//!     source: Source::Run { run: "run-1".to_owned(), step: 3 },
//!     recorded_at: 1_700_000_000_000,
//! };
//! memory.create(&scopes, observation).await?;
//!
//! let hits = memory.search(&scopes, &SearchQuery::new("charging customers twice")).await?;
//! assert_eq!(hits[0].entity, "INC-0042 double charge");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod amend;
mod error;
mod exchange;
mod hash;
mod memory;
mod name;
mod observation;
mod relation;
mod scope;
mod search;
mod seed;
mod sqlite;
mod stem;
mod traverse;
mod view;
mod words;

pub use amend::{Correct, Corrected, Delete, Deleted, FOUND_MAX, Found};
pub use error::{MemoryError, OpenError};
pub use exchange::{
    ExportCounts, ExportError, IMPORT_LINE_BYTES_MAX, ImportCounts, ImportError, ImportMode,
    UnknownImportMode,
};
pub use memory::Memory;
pub use name::{NAME_BYTES_MAX, NameError};
pub use observation::{
    Created, METADATA_BYTES_MAX, METADATA_DEPTH_MAX, NewObservation, ObservationId, Source, TEXT_BYTES_MAX,
};
pub use relation::{
    RELATIONS_MAX, Relate, Related, RelationTo, STRENGTH_DEFAULT, UNKNOWN_TYPE, Unrelate, Unrelated,
};
pub use scope::{Principal, PrincipalError, Scope, ScopeResolver, ScopeSet, UnknownScope};
pub use search::{Hit, LIMIT_DEFAULT, LIMIT_MAX, QUERY_BYTES_MAX, QUERY_WORDS_MAX, SearchQuery, Why};
pub use seed::{SEED_LINE_BYTES_MAX, SeedCounts, SeedError, check_seed};
pub use sqlite::SqliteMemory;
pub use traverse::{
    DEPTH_DEFAULT, DEPTH_MAX, Direction, ENTITIES_LIMIT_MAX, OBSERVATION_BYTES_SHOWN, OBSERVATIONS_SHOWN,
    RELATIONS_PER_ENTITY, RELATIONS_READ_MAX, TRAVERSE_LIMIT_DEFAULT, Traversal, Traverse, TraversedEntity,
    TraversedRelation, UnknownDirection,
};
pub use view::{EntityList, EntitySummary, EntityView, ObservationView, RelationView, SourceStep, VIEW_MAX};
