//! What templates and expressions of an agent can read.

use alloc::borrow::Cow;

use segno_expr::Scope;
use serde_json::{Value, json};

use crate::state::AgentState;

/// The names that an agent file may use: `request`, `tenant`, `memory` and `steps`.
pub(crate) struct RunScope<'a>(pub(crate) &'a AgentState);

impl Scope for RunScope<'_> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        let state = self.0;
        match name {
            "request" => Some(Cow::Owned(json!({ "text": state.request.text, "data": state.request.data }))),
            "tenant" => Some(Cow::Owned(json!({ "name": state.request.tenant }))),
            "memory" => Some(Cow::Owned(json!({ "hits": state.recalled }))),
            "steps" => Some(Cow::Borrowed(&state.results)),
            _ => None,
        }
    }
}
