//! What happens after an attempt without an answer. The one place that decides what may repeat.

use std::time::Duration;

use dalsegno_core::{EffectClass, Failure, FailureCode, Gate, OnIndeterminate, OperationId, Terms};
use dalsegno_sandbox::Received;

/// The first pause between attempts; each further one doubles it.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);

/// The longest pause between attempts.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// How long receivers are trusted to remember an idempotency key. A day is what payment services promise; past it a
/// keyed effect counts as unsafe.
const KEY_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// An attempt that brought no answer.
#[derive(Debug, Clone)]
pub(crate) struct AttemptError {
    /// What went wrong.
    pub(crate) failure: Failure,
    /// Whether the receiver may have acted.
    pub(crate) received: Received,
    /// Whether another attempt could help.
    pub(crate) transient: bool,
    /// The receiver's own wish for a pause.
    pub(crate) after: Option<Duration>,
    /// What must be settled before it can go on: a secret that is not in the store, a question of the server. Nothing took
    /// place then.
    pub(crate) gate: Option<Box<Gate>>,
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

/// What is known of an operation when one of its attempts has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Situation {
    /// The attempt that has ended, from 1.
    pub(crate) attempt: u32,
    /// An earlier attempt may have been acted on, and nobody has settled that.
    pub(crate) doubtful: bool,
    /// The time since the first attempt.
    pub(crate) age: Duration,
}

/// Decides what to do after an attempt brought no answer.
///
/// | may have taken place | class | then |
/// |---|---|---|
/// | certainly not | any | again, while attempts are left; else the failure |
/// | possibly | read, idempotent | again, while attempts are left; else the failure |
/// | possibly | keyed | again with the same key, while attempts are left; else in doubt |
/// | possibly | unsafe, or keyed past [`KEY_TTL`] | in doubt |
///
/// A last attempt that was certainly not received does not undo the doubt that an earlier one left.
pub(crate) fn after(operation: OperationId, terms: &Terms, now: Situation, error: AttemptError) -> Verdict {
    let in_time = terms.pace.is_none_or(|pace| now.age < Duration::from_millis(pace.most_ms));
    let left = now.attempt <= terms.retries && in_time;
    let received = error.received == Received::Possibly;
    let first = terms.pace.map_or(FIRST_BACKOFF, |pace| Duration::from_millis(pace.first_pause_ms));
    let again = || Verdict::Again(backoff(operation, now.attempt, first, error.after));
    if !received && !now.doubtful {
        return if left && error.transient { again() } else { Verdict::Fail(error.failure) };
    }
    match class(terms, now.age) {
        EffectClass::Read | EffectClass::Idempotent | EffectClass::Composite if left && error.transient => {
            again()
        }
        EffectClass::Read | EffectClass::Idempotent | EffectClass::Composite => Verdict::Fail(error.failure),
        EffectClass::Keyed if left && (error.transient || received) => again(),
        EffectClass::Keyed | EffectClass::Unsafe => {
            let reason = format!("attempt {} had no answer ({})", now.attempt, error.failure.message);
            match terms.on_indeterminate {
                OnIndeterminate::Ask => Verdict::Ask(reason),
                OnIndeterminate::Report => Verdict::Fail(indeterminate(&reason)),
                OnIndeterminate::Retry if left => again(),
                OnIndeterminate::Retry => Verdict::Ask(reason),
            }
        }
    }
}

/// Decides what to do with an operation whose process ended during an attempt.
///
/// Retries do not begin anew after a crash; but what may be repeated is repeated at least once, since the process,
/// not the receiver, failed.
pub(crate) fn recover(operation: OperationId, terms: &Terms, now: Situation) -> Verdict {
    if class(terms, now.age).may_repeat() {
        return Verdict::Again(Duration::ZERO);
    }
    let failure =
        Failure::new(FailureCode::Indeterminate, "the process ended before an outcome was recorded");
    let error =
        AttemptError { failure, received: Received::Possibly, transient: true, after: None, gate: None };
    after(operation, terms, now, error)
}

/// The failure of an effect that may have taken place.
pub(crate) fn indeterminate(reason: &str) -> Failure {
    Failure::new(FailureCode::Indeterminate, format!("{reason}; it may or may not have taken place"))
}

