//! Workspaces, from their files to what they mean or why they are refused.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "../pages/mod.rs"]
mod pages;

mod agents;
mod arbitrary;
mod batteries;
mod corpus;
mod evals;
mod example;
mod layers;
mod lines;
mod lock;
mod names;
mod other_model;
mod provider_tools;
mod resolve;
mod samples;
mod schema;
mod toolkits;
mod values;
