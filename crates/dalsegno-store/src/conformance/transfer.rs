//! Files, and runs that go from one journal to another.

use dalsegno_core::{Attachment, digest_json};

use super::*;
use crate::bytes::Link;
use crate::chain::{Row, seal};
use crate::{Archive, BlobError, Damage, EraseError, Flaw, Foreign, GcOptions, ImportError, digest_bytes};

/// The run with this number, with a configuration that has its digest and the file `plan.txt`.
pub fn portable_run(number: u64, owner: &Owner) -> NewRun {
    let mut run = new_run(number, owner);
    let config = serde_json::json!({ "name": "triage", "number": number / 10 });
    let (digest, file) = (digest_json(&config), format!("plan {number}").into_bytes());
    let plan = Attachment {
        name: "plan.txt".into(),
        media_type: "text/plain".into(),
        digest: digest_bytes(&file),
        bytes: file.len() as u64,
    };
    run.config = digest;
    run.config_json = config.to_string();
    if let Some(NewRecord { body: Body::Started(started), .. }) = run.records.first_mut() {
        started.config = digest;
        started.request.attachments = vec![plan];
    }
    run.blobs = vec![(digest_bytes(&file), file)];
    run
}

/// The title says it.
pub async fn files_are_kept_by_digest<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let file = |text: &str| (digest_bytes(text.as_bytes()), text.as_bytes().to_vec());
    let mut run = new_run(1, &owner);
    run.blobs = vec![file("a"), file(""), file("a")];
    create(&store, run).await;
    let mut run = new_run(2, &owner);
    run.blobs = vec![file("a"), file("b")];
    create(&store, run).await;
    for text in ["a", "b", ""] {
        assert_eq!(store.blob(file(text).0).await.unwrap(), Some(file(text).1));
    }
    assert_eq!(store.blob(file("c").0).await.unwrap(), None);
    // A start that creates nothing keeps nothing.
    let mut again = new_run(2, &owner);
    again.blobs = vec![file("d")];
    assert!(matches!(store.create(again).await.unwrap(), Created::Existing(_)));
    let mut refused = new_run(3, &owner);
    refused.blobs = vec![file("d"), (file("a").0, b"x".to_vec())];
    let error = store.create(refused).await.unwrap_err();
    assert!(matches!(error, CreateError::Blob(BlobError::Digest { .. })), "{error}");
    assert_eq!(store.blob(file("d").0).await.unwrap(), None);
    assert!(matches!(store.summary(run_id(3)).await, Err(ReadError::UnknownRun { .. })));
}

/// A store with a run that ended, one of its children that goes on, and one under a key that waits.
async fn source<S: Store>(new: impl Fn() -> S) -> (S, [RunId; 3]) {
    let (store, owner) = (new(), Owner::in_process());
    let mut ended = create(&store, portable_run(5, &owner)).await;
    store.append(&mut ended, every_kind()).await.unwrap();
    create(&store, child_of(portable_run(3, &owner), ended.run())).await;
    let mut waiting = create(&store, with_key(portable_run(4, &owner), "acme", "k")).await;
    let suspended = Body::Suspended { waiting_for: Vec::new(), wake_at: Some(at(99)) };
    store.append(&mut waiting, vec![NewRecord::new(at(50), suspended)]).await.unwrap();
    store.save_snapshot(&waiting, snapshot(1, "x")).await.unwrap();
    (store, [run_id(5), run_id(3), run_id(4)])
}

/// The title says it.
pub async fn an_exported_run_enters_another_journal_as_it_was<S: Store>(new: impl Fn() -> S) {
    let (from, runs) = source(&new).await;
    let archive = from.export(&[runs[2], runs[0], runs[1], runs[2]]).await.unwrap();
    assert_eq!(archive.runs().collect::<Vec<_>>(), runs, "in the order of creation");
    let archive = Archive::decode(&archive.encode()).unwrap();
    let to = new_elsewhere();
    let imported = to.import(archive).await.unwrap();
    assert_eq!((imported.added, imported.known), (runs.to_vec(), Vec::new()));
    for run in runs {
        assert_eq!(to.read(run, 0).await.unwrap(), from.read(run, 0).await.unwrap());
        let expected = from.summary(run).await.unwrap();
        let found = to.summary(run).await.unwrap();
        assert_eq!(found, RunSummary { owner: None, foreign: Some(Foreign::default()), ..expected });
        assert_eq!(to.config(found.config).await.unwrap(), from.config(found.config).await.unwrap());
        assert_eq!(to.snapshot(run).await.unwrap(), None);
    }
    for number in 3..=5 {
        let (digest, file) = portable_run(number, &Owner::in_process()).blobs.remove(0);
        assert_eq!(to.blob(digest).await.unwrap(), Some(file));
    }
    // The way back, and the same archive again.
    let archive = to.export(&runs[..2]).await.unwrap();
    assert_eq!(archive, from.export(&runs[..2]).await.unwrap());
    let imported = to.import(archive.clone()).await.unwrap();
    assert_eq!((imported.added, imported.known), (Vec::new(), runs[..2].to_vec()));
    let imported = from.import(archive).await.unwrap();
    assert_eq!(imported.known, runs[..2]);
}

