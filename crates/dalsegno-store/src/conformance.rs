//! The suite that every store must pass.
//!
//! Each function takes a maker of empty stores and panics when a promise is broken. [`conformance_tests!`] makes one
//! test of each.
//!
//! [`conformance_tests!`]: crate::conformance_tests
#![expect(clippy::unwrap_used, reason = "a broken promise is to fail the test that calls this")]

mod appends;
mod call;
mod inbox;
mod reading;
mod results;
mod sessions;
mod spending;
mod transfer;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dalsegno_core::{
    AgentRequest, AgentResponse, AgentState, Answer, Digest, EffectClass, Failure, FailureCode, Gate,
    InheritError, Inherited, Limits, OperationId, Outcome, RunId, Signal, Status, Timestamp, ToolReturn,
    Usage,
};

use crate::{
    AcquireError, AppendError, AttemptCause, BlobError, Body, CreateError, Created, Denial, Lease, Message,
    NewRecord, NewRun, Owner, PostError, ReadError, RecordKind, RunFilter, RunStatus, RunSummary, Snapshot,
    SnapshotError, Start, Started, Store, Waiting, WaitingFor, digest_bytes,
};

pub use self::appends::*;
pub use self::inbox::*;
pub use self::reading::*;
pub use self::results::*;
pub use self::sessions::*;
pub use self::spending::*;
pub use self::transfer::*;
pub use self::upkeep::*;

