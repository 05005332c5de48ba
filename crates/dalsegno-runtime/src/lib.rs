//! Performs what the core asks for, journals it, and survives a kill.
//!
//! [`Engine`] is the door: it opens a workspace, starts runs, goes on with them, replays and inspects them. Everything
//! a run asks for goes through one loop, which writes every intent before its effect and every outcome before the
//! next step.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use dalsegno_core::AgentRequest;
//! use dalsegno_runtime::Engine;
//!
//! let engine = Engine::open(std::path::Path::new(".")).await?;
//! let response = engine.execute_agent_request(&"triage".parse()?, AgentRequest::text("disk full on db-1")).await?;
//! println!("{}", response.answer.unwrap_or_default());
//! # Ok(())
//! # }
//! ```

mod abandon;
#[cfg_attr(not(feature = "oauth"), path = "no_access.rs")]
mod access;
mod acquire;
mod adopt;
mod answers;
mod archive;
mod attempt;
mod bindings;
mod bound;
mod children;
mod clock;
#[cfg(feature = "oauth")]
mod consents;
mod context;
mod declared;
mod dispatch;
mod driver;
mod elicitation;
mod ending;
mod endpoint;
mod endpoints;
mod engine;
mod engine_tools;
mod error;
mod failure;
mod fork;
mod grant;
mod handle;
mod hidden;
mod kind;
mod known;
mod live;
#[cfg_attr(not(feature = "mail"), path = "no_mail.rs")]
mod mail;
#[cfg(feature = "wasm")]
mod modules;
mod names;
mod oauth;
mod observer;
mod policy;
mod ports;
mod request;
mod resume;
mod revealed;
mod runs;
mod secret;
mod secret_source;
mod servers;
mod start;
mod steady;
mod tasks;
mod tool;
mod tool_server;
mod toolbox;
mod trial;
#[cfg(feature = "oauth")]
mod turns;
mod worker;

pub use abandon::{AbandonOptions, Abandoned, LeftInDoubt};
pub use adopt::{AdoptOptions, Adoption};
pub use archive::{Archives, Brings, ImportReport, SignedBy};
pub use clock::{Clock, SystemClock};
#[cfg(feature = "oauth")]
pub use consents::{ServerAccessError, ServerConsent};
pub use dalsegno_core::Received;
pub use dalsegno_history::{
    Divergence, ErrorKind, FoldError, HistoryError, Inspection, Journal, OperationView, Prompt, ReplayReport,
    StepView, WaitingOperation,
};
pub use dalsegno_protocol::{Denial, DenialKind, ServerState, ServerStats};
pub use dalsegno_secrets::Secret;
pub use dispatch::Load;
pub use engine::{Engine, EngineBuilder};
pub use error::{EngineError, OpenError, RunFailure};
pub use fork::ForkOptions;
pub use handle::{Cancelled, GateInput, RunEnd, RunEvent, RunHandle, RunReport, Settlement};
pub use live::Look;
pub use oauth::SecretGiver;
#[cfg(feature = "oauth")]
pub use oauth::{Consent, ConsentError, Consented};
pub use observer::{Observer, Watch, Watched};
pub use secret::{Secrets, ShortSecret};
pub use secret_source::{SecretSource, SecretUnavailable};
pub use servers::{ServerHealth, ServerInfo, ServerReach, ToolHealth};
pub use start::{NewAttachment, StartOptions};
pub use tool::{Invocation, MemoryPlace, Tool, ToolCallOptions, ToolDescription, ToolError};
pub use toolbox::{ClassFrom, OfferedBy, ToolInfo, ToolListing, ToolUser, ToolboxError};
pub use trial::{Exchanged, Trial, TrialError, TrialOptions, TrialRecording};
pub use worker::{WorkerEvent, WorkerOptions, WorkerReport};
