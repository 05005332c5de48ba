//! A durable agent engine. Kill a run at any point and it resumes: nothing is lost, nothing runs twice.
//!
//! An agent is a model with instructions, or a plan, and a list of tools that it may call. You write it as a TOML file or in
//! code. The engine records every step of a run in a journal. So a run survives the death of its process, can be replayed
//! without calling a model or a tool, and waits for a person's approval without holding a process.
//!
//! ```
//! use dalsegno::{Agent, AgentRequest, EffectClass, Engine, Invocation, ToolError, function, model::ScriptModel};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Order {
//!     /// The number of the order.
//!     number: u32,
//! }
//!
//! async fn find(order: Order, _: Invocation) -> Result<String, ToolError> {
//!     Ok(format!("order {} was shipped on Monday", order.number))
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // Replies that are written down, so that this needs no network and no key.
//! let script = r#"
//!     [[replies]]
//!     calls = [{ name = "orders.find", arguments = { number = 7 } }]
//!     [[replies]]
//!     text = "Good news: {{last}}."
//! "#;
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let engine = Engine::builder()
//!     .agent(&Agent::new("desk").model("default").instructions("You help customers.").allow("orders.*"))
//!     .tool("orders.find".parse()?, function("Finds an order.", EffectClass::Read, find))
//!     .model("default", ScriptModel::parse(script)?)
//!     .open(folder)
//!     .await?;
//! let response = engine.execute_agent_request(&"desk".parse()?, AgentRequest::text("Where is order 7?")).await?;
//! assert_eq!(response.answer.as_deref(), Some("Good news: order 7 was shipped on Monday."));
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! Four types are the way in:
//!
//! - [`Engine`] opens a workspace folder, and starts, resumes and forks runs. [`Engine::journal`] lists, inspects, replays and
//!   compares them; a [`Journal`] does so without an engine.
//! - [`Agent`] is an agent built in code; the files in the folder `agents/` work as well.
//! - [`Tool`] is a tool in Rust; [`function`](fn@function) makes one of a function.
//! - [`RunHandle`] is a run that this process executes: its events and its end.
//!
//! Each tool has an [`EffectClass`]. It says whether the engine may repeat a call whose result was lost: a call that reads may
//! be repeated, a payment may not. A keyed call may be repeated with the same key: [`Invocation::operation`], which is the same
//! for every attempt, even after a crash.
//!
//! # Features
//!
//! All are on by default. An engine without them builds in less than half the time.
//!
//! | feature | what it adds |
//! |---|---|
//! | `schemars` | [`function`](fn@function): tools made of functions, with the schema from the argument's type |
//! | `wasm` | tool servers that are WebAssembly modules |
//! | `mail` | the action `email.send` of declarative tools |
//! | `oauth` | access by OAuth 2 for declarative tools and remote tool servers |

#[cfg(feature = "schemars")]
mod function;

pub use async_trait::async_trait;
pub use dalsegno_core::{
    AgentName, AgentRequest, AgentResponse, EffectClass, OperationId, Received, RunId, Status, ToolName,
    ToolReturn,
};
pub use dalsegno_history::{ErrorKind, HistoryError, Journal, WaitingOperation};
pub use dalsegno_runtime::{
    Engine, EngineBuilder, EngineError, GateInput, Invocation, NewAttachment, OpenError, RunEnd, RunEvent,
    RunFailure, RunHandle, RunReport, Settlement, StartOptions, Tool, ToolDescription, ToolError,
};
pub use dalsegno_workspace::Agent;
#[cfg(feature = "schemars")]
pub use function::{Function, function};

/// Models: the trait, the replies, and the models that come with Dalsegno.
pub mod model {
    pub use dalsegno_core::{
        CallRequest, Entry, ModelReply, ModelSettings, ReplyPart, StopReason, ToolChoice, Toolbox,
        Transcript, Validation, Violation,
    };
    pub use dalsegno_models::{
        Cassette, CassetteError, CompletionRequest, DeltaSink, Model, ModelError, ModelErrorKind, Retry,
        ScriptError, ScriptModel, judge_call, judge_output,
    };
}

/// Journals: where runs are recorded, and the records.
pub mod store {
    pub use dalsegno_store::{
        Body, MemoryStore, NewRecord, Owner, Record, RunFilter, RunStatus, RunSummary, SqliteStore, Store,
        Waiting,
    };
}

/// Runs in detail: steps, replays, forks, differences, workers.
pub mod run {
    pub use dalsegno_core::{AgentConfig, Gate, Timestamp, Usage};
    pub use dalsegno_history::{
        ConfigReport, Inspection, OperationView, ReplayReport, ReplayVerdict, RunDiff, StepView,
    };
    pub use dalsegno_runtime::{ForkOptions, WorkerEvent, WorkerOptions, WorkerReport};
}

#[cfg(all(doctest, feature = "schemars"))]
#[doc = include_str!("../../../docs/src/embed.md")]
struct Book;