/// The class of an operation of this age: a receiver forgets keys.
fn class(terms: &Terms, age: Duration) -> EffectClass {
    if terms.class == EffectClass::Keyed && age > KEY_TTL { EffectClass::Unsafe } else { terms.class }
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

#[cfg(test)]
mod tests {
    use super::*;

    const ID: OperationId = OperationId::from_bytes([1; 16]);

    const NEW: Situation = Situation { attempt: 1, doubtful: false, age: Duration::ZERO };

    fn decide(
        class: EffectClass,
        received: Received,
        now: Situation,
        policy: OnIndeterminate,
    ) -> &'static str {
        let terms = Terms { class, timeout_ms: 1, retries: 1, on_indeterminate: policy, pace: None };
        let failure = Failure::new(FailureCode::Timeout, "no answer");
        match after(
            ID,
            &terms,
            now,
            AttemptError { failure, received, transient: true, after: None, gate: None },
        ) {
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
            let now = Situation { attempt, ..NEW };
            assert_eq!(
                decide(class, received, now, policy),
                expected,
                "{class:?} {received:?} {attempt} {policy:?}"
            );
        }
    }

    #[test]
    fn a_refused_repeat_does_not_undo_the_doubt_of_the_attempt_before() {
        let now = Situation { attempt: 2, doubtful: true, ..NEW };
        assert_eq!(decide(EffectClass::Keyed, Received::No, now, OnIndeterminate::Ask), "ask");
        assert_eq!(decide(EffectClass::Read, Received::No, now, OnIndeterminate::Ask), "fail");
    }

    #[test]
    fn an_endpoint_is_not_tried_for_longer_than_its_document_allows() {
        let pace = Some(dalsegno_core::Pace { first_pause_ms: 500, most_ms: 60_000 });
        let on_indeterminate = OnIndeterminate::Ask;
        let terms = Terms { class: EffectClass::Read, timeout_ms: 1, retries: 9, on_indeterminate, pace };
        let error = || AttemptError {
            failure: Failure::new(FailureCode::Unavailable, "503"),
            received: Received::No,
            transient: true,
            after: None,
            gate: None,
        };
        let at = |age| Situation { age: Duration::from_millis(age), ..NEW };
        let Verdict::Again(pause) = after(ID, &terms, at(59_999), error()) else {
            panic!("it gave up too early")
        };
        assert!((250..=500).contains(&pause.as_millis()), "{pause:?}");
        assert!(matches!(after(ID, &terms, at(60_000), error()), Verdict::Fail(_)));
    }

    #[test]
    fn a_key_is_trusted_for_a_day() {
        let old = Situation { age: KEY_TTL + Duration::from_secs(1), ..NEW };
        assert_eq!(decide(EffectClass::Keyed, Received::Possibly, old, OnIndeterminate::Ask), "ask");
        let terms = Terms {
            class: EffectClass::Keyed,
            timeout_ms: 1,
            retries: 5,
            on_indeterminate: OnIndeterminate::Ask,
            pace: None,
        };
        assert!(matches!(recover(ID, &terms, old), Verdict::Ask(_)));
        assert_eq!(recover(ID, &terms, NEW), Verdict::Again(Duration::ZERO));
    }

    #[test]
    fn a_crash_never_repeats_an_unsafe_effect_on_its_own() {
        let terms = |class| Terms {
            class,
            timeout_ms: 1,
            retries: 0,
            on_indeterminate: OnIndeterminate::Ask,
            pace: None,
        };
        assert!(matches!(recover(ID, &terms(EffectClass::Unsafe), NEW), Verdict::Ask(_)));
        for class in [EffectClass::Read, EffectClass::Idempotent, EffectClass::Keyed] {
            assert_eq!(recover(ID, &terms(class), NEW), Verdict::Again(Duration::ZERO));
        }
    }

    #[test]
    fn the_pause_is_the_same_each_time_and_grows_to_a_bound() {
        assert_eq!(backoff(ID, 1, FIRST_BACKOFF, None), backoff(ID, 1, FIRST_BACKOFF, None));
        assert!(
            backoff(ID, 1, FIRST_BACKOFF, None) >= FIRST_BACKOFF / 2
                && backoff(ID, 1, FIRST_BACKOFF, None) <= FIRST_BACKOFF
        );
        assert!(backoff(ID, u32::MAX, FIRST_BACKOFF, None) <= LONGEST_BACKOFF);
        assert_eq!(backoff(ID, 1, FIRST_BACKOFF, Some(Duration::from_secs(3))), Duration::from_secs(3));
    }
}
