//! What people answer, checked before anything is recorded.

use std::collections::BTreeSet;

use dalsegno_core::{AgentConfig, AgentState, Answer, Gate, OperationId, RunId, Validation, Violation};
use dalsegno_history::{WaitingOperation, waiting};
use dalsegno_models::{Schema, Schemas};
use dalsegno_store::{Body, Message, Record};
use serde_json::Value;

use crate::effects::oauth::SecretGiver;
use crate::error::EngineError;
use crate::run::handle::{GateInput, Settlement};

/// Turns what somebody answered into what the core takes, and checks it before anything is recorded. The answer to what is
/// `expired` is no already.
pub(crate) fn check(
    run: RunId,
    config: &AgentConfig,
    state: &AgentState,
    expired: &BTreeSet<OperationId>,
    inputs: Vec<GateInput>,
) -> Result<Vec<(OperationId, Answer)>, EngineError> {
    let answers = check_all(run, config, &waiting(run, state), inputs)?;
    if let Some((id, _)) = answers.iter().find(|(id, _)| expired.contains(id)) {
        let message = format!(
            "the time to answer operation {id} is over, and the answer is no: resume the run without an answer"
        );
        return Err(EngineError::Answer { message, is_late: true });
    }
    Ok(answers)
}

/// Says whether two answers come to the same, whoever gave them and why.
fn is_same(one: &Answer, other: &Answer) -> bool {
    match (one, other) {
        (Answer::Approved { edited: one, .. }, Answer::Approved { edited: other, .. }) => one == other,
        (Answer::Denied { .. }, Answer::Denied { .. }) | (Answer::NotDone { .. }, Answer::NotDone { .. }) => {
            true
        }
        (Answer::Given { value: one, .. }, Answer::Given { value: other, .. })
        | (Answer::Supplied { value: one, .. }, Answer::Supplied { value: other, .. }) => one == other,
        (
            Answer::Done { result: one, error: of_one, .. },
            Answer::Done { result: other, error: of_other, .. },
        ) => one == other && of_one == of_other,
        _ => false,
    }
}

/// Compares an answer with those that other people gave before and that no process has recorded yet. The first one counts.
/// Returns whether the same one is there already.
///
/// # Errors
/// When another one is there.
pub(crate) fn compare(
    messages: &[(u64, Message)],
    operation: OperationId,
    attempts: u32,
    answer: &Answer,
) -> Result<bool, EngineError> {
    let first = messages.iter().find_map(|(_, message)| match message {
        Message::Answer { operation: of, attempts: at, answer } if (*of, *at) == (operation, attempts) => {
            Some(answer)
        }
        _ => None,
    });
    match first {
        None => Ok(false),
        Some(first) if is_same(first, answer) => Ok(true),
        Some(_) => Err(contradicted(operation)),
    }
}

/// Compares an answer with the first one that these records have for its operation. Returns whether there is one.
///
/// # Errors
/// When that one is another one.
pub(crate) fn compare_recorded(
    records: &[Record],
    operation: OperationId,
    answer: &Answer,
) -> Result<bool, EngineError> {
    let mut answers = records.iter().filter_map(|record| match &record.body {
        Body::Answered { answer } if record.operation == Some(operation) => Some(answer),
        _ => None,
    });
    match answers.next() {
        Some(first) if !is_same(first, answer) => Err(contradicted(operation)),
        first => Ok(first.is_some()),
    }
}

fn contradicted(operation: OperationId) -> EngineError {
    let message = format!("operation {operation} has got another answer already: look again");
    EngineError::Answer { message, is_late: true }
}

