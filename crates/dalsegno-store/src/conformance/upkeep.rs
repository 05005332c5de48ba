//! What runs wait for, long texts, what workers may take, erasure, pruning.

use super::*;
use crate::{EraseError, Erased, GcOptions, GcReport};

/// A record that ends a run at this time.
pub fn completed(time: u64) -> NewRecord {
    NewRecord::new(at(time), Body::Completed { response: response(Status::Completed) })
}

/// A record by which a run waits for a time, if there is one.
pub fn suspended(time: u64, wake_at: Option<u64>) -> NewRecord {
    NewRecord::new(at(time), Body::Suspended { waiting_for: Vec::new(), wake_at: wake_at.map(at) })
}

/// A record that an effect is in doubt; `open` is how many attempts are.
pub fn late(time: u64, open: u32) -> NewRecord {
    let outcome = Outcome::Failed(Failure::new(FailureCode::Indeterminate, "it is not known"));
    NewRecord::of(at(time), OperationId::from_bytes([1; 16]), Body::Late { outcome, open, by: None })
}

/// Creates a run that begins and ends at this time, and which nobody owns.
pub async fn ended(store: &impl Store, mut run: NewRun, time: u64) -> RunId {
    run.records[0].at = at(time);
    let mut lease = create(store, run).await;
    let id = lease.run();
    store.append(&mut lease, vec![completed(time)]).await.unwrap();
    store.release(lease).await.unwrap();
    id
}

/// A clock that is set back changes nothing but the times.
pub async fn times_may_go_back<S: Store>(new: impl Fn() -> S) {
    const HOUR: u64 = 3_600_000;
    let (store, owner) = (new(), Owner::in_process());
    let mut run = new_run(1, &owner);
    run.records[0].at = at(10 * HOUR);
    let mut lease = create(&store, run).await;
    for time in [11, 10, 9, 8] {
        store.append(&mut lease, vec![NewRecord::new(at(time * HOUR), noted(1))]).await.unwrap();
    }
    store.append(&mut lease, vec![suspended(7 * HOUR, Some(6 * HOUR))]).await.unwrap();
    assert_eq!(store.read(lease.run(), 0).await.unwrap().len(), 6);
    let summary = store.summary(lease.run()).await.unwrap();
    assert_eq!((summary.started_at, summary.updated_at), (at(10 * HOUR), at(7 * HOUR)));
    let run = lease.run();
    store.release(lease).await.unwrap();
    assert_eq!(store.takeable(&owner, at(6 * HOUR), 9).await.unwrap(), [run]);
    assert_eq!(store.takeable(&owner, at(5 * HOUR), 9).await.unwrap(), []);
    let lease = store.acquire(run, &owner).await.unwrap();
    assert_eq!(lease.next_seq(), 6);
}

/// The title says it.
pub async fn runs_that_nobody_living_owns_can_be_taken<S: Store>(new: impl Fn() -> S) {
    let store = new();
    let (worker, other, dead) = (Owner::in_process(), Owner::in_process(), Owner::in_process());
    let mut leases = Vec::new();
    // Of each owner: one that runs, one that wakes at 100, one that waits for people, one that ended.
    for (group, owner) in (0..).zip([&worker, &other, &dead]) {
        for (place, record) in
            [note(1), suspended(50, Some(100)), suspended(50, None), completed(50)].into_iter().enumerate()
        {
            let number = group * 10 + place as u64;
            let mut lease = create(&store, new_run(number, owner)).await;
            store.append(&mut lease, vec![record]).await.unwrap();
            leases.push(lease);
        }
    }
    for (number, record) in
        [(30, note(1)), (31, suspended(50, Some(100))), (32, suspended(50, None)), (33, completed(50))]
    {
        let mut lease = create(&store, new_run(number, &worker)).await;
        store.append(&mut lease, vec![record]).await.unwrap();
        store.release(lease).await.unwrap();
    }
    drop(dead);
    let take = async |time: u64, limit: u32| -> BTreeSet<RunId> {
        store.takeable(&worker, at(time), limit).await.unwrap().into_iter().collect()
    };
    let ids = |numbers: &[u64]| numbers.iter().map(|number| run_id(*number)).collect::<BTreeSet<_>>();
    // A process that died before it released a suspended run may have missed what that waits for.
    assert_eq!(take(99, 100).await, ids(&[20, 21, 22, 30]));
    assert_eq!(take(100, 100).await, ids(&[20, 21, 22, 30, 31]));
    for limit in 0..4 {
        let some = take(100, limit).await;
        assert!(some.len() == limit as usize && some.is_subset(&ids(&[20, 21, 22, 30, 31])), "{some:?}");
    }
    // Whoever waits for people goes on when somebody wrote.
    for number in [2, 22, 32] {
        store.post(run_id(number), Message::Cancel { by: None, reason: None }).await.unwrap();
    }
    assert_eq!(take(99, 100).await, ids(&[20, 21, 22, 30, 32]));
    for run in take(100, 100).await {
        leases.push(store.acquire(run, &worker).await.unwrap());
    }
    assert_eq!(take(u64::MAX, 100).await, ids(&[]));
}

