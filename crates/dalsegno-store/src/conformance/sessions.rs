//! Sessions, child runs and handovers.

use dalsegno_core::Budget;

use super::*;
use crate::{Follows, Parent};

/// The same run in another session.
#[must_use]
pub fn in_session(run: NewRun, session: &str) -> NewRun {
    with_started(run, |started| started.session = session.into())
}

/// The same run as a child of another.
#[must_use]
pub fn child_of(run: NewRun, parent: RunId) -> NewRun {
    with_started(run, |started| {
        started.parent = Some(Parent { run: parent, operation: OperationId::from_bytes([3; 16]) });
        started.depth = 1;
        started.budget = Some(Budget { max_tool_calls: 5, max_tokens: Some(1_000), max_cost_nano_usd: None });
        started.ask_effects = true;
    })
}

/// The run that goes on from another one: the same session, by a handover.
#[must_use]
pub fn successor_of(run: NewRun, predecessor: RunId, session: &str) -> NewRun {
    with_started(in_session(run, session), |started| {
        started.predecessor = Some(predecessor);
        started.by_handoff = true;
    })
}

/// What a run takes over from one before it, with a block of these bytes, which no store looks into.
pub fn inherited(block: &[u8]) -> Inherited {
    let empty = AgentState::start(run_id(1), AgentRequest::text("hello"), at(5)).inheritance(false);
    let stored = empty.store(|_| Ok::<_, InheritError>(digest_bytes(block))).unwrap();
    let mut json = serde_json::to_value(stored).unwrap();
    json["blocks"] = serde_json::json!([{ "digest": digest_bytes(block), "entries": 64 }]);
    serde_json::from_value(json).unwrap()
}

/// What is recorded of a run that a person ends without a look at it.
pub fn abandoned() -> Body {
    Body::Abandoned { reason: "its disk failed".into(), by: Some("ada".into()) }
}

/// The same run with the run before it, and what it takes over from that one: a block of these bytes.
#[must_use]
pub fn after(run: NewRun, predecessor: RunId, block: &[u8]) -> NewRun {
    let mut run = with_started(run, |started| started.predecessor = Some(predecessor));
    run.records.insert(1, NewRecord::new(at(1_000), Body::Inherited(Box::new(inherited(block)))));
    run.blobs.push((digest_bytes(block), block.to_vec()));
    run
}

/// The record that ends a run with a handover to another one of agent `triage`.
pub fn handed_off(run: RunId) -> NewRecord {
    let target = "triage".parse().unwrap();
    NewRecord::new(at(3_000), Body::HandedOff { target, run, response: None, message: None })
}

fn with_started(mut run: NewRun, change: impl FnOnce(&mut Started)) -> NewRun {
    if let Some(NewRecord { body: Body::Started(started), .. }) = run.records.first_mut() {
        change(started);
    }
    run
}

fn is_busy(result: &Result<Created, CreateError>, by: RunId) -> bool {
    matches!(result, Err(CreateError::SessionBusy { session, run }) if session == "s" && *run == by)
}

/// The title says it.
pub async fn a_session_has_one_root_run_at_a_time<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut first = create(&store, in_session(new_run(1, &owner), "s")).await;
    let second = in_session(new_run(2, &owner), "s");
    assert!(is_busy(&store.create(second.clone()).await, first.run()));
    assert!(matches!(store.summary(second.run).await, Err(ReadError::UnknownRun { .. })));
    // Waiting is not an end.
    let suspended = Body::Suspended { waiting_for: Vec::new(), wake_at: None };
    store.append(&mut first, vec![NewRecord::new(at(5), suspended)]).await.unwrap();
    assert!(is_busy(&store.create(second.clone()).await, first.run()));
    store.append(&mut first, vec![note(1)]).await.unwrap();
    assert!(is_busy(&store.create(second).await, first.run()));
    // Another session, and the same name at another tenant, are free.
    create(&store, in_session(new_run(3, &owner), "other")).await;
    create(&store, in_session(with_key(new_run(4, &owner), "acme", "k"), "s")).await;
}

