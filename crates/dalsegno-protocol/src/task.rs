//! Tasks: calls that a server answers later, when it is asked about them.
//!
//! A server of the revision 2026-07-28 may answer a call with the id of a task. It is then asked about the task until that
//! has ended; whoever knows the id can ask, in another process as well.

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::model::{
    CallToolResult, CancelTaskParams, CancelTaskRequest, ClientRequest, CreateTaskResult, DetailedTask,
    ErrorCode, ErrorData, GetTaskParams, GetTaskRequest, JsonObject, ServerResult, TaskPayload,
    UpdateTaskParams, UpdateTaskRequest,
};
use serde_json::Value;

use crate::ask::Ask;
use crate::failure::{CallErrorKind, Failure, printable};
use crate::output::{ToolOutput, output};
use crate::request::misfit;

/// A task, as its server announced it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its id at the server: 1 to 1,024 bytes without control characters.
    pub id: String,
    /// How long the server keeps it from now on; none if it did not say, or said more than ten years.
    pub ttl: Option<Duration>,
    /// How long to wait before it is asked about, within bounds.
    pub poll: Duration,
}

/// How a task stands.
#[derive(Clone, Debug)]
pub enum TaskState {
    /// It goes on.
    Working {
        /// How long to wait before it is asked about again, within bounds.
        poll: Duration,
    },
    /// It waits for answers.
    Asks {
        /// The questions by the server's own names for them, as the protocol writes them.
        requests: BTreeMap<String, Value>,
        /// How long to wait before it is asked about again, within bounds.
        poll: Duration,
    },
    /// It has its result.
    Completed(ToolOutput),
    /// It has ended without one: it failed, or was cancelled.
    Ended(Failure),
}

impl Task {
    /// A task that a server made of a call.
    pub(crate) fn announced(result: &CreateTaskResult) -> Result<Self, Failure> {
        let task = &result.task;
        let bytes = task.task_id.len();
        if bytes == 0 || bytes > ID_BYTES_MAX {
            return Err(misfit(&format!(
                "the server made a task whose id has {bytes} bytes: 1 to {ID_BYTES_MAX} are taken"
            )));
        }
        if task.task_id.chars().any(char::is_control) {
            return Err(misfit("the server made a task whose id has control characters"));
        }
        let ttl = task.ttl_ms.map(Duration::from_millis).filter(|ttl| *ttl <= TTL_MAX);
        Ok(Self { id: task.task_id.clone(), ttl, poll: poll(task.poll_interval_ms) })
    }
}

/// Asks how a task stands.
///
/// # Errors
///
/// When there is no answer, or it is not one about this task.
pub async fn task<A: Ask>(server: &A, id: &str) -> Result<TaskState, A::Error> {
    let request = GetTaskRequest::new(GetTaskParams::new(id));
    match server.ask(ClientRequest::GetTaskRequest(request)).await? {
        ServerResult::GetTaskResult(result) if result.task.task.task_id == id => {
            state(result.task).map_err(|failure| server.unusable(failure))
        }
        ServerResult::GetTaskResult(_) => {
            Err(server.unusable(misfit("the server answered about another task than it was asked about")))
        }
        _ => Err(server.unusable(misfit("the server answered `tasks/get` with another kind of result"))),
    }
}

/// Answers questions of a task. How it stands then says the next [`task`].
///
/// # Errors
///
/// When the server does not take them.
pub async fn answer_task<A: Ask>(
    server: &A,
    id: &str,
    answers: BTreeMap<String, Value>,
) -> Result<(), A::Error> {
    let request = UpdateTaskRequest::new(UpdateTaskParams::new(id, answers));
    acknowledged(server, ClientRequest::UpdateTaskRequest(request), "tasks/update").await
}

/// Asks the server to end a task. Whether it does says the next [`task`].
///
/// # Errors
///
/// When the server does not take it.
pub async fn cancel_task<A: Ask>(server: &A, id: &str) -> Result<(), A::Error> {
    let request = CancelTaskRequest::new(CancelTaskParams::new(id));
    acknowledged(server, ClientRequest::CancelTaskRequest(request), "tasks/cancel").await
}

async fn acknowledged<A: Ask>(server: &A, request: ClientRequest, method: &str) -> Result<(), A::Error> {
    match server.ask(request).await? {
        ServerResult::TaskAckResult(_) | ServerResult::EmptyResult(_) | ServerResult::CustomResult(_) => {
            Ok(())
        }
        _ => {
            let message = format!("the server answered `{method}` with another kind of result");
            Err(server.unusable(misfit(&message)))
        }
    }
}