/// Makes a `#[tokio::test]` of every function of the suite, in a module `conformance`.
///
/// The argument is an expression that makes a maker of stores: `|| || MemoryStore::new()`.
#[macro_export]
macro_rules! conformance_tests {
    ($maker:expr) => {
        $crate::conformance_tests! { $maker =>
            records_come_back_in_the_order_of_their_appends
            every_kind_of_record_comes_back_as_it_was
            an_append_after_another_number_of_records_is_refused_whole
            a_stale_lease_is_refused_whole_after_an_adoption
            a_living_owner_keeps_its_run
            a_released_run_is_free_at_once
            an_owner_takes_up_again_what_it_dropped
            the_same_start_happens_once
            a_key_for_another_start_is_a_conflict
            keys_of_different_tenants_do_not_meet
            a_run_begins_with_started
            a_chain_links_every_record_to_the_one_before
            only_the_latest_snapshot_is_kept
            a_stale_lease_saves_no_snapshot
            an_unknown_run_is_an_error_everywhere
            configurations_are_kept_by_digest
            a_reservation_takes_of_all_allowances_or_of_none
            a_settled_reservation_is_replaced_by_what_was_spent
            no_more_is_reserved_than_allowed_however_many_ask_at_once
            the_status_follows_from_the_records
            a_run_is_read_and_acquired_whatever_it_ended_with
            a_listing_can_be_filtered
            suspended_runs_are_found_by_what_they_wait_for
            a_paused_run_wakes_at_no_time
            running_runs_are_found_by_what_their_process_says_they_wait_for
            long_texts_come_back_as_they_were
            runs_are_found_by_the_beginning_of_their_ids
            a_journal_is_read_page_by_page
            a_page_is_full_at_its_bytes
            an_erased_record_is_on_no_page
            what_tells_where_a_run_stands_is_read_at_once
            the_heads_of_runs_are_their_numbers_of_records
            the_version_changes_with_every_change
            changes_of_statuses_are_followed_in_their_order
            who_follows_changes_misses_none
            a_probe_writes_and_changes_nothing
            appends_of_many_runs_do_not_mix
            a_session_has_one_root_run_at_a_time
            a_session_is_free_after_every_end
            a_run_that_follows_the_last_one_is_refused_when_another_was_faster
            a_start_is_found_again_though_its_session_is_busy
            child_runs_share_their_parents_session
            runs_are_listed_by_time_and_page_by_page
            a_handover_ends_one_run_and_begins_the_next
            a_refused_handover_leaves_no_trace
            a_handover_to_a_run_that_exists_is_written_all_the_same
            messages_come_in_the_order_in_which_they_were_posted
            a_message_leaves_the_inbox_with_the_records_that_journal_it
            a_stale_lease_consumes_nothing
            a_run_that_has_ended_takes_no_messages
            an_inbox_is_bounded
            a_handover_takes_the_messages_that_wait_along
            the_commit_that_ends_a_run_tells_the_one_that_waits_for_it
            the_commit_that_ends_a_run_tells_the_runs_below_it_to_end
            a_suspended_child_run_tells_the_run_above_it
            a_suspended_run_whose_owner_died_before_the_release_can_be_taken
            an_ended_run_with_effects_in_doubt_is_found_until_they_are_settled
            files_are_kept_by_digest
            files_of_results_come_with_their_records
            a_result_whose_file_is_not_there_is_refused_whole
            a_stale_lease_leaves_no_files
            files_of_results_stay_as_long_as_a_run_or_a_fork_needs_them
            files_of_results_are_erased_with_them
            an_archive_carries_the_files_of_results
            a_run_that_hands_over_keeps_the_files_of_its_last_results
            an_exported_run_enters_another_journal_as_it_was
            an_import_into_any_store_is_whole
            nobody_performs_a_run_that_an_archive_brought
            an_archive_reaches_no_run_of_the_journals_own
            an_import_does_not_bring_back_what_was_erased
            a_refused_import_adds_nothing
            times_may_go_back
            runs_that_nobody_living_owns_can_be_taken
            many_runs_of_one_cause_hide_no_others
            the_next_time_to_wake_is_known
            the_latest_time_is_far_away_and_not_long_ago
            an_erased_run_is_listed_and_not_read
            an_erased_operation_leaves_the_rest
            a_file_that_others_use_is_not_erased
            a_run_that_goes_on_is_not_erased
            a_run_that_has_ended_is_not_erased_while_its_process_may_record_more
            a_child_run_is_not_erased_before_its_parent_has_ended
            what_a_run_took_over_outlives_the_run_before_it
            a_run_that_takes_over_what_is_not_there_is_refused
            the_last_run_of_a_session_is_one_that_can_be_followed
            the_runs_that_hold_content_of_another_are_found
            a_run_is_abandoned_without_a_look_at_it
            old_runs_are_deleted_and_what_others_need_stays
            what_a_deleted_run_had_is_free_again
        }
    };
    ($maker:expr => $($name:ident)*) => {
        mod conformance {
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let maker = $maker;
                    $crate::conformance::$name(maker()).await;
                }
            )*
        }
    };
}

/// A time, in milliseconds since the epoch.
pub const fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// The id of the run with this number.
pub fn run_id(number: u64) -> RunId {
    let hash = blake3::hash(&number.to_le_bytes());
    RunId::from_bytes(std::array::from_fn(|index| hash.as_bytes()[index]))
}

/// The run with this number: agent `triage`, tenant `default`, no key, configuration `{}`.
pub fn new_run(number: u64, owner: &Owner) -> NewRun {
    let started = Started {
        agent: "triage".parse().unwrap(),
        config: Digest::from_bytes([1; 32]),
        semantics: 1,
        request: AgentRequest::text("disk full"),
        session: format!("session {number}"),
        predecessor: None,
        start_key: None,
        modules: BTreeMap::from([("risk".into(), "ab11".into())]),
        parent: None,
        depth: 0,
        budget: None,
        context: None,
        by_handoff: false,
        ask_effects: false,
    };
    NewRun::new(run_id(number), "{}", Digest::from_bytes([2; 32]), owner.id(), at(1_000 + number), started)
}

/// The same start under a key.
#[must_use]
pub fn with_key(mut run: NewRun, tenant: &str, key: &str) -> NewRun {
    run.tenant = tenant.into();
    run.key = Some(key.into());
    if let Some(NewRecord { body: Body::Started(started), .. }) = run.records.first_mut() {
        started.request.tenant = tenant.into();
        started.start_key = Some(key.into());
    }
    run
}

