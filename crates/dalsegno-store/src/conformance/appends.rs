//! Many runs at once.

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
