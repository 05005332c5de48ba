//! Calls that a server makes tasks of: asked about until they have ended.
//!
//! The server says how often it wants to be asked, within bounds. Each word of it is progress; what bounds a task is the
//! total time of its call. A connection that is lost meanwhile is made anew: the task is the server's, not the
//! connection's. Whoever does not want the task any more has it cancelled at the server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_protocol::{
    Answer, CallContext, CallError, CallErrorKind, Failed, Failure, InputRequired, Received, Task, TaskState,
    is_unknown_task, printable,
};
use tokio::time::Instant;

use crate::config::Limits;
use crate::connection::Connection;
use crate::server::ServerSession;

/// A task that is being followed. Dropped before its end, it is cancelled at the server unless its owner keeps it.
struct Followed<'a> {
    session: &'a ServerSession,
    call: &'a CallContext,
    id: &'a str,
    /// It has ended, or nobody is to be told.
    is_over: bool,
}

impl Followed<'_> {
    fn error(&mut self, kind: CallErrorKind, message: String) -> CallError {
        self.is_over = true;
        self.session.error(Failed::new(Failure::new(kind, message), Received::Possibly))
    }
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        let kept = self.call.owner.as_ref().is_some_and(|owner| owner.keeps());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_over || kept {
            return;
        }
        let (session, call, id) = (self.session.clone(), self.call.clone(), self.id.to_owned());
        // Bounded by the time of a call.
        runtime.spawn(async move { cancel(&session, &call, &id).await });
    }
}