/// A record that needs nothing before it.
pub fn note(attempt: u32) -> NewRecord {
    NewRecord::new(at(2_000 + u64::from(attempt)), noted(attempt))
}

/// A record with this text, repeated to 20,000 bytes: long enough to be kept apart.
pub fn long_text(text: &str) -> NewRecord {
    text_of(20_000, text)
}

/// A record with this text, repeated to so many bytes.
pub fn text_of(bytes: usize, text: &str) -> NewRecord {
    let text = text.repeat(bytes / text.len() + 1)[..bytes].to_owned();
    let outcome = Outcome::ToolReturned(ToolReturn { text, ..ToolReturn::default() });
    let resolved = Body::Resolved { outcome, attempts: 1, elapsed_ms: 5 };
    NewRecord::of(at(4_000), OperationId::from_bytes([3; 16]), resolved)
}

/// What a [`note`] says.
pub const fn noted(attempt: u32) -> Body {
    Body::Attempted { attempt, cause: AttemptCause::Recovered, start: Start::Now, reason: None }
}

/// Records of every kind but `started`, and attempts of every cause, in an order in which a run could have them.
pub fn every_kind() -> Vec<NewRecord> {
    let operation = OperationId::from_bytes([3; 16]);
    let parent = OperationId::from_bytes([4; 16]);
    let returned = ToolReturn::structured(serde_json::json!({"score": 0.75, "tags": ["a", null], "at": -1}));
    let failed = Outcome::Failed(Failure::new(FailureCode::Timeout, "no answer within 30 s"));
    let question = "call `risk.score`?".into();
    let waiting_for = vec![WaitingFor { kind: "approval".into(), operation, question }];
    let approved = Answer::Approved { edited: None, reason: Some("fine".into()), by: Some("ada".into()) };
    let requested = Body::Requested {
        step: 1,
        ordinal: vec![0, 2],
        label: "tool `risk.score`".into(),
        digest: Digest::from_bytes([5; 32]),
        class: EffectClass::Unsafe,
        start: Start::Deferred,
    };
    let lost = AttemptCause::Failed { code: FailureCode::Timeout, possibly_received: true };
    let attempted = |attempt, cause, start| {
        let reason = (attempt == 4).then(|| "no answer within 30 s".to_owned());
        NewRecord::of(at(16), operation, Body::Attempted { attempt, cause, start, reason })
    };
    let resolved =
        Body::Resolved { outcome: Outcome::ToolReturned(returned), attempts: 4, elapsed_ms: 1_234 };
    let forked = Body::Forked {
        run: run_id(9),
        seq: 4,
        within: 0,
        step: 3,
        overrides: vec![operation],
        outcomes: vec![failed.clone()],
        ask_effects: true,
        foreign: false,
    };
    let denied = Body::Denied {
        server: "risk".into(),
        denials: vec![Denial {
            kind: "network".into(),
            subject: "http://169.254.169.254".into(),
            reason: "it is not granted".into(),
            count: 2,
        }],
    };
    let tasked = Body::Tasked {
        attempt: 4,
        server: "risk".into(),
        task: "786512e2-9e0d".into(),
        expires_at: Some(at(60_017)),
    };
    let handed_off = Body::HandedOff {
        target: "closer".parse().unwrap(),
        run: run_id(8),
        response: Some(response(Status::HandedOff)),
        message: Some("over to you".into()),
    };
    vec![
        NewRecord::new(at(10), forked),
        NewRecord::of(at(11), operation, requested).below(parent),
        NewRecord::of(at(12), operation, Body::Waiting { gate: Gate::Approval }),
        NewRecord::new(at(13), Body::Suspended { waiting_for, wake_at: Some(at(99)) }),
        NewRecord::of(at(14), operation, Body::Answered { answer: approved }),
        NewRecord::new(at(15), Body::Rebound { server: "risk".into(), digest: "ab12".into() }),
        attempted(2, AttemptCause::Answered, Start::Deferred),
        attempted(3, AttemptCause::Recovered, Start::Now),
        attempted(4, lost, Start::Now),
        NewRecord::of(at(17), operation, tasked),
        NewRecord::of(at(17), operation, denied),
        NewRecord::of(at(17), operation, resolved),
        NewRecord::new(at(18), Body::signalled(Signal::Deadline)),
        NewRecord::new(at(19), Body::Completed { response: response(Status::Completed) }),
        NewRecord::of(at(20), operation, Body::late(failed)),
        NewRecord::new(at(21), Body::Failed { response: response(Status::Failed) }),
        NewRecord::new(at(22), Body::Cancelled { response: response(Status::Cancelled) }),
        NewRecord::new(at(23), handed_off),
    ]
}

