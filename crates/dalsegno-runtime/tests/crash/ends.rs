//! Ends and wake-ups, with nobody but a worker to go on with what a dead process left.

use std::time::Duration;

use dalsegno_core::RunId;
use dalsegno_runtime::{Cancelled, EngineError, RunEnd};
use dalsegno_store::{AcquireError, Body, RunStatus, RunSummary};

use crate::process::{Task, Wish, Word};
use crate::scenario::{DEADLINE, FAMILY, PLAIN};
use crate::store::{Boundary, Side};
use crate::world::{Death, Life, Mode, World, kill};
use crate::{every_boundary, undisturbed};

#[test]
fn whatever_dies_a_worker_alone_leads_every_run_to_its_end() {
    assert_eq!(undisturbed(&FAMILY, Mode::Worked).0, undisturbed(&FAMILY, Mode::Led).0);
    let tally = every_boundary(&FAMILY, Mode::Worked);
    println!("{tally:?}");
    assert!(tally.kills > 40, "the journals have more boundaries: {tally:?}");
}

impl World {
    fn root(&self) -> RunSummary {
        self.runs().into_iter().next().expect("the run that was started")
    }

    fn stands(&self, run: RunId) -> RunStatus {
        let found = self.runs().into_iter().find(|summary| summary.run == run);
        found.expect("a run that was there").status
    }

    /// Works on until nothing can go on, in processes that nobody kills.
    fn work_off(&self) {
        let life = self.live(Task::Work { wishes: Vec::new() }, Death::Never);
        assert!(matches!(life, Life::Done { .. }), "{life:?}");
        self.look();
    }

