//! Configurations that were read before.

use std::sync::{Arc, Mutex, PoisonError};

use dalsegno_core::{AgentConfig, Digest, digest_json};

/// Most configurations that are kept.
const KEPT: usize = 16;

/// Most bytes of the text of one that is kept.
const TEXT_MAX: usize = 1 << 20;

/// The configurations that runs began with, as they were read last. Reading one takes longer than all else of a short run, and most
/// runs of a journal have the same few.
#[derive(Default)]
pub(crate) struct Configs {
    /// The latest last.
    known: Mutex<Vec<Known>>,
}

struct Known {
    digest: Digest,
    /// What was stored: another text under the same digest is read anew, and refused.
    text: String,
    config: Arc<AgentConfig>,
}

impl Configs {
    /// Reads what is stored under a digest.
    ///
    /// # Errors
    /// In words, when it is no configuration or does not have its digest.
    pub(crate) fn read(&self, digest: Digest, text: String) -> Result<Arc<AgentConfig>, String> {
        if let Some(config) = self.find(digest, &text) {
            return Ok(config);
        }
        // The digest is of what was stored. This release may write the same configuration with other fields.
        let stored: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if digest_json(&stored) != digest {
            return Err("it does not have its digest".to_owned());
        }
        let config: Arc<AgentConfig> =
            Arc::new(serde_json::from_value(stored).map_err(|error| error.to_string())?);
        if text.len() <= TEXT_MAX {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|one| one.digest != digest);
            if known.len() >= KEPT {
                known.remove(0);
            }
            known.push(Known { digest, text, config: Arc::clone(&config) });
        }
        Ok(config)
    }

    fn find(&self, digest: Digest, text: &str) -> Option<Arc<AgentConfig>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|one| one.digest == digest && one.text == text)?;
        let found = known.remove(place);
        let config = Arc::clone(&found.config);
        known.push(found);
        Some(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str) -> (Digest, String) {
        let value = serde_json::json!({
            "name": name, "version": "1.0.0", "semantics": 3,
            "mind": { "plan": { "steps": [] } },
            "tools": { "tools": {}, "forbidden": [] },
            "memory_scope": "workspace",
            "limits": { "max_steps": 1, "max_tool_calls": 1, "timeout_ms": 1, "on_exceeded": "fail" },
        });
        (digest_json(&value), value.to_string())
    }

    #[test]
    fn a_configuration_is_read_once_and_another_text_under_its_digest_is_refused() {
        let configs = Configs::default();
        let (digest, text) = stored("a");
        let first = configs.read(digest, text.clone()).unwrap();
        assert!(Arc::ptr_eq(&first, &configs.read(digest, text.clone()).unwrap()));
        // It was damaged after it was read.
        let damaged = text.replace("1.0.0", "1.0.1");
        assert_eq!(configs.read(digest, damaged).unwrap_err(), "it does not have its digest");
        assert!(Arc::ptr_eq(&first, &configs.read(digest, text).unwrap()));
    }

    #[test]
    fn the_latest_are_kept() {
        let configs = Configs::default();
        let (digest, text) = stored("first");
        let first = configs.read(digest, text.clone()).unwrap();
        let read = |name: String| {
            let (digest, text) = stored(&name);
            configs.read(digest, text).unwrap();
        };
        (1..KEPT).for_each(|number| read(format!("other-{number}")));
        // It was used again, so that another one has to go.
        assert!(Arc::ptr_eq(&first, &configs.read(digest, text.clone()).unwrap()));
        read("one-more".to_owned());
        assert!(Arc::ptr_eq(&first, &configs.read(digest, text.clone()).unwrap()));
        (0..KEPT).for_each(|number| read(format!("later-{number}")));
        assert!(!Arc::ptr_eq(&first, &configs.read(digest, text).unwrap()));
        assert_eq!(configs.known.lock().unwrap().len(), KEPT);
    }
}