/// A response of a run that ended like this.
pub fn response(status: Status) -> AgentResponse {
    AgentResponse {
        status,
        answer: Some("done – ✓".into()),
        output: None,
        error: None,
        usage: Usage {
            model_calls: 1,
            tool_calls: 2,
            input_tokens: 300,
            output_tokens: 40,
            cost_nano_usd: 5_000,
            ..Usage::default()
        },
        writes: Vec::new(),
    }
}

/// A snapshot of the run with the number 1, after so many records.
pub fn snapshot(seq: u64, text: &str) -> Snapshot {
    Snapshot {
        seq,
        state: AgentState::start(run_id(1), AgentRequest::text(text), at(5)),
        at: at(6),
        active_ms: 250,
        modules: BTreeMap::from([("risk".into(), "ab12".into())]),
    }
}

/// Creates a run that must be new.
pub async fn create(store: &impl Store, run: NewRun) -> Lease {
    match store.create(run).await.unwrap() {
        Created::New(lease) => lease,
        Created::Existing(run) => panic!("run {run} exists already"),
    }
}

/// The title says it.
pub async fn records_come_back_in_the_order_of_their_appends<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    assert_eq!(lease.next_seq(), 1);
    assert_eq!(store.append(&mut lease, vec![note(1), note(2)]).await.unwrap(), [1, 2]);
    assert_eq!(store.append(&mut lease, Vec::new()).await.unwrap(), [] as [u64; 0]);
    assert_eq!(store.append(&mut lease, vec![note(3)]).await.unwrap(), [3]);
    let records = store.read(lease.run(), 0).await.unwrap();
    assert_eq!(records.iter().map(|record| record.seq).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(records[3].body, noted(3));
    assert_eq!(records[3].link, lease.head());
    assert_eq!(store.first(lease.run()).await.unwrap(), records[0]);
    for from in 0..=5 {
        let rest = store.read(lease.run(), from).await.unwrap();
        assert_eq!(rest, records[usize::try_from(from).unwrap().min(4)..]);
    }
}

/// A record of each kind that came after the journals of version 4, whose places tests know.
fn later_kinds() -> Vec<NewRecord> {
    vec![
        NewRecord::new(
            at(15),
            Body::Adopted {
                run: run_id(9),
                seq: 4,
                step: 2,
                signer: Some("ab".repeat(32)),
                by: Some("ada".into()),
            },
        ),
        NewRecord::new(at(15), Body::Narrowed { budget: Limits::default().budget() }),
        NewRecord::new(at(15), Body::Conversed { news: call::conversed() }),
        NewRecord::new(at(15), Body::Inherited(Box::new(inherited(b"what was said")))),
        NewRecord::new(at(15), abandoned()),
        NewRecord::of(
            at(15),
            OperationId::from_bytes([3; 16]),
            Body::Verified {
                tool: "shop.find_order".parse().unwrap(),
                tries: 2,
                evidence: crate::Evidence::Happened,
                result: Some(serde_json::json!({ "order": 7 })),
                error: None,
            },
        ),
        paused(at(15)),
        NewRecord::new(at(15), Body::Continued { by: Some("ada".into()) }),
    ]
}

