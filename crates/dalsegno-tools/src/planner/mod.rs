//! The planner: one call of a tool, as a state that asks for effects and takes their outcomes.

mod actions;
mod cursor;
mod request;
mod run;
mod settle;
mod transform;
mod validate;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::context::{Context, Write};
use crate::effect::{Effect, EffectOutcome};
use crate::json::measure;
use crate::limits::{MAX_ARGUMENTS_BYTES, MAX_CALL_STEPS, MAX_VALUE_DEPTH};
use crate::outcome::{ActionTrace, ErrorCode, Finished, HandoffTo, ToolError, ToolOutcome};
use crate::parameters::{Coercion, enforce};
use crate::scope::{Held, Names, View};
use crate::tool::Tool;
use cursor::{Cursor, List};
use run::Run;

/// One call of a tool.
///
/// [`begin`](Self::begin) it, then [`advance`](Self::advance) it until it is done: each time it either asks for an effect,
/// whose outcome [`resume`](Self::resume) takes, or it has ended. It never fails and always ends; trouble is the outcome. It
/// can be saved and loaded at any time, and goes on as if nothing had happened.
///
/// ```
/// use dalsegno_tools::{ApiResponse, Call, CallInfo, Context, EffectOutcome, Next, SessionContext, compile};
/// use serde_json::json;
///
/// let compiled = compile(&json!({
///     "name": "weather",
///     "description": "Tells the weather",
///     "parameters": [{"name": "city", "type": "string", "required": true}],
///     "actions": [{"type": "api_call", "method": "GET", "url": "https://weather.example/{{params.city}}"}],
///     "on_success": [{"type": "respond", "message": "It is {{result.last.sky}}."}]
/// }));
/// let toolkit = compiled.toolkit.expect("the document has no problem");
/// let tool = &toolkit.tools()[0];
/// let (empty, session, info) = (json!({}), SessionContext::default(), CallInfo::default());
/// let context = Context {
///     user: &empty, tenant: &empty, config: &empty, session: &session, agent: "guide", call: &info, now_ms: 0, zone: None,
///     first_rules: false,
/// };
/// let mut call = Call::begin(tool, &json!({"city": "Zürich"}), &context);
/// let finished = loop {
///     match call.advance(tool, &context) {
///         Next::Done(finished) => break finished,
///         Next::Effect(effect) => {
///             assert_eq!(effect.request.label(), "GET https://weather.example/Z%C3%BCrich");
///             // The shell's part: journal the intent, act, journal the outcome.
///             let response = ApiResponse { status: 200, body: json!({"sky": "clear"}), ..ApiResponse::default() };
///             call.resume(EffectOutcome::Response(response))?;
///         }
///     }
/// };
/// assert_eq!(finished.outcome.said, ["It is clear."]);
/// # Ok::<(), dalsegno_tools::ResumeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    tool: String,
    function_call_id: String,
    params: Value,
    temp: Value,
    result: Value,
    output: Value,
    coerced: Vec<Coercion>,
    stage: Stage,
    writes: Vec<Buffered>,
    said: Vec<String>,
    trace: Vec<ActionTrace>,
    handoff: Option<HandoffTo>,
    error: Option<ToolError>,
    /// The effects that were asked for.
    effects: u32,
    /// The bytes that the call took in so far; a limit on all of them bounds what it holds.
    bytes: u64,
    /// The evaluation steps that its transforms have left.
    steps_left: u32,
}

/// A write that waits for the end of the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Buffered {
    write: Write,
    /// Whether it stays when the tool fails.
    persist: bool,
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    /// The action at the cursor is next.
    Running(Cursor),
    /// The action at the cursor waits for an effect.
    Waiting { cursor: Cursor, effect: Box<Effect>, warnings: Vec<String> },
    /// The effect of the action at the cursor came to this.
    Settled { cursor: Cursor, effect: Box<Effect>, warnings: Vec<String>, outcome: Box<EffectOutcome> },
    /// There is nothing left to do.
    Ended,
}

/// What is next in a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Perform this, and give its outcome to [`Call::resume`].
    Effect(Box<Effect>),
    /// The call has ended.
    Done(Box<Finished>),
}

/// An outcome that does not fit the call; the call is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// No effect is outstanding.
    #[error("the call waits for nothing: advance it first")]
    NotWaiting,
    /// The outcome is of another kind than the effect.
    #[error("the outcome does not answer {request}")]
    WrongKind {
        /// The effect that is outstanding.
        request: String,
    },
}

impl Call {
    /// Begins a call: checks the arguments, and fills in defaults.
    ///
    /// Arguments that break the schema, and a tool that is switched off, are an outcome too: the call has ended then.
    pub fn begin(tool: &Tool, arguments: &Value, context: &Context<'_>) -> Self {
        let empty = || Value::Object(Map::new());
        let mut call = Self {
            tool: tool.name.clone(),
            function_call_id: context.call.id.clone(),
            params: empty(),
            temp: empty(),
            result: empty(),
            output: Value::Null,
            coerced: Vec::new(),
            stage: Stage::Ended,
            writes: Vec::new(),
            said: Vec::new(),
            trace: Vec::new(),
            handoff: None,
            error: None,
            effects: 0,
            bytes: 0,
            steps_left: MAX_CALL_STEPS,
        };
        match call.enter(tool, arguments, context) {
            Ok(()) => call.stage = Stage::Running(Cursor::start(List::Actions)),
            Err(error) => call.error = Some(error),
        }
        call
    }

