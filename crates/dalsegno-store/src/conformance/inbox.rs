//! Messages for the owners of runs.

use super::*;

fn cancel(reason: &str) -> Message {
    Message::Cancel { by: Some("ada".into()), reason: Some(reason.into()) }
}

/// The title says it.
pub async fn messages_come_in_the_order_in_which_they_were_posted<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let one = create(&store, new_run(1, &owner)).await.run();
    let other = create(&store, new_run(2, &owner)).await.run();
    assert_eq!(store.inbox(one).await.unwrap(), []);
    for reason in ["a", "b"] {
        store.post(one, cancel(reason)).await.unwrap();
    }
    store.post(other, Message::Cancel { by: None, reason: None }).await.unwrap();
    assert_eq!(store.inbox(one).await.unwrap(), [(1, cancel("a")), (2, cancel("b"))]);
    assert_eq!(store.inbox(one).await.unwrap().len(), 2, "reading takes nothing out");
    assert_eq!(store.inbox(other).await.unwrap(), [(1, Message::Cancel { by: None, reason: None })]);
    assert!(matches!(store.inbox(run_id(9)).await, Err(ReadError::UnknownRun { .. })));
    assert!(matches!(store.post(run_id(9), cancel("x")).await, Err(PostError::UnknownRun { .. })));
}

/// The title says it.
pub async fn a_message_leaves_the_inbox_with_the_records_that_journal_it<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    let run = lease.run();
    for reason in ["a", "b", "c"] {
        store.post(run, cancel(reason)).await.unwrap();
    }
    let signalled = NewRecord::new(at(5), Body::signalled(Signal::Cancel));
    assert_eq!(store.append_with(&mut lease, vec![signalled], vec![2]).await.unwrap(), [1]);
    assert_eq!(store.inbox(run).await.unwrap(), [(1, cancel("a")), (3, cancel("c"))]);
    // A message is consumed once, and an append that asks for more is refused whole.
    for consumed in [vec![2], vec![1, 2], vec![1, 1], vec![9]] {
        let error = store.append_with(&mut lease, vec![note(1)], consumed).await.unwrap_err();
        assert!(matches!(error, AppendError::UnknownMessage { .. }), "{error}");
        assert_eq!((lease.next_seq(), store.read(run, 0).await.unwrap().len()), (2, 2));
        assert_eq!(store.inbox(run).await.unwrap().len(), 2);
    }
    // It can be thrown away too.
    assert_eq!(store.append_with(&mut lease, Vec::new(), vec![1, 3]).await.unwrap(), [] as [u64; 0]);
    assert_eq!(store.inbox(run).await.unwrap(), []);
    // A number is never given twice.
    store.post(run, cancel("d")).await.unwrap();
    assert_eq!(store.inbox(run).await.unwrap(), [(4, cancel("d"))]);
    store.append(&mut lease, vec![note(2)]).await.unwrap();
    assert_eq!(store.read(run, 0).await.unwrap().len(), 3);
}

/// The title says it.
pub async fn a_stale_lease_consumes_nothing<S: Store>(new: impl Fn() -> S) {
    let store = new();
    let (dead, heir) = (Owner::in_process(), Owner::in_process());
    let mut stale = create(&store, new_run(1, &dead)).await;
    let run = stale.run();
    store.post(run, cancel("a")).await.unwrap();
    drop(dead);
    let mut lease = store.acquire(run, &heir).await.unwrap();
    for records in [vec![note(1)], Vec::new()] {
        let error = store.append_with(&mut stale, records.clone(), vec![1]).await.unwrap_err();
        assert!(matches!(error, AppendError::Fenced { .. }), "{error}");
        lease.next_seq += 1;
        let error = store.append_with(&mut lease, records, vec![1]).await.unwrap_err();
        assert!(matches!(error, AppendError::SeqMismatch { .. }), "{error}");
        lease.next_seq -= 1;
    }
    assert_eq!(store.inbox(run).await.unwrap().len(), 1);
    store.append_with(&mut lease, vec![note(1)], vec![1]).await.unwrap();
    assert_eq!(store.inbox(run).await.unwrap(), []);
}

/// The title says it.
pub async fn a_run_that_has_ended_takes_no_messages<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    let run = lease.run();
    for reason in ["a", "b"] {
        store.post(run, cancel(reason)).await.unwrap();
    }
    let end = NewRecord::new(at(9), Body::Cancelled { response: response(Status::Cancelled) });
    store.append_with(&mut lease, vec![end], vec![1]).await.unwrap();
    assert_eq!(store.inbox(run).await.unwrap(), []);
    let error = store.post(run, cancel("c")).await.unwrap_err();
    assert!(matches!(error, PostError::Ended { status: RunStatus::Cancelled, .. }), "{error}");
}

