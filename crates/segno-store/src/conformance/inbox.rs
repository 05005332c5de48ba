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