/// The title says it.
pub async fn every_kind_of_record_comes_back_as_it_was<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let run = new_run(1, &owner);
    let expected: Vec<NewRecord> =
        run.records.iter().cloned().chain(every_kind()).chain(later_kinds()).collect();
    let kinds: BTreeSet<RecordKind> = expected.iter().map(|record| record.body.kind()).collect();
    assert_eq!(kinds.len(), RecordKind::ALL.len(), "the sample lacks a kind");
    let mut lease = create(&store, run).await;
    store.append(&mut lease, every_kind()).await.unwrap();
    store.append(&mut lease, later_kinds()).await.unwrap();
    let records = store.read(lease.run(), 0).await.unwrap();
    let found: Vec<NewRecord> = records
        .into_iter()
        .map(|record| NewRecord {
            at: record.at,
            operation: record.operation,
            parent: record.parent,
            body: record.body,
            files: Vec::new(),
        })
        .collect();
    assert_eq!(found, expected);
}

/// The title says it.
pub async fn a_stale_lease_is_refused_whole_after_an_adoption<S: Store>(new: impl Fn() -> S) {
    let store = new();
    let (dead, heir) = (Owner::in_process(), Owner::in_process());
    let mut stale = create(&store, new_run(1, &dead)).await;
    store.append(&mut stale, vec![note(1)]).await.unwrap();
    drop(dead);
    let mut lease = store.acquire(stale.run(), &heir).await.unwrap();
    assert_eq!((lease.epoch(), lease.next_seq(), lease.head()), (2, 2, stale.head()));
    let error = store.append(&mut stale, vec![note(2), note(3)]).await.unwrap_err();
    assert!(matches!(error, AppendError::Fenced { epoch: 1, current: 2, .. }), "{error}");
    assert_eq!(store.read(lease.run(), 0).await.unwrap().len(), 2);
    store.append(&mut lease, vec![note(4)]).await.unwrap();
    let error = store.release(stale).await.unwrap_err();
    assert!(matches!(error, AppendError::Fenced { .. }), "{error}");
    assert_eq!(store.summary(lease.run()).await.unwrap().owner, Some(heir.id()));
}

/// The title says it.
pub async fn a_living_owner_keeps_its_run<S: Store>(new: impl Fn() -> S) {
    let store = new();
    let (owner, other) = (Owner::in_process(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    for claimant in [&other, &owner] {
        let error = store.acquire(lease.run(), claimant).await.unwrap_err();
        assert!(matches!(error, AcquireError::Owned { by, .. } if by == owner.id()), "{error}");
    }
    store.append(&mut lease, vec![note(1)]).await.unwrap();
}

/// The title says it.
pub async fn a_released_run_is_free_at_once<S: Store>(new: impl Fn() -> S) {
    let store = new();
    let (owner, other) = (Owner::in_process(), Owner::in_process());
    let lease = create(&store, new_run(1, &owner)).await;
    let run = lease.run();
    store.release(lease).await.unwrap();
    assert_eq!(store.summary(run).await.unwrap().owner, None);
    let mut lease = store.acquire(run, &other).await.unwrap();
    assert_eq!(lease.epoch(), 2);
    store.append(&mut lease, vec![note(1)]).await.unwrap();
}

/// The title says it.
pub async fn an_owner_takes_up_again_what_it_dropped<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let lease = create(&store, new_run(1, &owner)).await;
    let run = lease.run();
    drop(lease);
    let other = Owner::in_process();
    assert!(matches!(store.acquire(run, &other).await, Err(AcquireError::Owned { .. })));
    let mut lease = store.acquire(run, &owner).await.unwrap();
    assert_eq!(lease.epoch(), 2);
    store.append(&mut lease, vec![note(1)]).await.unwrap();
}

/// The title says it.
pub async fn the_same_start_happens_once<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let first = create(&store, with_key(new_run(1, &owner), "acme", "k")).await;
    let again = store.create(with_key(new_run(2, &owner), "acme", "k")).await.unwrap();
    assert!(matches!(again, Created::Existing(run) if run == first.run()), "{again:?}");
    assert!(matches!(store.summary(run_id(2)).await, Err(ReadError::UnknownRun { .. })));
    // The same id without a key, as for a child run whose id is derived.
    let child = create(&store, new_run(3, &owner)).await;
    let again = store.create(new_run(3, &owner)).await.unwrap();
    assert!(matches!(again, Created::Existing(run) if run == child.run()), "{again:?}");
    assert_eq!(store.read(child.run(), 0).await.unwrap().len(), 1);
}

