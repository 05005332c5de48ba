//! Runs whose processes are killed: what was acknowledged is kept, and each effect takes place as its class promises.
//!
//! The run's processes are this test binary, started once more; the effects are counted by a receiver in the process
//! of the test, which is not killed.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod process;
mod receiver;
mod store;
mod world;

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use segno_core::EffectClass;
use segno_runtime::EngineError;
use segno_store::AcquireError;

use process::{ORDERS, Task};
use store::{Boundary, Side};
use world::{Course, Death, GATED, Life, Said, World, kill};

/// Kills at instants that nobody chose.
const RANDOM_KILLS: usize = 50;

/// The seed of the random kills, to repeat those of a test that failed.
const SEED: &str = "SEGNO_CRASH_SEED";

#[test]
#[ignore = "the process that the other tests start and kill"]
fn the_process_that_is_killed() {
    if let Ok(orders) = std::env::var(ORDERS) {
        std::process::exit(process::live(serde_json::from_str(&orders).unwrap()));
    }
}

/// A run whose processes nobody kills: its course, and how long each process took.
fn undisturbed() -> (Course, Vec<Duration>) {
    let world = World::new();
    let lives = world.survive(|_| Death::Never);
    assert_eq!(world.said(), Said { approved: 2, done: 0, not_done: 0 });
    let took = lives.iter().map(|life| match life {
        Life::Done { took } => *took,
        Life::Killed => panic!("nobody killed it"),
    });
    (world.course(), took.collect())
}

#[test]
fn a_run_survives_a_kill_at_every_boundary_of_its_journal() {
    let (expected, lives) = undisturbed();
    let mut tally = Tally::default();
    for life in 0..lives.len() {
        for side in Side::BOTH {
            // Outcomes that arrive together share a commit: a boundary that was not reached is tried again.
            let (mut commit, mut misses) = (0, 0);
            while misses < 3 {
                let world = World::new();
                let boundary = Boundary { commit, side };
                let ends = world.survive(|now| if now == life { Death::At(boundary) } else { Death::Never });
                assert_eq!(world.course(), expected, "life {life}, {boundary:?}");
                tally.add(&world, &ends);
                if ends[life] == Life::Killed {
                    (commit, misses) = (commit + 1, 0);
                } else {
                    misses += 1;
                }
            }
        }
    }
    println!("{tally:?}");
    assert!(tally.said.done > 0 && tally.said.not_done > 0, "the kills left nothing in doubt: {tally:?}");
    for class in [EffectClass::Read, EffectClass::Idempotent, EffectClass::Keyed] {
        assert!(tally.repeated.contains(&class), "no {class:?} call was cut off and made again: {tally:?}");
    }
    assert!(!tally.repeated.contains(&EffectClass::Unsafe), "{tally:?}");
}

#[test]
fn a_run_whose_every_process_is_killed_after_a_few_commits_gets_to_its_end() {
    let (expected, _) = undisturbed();
    // A process that goes on takes the run, writes down its attempts, and must keep one outcome to get on.
    for commit in 2..6 {
        for boundary in
            [Boundary { commit, side: Side::After }, Boundary { commit: commit + 1, side: Side::Before }]
        {
            let world = World::new();
            let lives = world.survive(|_| Death::At(boundary));
            assert!(lives.contains(&Life::Killed), "{boundary:?}: {lives:?}");
            assert_eq!(world.course(), expected, "{boundary:?}");
        }
    }
}

#[test]
fn a_run_survives_a_kill_at_any_instant() {
    let (expected, lives) = undisturbed();
    let length: Duration = lives.iter().sum();
    let seed = match std::env::var(SEED) {
        Ok(seed) => seed.parse().expect("the seed is a number"),
        Err(_) => RandomState::new().hash_one(0),
    };
    println!("{SEED}={seed}");
    let mut random = Random(seed);
    let mut tally = Tally::default();
    for round in 0.. {
        if tally.kills >= RANDOM_KILLS {
            break;
        }
        assert!(round < 10 * RANDOM_KILLS, "the processes end before they are killed: {tally:?}");
        let world = World::new();
        // The first kill is anywhere in the run; every second run is killed again while it recovers.
        let mut first = Some(random.below(length));
        let mut second = (round % 2 == 1).then(|| random.below(length / 2));
        let ends = world.survive(|life| match (first, lives.get(life)) {
            (Some(instant), Some(took)) if instant > *took => {
                first = Some(instant - *took);
                Death::Never
            }
            (Some(instant), _) => {
                first = None;
                Death::After(instant)
            }
            (None, _) => second.take().map_or(Death::Never, Death::After),
        });
        assert_eq!(world.course(), expected, "round {round} of {SEED}={seed}");
        tally.add(&world, &ends);
    }
    println!("{tally:?}");
}

