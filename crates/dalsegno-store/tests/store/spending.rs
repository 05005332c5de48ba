//! Budgets hold for all who use a file: each store here is a connection of its own, as another process has it.

use dalsegno_store::{Allowance, SqliteStore, Store};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stores_on_one_file_never_reserve_more_together_than_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let allowance = || Allowance { account: "acme".into(), day: "2026-11-25".into(), most_nano_usd: 1_000 };
    drop(SqliteStore::open(&path).unwrap());
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let path = path.clone();
            tokio::spawn(async move {
                let store = SqliteStore::open(&path).unwrap();
                let mut kept = 0;
                for _ in 0..50 {
                    if store.reserve(&[allowance()], 30).await.is_ok() {
                        // Every other call turns out not to have been made.
                        let spent = if kept % 2 == 0 { 30 } else { 0 };
                        store.settle(&[allowance()], 30, spent).await.unwrap();
                        kept += 1;
                    }
                    assert!(store.spent("acme", "2026-11-25").await.unwrap() <= 1_000);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.spent("acme", "2026-11-25").await.unwrap(), 990);
}
