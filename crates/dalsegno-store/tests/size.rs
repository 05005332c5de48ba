//! How many bytes of the file a turn takes.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use dalsegno_core::{
    CallRequest, Digest, EffectClass, ModelReply, OperationId, Outcome, ReplyPart, StopReason, Timestamp,
    ToolReturn, Validation,
};
use dalsegno_store::conformance::{create, new_run};
use dalsegno_store::{Body, Lease, NewRecord, Owner, SqliteStore, Start, Store};
use serde_json::json;

const NOW: u64 = 1_900_000_000_000;

fn id(bytes: [&[u8]; 2]) -> Digest {
    dalsegno_store::digest_bytes(&bytes.concat())
}

/// What a run writes for one model call and one addition, as the runtime's own bench does.
fn turn(run: &[u8], turn: u64, filling: &str) -> [Vec<NewRecord>; 2] {
    let at = Timestamp::from_millis(NOW + turn * 7);
    let operation = |which: u8| {
        let digest = id([run, &[&turn.to_le_bytes()[..], &[which]].concat()]);
        OperationId::from_bytes(digest.as_bytes()[..16].try_into().unwrap())
    };
    let requested = |step, label: &str, which: u8| {
        let digest = id([&[which], &turn.to_le_bytes()]);
        let (label, class, start) = (label.to_owned(), EffectClass::Read, Start::Now);
        let body = Body::Requested { step, ordinal: vec![0], label, digest, class, start };
        NewRecord::of(at, operation(which), body)
    };
    let resolved = |outcome, which| {
        NewRecord::of(at, operation(which), Body::Resolved { outcome, attempts: 1, elapsed_ms: turn % 3 })
    };
    let call = CallRequest {
        call_id: format!("call_{turn}"),
        name: "math.add".to_owned(),
        arguments: format!(r#"{{"a":{turn},"b":1}}"#),
        validation: Some(Validation::Valid { arguments: json!({ "a": turn, "b": 1 }) }),
    };
    let reply = ModelReply::new(vec![ReplyPart::Call(call)], StopReason::ToolCalls);
    let reply = ModelReply { input_tokens: 10, output_tokens: 5, ..reply };
    let returned =
        ToolReturn { text: filling.to_owned(), ..ToolReturn::structured(json!({ "sum": turn + 1 })) };
    [
        vec![resolved(Outcome::ModelReplied(reply), 0), requested(2 * turn + 1, "tool `math.add`", 1)],
        vec![resolved(Outcome::ToolReturned(returned), 1), requested(2 * turn + 2, "model completion", 0)],
    ]
}

async fn write(store: &SqliteStore, lease: &mut Lease, number: u64, filling: &str) {
    let run = *lease.run().as_bytes();
    for records in turn(&run, number, filling) {
        store.append(lease, records).await.unwrap();
    }
}

/// The bytes of the file for each turn of so many runs, which take turns.
async fn bytes_a_turn(runs: u64, turns: u64, filling: impl Fn(u64) -> String) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let store = SqliteStore::open(&path).unwrap();
    let owner = Owner::in_process();
    let mut leases = Vec::new();
    for number in 0..runs {
        leases.push(create(&store, new_run(number, &owner)).await);
    }
    drop(store);
    let before = std::fs::metadata(&path).unwrap().len();
    let store = SqliteStore::open(&path).unwrap();
    for number in 0..turns {
        for lease in &mut leases {
            write(&store, lease, number, &filling(number)).await;
        }
    }
    drop(store);
    (std::fs::metadata(&path).unwrap().len() - before) / (turns * runs)
}

#[tokio::test]
async fn a_trivial_turn_takes_less_than_600_bytes_whether_the_runs_are_few_or_many_short_or_long() {
    let mut found = Vec::new();
    for (runs, turns) in [(1, 200), (1, 2_000), (20, 100)] {
        let bytes = bytes_a_turn(runs, turns, |_| String::new()).await;
        found.push((runs, turns, bytes));
    }
    println!("{found:?}");
    assert!(found.iter().all(|(.., bytes)| *bytes < 600), "runs, turns, bytes a turn: {found:?}");
}