/// The title says it.
pub async fn an_import_does_not_bring_back_what_was_erased<S: Store>(new: impl Fn() -> S) {
    let (store, elsewhere, owner) = (new(), new_elsewhere(), Owner::in_process());
    for number in [11, 12, 13] {
        ended(&elsewhere, portable_run(number, &owner), 50).await;
    }
    let all = elsewhere.export(&[run_id(11), run_id(12), run_id(13)]).await.unwrap();
    let file = |number: u64| portable_run(number, &Owner::in_process()).blobs.remove(0);
    for number in [11, 12] {
        ended(&store, portable_run(number, &owner), 50).await;
    }
    let own = store.export(&[run_id(11)]).await.unwrap();
    store.erase(run_id(11), None).await.unwrap();
    assert_eq!(store.import(own).await.unwrap().known, [run_id(11)]);
    assert_eq!(store.blob(file(11).0).await.unwrap(), None);
    // Neither does one that adds something else.
    let imported = store.import(all).await.unwrap();
    assert_eq!((imported.added, imported.known), (vec![run_id(13)], vec![run_id(11), run_id(12)]));
    assert_eq!(store.blob(file(11).0).await.unwrap(), None);
    for number in [12, 13] {
        assert_eq!(store.blob(file(number).0).await.unwrap(), Some(file(number).1));
    }
}

/// Runs move between kinds of stores, so the other end of a test is always the twin in memory.
fn new_elsewhere() -> crate::MemoryStore {
    crate::MemoryStore::new()
}

/// The title says it.
pub async fn nobody_performs_a_run_that_an_archive_brought<S: Store>(new: impl Fn() -> S) {
    let (from, owner) = (new_elsewhere(), Owner::in_process());
    // One that goes on, one that is due, one for which messages would wait; the first has a key.
    create(&from, in_session(with_key(portable_run(1, &owner), "acme", "k"), "s")).await;
    for number in [2, 3] {
        let mut lease = create(&from, in_session(portable_run(number, &owner), &format!("t{number}"))).await;
        let wake_at = (number == 2).then(|| at(60));
        let waiting_for = vec![WaitingFor {
            kind: "approval".into(),
            operation: OperationId::from_bytes([1; 16]),
            question: "may it?".into(),
        }];
        let suspended = Body::Suspended { waiting_for, wake_at };
        from.append(&mut lease, vec![NewRecord::new(at(50), suspended)]).await.unwrap();
    }
    let runs = [run_id(1), run_id(2), run_id(3)];
    let archive = from.export(&runs).await.unwrap();
    let store = new();
    assert_eq!(store.import(archive.clone()).await.unwrap().added, runs);

    // No worker finds one, no process takes one, no message reaches one.
    assert_eq!(store.takeable(&owner, at(1_000), 100).await.unwrap(), []);
    assert_eq!(store.next_wake(at(0)).await.unwrap(), None);
    for run in runs {
        let error = store.acquire(run, &owner).await.unwrap_err();
        assert!(matches!(error, AcquireError::Foreign { run: found } if found == run), "{error}");
        let error = store.post(run, Message::Look).await.unwrap_err();
        assert!(matches!(error, PostError::Foreign { run: found } if found == run), "{error}");
    }
    assert_eq!(store.takeable(&owner, at(1_000), 100).await.unwrap(), []);

    // It has no key, no session and no id that a start would find.
    let error =
        store.create(in_session(with_key(portable_run(1, &owner), "acme", "k"), "s")).await.unwrap_err();
    assert!(matches!(error, CreateError::RunConflict { run } if run == runs[0]), "{error}");
    let mut own = create(&store, in_session(with_key(portable_run(5, &owner), "acme", "k"), "s")).await;
    let again = store.create(with_key(portable_run(5, &owner), "acme", "k")).await.unwrap();
    assert!(matches!(again, Created::Existing(run) if run == run_id(5)), "{again:?}");
    assert_eq!(store.import(archive).await.unwrap().known, runs);
    store.append(&mut own, vec![note(1)]).await.unwrap();

    // It is listed as what it is.
    let list = async |filter: RunFilter| -> Vec<RunId> {
        store.runs(&filter).await.unwrap().iter().map(|run| run.run).collect()
    };
    let all = RunFilter::default;
    assert_eq!(list(RunFilter { foreign: Some(true), ..all() }).await, [runs[2], runs[1], runs[0]]);
    assert_eq!(list(RunFilter { foreign: Some(false), ..all() }).await, [run_id(5)]);
    assert_eq!(list(RunFilter { wake_by: Some(at(100)), ..all() }).await, []);
    assert_eq!(store.read(runs[1], 0).await.unwrap(), from.read(runs[1], 0).await.unwrap());

    // Nobody has to end it first: its content can be erased, and it goes when it is old.
    assert!(matches!(store.erase(run_id(5), None).await, Err(EraseError::NotEnded { .. })));
    assert!(store.erase(runs[0], None).await.unwrap().records > 0);
    assert!(matches!(store.read(runs[0], 0).await, Err(ReadError::Erased { .. })));
    let report = store.gc(&GcOptions::new(at(1_000))).await.unwrap();
    assert_eq!(report.runs, 2, "the third is in the session of a run that goes on");
    assert_eq!(list(all()).await, [run_id(5), runs[0]]);
}