/// Whether a server that refuses a request about a task says with it that there is no such task: the id is no valid
/// one, or it does not know tasks at all.
pub fn is_unknown_task(kind: CallErrorKind) -> bool {
    let codes = [ErrorCode::INVALID_PARAMS, ErrorCode::METHOD_NOT_FOUND, ErrorCode::RESOURCE_NOT_FOUND];
    matches!(kind, CallErrorKind::Refused { code } if codes.iter().any(|known| known.0 == code))
}

fn state(task: DetailedTask) -> Result<TaskState, Failure> {
    let DetailedTask { task, payload, .. } = task;
    let poll = poll(task.poll_interval_ms);
    let said = task.status_message.as_deref();
    Ok(match payload {
        TaskPayload::InputRequired { input_requests } => {
            let requests = input_requests.into_iter();
            let requests = requests.filter_map(|(key, one)| Some((key, serde_json::to_value(one).ok()?)));
            TaskState::Asks { requests: requests.collect(), poll }
        }
        TaskPayload::Completed { result } => {
            let result: CallToolResult = serde_json::from_value(Value::Object(result))
                .map_err(|error| misfit(&format!("the result of the task is not one of a tool: {error}")))?;
            TaskState::Completed(output(result))
        }
        TaskPayload::Failed { error } => TaskState::Ended(failed(error, said)),
        TaskPayload::Cancelled => {
            let message = format!("the task was cancelled{}", words(said));
            TaskState::Ended(Failure::new(CallErrorKind::Cancelled, message))
        }
        // A state that is not known yet is none of the last ones.
        _ => TaskState::Working { poll },
    })
}

/// The failure of a task that ended with an error: the same as if the call had been refused with it.
fn failed(error: JsonObject, said: Option<&str>) -> Failure {
    let said = words(said);
    match serde_json::from_value::<ErrorData>(Value::Object(error)) {
        Ok(error) => {
            let message = format!("the task failed: {} ({}){said}", shown(&error.message), error.code.0);
            Failure::new(CallErrorKind::Refused { code: error.code.0 }, message)
        }
        Err(_) => {
            let kind = CallErrorKind::Refused { code: ErrorCode::INTERNAL_ERROR.0 };
            Failure::new(kind, format!("the task failed, and its error is not one of JSON-RPC{said}"))
        }
    }
}

fn words(said: Option<&str>) -> String {
    said.filter(|said| !said.is_empty())
        .map_or_else(String::new, |said| format!("; the server says: {}", shown(said)))
}

fn shown(text: &str) -> String {
    printable(text).chars().take(SHOWN_CHARS).collect()
}

/// The pause that a server wishes for, within bounds.
fn poll(wish: Option<u64>) -> Duration {
    wish.map_or(POLL, |wish| Duration::from_millis(wish).clamp(POLL_MIN, POLL_MAX))
}

/// The longest id of a task, in bytes. It stands in the journal and goes with each request.
const ID_BYTES_MAX: usize = 1024;

/// The longest time that a server may say that it keeps a task. Nobody asks as late.
const TTL_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// The pause before a task is asked about again where the server has no wish.
const POLL: Duration = Duration::from_secs(1);

/// The shortest pause: a server's wish costs this process no more than that.
const POLL_MIN: Duration = Duration::from_millis(100);

/// The longest pause: a person waits for the end.
const POLL_MAX: Duration = Duration::from_secs(10);