/// The title says it.
pub async fn a_session_is_free_after_every_end<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut number = 0;
    let mut lease = create(&store, in_session(new_run(number, &owner), "s")).await;
    for record in every_kind() {
        let status = {
            store.append(&mut lease, vec![record]).await.unwrap();
            store.summary(lease.run()).await.unwrap().status
        };
        let next = in_session(new_run(number + 1, &owner), "s");
        if status.is_end() {
            lease = create(&store, next).await;
            number += 1;
        } else {
            assert!(is_busy(&store.create(next).await, lease.run()), "after `{status}`");
        }
    }
    assert_eq!(number, 4, "one for each kind of end");
}

/// The title says it.
pub async fn a_start_is_found_again_though_its_session_is_busy<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let first = create(&store, in_session(with_key(new_run(1, &owner), "acme", "k"), "s")).await;
    for number in [1, 2] {
        let again = store.create(in_session(with_key(new_run(number, &owner), "acme", "k"), "s")).await;
        assert!(matches!(again, Ok(Created::Existing(run)) if run == first.run()), "{again:?}");
    }
    let other = store.create(in_session(with_key(new_run(2, &owner), "acme", "l"), "s")).await;
    assert!(is_busy(&other, first.run()));
}

/// The title says it.
pub async fn child_runs_share_their_parents_session<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut root = create(&store, in_session(new_run(1, &owner), "s")).await;
    for number in 2..5 {
        let child = create(&store, in_session(child_of(new_run(number, &owner), root.run()), "s")).await;
        assert_eq!(store.summary(child.run()).await.unwrap().parent, Some(root.run()));
        assert_eq!(store.read(child.run(), 0).await.unwrap().len(), 1);
    }
    assert_eq!(store.summary(root.run()).await.unwrap().parent, None);
    // Children that go on do not keep the session.
    let end = Body::Cancelled { response: response(Status::Cancelled) };
    store.append(&mut root, vec![NewRecord::new(at(9), end)]).await.unwrap();
    create(&store, in_session(new_run(5, &owner), "s")).await;
    create(&store, in_session(new_run(6, &owner), "t")).await;

    let list = async |filter: RunFilter| -> Vec<RunId> {
        store.runs(&filter).await.unwrap().into_iter().map(|run: RunSummary| run.run).collect()
    };
    let all = RunFilter::default;
    let ids = |numbers: &[u64]| numbers.iter().map(|number| run_id(*number)).collect::<Vec<_>>();
    let (session, parent) = (Some("s".to_owned()), Some(root.run()));
    assert_eq!(list(RunFilter { parent, ..all() }).await, ids(&[4, 3, 2]));
    assert_eq!(list(RunFilter { roots_only: true, ..all() }).await, ids(&[6, 5, 1]));
    assert_eq!(list(RunFilter { session: session.clone(), ..all() }).await, ids(&[5, 4, 3, 2, 1]));
    assert_eq!(list(RunFilter { session, roots_only: true, ..all() }).await, ids(&[5, 1]));
    assert_eq!(list(RunFilter { parent, roots_only: true, ..all() }).await, []);
    assert_eq!(list(RunFilter { parent: Some(run_id(2)), ..all() }).await, []);
}

