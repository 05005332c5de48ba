//! The actions of a compiled tool.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use crate::effect::{EffectClass, Method, Security, StatusMeaning};
use crate::parameters::Pattern;
use crate::path::Path;
use crate::source::{Expr, JsonSource, Parts, ValueSource, Words};

/// One action.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolAction {
    pub(crate) id: Option<String>,
    pub(crate) kind: ActionKind,
}

/// What an action does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ActionKind {
    Set { writes: Vec<(WritePath, ValueSource)>, persist: bool },
    Get { path: Path, output: Option<WritePath>, default: Option<ValueSource> },
    Delete { path: WritePath, persist: bool },
    Flag { flag: String, value: bool, persist: bool },
    Respond { message: Words },
    Handoff { target: String, message: Option<Words> },
    ApiCall(Box<ApiCallSource>),
    Conditional { condition: Expr, then_actions: Vec<ToolAction>, else_actions: Vec<ToolAction> },
    Validate { rules: Vec<Rule> },
    Transform(Box<Transform>),
    Log { level: Level, message: Words },
    Email(Box<EmailSource>),
    Tool(Box<ToolSource>),
    Transfer { target: Words, on_error: OnError },
}

/// A path that an action writes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WritePath {
    pub(crate) path: Path,
    pub(crate) append: bool,
}

/// What happens when an effect fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OnError {
    #[default]
    Fail,
    Continue,
}

impl OnError {
    pub(crate) const ALL: [(&'static str, Self); 2] = [("fail", Self::Fail), ("continue", Self::Continue)];
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiCallSource {
    pub(crate) url: Parts,
    pub(crate) method: Option<Method>,
    pub(crate) headers: Vec<(String, Parts)>,
    pub(crate) query: Vec<(String, Vec<Parts>)>,
    pub(crate) body: Option<JsonSource>,
    pub(crate) timeout_ms: u64,
    pub(crate) retries: Option<u32>,
    pub(crate) retry_delay_ms: u64,
    pub(crate) max_elapsed_ms: u64,
    pub(crate) on_error: OnError,
    pub(crate) response: Option<WritePath>,
    pub(crate) response_schema: Option<Value>,
    pub(crate) max_response_bytes: u64,
    pub(crate) class: Option<EffectClass>,
    pub(crate) idempotency_key: Option<Expr>,
    pub(crate) statuses: BTreeMap<u16, StatusMeaning>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EmailSource {
    pub(crate) host: Parts,
    pub(crate) port: ValueSource,
    pub(crate) security: Security,
    pub(crate) username: Option<Parts>,
    pub(crate) password: Option<Parts>,
    pub(crate) from: Words,
    pub(crate) to: ValueSource,
    pub(crate) cc: Option<ValueSource>,
    pub(crate) bcc: Option<ValueSource>,
    pub(crate) reply_to: Option<Words>,
    pub(crate) subject: Words,
    pub(crate) body: Words,
    pub(crate) html: Option<Words>,
    pub(crate) timeout_ms: u64,
    pub(crate) on_error: OnError,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolSource {
    pub(crate) name: String,
    pub(crate) arguments: JsonSource,
    pub(crate) response: Option<WritePath>,
    pub(crate) on_error: OnError,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    pub(crate) field: Path,
    pub(crate) check: Check,
    pub(crate) error_message: Option<Words>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Check {
    Required,
    Email,
    Phone,
    Number,
    MinLength(u64),
    MaxLength(u64),
    Pattern(Pattern),
}

impl Check {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Email => "email",
            Self::Phone => "phone",
            Self::Number => "number",
            Self::MinLength(_) => "min_length",
            Self::MaxLength(_) => "max_length",
            Self::Pattern(_) => "pattern",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Transform {
    pub(crate) input: Path,
    pub(crate) output: WritePath,
    pub(crate) kind: TransformKind,
    pub(crate) expression: Expr,
    pub(crate) initial: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransformKind {
    Map,
    Filter,
    Reduce,
}

impl TransformKind {
    pub(crate) const ALL: [(&'static str, Self); 3] =
        [("map", Self::Map), ("filter", Self::Filter), ("reduce", Self::Reduce)];
}

/// How important a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    pub(crate) const ALL: [(&'static str, Self); 4] =
        [("debug", Self::Debug), ("info", Self::Info), ("warn", Self::Warn), ("error", Self::Error)];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

impl ToolAction {
    /// The `type` of the action.
    pub(crate) fn type_name(&self) -> &'static str {
        match &self.kind {
            ActionKind::Set { .. } => "context.set",
            ActionKind::Get { .. } => "context.get",
            ActionKind::Delete { .. } => "context.delete",
            ActionKind::Flag { value: true, .. } => "flag.set",
            ActionKind::Flag { value: false, .. } => "flag.clear",
            ActionKind::Respond { .. } => "respond",
            ActionKind::Handoff { .. } => "handoff",
            ActionKind::ApiCall(_) => "api_call",
            ActionKind::Conditional { .. } => "conditional",
            ActionKind::Validate { .. } => "validate",
            ActionKind::Transform(_) => "transform",
            ActionKind::Log { .. } => "log",
            ActionKind::Email(_) => "email.send",
            ActionKind::Tool(_) => "tool",
            ActionKind::Transfer { .. } => "call.transfer",
        }
    }
}