/// The title says it.
pub async fn many_runs_of_one_cause_hide_no_others<S: Store>(new: impl Fn() -> S) {
    const CAUSES: usize = 4;
    let (store, worker) = (new(), Owner::in_process());
    // Many of one cause, and two of each other one.
    for many in 0..CAUSES {
        let dead = Owner::in_process();
        let mut causes = [const { Vec::new() }; CAUSES];
        for (cause, runs) in causes.iter_mut().enumerate() {
            for place in 0..if cause == many { 40 } else { 2 } {
                let owner = if cause == 1 { &dead } else { &worker };
                let mut lease =
                    create(&store, new_run((many * 10 + cause) as u64 * 100 + place, owner)).await;
                // The one that is created last is due longest.
                let wake_at = (cause == 2).then_some(100 - place);
                if cause >= 2 {
                    store.append(&mut lease, vec![suspended(50, wake_at)]).await.unwrap();
                }
                if cause == 3 {
                    store.post(lease.run(), Message::Look).await.unwrap();
                }
                runs.push(lease.run());
                if cause != 1 {
                    store.release(lease).await.unwrap();
                }
            }
        }
        drop(dead);
        causes[2].reverse();
        let take = async |limit: u32| store.takeable(&worker, at(100), limit).await.unwrap();
        for limit in [8, 11, 46, 100] {
            let found = take(limit).await;
            assert_eq!(found.len(), limit.min(46) as usize);
            for (cause, runs) in causes.iter().enumerate() {
                let of: Vec<RunId> = found.iter().copied().filter(|run| runs.contains(run)).collect();
                assert!(of.len() >= 2, "{many}, {cause}: {of:?}");
                assert_eq!(
                    of,
                    runs[..of.len()],
                    "{many}, {cause}: those that have waited longest come first"
                );
            }
        }
        // Even one at a time, though nobody takes what is found.
        let mut seen = BTreeSet::new();
        for _ in 0..CAUSES {
            let found = take(1).await;
            seen.extend(causes.iter().position(|runs| runs.contains(&found[0])));
        }
        assert_eq!(seen.len(), CAUSES, "{many}: {seen:?}");
        for run in causes.iter().flatten() {
            let mut lease = store.acquire(*run, &worker).await.unwrap();
            store.append(&mut lease, vec![completed(200)]).await.unwrap();
        }
        assert_eq!(take(100).await, []);
    }
}

/// The title says it.
pub async fn the_next_time_to_wake_is_known<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    assert_eq!(store.next_wake(at(0)).await.unwrap(), None);
    let mut leases = Vec::new();
    for (number, wake_at) in [(1, Some(300)), (2, Some(200)), (3, None)] {
        let mut lease = create(&store, new_run(number, &owner)).await;
        store.append(&mut lease, vec![suspended(50, wake_at)]).await.unwrap();
        leases.push(lease);
    }
    // Those whose time has come are not waited for.
    for (after, expected) in
        [(0, Some(200)), (199, Some(200)), (200, Some(300)), (299, Some(300)), (300, None), (u64::MAX, None)]
    {
        assert_eq!(store.next_wake(at(after)).await.unwrap(), expected.map(at), "after {after}");
    }
    for expected in [Some(at(200)), Some(at(300)), None] {
        assert_eq!(store.next_wake(at(0)).await.unwrap(), expected);
        let earliest = leases
            .iter_mut()
            .find(|lease| lease.run() == run_id(if expected == Some(at(200)) { 2 } else { 1 }));
        store.append(earliest.unwrap(), vec![note(1)]).await.unwrap();
    }
}