    /// Ends the run whose process is dead or lives, and waits until its journal says so.
    fn end(&self, run: RunId) {
        let cancelled = self.cancel_here(run);
        while !self.stands(run).is_end() {
            assert!(matches!(cancelled, Cancelled::Requested { .. }), "{cancelled:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn nothing_below_a_cancelled_run_acts_although_its_process_dies_right_after_the_end() {
    let world = World::new(&FAMILY, Mode::Worked);
    world.receiver.hold(1);
    let process = world.spawn(Task::Start, None);
    world.receiver.wait_for(1);
    let root = world.root().run;
    while world.runs().len() < 3
        || world
            .runs()
            .iter()
            .filter(|run| run.parent.is_some())
            .any(|run| run.status != RunStatus::Suspended)
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The effect of the run itself is under way, so that its process stays until it is killed.
    world.end(root);
    kill(process);
    world.receiver.hold_nothing();
    world.look();
    // The end itself says that the effect was under way. What became of it only a person knows now.
    assert_eq!(world.in_doubt(), [root]);
    world.work_off();
    world.work_off();
    assert_eq!(world.in_doubt(), [root]);
    let [waits] = &world.inspect(root).waiting[..] else { panic!("one effect is in doubt") };
    assert_eq!(waits.kind(), "in_doubt");
    let done = Word::DoneWith(serde_json::json!({ "n": 1 }));
    let settled = world.resume_here(Task::Resume { run: root, answers: vec![(waits.operation, done)] });
    assert!(matches!(settled, Ok(RunEnd::Ended(_))), "{settled:?}");
    assert_eq!(world.in_doubt(), []);
    let last = world.inspect(root).records.pop().expect("a record");
    let Body::Late { by, open, .. } = &last.body else { panic!("{last:?}") };
    assert_eq!((by.as_deref(), *open), (Some("eve"), 0));
    for run in world.runs() {
        assert_eq!(run.status, RunStatus::Cancelled, "{run:?}");
    }
    let ledger = world.receiver.ledger();
    assert_eq!(ledger.effects.keys().copied().collect::<Vec<_>>(), [1], "{:#?}", ledger.calls);
}

#[test]
fn an_approval_of_a_run_whose_parent_has_ended_performs_nothing() {
    let world = World::new(&FAMILY, Mode::Worked);
    world.receiver.hold(1);
    let process = world.spawn(Task::Start, None);
    world.receiver.wait_for(1);
    let root = world.root().run;
    let asking = loop {
        let asks = |run: &RunSummary| run.parent.is_some() && !world.inspect(run.run).waiting.is_empty();
        if let Some(run) = world.runs().iter().find(|run| asks(run) && run.status == RunStatus::Suspended) {
            break run.run;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let waits = world.inspect(asking).waiting[0].operation;
    // Before it dies, the process may have ended the run that asks.
    world.end(root);
    kill(process);
    world.receiver.hold_nothing();
    let answers = vec![(waits, Word::Approve)];
    let refused = world.resume_here(Task::Resume { run: asking, answers });
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(world.stands(asking), RunStatus::Cancelled);
    assert!(!world.receiver.ledger().effects.contains_key(&11));
}

#[test]
fn a_process_that_dies_while_it_ends_a_run_ends_all_below_it_or_nothing() {
    for commit in 0..12 {
        for side in Side::BOTH {
            let world = World::new(&FAMILY, Mode::Worked);
            let life = world.live(Task::Start, Death::Never);
            assert!(matches!(life, Life::Done { .. }), "{life:?}");
            let root = world.root().run;
            let wishes = vec![(root, Wish::Cancel)];
            let life = world.live(Task::Work { wishes }, Death::At(Boundary { commit, side }));
            world.look();
            let ended = world.stands(root).is_end();
            if ended {
                world.work_off();
                assert!(
                    world.runs().iter().all(|run| run.status == RunStatus::Cancelled),
                    "{commit} {side:?}"
                );
                let effects = world.receiver.settle().effects;
                assert_eq!(effects.keys().copied().collect::<Vec<_>>(), [1], "{commit} {side:?}");
            }
            if life != Life::Killed {
                assert!(ended, "nobody killed it, and the run goes on");
                return;
            }
        }
    }
    panic!("ending a run takes more commits than that");
}

/// A run that ends at its deadline, in a process that dies at a boundary. Says whether it died, and whether the run had ended.
fn past_its_deadline(boundary: Boundary) -> (bool, bool) {
    let world = World::new(&DEADLINE, Mode::Worked);
    world.receiver.hold(1);
    let life = world.live(Task::Start, Death::At(boundary));
    world.receiver.hold_nothing();
    world.look();
    let root = world.runs().into_iter().next();
    let ended = root.filter(|root| root.status.is_end());
    if let Some(root) = &ended {
        assert_eq!(root.status, RunStatus::Failed, "{boundary:?}");
        // The time of the one that waits comes, and nobody says no to the other.
        world.work_off();
        world.work_off();
        for run in world.runs().iter().filter(|run| run.parent.is_some()) {
            assert_eq!(run.status, RunStatus::Cancelled, "{boundary:?}: {run:?}");
            assert!(world.inspect(run.run).waiting.is_empty(), "{boundary:?}");
        }
        let effects = world.receiver.settle().effects;
        assert_eq!(effects.keys().copied().collect::<Vec<_>>(), [1], "{boundary:?}");
        assert_eq!(world.in_doubt(), [root.run], "{boundary:?}");
    }
    (life == Life::Killed, ended.is_some())
}

#[test]
fn nothing_below_a_run_that_ends_at_its_deadline_acts_whatever_dies() {
    let boundaries = (0..24).flat_map(|commit| Side::BOTH.map(|side| Boundary { commit, side }));
    let all: Vec<_> = std::thread::scope(|scope| {
        let lives: Vec<_> =
            boundaries.map(|boundary| scope.spawn(move || past_its_deadline(boundary))).collect();
        lives.into_iter().map(|life| life.join().unwrap()).collect()
    });
    let count = |which: (bool, bool)| all.iter().filter(|one| **one == which).count();
    assert!(count((true, false)) > 10, "it died before its end: {all:?}");
    assert!(count((true, true)) > 0, "it died right after its end: {all:?}");
    assert!(count((false, true)) > 0, "nobody killed it: {all:?}");
}

#[test]
fn nothing_below_an_abandoned_run_acts() {
    let world = World::new(&FAMILY, Mode::Worked);
    let life = world.live(Task::Start, Death::Never);
    assert!(matches!(life, Life::Done { .. }), "{life:?}");
    let root = world.root().run;
    world.abandon_here(root);
    assert_eq!(world.stands(root), RunStatus::Abandoned);
    world.work_off();
    for run in world.runs().iter().filter(|run| run.parent.is_some()) {
        assert_eq!(run.status, RunStatus::Cancelled, "{run:?}");
    }
    let effects = world.receiver.settle().effects;
    assert_eq!(effects.keys().copied().collect::<Vec<_>>(), [1]);
}

#[test]
fn operations_that_are_given_up_stay_given_up_whatever_dies() {
    for commit in 0..40 {
        for side in Side::BOTH {
            let world = World::new(&FAMILY, Mode::Worked);
            world.live(Task::Start, Death::Never);
            let root = world.root().run;
            let state = world.inspect(root).state;
            let open = state.pending().iter().filter(|pending| pending.outcome.is_none());
            let children: Vec<_> = open.map(|pending| pending.operation.id).collect();
            assert_eq!(children.len(), 2, "two child runs wait");
            let task = Task::Work { wishes: vec![(root, Wish::GiveUp(children))] };
            let boundary = Boundary { commit, side };
            let life = world.live(task, Death::At(boundary));
            world.look();
            // Once it is posted, nobody asks for it again.
            if boundary != (Boundary { commit: 0, side: Side::Before }) {
                world.work_off();
                assert!(
                    world.runs().iter().all(|run| run.status.is_end()),
                    "{boundary:?}: {:#?}",
                    world.runs()
                );
            }
            if life != Life::Killed {
                assert!(commit > 6, "giving up takes more commits than {commit}");
                return;
            }
        }
    }
    panic!("giving up takes fewer commits than that");
}

#[test]
fn a_process_that_was_stopped_and_lost_its_run_writes_nothing_and_starts_nothing() {
    // The commits of the first process: its start, then the request of the first effect. It stops between that commit and
    // the effect, where nothing but its own question keeps it from acting.
    let world = World::new(&PLAIN, Mode::Led);
    let boundary = Boundary { commit: 1, side: Side::After };
    let mut process = world.spawn_with(Task::Start, Some(boundary), true);
    let pid = rustix::process::Pid::from_child(&process);
    let stopped = rustix::process::WaitOptions::UNTRACED;
    rustix::process::waitpid(Some(pid), stopped).unwrap();
    assert!(world.receiver.ledger().calls.is_empty(), "the effect of this commit has not begun");
    // A person deletes the file by which it shows that it lives; so others take it for dead, and lead the run to its end.
    for file in std::fs::read_dir(world.owners()).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    world.survive(|_| Death::Never);
    let course = world.course();
    let calls = world.receiver.ledger().calls.len();
    // A process that writes down what it asks for and takes longer than a second for that has been stopped, or might have.
    std::thread::sleep(Duration::from_millis(1_100));
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    let status = process.wait().unwrap();
    assert!(!status.success(), "it says that the run is not its own");
    let now = world.receiver.ledger().calls;
    assert_eq!(now.len(), calls, "it started something: {now:#?}");
    assert_eq!(world.course(), course);
}

#[test]
fn a_file_that_is_deleted_takes_no_run_from_a_process_that_lives() {
    let world = World::new(&PLAIN, Mode::Led);
    world.receiver.hold(2);
    let process = world.spawn(Task::Start, None);
    world.receiver.wait_for(2);
    for file in std::fs::read_dir(world.owners()).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    while std::fs::read_dir(world.owners()).unwrap().count() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The file is there again, and so is the owner.
    let error = world.resume_here(world.next_task().expect("a run that is under way")).unwrap_err();
    assert!(matches!(error, EngineError::Acquire(AcquireError::Owned { .. })), "{error:?}");
    kill(process);
}
