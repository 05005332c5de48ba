//! Reading: ids by their beginnings, journals page by page, and whether anything has changed.

use super::*;

/// The title says it.
pub async fn runs_are_found_by_the_beginning_of_their_ids<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut ids = Vec::new();
    for number in 0..20 {
        ids.push(create(&store, new_run(number, &owner)).await.run());
    }
    ids.sort_unstable();
    for id in &ids {
        let text = id.to_string();
        assert_eq!(store.find_runs(&text).await.unwrap(), [*id]);
        for length in [1, 2, 3] {
            let expected: Vec<RunId> =
                ids.iter().copied().filter(|id| id.to_string().starts_with(&text[..length])).collect();
            assert_eq!(store.find_runs(&text[..length]).await.unwrap(), expected);
        }
    }
    assert_eq!(store.find_runs("").await.unwrap(), ids[..16]);
    for strange in ["xyz", "é", "00000000000000000000000000000000f"] {
        assert_eq!(store.find_runs(strange).await.unwrap(), [], "{strange}");
    }
}

/// The title says it.
pub async fn a_journal_is_read_page_by_page<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    // Another run's records lie between them.
    let mut other = create(&store, new_run(2, &owner)).await;
    for attempt in 0..24 {
        store.append(&mut lease, vec![note(attempt)]).await.unwrap();
        store.append(&mut other, vec![note(attempt)]).await.unwrap();
    }
    let all = store.read(lease.run(), 0).await.unwrap();
    assert_eq!(all.len(), 25);
    for size in [1, 2, 7, 24, 25, 26] {
        let mut read = Vec::new();
        loop {
            let page = store.page(lease.run(), read.len() as u64, size).await.unwrap();
            let records = page.into_records().unwrap();
            assert!(records.len() <= size, "{size}");
            if records.is_empty() {
                break;
            }
            read.extend(records);
        }
        assert_eq!(read, all, "{size}");
    }
    assert_eq!(store.page(lease.run(), u64::MAX, 9).await.unwrap().into_records().unwrap(), []);
    let unknown = store.page(run_id(3), 0, 9).await;
    assert!(matches!(unknown, Err(ReadError::UnknownRun { .. })), "{unknown:?}");
}

/// The title says it.
pub async fn a_page_is_full_at_its_bytes<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    for _ in 0..6 {
        store.append(&mut lease, vec![text_of(1 << 20, "x")]).await.unwrap();
    }
    let page = store.page(lease.run(), 1, 100).await.unwrap();
    assert_eq!((page.records.len(), page.fault.is_none()), (4, true));
    let rest = store.page(lease.run(), 5, 100).await.unwrap();
    assert_eq!((rest.records.len(), rest.fault.is_none()), (2, true));
}

/// The title says it.
pub async fn an_erased_record_is_on_no_page<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    let ended = Body::Completed { response: response(Status::Completed) };
    store.append(&mut lease, vec![note(1), NewRecord::new(at(9), ended)]).await.unwrap();
    let run = lease.run();
    store.release(lease).await.unwrap();
    store.erase(run, None).await.unwrap();
    let read = store.page(run, 0, 9).await.unwrap().into_records();
    assert!(matches!(read, Err(ReadError::Erased { seq: 0, .. })), "{read:?}");
}

/// The title says it.
pub async fn the_heads_of_runs_are_their_numbers_of_records<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    create(&store, new_run(2, &owner)).await;
    store.append(&mut lease, vec![note(1), note(2)]).await.unwrap();
    let heads = store.heads(&[run_id(2), run_id(9), run_id(1)]).await.unwrap();
    assert_eq!(heads, [(run_id(2), 1), (run_id(1), 3)]);
}

/// The title says it.
pub async fn the_version_changes_with_every_change<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut seen = vec![store.version().await.unwrap()];
    let mut lease = create(&store, new_run(1, &owner)).await;
    seen.push(store.version().await.unwrap());
    for attempt in 0..3 {
        store.append(&mut lease, vec![note(attempt)]).await.unwrap();
        seen.push(store.version().await.unwrap());
        store.post(lease.run(), Message::parent_ended()).await.unwrap();
        seen.push(store.version().await.unwrap());
    }
    assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "{seen:?}");
    assert_eq!(store.version().await.unwrap(), seen[seen.len() - 1]);
}

