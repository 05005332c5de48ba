//! The engine over HTTP: runs, streams and answers for clients with keys.
//!
//! The server decides nothing about a run. What it shows is computed from the journal; what it changes goes through
//! [`Engine`](dalsegno_runtime::Engine). Each request has an [`Access`](dalsegno_access::Access) from a checked key, or is
//! refused; what belongs to another tenant is answered as what does not exist.

#![allow(
    unused_qualifications,
    reason = "the macros of utoipa write them, with the places of what they were given"
)]

mod accept;
mod agents;
mod answers;
mod body;
mod changes;
mod costly;
mod cursor;
mod documents;
mod events;
mod fork;
mod guard;
mod hands;
mod health;
mod inbox;
mod limits;
mod link;
mod listing;
mod oidc;
mod openapi;
mod pages;
mod params;
mod pausing;
mod problem;
mod protected;
mod routes;
mod runs;
mod sessions;
mod shared;
mod shares;
mod sse;
mod steps;
mod telephone;
mod tls;
mod triggers;
mod upkeep;
mod upload;
mod webhooks;

pub use accept::{ServeError, Server};
pub use openapi::document as openapi;
pub use params::is_name;
pub use problem::Code;
pub use routes::{RouteInfo, routes};
pub use telephone::check_webhook_secret;
pub use tls::TlsError;
pub use webhooks::{Webhook, test_message};
