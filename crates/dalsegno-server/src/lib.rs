//! The engine over HTTP: runs, streams and answers for clients with keys.
//!
//! The server decides nothing about a run. What it shows is computed from the journal; what it changes goes through
//! [`Engine`](dalsegno_runtime::Engine). Each request has an [`Access`](dalsegno_access::Access) from a checked key, or is
//! refused; what belongs to another tenant is answered as what does not exist.

mod accept;
mod agents;
mod answers;
mod body;
mod cursor;
mod documents;
mod events;
mod fork;
mod guard;
mod hands;
mod health;
mod inbox;
mod limits;
mod listing;
mod params;
mod problem;
mod routes;
mod runs;
mod shared;
mod sse;

pub use accept::{ServeError, Server};
pub use problem::Code;
pub use routes::{RouteInfo, routes};