/// The title says it.
pub async fn changes_of_statuses_are_followed_in_their_order<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    assert_eq!((store.last_change().await.unwrap(), store.changed(0, 9).await.unwrap()), (0, Vec::new()));
    let mut one = create(&store, new_run(1, &owner)).await;
    let mut two = create(&store, new_run(2, &owner)).await;
    let begun = store.changed(0, 9).await.unwrap();
    let runs = |changes: &[crate::Change]| changes.iter().map(|change| change.run.run).collect::<Vec<_>>();
    assert_eq!(runs(&begun), [run_id(1), run_id(2)]);
    let last = store.last_change().await.unwrap();
    assert_eq!(begun[1].number, last);
    // What leaves the status as it is is no change.
    store.append(&mut one, vec![note(1)]).await.unwrap();
    assert_eq!(store.changed(last, 9).await.unwrap(), Vec::new());
    let suspended = Body::Suspended { waiting_for: Vec::new(), wake_at: Some(at(90)) };
    store.append(&mut one, vec![NewRecord::new(at(5), suspended)]).await.unwrap();
    store.append(&mut two, vec![note(1), completed(9)]).await.unwrap();
    let changed = store.changed(last, 9).await.unwrap();
    assert_eq!(runs(&changed), [run_id(1), run_id(2)]);
    assert_eq!(changed[0].run, store.summary(run_id(1)).await.unwrap());
    assert_eq!(changed[0].run.status, RunStatus::Suspended);
    // It continues: only its latest change is there, behind that of the other.
    store.append(&mut one, vec![note(2)]).await.unwrap();
    let changed = store.changed(last, 9).await.unwrap();
    assert_eq!(runs(&changed), [run_id(2), run_id(1)]);
    assert_eq!(runs(&store.changed(last, 1).await.unwrap()), [run_id(2)]);
    assert_eq!(changed[1].number, store.last_change().await.unwrap());
    assert_eq!(store.changed(u64::MAX, 9).await.unwrap(), Vec::new());
}

/// The title says it.
pub async fn who_follows_changes_misses_none<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let (mut seen, mut number) = (BTreeMap::new(), 0);
    for run in 1..=9 {
        let mut lease = create(&store, new_run(run, &owner)).await;
        if run % 3 == 0 {
            for change in store.changed(number, 2).await.unwrap() {
                assert!(change.number > number, "{change:?}");
                number = change.number;
                seen.insert(change.run.run, change.run.status);
            }
        }
        store.append(&mut lease, vec![completed(9)]).await.unwrap();
    }
    loop {
        let changes = store.changed(number, 2).await.unwrap();
        let Some(last) = changes.last() else { break };
        number = last.number;
        seen.extend(changes.iter().map(|change| (change.run.run, change.run.status)));
    }
    let all = store.runs(&RunFilter::default()).await.unwrap();
    assert_eq!(seen, all.iter().map(|run| (run.run, run.status)).collect());
    assert_eq!(number, store.last_change().await.unwrap());
}

/// The title says it.
pub async fn a_probe_writes_and_changes_nothing<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    let before = (store.summary(lease.run()).await.unwrap(), store.last_change().await.unwrap());
    store.probe().await.unwrap();
    assert_eq!((store.summary(lease.run()).await.unwrap(), store.last_change().await.unwrap()), before);
    assert_eq!(store.changed(before.1, 9).await.unwrap(), []);
    // The lease holds as before.
    store.append(&mut lease, vec![note(1)]).await.unwrap();
}

fn completed(time: u64) -> NewRecord {
    NewRecord::new(at(time), Body::Completed { response: response(Status::Completed) })
}

/// The title says it.
pub async fn what_tells_where_a_run_stands_is_read_at_once<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let new = new_run(1, &owner);
    let begun = new.summary().unwrap();
    let mut lease = create(&store, new).await;
    assert_eq!(store.summary(lease.run()).await.unwrap(), begun, "it is known before it is read");
    store.append(&mut lease, vec![note(1), note(2)]).await.unwrap();
    let run = lease.run();
    for seq in 0..4 {
        if seq > 0 {
            store.save_snapshot(&lease, snapshot(seq, "text")).await.unwrap();
        }
        let recent = store.recent(run, None).await.unwrap();
        assert_eq!(recent.summary, store.summary(run).await.unwrap());
        assert_eq!(recent.config, store.config(recent.summary.config).await.unwrap());
        assert_eq!(recent.snapshot, store.snapshot(run).await.unwrap());
        assert_eq!(recent.records, store.read(run, seq).await.unwrap());
        let tenant = recent.summary.tenant;
        assert_eq!(store.recent(run, Some(&tenant)).await.unwrap().records, recent.records);
        let of_another = store.recent(run, Some("another")).await;
        assert!(matches!(of_another, Err(ReadError::UnknownRun { run: unknown }) if unknown == run));
        let second = recent.second.or_else(|| recent.records.into_iter().find(|record| record.seq == 1));
        assert_eq!(second, Some(store.read(run, 1).await.unwrap().swap_remove(0)));
    }
}
