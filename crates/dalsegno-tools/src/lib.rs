//! Declarative tools: plans the effects of a tool call that is data. Pure.
//!
//! A tool is a JSON document: parameters for the model, and actions that run in order. [`compile`] turns a document into a
//! [`Toolkit`] of [`Tool`]s, or into all its problems at once, each with its JSON pointer. A [`Call`] of a tool then
//! performs nothing: it returns the next [`Effect`] (an HTTP request, a mail, a call of another tool) and takes its outcome
//! back; between the two it can be saved, loaded and replayed.
//!
//! # What it reads and writes
//!
//! A [`Context`] is borrowed from the caller and holds no value of a secret: where a document puts one into a request, the
//! request holds a reference ([`Text`], [`Payload`]), which the shell resolves when it sends it. Writes are buffered in the
//! call and come out as a list of [`Write`]s when it ends; [`SessionContext::apply`] applies them as a whole.
//!
//! # Limits
//!
//! Everything is bounded: the document, its arguments, the evaluation of its expressions, what a call holds, says and
//! writes. Past a limit a call ends with `limit_exceeded`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod document;
mod tool;

mod context;
mod effect;
mod outcome;
mod parameters;
mod planner;

mod action;
mod scope;
mod source;
mod url;

mod json;
mod limits;
mod name;
mod path;
mod path_error;
mod problem;
mod text;

pub use context::{CallInfo, Context, SessionContext, Write};
pub use document::{Compiled, Settings, compile, compile_with};
pub use effect::{
    ApiCall, ApiResponse, Effect, EffectClass, EffectFailure, EffectOutcome, EffectRequest, Email, Method,
    Security, StatusMeaning, ToolRequest, Transfer, absent_arguments, can_hold,
};
pub use limits::{MAX_ACTIONS, MAX_CALL_BYTES, MAX_NESTING, MAX_SESSION_BYTES, MAX_VALUE_BYTES};
pub use outcome::{
    ActionPlace, ActionStatus, ActionTrace, ErrorCode, Finished, HandoffTo, ToolError, ToolOutcome,
    UnknownErrorCode,
};
pub use parameters::{Coercion, Kind, Parameter, Pattern, Shape, Violation};
pub use path::Path;
pub use path_error::{PathError, WriteError};
pub use planner::{Call, Next, ResumeError};
pub use problem::Problem;
pub use text::{Encoding, MissingSecret, Payload, SecretReference, SecretString, Text, TextPart};
pub use tool::{Auth, KeyPlace, Mentions, OAuth2, Tool, Toolkit, Verify};