/// The title says it.
pub async fn the_latest_time_is_far_away_and_not_long_ago<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    for (number, wake_at) in (1..).zip([i64::MAX.cast_unsigned(), i64::MAX.cast_unsigned() + 1, u64::MAX]) {
        let mut lease = create(&store, new_run(number, &owner)).await;
        let run = lease.run();
        store.append(&mut lease, vec![suspended(50, Some(wake_at))]).await.unwrap();
        store.release(lease).await.unwrap();
        assert_eq!(store.takeable(&owner, at(1 << 50), 9).await.unwrap(), []);
        let latest = at(i64::MAX.cast_unsigned());
        assert_eq!(store.next_wake(at(0)).await.unwrap(), Some(latest));
        assert_eq!(store.summary(run).await.unwrap().wake_at, Some(latest));
        let records = store.read(run, 0).await.unwrap();
        assert!(
            matches!(records[1].body, Body::Suspended { wake_at: Some(at), .. } if at.as_millis() == wake_at)
        );
        let mut lease = store.acquire(run, &owner).await.unwrap();
        store.append(&mut lease, vec![completed(60)]).await.unwrap();
    }
    assert_eq!(store.next_wake(at(0)).await.unwrap(), None);
}

/// The title says it.
pub async fn an_erased_run_is_listed_and_not_read<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let run = portable_run(1, &owner);
    let file = run.blobs[0].0;
    let mut lease = create(&store, run).await;
    let run = lease.run();
    store.append(&mut lease, every_kind()).await.unwrap();
    store.append(&mut lease, vec![long_text("a long text ")]).await.unwrap();
    store.save_snapshot(&lease, snapshot(1, "x")).await.unwrap();
    let before = store.summary(run).await.unwrap();
    let bystander = create(&store, portable_run(2, &owner)).await;

    assert!(!store.has_erased(run).await.unwrap());
    let erased = store.erase(run, None).await.unwrap();
    assert!(store.has_erased(run).await.unwrap());
    assert!(!store.has_erased(bystander.run()).await.unwrap());
    assert!(matches!(store.has_erased(run_id(9)).await, Err(ReadError::UnknownRun { .. })));
    // All but `rebound`, and what an adoption writes.
    assert_eq!(erased.records, 20 - 1);
    assert!(erased.files >= 1 && erased.shared_files == 0, "{erased:?}");
    for from in [0, 1, 9, 19] {
        let error = store.read(run, from).await.unwrap_err();
        assert!(
            matches!(error, ReadError::Erased { seq, run: found } if seq >= from.min(18) && found == run),
            "from {from}: {error}"
        );
    }
    assert_eq!(store.summary(run).await.unwrap(), before);
    assert_eq!(store.runs(&RunFilter::default()).await.unwrap().len(), 2);
    assert_eq!(store.find_runs(&run.to_string()).await.unwrap(), [run]);
    assert_eq!(store.blob(file).await.unwrap(), None);
    assert_eq!(store.snapshot(run).await.unwrap(), None);
    let error = store.export(&[run]).await.unwrap_err();
    assert!(matches!(error, ReadError::Erased { .. }), "{error}");
    drop(lease);
    let error = store.acquire(run, &owner).await.unwrap_err();
    assert!(matches!(error, AcquireError::Unreadable(ReadError::Erased { .. })), "{error}");
    // Once more there is nothing left to do.
    assert_eq!(store.erase(run, None).await.unwrap(), Erased::default());
    assert_eq!(store.read(bystander.run(), 0).await.unwrap().len(), 1);
    assert_eq!(store.export(&[bystander.run()]).await.unwrap().runs().len(), 1);
}

