//! What holds for any bytes: the body of the fuzz target.
//!
//! The target calls it with what libFuzzer invents; `tests/memory/corpus.rs` of `dalsegno-memory` calls it on stable with every file of
//! the corpus. A panic is a finding.

use std::io::{Cursor, Write};
use std::sync::{Arc, Mutex};

use dalsegno_memory::{ImportMode, Memory, Principal, Scope, ScopeResolver, ScopeSet, SqliteMemory};

/// What an export writes.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panics").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn exported(memory: &SqliteMemory, scopes: &ScopeSet) -> Vec<u8> {
    let lines = Lines::default();
    memory.export(scopes, Box::new(lines.clone())).await.expect("a memory can be exported");
    let bytes = lines.0.lock().expect("nobody panics");
    bytes.clone()
}

/// Lines are refused and nothing is written, or what they make can be exported, imported elsewhere and exported with the same
/// bytes.
pub fn import(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let principal = Principal::new("acme", "support", "triage", "session-1").expect("names");
        let scopes = ScopeResolver.resolve(&principal, Scope::Workspace);
        let memory = SqliteMemory::in_memory().expect("a memory");
        let empty = exported(&memory, &scopes).await;
        let lines = Box::new(Cursor::new(data.to_vec()));
        let imported = memory.import(&scopes, lines, ImportMode::Update, 1_700_000_000_000).await;
        let first = exported(&memory, &scopes).await;
        if imported.is_err() {
            assert_eq!(first, empty, "a refused file left something");
            return;
        }
        let elsewhere = SqliteMemory::in_memory().expect("a memory");
        let lines = Box::new(Cursor::new(first.clone()));
        elsewhere
            .import(&scopes, lines, ImportMode::Update, 1_700_000_000_001)
            .await
            .expect("what was exported can be imported");
        assert_eq!(exported(&elsewhere, &scopes).await, first, "it changes on the way");
    });
}
