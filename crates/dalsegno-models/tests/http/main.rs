//! The wires against a double that checks every field, against faults, and against a mock server of others.

#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "helpers of tests that take `json!` literals"
)]

mod aimock;
mod anthropic;
mod aws;
mod batch;
mod bedrock;
mod chat;
mod compatible;
mod complete;
mod control;
mod double;
mod faults;
mod frames;
mod gemini;
mod invoices;
mod keys;
mod prefix;
mod recorded;
mod requests;
mod responses;
mod secrecy;
mod settings;
mod tool_files;
mod usage;