/// The title says it.
pub async fn an_erased_operation_leaves_the_rest<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    let (top, below) = (OperationId::from_bytes([3; 16]), OperationId::from_bytes([4; 16]));
    let mut part = long_text("of a part ");
    (part.operation, part.parent) = (Some(below), Some(top));
    let mut deeper = long_text("of a part of a part ");
    (deeper.operation, deeper.parent) = (Some(OperationId::from_bytes([6; 16])), Some(below));
    let mut other = long_text("of another ");
    other.operation = Some(OperationId::from_bytes([5; 16]));
    let records = vec![long_text("a long text "), part, deeper, other, note(1), completed(60)];
    store.append(&mut lease, records).await.unwrap();
    let run = lease.run();
    let all = store.read(run, 0).await.unwrap();
    let unknown = OperationId::from_bytes([9; 16]);
    let error = store.erase(run, Some(unknown)).await.unwrap_err();
    assert!(
        matches!(error, EraseError::UnknownOperation { operation, .. } if operation == unknown),
        "{error}"
    );
    assert_eq!(store.read(run, 0).await.unwrap(), all);
    assert!(!store.has_erased(run).await.unwrap());
    assert_eq!(store.erase(run, Some(top)).await.unwrap().records, 3);
    assert!(store.has_erased(run).await.unwrap());
    for (from, seq) in [(0, 1), (1, 1), (2, 2), (3, 3)] {
        let error = store.read(run, from).await.unwrap_err();
        assert!(
            matches!(error, ReadError::Erased { seq: found, .. } if found == seq),
            "from {from}: {error}"
        );
    }
    for from in 4..=7 {
        assert_eq!(store.read(run, from).await.unwrap(), all[usize::try_from(from).unwrap().min(7)..]);
    }
    drop(lease);
    assert_eq!(store.acquire(run, &owner).await.unwrap().head(), all[6].link);
}

/// The title says it.
pub async fn a_file_that_others_use_is_not_erased<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let sharing = |number: u64| {
        let mut run = portable_run(1, &owner);
        run.run = run_id(number);
        if let Body::Started(started) = &mut run.records[0].body {
            started.session = format!("session {number}");
        }
        run
    };
    let (digest, bytes) = sharing(1).blobs.remove(0);
    let (one, other) = (ended(&store, sharing(1), 50).await, ended(&store, sharing(2), 50).await);
    let erased = store.erase(one, None).await.unwrap();
    assert_eq!((erased.files, erased.shared_files), (0, 1));
    assert_eq!(store.blob(digest).await.unwrap(), Some(bytes));
    let erased = store.erase(other, None).await.unwrap();
    assert_eq!((erased.files, erased.shared_files), (1, 0));
    assert_eq!(store.blob(digest).await.unwrap(), None);
    // What is not here stays nowhere.
    let without = |number: u64| {
        let mut run = sharing(number);
        run.blobs.clear();
        run
    };
    let one = ended(&store, without(3), 50).await;
    ended(&store, without(4), 50).await;
    let erased = store.erase(one, None).await.unwrap();
    assert_eq!((erased.files, erased.shared_files), (0, 0));
}

/// The title says it.
pub async fn a_run_that_goes_on_is_not_erased<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    let error = store.erase(lease.run(), None).await.unwrap_err();
    assert!(matches!(error, EraseError::NotEnded { status: RunStatus::Running, .. }), "{error}");
    store.append(&mut lease, vec![suspended(50, None)]).await.unwrap();
    let error = store.erase(lease.run(), None).await.unwrap_err();
    assert!(matches!(error, EraseError::NotEnded { status: RunStatus::Suspended, .. }), "{error}");
    let error = store.erase(run_id(9), None).await.unwrap_err();
    assert!(matches!(error, EraseError::UnknownRun { .. }), "{error}");
    assert_eq!(store.read(lease.run(), 0).await.unwrap().len(), 2);
}

/// The title says it.
pub async fn a_run_that_has_ended_is_not_erased_while_its_process_may_record_more<S: Store>(
    new: impl Fn() -> S,
) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    let end = NewRecord::new(at(50), Body::Cancelled { response: response(Status::Cancelled) });
    store.append(&mut lease, vec![end, late(50, 1), late(50, 2)]).await.unwrap();
    let error = store.erase(run_id(1), None).await.unwrap_err();
    assert!(matches!(error, EraseError::UnderWay { .. }), "{error}");
    // What it records meanwhile is read.
    store.append(&mut lease, vec![late(60, 1)]).await.unwrap();
    assert_eq!(store.read(run_id(1), 0).await.unwrap().len(), 5);
    // What stays in doubt when it is given back is recorded by a person alone.
    store.release(lease).await.unwrap();
    store.erase(run_id(1), None).await.unwrap();
    assert!(matches!(store.read(run_id(1), 0).await, Err(ReadError::Erased { .. })));
}