/// The same for the questions of a run that are given.
pub(crate) fn check_all(
    run: RunId,
    config: &AgentConfig,
    waiting: &[WaitingOperation],
    inputs: Vec<GateInput>,
) -> Result<Vec<(OperationId, Answer)>, EngineError> {
    let failed = |message: String| EngineError::Answer { message, is_late: false };
    let mut answers = Vec::with_capacity(inputs.len());
    for GateInput { operation, seen, settlement, by } in inputs {
        let found = match operation {
            Some(id) => waiting.iter().find(|one| one.operation == id),
            None if waiting.len() == 1 => waiting.first(),
            None => None,
        };
        let Some(one) = found else {
            let list: Vec<String> =
                waiting.iter().map(|one| format!("{} ({})", one.operation, one.kind())).collect();
            let is_late = waiting.is_empty() || operation.is_some();
            let message = match (list.as_slice(), operation) {
                ([], _) => format!("run {run} waits for no answer: resume it without one"),
                (list, Some(id)) => {
                    format!("operation {id} does not wait: those that wait are {}", list.join(", "))
                }
                (_, None) => which(run, waiting.iter().map(|one| one.operation)),
            };
            return Err(EngineError::Answer { message, is_late });
        };
        if seen.is_some_and(|seen| seen != one.gate) {
            let message = format!(
                "operation {} has been answered meanwhile, and now waits for something else: {}; look again",
                one.operation, one.question
            );
            return Err(EngineError::Answer { message, is_late: true });
        }
        if answers.iter().any(|(answered, _)| *answered == one.operation) {
            return Err(failed(format!(
                "operation {} is answered twice: give one answer to each",
                one.operation
            )));
        }
        let answer = match (&one.gate, settlement) {
            (Gate::Approval, Settlement::Approve { edited, reason }) => {
                let edited = edited.map(|edited| judge(config, one, edited)).transpose()?;
                Answer::Approved { edited, reason, by }
            }
            (
                Gate::Approval | Gate::Input | Gate::Secret { .. } | Gate::Elicitation { .. },
                Settlement::Deny { reason },
            ) => Answer::Denied { reason, by },
            (Gate::Secret { .. }, Settlement::Approve { edited: None, reason }) => {
                Answer::Approved { edited: None, reason, by }
            }
            (Gate::Input, Settlement::Give { value }) => Answer::Given { value: fit(one, value)?, by },
            (Gate::Elicitation { .. }, Settlement::Give { value }) => {
                Answer::Supplied { value: fit(one, value)?, by }
            }
            (Gate::InDoubt { .. }, Settlement::Done { result }) => Answer::Done { result, error: None, by },
            (Gate::InDoubt { .. }, Settlement::Refused { error }) => {
                Answer::Done { result: None, error: Some(error), by }
            }
            (Gate::InDoubt { .. }, Settlement::NotDone) => Answer::NotDone { by },
            (
                Gate::Input | Gate::Elicitation { .. },
                Settlement::Approve { .. }
                | Settlement::Done { .. }
                | Settlement::Refused { .. }
                | Settlement::NotDone,
            ) => {
                let id = one.operation;
                return Err(failed(format!(
                    "operation {id} is a question: answer with `--answer TEXT` or `--answer @FILE`, or `--deny`"
                )));
            }
            (
                Gate::Approval,
                Settlement::Give { .. }
                | Settlement::Done { .. }
                | Settlement::Refused { .. }
                | Settlement::NotDone,
            ) => {
                let id = one.operation;
                return Err(failed(format!(
                    "operation {id} waits for an approval: answer with `--approve` or `--deny`"
                )));
            }
            (
                Gate::Secret { name },
                Settlement::Approve { .. }
                | Settlement::Give { .. }
                | Settlement::Done { .. }
                | Settlement::Refused { .. }
                | Settlement::NotDone,
            ) => {
                return Err(failed(format!(
                    "operation {} needs the secret `{name}`: give it with `{}`, and resume the run without an answer; or \
                     `--deny`",
                    one.operation,
                    SecretGiver::of(name)
                )));
            }
            (
                Gate::InDoubt { .. },
                Settlement::Approve { .. } | Settlement::Deny { .. } | Settlement::Give { .. },
            ) => {
                let id = one.operation;
                return Err(failed(format!(
                    "operation {id} is in doubt: answer with `--outcome happened`, `--outcome not-happened`, `--outcome refused:WHY` or `--outcome @FILE`"
                )));
            }
        };
        answers.push((one.operation, answer));
    }
    Ok(answers)
}