/// The title says it.
pub async fn an_archive_reaches_no_run_of_the_journals_own<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    ended(&store, in_session(portable_run(1, &owner), "s"), 50).await;
    let after = |number, session: &str| {
        let mut run = in_session(portable_run(number, &owner), session);
        if let Some(NewRecord { body: Body::Started(started), .. }) = run.records.first_mut() {
            started.predecessor = Some(run_id(1));
        }
        run
    };
    let forked = |number| {
        let mut run = in_session(portable_run(number, &owner), "fork");
        let (run_1, overrides, outcomes) = (run_id(1), Vec::new(), Vec::new());
        let body = Body::Forked {
            run: run_1,
            seq: 1,
            within: 0,
            step: 1,
            overrides,
            outcomes,
            ask_effects: true,
            foreign: false,
        };
        run.records.push(NewRecord::new(at(60), body));
        run
    };
    let mut other_tenant = after(4, "s");
    other_tenant.tenant = "acme".into();
    if let Some(NewRecord { body: Body::Started(started), .. }) = other_tenant.records.first_mut() {
        started.request.tenant = "acme".into();
    }
    for run in [child_of(portable_run(2, &owner), run_id(1)), after(3, "other"), other_tenant, forked(5)] {
        let id = run.run;
        let error = store.import(archive_of(&[portable_run(9, &owner), run])).await.unwrap_err();
        assert!(
            matches!(error, ImportError::Reaches { run, own } if run == id && own == run_id(1)),
            "{error}"
        );
        assert_eq!(store.runs(&RunFilter::default()).await.unwrap().len(), 1, "{error}");
    }
    // A later run of the same tenant's session may come back to those before it.
    assert_eq!(store.import(archive_of(&[after(6, "s")])).await.unwrap().added, [run_id(6)]);
    // What an archive brought it may name as it likes.
    let known = archive_of(&[child_of(portable_run(7, &owner), run_id(6))]);
    assert_eq!(store.import(known).await.unwrap().added, [run_id(7)]);
}

/// The title says it.
pub async fn an_import_into_any_store_is_whole<S: Store>(new: impl Fn() -> S) {
    let (from, runs) = source(new_elsewhere).await;
    let archive = from.export(&runs).await.unwrap();
    let to = new();
    assert_eq!(to.import(archive.clone()).await.unwrap().added, runs);
    assert_eq!(to.import(archive.clone()).await.unwrap().known, runs);
    assert_eq!(to.export(&runs).await.unwrap(), archive);
    assert_eq!(to.runs(&RunFilter::default()).await.unwrap().len(), 3);
    assert!(matches!(from.export(&[run_id(77)]).await, Err(ReadError::UnknownRun { .. })));
    assert!(matches!(to.export(&[run_id(77)]).await, Err(ReadError::UnknownRun { .. })));
    assert_eq!(to.export(&[]).await.unwrap().runs().len(), 0);
}