/// The title says it.
pub async fn a_child_run_is_not_erased_before_its_parent_has_ended<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut parent = create(&store, new_run(1, &owner)).await;
    let mut child = create(&store, child_of(new_run(2, &owner), parent.run())).await;
    store.append(&mut child, vec![completed(50)]).await.unwrap();
    let error = store.erase(child.run(), None).await.unwrap_err();
    assert!(matches!(error, EraseError::Needed { parent: above, .. } if above == parent.run()), "{error}");
    assert_eq!(store.read(child.run(), 0).await.unwrap().len(), 2);
    store.append(&mut parent, vec![completed(60)]).await.unwrap();
    assert_eq!(store.erase(child.run(), None).await.unwrap().records, 2);
}

/// The title says it.
pub async fn old_runs_are_deleted_and_what_others_need_stays<S: Store>(new: impl Fn() -> S) {
    const OLD: u64 = 100;
    const YOUNG: u64 = 9_000;
    let (store, owner) = (new(), Owner::in_process());
    let run = |number: u64| portable_run(number, &owner);
    let forked = |mut run: NewRun, source: u64| {
        let body = Body::Forked {
            run: run_id(source),
            seq: 1,
            within: 0,
            step: 0,
            overrides: Vec::new(),
            outcomes: Vec::new(),
            ask_effects: false,
            foreign: false,
        };
        run.records.push(NewRecord::new(at(OLD), body));
        run
    };
    // Goes: by itself, with a long text and a snapshot.
    let mut lease = create(&store, run(1)).await;
    store.append(&mut lease, vec![long_text("gone "), completed(OLD)]).await.unwrap();
    store.save_snapshot(&lease, snapshot(1, "x")).await.unwrap();
    drop(lease);
    // Stays: too young; kept; goes on; waits.
    ended(&store, run(2), YOUNG).await;
    ended(&store, run(3), OLD).await;
    create(&store, run(4)).await;
    let mut waiting = create(&store, run(5)).await;
    store.append(&mut waiting, vec![suspended(OLD, None)]).await.unwrap();
    // Stays: the session goes on. Goes: the session is over.
    ended(&store, in_session(run(6), "six"), OLD).await;
    create(&store, successor_of(run(7), run_id(6), "six")).await;
    ended(&store, in_session(run(8), "eight"), OLD).await;
    ended(&store, successor_of(run(9), run_id(8), "eight"), OLD).await;
    // Stays: a child goes on, a parent is kept. Goes: a whole family.
    ended(&store, run(20), OLD).await;
    create(&store, child_of(run(21), run_id(20))).await;
    ended(&store, child_of(run(22), run_id(3)), OLD).await;
    ended(&store, run(23), OLD).await;
    ended(&store, child_of(run(24), run_id(23)), OLD).await;
    // Stays: the source of a source of a fork that goes on. Goes: a fork with its source.
    ended(&store, run(30), OLD).await;
    ended(&store, forked(run(31), 30), OLD).await;
    create(&store, forked(run(32), 31)).await;
    ended(&store, run(33), OLD).await;
    ended(&store, forked(run(34), 33), OLD).await;

    let mut options = GcOptions::new(at(1_000));
    options.keep = BTreeSet::from([run_id(3)]);
    options.dry_run = true;
    let count = async || store.runs(&RunFilter::default()).await.unwrap().len();
    let all = count().await;
    let expected = store.gc(&options).await.unwrap();
    assert_eq!(count().await, all, "a dry run deletes nothing");
    let gone = [1, 8, 9, 23, 24, 33, 34];
    assert_eq!((expected.runs, expected.records, expected.snapshots), (7, 3 + 6 * 2 + 1, 1));
    options.dry_run = false;
    assert_eq!(store.gc(&options).await.unwrap(), expected);
    assert_eq!(count().await, all - gone.len());
    for number in [1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 22, 23, 24, 30, 31, 32, 33, 34] {
        let (digest, bytes) = run(number).blobs.remove(0);
        let (summary, file) = (store.summary(run_id(number)).await, store.blob(digest).await.unwrap());
        if gone.contains(&number) {
            assert!(matches!(summary, Err(ReadError::UnknownRun { .. })), "{number}");
            assert_eq!(file, None, "{number}");
        } else {
            assert_eq!(file, Some(bytes), "{number}");
            assert!(store.config(summary.unwrap().config).await.is_ok(), "{number}");
            assert!(!store.read(run_id(number), 0).await.unwrap().is_empty());
        }
    }
    assert_eq!(store.gc(&options).await.unwrap(), GcReport::default());
    assert_eq!(store.gc(&GcOptions::new(at(0))).await.unwrap(), GcReport::default());
}

