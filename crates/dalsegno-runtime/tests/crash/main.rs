//! Runs whose processes are killed: what was acknowledged is kept, and each effect takes place as its class promises.
//!
//! The run's processes are this test binary, started once more; the effects are counted by a receiver in the process
//! of the test, which is not killed.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod ends;
mod matrix;
mod post;
mod process;
mod receiver;
mod scenario;
mod store;
mod tally;
mod world;

use std::time::Duration;

use dalsegno_core::EffectClass;
use dalsegno_runtime::EngineError;
use dalsegno_store::AcquireError;

use process::{ORDERS, Task};
use scenario::{CHAT, DECLARED, LETTERS, PLAIN, SHARED, Scenario};
use store::{Boundary, Side};
use tally::Tally;
use world::{Course, Death, Life, Mode, Said, World, kill};

#[test]
#[ignore = "the process that the other tests start and kill"]
fn the_process_that_is_killed() {
    if let Ok(orders) = std::env::var(ORDERS) {
        std::process::exit(process::live(serde_json::from_str(&orders).unwrap()));
    }
}

/// A run whose processes nobody kills: its course, and how long each process took.
fn undisturbed(scenario: &'static Scenario, mode: Mode) -> (Course, Vec<Duration>) {
    let world = World::new(scenario, mode);
    let lives = world.survive(|_| Death::Never);
    assert_eq!(world.said(), scenario.said);
    let took = lives.iter().map(|life| match life {
        Life::Done { took } => *took,
        Life::Killed => panic!("nobody killed it"),
    });
    (world.course(), took.collect())
}

/// Kills a process of a run at every boundary of its journal, a run for each. Everything is checked on the way.
fn every_boundary(scenario: &'static Scenario, mode: Mode) -> Tally {
    let (expected, lives) = undisturbed(scenario, mode);
    let places = (0..lives.len()).flat_map(|life| Side::BOTH.map(|side| (life, side)));
    let expected = &expected;
    // What a process spends its time with is waiting, so that many fit on one processor.
    std::thread::scope(|scope| {
        let threads: Vec<_> = places
            .map(|(life, side)| scope.spawn(move || every_boundary_of(scenario, mode, expected, life, side)))
            .collect();
        let mut tally = Tally::default();
        for thread in threads {
            tally.take(thread.join().unwrap());
        }
        tally
    })
}

fn every_boundary_of(
    scenario: &'static Scenario,
    mode: Mode,
    expected: &Course,
    life: usize,
    side: Side,
) -> Tally {
    let mut tally = Tally::default();
    // Outcomes that arrive together share a commit: a boundary that was not reached is tried again.
    let (mut commit, mut misses) = (0, 0);
    while misses < 3 {
        let world = World::new(scenario, mode);
        let boundary = Boundary { commit, side };
        let ends = world.survive(|now| if now == life { Death::At(boundary) } else { Death::Never });
        assert_eq!(world.course(), *expected, "life {life}, {boundary:?}");
        tally.add(&world, &ends);
        if ends[life] == Life::Killed {
            (commit, misses) = (commit + 1, 0);
        } else {
            misses += 1;
        }
    }
    tally
}

#[test]
fn a_run_survives_a_kill_at_every_boundary_of_its_journal() {
    let tally = every_boundary(&PLAIN, Mode::Led);
    println!("{tally:?}");
    assert!(tally.said.done > 0 && tally.said.not_done > 0, "the kills left nothing in doubt: {tally:?}");
    for class in [EffectClass::Read, EffectClass::Idempotent, EffectClass::Keyed] {
        assert!(tally.repeated.contains(&class), "no {class:?} call was cut off and made again: {tally:?}");
    }
    assert!(!tally.repeated.contains(&EffectClass::Unsafe), "{tally:?}");
}

#[test]
fn a_declarative_tool_goes_on_at_the_right_action_after_a_kill_at_every_boundary() {
    let tally = every_boundary(&DECLARED, Mode::Led);
    println!("{tally:?}");
    assert!(tally.said.done > 0 && tally.said.not_done > 0, "the kills left nothing in doubt: {tally:?}");
    assert!(!tally.repeated.contains(&EffectClass::Unsafe), "{tally:?}");
    assert!(tally.repeated.contains(&EffectClass::Keyed), "{tally:?}");
}

#[test]
fn mails_and_gates_inside_a_document_survive_a_kill_at_every_boundary() {
    let tally = every_boundary(&LETTERS, Mode::Led);
    println!("{tally:?}");
    assert!(tally.said.done > 0 && tally.said.not_done > 0, "the kills left nothing in doubt: {tally:?}");
    assert!(!tally.repeated.contains(&EffectClass::Unsafe), "{tally:?}");
}