/// What to say when it is not clear which of several operations is answered.
pub(crate) fn which(run: RunId, operations: impl Iterator<Item = OperationId>) -> String {
    let list: Vec<String> = operations.map(|id| id.to_string()).collect();
    format!("run {run} waits for several answers: say which with `--op`, of {}", list.join(", "))
}

/// Fits an answer to the schema of its question.
fn fit(waiting: &WaitingOperation, value: Value) -> Result<Value, EngineError> {
    let id = waiting.operation;
    let fits = fit_schema(waiting.schema.as_ref(), value);
    fits.map_err(|misfit| {
        let message = match misfit {
            Misfit::Schema(error) => format!(
                "the schema of operation {id} cannot be used: {error}; deny it, and correct the agent file, or the server that asks"
            ),
            Misfit::Value(words) => {
                format!("the answer to operation {id} does not fit: {words}; nothing was recorded")
            }
        };
        EngineError::Answer { message, is_late: false }
    })
}

/// Why a value is no answer to a question.
pub(crate) enum Misfit {
    /// The schema of the question is none.
    Schema(String),
    /// Each place that does not fit, in words.
    Value(String),
}

impl From<Misfit> for String {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::Schema(error) => format!("the schema of the question cannot be used: {error}"),
            Misfit::Value(words) => words,
        }
    }
}

/// The answer to a question, as its schema has it; text without one.
pub(crate) fn fit_schema(schema: Option<&Value>, value: Value) -> Result<Value, Misfit> {
    let Some(schema) = schema else {
        return match value {
            Value::String(_) => Ok(value),
            other => Ok(Value::String(other.to_string())),
        };
    };
    let schema = Schema::compile(schema).map_err(|error| Misfit::Schema(error.to_string()))?;
    // What was typed may be the text itself, or JSON.
    let read = match &value {
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    };
    let candidates = [Some(value), read];
    let mut first = None;
    for candidate in candidates.into_iter().flatten() {
        match schema.coerce(candidate) {
            Ok(fits) => return Ok(fits),
            Err(violations) => first = Some(violations),
        }
    }
    let words: Vec<String> = first
        .unwrap_or_default()
        .iter()
        .map(|Violation { path, message }| match path.as_str() {
            // The answer as a whole.
            "" => message.clone(),
            path => format!("`{path}` {message}"),
        })
        .collect();
    Err(Misfit::Value(words.join("; ")))
}

/// Checks edited arguments against the tool's schema.
fn judge(config: &AgentConfig, waiting: &WaitingOperation, edited: Value) -> Result<Validation, EngineError> {
    let refuse = |violations, tool: &str| EngineError::Edit {
        operation: waiting.operation,
        tool: tool.to_owned(),
        violations,
    };
    let Some(tool) = &waiting.tool else {
        return Err(EngineError::Answer {
            message: format!(
                "operation {} is not a tool call: only a tool's arguments can be edited",
                waiting.operation
            ),
            is_late: false,
        });
    };
    let problem = |message: String| vec![Violation { path: String::new(), message }];
    match Schemas::compile(&config.tools).judge_arguments(tool, edited) {
        Validation::Valid { arguments } => {
            match config.tools.tools.get(tool).and_then(|tool| tool.denies(&arguments)) {
                Some(rule) => {
                    let message = format!("is denied by the agent's rules: {rule}");
                    Err(refuse(problem(message), tool.as_str()))
                }
                None => Ok(Validation::Valid { arguments }),
            }
        }
        Validation::Invalid { violations } => Err(refuse(violations, tool.as_str())),
        Validation::Malformed { message } => Err(refuse(problem(message), tool.as_str())),
        Validation::Truncated => Err(refuse(problem("is incomplete".to_owned()), tool.as_str())),
    }
}
