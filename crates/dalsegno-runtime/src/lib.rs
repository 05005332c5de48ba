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

mod archive;
mod asking;
mod clock;
#[cfg(feature = "oauth")]
mod consents;
mod documents;
mod effects;
mod engine;
mod error;
mod grant;
mod hidden;
mod kind;
mod known;
mod live;
mod names;
mod observer;
mod request;
mod run;
mod secret;
mod secret_source;
mod servers;
mod steady;
mod tail;
mod toolbox;
mod trial;
mod vault;

pub use archive::{Archives, Brings, ImportReport, SignedBy};
pub use asking::SpokenRequest;
pub use clock::{Clock, SystemClock};
#[cfg(feature = "oauth")]
pub use consents::{ServerAccessError, ServerConsent};
pub use dalsegno_core::Received;
pub use dalsegno_history::{
    Divergence, ErrorKind, FoldError, HistoryError, Inspection, Journal, OperationView, Pause, Prompt,
    ReplayReport, StepView, WaitingOperation,
};
pub use dalsegno_protocol::{Denial, DenialKind, ServerState, ServerStats};
pub use dalsegno_secrets::{SHORTEST, Secret};
pub use documents::{
    DocumentChange, DocumentChanged, DocumentCheck, DocumentFailure, Expected, Layer, ShownDocument,
    canonical_document, document_place, load_workspace, load_workspace_with,
};
pub use effects::dispatch::Load;
pub use effects::oauth::SecretGiver;
#[cfg(feature = "oauth")]
pub use effects::oauth::{Consent, ConsentError, Consented};
pub use effects::tool::{
    CallFiles, Invocation, MemoryPlace, Tool, ToolCallOptions, ToolDescription, ToolError,
};
pub use engine::{Engine, EngineBuilder};
pub use error::{EngineError, OpenError, RunFailure};
pub use live::Look;
pub use observer::{Observer, Watch, Watched};
pub use run::abandon::{AbandonOptions, Abandoned, LeftInDoubt};
pub use run::adopt::{AdoptOptions, Adoption};
pub use run::converse::{Conversation, KeysSent, NotDone, OpenCall, Stay, Switchboard};
pub use run::fork::ForkOptions;
pub use run::handle::{Cancelled, GateInput, Pausing, RunEnd, RunEvent, RunHandle, RunReport, Settlement};
pub use run::start::{NewAttachment, StartOptions};
pub use run::worker::{WorkerEvent, WorkerOptions, WorkerReport};
pub use secret::{Secrets, ShortSecret};
pub use secret_source::{SecretSource, SecretUnavailable};
pub use servers::{ServerHealth, ServerInfo, ServerReach, ToolHealth};
pub use tail::{Stretch, Tail, Tailed};
pub use toolbox::{ClassFrom, OfferedBy, ToolInfo, ToolListing, ToolUser, ToolboxError};
pub use trial::{Exchanged, Trial, TrialError, TrialOptions, TrialRecording};