/// A run's rows, its configuration and its file, as an archive is made of them.
fn parts(run: &NewRun) -> (RunId, Digest, Vec<Row>) {
    (run.run, run.request_digest, seal(run.run, 0, Link::default(), &run.records).unwrap())
}

/// A change of a run's rows.
type Change = fn(&mut Vec<Row>);

fn archive_of(runs: &[NewRun]) -> Archive {
    let configs = runs.iter().map(|run| (run.config, run.config_json.clone())).collect();
    let blobs = runs.iter().flat_map(|run| run.blobs.clone()).collect();
    Archive::new(runs.iter().map(parts), configs, blobs)
}

/// The title says it.
pub async fn a_refused_import_adds_nothing<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    create(&store, portable_run(1, &owner)).await;
    create(&store, portable_run(2, &owner)).await;
    let good = portable_run(50, &owner);
    let refuse = async |archive: Archive| -> ImportError {
        let error = store.import(archive).await.unwrap_err();
        assert_eq!(store.runs(&RunFilter::default()).await.unwrap().len(), 2, "{error}");
        assert_eq!(store.blob(good.blobs[0].0).await.unwrap(), None, "{error}");
        assert!(matches!(store.config(good.config).await, Err(ReadError::UnknownConfig { .. })), "{error}");
        error
    };
    let beside = |run: NewRun| archive_of(&[good.clone(), run]);

    let mut other = portable_run(1, &owner);
    other.records.push(note(1));
    let error = refuse(beside(other)).await;
    assert!(matches!(error, ImportError::RunConflict { run } if run == run_id(1)), "{error}");

    let error = refuse(archive_of(&[good.clone(), good.clone()])).await;
    assert!(matches!(error, ImportError::Twice { run } if run == good.run), "{error}");

    let (configs, blobs) = (BTreeMap::new(), BTreeMap::new());
    let error = refuse(Archive::new([parts(&good)], configs, blobs)).await;
    assert!(matches!(error, ImportError::MissingConfig { digest, .. } if digest == good.config), "{error}");
    for json in ["{}", "{", ""] {
        let configs = BTreeMap::from([(good.config, json.to_owned())]);
        let error = refuse(Archive::new([parts(&good)], configs, BTreeMap::new())).await;
        assert!(matches!(error, ImportError::Config { digest } if digest == good.config), "{error}");
    }
    let mut forged = portable_run(3, &owner);
    forged.blobs[0].1.push(b'x');
    let error = refuse(beside(forged)).await;
    assert!(matches!(error, ImportError::Blob(BlobError::Digest { .. })), "{error}");

    // Rows: nothing that a read would refuse comes in.
    let configs = || BTreeMap::from([(good.config, good.config_json.clone())]);
    let mut longer = good.clone();
    longer.records.extend([note(1), note(2)]);
    let change = |what: Change| {
        let (run, request, mut rows) = parts(&longer);
        what(&mut rows);
        Archive::new([(run, request, rows)], configs(), BTreeMap::new())
    };
    let changes: [(Change, u64, Flaw); 6] = [
        (|rows| rows[1].body.as_mut().unwrap()[3] ^= 1, 1, Flaw::Checksum),
        (|rows| rows[1].at = at(1), 1, Flaw::Link),
        (|rows| rows.swap(1, 2), 1, Flaw::Link),
        (|rows| drop(rows.remove(1)), 1, Flaw::Link),
        (|rows| drop(rows.remove(0)), 0, Flaw::Link),
        (Vec::clear, 0, Flaw::NotStarted),
    ];
    for (what, seq, flaw) in changes {
        let error = refuse(change(what)).await;
        let ImportError::Run { run, source: ReadError::Damaged(Damage { seq: found, what, .. }) } = error
        else {
            panic!("{error:?}")
        };
        assert_eq!((run, found, what), (good.run, seq, flaw));
    }
    let mut headless = longer.clone();
    headless.records.remove(0);
    let error = refuse(Archive::new([parts(&headless)], configs(), BTreeMap::new())).await;
    assert!(
        matches!(&error, ImportError::Run { source: ReadError::Damaged(damage), .. } if damage.what == Flaw::NotStarted),
        "{error}"
    );
    // And the good one alone does.
    assert_eq!(store.import(archive_of(std::slice::from_ref(&good))).await.unwrap().added, [good.run]);
}
