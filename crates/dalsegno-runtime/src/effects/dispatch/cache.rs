//! Results of tools that only read, kept for a while where the agent's file allows it.

use std::time::Duration;

use dalsegno_core::{Digest, ToolName, ToolReturn, digest_json};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde_json::Value;
use tokio::time::Instant;

use crate::run::files::Files;

/// Most bytes of results that a process keeps: enough for some hundred ordinary ones, little beside a model's contexts.
const BYTES: u64 = 32 << 20;
/// About how many results those are.
const ITEMS: usize = 4_096;

/// What a result belongs to: the same call of the same tool, for the same tenant and user, since the tool is told of both.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    tenant: String,
    user: Option<String>,
    tool: ToolName,
    /// The module of the tool's server: another one may answer otherwise.
    module: Option<String>,
    arguments: Digest,
    /// Whether a model reads the result, and with it the tool's files.
    is_shown: bool,
}

impl CacheKey {
    pub(crate) fn new(
        tenant: &str,
        user: Option<String>,
        tool: &ToolName,
        module: Option<&String>,
        arguments: &Value,
    ) -> Self {
        Self {
            tenant: tenant.to_owned(),
            user,
            tool: tool.clone(),
            module: module.cloned(),
            arguments: digest_json(arguments),
            is_shown: false,
        }
    }

    /// The same for a result that a model reads.
    pub(crate) fn shown(self, is_shown: bool) -> Self {
        Self { is_shown, ..self }
    }
}

#[derive(Debug, Clone)]
struct Kept {
    at: Instant,
    result: ToolReturn,
    files: Files,
    bytes: u64,
}

#[derive(Debug, Clone)]
struct Bytes;

impl Weighter<CacheKey, Kept> for Bytes {
    fn weight(&self, key: &CacheKey, kept: &Kept) -> u64 {
        // The key and what the map itself takes.
        kept.bytes + key.tenant.len() as u64 + key.user.as_ref().map_or(0, String::len) as u64 + 256
    }
}

/// Results by what they belong to, the least used ones forgotten first.
#[derive(Debug)]
pub(crate) struct ResultCache(Cache<CacheKey, Kept, Bytes>);

impl Default for ResultCache {
    fn default() -> Self {
        Self(Cache::with_weighter(ITEMS, BYTES, Bytes))
    }
}

impl ResultCache {
    /// A result that is not older than this.
    pub(crate) fn get(&self, key: &CacheKey, no_older_than: Duration) -> Option<(ToolReturn, Files)> {
        let kept = self.0.get(key)?;
        (kept.at.elapsed() < no_older_than).then_some((kept.result, kept.files))
    }

    /// Keeps a result, unless the tool itself says that it failed.
    pub(crate) fn put(&self, key: CacheKey, result: &ToolReturn, files: &Files) {
        if result.is_error {
            return;
        }
        let structured = result.structured.as_ref().map_or(0, |value| value.to_string().len());
        let in_files: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        let bytes = (result.text.len() + structured + in_files) as u64;
        let files = files.clone();
        self.0.insert(key, Kept { at: Instant::now(), result: result.clone(), files, bytes });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn key(tenant: &str, arguments: &Value) -> CacheKey {
        CacheKey::new(tenant, None, &"risk.score".parse().unwrap(), None, arguments)
    }

    fn result(text: &str) -> ToolReturn {
        ToolReturn { text: text.into(), ..ToolReturn::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_kept_for_its_time_and_its_tenant() {
        let cache = ResultCache::default();
        let minute = Duration::from_secs(60);
        cache.put(key("acme", &json!({"a": 1, "b": 2})), &result("low"), &Files::new());
        assert_eq!(
            cache.get(&key("acme", &json!({"b": 2, "a": 1})), minute),
            Some((result("low"), Files::new()))
        );
        assert_eq!(cache.get(&key("other", &json!({"a": 1, "b": 2})), minute), None);
        assert_eq!(cache.get(&key("acme", &json!({"a": 1})), minute), None);
        let of_eve = CacheKey { user: Some("eve".to_owned()), ..key("acme", &json!({"a": 1, "b": 2})) };
        assert_eq!(cache.get(&of_eve, minute), None, "a tool may answer otherwise to another user");
        tokio::time::advance(minute).await;
        assert_eq!(cache.get(&key("acme", &json!({"a": 1, "b": 2})), minute), None);
    }

    #[tokio::test]
    async fn another_module_answers_for_itself_and_failures_are_not_kept() {
        let cache = ResultCache::default();
        let tool = "risk.score".parse().unwrap();
        let (one, other) = ("sha256:1".to_owned(), "sha256:2".to_owned());
        cache.put(CacheKey::new("a", None, &tool, Some(&one), &json!({})), &result("low"), &Files::new());
        assert_eq!(
            cache.get(&CacheKey::new("a", None, &tool, Some(&other), &json!({})), Duration::MAX),
            None
        );
        let failed = ToolReturn { is_error: true, ..result("no") };
        cache.put(CacheKey::new("a", None, &tool, Some(&other), &json!({})), &failed, &Files::new());
        assert_eq!(
            cache.get(&CacheKey::new("a", None, &tool, Some(&other), &json!({})), Duration::MAX),
            None
        );
    }

    #[tokio::test]
    async fn files_are_kept_with_their_result_and_count_as_bytes() {
        let cache = ResultCache::default();
        let files = |number: u8| vec![(Digest::from_bytes([number; 32]), Arc::from(vec![number; 1 << 20]))];
        for number in 0..200 {
            cache.put(key("a", &json!(number)), &result("a picture"), &files(number));
        }
        let kept = |number: &u8| cache.get(&key("a", &json!(*number)), Duration::MAX);
        let found: Vec<u8> = (0..200).filter(|number| kept(number).is_some()).collect();
        assert!(!found.is_empty() && found.len() <= 32, "{found:?}");
        assert!(found.iter().all(|number| kept(number).unwrap().1 == files(*number)));
        let shown = key("a", &json!(found[0])).shown(true);
        assert_eq!(cache.get(&shown, Duration::MAX), None, "a plan's result has no files");
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded() {
        let cache = ResultCache::default();
        let text = "x".repeat(1 << 20);
        for number in 0..200 {
            cache.put(key("a", &json!(number)), &result(&text), &Files::new());
        }
        let kept = (0..200).filter(|number| cache.get(&key("a", &json!(number)), Duration::MAX).is_some());
        let kept = kept.count() as u64;
        assert!(kept > 0 && kept << 20 <= BYTES, "{kept}");
    }
}
