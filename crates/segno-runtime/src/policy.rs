//! What happens after an attempt without an answer. The one place that decides what may repeat.

use std::time::Duration;

use segno_core::{EffectClass, Failure, FailureCode, OnIndeterminate, OperationId, Terms};
use segno_sandbox::Received;

/// The first pause between attempts; each further one doubles it.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);

/// The longest pause between attempts.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// An attempt that brought no answer.
#[derive(Debug, Clone)]
pub struct AttemptError {
    /// What went wrong.
    pub failure: Failure,
    /// Whether the receiver may have acted.
    pub received: Received,
    /// Whether another attempt could help.
    pub transient: bool,
    /// The receiver's own wish for a pause.
    pub after: Option<Duration>,
}

/// What to do after an attempt without an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// Try again after this pause.
    Again(Duration),
    /// The failure is the outcome.
    Fail(Failure),
    /// Nobody knows whether the effect took place: a person must say.
    Ask(String),
}

/// Decides what to do after attempt `attempt` (from 1) of an operation brought no answer.
///
/// | receiver | class | then |
/// |---|---|---|
/// | certainly did not act | any | again, while attempts are left; else the failure |
/// | possibly acted | read, idempotent | again, while attempts are left; else the failure |
/// | possibly acted | keyed | again with the same key, while attempts are left; else in doubt |
/// | possibly acted | unsafe | in doubt |
pub(crate) fn after(operation: OperationId, terms: &Terms, attempt: u32, error: AttemptError) -> Verdict {
    let left = attempt <= terms.retries;
    let again = || Verdict::Again(backoff(operation, attempt, error.after));
    if error.received == Received::No {
        return if left && error.transient { again() } else { Verdict::Fail(error.failure) };
    }
    match terms.class {
        EffectClass::Read | EffectClass::Idempotent if left && error.transient => again(),
        EffectClass::Read | EffectClass::Idempotent => Verdict::Fail(error.failure),
        EffectClass::Keyed if left => again(),
        EffectClass::Keyed | EffectClass::Unsafe => {
            let reason = format!("attempt {attempt} had no answer ({})", error.failure.message);
            match terms.on_indeterminate {
                OnIndeterminate::Ask => Verdict::Ask(reason),
                OnIndeterminate::Report => {
                    let message = format!("{reason}; it may or may not have taken place");
                    Verdict::Fail(Failure::new(FailureCode::Indeterminate, message))
                }
                OnIndeterminate::Retry if left => again(),
                OnIndeterminate::Retry => Verdict::Ask(reason),
            }
        }
    }
}

/// Decides what to do with an operation whose process ended during attempt `attempt`.
///
/// Retries do not begin anew after a crash; but what may be repeated is repeated at least once, since the process,
/// not the receiver, failed.
pub(crate) fn recover(operation: OperationId, terms: &Terms, attempt: u32) -> Verdict {
    if terms.class.may_repeat() {
        return Verdict::Again(Duration::ZERO);
    }
    let error = AttemptError {
        failure: Failure::new(FailureCode::Indeterminate, "the process ended before an outcome was recorded"),
        received: Received::Possibly,
        transient: true,
        after: None,
    };
    after(operation, terms, attempt, error)
}

/// The pause after an attempt: exponential, with a jitter derived from the operation, so that it is the same each time.
fn backoff(operation: OperationId, attempt: u32, wish: Option<Duration>) -> Duration {
    let exponential =
        FIRST_BACKOFF.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(LONGEST_BACKOFF);
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"backoff").update(operation.as_bytes()).update(&attempt.to_le_bytes());
    let jitter = u32::from(hasher.finalize().as_bytes()[0]);
    let jittered = exponential / 2 + exponential / 2 * jitter / 255;
    wish.map_or(jittered, |wish| wish.min(LONGEST_BACKOFF).max(jittered))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: OperationId = OperationId::from_bytes([1; 16]);

    fn decide(
        class: EffectClass,
        received: Received,
        attempt: u32,
        on_indeterminate: OnIndeterminate,
    ) -> &'static str {
        let terms = Terms { class, timeout_ms: 1, retries: 1, on_indeterminate };
        let failure = Failure::new(FailureCode::Timeout, "no answer");
        match after(ID, &terms, attempt, AttemptError { failure, received, transient: true, after: None }) {
            Verdict::Again(_) => "again",
            Verdict::Fail(failure) if failure.code == FailureCode::Indeterminate => "indeterminate",
            Verdict::Fail(_) => "fail",
            Verdict::Ask(_) => "ask",
        }
    }

    #[test]
    fn the_class_decides_what_may_repeat() {
        use EffectClass::{Idempotent, Keyed, Read, Unsafe};
        use OnIndeterminate::{Ask, Report, Retry};
        use Received::{No, Possibly};
        for (class, received, attempt, policy, expected) in [
            (Unsafe, No, 1, Ask, "again"),
            (Unsafe, No, 2, Ask, "fail"),
            (Read, Possibly, 1, Ask, "again"),
            (Read, Possibly, 2, Ask, "fail"),
            (Idempotent, Possibly, 1, Ask, "again"),
            (Keyed, Possibly, 1, Ask, "again"),
            (Keyed, Possibly, 2, Ask, "ask"),
            (Keyed, Possibly, 2, Report, "indeterminate"),
            (Unsafe, Possibly, 1, Ask, "ask"),
            (Unsafe, Possibly, 1, Report, "indeterminate"),
            (Unsafe, Possibly, 1, Retry, "again"),
            (Unsafe, Possibly, 2, Retry, "ask"),
        ] {
            assert_eq!(
                decide(class, received, attempt, policy),
                expected,
                "{class:?} {received:?} {attempt} {policy:?}"
            );
        }
    }

    #[test]
    fn a_crash_never_repeats_an_unsafe_effect_on_its_own() {
        let terms =
            |class| Terms { class, timeout_ms: 1, retries: 0, on_indeterminate: OnIndeterminate::Ask };
        assert!(matches!(recover(ID, &terms(EffectClass::Unsafe), 1), Verdict::Ask(_)));
        for class in [EffectClass::Read, EffectClass::Idempotent, EffectClass::Keyed] {
            assert_eq!(recover(ID, &terms(class), 1), Verdict::Again(Duration::ZERO));
        }
    }

    #[test]
    fn the_pause_is_the_same_each_time_and_grows_to_a_bound() {
        assert_eq!(backoff(ID, 1, None), backoff(ID, 1, None));
        assert!(backoff(ID, 1, None) >= FIRST_BACKOFF / 2 && backoff(ID, 1, None) <= FIRST_BACKOFF);
        assert!(backoff(ID, u32::MAX, None) <= LONGEST_BACKOFF);
        assert_eq!(backoff(ID, 1, Some(Duration::from_secs(3))), Duration::from_secs(3));
    }
}