#[test]
fn a_storage_failure_at_any_commit_loses_nothing_and_the_same_engine_goes_on() {
    let (expected, _) = undisturbed();
    for side in Side::BOTH {
        for commit in 0.. {
            let world = World::new();
            let boundary = Boundary { commit, side };
            let failed = world.survive_failure(boundary);
            assert_eq!(world.course(), expected, "{boundary:?}");
            if !failed {
                assert!(commit > 10, "a run has more commits than {commit}");
                break;
            }
        }
    }
}

#[test]
fn a_run_belongs_to_a_process_for_as_long_as_that_lives() {
    let world = World::new();
    world.receiver.hold(2);
    let child = world.spawn(Task::Start, None);
    world.receiver.wait_for(2);
    let resume = || world.next_task().expect("a run that goes on");
    for _ in 0..2 {
        let error = world.resume_here(resume()).unwrap_err();
        assert!(matches!(error, EngineError::Acquire(AcquireError::Owned { .. })), "{error:?}");
    }
    kill(child);
    world.receiver.hold_nothing();
    // The very next attempt succeeds: the run comes back with its question.
    world.look();
    world.resume_here(resume()).unwrap();
    let run = world.run().expect("the run");
    let waiting = world.inspect(run).waiting;
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].kind(), "in_doubt");
    world.survive(|_| Death::Never);
    assert_eq!(world.said().done, 1);
    assert_eq!(world.course(), undisturbed().0);
}

#[test]
fn an_approval_that_is_waited_for_survives_a_kill_and_is_given_in_another_process() {
    let world = World::new();
    world.receiver.hold(6);
    let child = world.spawn(Task::Start, None);
    // The gates are open, and a call beside them is under way.
    world.receiver.wait_for(6);
    kill(child);
    world.receiver.hold_nothing();
    world.look();
    let ledger = world.receiver.ledger();
    assert!(GATED.iter().all(|n| !ledger.effects.contains_key(n)), "{ledger:?}");
    let waiting = world.inspect(world.run().expect("the run")).waiting;
    assert!(waiting.len() == 2 && waiting.iter().all(|one| one.kind() == "approval"), "{waiting:?}");
    assert_eq!(world.survive(|_| Death::Never).len(), 1, "one process takes both answers and ends the run");
    assert_eq!(world.said(), Said { approved: 2, done: 0, not_done: 0 });
    let repeated = world.receiver.ledger().calls.iter().filter(|call| call.n == 6).count();
    assert_eq!(repeated, 2, "the read that was cut off is read again");
    assert_eq!(world.course(), undisturbed().0);
}

/// What came of many kills.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    said: Said,
    /// The classes of calls that were made more than once.
    repeated: Vec<EffectClass>,
}

impl Tally {
    fn add(&mut self, world: &World, lives: &[Life]) {
        self.kills += lives.iter().filter(|life| **life == Life::Killed).count();
        let said = world.said();
        self.said.approved += said.approved;
        self.said.done += said.done;
        self.said.not_done += said.not_done;
        let ledger = world.receiver.ledger();
        for call in &ledger.calls {
            if ledger.calls_of(call.operation).count() > 1 && !self.repeated.contains(&call.class) {
                self.repeated.push(call.class);
            }
        }
    }
}

/// SplitMix64: the same numbers for the same seed on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, length: Duration) -> Duration {
        let most = u64::try_from(length.as_micros()).expect("a run is short").max(1);
        Duration::from_micros(self.next() % most)
    }
}