/// The title says it.
pub async fn an_inbox_is_bounded<S: Store + 'static>(new: impl Fn() -> S) {
    let (store, owner) = (Arc::new(new()), Owner::in_process());
    let mut lease = create(&*store, new_run(1, &owner)).await;
    let run = lease.run();
    let posts = (0..1_000).map(|number: u32| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.post(run, cancel(&number.to_string())).await })
    });
    for post in posts.collect::<Vec<_>>() {
        post.await.unwrap().unwrap();
    }
    let error = store.post(run, cancel("x")).await.unwrap_err();
    assert!(matches!(error, PostError::Full { .. }), "{error}");
    store.append_with(&mut lease, vec![note(1)], vec![500]).await.unwrap();
    store.post(run, cancel("x")).await.unwrap();
    assert_eq!(store.inbox(run).await.unwrap().last(), Some(&(1_001, cancel("x"))));
}

/// The title says it.
pub async fn a_handover_takes_the_messages_that_wait_along<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, in_session(new_run(1, &owner), "s")).await;
    let (first, second) = (lease.run(), run_id(2));
    for reason in ["a", "b", "c", "d"] {
        store.post(first, cancel(reason)).await.unwrap();
    }
    store.append_with(&mut lease, vec![note(1)], vec![1]).await.unwrap();
    let next = || successor_of(new_run(2, &owner), first, "s");
    // One that is refused moves nothing.
    let records = || vec![handed_off(second)];
    let error = store.hand_off_with(&mut lease, records(), vec![3, 1], next()).await.unwrap_err();
    assert!(matches!(error, CreateError::Append(AppendError::UnknownMessage { number: 1, .. })), "{error}");
    assert_eq!(store.inbox(first).await.unwrap(), [(2, cancel("b")), (3, cancel("c")), (4, cancel("d"))]);
    assert!(matches!(store.summary(second).await, Err(ReadError::UnknownRun { .. })));
    // What was taken is gone, the rest is there for the run that goes on.
    let created = store.hand_off_with(&mut lease, records(), vec![3], next()).await.unwrap();
    let Created::New(mut second_lease) = created else { panic!("{created:?}") };
    assert_eq!(store.inbox(first).await.unwrap(), []);
    assert_eq!(store.inbox(second).await.unwrap(), [(1, cancel("b")), (2, cancel("d"))]);
    let error = store.post(first, cancel("e")).await.unwrap_err();
    assert!(matches!(error, PostError::Ended { status: RunStatus::HandedOff, .. }), "{error}");
    store.post(second, cancel("e")).await.unwrap();
    store.append_with(&mut second_lease, vec![note(1)], vec![2]).await.unwrap();
    assert_eq!(store.inbox(second).await.unwrap(), [(1, cancel("b")), (3, cancel("e"))]);
    store.release(second_lease).await.unwrap();
    assert_eq!(store.acquire(second, &owner).await.unwrap().next_seq(), 2);

    // A successor that is there already keeps what it has, and loses what comes once it has ended.
    for (number, is_over) in [(10, false), (20, true)] {
        let mut root = create(&store, in_session(new_run(number, &owner), "t")).await;
        let child = |child: u64| child_of(in_session(new_run(number + child, &owner), "t"), run_id(number));
        let mut from = create(&store, child(1)).await;
        let goes_on = || child_of(successor_of(new_run(number + 2, &owner), from.run(), "t"), run_id(number));
        let (goes_on, again) = (goes_on(), goes_on());
        let mut to = create(&store, goes_on).await;
        store.post(to.run(), cancel("own")).await.unwrap();
        if is_over {
            store.append(&mut to, vec![completed(50)]).await.unwrap();
        }
        store.post(from.run(), cancel("passed on")).await.unwrap();
        let created = store.hand_off(&mut from, vec![handed_off(to.run())], again).await.unwrap();
        assert!(matches!(created, Created::Existing(run) if run == to.run()), "{created:?}");
        assert_eq!(store.inbox(from.run()).await.unwrap(), []);
        let expected = if is_over { vec![] } else { vec![(1, cancel("own")), (2, cancel("passed on"))] };
        assert_eq!(store.inbox(to.run()).await.unwrap(), expected);
        store.append(&mut root, vec![completed(60)]).await.unwrap();
    }
}

