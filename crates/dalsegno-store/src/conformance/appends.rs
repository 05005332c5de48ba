//! Appends: of many runs at once, and of a caller that knows another number of records.

use super::*;

/// The title says it.
pub async fn appends_of_many_runs_do_not_mix<S: Store + 'static>(new: impl Fn() -> S) {
    const RUNS: u64 = 50;
    const APPENDS: u32 = 20;
    let (store, owner) = (Arc::new(new()), Owner::in_process());
    let tasks = (0..RUNS).map(|number| {
        let (store, owner) = (Arc::clone(&store), owner.clone());
        tokio::spawn(async move {
            let mut lease = create(&*store, new_run(number, &owner)).await;
            for attempt in 0..APPENDS {
                store.append(&mut lease, vec![note(attempt)]).await.unwrap();
                // Refused work in the same transactions must not touch the others.
                let second = store.acquire(lease.run(), &owner).await;
                assert!(matches!(second, Err(AcquireError::Owned { .. })), "{second:?}");
            }
            lease
        })
    });
    let mut leases = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        leases.push(task.await.unwrap());
    }
    for lease in &leases {
        let records = store.read(lease.run(), 0).await.unwrap();
        let attempts: Vec<Body> = records.into_iter().skip(1).map(|record| record.body).collect();
        assert_eq!(attempts, (0..APPENDS).map(noted).collect::<Vec<_>>());
    }
    assert_eq!(store.runs(&RunFilter::default()).await.unwrap().len(), 50);
}

/// The title says it.
pub async fn an_append_after_another_number_of_records_is_refused_whole<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    store.append(&mut lease, vec![note(1)]).await.unwrap();
    // What a caller has after an append that it gave up half-way: a lease that knows less than the journal.
    for (known, found) in [(1, 2), (3, 2)] {
        lease.next_seq = known;
        let error = store.append(&mut lease, vec![note(2), note(3)]).await.unwrap_err();
        assert!(
            matches!(error, AppendError::SeqMismatch { expected, found: records, .. } if expected == known && records == found),
            "{error}"
        );
        assert_eq!(lease.next_seq(), known);
        assert_eq!(store.read(lease.run(), 0).await.unwrap().len(), 2);
    }
}