/// The title says it.
pub async fn what_a_deleted_run_had_is_free_again<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let start = || in_session(with_key(portable_run(1, &owner), "acme", "k"), "s");
    let mut stale = create(&store, start()).await;
    store.append(&mut stale, vec![completed(50)]).await.unwrap();
    let report = store.gc(&GcOptions::new(at(10_000))).await.unwrap();
    assert_eq!((report.runs, report.files, report.configs), (1, 1, 1));
    // What is left of the deleted run touches nothing.
    let error = store.append(&mut stale, vec![note(1)]).await.unwrap_err();
    assert!(matches!(error, AppendError::UnknownRun { .. }), "{error}");
    let mut lease = create(&store, start()).await;
    assert!(store.append(&mut stale, vec![note(1)]).await.is_err());
    store.append(&mut lease, vec![note(1)]).await.unwrap();
    assert_eq!(store.read(lease.run(), 0).await.unwrap().len(), 2);
    assert_eq!(store.blob(start().blobs[0].0).await.unwrap(), Some(b"plan 1".to_vec()));
}

/// The title says it.
pub async fn suspended_runs_are_found_by_what_they_wait_for<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let operation = OperationId::from_bytes([3; 16]);
    let waiting = |kind: &str| WaitingFor { kind: kind.into(), operation, question: "?".into() };
    let samples: [(&[&str], Option<u64>, &[Waiting]); 7] = [
        (&["approval"], None, &[Waiting::Approval]),
        (&["in_doubt", "input", "input"], None, &[Waiting::Input, Waiting::InDoubt]),
        (&["secret"], Some(9), &[Waiting::Secret, Waiting::Timer]),
        (&[], Some(8), &[Waiting::Timer]),
        (&["the moon"], None, &[Waiting::Other]),
        (&[], None, &[]),
        (&["approval", "in_doubt"], None, &[Waiting::Approval, Waiting::InDoubt]),
    ];
    let mut leases = Vec::new();
    for (number, (kinds, wake_at, expected)) in (0..).zip(samples) {
        let mut lease = create(&store, new_run(number, &owner)).await;
        let waiting_for = kinds.iter().map(|kind| waiting(kind)).collect();
        let suspended = Body::Suspended { waiting_for, wake_at: wake_at.map(at) };
        store.append(&mut lease, vec![NewRecord::new(at(50), suspended)]).await.unwrap();
        assert_eq!(store.summary(lease.run()).await.unwrap().waiting, expected);
        leases.push(lease);
    }
    let list = async |kind: Waiting| -> Vec<RunId> {
        let filter = RunFilter { waiting: Some(kind), ..RunFilter::default() };
        store.runs(&filter).await.unwrap().into_iter().map(|run| run.run).collect()
    };
    for kind in Waiting::ALL {
        let expected = samples.iter().zip(0..).filter(|((.., kinds), _)| kinds.contains(kind));
        let mut expected: Vec<RunId> = expected.map(|(_, number)| run_id(number)).collect();
        expected.reverse();
        assert_eq!(list(*kind).await, expected, "{kind}");
    }
    // A paused run still waits for what it waited for.
    store.append(&mut leases[0], vec![paused(at(51))]).await.unwrap();
    assert_eq!(list(Waiting::Paused).await, [run_id(0)]);
    assert_eq!(list(Waiting::Approval).await, [run_id(6), run_id(0)]);
    // Whoever goes on waits for nothing.
    let mut lease = leases.remove(0);
    store.append(&mut lease, vec![note(1)]).await.unwrap();
    assert_eq!(store.summary(lease.run()).await.unwrap().waiting, []);
    assert_eq!(list(Waiting::Approval).await, [run_id(6)]);
    assert_eq!(list(Waiting::Paused).await, []);
}

/// A person pauses a run that waits for an approval.
pub fn paused(at: Timestamp) -> NewRecord {
    let waiting_for = vec![WaitingFor {
        kind: "approval".into(),
        operation: OperationId::from_bytes([3; 16]),
        question: "may `risk.score` be called?".into(),
    }];
    let (by, reason) = (Some("ada".into()), Some("an audit – ✓".into()));
    NewRecord::new(at, Body::Paused { by, reason, waiting_for })
}

