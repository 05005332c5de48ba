//! Decides the next action of an agent run.
//!
//! [`execute_agent_step`] is a total function of a configuration and a state. It never performs anything: it asks,
//! by returning an [`AgentAction`], and [`AgentState::resume`] takes what came back. A shell owns time, randomness,
//! sockets, files and secrets, and writes down every outcome; so a run can be stopped anywhere, saved, loaded,
//! replayed bit for bit and tested like any function.
//!
//! # The protocol
//!
//! ```
//! use dalsegno_core::*;
//! # fn perform(operation: &Operation) -> Outcome {
//! #     Outcome::MemoryFound(Vec::new())
//! # }
//! # let plan = r#"{"steps": [
//! #     {"action": {"operation": {"id": "past",
//! #         "call": {"memory_search": {"query": "{{request.text}}", "limit": 3, "min_score": 0.0}}}}},
//! #     {"action": {"respond": "{{steps.past.length}} known for {{request.text}}"}}]}"#;
//! let config = AgentConfig::new("triage".parse()?, Mind::Plan(serde_json::from_str(plan)?));
//! let mut state = AgentState::start(RunId::from_bytes([7; 16]), AgentRequest::text("disk full"), Timestamp::from_millis(0));
//! let response = loop {
//!     match execute_agent_step(&config, state)? {
//!         AgentAction::Complete { response, .. } => break response,
//!         AgentAction::RequestApproval { .. } | AgentAction::RequestInput { .. } => panic!("ask a person"),
//!         action => {
//!             let (operations, continuation) = action.into_operations();
//!             state = continuation;
//!             for operation in operations {
//!                 let outcome = perform(&operation); // the shell's part: journal the intent, act, journal the outcome
//!                 state.resume(Event::outcome(Timestamp::from_millis(1), operation.id, outcome))?;
//!             }
//!         }
//!     }
//! };
//! assert_eq!(response.answer.as_deref(), Some("0 known for disk full"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Outcomes may come one at a time and in any order. Stepping a state that still waits is harmless: it asks again for
//! what is missing, under the same ids. A shell with a journal records what is new before it performs anything:
//! [`AgentAction::into_continuation`] has it, with what waits for a person and with the calls of declarative tools, which the core
//! performs itself.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod action;
mod canonical;
mod config;
mod event;
mod failure;
mod follow;
mod id;
mod inherit;
mod join;
mod live;
mod media;
mod notes;
mod operation;
mod phase;
mod reading;
mod reply;
mod response;
mod resume;
mod schema;
mod sought;
mod state;
mod step;
mod tokens;
mod transcript;

pub use action::{AgentAction, Continuation};
pub use canonical::{Digest, digest_json};
pub use config::{
    AfterHangup, AgentConfig, Approve, Branch, Budget, Callee, Compact, ContextSettings, ForEach, Limits,
    LivePrice, LongContext, MemoryScope, Mind, ModelControl, ModelMind, ModelSettings, OnExceeded, OnFailure,
    OnIndeterminate, Origin, OriginRule, OutputSettings, PartTerms, Plan, PlanCall, PlanHandoff,
    PlanOperation, PlanStep, Price, ProviderTool, Rates, Reasoning, Recall, RelationTemplate, SEMANTICS,
    StepAction, Tool, ToolDocument, ToolDocuments, ToolKind, ToolOwner, Toolbox, UnknownProviderTool,
    Verbosity, Verify, VoiceSettings, VoiceTool, Wait, first_rule_met,
};
pub use event::{
    AgentReturn, Answer, EmailReceipt, Event, Failure, FailureCode, MAX_DEPTH, MemoryCreated, MemoryHit,
    MemoryTraversal, News, Outcome, Signal, ToolReturn, TraversedEntity, TraversedRelation, depth,
};
pub use follow::ForkError;
pub use id::{
    AgentName, IdError, ModelName, NameError, OperationId, RunId, StepId, Timestamp, ToolName, ToolPattern,
};
pub use inherit::{Block, InheritError, Inheritance, Inherited};
pub use join::{Begun, CallSlot, Join, Pending, Settled, Then};
pub use live::{
    AudioTokens, CommandKind, EndedBy, Live, LiveCall, LiveCommand, LiveNews, LiveTokens, ResponseEnd,
    Surface, TEXT_BYTES_MAX,
};
pub use media::{RESULT_FILES_BYTES_MAX, RESULT_FILES_MAX, media_type};
pub use notes::{Note, NoteLevel};
pub use operation::{
    AgentCall, EffectClass, Gate, GateState, Input, MemoryCreate, MemorySearch, MemoryTraverse,
    ModelCompletion, Operation, Pace, Prompt, Purpose, RUN_DEPTH_MAX, Received, RelationTo, Request,
    Reserved, Terms, Timer, ToolCall, ToolChoice, ToolInput,
};
pub use phase::declarative::TOOL_DEPTH_MAX;
pub use phase::plan::{PartRead, PlanPart};
pub use reading::Reading;
pub use reply::{CallRequest, ModelReply, ReplyPart, StopReason, TokenDetails, Validation, Violation};
pub use response::{AgentResponse, RunError, RunErrorCode, Status, Usage};
pub use resume::ResumeError;
pub use schema::{JsonSchema, OrderedJson};
pub use sought::{Sought, Spot, leaves_with_paths};
pub use state::{AgentRequest, AgentState, Decision, Envelope, EnvelopeError, HandedOver, Handoff, Phase};
pub use step::{ExecutionError, execute_agent_step};
pub use tokens::estimate_tokens;
pub use transcript::{Attachment, Compaction, Entry, Transcript};

pub use dalsegno_tools::{SessionContext, Write};