/// The title says it.
pub async fn the_commit_that_ends_a_run_tells_the_one_that_waits_for_it<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut parent_lease = create(&store, new_run(1, &owner)).await;
    let parent = parent_lease.run();
    let child = |number| in_session(child_of(new_run(number, &owner), parent), "s");
    // Nobody is told of what goes on, or of a run whose lease tells nobody.
    let mut silent = create(&store, child(2)).await;
    store.append(&mut silent, vec![completed(9)]).await.unwrap();
    let mut lease = create(&store, child(3)).await.telling(parent);
    store.append(&mut lease, vec![note(1)]).await.unwrap();
    assert_eq!(store.inbox(parent).await.unwrap(), []);
    // A handoff is no end to whoever waits, but that of the run after it is.
    let next = child_of(successor_of(new_run(4, &owner), run_id(3), "s"), parent);
    let created = store.hand_off(&mut lease, vec![handed_off(run_id(4))], next).await.unwrap();
    let Created::New(mut lease) = created else { panic!("{created:?}") };
    assert_eq!(store.inbox(parent).await.unwrap(), []);
    store.append(&mut lease, vec![completed(10)]).await.unwrap();
    assert_eq!(store.inbox(parent).await.unwrap(), [(1, Message::Look)]);
    // What comes late ends it no second time.
    let late = Body::late(Outcome::TimerFired);
    store
        .append(&mut lease, vec![NewRecord::of(at(11), OperationId::from_bytes([1; 16]), late)])
        .await
        .unwrap();
    assert_eq!(store.inbox(parent).await.unwrap().len(), 1);
    // Who performs it itself sees its end, but for one that the journal has as suspended: if its process dies before it
    // writes anything, nobody else would wake it.
    let mut seen = create(&store, child(6)).await.telling_sleeper(parent);
    store.append(&mut seen, vec![completed(11)]).await.unwrap();
    assert_eq!(store.inbox(parent).await.unwrap().len(), 1);
    let asleep = Body::Suspended { waiting_for: Vec::new(), wake_at: None };
    store.append_with(&mut parent_lease, vec![NewRecord::new(at(11), asleep)], vec![1]).await.unwrap();
    let mut seen = create(&store, child(7)).await.telling_sleeper(parent);
    store.append(&mut seen, vec![note(1)]).await.unwrap();
    assert_eq!(store.inbox(parent).await.unwrap(), []);
    store.append(&mut seen, vec![completed(12)]).await.unwrap();
    assert_eq!(store.inbox(parent).await.unwrap(), [(2, Message::Look)]);
    // One that has ended needs no word.
    let mut last = create(&store, child(5)).await.telling(parent);
    store.append(&mut parent_lease, vec![completed(12)]).await.unwrap();
    store.append(&mut last, vec![completed(13)]).await.unwrap();
    assert_eq!(store.inbox(parent).await.unwrap(), []);
}

/// The title says it.
pub async fn the_commit_that_ends_a_run_tells_the_runs_below_it_to_end<S: Store + 'static>(
    new: impl Fn() -> S,
) {
    let (store, owner) = (Arc::new(new()), Owner::in_process());
    let mut lease = create(&*store, new_run(1, &owner)).await;
    let child = |number| in_session(child_of(new_run(number, &owner), run_id(1)), "s");
    // One is suspended, one runs, one has an inbox that takes no more messages, and one has ended.
    let mut suspended_one = create(&*store, child(2)).await;
    store.append(&mut suspended_one, vec![suspended(10, None)]).await.unwrap();
    store.release(suspended_one).await.unwrap();
    let running = create(&*store, child(3)).await;
    let full = create(&*store, child(4)).await.run();
    let posts = (0..1_000).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.post(full, Message::Look).await })
    });
    for post in posts.collect::<Vec<_>>() {
        post.await.unwrap().unwrap();
    }
    let mut over = create(&*store, child(5)).await;
    store.append(&mut over, vec![completed(11)]).await.unwrap();
    let other = create(&*store, in_session(new_run(6, &owner), "other")).await;
    let below = create(&*store, in_session(child_of(new_run(7, &owner), run_id(3)), "s")).await;
    let end = || NewRecord::new(at(50), Body::Cancelled { response: response(Status::Cancelled) });
    // Nothing is told by records after which the run continues, and nothing by a refused commit.
    store.append(&mut lease, vec![note(1)]).await.unwrap();
    store.append_with(&mut lease, vec![end()], vec![77]).await.unwrap_err();
    assert_eq!(store.inbox(run_id(2)).await.unwrap(), []);
    store.append(&mut lease, vec![end()]).await.unwrap();
    for run in [run_id(2), running.run()] {
        assert_eq!(store.inbox(run).await.unwrap(), [(1, Message::parent_ended())]);
    }
    assert_eq!(store.inbox(full).await.unwrap().last(), Some(&(1_001, Message::parent_ended())));
    for run in [over.run(), other.run(), below.run()] {
        assert_eq!(store.inbox(run).await.unwrap(), []);
    }
    // So a worker finds the suspended one.
    assert_eq!(store.takeable(&owner, at(20), 9).await.unwrap(), [run_id(2)]);
}