/// The title says it.
pub async fn a_key_for_another_start_is_a_conflict<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let first = create(&store, with_key(new_run(1, &owner), "acme", "k")).await;
    let mut other_input = with_key(new_run(2, &owner), "acme", "k");
    other_input.request_digest = Digest::from_bytes([7; 32]);
    let mut other_agent = with_key(new_run(2, &owner), "acme", "k");
    other_agent.agent = "closer".parse().unwrap();
    if let Body::Started(started) = &mut other_agent.records[0].body {
        started.agent = "closer".parse().unwrap();
    }
    for other in [other_input, other_agent] {
        let error = store.create(other).await.unwrap_err();
        assert!(
            matches!(&error, CreateError::KeyConflict { key, run } if key == "k" && *run == first.run()),
            "{error}"
        );
    }
    let mut other = new_run(1, &owner);
    other.request_digest = Digest::from_bytes([7; 32]);
    let error = store.create(other).await.unwrap_err();
    assert!(matches!(error, CreateError::RunConflict { .. }), "{error}");
}

/// The title says it.
pub async fn keys_of_different_tenants_do_not_meet<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    create(&store, with_key(new_run(1, &owner), "acme", "k")).await;
    create(&store, with_key(new_run(2, &owner), "umbrella", "k")).await;
}

/// The title says it.
pub async fn a_run_begins_with_started<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut without = new_run(1, &owner);
    without.records = vec![note(1)];
    let mut empty = new_run(1, &owner);
    empty.records.clear();
    let mut differing = new_run(1, &owner);
    differing.config = Digest::from_bytes([9; 32]);
    for run in [without, empty, differing] {
        let error = store.create(run).await.unwrap_err();
        assert!(matches!(error, CreateError::NotStarted { .. }), "{error}");
    }
    assert!(store.runs(&RunFilter::default()).await.unwrap().is_empty());
}

/// The title says it.
pub async fn a_chain_links_every_record_to_the_one_before<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut heads = BTreeSet::new();
    // The same records in another run, or in another order, have other links; the same bodies the same checksums.
    for (number, notes) in [(1, [note(1), note(2)]), (2, [note(1), note(2)]), (3, [note(2), note(1)])] {
        let mut run = new_run(number, &owner);
        run.records[0].at = at(1);
        let mut lease = create(&store, run).await;
        store.append(&mut lease, notes.to_vec()).await.unwrap();
        let records = store.read(lease.run(), 0).await.unwrap();
        heads.extend(records.iter().map(|record| record.link));
    }
    assert_eq!(heads.len(), 9);
    let checksums =
        |records: Vec<crate::Record>| records[1..].iter().map(|record| record.checksum).collect::<Vec<_>>();
    let one = checksums(store.read(run_id(1), 0).await.unwrap());
    assert_eq!(one, checksums(store.read(run_id(2), 0).await.unwrap()));
    assert_ne!(one, checksums(store.read(run_id(3), 0).await.unwrap()));
}