/// Text that no compressor makes much shorter than the half.
fn noise(seed: u64, length: usize) -> String {
    let mut bytes = vec![0; length / 2];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn larger_turns_take_at_most_twice_the_text_of_their_messages() {
    for length in [1_000, 3_000, 4_200, 20_000] {
        let bytes = bytes_a_turn(1, 50, |number| noise(number, length)).await;
        println!("{length}: {bytes}");
        // The arguments, the names and the result around the text are left out of the measure.
        assert!(bytes < 2 * length as u64, "{bytes} bytes for {length}");
        let same = bytes_a_turn(1, 50, |_| noise(7, length)).await;
        assert!(length < 4_096 || same < 1_000, "{same} bytes for a text that is there already");
    }
}

/// So many runs that wait until a time, with all that belongs to them, made of one by SQL: their chains do not verify.
fn multiply(path: &std::path::Path, runs: u64) {
    let behind = rusqlite::Connection::open(path).unwrap();
    behind
        .execute_batch(&format!(
            "PRAGMA synchronous = off; BEGIN;
             WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {runs})
             INSERT INTO run (id, run, agent, tenant, session, config, start_key, request_digest, status, wake_at, waiting,
                started_at, updated_at, owner, epoch, next_seq, head, parent, posted, seal)
             SELECT i, randomblob(16), agent, tenant, hex(randomblob(8)), config, NULL, request_digest, status,
                wake_at + i, waiting, started_at, updated_at, owner, epoch, next_seq, randomblob(16), parent, posted, seal
             FROM run, n WHERE id = 1;
             WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {runs})
             INSERT INTO record SELECT (i << 32) + (key & 4294967295), at, kind, form, operation, parent, body,
                randomblob(16), randomblob(16) FROM n, record WHERE key < 2 << 32 ORDER BY 1;
             COMMIT; PRAGMA wal_checkpoint(TRUNCATE)"
        ))
        .unwrap();
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

const CHILD: &str = "DALSEGNO_SIZE_TEST_FILE";

/// Asks what a worker asks, of a journal of this size, and says how much memory that took.
#[expect(clippy::print_stdout, reason = "this is how the child answers")]
fn ask(path: &std::path::Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let owner = Owner::in_process();
        let before = resident();
        let store = SqliteStore::open(path).unwrap();
        for _ in 0..100 {
            assert_eq!(store.takeable(&owner, Timestamp::from_millis(NOW - 1), 100).await.unwrap(), []);
            assert!(store.next_wake(Timestamp::from_millis(0)).await.unwrap().is_some());
        }
        assert_eq!(store.takeable(&owner, Timestamp::from_millis(NOW + 1), 100).await.unwrap().len(), 1);
        println!("resident {}", resident() - before);
    });
}

#[tokio::test]
async fn a_hundred_thousand_suspended_runs_take_no_memory_and_little_of_the_disk() {
    const RUNS: u64 = 100_000;
    if let Some(path) = std::env::var_os(CHILD) {
        let path = std::path::PathBuf::from(path);
        return std::thread::spawn(move || ask(&path)).join().unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for runs in [10, RUNS] {
        let path = folder.path().join(format!("{runs}.db"));
        let (store, owner) = (SqliteStore::open(&path).unwrap(), Owner::in_process());
        let mut lease = create(&store, new_run(1, &owner)).await;
        let wake_at = Some(Timestamp::from_millis(NOW));
        let waiting_for = vec![dalsegno_store::WaitingFor {
            kind: "approval".into(),
            operation: OperationId::from_bytes([3; 16]),
            question: "call `math.add`?".into(),
        }];
        let mut records: Vec<NewRecord> = turn(lease.run().as_bytes(), 1, "").into_iter().flatten().collect();
        records.push(NewRecord::new(Timestamp::from_millis(NOW), Body::Suspended { waiting_for, wake_at }));
        store.append(&mut lease, records).await.unwrap();
        store.release(lease).await.unwrap();
        drop(store);
        multiply(&path, runs);
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_hundred_thousand_suspended_runs_take_no_memory_and_little_of_the_disk",
                "--nocapture",
            ])
            .env(CHILD, &path)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let resident =
            text.lines().find_map(|line| line.strip_prefix("resident ")).unwrap_or_else(|| panic!("{text}"));
        found.push((resident.parse::<u64>().unwrap(), std::fs::metadata(&path).unwrap().len()));
    }
    let [(few, small), (many, large)] = found[..] else { unreachable!() };
    let (memory, disk) = (many.saturating_sub(few) / RUNS, (large - small) / RUNS);
    println!("{memory} B of memory, {disk} B of disk a suspended run ({few} B and {many} B in all)");
    assert!(memory < 16, "{memory} bytes of memory a run");
    assert!(disk < 2_000, "{disk} bytes of disk a run");
}
