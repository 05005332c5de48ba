//! Attempts, questions and answers of an operation.

use dalsegno_core::{Answer, Gate, Validation};
use dalsegno_store::{AttemptCause, Body, Evidence, Record};

use super::Around;
use super::operation::outcome_word;
use crate::text;

/// Most characters of one line.
const LINE: usize = 2_000;

/// What a record says of the course of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// When, after the start of the run.
    pub offset: String,
    /// What happened.
    pub words: String,
    /// Whether it is about something that went wrong.
    pub is_bad: bool,
}

impl Happening {
    /// What a record says; none where the card says it elsewhere.
    pub(super) fn of(record: &Record, around: &Around<'_>) -> Option<Self> {
        let (words, is_bad) = match &record.body {
            Body::Attempted { attempt, cause, reason, .. } => {
                let (why, is_bad) = because(cause, reason.as_deref());
                (format!("attempt {attempt}{why}"), is_bad)
            }
            Body::Waiting { gate } => (gated(gate), matches!(gate, Gate::InDoubt { .. })),
            Body::Tasked { server, task, .. } => (format!("became the task {task} at {server}"), false),
            Body::Denied { server, denials } => {
                let denied = denials
                    .iter()
                    .map(|denial| format!("{} {}: {}", denial.kind, denial.subject, denial.reason));
                (format!("{server} was refused {}", denied.collect::<Vec<_>>().join(", ")), true)
            }
            Body::Verified { tries: 0, .. } => return None,
            Body::Verified { tool, tries, evidence, error, .. } => {
                let said = match evidence {
                    Evidence::Happened => "it took place",
                    Evidence::NotHappened => "it did not take place",
                    Evidence::Unknown => "it does not know",
                };
                let error = error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
                (
                    format!(
                        "in doubt; {tool} was asked {}: {said}{error}",
                        text::count((*tries).into(), "time")
                    ),
                    true,
                )
            }
            Body::Answered { answer } => (answered(answer), false),
            Body::Late { outcome, by, .. } => {
                let by = by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
                (format!("{} arrived too late to be used{by}", outcome_word(outcome)), true)
            }
            _ => return None,
        };
        Some(Self { offset: around.offset(record), words: text::line(&words, LINE), is_bad })
    }
}

fn because(cause: &AttemptCause, reason: Option<&str>) -> (String, bool) {
    match cause {
        AttemptCause::Answered => (", after the answer".to_owned(), false),
        AttemptCause::Queued => (", after others of its step".to_owned(), false),
        AttemptCause::Recovered => (": the process of the attempt before it died".to_owned(), true),
        AttemptCause::Failed { code, possibly_received } => {
            let received = if *possibly_received { "possibly received" } else { "not received" };
            let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            (format!(": the attempt before it failed with {}, {received}{reason}", code.as_str()), true)
        }
    }
}

fn gated(gate: &Gate) -> String {
    match gate {
        Gate::InDoubt { reason } => format!("in doubt: {reason}"),
        Gate::Secret { name } => format!("waits for the secret {name}"),
        Gate::Approval => "waits for approval".to_owned(),
        Gate::Input | Gate::Elicitation { .. } => "waits for an answer".to_owned(),
    }
}

fn answered(answer: &Answer) -> String {
    let (word, by, more) = match answer {
        Answer::Approved { edited, reason, by } => {
            let edited = match edited {
                Some(Validation::Valid { arguments }) => format!(" with other arguments: {arguments}"),
                _ => String::new(),
            };
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            ("approved", by, format!("{reason}{edited}"))
        }
        Answer::Denied { reason, by } => {
            ("denied", by, reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())
        }
        Answer::Done { error: None, by, .. } => ("settled", by, ": it took place".to_owned()),
        Answer::Done { error: Some(error), by, .. } => ("settled", by, format!(": it was refused: {error}")),
        Answer::NotDone { by } => ("settled", by, ": it did not take place".to_owned()),
        Answer::Given { by, .. } | Answer::Supplied { by, .. } => ("answered", by, String::new()),
    };
    let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    format!("{word}{by}{more}")
}
