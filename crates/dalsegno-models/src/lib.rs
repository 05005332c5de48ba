//! The model trait, the wires of providers, scripted and recorded replies, and the validation of each tool call.
//!
//! A [`Model`] turns a [`CompletionRequest`] into a reply of `dalsegno-core`. It translates between a provider's wire
//! format and the core's types, and it judges each call in the reply: the core holds no JSON Schema engine, so a
//! [`Validation`](dalsegno_core::Validation) is part of what the shell records and a replay needs no validator.
//!
//! - [`judge_call`] judges a call as a model wrote it; [`Schemas::judge_arguments`] judges arguments that come from a
//!   plan or a person. Both coerce only where nothing is lost, and report every violation at once.
//! - [`judge_output`] judges the text of a structured answer, [`judge_result`] what a tool answered.
//! - [`Schema`] is one compiled JSON Schema, for whatever else must fit one.
//! - [`HttpModel`] asks an endpoint over one of the [`Wire`]s, and as [`Later`] those that reply to batches.
//! - [`Recorder`] and [`Cassette`] keep what a model replied and replay it.
//! - [`ScriptModel`] replies from a TOML file: offline, deterministic, without a token.
//! - [`LiveTwin`] is the caller and the live model of a call that is written down ([`LiveScript`]).
//!
//! A schema comes from another party. It never reaches the network or a file, its patterns run in linear time, and
//! one that would take too long or too much stack to apply is refused when it is compiled; see [`SchemaError`].

mod cassette;
mod http;
mod model;
mod output;
mod provider_tools;
mod schema;
mod script;
mod talk;
mod validation;

pub use cassette::{Cassette, CassetteError, Recorder, Recording};
pub use http::{
    AwsKey, Cache, HttpModel, HttpModelError, HttpModelSettings, ToolFiles, UnknownWire, Wire, aws_key_parts,
};
pub use model::{CompletionRequest, DeltaSink, Later, LaterError, Model, ModelError, ModelErrorKind, Retry};
pub use output::{judge_output, judge_result};
pub use provider_tools::{ProviderCall, provider_call};
pub use schema::{MAX_DEPTH, MAX_VIOLATIONS, Schema, SchemaError};
pub use script::{ScriptError, ScriptModel, Scripted};
pub use talk::{CallerTurn, LiveAsk, LiveScript, LiveScriptError, LiveTurn, LiveTwin};
pub use validation::{MAX_ARGUMENT_BYTES, Schemas, judge_call};
