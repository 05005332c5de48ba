//! What an attempt proves, and what happens next. The one place that decides what may repeat, and what ends a doubt.

use std::time::Duration;

use dalsegno_core::Received;
use dalsegno_core::{
    EffectClass, Failure, FailureCode, Gate, OnIndeterminate, Operation, OperationId, Outcome, Request,
    Terms, Timestamp,
};
use dalsegno_tools::{ApiCall, ApiResponse, StatusMeaning};

use dalsegno_history::{LONGEST_BACKOFF, Situation};

use crate::effects::endpoint;
use crate::effects::failure::AttemptError;

/// The first pause between attempts; each further one doubles it.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);

/// How long receivers are trusted to remember an idempotency key. A day is what payment services promise; past it a
/// keyed effect counts as unsafe.
const KEY_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How often an operation is started again after its process died, beyond its retries. An effect that kills its process
/// must not do so for ever.
const RECOVERIES: u32 = 3;

/// What to do after an attempt.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is taken apart at once")]
pub(crate) enum RetryDecision {
    /// Try again.
    Again {
        /// How long to wait first.
        pause: Duration,
        /// The kind of failure of the attempt that has ended.
        code: FailureCode,
        /// Whether that attempt may have been acted on.
        possibly_received: bool,
    },
    /// This is the outcome.
    Take(Outcome),
    /// Something must be settled before it can go on, and nothing took place.
    Gate(Gate),
    /// It may have taken place, and nothing proves that it did or did not: a person must say.
    Ask(String),
}

/// An effect, as far as its attempts are judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effect<'a> {
    pub(crate) id: OperationId,
    pub(crate) terms: &'a Terms,
    pub(crate) request: &'a Request,
}

impl<'a> From<&'a Operation> for Effect<'a> {
    fn from(operation: &'a Operation) -> Self {
        Self { id: operation.id, terms: &operation.terms, request: &operation.request }
    }
}

/// What an answer proves of the attempt that it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// The effect took place.
    Performed,
    /// It did not; the same request would be refused again.
    Refused,
    /// It did not; the same request may succeed later.
    NotNow,
    /// Nothing.
    Unknown {
        /// Whether the same request may be answered otherwise.
        transient: bool,
    },
}

/// Decides what to do after an attempt, whatever came of it.
///
/// | what the attempt proves | class | then |
/// |---|---|---|
/// | performed | any | its outcome |
/// | not performed, no earlier attempt in doubt | any | again where that can help, while attempts are left; else its outcome |
/// | nothing | read, idempotent | again where that can help, while attempts are left; else its outcome |
/// | nothing, or not performed after one in doubt | keyed | again with the same key, while attempts are left; else in doubt |
/// | nothing, or not performed after one in doubt | unsafe, or keyed past [`KEY_TTL`] | in doubt |
///
/// A later attempt settles the doubt that an earlier one left only by having been performed: a refusal says nothing of
/// the attempt before it.
pub(crate) fn judge(
    effect: Effect<'_>,
    now: Situation,
    result: Result<Outcome, AttemptError>,
) -> RetryDecision {
    let Unproven { reason, error, answer } = match weigh(effect, now.at, result) {
        Ok(outcome) => return RetryDecision::Take(outcome),
        Err(unproven) => unproven,
    };
    let terms = effect.terms;
    // Of a call whose key it knows, the server has just said that it waits; of any other that may have been acted on
    // before, a person must know.
    if let Some(gate) = error.gate
        && (!now.doubtful || (terms.class.may_repeat() && matches!(*gate, Gate::Elicitation { .. })))
    {
        return RetryDecision::Gate(*gate);
    }
    let in_time = terms.pace.is_none_or(|pace| now.age < Duration::from_millis(pace.most_ms));
    let left = now.attempt <= terms.retries && in_time;
    let received = error.received == Received::Possibly;
    let outcome = answer.unwrap_or_else(|| Outcome::Failed(error.failure.clone()));
    let again = || {
        let first = terms.pace.map_or(FIRST_BACKOFF, |pace| Duration::from_millis(pace.first_pause_ms));
        let pause = backoff(effect.id, now.attempt, first, error.after);
        RetryDecision::Again { pause, code: error.failure.code, possibly_received: received }
    };
    let is_certain = !received && !now.doubtful;
    match effect.class(now.key_age) {
        _ if is_certain && left && error.transient => again(),
        _ if is_certain => RetryDecision::Take(outcome),
        EffectClass::Read | EffectClass::Idempotent | EffectClass::Composite if left && error.transient => {
            again()
        }
        EffectClass::Read | EffectClass::Idempotent | EffectClass::Composite => RetryDecision::Take(outcome),
        EffectClass::Keyed if left && (error.transient || received) => again(),
        EffectClass::Keyed | EffectClass::Unsafe => {
            let mut reason = format!("attempt {} {reason}", now.attempt);
            if !received {
                reason.push_str(", and an attempt before it may have taken place");
            }
            let detail = error.failure.detail.clone();
            // The person who is asked should know all; of a report, a model reads the message.
            let asked = |reason: String| match &detail {
                Some(detail) => RetryDecision::Ask(format!("{reason}; {detail}")),
                None => RetryDecision::Ask(reason),
            };
            match terms.on_indeterminate {
                OnIndeterminate::Ask => asked(reason),
                OnIndeterminate::Report => {
                    RetryDecision::Take(Outcome::Failed(Failure { detail, ..indeterminate(&reason) }))
                }
                OnIndeterminate::Retry if left && (error.transient || received) => again(),
                OnIndeterminate::Retry => asked(reason),
            }
        }
    }
}