/// The title says it.
pub async fn runs_are_listed_by_time_and_page_by_page<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    for number in 1..=5 {
        let mut run = in_session(new_run(number, &owner), &format!("s{number}"));
        for record in &mut run.records {
            record.at = at(number * 10);
        }
        create(&store, run).await;
    }
    let list = async |filter: RunFilter| -> Vec<RunId> {
        store.runs(&filter).await.unwrap().into_iter().map(|run: RunSummary| run.run).collect()
    };
    let all = RunFilter::default;
    let ids = |numbers: &[u64]| numbers.iter().map(|number| run_id(*number)).collect::<Vec<_>>();
    assert_eq!(list(RunFilter { since: Some(at(30)), ..all() }).await, ids(&[5, 4, 3]));
    assert_eq!(list(RunFilter { until: Some(at(30)), ..all() }).await, ids(&[2, 1]));
    assert_eq!(list(RunFilter { since: Some(at(20)), until: Some(at(41)), ..all() }).await, ids(&[4, 3, 2]));
    let first = list(RunFilter { limit: 2, ..all() }).await;
    assert_eq!(first, ids(&[5, 4]));
    let after = first.last().copied();
    assert_eq!(list(RunFilter { after, limit: 2, ..all() }).await, ids(&[3, 2]));
    assert_eq!(list(RunFilter { after: Some(run_id(1)), ..all() }).await, []);
    assert_eq!(list(RunFilter { after: Some(run_id(99)), ..all() }).await, []);
}

/// The title says it.
pub async fn a_handover_ends_one_run_and_begins_the_next<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, in_session(new_run(1, &owner), "s")).await;
    let first = lease.run();
    store.post(first, Message::Cancel { by: None, reason: None }).await.unwrap();
    let next = successor_of(new_run(2, &owner), first, "s");
    let created = store.hand_off(&mut lease, vec![note(1), handed_off(run_id(2))], next).await.unwrap();
    let Created::New(mut second) = created else { panic!("{created:?}") };
    assert_eq!((lease.next_seq(), second.next_seq()), (3, 1));
    assert_eq!(store.summary(first).await.unwrap().status, RunStatus::HandedOff);
    assert_eq!(store.read(first, 0).await.unwrap()[2].link, lease.head());
    assert_eq!(store.inbox(first).await.unwrap(), [], "an ended run has no messages");
    // Both go on as any run does.
    let outcome = Outcome::Failed(Failure::new(FailureCode::Timeout, "x"));
    store.append(&mut lease, vec![NewRecord::new(at(9), Body::late(outcome))]).await.unwrap();
    store.append(&mut second, vec![note(2)]).await.unwrap();
    assert_eq!(store.read(second.run(), 0).await.unwrap().len(), 2);
    // The session is the second run's now.
    assert!(is_busy(&store.create(in_session(new_run(3, &owner), "s")).await, second.run()));
}