/// The title says it.
pub async fn only_the_latest_snapshot_is_kept<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    store.append(&mut lease, vec![note(1), note(2)]).await.unwrap();
    assert_eq!(store.snapshot(lease.run()).await.unwrap(), None);
    for (seq, text) in [(1, "one"), (3, "three")] {
        store.save_snapshot(&lease, snapshot(seq, text)).await.unwrap();
        assert_eq!(store.snapshot(lease.run()).await.unwrap(), Some(snapshot(seq, text)));
    }
    let error = store.save_snapshot(&lease, snapshot(4, "four")).await.unwrap_err();
    assert!(matches!(error, SnapshotError::Ahead { found: 4, records: 3, .. }), "{error}");
    assert_eq!(store.snapshot(lease.run()).await.unwrap(), Some(snapshot(3, "three")));
}

/// The title says it.
pub async fn a_stale_lease_saves_no_snapshot<S: Store>(new: impl Fn() -> S) {
    let store = new();
    let (dead, heir) = (Owner::in_process(), Owner::in_process());
    let stale = create(&store, new_run(1, &dead)).await;
    drop(dead);
    let lease = store.acquire(stale.run(), &heir).await.unwrap();
    let error = store.save_snapshot(&stale, snapshot(1, "x")).await.unwrap_err();
    assert!(matches!(error, SnapshotError::Fenced { .. }), "{error}");
    assert_eq!(store.snapshot(lease.run()).await.unwrap(), None);
}

/// The title says it.
pub async fn an_unknown_run_is_an_error_everywhere<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let run = run_id(1);
    assert!(matches!(store.read(run, 0).await, Err(ReadError::UnknownRun { .. })));
    assert!(matches!(store.summary(run).await, Err(ReadError::UnknownRun { .. })));
    assert!(matches!(store.snapshot(run).await, Err(ReadError::UnknownRun { .. })));
    assert!(matches!(store.recent(run, None).await, Err(ReadError::UnknownRun { .. })));
    assert!(matches!(store.acquire(run, &owner).await, Err(AcquireError::UnknownRun { .. })));
}

/// The title says it.
pub async fn configurations_are_kept_by_digest<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut run = new_run(1, &owner);
    run.config_json = r#"{"name":"triage"}"#.into();
    create(&store, run).await;
    create(&store, new_run(2, &owner)).await;
    let digest = Digest::from_bytes([1; 32]);
    assert_eq!(store.config(digest).await.unwrap(), r#"{"name":"triage"}"#);
    let error = store.config(Digest::from_bytes([8; 32])).await.unwrap_err();
    assert!(matches!(error, ReadError::UnknownConfig { .. }), "{error}");
}

/// The title says it.
pub async fn the_status_follows_from_the_records<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    let mut expected = (RunStatus::Running, None);
    let summary = store.summary(lease.run()).await.unwrap();
    assert_eq!((summary.status, summary.wake_at), expected);
    for record in every_kind() {
        if !expected.0.is_end() {
            match record.body.kind() {
                RecordKind::Suspended => expected = (RunStatus::Suspended, Some(at(99))),
                RecordKind::Completed => expected = (RunStatus::Completed, None),
                _ => expected = (RunStatus::Running, None),
            }
        }
        let (kind, time) = (record.body.kind(), record.at);
        store.append(&mut lease, vec![record]).await.unwrap();
        let summary = store.summary(lease.run()).await.unwrap();
        assert_eq!((summary.status, summary.wake_at), expected, "after `{kind}`");
        assert_eq!((summary.updated_at, summary.records), (time, lease.next_seq()));
    }
    assert_eq!(expected.0, RunStatus::Completed);
    // A late outcome does not wake a run.
    let mut lease = create(&store, new_run(2, &owner)).await;
    let suspended = Body::Suspended { waiting_for: Vec::new(), wake_at: Some(at(7)) };
    let outcome = Outcome::Failed(Failure::new(FailureCode::Timeout, "x"));
    let records = vec![NewRecord::new(at(3), suspended), NewRecord::new(at(4), Body::late(outcome))];
    store.append(&mut lease, records).await.unwrap();
    let summary = store.summary(lease.run()).await.unwrap();
    assert_eq!((summary.status, summary.wake_at), (RunStatus::Suspended, Some(at(7))));
}