    fn enter(&mut self, tool: &Tool, arguments: &Value, context: &Context<'_>) -> Result<(), ToolError> {
        if !tool.is_enabled {
            let message = format!("the tool `{}` is switched off", tool.name);
            return Err(ToolError::new(ErrorCode::ToolNotFound, message));
        }
        if measure(arguments, MAX_ARGUMENTS_BYTES, MAX_VALUE_DEPTH).is_none() {
            let message = format!(
                "the arguments have more than {MAX_ARGUMENTS_BYTES} bytes or {MAX_VALUE_DEPTH} levels"
            );
            return Err(ToolError::limit(message));
        }
        let none = Map::new();
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            // Models give nothing for nothing.
            Value::Null => &none,
            other => {
                let message = format!("the arguments are {}, not an object", crate::json::kind(other));
                return Err(ToolError::new(ErrorCode::InvalidArguments, message));
            }
        };
        let view = View::new(context, &tool.secret_paths);
        let enforced = {
            let names = Names { view: &view, held: self.held(None, ""), item: None };
            enforce(&tool.parameters, arguments, context.zone, &|path| {
                names.find(path).map(alloc::borrow::Cow::into_owned)
            })
        };
        self.coerced = enforced.coerced;
        if !enforced.violations.is_empty() {
            let listed: Vec<String> = enforced
                .violations
                .iter()
                .map(|violation| format!("`{}`: {}", violation.pointer, violation.message))
                .collect();
            let violations: Vec<Value> = enforced
                .violations
                .iter()
                .map(|violation| json!({"pointer": violation.pointer, "message": violation.message}))
                .collect();
            return Err(ToolError::new(ErrorCode::InvalidArguments, listed.join("; "))
                .with("violations", Value::Array(violations)));
        }
        self.params = Value::Object(enforced.values);
        Ok(())
    }

    /// Goes on to the next effect, or to the end. `tool` and `context` are those that the call began with.
    ///
    /// Advancing a call that waits asks for the same effect again.
    pub fn advance(&mut self, tool: &Tool, context: &Context<'_>) -> Next {
        if !matches!(self.stage, Stage::Ended) && tool.name != self.tool {
            let message = format!("a call of `{}` was advanced with `{}`", self.tool, tool.name);
            self.error = Some(ToolError::new(ErrorCode::Internal, message));
            self.writes.clear();
            self.stage = Stage::Ended;
        }
        match &self.stage {
            Stage::Waiting { effect, .. } => return Next::Effect(effect.clone()),
            Stage::Running(_) | Stage::Settled { .. } => {
                if let Some(effect) = Run::new(self, tool, context).go() {
                    return Next::Effect(effect);
                }
            }
            Stage::Ended => {}
        }
        Next::Done(Box::new(self.finished()))
    }

    /// Takes the outcome of the effect that is outstanding.
    ///
    /// # Errors
    /// Fails if none is, or if the outcome is of another kind; the call is as it was then.
    pub fn resume(&mut self, outcome: EffectOutcome) -> Result<(), ResumeError> {
        match core::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Waiting { cursor, effect, warnings } if effect.request.accepts(&outcome) => {
                self.stage = Stage::Settled { cursor, effect, warnings, outcome: Box::new(outcome) };
                Ok(())
            }
            stage => {
                self.stage = stage;
                let wrong = |effect: &Effect| ResumeError::WrongKind { request: effect.request.label() };
                Err(self.waiting_for().map_or(ResumeError::NotWaiting, wrong))
            }
        }
    }

    /// The effect that is outstanding.
    pub fn waiting_for(&self) -> Option<&Effect> {
        match &self.stage {
            Stage::Waiting { effect, .. } => Some(effect),
            Stage::Running(_) | Stage::Settled { .. } | Stage::Ended => None,
        }
    }

    /// The internal name of the tool.
    pub fn tool_name(&self) -> &str {
        &self.tool
    }

    /// What it has said so far, in order.
    pub fn said(&self) -> &[String] {
        &self.said
    }

    /// The arguments as the tool reads them, with defaults.
    pub fn params(&self) -> &Value {
        &self.params
    }

    fn held<'h>(&'h self, error: Option<&'h Value>, key: &'h str) -> Held<'h> {
        Held { params: &self.params, temp: &self.temp, result: &self.result, error, key }
    }

    fn finished(&self) -> Finished {
        Finished {
            outcome: ToolOutcome {
                ok: self.error.is_none(),
                function_call_id: self.function_call_id.clone(),
                output: if self.error.is_none() { self.output.clone() } else { Value::Null },
                error: self.error.clone(),
                said: self.said.clone(),
                handoff: self.handoff.clone(),
                coerced: self.coerced.clone(),
                actions: self.trace.clone(),
            },
            writes: self.writes.iter().map(|buffered| buffered.write.clone()).collect(),
        }
    }
}

impl From<dalsegno_expr::EvalError> for ToolError {
    fn from(error: dalsegno_expr::EvalError) -> Self {
        use dalsegno_expr::EvalErrorKind;
        let code = match &error.kind {
            EvalErrorKind::TooManySteps { .. } | EvalErrorKind::TooDeep { .. } => ErrorCode::LimitExceeded,
            _ => ErrorCode::ActionFailed,
        };
        Self::new(code, error.to_string())
    }
}

impl From<crate::path_error::WriteError> for ToolError {
    fn from(error: crate::path_error::WriteError) -> Self {
        let code = match error {
            crate::path_error::WriteError::ReadOnly { .. } => ErrorCode::NotPermitted,
            crate::path_error::WriteError::TooLarge { .. } => ErrorCode::LimitExceeded,
            _ => ErrorCode::ActionFailed,
        };
        Self::because(code, error.reason(), error.to_string())
    }
}