/// The title says it.
pub async fn a_refused_handover_leaves_no_trace<S: Store>(new: impl Fn() -> S) {
    let store = new();
    let (dead, owner) = (Owner::in_process(), Owner::in_process());
    let mut stale = create(&store, in_session(new_run(1, &dead), "s")).await;
    drop(dead);
    let first = stale.run();
    let mut lease = store.acquire(first, &owner).await.unwrap();
    create(&store, with_key(new_run(7, &owner), "default", "k")).await;
    let next = || successor_of(new_run(2, &owner), first, "s");

    let error = store.hand_off(&mut stale, vec![handed_off(run_id(2))], next()).await.unwrap_err();
    assert!(matches!(error, CreateError::Append(AppendError::Fenced { .. })), "{error}");

    let end = NewRecord::new(at(9), Body::Completed { response: response(Status::Completed) });
    let mut other_agent = next();
    other_agent.agent = "closer".parse().unwrap();
    let other_agent = with_started(other_agent, |started| started.agent = "closer".parse().unwrap());
    let mut forged = next();
    forged.blobs = vec![(Digest::from_bytes([6; 32]), b"x".to_vec())];
    let mut taken = with_key(next(), "default", "k");
    taken.request_digest = Digest::from_bytes([7; 32]);
    let wrong = [
        (vec![end], next(), "last record"),
        (vec![handed_off(run_id(2)), note(1)], next(), "last record"),
        (Vec::new(), next(), "last record"),
        (vec![handed_off(run_id(3))], next(), "last record"),
        (vec![handed_off(run_id(2))], other_agent, "last record"),
        (vec![handed_off(run_id(2))], successor_of(next(), first, "t"), "session"),
        (vec![handed_off(run_id(2))], with_key(next(), "acme", "k"), "tenant"),
        (vec![handed_off(run_id(2))], child_of(next(), first), "parent"),
        (vec![handed_off(run_id(2))], successor_of(next(), run_id(7), "s"), "predecessor"),
        (vec![handed_off(run_id(2))], forged, ""),
        (vec![handed_off(run_id(2))], taken, ""),
    ];
    for (records, successor, expected) in wrong {
        let error = store.hand_off(&mut lease, records, successor).await.unwrap_err();
        match &error {
            CreateError::NotSuccessor { field, .. } => assert_eq!(*field, expected, "{error}"),
            CreateError::Blob(_) | CreateError::KeyConflict { .. } => assert_eq!(expected, "", "{error}"),
            _ => panic!("{error:?}"),
        }
        assert_eq!(lease.next_seq(), 1);
        assert_eq!(store.read(first, 0).await.unwrap().len(), 1);
        assert!(matches!(store.summary(run_id(2)).await, Err(ReadError::UnknownRun { .. })));
    }
    // A run that has ended otherwise hands nothing over.
    let mut ended = create(&store, in_session(new_run(8, &owner), "u")).await;
    let end = NewRecord::new(at(9), Body::Completed { response: response(Status::Completed) });
    store.append(&mut ended, vec![end]).await.unwrap();
    let late = successor_of(new_run(9, &owner), ended.run(), "u");
    let error = store.hand_off(&mut ended, vec![handed_off(run_id(9))], late).await.unwrap_err();
    assert!(matches!(error, CreateError::NotSuccessor { field: "status", .. }), "{error}");
    assert_eq!(store.read(ended.run(), 0).await.unwrap().len(), 2);
    // The lease is as good as before.
    store.append(&mut lease, vec![note(1)]).await.unwrap();
    assert!(store.hand_off(&mut lease, vec![handed_off(run_id(2))], next()).await.is_ok());
}

/// The title says it.
pub async fn a_handover_to_a_run_that_exists_is_written_all_the_same<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, in_session(new_run(1, &owner), "s")).await;
    let next = || child_of(successor_of(new_run(3, &owner), run_id(2), "s"), lease.run());
    // A child's successor is a child of the same run.
    let mut child = create(&store, in_session(child_of(new_run(2, &owner), lease.run()), "s")).await;
    let existing = create(&store, next()).await;
    let records = vec![handed_off(existing.run())];
    let created = store.hand_off(&mut child, records.clone(), next()).await.unwrap();
    assert!(matches!(created, Created::Existing(run) if run == existing.run()), "{created:?}");
    assert_eq!(store.summary(child.run()).await.unwrap().status, RunStatus::HandedOff);
    // Again with a lease that does not know of it, as after a handover that was given up half-way.
    child.next_seq = 1;
    let error = store.hand_off(&mut child, records, next()).await.unwrap_err();
    assert!(matches!(error, CreateError::Append(AppendError::SeqMismatch { found: 2, .. })), "{error}");
    let signalled = Body::signalled(Signal::Cancel);
    store.append(&mut lease, vec![NewRecord::new(at(9), signalled)]).await.unwrap();
}

