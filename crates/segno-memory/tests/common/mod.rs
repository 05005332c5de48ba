//! What the tests share: principals, observations and a runtime to wait on.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::future::Future;

use segno_memory::{
    Created, Hit, Memory, MemoryError, NewObservation, Principal, Scope, ScopeResolver, ScopeSet,
    SearchQuery, Source,
};

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
