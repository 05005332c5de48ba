//! Reads a workspace folder into checked values, or into diagnostics with spans.
//!
//! [`Workspace::load`] reads `dalsegno.toml` and `agents/*.toml` and reports all problems at once, each with its place,
//! what was expected and one thing to try. It performs nothing: no server is started, no model is asked, and of the
//! other files that the workspace names only JSON Schemas are read.
//!
//! What an agent may do also depends on what tool servers offer, which is known only when they run. So there are two
//! steps: [`AgentFile::servers`] says which servers an agent can reach, and [`AgentFile::resolve`] turns the file and
//! the [`Catalogue`] of all tools that exist into the [`AgentConfig`](dalsegno_core::AgentConfig) of a run.
//!
//! `dalsegno.lock` pins what the servers offered: with a [`Lock`], [`Workspace::check`] holds all agents against it and
//! starts nothing. [`schema`] gives editors the keys of every file.
//!
//! ```no_run
//! use dalsegno_workspace::{Workspace, builtin_tools};
//!
//! let loaded = Workspace::load(".".as_ref());
//! for diagnostic in &loaded.diagnostics {
//!     eprintln!("{diagnostic}");
//! }
//! if let Some(workspace) = loaded.workspace {
//!     for agent in workspace.agents.values() {
//!         let servers = agent.servers(&workspace.settings); // start these, add what they offer
//!         let config = agent.resolve(&builtin_tools());
//! #       drop((servers, config));
//!     }
//! }
//! ```
#![forbid(unsafe_code)]

mod batteries;
mod check;
mod config;
mod footprint;
mod in_code;
mod place;
mod workspace;

mod agent;
mod case;
mod catalogue;
mod eval;
mod lock;
mod schema;
mod settings;
mod tenant;
mod toolkit;
mod trigger;

mod code;
mod control;
mod diagnostic;
mod documents;
mod source;

mod json;
mod names;
mod report;
mod secrets;
mod section;
mod shape;
mod text;
mod units;

pub use agent::{AgentFile, AgentTools, BrokenAgent, CallRule, SourceRule, ToolSettings};
pub use batteries::{Battery, batteries};
pub use case::{
    Asked, Case, CaseAnswer, CaseAsk, CaseFile, CaseResult, CaseTurn, Cases, Draft, Ends, Expectations,
    ExpectedCall, ExpectedOutput, Gives, Message, Property, Replies, Says, TalkExpectations, TurnKind,
    slug as case_slug,
};
pub use catalogue::{Catalogue, CatalogueTool, builtin_tools, engine_tools};
pub use code::Code;
pub use diagnostic::{Diagnostic, Severity};
pub use documents::{DocumentPlace, Documents};
pub use eval::{Against, Checks, Eval, EvalRead, Judge};
pub use footprint::Footprint;
pub use in_code::{Agent, InCode};
pub use lock::{Lock, LockChange, LockChangeKind, LockRead, LockedServer, LockedTool};
pub use schema::{FileKind, UnknownFileKind, schema};
pub use section::Located;
pub use settings::{
    ACCESS_SCOPES, Access, Answerer, AwsKeyBinding, CommandBinding, DailyBudget, DispatchSettings,
    EndpointBinding, EnvValue, FileGrant, HttpBinding, Lifetime, LineSurface, MemoryBinding, ModelBinding,
    OAuthBinding, OAuthGrant, OIDC_ALGORITHMS, OidcSettings, OidcSignIn, OidcTenant, PromptCache, Provider,
    RemoteBinding, SecretCommand, SecretGrant, SecretRef, SecretStoreBinding, ServeSettings, ServerBinding,
    ServerLimits, ServerPermissions, Settings, StoreKey, TelemetrySettings, Telephone, TenantGrants,
    TenantKey, TlsFiles, ToolFiles, TransferPattern, Transport, VoiceLine, is_number,
};
pub use source::{Position, SourceFile};
pub use tenant::{Destination, Features, NoTenant, OfAgent, Refer, Tenant, ToolkitSettings};
pub use toolkit::{DeclaredTool, ToolkitFile};
pub use trigger::{Delivery, Signature, Trigger, TriggerError, Triggered};
pub use units::{age, duration};
pub use workspace::{Broken, Loaded, Workspace};
