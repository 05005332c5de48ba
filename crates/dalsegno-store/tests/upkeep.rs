//! Examination, copies, pruning and erasure of a file, and what happens when the disk or the process gets in the way.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

use dalsegno_core::{Outcome, RunId, ToolReturn};
use dalsegno_store::conformance::{
    at, child_of, completed, create, ended, every_kind, in_session, long_text, new_run, note, portable_run,
    run_id, snapshot, suspended, with_key,
};
use dalsegno_store::{
    BackupError, Body, Checkup, EraseError, Finding, Flaw, GcOptions, GcReport, Message, NewRecord, NewRun,
    OpenError, Owner, Progress, ReadError, RunFilter, SqliteStore, StorageKind, Store,
};
use rusqlite::Connection;

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder.join("journal.db")).unwrap()
}

async fn examine(store: &SqliteStore) -> Checkup {
    store.doctor(|_| ()).await.unwrap()
}

async fn expect_sound(store: &SqliteStore) -> Checkup {
    let checkup = examine(store).await;
    assert!(checkup.is_sound(), "{:?}", checkup.findings);
    checkup
}

/// A record with a text that no compressor makes shorter than the half.
fn noise(seed: u64, length: usize) -> NewRecord {
    let mut bytes = vec![0; length / 2];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    let text = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let outcome = Outcome::ToolReturned(ToolReturn { text, ..ToolReturn::default() });
    NewRecord::new(at(70), Body::Resolved { outcome, attempts: 1, elapsed_ms: 1 })
}

/// A journal with a little of everything.
async fn fill(store: &SqliteStore, owner: &Owner) {
    let mut lease = create(store, portable_run(1, owner)).await;
    store.append(&mut lease, every_kind()).await.unwrap();
    store.save_snapshot(&lease, snapshot(3, "x")).await.unwrap();
    store.release(lease).await.unwrap();
    let mut lease = create(store, with_key(new_run(2, owner), "acme", "k")).await;
    let config = store.summary(lease.run()).await.unwrap().config;
    assert!(store.config(config).await.is_ok());
    store.append(&mut lease, vec![noise(1, 4_200), suspended(80, Some(900))]).await.unwrap();
    store.post(lease.run(), Message::Cancel { by: Some("ada".into()), reason: None }).await.unwrap();
    store.release(lease).await.unwrap();
    let mut lease = create(store, child_of(new_run(3, owner), run_id(1))).await;
    store.append(&mut lease, vec![note(1), completed(90)]).await.unwrap();
    store.release(lease).await.unwrap();
    store.erase(run_id(3), None).await.unwrap();
}

