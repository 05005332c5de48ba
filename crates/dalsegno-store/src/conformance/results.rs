//! Files that results bring: stored with their records, and kept as long as those.

use dalsegno_core::Attachment;

use super::*;
use crate::{Archive, GcOptions, GcReport, MemoryStore};

/// What a tool returned: these files, as their names say.
pub fn shown(operation: u8, files: &[&str]) -> NewRecord {
    let file = |text: &&str| Attachment {
        name: (*text).into(),
        media_type: "image/png".into(),
        digest: digest_bytes(text.as_bytes()),
        bytes: text.len() as u64,
    };
    let returned = ToolReturn { files: files.iter().map(file).collect(), ..ToolReturn::default() };
    let outcome = Outcome::ToolReturned(returned);
    let body = Body::Resolved { outcome, attempts: 1, elapsed_ms: 5 };
    let bytes = |text: &&str| (digest_bytes(text.as_bytes()), Arc::from(text.as_bytes()));
    NewRecord::of(at(1_001), OperationId::from_bytes([operation; 16]), body)
        .with_files(files.iter().map(bytes).collect())
}

/// The same without the bytes.
pub fn named(operation: u8, files: &[&str]) -> NewRecord {
    NewRecord { files: Vec::new(), ..shown(operation, files) }
}

async fn has<S: Store>(store: &S, text: &str) -> bool {
    let found = store.blob(digest_bytes(text.as_bytes())).await.unwrap();
    assert!(found.as_deref().is_none_or(|found| found == text.as_bytes()), "another file");
    found.is_some()
}

/// The title says it.
pub async fn files_of_results_come_with_their_records<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    store.append(&mut lease, vec![note(1), shown(1, &["a", "b"]), shown(2, &["b"])]).await.unwrap();
    // What is here need not come again.
    store.append(&mut lease, vec![named(3, &["a"])]).await.unwrap();
    assert!(has(&store, "a").await && has(&store, "b").await);
    let records = store.read(lease.run(), 0).await.unwrap();
    let bodies: Vec<&Body> = records.iter().skip(2).map(|record| &record.body).collect();
    let expected = [shown(1, &["a", "b"]), shown(2, &["b"]), shown(3, &["a"])];
    assert_eq!(bodies, expected.iter().map(|record| &record.body).collect::<Vec<_>>());
}

/// The title says it.
pub async fn a_result_whose_file_is_not_there_is_refused_whole<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    let error = store.append(&mut lease, vec![shown(1, &["a"]), named(2, &["b"])]).await.unwrap_err();
    let absent = digest_bytes(b"b");
    assert!(matches!(error, AppendError::Blob(BlobError::Absent { digest }) if digest == absent), "{error}");
    let mut forged = shown(1, &["a"]);
    forged.files[0].1 = Arc::from(&b"x"[..]);
    let error = store.append(&mut lease, vec![forged]).await.unwrap_err();
    assert!(matches!(error, AppendError::Blob(BlobError::Digest { .. })), "{error}");
    assert!(!has(&store, "a").await && !has(&store, "b").await && !has(&store, "x").await);
    assert_eq!(store.read(lease.run(), 0).await.unwrap().len(), 1);
    // The same lease may write.
    store.append(&mut lease, vec![shown(1, &["a"])]).await.unwrap();
    assert!(has(&store, "a").await);
}

/// The title says it.
pub async fn a_stale_lease_leaves_no_files<S: Store>(new: impl Fn() -> S) {
    let (store, owner, heir) = (new(), Owner::in_process(), Owner::in_process());
    let stale = create(&store, new_run(1, &owner)).await;
    let mut stale = stale;
    drop(owner);
    let mut lease = store.acquire(stale.run(), &heir).await.unwrap();
    assert!(store.append(&mut stale, vec![shown(1, &["a"])]).await.is_err());
    assert!(!has(&store, "a").await);
    store.append(&mut lease, vec![shown(1, &["b"])]).await.unwrap();
    assert!(has(&store, "b").await);
}