/// The title says it.
pub async fn a_suspended_child_run_tells_the_run_above_it<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let parent = create(&store, new_run(1, &owner)).await.run();
    let child = |number| in_session(child_of(new_run(number, &owner), parent), "s");
    let mut told = create(&store, child(2)).await.telling(parent);
    store.append(&mut told, vec![suspended(10, None)]).await.unwrap();
    assert_eq!(store.inbox(parent).await.unwrap(), [(1, Message::Look)]);
    // A parent that performs it itself sees that.
    let mut seen = create(&store, child(3)).await.telling_sleeper(parent);
    store.append(&mut seen, vec![suspended(10, None)]).await.unwrap();
    assert_eq!(store.inbox(parent).await.unwrap().len(), 1);
}

/// The title says it.
pub async fn a_suspended_run_whose_owner_died_before_the_release_can_be_taken<S: Store>(new: impl Fn() -> S) {
    let (store, owner, worker) = (new(), Owner::in_process(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    store.append(&mut lease, vec![suspended(10, None)]).await.unwrap();
    let takeable = async || store.takeable(&worker, at(20), 9).await.unwrap();
    assert_eq!(takeable().await, [], "its owner lives");
    drop((owner, lease));
    assert_eq!(takeable().await, [run_id(1)]);
    let lease = store.acquire(run_id(1), &worker).await.unwrap();
    store.release(lease).await.unwrap();
    assert_eq!(takeable().await, [], "it was released, and waits");
}

/// The title says it.
pub async fn an_ended_run_with_effects_in_doubt_is_found_until_they_are_settled<S: Store>(
    new: impl Fn() -> S,
) {
    let (store, owner, worker) = (new(), Owner::in_process(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    let operation = OperationId::from_bytes([1; 16]);
    let end = NewRecord::new(at(50), Body::Cancelled { response: response(Status::Cancelled) });
    store.append(&mut lease, vec![end, late(50, 1), late(50, 2)]).await.unwrap();
    let in_doubt = RunFilter { waiting: Some(Waiting::InDoubt), ..RunFilter::default() };
    let listed = async || store.runs(&in_doubt).await.unwrap().len();
    let takeable = async || store.takeable(&worker, at(99), 9).await.unwrap();
    assert_eq!((listed().await, takeable().await.len()), (1, 0), "its owner lives");
    assert_eq!(store.read(run_id(1), 0).await.unwrap().len(), 4);
    assert_eq!(store.read(run_id(1), 4).await.unwrap(), []);
    drop((owner, lease));
    assert_eq!(takeable().await, [run_id(1)]);
    let mut lease = store.acquire(run_id(1), &worker).await.unwrap();
    store.append(&mut lease, vec![late(60, 1)]).await.unwrap();
    store.release(lease).await.unwrap();
    assert_eq!((listed().await, takeable().await.len()), (1, 0), "it waits for a person");
    let mut lease = store.acquire(run_id(1), &worker).await.unwrap();
    let settled = Body::late(Outcome::TimerFired);
    store.append(&mut lease, vec![NewRecord::of(at(70), operation, settled)]).await.unwrap();
    assert_eq!(listed().await, 0);
    assert_eq!(store.read(run_id(1), 0).await.unwrap().len(), 6);
    // An end is final, whatever comes after it.
    store.append(&mut lease, vec![suspended(80, Some(90))]).await.unwrap();
    let summary = store.summary(run_id(1)).await.unwrap();
    assert_eq!((summary.status, summary.wake_at), (RunStatus::Cancelled, None));
    // What comes late in a run that continues changes nothing.
    let mut lease = create(&store, new_run(2, &worker)).await;
    store.append(&mut lease, vec![suspended(10, Some(20))]).await.unwrap();
    store.append(&mut lease, vec![late(11, 1)]).await.unwrap();
    let summary = store.summary(run_id(2)).await.unwrap();
    assert_eq!((summary.status, summary.wake_at), (RunStatus::Suspended, Some(at(20))));
    assert_eq!(summary.waiting, [Waiting::Timer]);
    assert_eq!(store.read(run_id(2), 0).await.unwrap().len(), 3);
}
