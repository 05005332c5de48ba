//! A process that is killed at any instant loses nothing that was acknowledged.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use dalsegno_store::conformance::{create, new_run, note, noted, run_id};
use dalsegno_store::{Owner, SqliteStore, Store};

const CHILD: &str = "DALSEGNO_CRASH_TEST_FOLDER";
const RUNS: u64 = 3;
/// More appends than a child lives to see; an orphan ends all the same.
const FOR_EVER: u32 = 100_000;

/// Appends to several runs at once for ever, and says what was acknowledged.
fn append_for_ever(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = std::sync::Arc::new(SqliteStore::open(folder.join("journal.db")).unwrap());
        let owner = Owner::claim(&folder.join("owners")).unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..RUNS {
            let (store, owner) = (store.clone(), owner.clone());
            tasks.spawn(async move {
                let mut lease = match store.acquire(run_id(number), &owner).await {
                    Ok(lease) => lease,
                    Err(_) => create(&*store, new_run(number, &owner)).await,
                };
                for _ in 0..FOR_EVER {
                    let next = u32::try_from(lease.next_seq()).unwrap();
                    let seqs = store.append(&mut lease, vec![note(next), note(next + 1)]).await.unwrap();
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "\nacknowledged {number} {}", seqs[1]).unwrap();
                    out.flush().unwrap();
                }
            });
        }
        tasks.join_all().await;
    });
}

#[test]
fn a_killed_process_loses_nothing_that_was_acknowledged() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return append_for_ever(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = [0; RUNS as usize];
    // The same file each time: a restart after a crash crashes again.
    for patience in [1, 2, 5, 11, 23, 40, 71, 3, 97, 150] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_process_loses_nothing_that_was_acknowledged", "--nocapture"])
            .env(CHILD, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut note = |line: String| {
            let Some(rest) = line.strip_prefix("acknowledged ") else { return false };
            // The last line may be cut by the kill, and then it is no acknowledgement.
            if let Some((run, seq)) = rest.split_once(' ')
                && let (Ok(run), Ok(seq)) = (run.parse::<usize>(), seq.parse::<u64>())
            {
                acknowledged[run] = acknowledged[run].max(seq);
            }
            true
        };
        let mut heard = 0;
        while heard < patience {
            let line = lines.next().expect("the child ended by itself").unwrap();
            heard += usize::from(note(line));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        // Without its line end the last number may be a prefix of the real one, which only asks for less.
        for line in rest {
            note(line);
        }

        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open(folder.path().join("journal.db")).unwrap();
            for (number, seq) in (0..).zip(acknowledged) {
                let records = match store.read(run_id(number), 0).await {
                    Err(_) if seq == 0 => continue,
                    records => records.unwrap(),
                };
                assert!(
                    records.len() as u64 > seq,
                    "run {number}: {} records, {seq} acknowledged",
                    records.len()
                );
                // Each append is there whole or not at all.
                assert_eq!(records.len() % 2, 1);
                for record in &records[1..] {
                    assert_eq!(record.body, noted(u32::try_from(record.seq).unwrap()));
                }
            }
        });
    }
    assert!(acknowledged.iter().sum::<u64>() >= 300, "{acknowledged:?}");
}