/// The title says it.
pub async fn a_paused_run_wakes_at_no_time<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    store.append(&mut lease, vec![suspended(3, Some(7))]).await.unwrap();
    store.append(&mut lease, vec![paused(at(5))]).await.unwrap();
    let summary = store.summary(lease.run()).await.unwrap();
    assert_eq!((summary.status, summary.wake_at), (RunStatus::Suspended, None));
    assert_eq!(summary.waiting, [Waiting::Approval, Waiting::Paused]);
    store.append(&mut lease, vec![NewRecord::new(at(6), Body::Continued { by: None })]).await.unwrap();
    let summary = store.summary(lease.run()).await.unwrap();
    assert_eq!((summary.status, &*summary.waiting), (RunStatus::Running, &[][..]));
}

/// The title says it.
pub async fn running_runs_are_found_by_what_their_process_says_they_wait_for<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    let run = lease.run();
    let operation = OperationId::from_bytes([3; 16]);
    let asks = |number: u8, gate: Gate| {
        NewRecord::of(at(20), OperationId::from_bytes([number; 16]), Body::Waiting { gate })
    };
    let approved = Body::Answered { answer: Answer::Approved { edited: None, reason: None, by: None } };
    let found = async |kind: Waiting| {
        let filter = RunFilter { waiting: Some(kind), ..RunFilter::default() };
        store.runs(&filter).await.unwrap().len()
    };
    let waits = async || {
        let filter = RunFilter { waits: true, ..RunFilter::default() };
        store.runs(&filter).await.unwrap().len()
    };
    let changes = async || store.changed(0, 9).await.unwrap().last().unwrap().number;
    let (began, waited) = (changes().await, waits().await);
    lease.waits_for([Waiting::Approval]);
    store.append(&mut lease, vec![asks(3, Gate::Approval)]).await.unwrap();
    let summary = store.summary(run).await.unwrap();
    assert_eq!((summary.status, &*summary.waiting), (RunStatus::Running, &[Waiting::Approval][..]));
    assert_eq!((found(Waiting::Approval).await, found(Waiting::Input).await), (1, 0));
    assert_eq!((waited, waits().await), (0, 1));
    let asked = changes().await;
    assert!(asked > began, "who follows changes is told that a person is asked");
    // It stays so while the run does something else, which is no change.
    store.append(&mut lease, vec![note(1)]).await.unwrap();
    assert_eq!((found(Waiting::Approval).await, changes().await), (1, asked));
    // A second question of the same kind is a change as well.
    store.append(&mut lease, vec![asks(4, Gate::Approval)]).await.unwrap();
    let again = changes().await;
    assert!(again > asked);
    assert_eq!(store.read(run, 0).await.unwrap().len(), 4);
    lease.waits_for([Waiting::Approval]);
    store.append(&mut lease, vec![NewRecord::of(at(21), operation, approved)]).await.unwrap();
    assert_eq!(found(Waiting::Approval).await, 1, "of two questions one is answered");
    // A suspension says itself what the run waits for, and so does an end.
    store.append(&mut lease, vec![suspended(22, Some(99))]).await.unwrap();
    assert_eq!((&*store.summary(run).await.unwrap().waiting, waits().await), (&[Waiting::Timer][..], 1));
    store.append(&mut lease, vec![note(2)]).await.unwrap();
    assert_eq!(store.summary(run).await.unwrap().waiting, [Waiting::Approval]);
    // No more than its records say.
    lease.waits_for([Waiting::Approval, Waiting::Secret]);
    store.append(&mut lease, vec![note(3)]).await.unwrap();
    let error = store.read(run, 0).await.unwrap_err().to_string();
    assert!(error.contains("waiting"), "{error}");
    store.append(&mut lease, vec![completed(30)]).await.unwrap();
    assert_eq!((store.summary(run).await.unwrap().waiting, waits().await), (Vec::new(), 0));
    assert_eq!(store.read(run, 0).await.unwrap().len(), 9);
}

/// The title says it.
pub async fn long_texts_come_back_as_they_were<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    for number in 0..2 {
        let mut run = new_run(number, &owner);
        if let Body::Started(started) = &mut run.records[0].body {
            started.request.text = "please ".repeat(2_000);
        }
        run.records.push(long_text("in the first commit "));
        let expected = run.records.clone();
        let mut lease = create(&store, run).await;
        let more = vec![long_text("a"), note(1), long_text("b"), long_text("a")];
        store.append(&mut lease, more.clone()).await.unwrap();
        let records = store.read(lease.run(), 0).await.unwrap();
        let found: Vec<Body> = records.into_iter().map(|record| record.body).collect();
        let expected: Vec<Body> = expected.into_iter().chain(more).map(|record| record.body).collect();
        assert_eq!(found, expected);
    }
}

