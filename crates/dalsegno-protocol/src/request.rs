//! What goes with a request, and the call of a tool.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, Implementation,
    ProtocolVersion, RequestMetaObject, ServerResult,
};
use serde_json::{Map, Value};

use crate::ask::Ask;
use crate::failure::{CallErrorKind, Failure};
use crate::output::{Answer, Input, input_required, output};
use crate::task::Task;

/// What the client says about itself: its name, its version, and what it offers to a server.
pub fn client(capabilities: ClientCapabilities) -> ClientConfig {
    let implementation = Implementation::new("dalsegno", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(capabilities, implementation)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

/// On whose behalf a call is made, and in which conversation. A server is told all that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The tenant; `dalsegno/tenant` in `_meta`.
    pub tenant: Option<String>,
    /// The id of the user, as the caller of the run gave it; `dalsegno/user`.
    pub user: Option<String>,
    /// The session; `dalsegno/session`.
    pub session: Option<String>,
    /// The model's own id of the call; `dalsegno/call`.
    pub call: Option<String>,
}

/// What travels beside a call: the id of its operation under `dalsegno/operation`, on whose behalf it is made, and the trace
/// that it belongs to.
pub fn meta(operation: &str, caller: &Caller, traceparent: Option<&str>) -> RequestMetaObject {
    let mut meta = RequestMetaObject::new();
    meta.insert("dalsegno/operation".to_owned(), Value::from(operation));
    let Caller { tenant, user, session, call } = caller;
    for (name, value) in [("tenant", tenant), ("user", user), ("session", session), ("call", call)] {
        if let Some(value) = value {
            meta.insert(format!("dalsegno/{name}"), Value::from(value.as_str()));
        }
    }
    if let Some(parent) = traceparent {
        meta.insert("traceparent".to_owned(), Value::from(parent));
    }
    meta
}

/// How a call was answered.
#[derive(Clone, Debug)]
pub enum Called {
    /// At once.
    Answer(Answer),
    /// Later: the server works on it.
    Task(Task),
}

/// Calls a tool of the server's own. A server that makes a task of it does what this client did not offer.
///
/// # Errors
///
/// When there is no answer, or it is not one to a call.
pub async fn call<A: Ask>(
    server: &A,
    tool: &str,
    arguments: Map<String, Value>,
    input: Input,
) -> Result<Answer, A::Error> {
    match call_or_task(server, tool, arguments, input).await? {
        Called::Answer(answer) => Ok(answer),
        Called::Task(_) => {
            Err(server.unusable(misfit("the server made a task, which this client does not offer")))
        }
    }
}

/// Calls a tool of the server's own, which may be answered by a task.
///
/// # Errors
///
/// When there is no answer, it is not one to a call, or the task breaks a bound.
pub async fn call_or_task<A: Ask>(
    server: &A,
    tool: &str,
    arguments: Map<String, Value>,
    input: Input,
) -> Result<Called, A::Error> {
    let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    params.input_responses = input.responses();
    params.request_state = input.request_state;
    match server.ask(ClientRequest::CallToolRequest(CallToolRequest::new(params))).await? {
        ServerResult::CallToolResult(result) => Ok(Called::Answer(Answer::Done(output(result)))),
        ServerResult::InputRequiredResult(result) => {
            Ok(Called::Answer(Answer::InputRequired(input_required(result))))
        }
        ServerResult::CreateTaskResult(result) => {
            let task = Task::announced(&result).map_err(|failure| server.unusable(failure))?;
            Ok(Called::Task(task))
        }
        _ => Err(server.unusable(misfit("the server answered a tool call with another kind of result"))),
    }
}

/// An answer that belongs to another question.
pub(crate) fn misfit(message: &str) -> Failure {
    Failure::new(CallErrorKind::Protocol, message)
}
