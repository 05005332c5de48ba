//! What users, tools and operators are told: what tools say, on whose behalf they are called, and what a workspace consists of.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

#[path = "told/caller.rs"]
mod caller;
#[path = "told/documents.rs"]
mod documents;
#[path = "told/engine_tools.rs"]
mod engine_tools;
#[path = "told/live.rs"]
mod live;
#[path = "told/notes.rs"]
mod notes;
#[path = "told/said.rs"]
mod said;
mod support;
#[path = "told/tenants.rs"]
mod tenants;
