//! What the tests share: principals, observations and a runtime to wait on.

#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod reference;

use std::future::Future;
use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex};

use dalsegno_memory::{
    Created, Hit, ImportCounts, ImportMode, Memory, MemoryError, NewObservation, Principal, Relate, Related,
    RelationTo, Scope, ScopeResolver, ScopeSet, SearchQuery, Source, Unrelate, Unrelated,
};

/// Makes one module of tests for each way to open a memory.
#[allow(unused_macros, reason = "each test file uses its own part")]
macro_rules! conformance {
    ($($name:ident),* $(,)?) => {
        mod in_memory {
            $(#[test] fn $name() {
                crate::common::wait(super::$name(dalsegno_memory::SqliteMemory::in_memory().unwrap()));
            })*
        }
        mod in_a_file {
            $(#[test] fn $name() {
                let folder = tempfile::tempdir().unwrap();
                crate::common::wait(super::$name(dalsegno_memory::SqliteMemory::open(folder.path().join("memory.db")).unwrap()));
            })*
        }
    };
}

/// Waits for a future on a runtime of its own.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(future)
}

/// Resolves a principal written as `tenant/workspace/agent/session`.
pub(crate) fn scopes(principal: &str, requested: Scope) -> ScopeSet {
    let parts: Vec<&str> = principal.split('/').collect();
    let [tenant, workspace, agent, session] = parts[..] else { panic!("{principal}") };
    let principal = Principal::new(tenant, workspace, agent, session).unwrap();
    ScopeResolver.resolve(&principal, requested)
}

/// An observation whose operation id is filled with one byte.
pub(crate) fn observation(operation: u8, entity: &str, text: &str) -> NewObservation {
    NewObservation {
        operation: [operation; 16],
        entity: entity.to_owned(),
        entity_type: "incident".to_owned(),
        text: text.to_owned(),
        metadata: serde_json::json!({"severity": "high"}),
        source: Source::Run { run: "run-1".to_owned(), step: 3 },
        recorded_at: 1_700_000_000_000,
    }
}

/// Writes an observation.
pub(crate) async fn create(memory: &impl Memory, scopes: &ScopeSet, new: NewObservation) -> Created {
    memory.create(scopes, new).await.unwrap()
}

/// Searches for as many hits as are allowed.
pub(crate) async fn search(memory: &impl Memory, scopes: &ScopeSet, text: &str) -> Vec<Hit> {
    try_search(memory, scopes, text).await.unwrap()
}

/// Searches for as many hits as are allowed.
pub(crate) async fn try_search(
    memory: &impl Memory,
    scopes: &ScopeSet,
    text: &str,
) -> Result<Vec<Hit>, MemoryError> {
    memory.search(scopes, &SearchQuery { limit: 100, ..SearchQuery::new(text) }).await
}

/// The entities of hits, in their order.
pub(crate) fn entities(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.entity.as_str()).collect()
}

/// Where a test's writes come from.
pub(crate) fn source() -> Source {
    Source::Run { run: "run-2".to_owned(), step: 5 }
}

/// Relations as they come with an observation.
pub(crate) fn relations(list: &[(&str, &str)]) -> Vec<RelationTo> {
    let relation =
        |(relation, to): &(&str, &str)| RelationTo { relation: (*relation).to_owned(), to: (*to).to_owned() };
    list.iter().map(relation).collect()
}

/// A relation written as `from relation to`, whose operation id is filled with one byte.
pub(crate) fn relation(operation: u8, triple: &str, strength: f64, at: u64) -> Relate {
    let parts: Vec<&str> = triple.split(' ').collect();
    let [from, relation, to] = parts[..] else { panic!("{triple}") };
    let [from, relation, to] = [from, relation, to].map(str::to_owned);
    Relate { operation: [operation; 16], from, relation, to, strength, source: source(), at }
}

/// Writes a relation.
pub(crate) async fn relate(memory: &impl Memory, scopes: &ScopeSet, relate: Relate) -> Related {
    memory.relate(scopes, relate).await.unwrap()
}

/// Ends a relation.
pub(crate) async fn unrelate(
    memory: &impl Memory,
    scopes: &ScopeSet,
    operation: u8,
    triple: &str,
    at: u64,
) -> Unrelated {
    let Relate { operation, from, relation, to, source, .. } = relation(operation, triple, 1.0, at);
    memory.unrelate(scopes, Unrelate { operation, from, relation, to, source, at }).await.unwrap()
}

/// Exports into a string.
pub(crate) async fn export(memory: &impl Memory, scopes: &ScopeSet) -> String {
    let output = Output::default();
    memory.export(scopes, Box::new(output.clone())).await.unwrap();
    let bytes = output.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

/// Imports a string, at the time 77.
pub(crate) async fn import(
    memory: &impl Memory,
    scopes: &ScopeSet,
    lines: &str,
    mode: ImportMode,
) -> Result<ImportCounts, String> {
    let lines = Box::new(Cursor::new(lines.to_owned()));
    memory.import(scopes, lines, mode, 77).await.map_err(|error| error.to_string())
}

/// An output that can be read afterwards.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
