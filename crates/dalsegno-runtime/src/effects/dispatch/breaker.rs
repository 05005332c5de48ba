//! A circuit breaker: it stops asking whoever fails, and lets one call through now and then to see whether that is over.

use std::time::Duration;

use tokio::time::Instant;

/// How much longer each further pause is, at most.
const LONGEST: u32 = 16;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BreakerSettings {
    /// Calls in a row that fail before it opens.
    pub(crate) failures: u32,
    /// The first pause; each probe that fails doubles it, up to sixteen times.
    pub(crate) cool_down: Duration,
}

/// What a breaker says to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerDecision {
    /// It may go through.
    Pass,
    /// It may go through, alone: how it ends decides.
    Probe,
    /// It may not, for so long; so many calls in a row have failed.
    Wait {
        /// The time until the next probe.
        left: Duration,
        /// The calls in a row that failed.
        failures: u32,
    },
}

/// The state of one dependency, as the calls of one tenant see it.
#[derive(Debug)]
pub(crate) struct Breaker {
    settings: BreakerSettings,
    /// Calls in a row that failed.
    failures: u32,
    /// No call until then; none while it is closed.
    until: Option<Instant>,
    /// A probe is under way.
    probing: bool,
    pauses: u32,
}

impl Breaker {
    pub(crate) const fn new(settings: BreakerSettings) -> Self {
        Self { settings, failures: 0, until: None, probing: false, pauses: 0 }
    }

    /// Asks for a call.
    pub(crate) fn admit(&mut self, now: Instant) -> BreakerDecision {
        let Some(until) = self.until else { return BreakerDecision::Pass };
        if now >= until && !self.probing {
            self.probing = true;
            return BreakerDecision::Probe;
        }
        // Whoever comes while a probe is under way waits a little for how it ends.
        let left = until.saturating_duration_since(now).max(self.settings.cool_down / 10);
        BreakerDecision::Wait { left, failures: self.failures }
    }

    /// How long it lets nothing through, and after how many failures; none when the next call may go through.
    pub(crate) fn pause(&self, now: Instant) -> Option<(Duration, u32)> {
        let left = self.until?.saturating_duration_since(now);
        (!left.is_zero()).then_some((left, self.failures))
    }

    /// Takes the end of a call; says whether the breaker has opened or closed by it.
    pub(crate) fn ended(&mut self, now: Instant, probe: bool, end: CallEnd) -> Option<Turn> {
        if probe {
            self.probing = false;
        }
        match end {
            CallEnd::Worked => {
                self.failures = 0;
                self.pauses = 0;
                self.until.take().map(|_| Turn::Closed)
            }
            // A call that began before the breaker opened says nothing new.
            CallEnd::Failed if self.until.is_some() && !probe => None,
            CallEnd::Failed => {
                self.failures = self.failures.saturating_add(1);
                if self.failures < self.settings.failures {
                    return None;
                }
                let pause = self.settings.cool_down.saturating_mul((1 << self.pauses.min(16)).min(LONGEST));
                self.pauses = self.pauses.saturating_add(1);
                self.until = Some(now + pause);
                Some(Turn::Opened { pause, failures: self.failures })
            }
            CallEnd::Unknown => None,
        }
    }

    /// Says whether it is as one that has seen no call.
    pub(crate) const fn is_clear(&self) -> bool {
        self.failures == 0 && self.until.is_none() && !self.probing
    }

    /// Says whether it is open.
    pub(crate) const fn is_open(&self) -> bool {
        self.until.is_some()
    }
}

/// How a call ended, as far as its dependency is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// There was an answer, even a refusal.
    Worked,
    /// There was none.
    Failed,
    /// It was given up.
    Unknown,
}

/// A breaker's change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It lets nothing through for a while.
    Opened {
        /// For how long.
        pause: Duration,
        /// After so many calls in a row that failed.
        failures: u32,
    },
    /// It lets everything through again.
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: BreakerSettings = BreakerSettings { failures: 3, cool_down: Duration::from_secs(10) };

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(SETTINGS);
        for _ in 0..2 {
            assert_eq!(breaker.ended(now, false, CallEnd::Failed), None);
        }
        let turn = breaker.ended(now, false, CallEnd::Failed);
        assert_eq!(turn, Some(Turn::Opened { pause: SETTINGS.cool_down, failures: 3 }));
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_only() {
        let now = Instant::now();
        let mut breaker = Breaker::new(SETTINGS);
        for _ in 0..10 {
            breaker.ended(now, false, CallEnd::Failed);
            breaker.ended(now, false, CallEnd::Failed);
            breaker.ended(now, false, CallEnd::Worked);
        }
        assert_eq!(breaker.admit(now), BreakerDecision::Pass);
        assert!(matches!(opened(now).admit(now), BreakerDecision::Wait { failures: 3, .. }));
    }

    #[test]
    fn one_probe_goes_through_and_its_end_decides() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + SETTINGS.cool_down;
        assert_eq!(breaker.admit(later), BreakerDecision::Probe);
        assert!(matches!(breaker.admit(later), BreakerDecision::Wait { .. }));
        assert_eq!(breaker.ended(later, true, CallEnd::Worked), Some(Turn::Closed));
        assert_eq!(breaker.admit(later), BreakerDecision::Pass);
    }

    #[test]
    fn each_probe_that_fails_doubles_the_pause_up_to_a_bound() {
        let mut now = Instant::now();
        let mut breaker = opened(now);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let BreakerDecision::Wait { left, .. } = breaker.admit(now) else { panic!("it is open") };
            now += left;
            assert_eq!(breaker.admit(now), BreakerDecision::Probe);
            let Some(Turn::Opened { pause, .. }) = breaker.ended(now, true, CallEnd::Failed) else {
                panic!("it opens again")
            };
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [20, 40, 80, 160, 160, 160, 160, 160]);
    }

    #[test]
    fn a_probe_that_was_given_up_leaves_room_for_another() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + SETTINGS.cool_down;
        assert_eq!(breaker.admit(later), BreakerDecision::Probe);
        assert_eq!(breaker.ended(later, true, CallEnd::Unknown), None);
        assert_eq!(breaker.admit(later), BreakerDecision::Probe);
    }

    #[test]
    fn a_call_from_before_says_nothing_about_an_open_breaker_but_an_answer_closes_it() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert_eq!(breaker.ended(now, false, CallEnd::Failed), None);
        assert_eq!(breaker.ended(now, false, CallEnd::Worked), Some(Turn::Closed));
    }
}