#[test]
fn a_run_that_is_paused_between_its_processes_survives_a_kill_at_every_boundary() {
    let tally = every_boundary(&PLAIN, Mode::Paused);
    println!("{tally:?}");
    assert!(tally.said.done > 0 && tally.said.not_done > 0, "the kills left nothing in doubt: {tally:?}");
    assert!(tally.repeated.contains(&EffectClass::Keyed), "{tally:?}");
    assert!(!tally.repeated.contains(&EffectClass::Unsafe), "{tally:?}");
}

#[test]
fn a_mail_that_was_on_its_way_when_its_process_died_is_asked_about_and_not_sent_again() {
    let world = World::new(&LETTERS, Mode::Led);
    world.receiver.hold(2);
    let child = world.spawn(Task::Start, None);
    // The whole mail has arrived, and its sender dies before it hears so.
    world.receiver.wait_for(2);
    kill(child);
    world.receiver.hold_nothing();
    world.look();
    let run = world.run().expect("the run");
    let life = world.live(world.next_task().expect("a run that goes on"), Death::Never);
    assert!(matches!(life, Life::Done { .. }), "{life:?}");
    world.look();
    let waiting = world.inspect(run).waiting;
    assert!(waiting.iter().any(|one| one.kind() == "in_doubt"), "{waiting:?}");
    world.survive(|_| Death::Never);
    // The mail of the other letter may have been on its way as well.
    assert!(world.said().done > 0, "{:?}", world.said());
    assert_eq!(world.receiver.ledger().calls.iter().filter(|call| call.n == 2).count(), 1);
    assert_eq!(world.course(), undisturbed(&LETTERS, Mode::Led).0);
}

#[test]
fn two_runs_of_a_session_survive_a_kill_at_every_boundary() {
    let tally = every_boundary(&CHAT, Mode::Led);
    println!("{tally:?}");
    assert!(tally.said.done > 0 && tally.said.not_done > 0, "the kills left nothing in doubt: {tally:?}");
    assert!(!tally.repeated.contains(&EffectClass::Unsafe), "{tally:?}");
}

#[test]
fn what_agents_share_survives_a_kill_at_every_boundary() {
    let tally = every_boundary(&SHARED, Mode::Led);
    println!("{tally:?}");
    assert!(tally.said.done > 0 && tally.said.not_done > 0, "the kills left nothing in doubt: {tally:?}");
    assert!(!tally.repeated.contains(&EffectClass::Unsafe), "{tally:?}");
}

#[test]
fn a_run_whose_every_process_is_killed_after_a_few_commits_gets_to_its_end() {
    let (expected, _) = undisturbed(&PLAIN, Mode::Led);
    // A process that goes on takes the run, writes down its attempts, and must keep one outcome to get on.
    for commit in 2..6 {
        for boundary in
            [Boundary { commit, side: Side::After }, Boundary { commit: commit + 1, side: Side::Before }]
        {
            let world = World::new(&PLAIN, Mode::Led);
            let lives = world.survive(|_| Death::At(boundary));
            assert!(lives.contains(&Life::Killed), "{boundary:?}: {lives:?}");
            assert_eq!(world.course(), expected, "{boundary:?}");
        }
    }
}

#[test]
fn a_storage_failure_at_any_commit_loses_nothing_and_the_same_engine_goes_on() {
    let (expected, _) = undisturbed(&PLAIN, Mode::Led);
    for side in Side::BOTH {
        for commit in 0.. {
            let world = World::new(&PLAIN, Mode::Led);
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
    let world = World::new(&PLAIN, Mode::Led);
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
    assert_eq!(world.course(), undisturbed(&PLAIN, Mode::Led).0);
}

#[test]
fn an_approval_that_is_waited_for_survives_a_kill_and_is_given_in_another_process() {
    let world = World::new(&PLAIN, Mode::Led);
    world.receiver.hold(6);
    let child = world.spawn(Task::Start, None);
    // The gates are open, and a call beside them is under way.
    world.receiver.wait_for(6);
    kill(child);
    world.receiver.hold_nothing();
    world.look();
    let ledger = world.receiver.ledger();
    assert!(PLAIN.gated.iter().all(|n| !ledger.effects.contains_key(n)), "{ledger:?}");
    let waiting = world.inspect(world.run().expect("the run")).waiting;
    assert!(waiting.len() == 2 && waiting.iter().all(|one| one.kind() == "approval"), "{waiting:?}");
    assert_eq!(world.survive(|_| Death::Never).len(), 1, "one process takes both answers and ends the run");
    assert_eq!(world.said(), Said { approved: 2, done: 0, not_done: 0 });
    let repeated = world.receiver.ledger().calls.iter().filter(|call| call.n == 6).count();
    assert_eq!(repeated, 2, "the read that was cut off is read again");
    assert_eq!(world.course(), undisturbed(&PLAIN, Mode::Led).0);
}