/// Decides what to do with an operation whose process died during an attempt.
///
/// Retries do not begin anew after a crash; but what may be repeated is repeated at least once, since the process, not the
/// receiver, failed. After `retries` + [`RECOVERIES`] such starts there is no other.
pub(crate) fn recover(effect: Effect<'_>, now: Situation) -> RetryDecision {
    let terms = effect.terms;
    let most = terms.retries.saturating_add(RECOVERIES);
    let is_loop = now.recoveries >= most;
    let class = effect.class(now.key_age);
    if class.may_repeat() && !is_loop {
        return RetryDecision::Again {
            pause: Duration::ZERO,
            code: FailureCode::Unavailable,
            possibly_received: true,
        };
    }
    let reason = match is_loop {
        true => format!("its process died {} times while it was under way", most + 1),
        false if now.attempt <= 1 => "the process ended before an outcome was recorded".to_owned(),
        // Each doubt has words of its own: an answer to one is none to the next.
        false => format!("the process ended before attempt {} had an outcome", now.attempt),
    };
    match (class, terms.on_indeterminate) {
        (EffectClass::Read | EffectClass::Composite, _) => {
            let message = format!("{reason}, so it is not started again");
            RetryDecision::Take(Outcome::Failed(Failure::new(FailureCode::CrashLoop, message)))
        }
        (_, OnIndeterminate::Report) => RetryDecision::Take(Outcome::Failed(indeterminate(&reason))),
        (_, OnIndeterminate::Retry) if now.attempt <= terms.retries && !is_loop => {
            let first = terms.pace.map_or(FIRST_BACKOFF, |pace| Duration::from_millis(pace.first_pause_ms));
            let pause = backoff(effect.id, now.attempt, first, None);
            RetryDecision::Again { pause, code: FailureCode::Unavailable, possibly_received: true }
        }
        (_, OnIndeterminate::Ask | OnIndeterminate::Retry) => RetryDecision::Ask(reason),
    }
}

/// Decides, right before a further attempt starts, whether it still may: it can have waited so long that its receiver has
/// forgotten the key of an attempt in doubt. `None` where it may.
pub(crate) fn start(effect: Effect<'_>, now: Situation) -> Option<RetryDecision> {
    let forgotten = effect.terms.class == EffectClass::Keyed
        && now.doubtful
        && effect.class(now.key_age) == EffectClass::Unsafe;
    if !forgotten {
        return None;
    }
    let hours = KEY_TTL.as_secs() / 3600;
    let reason = format!(
        "an attempt may have taken place, and its key is older than the {hours} h for which it counts"
    );
    match effect.terms.on_indeterminate {
        OnIndeterminate::Ask => Some(RetryDecision::Ask(reason)),
        OnIndeterminate::Report => Some(RetryDecision::Take(Outcome::Failed(indeterminate(&reason)))),
        OnIndeterminate::Retry => None,
    }
}

/// What an attempt came to whose run has ended meanwhile: no other one follows.
pub(crate) fn late(effect: Effect<'_>, now: Situation, result: Result<Outcome, AttemptError>) -> Outcome {
    match weigh(effect, now.at, result) {
        Ok(outcome) => outcome,
        // What this attempt did not do, one before it may have done.
        Err(Unproven { reason, error, .. }) if error.received == Received::Possibly || now.doubtful => {
            Outcome::Failed(indeterminate(&format!("attempt {} {reason}", now.attempt)))
        }
        Err(Unproven { error, answer, .. }) => answer.unwrap_or(Outcome::Failed(error.failure)),
    }
}

/// Says whether an answer is one of a receiver that cannot work now.
pub(crate) fn is_overload(response: &ApiResponse) -> bool {
    matches!(response.status, 408 | 425 | 429 | 500..=599)
}

/// An attempt that does not prove that its effect took place.
struct Unproven {
    /// What happened, behind "attempt 2".
    reason: String,
    /// What it proves.
    error: AttemptError,
    /// The answer, which is the outcome if no other attempt is made.
    answer: Option<Outcome>,
}