/// How much of a server's words a failure shows.
const SHOWN_CHARS: usize = 1_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn announced(id: &str, ttl: &Value, poll: &Value) -> Result<Task, Failure> {
        let mut wire = json!({
            "resultType": "task", "taskId": id, "status": "working", "ttlMs": ttl,
            "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
        });
        if !poll.is_null() {
            wire["pollIntervalMs"] = poll.clone();
        }
        Task::announced(&serde_json::from_value(wire).unwrap())
    }

    fn stands(status: &str, more: &Value) -> Result<TaskState, Failure> {
        let mut wire = json!({
            "taskId": "t1", "status": status, "ttlMs": null,
            "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
        });
        for (key, value) in more.as_object().unwrap() {
            wire[key] = value.clone();
        }
        state(serde_json::from_value(wire).unwrap())
    }

    #[test]
    fn an_id_is_bounded_and_printable() {
        assert_eq!(announced("t1", &json!(null), &json!(null)).unwrap().id, "t1");
        assert!(announced(&"x".repeat(ID_BYTES_MAX), &json!(null), &json!(null)).is_ok());
        for id in [String::new(), "x".repeat(ID_BYTES_MAX + 1), "a\u{1b}[2J".to_owned()] {
            let failure = announced(&id, &json!(null), &json!(null)).unwrap_err();
            assert_eq!(failure.kind, CallErrorKind::Protocol, "{}", failure.message);
        }
    }

    #[test]
    fn a_pause_is_between_a_tenth_of_a_second_and_ten() {
        for (wish, pause) in [
            (json!(null), POLL),
            (json!(0), POLL_MIN),
            (json!(99), POLL_MIN),
            (json!(2_500), Duration::from_millis(2_500)),
            (json!(u64::MAX), POLL_MAX),
        ] {
            assert_eq!(announced("t1", &json!(null), &wish).unwrap().poll, pause, "{wish}");
        }
    }

    #[test]
    fn a_time_to_live_without_sense_is_none() {
        let ttl = |ttl: Value| announced("t1", &ttl, &json!(null)).unwrap().ttl;
        assert_eq!(ttl(json!(1_500)), Some(Duration::from_millis(1_500)));
        assert_eq!(ttl(json!(0)), Some(Duration::ZERO));
        assert_eq!(ttl(json!(null)), None);
        assert_eq!(ttl(json!(u64::MAX)), None);
    }

    #[test]
    fn a_status_is_an_answer_or_a_failure() {
        let working = stands("working", &json!({ "pollIntervalMs": 300 })).unwrap();
        assert!(matches!(working, TaskState::Working { poll } if poll == Duration::from_millis(300)));

        let asks = json!({ "method": "elicitation/create", "params": {
            "mode": "form", "message": "which?", "requestedSchema": { "type": "object", "properties": {} },
        } });
        let TaskState::Asks { requests, .. } =
            stands("input_required", &json!({ "inputRequests": { "which": asks } })).unwrap()
        else {
            panic!("it asks")
        };
        assert_eq!(requests["which"]["method"], "elicitation/create");

        let result = json!({ "content": [{ "type": "text", "text": "done" }], "isError": true });
        let TaskState::Completed(output) = stands("completed", &json!({ "result": result })).unwrap() else {
            panic!("it has its result")
        };
        assert_eq!((output.text.as_str(), output.is_error), ("done", true));

        let TaskState::Ended(failure) = stands("cancelled", &json!({ "statusMessage": "too late" })).unwrap()
        else {
            panic!("it was cancelled")
        };
        assert_eq!(failure.kind, CallErrorKind::Cancelled);
        assert_eq!(failure.message, "the task was cancelled; the server says: too late");

        let error = json!({ "error": { "code": -32603, "message": "its time to live is over\u{7}" } });
        let TaskState::Ended(failure) = stands("failed", &error).unwrap() else { panic!("it failed") };
        assert_eq!(failure.kind, CallErrorKind::Refused { code: -32603 });
        assert_eq!(failure.message, "the task failed: its time to live is over\u{fffd} (-32603)");
        let TaskState::Ended(failure) = stands("failed", &json!({ "error": { "why": 1 } })).unwrap() else {
            panic!("it failed")
        };
        assert_eq!(failure.kind, CallErrorKind::Refused { code: -32603 });
    }

    #[test]
    fn a_result_that_is_none_of_a_tool_is_not_taken() {
        let failure = stands("completed", &json!({ "result": { "content": 5 } })).unwrap_err();
        assert_eq!(failure.kind, CallErrorKind::Protocol);
    }

    #[test]
    fn words_of_a_server_are_cut() {
        let error = json!({ "error": { "code": 1, "message": "x".repeat(100_000) } });
        let TaskState::Ended(failure) = stands("failed", &error).unwrap() else { panic!("it failed") };
        assert!(failure.message.len() < 2 * SHOWN_CHARS, "{}", failure.message.len());
    }

    #[test]
    fn an_unknown_task_is_told_from_a_server_in_trouble() {
        for (code, unknown) in [(-32602, true), (-32601, true), (-32002, true), (-32603, false), (1, false)] {
            assert_eq!(is_unknown_task(CallErrorKind::Refused { code }), unknown, "{code}");
        }
        assert!(!is_unknown_task(CallErrorKind::Timeout));
    }
}