/// The title says it.
pub async fn a_run_that_follows_the_last_one_is_refused_when_another_was_faster<S: Store>(
    new: impl Fn() -> S,
) {
    let (store, owner) = (new(), Owner::in_process());
    let run = |number| in_session(new_run(number, &owner), "s");
    let following = |number, last| NewRun { follows: Follows::Last(last), ..run(number) };
    let kept = &store;
    let ends = |mut lease: Lease| async move {
        let end = Body::Completed { response: response(Status::Completed) };
        kept.append(&mut lease, vec![NewRecord::new(at(5), end)]).await.unwrap();
        kept.release(lease).await.unwrap();
    };
    ends(create(&store, following(1, None)).await).await;
    let overtaken = store.create(following(2, None)).await;
    assert!(
        matches!(&overtaken, Err(CreateError::Overtaken { last: Some(last), .. }) if *last == run_id(1)),
        "{overtaken:?}"
    );
    ends(create(&store, following(2, Some(run_id(1)))).await).await;
    let overtaken = store.create(following(3, Some(run_id(1)))).await;
    assert!(matches!(overtaken, Err(CreateError::Overtaken { .. })), "{overtaken:?}");
    // Child runs and other sessions are not in the way; a start that happened already is found again.
    create(&store, child_of(run(4), run_id(2))).await;
    create(&store, in_session(new_run(5, &owner), "other")).await;
    let again = store.create(following(1, None)).await;
    assert!(matches!(again, Ok(Created::Existing(run)) if run == run_id(1)), "{again:?}");
    create(&store, following(3, Some(run_id(2)))).await;
    let busy = store.create(following(6, Some(run_id(2)))).await;
    assert!(matches!(busy, Err(CreateError::SessionBusy { .. })), "{busy:?}");
}

/// The title says it.
pub async fn the_last_run_of_a_session_is_one_that_can_be_followed<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let in_s = |number| in_session(new_run(number, &owner), "s");
    let filter = RunFilter { session: Some("s".into()), followable: true, ..RunFilter::default() };
    let followable = async || {
        let runs = store.runs(&filter).await.unwrap();
        runs.into_iter().map(|run| run.run).collect::<Vec<_>>()
    };
    for number in 1..=3 {
        ended(&store, in_s(number), 50).await;
    }
    let mut lease = create(&store, in_s(4)).await;
    assert_eq!(followable().await, [3, 2, 1].map(run_id), "one that goes on cannot be followed");
    store.append(&mut lease, vec![NewRecord::new(at(60), abandoned())]).await.unwrap();
    assert_eq!(followable().await, [3, 2, 1].map(run_id));
    store.erase(run_id(3), None).await.unwrap();
    assert_eq!(followable().await, [2, 1].map(run_id));
    let following = |last| NewRun { follows: Follows::Last(last), ..in_s(5) };
    for wrong in [None, Some(run_id(1)), Some(run_id(3)), Some(run_id(4))] {
        let error = store.create(following(wrong)).await.unwrap_err();
        assert!(
            matches!(error, CreateError::Overtaken { last, .. } if last == Some(run_id(2))),
            "{wrong:?}: {error}"
        );
    }
    create(&store, following(Some(run_id(2)))).await;
    // Where all have gone there is none.
    for number in 1..=2 {
        store.erase(run_id(number), None).await.unwrap();
    }
    assert_eq!(followable().await, []);
}

/// The title says it.
pub async fn a_run_is_abandoned_without_a_look_at_it<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let parent = create(&store, in_session(new_run(1, &owner), "s")).await;
    let child = create(&store, in_session(child_of(new_run(2, &owner), parent.run()), "s")).await;
    let below = create(&store, in_session(child_of(new_run(3, &owner), child.run()), "s")).await;
    let held = store.seize(child.run(), &Owner::in_process()).await;
    assert!(matches!(held, Err(AcquireError::Owned { .. })), "{held:?}");
    drop(child);
    let lease = store.seize(run_id(2), &owner).await.unwrap();
    let mut lease = lease.telling(parent.run());
    store.append(&mut lease, vec![NewRecord::new(at(9), abandoned())]).await.unwrap();
    store.release(lease).await.unwrap();
    assert_eq!(store.summary(run_id(2)).await.unwrap().status, RunStatus::Abandoned);
    assert_eq!(store.read(run_id(2), 0).await.unwrap().len(), 2);
    let is_told = async |run, told: Message| {
        store.inbox(run).await.unwrap().into_iter().any(|(_, message)| message == told)
    };
    assert!(is_told(parent.run(), Message::Look).await);
    assert!(is_told(below.run(), Message::parent_ended()).await);
    assert!(matches!(store.seize(run_id(9), &owner).await, Err(AcquireError::UnknownRun { .. })));
}