/// What an attempt proves: the outcome of an effect that took place, or what else is known.
#[expect(clippy::result_large_err, reason = "there is one for each attempt, and it is taken apart at once")]
fn weigh(
    effect: Effect<'_>,
    at: Timestamp,
    result: Result<Outcome, AttemptError>,
) -> Result<Outcome, Unproven> {
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(error) => {
            let reason = format!("had no answer ({})", error.failure.message);
            return Err(Unproven { reason, error, answer: None });
        }
    };
    let (received, transient) = match effect.proof(&outcome) {
        Proof::Performed => return Ok(effect.readable(outcome)),
        Proof::Refused => (Received::No, false),
        Proof::NotNow => (Received::No, true),
        Proof::Unknown { transient } => (Received::Possibly, transient),
    };
    let (code, message, after) = match &outcome {
        Outcome::ApiAnswered(response) => {
            let message = format!("the endpoint answered with the status {}", response.status);
            (FailureCode::Unavailable, message, endpoint::wish(response, at))
        }
        _ => (FailureCode::ToolFailed, "the tool answered with an error".to_owned(), None),
    };
    let reason = format!("proves nothing ({message})");
    let failure = Failure::new(code, message);
    let error = AttemptError { failure, received, transient, after, gate: None, is_under_way: false };
    Err(Unproven { reason, error, answer: Some(outcome) })
}

impl Effect<'_> {
    /// The class of an operation whose key is of this age: a receiver forgets keys. The memory does not.
    fn class(&self, key_age: Duration) -> EffectClass {
        match self.terms.class {
            EffectClass::Keyed if key_age > KEY_TTL && !matches!(self.request, Request::MemoryCreate(_)) => {
                EffectClass::Unsafe
            }
            class => class,
        }
    }

    fn proof(&self, outcome: &Outcome) -> Proof {
        match (outcome, self.request) {
            (Outcome::ApiAnswered(response), Request::ApiCall(call)) => self.proof_of_status(call, response),
            (Outcome::ToolReturned(returned), _) if returned.is_error => Proof::Refused,
            _ => Proof::Performed,
        }
    }

    /// What a status proves, by the word of the document's author or else by what HTTP says of it.
    fn proof_of_status(&self, call: &ApiCall, response: &ApiResponse) -> Proof {
        let is_repeated = match self.terms.class {
            EffectClass::Read | EffectClass::Idempotent | EffectClass::Keyed => true,
            EffectClass::Unsafe | EffectClass::Composite => false,
        };
        let is_free = matches!(self.terms.class, EffectClass::Read | EffectClass::Idempotent);
        match (call.statuses.get(&response.status), response.status) {
            (Some(StatusMeaning::Performed), _) | (None, 200..=299) => Proof::Performed,
            (Some(StatusMeaning::NotPerformed), 408 | 425 | 429 | 500..=599) => Proof::NotNow,
            (Some(StatusMeaning::NotPerformed), _) => Proof::Refused,
            (None, 429) if is_repeated || call.repeats_tolerated => Proof::NotNow,
            // A proxy says 503 as well, and may have passed the request on.
            (None, 503) if is_repeated && response.headers.contains_key("retry-after") => Proof::NotNow,
            (None, 408 | 425 | 500..=599) => Proof::Unknown { transient: true },
            // Twice is the same as once: what is there already is no reason to ask again.
            (None, 409) if !is_free => Proof::Unknown { transient: true },
            (None, _) => Proof::Refused,
        }
    }

    /// The outcome of an effect that took place, in a form that can be recorded. What cannot be held took place all the
    /// same.
    fn readable(&self, outcome: Outcome) -> Outcome {
        let by_receiver = matches!(self.request, Request::ToolCall(_) | Request::ApiCall(_));
        match outcome {
            failed @ Outcome::Failed(_) => failed,
            outcome => match outcome.bounded() {
                Outcome::Failed(failure) if by_receiver && self.terms.class != EffectClass::Read => {
                    Outcome::Failed(Failure { code: FailureCode::ResultUnreadable, ..failure })
                }
                outcome => outcome,
            },
        }
    }
}

/// The failure of an effect that may have taken place.
pub(crate) fn indeterminate(reason: &str) -> Failure {
    Failure::new(FailureCode::Indeterminate, format!("{reason}; it may or may not have taken place"))
}

/// The pause after an attempt: exponential, with a jitter derived from the operation, so that it is the same each time.
fn backoff(operation: OperationId, attempt: u32, first: Duration, wish: Option<Duration>) -> Duration {
    let exponential = first.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(LONGEST_BACKOFF);
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"backoff").update(operation.as_bytes()).update(&attempt.to_le_bytes());
    let jitter = u32::from(hasher.finalize().as_bytes()[0]);
    let jittered = exponential / 2 + exponential / 2 * jitter / 255;
    wish.map_or(jittered, |wish| wish.min(LONGEST_BACKOFF).max(jittered))
}

/// Says whether an attempt may be given up at any time, since it may be repeated.
pub(crate) fn is_free(class: EffectClass) -> bool {
    match class {
        EffectClass::Read | EffectClass::Idempotent => true,
        EffectClass::Keyed | EffectClass::Unsafe | EffectClass::Composite => false,
    }
}

#[cfg(test)]
mod tests;
