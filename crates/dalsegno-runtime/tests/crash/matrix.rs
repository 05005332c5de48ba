//! Parallel tools, approvals, a child run and retries in one run, killed wherever it can be.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dalsegno_core::EffectClass;

use crate::process::Task;
use crate::scenario::EVERYTHING;
use crate::tally::Tally;
use crate::world::{Course, Death, Life, Mode, World, kill};
use crate::{every_boundary, undisturbed};

/// How many instants that nobody chose: `cargo xtask crash --instants 500` sets it.
const INSTANTS: &str = "DALSEGNO_CRASH_INSTANTS";

/// The seed of the random kills, to repeat those of a test that failed.
const SEED: &str = "DALSEGNO_CRASH_SEED";

/// Random instants that every change is checked with.
const RANDOM_INSTANTS: usize = 40;

/// Runs at once. Most of the time they wait for a receiver, or pause between two attempts.
const AT_ONCE: usize = 4;

/// What must be true of any number of kills of [`EVERYTHING`].
fn check(tally: &Tally) {
    assert!(!tally.repeated.contains(&EffectClass::Unsafe), "{tally:?}");
    let asked = EVERYTHING.said;
    let worlds = u32::try_from(tally.worlds).unwrap();
    // An answer whose process died before it wrote it down is given again; some kills leave more in doubt than the
    // receiver does.
    assert!(tally.said.approved > worlds * asked.approved, "{tally:?}");
    assert!(tally.said.done > worlds * asked.done && tally.said.not_done > 0, "{tally:?}");
}

#[test]
fn everything_in_one_run_survives_a_kill_at_every_boundary_of_its_journals() {
    let tally = every_boundary(&EVERYTHING, Mode::Led);
    println!("{tally:?}");
    check(&tally);
    assert!(tally.kills > 60, "the journals have more boundaries: {tally:?}");
}

/// What a number is from an environment variable.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("`{name}` is `{text}`, and not a number")))
}

#[test]
fn everything_in_one_run_survives_a_kill_at_any_instant() {
    let instants = number(INSTANTS).map_or(RANDOM_INSTANTS, |instants| usize::try_from(instants).unwrap());
    let seed = number(SEED).unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("{SEED}={seed}");
    let (expected, _) = undisturbed(&EVERYTHING, Mode::Led);
    let lives = busy_lives();
    let (hits, rounds) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let tally = std::thread::scope(|scope| {
        let one_after_the_other = || {
            let mut tally = Tally::default();
            while hits.load(Ordering::SeqCst) < instants {
                let round = rounds.fetch_add(1, Ordering::SeqCst);
                assert!(round < 10 * instants, "the processes end before they are killed: {tally:?}");
                let before = tally.kills;
                attack(&mut tally, &expected, &lives, (round, instants), seed);
                if tally.kills > before {
                    hits.fetch_add(1, Ordering::SeqCst);
                }
            }
            tally
        };
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(one_after_the_other)).collect();
        let mut tally = Tally::default();
        for thread in threads {
            tally.take(thread.join().unwrap());
        }
        tally
    });
    println!("{instants} instants: {tally:?}");
    check(&tally);
    assert!(tally.kills >= instants, "{tally:?}");
}

/// How long each process of a run takes when as many run at once as are going to.
fn busy_lives() -> Vec<Duration> {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..AT_ONCE).map(|_| scope.spawn(|| undisturbed(&EVERYTHING, Mode::Led).1)).collect();
        let all: Vec<Vec<Duration>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let longest = |life: usize| all.iter().filter_map(|lives| lives.get(life)).max().copied();
        (0..).map_while(longest).collect()
    })
}

/// One run with a kill anywhere in it; every second one is killed again while it recovers.
fn attack(
    tally: &mut Tally,
    expected: &Course,
    lives: &[Duration],
    (round, rounds): (usize, usize),
    seed: u64,
) {
    let length: Duration = lives.iter().sum();
    let mut random = Random::new(seed, round);
    let world = World::new(&EVERYTHING, Mode::Led);
    // The rounds share the length of a run among them, so that no part of it is left out.
    let parts = u32::try_from(rounds).unwrap();
    let part = length / parts;
    let place = u32::try_from(round).unwrap() % parts;
    let mut first = Some(part * place + random.below(part));
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
    assert_eq!(world.course(), *expected, "round {round} of {SEED}={seed}");
    tally.add(&world, &ends);
}

#[test]
fn a_child_run_dies_with_its_parent_and_both_go_on_in_the_next_process() {
    let world = World::new(&EVERYTHING, Mode::Led);
    world.receiver.hold(11);
    let child = world.spawn(Task::Start, None);
    world.receiver.wait_for(11);
    kill(child);
    world.receiver.hold_nothing();
    world.look();
    let lives = world.survive(|_| Death::Never);
    assert!(lives.iter().all(|life| matches!(life, Life::Done { .. })), "{lives:?}");
    assert_eq!(world.course(), undisturbed(&EVERYTHING, Mode::Led).0);
}

/// `SplitMix64`: the same numbers for the same seed on every machine.
struct Random(u64);

impl Random {
    fn new(seed: u64, round: usize) -> Self {
        let mut random = Self(seed);
        random.0 ^= (round as u64).wrapping_mul(0xd6e8_feb8_6659_fd93);
        random.next();
        random
    }

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