/// The title says it.
pub async fn what_a_run_took_over_outlives_the_run_before_it<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let block = "what was said ".repeat(400).into_bytes();
    let in_s = |number| in_session(new_run(number, &owner), "s");
    let first = ended(&store, in_s(1), 10).await;
    let second = ended(&store, after(in_s(2), first, &block), 20).await;
    // The block is here: only the record names it.
    let mut third = after(in_session(portable_run(3, &owner), "s"), second, &block);
    third.blobs.pop();
    let third = ended(&store, third, 30).await;
    let kept = async || store.blob(digest_bytes(&block)).await.unwrap().is_some();
    store.erase(first, None).await.unwrap();
    let erased = store.erase(second, None).await.unwrap();
    assert_eq!((erased.files, erased.shared_files), (0, 1));
    assert!(kept().await && store.read(third, 0).await.is_ok());
    assert!(matches!(store.read(second, 0).await, Err(ReadError::Erased { .. })));
    // It travels with the run.
    let archive = store.export(&[third]).await.unwrap();
    let other = new();
    other.import(archive).await.unwrap();
    assert_eq!(other.blob(digest_bytes(&block)).await.unwrap().as_deref(), Some(block.as_slice()));
    let erased = store.erase(third, None).await.unwrap();
    // With the block goes the file of its own request.
    assert_eq!((erased.records, erased.files), (3, 2));
    assert!(!kept().await);
}

/// The title says it.
pub async fn a_run_that_takes_over_what_is_not_there_is_refused<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let missing = NewRun { blobs: Vec::new(), ..after(new_run(2, &owner), run_id(1), b"gone") };
    let error = store.create(missing).await.unwrap_err();
    let digest = digest_bytes(b"gone");
    assert!(
        matches!(error, CreateError::Blob(BlobError::Missing { digest: found }) if found == digest),
        "{error}"
    );
    assert!(matches!(store.summary(run_id(2)).await, Err(ReadError::UnknownRun { .. })));
}

/// The title says it.
pub async fn the_runs_that_hold_content_of_another_are_found<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let in_s = |number| in_session(new_run(number, &owner), "s");
    let fork = |number, of: u64| {
        let mut run = new_run(number, &owner);
        let forked = Body::Forked {
            run: run_id(of),
            seq: 1,
            within: 0,
            overrides: Vec::new(),
            step: 1,
            outcomes: Vec::new(),
            ask_effects: false,
            foreign: false,
        };
        run.records.push(NewRecord::new(at(1_000), forked));
        run
    };
    // 1 <- 2 <- 3 in one session, 4 forked from 2, 5 after 4 elsewhere, 6 in the session without a run before it.
    ended(&store, in_s(1), 10).await;
    ended(&store, after(in_s(2), run_id(1), b"a"), 10).await;
    ended(&store, after(in_s(3), run_id(2), b"b"), 10).await;
    ended(&store, fork(4, 2), 10).await;
    ended(&store, after(new_run(5, &owner), run_id(4), b"c"), 10).await;
    ended(&store, in_s(6), 10).await;
    let heirs = async |number| store.heirs(run_id(number)).await.unwrap();
    assert_eq!(heirs(1).await, [2, 3, 4, 5].map(run_id));
    assert_eq!(heirs(2).await, [3, 4, 5].map(run_id));
    assert_eq!(heirs(4).await, [5].map(run_id));
    assert_eq!((heirs(3).await, heirs(6).await), (vec![], vec![]));
    // A child run was asked something in the words of the run above it.
    ended(&store, child_of(new_run(7, &owner), run_id(6)), 10).await;
    assert_eq!((heirs(6).await, heirs(7).await), (vec![run_id(7)], vec![]));
    // One that was erased holds nothing, and those after it hold what it took over.
    store.erase(run_id(2), None).await.unwrap();
    assert_eq!(heirs(1).await, [3, 4, 5].map(run_id));
    assert!(matches!(store.heirs(run_id(9)).await, Err(ReadError::UnknownRun { .. })));
}
