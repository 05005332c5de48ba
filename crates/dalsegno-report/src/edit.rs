//! What would follow an edited outcome.

use dalsegno_core::{GateState, Operation, OperationId, Outcome};
use dalsegno_history::{Change, HistoryError, Next, request_changes, what_if};
use serde::Serialize;
use serde_json::{Value, json};

use crate::course::Course;
use crate::detail::{Message, ended, messages, payload, reading, shown};

/// What would follow, beside what followed.
#[derive(Serialize)]
pub(crate) struct Edited {
    /// The step of the edited operation.
    step: u64,
    /// Whether the same requests follow, or the same end.
    same: bool,
    now: Side,
    was: Option<Side>,
    /// How the state differs.
    changes: Vec<Change>,
}

/// One of the two.
#[derive(Serialize)]
struct Side {
    step: u64,
    decisions: Vec<String>,
    requests: Vec<Would>,
    end: Option<Value>,
}

/// A request that would follow, or that did.
#[derive(Serialize)]
struct Would {
    id: OperationId,
    label: String,
    digest: String,
    request: Value,
    waits: bool,
    /// The new messages, where it asks a model.
    messages: Vec<Message>,
    /// How it differs from the request in the same place of the other side; nothing where there is none of its kind.
    changes: Option<Vec<Change>>,
}

/// Computes what would follow.
///
/// # Errors
/// When the outcome cannot be edited, or does not fit.
pub(crate) fn edited(
    course: &Course,
    operation: OperationId,
    outcome: Outcome,
) -> Result<Edited, HistoryError> {
    let found = what_if(&course.config, course.run, &course.records, &course.origin, operation, outcome)?;
    let digests = |next: &Next| next.asked.iter().map(|one| one.digest).collect::<Vec<_>>();
    let same =
        found.was.as_ref().is_some_and(|was| digests(was) == digests(&found.now) && was.end == found.now.end);
    let changes = found
        .was
        .as_ref()
        .map_or_else(Vec::new, |was| dalsegno_history::changes(&shown(&was.state), &shown(&found.now.state)));
    Ok(Edited {
        step: found.step,
        same,
        now: Side::of(course, &found.now, found.was.as_ref()),
        was: found.was.as_ref().map(|was| Side::of(course, was, Some(&found.now))),
        changes,
    })
}

impl Side {
    fn of(course: &Course, next: &Next, other: Option<&Next>) -> Self {
        let would = |one: &Operation| {
            let sent = |next: &Next, one: &Operation| reading(course, &next.state, &one.request);
            let found = other.and_then(|other| {
                let twin = other.asked.iter().find(|twin| {
                    twin.ordinal == one.ordinal && twin.request.label() == one.request.label()
                })?;
                Some((sent(other, twin), twin))
            });
            let own = sent(next, one);
            let changes = found.map(|(left, twin)| match twin.digest == one.digest {
                true => Vec::new(),
                false => request_changes(
                    twin,
                    one,
                    left.as_ref().map(|(reading, _)| reading),
                    own.as_ref().map(|(reading, _)| reading),
                ),
            });
            let new = own.as_ref().map_or_else(Vec::new, |(reading, new)| {
                let total = reading.transcript.iter().count();
                messages(reading, total - new, *new)
            });
            Would {
                id: one.id,
                label: one.request.label(),
                digest: one.digest.to_string(),
                request: payload(&one.request),
                waits: matches!(one.gate, GateState::Waiting(_)),
                messages: new,
                changes,
            }
        };
        Self {
            step: next.state.step(),
            decisions: next.state.decisions().iter().map(ToString::to_string).collect(),
            requests: next.asked.iter().map(would).collect(),
            end: next.end.as_ref().map(ended),
        }
    }
}

/// Reads an outcome as the page shows it.
///
/// # Errors
/// When it is no outcome.
pub(crate) fn read(outcome: &Value) -> Result<Outcome, String> {
    serde_json::from_value(outcome.clone()).map_err(|error| {
        format!(
            "this is not an outcome: {error}; expected the form of the recorded one, such as {}",
            json!({ "failed": { "code": "timeout", "message": "no answer" } })
        )
    })
}
