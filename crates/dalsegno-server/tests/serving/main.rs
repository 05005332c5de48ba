//! The server over real sockets: what it answers, what it refuses, and what no client can do.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod catalogue;
mod catalogue_model;
mod catalogue_reach;
mod changes;
mod client;
mod costly;
mod held;
mod hostile;
#[path = "../../../dalsegno-access/tests/issuer/mod.rs"]
mod issuer;
mod lists;
mod oidc;
mod openapi;
mod pages;
mod reference;
mod runs;
mod sign_in;
mod streams;
mod tenants;
mod tls;
mod triggers;
mod upkeep;
mod uploads;
mod webhooks;
mod world;