/// The title says it.
pub async fn files_of_results_stay_as_long_as_a_run_or_a_fork_needs_them<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let seen = async |number: u64, files: &[&str]| {
        let mut lease = create(&store, new_run(number, &owner)).await;
        store.append(&mut lease, vec![shown(1, files), completed(50)]).await.unwrap();
    };
    seen(1, &["gone", "shared"]).await;
    seen(2, &["forked"]).await;
    let mut open = create(&store, new_run(3, &owner)).await;
    store.append(&mut open, vec![shown(1, &["open", "shared"]), suspended(50, None)]).await.unwrap();
    let mut fork = new_run(4, &owner);
    let forked = Body::Forked {
        run: run_id(2),
        seq: 2,
        within: 0,
        step: 1,
        overrides: Vec::new(),
        outcomes: Vec::new(),
        ask_effects: false,
        foreign: false,
    };
    fork.records.push(NewRecord::new(at(9_000), forked));
    create(&store, fork).await;
    let report = store.gc(&GcOptions::new(at(1_000))).await.unwrap();
    assert_eq!((report.runs, report.files), (1, 1));
    for (text, stays) in [("gone", false), ("shared", true), ("forked", true), ("open", true)] {
        assert_eq!(has(&store, text).await, stays, "{text}");
    }
    assert_eq!(store.gc(&GcOptions::new(at(1_000))).await.unwrap(), GcReport::default());
}

/// The title says it.
pub async fn files_of_results_are_erased_with_them<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, new_run(1, &owner)).await;
    let records = vec![shown(1, &["one", "both"]), shown(2, &["both", "other"]), completed(50)];
    store.append(&mut lease, records).await.unwrap();
    let run = lease.run();
    let mut other = create(&store, new_run(2, &owner)).await;
    store.append(&mut other, vec![shown(1, &["other"]), completed(50)]).await.unwrap();
    let erased = store.erase(run, Some(OperationId::from_bytes([1; 16]))).await.unwrap();
    assert_eq!((erased.records, erased.files, erased.shared_files), (1, 1, 1));
    assert!(!has(&store, "one").await && has(&store, "both").await && has(&store, "other").await);
    let erased = store.erase(run, None).await.unwrap();
    assert_eq!((erased.files, erased.shared_files), (1, 1));
    assert!(!has(&store, "both").await && has(&store, "other").await);
    let erased = store.erase(other.run(), None).await.unwrap();
    assert_eq!((erased.files, erased.shared_files), (1, 0));
    assert!(!has(&store, "other").await);
}

/// The title says it.
pub async fn an_archive_carries_the_files_of_results<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let config = serde_json::json!({ "name": "triage" });
    let of = |number: u64| {
        let mut run = new_run(number, &owner);
        run.config = dalsegno_core::digest_json(&config);
        run.config_json = config.to_string();
        if let Body::Started(started) = &mut run.records[0].body {
            started.config = run.config;
        }
        run
    };
    let mut lease = create(&store, of(1)).await;
    // Far from the beginning of its run.
    let notes = (0..9).map(note);
    let records = notes.chain([shown(1, &["a", "b"]), completed(50)]).collect();
    store.append(&mut lease, records).await.unwrap();
    let run = lease.run();
    let archive = Archive::decode(&store.export(&[run]).await.unwrap().encode()).unwrap();
    let to = MemoryStore::new();
    to.import(archive.clone()).await.unwrap();
    assert!(has(&to, "a").await && has(&to, "b").await);
    assert_eq!(to.export(&[run]).await.unwrap(), archive);
    // The way into a store of this kind, and out of it again.
    let back = new_run(2, &owner).run;
    let mut elsewhere = create(&to, of(2)).await;
    to.append(&mut elsewhere, vec![shown(1, &["c"]), completed(50)]).await.unwrap();
    store.import(to.export(&[back]).await.unwrap()).await.unwrap();
    assert!(has(&store, "c").await);
    let erased = store.erase(back, None).await.unwrap();
    assert_eq!((erased.files, erased.shared_files), (1, 0));
    assert!(!has(&store, "c").await);
    let report = store.gc(&GcOptions::new(at(u64::MAX))).await.unwrap();
    assert!(report.runs == 2 && !has(&store, "a").await);
}

/// The title says it.
pub async fn a_run_that_hands_over_keeps_the_files_of_its_last_results<S: Store>(new: impl Fn() -> S) {
    let (store, owner) = (new(), Owner::in_process());
    let mut lease = create(&store, in_session(new_run(1, &owner), "s")).await;
    let refused = in_session(new_run(3, &owner), "another");
    let error = store.hand_off(&mut lease, vec![shown(1, &["a"]), handed_off(refused.run)], refused).await;
    assert!(error.is_err() && !has(&store, "a").await);
    let next = successor_of(new_run(2, &owner), run_id(1), "s");
    store.hand_off(&mut lease, vec![shown(1, &["a"]), handed_off(run_id(2))], next).await.unwrap();
    assert!(has(&store, "a").await);
    store.gc(&GcOptions::new(at(1 << 40))).await.unwrap();
    assert!(has(&store, "a").await, "the session is open");
}
