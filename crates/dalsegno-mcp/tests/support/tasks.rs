//! Calls that the server for tests makes tasks of. The arguments of the tool `task` say how they go.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::exit;

use serde_json::{Value, json};

/// The tasks of this process, by their ids.
#[derive(Default)]
pub(crate) struct Tasks(BTreeMap<String, Task>);

struct Task {
    /// What the call said: `polls` until it ends, how it will `end`, `poll` and `ttl` as it names them.
    how: Value,
    polls: u64,
    answers: Vec<Value>,
    is_cancelled: bool,
}

impl Tasks {
    /// The result of a call that is made a task.
    pub(crate) fn begin(&mut self, how: &Value) -> Value {
        let id = how["id"].as_str().unwrap_or("task-1").to_owned();
        log("tools/call");
        let task = Task { how: how.clone(), polls: 0, answers: Vec::new(), is_cancelled: false };
        let mut result = task.shape(&id, "working");
        result["resultType"] = json!("task");
        self.0.insert(id, task);
        result
    }

    /// The result of a request about a task; none where there is no such task, and null where it is not told.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Option<Value> {
        log(method);
        let id = params["taskId"].as_str().unwrap();
        let task = self.0.get_mut(id)?;
        match method {
            "tasks/update" => {
                task.answers.push(params["inputResponses"].clone());
                Some(json!({}))
            }
            "tasks/cancel" => {
                task.is_cancelled = task.how["obeys"] != json!(false);
                Some(json!({}))
            }
            _ => Some(task.stands(id)),
        }
    }
}

impl Task {
    fn shape(&self, id: &str, status: &str) -> Value {
        let mut shape = json!({
            "taskId": id, "status": status, "ttlMs": self.how["ttl"],
            "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
        });
        if !self.how["poll"].is_null() {
            shape["pollIntervalMs"] = self.how["poll"].clone();
        }
        shape
    }

    fn stands(&mut self, id: &str) -> Value {
        self.polls += 1;
        if self.is_cancelled {
            return self.shape(id, "cancelled");
        }
        if self.polls <= self.how["polls"].as_u64().unwrap_or(0) {
            return self.shape(id, "working");
        }
        match self.how["end"].as_str().unwrap_or("completed") {
            "never" => self.shape(id, "working"),
            "failed" => {
                let mut task = self.shape(id, "failed");
                task["error"] = json!({ "code": -32603, "message": "the task is over: its ttl is" });
                task
            }
            "cancelled" => self.shape(id, "cancelled"),
            "exit" => exit(3),
            "trouble" => Value::Null,
            "other" => self.shape("another", "working"),
            "asks" if self.answers.is_empty() => {
                let mut task = self.shape(id, "input_required");
                task["inputRequests"] = json!({ "which": { "method": "elicitation/create", "params": {
                    "mode": "form", "message": "which one?", "requestedSchema": { "type": "object", "properties": {} },
                } } });
                task
            }
            _ => {
                let text = format!("done with {}", Value::Array(self.answers.clone()));
                let mut task = self.shape(id, "completed");
                task["result"] = json!({ "content": [{ "type": "text", "text": text }] });
                task
            }
        }
    }
}

/// Writes down what was asked, one line each.
fn log(method: &str) {
    if let Some(file) = std::env::var_os("ASKED_FILE") {
        let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
        writeln!(file, "{method}").unwrap();
    }
}