/// Where a task comes from.
#[derive(Clone, Copy)]
pub(crate) enum Begun<'a> {
    /// The server has just made it of the call.
    Now(&'a Task),
    /// It has this id since an earlier call.
    Before(&'a str),
}

/// Follows a task to its end, or to its next question.
pub(crate) async fn follow(
    session: &ServerSession,
    begun: Begun<'_>,
    call: &CallContext,
    deadline: Instant,
) -> Result<Answer, CallError> {
    let (id, mut pause) = match begun {
        Begun::Now(task) => (task.id.as_str(), task.poll),
        Begun::Before(id) => (id, Duration::ZERO),
    };
    let mut followed = Followed { session, call, id, is_over: false };
    if let (Begun::Now(task), Some(owner)) = (begun, &call.owner) {
        owner.begun(task).await;
    }
    let mut given: BTreeSet<String> = BTreeSet::new();
    let mut missed = 0;
    let mut last_word: Option<Instant> = None;
    loop {
        let next = (Instant::now() + pause).min(deadline).min(last_word.unwrap_or(deadline));
        tokio::select! {
            biased;
            () = unwanted(call), if last_word.is_none() => {
                tracing::debug!(server = session.name(), task = %shown(id), "its caller does not want the task");
                cancel(session, call, id).await;
                last_word = Some(Instant::now() + call.timeout.min(CANCEL_GRACE));
                pause = Duration::ZERO;
                continue;
            }
            () = tokio::time::sleep_until(next) => {}
        }
        let now = Instant::now();
        let state = match asked(session, call, id).await {
            Ok(state) => {
                missed = 0;
                state
            }
            Err(error) if is_unknown_task(error.kind) => {
                let words = format!(
                    "the server does not know the task `{}` (any more): {}",
                    shown(id),
                    error.message
                );
                return Err(followed.error(CallErrorKind::TaskLost, words));
            }
            Err(error) if missed < MISSED_MAX && is_passing(error.kind) && now < deadline => {
                tracing::debug!(server = session.name(), task = %shown(id), %error, "no word of the task");
                missed += 1;
                pause = MISSED_PAUSE * (1 << missed);
                continue;
            }
            Err(error) => {
                // Whether it goes on at the server nobody knows, and there is nobody who could be told.
                followed.is_over = true;
                // A refusal to tell is no answer to the call.
                let kind = match error.kind {
                    CallErrorKind::Refused { .. } => CallErrorKind::TaskLost,
                    kind => kind,
                };
                return Err(CallError { kind, received: Received::Possibly, ..error });
            }
        };
        match state {
            TaskState::Completed(output) => {
                followed.is_over = true;
                return Ok(Answer::Done(output));
            }
            TaskState::Ended(failure) => return Err(followed.error(failure.kind, failure.message)),
            TaskState::Asks { mut requests, poll } if last_word.is_none() => {
                pause = poll;
                requests.retain(|name, _| !given.contains(name));
                let mut answers = call.input.answers.clone();
                answers.retain(|name, _| requests.contains_key(name));
                if !answers.is_empty() {
                    given.extend(answers.keys().cloned());
                    let answered = session.had(session.connection(call.timeout)).await;
                    let answered = match answered {
                        Ok((connection, _)) => {
                            session.settled(connection.answer_task(id, answers, call).await)
                        }
                        Err(error) => Err(error),
                    };
                    if let Err(error) = answered {
                        // Whether it took them shows in what it asks next.
                        tracing::debug!(server = session.name(), task = %shown(id), %error, "answers not taken");
                        missed += 1;
                        if missed > MISSED_MAX || !is_passing(error.kind) {
                            followed.is_over = true;
                            let kind = CallErrorKind::TaskLost;
                            return Err(CallError { kind, received: Received::Possibly, ..error });
                        }
                        given.clear();
                    }
                } else if !requests.is_empty() {
                    followed.is_over = true;
                    return Ok(Answer::InputRequired(InputRequired { requests, request_state: None }));
                }
            }
            TaskState::Working { poll } | TaskState::Asks { poll, .. } => pause = poll,
        }
        if last_word.is_some_and(|last| now >= last) {
            let words = format!(
                "the task `{}` was asked to end, and did not say within {:?} that it has",
                shown(id),
                call.timeout.min(CANCEL_GRACE)
            );
            return Err(followed.error(CallErrorKind::Timeout, words));
        }
        if now >= deadline {
            cancel(session, call, id).await;
            let words =
                format!("the task `{}` did not end within {:?}", shown(id), total(session.limits(), call));
            return Err(followed.error(CallErrorKind::Timeout, words));
        }
    }
}

/// The longest that a call may take with progress.
pub(crate) fn total(limits: &Limits, call: &CallContext) -> Duration {
    limits.total_timeout.max(call.timeout)
}

/// Waits until the task is not wanted any more; for ever where nobody says so.
async fn unwanted(call: &CallContext) {
    match &call.owner {
        Some(owner) => owner.unwanted().await,
        None => std::future::pending().await,
    }
}

async fn asked(session: &ServerSession, call: &CallContext, id: &str) -> Result<TaskState, CallError> {
    let connection = session.had(session.connection(call.timeout)).await?.0;
    session.settled(connection.task(id, call).await)
}

/// Asks the server to end a task. It may have ended, and it may not obey; what it says of the task then shows it.
async fn cancel(session: &ServerSession, call: &CallContext, id: &str) {
    let told: Result<(), CallError> = async {
        let connection: Arc<Connection> = session.had(session.connection(call.timeout)).await?.0;
        session.settled(connection.cancel_task(id, call).await)
    }
    .await;
    if let Err(error) = told {
        tracing::debug!(server = session.name(), task = %shown(id), %error, "the task could not be cancelled");
    }
}

/// Whether the server may tell of the task when it is asked again.
fn is_passing(kind: CallErrorKind) -> bool {
    match kind {
        CallErrorKind::Start
        | CallErrorKind::Timeout
        | CallErrorKind::Exited
        | CallErrorKind::Closed
        | CallErrorKind::Overloaded
        | CallErrorKind::Refused { .. } => true,
        // What was said of it will be said again, and whoever must allow it is a person.
        _ => false,
    }
}

/// An id of another party, as a message shows it.
fn shown(id: &str) -> String {
    printable(id).chars().take(SHOWN_CHARS).collect()
}

/// How often in a row a server may give no word of a task.
const MISSED_MAX: u32 = 5;

/// Half of the pause after the first time; each further one doubles it.
const MISSED_PAUSE: Duration = Duration::from_millis(100);

/// How long a task that nobody wants any more has to say that it ended, and how.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

/// How much of an id a message shows.
const SHOWN_CHARS: usize = 80;