/// What the run's entry repeats of its records is compared with them at each read and acquisition, and must agree.
pub async fn a_run_is_read_and_acquired_whatever_it_ended_with<S: Store>(new: impl Fn() -> S) {
    let store = new();
    let outcome = Outcome::Failed(Failure::new(FailureCode::Timeout, "x"));
    let late = || NewRecord::new(at(30), Body::late(outcome.clone()));
    let kinds = every_kind();
    for (number, last) in (0u64..).zip(0..=kinds.len()) {
        let owner = Owner::in_process();
        let mut lease = create(&store, with_key(new_run(number, &owner), "acme", &number.to_string())).await;
        for records in [kinds[..last].to_vec(), Vec::new(), vec![late(), late()]] {
            store.append(&mut lease, records).await.unwrap();
            let all = store.read(lease.run(), 0).await.unwrap();
            for from in 0..=lease.next_seq() + 1 {
                let rest = store.read(lease.run(), from).await.unwrap();
                assert_eq!(rest, all[usize::try_from(from).unwrap().min(all.len())..]);
            }
        }
        let (run, head) = (lease.run(), lease.head());
        store.release(lease).await.unwrap();
        assert_eq!(store.acquire(run, &owner).await.unwrap().head(), head);
    }
    // An end hides whatever follows it, so each kind is also tried by itself.
    for (number, record) in (100u64..).zip(&kinds) {
        let owner = Owner::in_process();
        let mut lease = create(&store, new_run(number, &owner)).await;
        let run = lease.run();
        store.append(&mut lease, vec![record.clone(), late()]).await.unwrap();
        for from in 0..=3u64 {
            assert_eq!(store.read(run, from).await.unwrap().len() as u64, 3 - from);
        }
        drop(lease);
        store.acquire(run, &owner).await.unwrap();
    }
}

/// The title says it.
pub async fn a_listing_can_be_filtered<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    for number in 0..6 {
        let run = new_run(number, &owner);
        let run = if number % 2 == 0 { run } else { with_key(run, "acme", &number.to_string()) };
        let mut lease = create(&store, run).await;
        let wake_at = Some(at(100 * number));
        if number >= 2 {
            let suspended = Body::Suspended { waiting_for: Vec::new(), wake_at };
            store.append(&mut lease, vec![NewRecord::new(at(50), suspended)]).await.unwrap();
        }
    }
    let list = async |filter: RunFilter| -> Vec<u64> {
        let runs = store.runs(&filter).await.unwrap();
        runs.iter().map(|run| (0..6).find(|number| run_id(*number) == run.run).unwrap()).collect()
    };
    assert_eq!(list(RunFilter::default()).await, [5, 4, 3, 2, 1, 0]);
    assert_eq!(list(RunFilter { limit: 2, ..RunFilter::default() }).await, [5, 4]);
    assert_eq!(list(RunFilter { tenant: Some("acme".into()), ..RunFilter::default() }).await, [5, 3, 1]);
    assert_eq!(list(RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() }).await, [1, 0]);
    assert_eq!(list(RunFilter { wake_by: Some(at(300)), ..RunFilter::default() }).await, [3, 2]);
    let agent = |name: &str| RunFilter { agent: Some(name.parse().unwrap()), ..RunFilter::default() };
    assert_eq!(list(agent("triage")).await.len(), 6);
    assert_eq!(list(agent("closer")).await, [] as [u64; 0]);
    let both =
        RunFilter { tenant: Some("acme".into()), status: Some(RunStatus::Running), ..RunFilter::default() };
    assert_eq!(list(both).await, [1]);
}