/// All that anybody can read, or why not; and what an examination says.
async fn see(store: &SqliteStore, owner: &Owner) -> (Vec<String>, bool) {
    let mut seen = Vec::new();
    let checkup = store.doctor(|_| ()).await;
    let mut sound = checkup.as_ref().is_ok_and(Checkup::is_sound);
    let mut note = |what: String, is_ok: bool, sound: &mut bool| {
        *sound &= is_ok;
        seen.push(what);
    };
    let runs = store.runs(&RunFilter::default()).await;
    note(format!("{runs:?}"), runs.is_ok(), &mut sound);
    for number in 1..=3 {
        let run = run_id(number);
        let records = store.read(run, 0).await;
        let fine = records.is_ok() || matches!(&records, Err(ReadError::Erased { .. })) && number == 3;
        note(format!("{records:?}"), fine, &mut sound);
        let inbox = store.inbox(run).await;
        note(format!("{inbox:?}"), inbox.is_ok(), &mut sound);
        let snapshot = store.snapshot(run).await;
        note(format!("{snapshot:?}"), snapshot.is_ok(), &mut sound);
        if let Ok(summary) = store.summary(run).await {
            let config = store.config(summary.config).await;
            note(format!("{config:?}"), config.is_ok(), &mut sound);
        }
    }
    let blob = store.blob(portable_run(1, owner).blobs[0].0).await;
    note(format!("{blob:?}"), blob.is_ok(), &mut sound);
    let takeable = store.takeable(owner, at(1_000), 10).await;
    note(format!("{takeable:?}"), takeable.is_ok(), &mut sound);
    let wake = store.next_wake(at(0)).await;
    note(format!("{wake:?}"), wake.is_ok(), &mut sound);
    (seen, sound)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// A folder in memory where there is one: these tests write many files.
fn fast_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Every change is checked with one in so many bytes.
const STRIDE: usize = 8;

#[test]
fn a_flipped_byte_of_a_file_is_reported_or_changes_nothing() {
    flip_bytes(STRIDE);
}

#[test]
#[ignore = "three minutes: `cargo test --workspace --test upkeep -- --ignored`"]
fn every_flipped_byte_of_a_file_is_reported_or_changes_nothing() {
    flip_bytes(1);
}

/// Flips a bit of one in so many bytes, one at a time.
#[expect(clippy::print_stdout, reason = "a test that prints when it is asked to")]
fn flip_bytes(stride: usize) {
    let folder = fast_folder();
    let owner = Owner::in_process();
    let expected = runtime().block_on(async {
        let store = open(folder.path());
        fill(&store, &owner).await;
        drop(store);
        // Small pages make a small file.
        let path = folder.path().join("journal.db");
        let raw = Connection::open(&path).unwrap();
        raw.execute_batch(
            "PRAGMA journal_mode = delete; PRAGMA page_size = 512; VACUUM; PRAGMA journal_mode = wal",
        )
        .unwrap();
        drop(raw);
        let store = open(folder.path());
        expect_sound(&store).await;
        let (seen, sound) = see(&store, &owner).await;
        assert!(sound, "{seen:?}");
        seen
    });
    let original = std::fs::read(folder.path().join("journal.db")).unwrap();
    let (next, reported, harmless) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (next, reported, harmless, folder) = (&next, &reported, &harmless, folder.path());
            let (owner, original, expected) = (&owner, &original, &expected);
            scope.spawn(move || {
                let (mine, runtime) = (folder.join(worker.to_string()), runtime());
                std::fs::create_dir(&mine).unwrap();
                loop {
                    // Further on in each part of the file, so that no place of a page is left out.
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    let index = part * stride + part % stride;
                    if index >= original.len() {
                        return;
                    }
                    let mut bytes = original.clone();
                    bytes[index] ^= 1 << (index % 8);
                    for name in ["journal.db-wal", "journal.db-shm"] {
                        let _ = std::fs::remove_file(mine.join(name));
                    }
                    std::fs::write(mine.join("journal.db"), bytes).unwrap();
                    let found = match SqliteStore::open(mine.join("journal.db")) {
                        Err(_) => None,
                        Ok(store) => Some(runtime.block_on(see(&store, owner))),
                    };
                    match found {
                        Some((seen, true)) => {
                            assert_eq!(
                                &seen, expected,
                                "byte {index} changes what is read and nobody says so"
                            );
                            harmless.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => {
                            reported.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let (reported, harmless) = (reported.into_inner(), harmless.into_inner());
    println!("{} bytes: {reported} flips reported, {harmless} harmless", original.len());
    // What is harmless is free space, and there is much of it in small tables.
    assert!(reported > 8_000 / stride as u64, "{reported} reported, {harmless} harmless");
}

#[tokio::test]
async fn an_examination_says_what_is_damaged_and_what_is_intact() {
    let folder = tempfile::tempdir().unwrap();
    let (store, owner) = (open(folder.path()), Owner::in_process());
    fill(&store, &owner).await;
    let seen = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&seen);
    let checkup = store
        .doctor(move |Progress { done, total }| {
            assert_eq!((told.fetch_add(1, Ordering::Relaxed) + 1, total), (done, 3));
        })
        .await
        .unwrap();
    assert!(checkup.is_sound(), "{:?}", checkup.findings);
    assert_eq!(seen.load(Ordering::Relaxed), 3);
    assert_eq!((checkup.version, checkup.runs, checkup.records, checkup.erased), (8, 3, 19 + 3 + 3, 3));
    assert_eq!((checkup.configs, checkup.files, checkup.snapshots, checkup.messages), (2, 2, 1, 1));

    type Test = fn(&Finding) -> bool;
    let changes: &[(&str, Test)] = &[
        ("UPDATE record SET at = 0 WHERE key = (1 << 32) + 4", |finding| {
            matches!(finding, Finding::Run { source: ReadError::Damaged(damage), run }
                if *run == run_id(1) && (damage.seq, damage.intact, damage.what) == (4, 4, Flaw::Link))
        }),
        (
            "UPDATE run SET status = 3 WHERE id = 2",
            |finding| matches!(finding, Finding::Run { source: ReadError::Damaged(damage), .. } if damage.what == Flaw::Copy { field: "status" }),
        ),
        (
            "UPDATE run SET head = zeroblob(16) WHERE id = 3",
            |finding| matches!(finding, Finding::Run { source: ReadError::Damaged(damage), .. } if damage.what == Flaw::Head),
        ),
        (
            "UPDATE run SET owner = zeroblob(16) WHERE id = 2",
            |finding| matches!(finding, Finding::Run { source: ReadError::Damaged(damage), .. } if damage.what == Flaw::Seal),
        ),
        (
            "UPDATE run SET tenant = 'acme' WHERE id = 3",
            |finding| matches!(finding, Finding::Run { source: ReadError::Damaged(damage), .. } if damage.what == Flaw::Seal),
        ),
        (
            "UPDATE run SET updated_at = 7 WHERE id = 3",
            |finding| matches!(finding, Finding::Run { source: ReadError::Damaged(damage), .. } if damage.what == Flaw::Copy { field: "updated_at" }),
        ),
        ("UPDATE config SET json = '{ }'", |finding| matches!(finding, Finding::Config { digest: Some(_) })),
        ("DELETE FROM config", |finding| {
            matches!(finding, Finding::Run { source: ReadError::UnknownConfig { .. }, .. })
        }),
        ("UPDATE blob SET bytes = x'00'", |finding| matches!(finding, Finding::File { digest: Some(_) })),
        ("UPDATE snapshot SET seq = 2", |finding| matches!(finding, Finding::Snapshot { .. })),
        ("UPDATE inbox SET number = 7", |finding| {
            matches!(finding, Finding::Run { source: ReadError::DamagedMessage { number: 7, .. }, .. })
        }),
        ("UPDATE reference SET digest = zeroblob(32) WHERE place < 0", |finding| {
            matches!(finding, Finding::References { .. })
        }),
        ("DELETE FROM run WHERE id = 1", |finding| {
            matches!(finding, Finding::Orphans { table: "record", rows: 19 })
        }),
        (
            "DROP INDEX run_owner",
            |finding| matches!(finding, Finding::Schema { name } if name == "run_owner"),
        ),
    ];
    for (change, is_found) in changes {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        fill(&store, &owner).await;
        Connection::open(store.path()).unwrap().execute_batch(change).unwrap();
        let checkup = examine(&store).await;
        assert!(checkup.findings.iter().any(is_found), "{change}: {:?}", checkup.findings);
        // The rest was examined all the same.
        assert!(checkup.runs >= 2, "{change}");
        for finding in &checkup.findings {
            assert!(!finding.to_string().is_empty());
        }
    }
}

#[tokio::test]
async fn files_that_are_not_here_are_counted_and_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (store, owner) = (open(folder.path()), Owner::in_process());
    for number in 1..4 {
        let mut run = portable_run(if number == 3 { 1 } else { number }, &owner);
        run.run = run_id(number);
        run.blobs.retain(|_| number == 2);
        ended(&store, new_session(run, number), 50).await;
    }
    let checkup = expect_sound(&store).await;
    assert_eq!((checkup.files, checkup.missing_files), (1, 1), "two runs refer to the same missing one");
}

/// The same run in a session of its own.
fn new_session(run: NewRun, number: u64) -> NewRun {
    in_session(run, &format!("session {number}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_whole_though_others_write_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let (store, owner) = (Arc::new(open(folder.path())), Owner::in_process());
    fill(&store, &owner).await;
    let mut lease = create(&*store, new_run(7, &owner)).await;
    let first: Vec<NewRecord> = (0..2_000).map(|seed| noise(seed, 3_000)).collect();
    store.append(&mut lease, first).await.unwrap();
    let (done, writes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let writer = {
        let (store, done, writes) = (Arc::clone(&store), Arc::clone(&done), Arc::clone(&writes));
        tokio::spawn(async move {
            while done.load(Ordering::Relaxed) == 0 {
                store.append(&mut lease, vec![note(1)]).await.unwrap();
                writes.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let copy = folder.path().join("copy.db");
    let steps = Arc::new(AtomicU64::new(0));
    let (told, seen) = (Arc::clone(&steps), Arc::clone(&writes));
    let backup = store.backup(&copy, move |Progress { done, total }| {
        assert!(done <= total);
        told.fetch_add(1, Ordering::Relaxed);
        // Each step waits for a write between it and the next one.
        let before = seen.load(Ordering::Relaxed);
        while seen.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
    });
    backup.await.unwrap();
    done.store(1, Ordering::Relaxed);
    writer.await.unwrap();
    assert!(steps.load(Ordering::Relaxed) > 1, "one step copied all");
    let copied = SqliteStore::open(&copy).unwrap();
    expect_sound(&copied).await;
    let records = copied.read(run_id(7), 0).await.unwrap();
    assert!(records.len() > 2_000);
    assert_eq!(records, store.read(run_id(7), 0).await.unwrap()[..records.len()]);
    drop(copied);
    let before = std::fs::read(&copy).unwrap();
    let error = store.backup(&copy, |_| ()).await.unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error}");
    assert_eq!(std::fs::read(&copy).unwrap(), before);
    let error = store.backup(folder.path().join("missing/copy.db"), |_| ()).await.unwrap_err();
    assert!(matches!(error, BackupError::Target { .. }), "{error}");
}

#[tokio::test]
async fn a_copy_of_a_damaged_journal_is_refused_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (store, owner) = (open(folder.path()), Owner::in_process());
    fill(&store, &owner).await;
    Connection::open(store.path())
        .unwrap()
        .execute("UPDATE record SET at = 0 WHERE key & 7 = 2", [])
        .unwrap();
    let copy = folder.path().join("copy.db");
    let error = store.backup(&copy, |_| ()).await.unwrap_err();
    let BackupError::Damaged { checkup, .. } = &error else { panic!("{error}") };
    assert!(!checkup.is_sound());
    assert!(error.to_string().contains("record 2 of run"), "{error}");
    assert!(!copy.exists());
}

/// All bytes of the journal's files.
fn files(folder: &Path) -> Vec<u8> {
    let names = ["journal.db", "journal.db-wal"];
    names.iter().flat_map(|name| std::fs::read(folder.join(name)).unwrap_or_default()).collect()
}

/// Pieces of stored content of a run: what must be gone after an erasure.
fn pieces(path: &Path, row: i64) -> BTreeSet<Vec<u8>> {
    const PIECE: usize = 24;
    let behind = Connection::open(path).unwrap();
    let mut statement = behind
        .prepare(
            "SELECT body FROM record WHERE key >> 32 = ?1 AND form <> 3 AND kind = 6
             UNION ALL SELECT bytes FROM reference JOIN blob USING (digest) WHERE record >> 32 = ?1",
        )
        .unwrap();
    let stored = statement.query_map([row], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    let pieces =
        stored.flat_map(|bytes| bytes.unwrap().chunks_exact(PIECE).map(<[u8]>::to_vec).collect::<Vec<_>>());
    pieces.collect()
}

fn count(haystack: &[u8], pieces: &BTreeSet<Vec<u8>>) -> usize {
    haystack.windows(24).filter(|window| pieces.contains(*window)).count()
}

#[tokio::test]
async fn erased_bytes_are_nowhere_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let (store, owner) = (open(folder.path()), Owner::in_process());
    // Many runs take turns, so that pages are split and rows move.
    let mut leases = Vec::new();
    for number in 0..12 {
        leases.push(create(&store, portable_run(number, &owner)).await);
    }
    for round in 0..12 {
        for (number, lease) in (0..).zip(&mut leases) {
            store
                .append(lease, vec![noise(number * 1_000 + round, 300 + 800 * (round as usize % 8))])
                .await
                .unwrap();
        }
    }
    let mut leases = leases.into_iter();
    let (mut one, other) = (leases.next().unwrap(), leases.next().unwrap());
    store.append(&mut one, vec![completed(99)]).await.unwrap();
    store.save_snapshot(&one, snapshot(1, "x")).await.unwrap();
    let (gone, stay) = (pieces(store.path(), 1), pieces(store.path(), 2));
    assert!(gone.len() > 100 && count(&files(folder.path()), &gone) >= gone.len());
    let head = store.summary(one.run()).await.unwrap();
    store.erase(one.run(), None).await.unwrap();
    assert_eq!(count(&files(folder.path()), &gone), 0, "something was left");
    assert!(count(&files(folder.path()), &stay) >= stay.len());
    assert_eq!(std::fs::metadata(folder.path().join("journal.db-wal")).unwrap().len(), 0);
    assert_eq!(store.summary(one.run()).await.unwrap(), head);
    let checkup = expect_sound(&store).await;
    assert_eq!(checkup.erased, 14);
    assert_eq!(store.read(other.run(), 0).await.unwrap().len(), 13);
}

#[tokio::test]
async fn an_erasure_says_when_a_reader_keeps_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let (store, owner) = (open(folder.path()), Owner::in_process());
    let run = ended(&store, portable_run(1, &owner), 50).await;
    let reader = Connection::open(store.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM record").unwrap();
    let error = store.erase(run, None).await.unwrap_err();
    assert!(matches!(error, EraseError::Busy { .. }), "{error}");
    assert!(matches!(store.read(run, 0).await, Err(ReadError::Erased { .. })));
    reader.execute_batch("COMMIT").unwrap();
    store.erase(run, None).await.unwrap();
    assert_eq!(std::fs::metadata(folder.path().join("journal.db-wal")).unwrap().len(), 0);
}

/// Polls a future so often and drops it: what happens to a caller that is killed between two steps.
async fn poll_so_often<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut polls = 0;
    std::future::poll_fn(|context| {
        if polls == times {
            return Poll::Ready(None);
        }
        polls += 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

async fn prunable(folder: &Path, owner: &Owner) -> SqliteStore {
    let store = open(folder);
    for number in 0..4 {
        let mut lease = create(&store, portable_run(number, owner)).await;
        let records = (0..if number == 1 { 3_500 } else { 2 }).map(|_| note(1));
        store.append(&mut lease, records.chain([long_text("x"), completed(50)]).collect()).await.unwrap();
    }
    create(&store, portable_run(9, owner)).await;
    store
}

#[tokio::test]
async fn a_pruning_that_is_stopped_between_any_two_steps_leaves_whole_runs_and_is_finished_by_the_next() {
    let options = GcOptions::new(at(1_000));
    let mut stopped = 0;
    for times in 1.. {
        let folder = fast_folder();
        let owner = Owner::in_process();
        let store = prunable(folder.path(), &owner).await;
        let done = poll_so_often(store.gc(&options), times).await;
        // What was queued is done; a process that is killed now leaves the file like this.
        drop(store);
        let store = open(folder.path());
        expect_sound(&store).await;
        for run in store.runs(&RunFilter::default()).await.unwrap() {
            assert_eq!(store.read(run.run, 0).await.unwrap().len() as u64, run.records);
        }
        let mut dry = options.clone();
        dry.dry_run = true;
        let expected = store.gc(&dry).await.unwrap();
        assert_eq!(store.gc(&options).await.unwrap(), expected);
        assert_eq!(store.runs(&RunFilter::default()).await.unwrap().len(), 1);
        let checkup = expect_sound(&store).await;
        assert_eq!((checkup.records, checkup.files), (1, 1));
        let behind = Connection::open(store.path()).unwrap();
        let rest: i64 = behind.query_row("SELECT count(*) FROM doomed", [], |row| row.get(0)).unwrap();
        assert_eq!(rest, 0);
        match done {
            Some(report) => {
                assert_eq!(report.unwrap().runs, 4);
                assert_eq!(expected, GcReport::default());
                break;
            }
            None => stopped += 1,
        }
    }
    assert!(stopped > 5, "{stopped} steps");
}

/// Copies the files of a journal that is open, with so much of its log.
fn copy_torn(from: &Path, to: &Path, log: &[u8]) {
    let _ = std::fs::remove_file(to.join("journal.db-shm"));
    std::fs::copy(from.join("journal.db"), to.join("journal.db")).unwrap();
    std::fs::write(to.join("journal.db-wal"), log).unwrap();
}

#[tokio::test]
async fn a_log_that_is_torn_anywhere_recovers_to_the_last_acknowledged_record() {
    const HEADER: usize = 32;
    const FRAME: usize = 24 + 4096;
    let folder = fast_folder();
    let (store, owner) = (open(folder.path()), Owner::in_process());
    let run = create(&store, new_run(1, &owner)).await;
    let log = || std::fs::read(folder.path().join("journal.db-wal")).unwrap();
    let mut acknowledged = vec![(log().len(), 1)];
    let mut lease = run;
    for number in 0..12 {
        store.append(&mut lease, vec![noise(number, 5_000), note(1)]).await.unwrap();
        acknowledged.push((log().len(), usize::try_from(lease.next_seq()).unwrap()));
    }
    let whole = log();
    let expected = store.read(lease.run(), 0).await.unwrap();
    let frames = (whole.len() - HEADER) / FRAME;
    assert!(frames > 30, "{frames}");
    let torn = fast_folder();
    let mut cuts = 0;
    for frame in 0..=frames {
        let boundary = HEADER + frame * FRAME;
        for cut in
            [boundary, boundary + 1, boundary + 24, boundary + 25, boundary + FRAME / 2, boundary + FRAME - 1]
        {
            if cut > whole.len() {
                continue;
            }
            let least =
                acknowledged.iter().filter(|(length, _)| *length <= cut).map(|(_, records)| *records).max();
            // Cut, or overwritten with zeros to the end, as a disk does that lost its last writes.
            let mut zeroed = whole[..cut].to_vec();
            zeroed.resize(whole.len(), 0);
            for log in [&whole[..cut], &zeroed] {
                copy_torn(folder.path(), torn.path(), log);
                let store = match SqliteStore::open(torn.path().join("journal.db")) {
                    Ok(store) => store,
                    Err(error) => panic!("cut at {cut}: {error}"),
                };
                let found = match store.read(lease.run(), 0).await {
                    Ok(records) => records,
                    Err(ReadError::UnknownRun { .. }) => Vec::new(),
                    Err(error) => panic!("cut at {cut}: {error}"),
                };
                assert_eq!(found, expected[..found.len()], "cut at {cut}");
                assert!(found.len() >= least.unwrap_or(0), "cut at {cut}: {} of {least:?}", found.len());
                // Each commit is there whole or not at all.
                assert!(found.is_empty() || found.len() % 2 == 1, "cut at {cut}");
                expect_sound(&store).await;
                cuts += 1;
            }
        }
    }
    println!("{frames} frames, {cuts} torn logs");
}

const CHILD: &str = "DALSEGNO_UPKEEP_TEST_FOLDER";

/// Runs a test of this file again, in a shell that first does something.
fn again(name: &str, shell: &str, folder: &Path) -> std::process::Output {
    Command::new("sh")
        .args(["-c", &format!("{shell} exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, folder)
        .output()
        .unwrap()
}

/// The same with a mount of its own, if this user may make one.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn again_with_mount(name: &str, mount: &str, folder: &Path) -> bool {
    let allowed = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "tmpfs"]).arg(folder).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: {name}: this user may not mount anything in a namespace of its own");
        return false;
    }
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", &format!("{mount} && exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, folder)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    true
}

fn child_folder() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged_and_the_run_goes_on_when_there_is_room() {
    let Some(folder) = child_folder() else {
        let folder = tempfile::tempdir().unwrap();
        let mount = format!("mount -t tmpfs -o size=2m tmpfs {}", folder.path().display());
        let name = "a_full_disk_loses_nothing_that_was_acknowledged_and_the_run_goes_on_when_there_is_room";
        again_with_mount(name, &mount, folder.path());
        return;
    };
    runtime().block_on(async {
        let (store, owner) = (open(&folder), Owner::in_process());
        let mut lease = create(&store, new_run(1, &owner)).await;
        std::fs::write(folder.join("ballast"), vec![7; 600_000]).unwrap();
        let mut number = 0;
        let error = loop {
            number += 1;
            match store.append(&mut lease, vec![noise(number, 9_000)]).await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        let dalsegno_store::AppendError::Storage(storage) = &error else { panic!("{error}") };
        assert_eq!(storage.kind(), StorageKind::Full, "{error}");
        assert!(number > 10, "the disk was full from the beginning");
        let (run, acknowledged) = (lease.run(), lease.next_seq());
        assert_eq!(store.read(run, 0).await.unwrap().len() as u64, acknowledged);
        // More of the same: still an error, still nothing lost.
        assert!(store.append(&mut lease, vec![noise(0, 500_000)]).await.is_err());
        std::fs::remove_file(folder.join("ballast")).unwrap();
        drop(lease);
        let mut lease = store.acquire(run, &owner).await.unwrap();
        assert_eq!(lease.next_seq(), acknowledged);
        store.append(&mut lease, vec![noise(number, 9_000)]).await.unwrap();
        expect_sound(&store).await;
        drop(store);
        assert_eq!(open(&folder).read(run, 0).await.unwrap().len() as u64, acknowledged + 1);
    });
}

#[test]
fn a_journal_on_a_read_only_mount_is_refused_with_a_reason() {
    let Some(folder) = child_folder() else {
        let folder = tempfile::tempdir().unwrap();
        runtime().block_on(async {
            ended(&open(folder.path()), new_run(1, &Owner::in_process()), 50).await;
        });
        let place = folder.path().display();
        let mount = format!("mount --bind {place} {place} && mount -o remount,bind,ro {place}");
        again_with_mount("a_journal_on_a_read_only_mount_is_refused_with_a_reason", &mount, folder.path());
        // And when it may be written again, it goes on.
        let store = open(folder.path());
        assert_eq!(runtime().block_on(store.read(run_id(1), 0)).unwrap().len(), 2);
        return;
    };
    let error = SqliteStore::open(folder.join("journal.db")).unwrap_err();
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error:?}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

#[test]
fn too_many_open_files_are_an_error_that_passes() {
    let name = "too_many_open_files_are_an_error_that_passes";
    let Some(folder) = child_folder() else {
        let folder = tempfile::tempdir().unwrap();
        let output = again(name, "ulimit -n 64;", folder.path());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    };
    runtime().block_on(async {
        let (store, owner) = (open(&folder), Owner::in_process());
        let mut lease = create(&store, new_run(1, &owner)).await;
        let run: RunId = lease.run();
        let mut hogs = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            hogs.push(file);
        }
        // The writer has its files; a first reader needs some.
        store.append(&mut lease, vec![note(1)]).await.unwrap();
        let error = store.read(run, 0).await.unwrap_err();
        let ReadError::Storage(storage) = &error else { panic!("{error}") };
        assert_eq!(storage.kind(), StorageKind::Io, "{error}");
        assert!(matches!(SqliteStore::open(folder.join("other.db")), Err(OpenError::Inaccessible { .. })));
        assert!(Owner::claim(&folder.join("owners")).is_err());
        drop(hogs);
        assert_eq!(store.read(run, 0).await.unwrap().len(), 2);
        store.append(&mut lease, vec![note(2)]).await.unwrap();
        expect_sound(&store).await;
    });
}
