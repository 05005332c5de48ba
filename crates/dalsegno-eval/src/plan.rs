//! What is tried, and under which key.

use std::future::Future;

use dalsegno_core::{AgentName, AgentRequest, digest_json};
use serde_json::json;

use crate::taken::Taken;

/// A way of running the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// By which people know it.
    pub name: String,
    /// The agent.
    pub agent: AgentName,
    /// Another model than the agent's own, by its name in dalsegno.toml.
    pub model: Option<String>,
    /// The version of the workspace.
    pub place: Place,
    /// What decides how it runs, as a digest: the same key is the same run.
    pub fingerprint: String,
}

/// A version of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// As it is.
    Now,
    /// The one that it is compared with.
    Base,
}

/// One run to be started.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The agent.
    pub agent: AgentName,
    /// Another model than its own.
    pub model: Option<String>,
    /// The version of the workspace.
    pub place: Place,
    /// What it is asked.
    pub request: AgentRequest,
    /// The key: the same one is the same run, which is not performed again.
    pub key: String,
}

/// Performs runs, and keeps them by their keys.
pub trait Performer: Sync {
    /// Performs a run until it has ended or waits for a person; one of this key that is there already is taken as it is.
    ///
    /// # Errors
    /// Why it could not be performed, in words. It ends the evaluation.
    fn perform(&self, start: Start) -> impl Future<Output = Result<Taken, String>> + Send;
}

/// The key of a run. `of` says what it is for: a trial, or the verdict of a judge.
pub(crate) fn key(
    eval: &str,
    of: &str,
    fingerprint: &str,
    item: &str,
    request: &AgentRequest,
    number: (u32, u32),
) -> String {
    let (trial, again) = number;
    let mut parts = json!({
        "eval": eval, "of": of, "by": fingerprint, "item": item, "trial": trial,
        "text": request.text, "data": request.data, "user": request.user, "tenant": request.tenant,
    });
    if again > 0 {
        parts["again"] = again.into();
    }
    format!("eval-{}", digest_json(&parts))
}
