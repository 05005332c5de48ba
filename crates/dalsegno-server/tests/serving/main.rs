//! The server over real sockets: what it answers, what it refuses, and what no client can do.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod catalogue;
mod catalogue_model;
mod catalogue_reach;
mod client;
mod hostile;
mod runs;
mod streams;
mod tenants;
mod world;
