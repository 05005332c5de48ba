//! What templates and expressions of an agent can read.

use alloc::borrow::Cow;
use core::cell::OnceCell;

use dalsegno_expr::Scope;
use serde_json::{Value, json};

use crate::state::AgentState;

/// The names that an agent file may use: `request`, `user`, `tenant`, `memory`, `workflow`, `flags`, `steps` and
/// `vars`. Time is not among them.
///
/// What is not kept as JSON is put together once, however many expressions read it.
pub(crate) struct RunScope<'a> {
    state: &'a AgentState,
    request: OnceCell<Value>,
    memory: OnceCell<Value>,
}

impl<'a> RunScope<'a> {
    pub(crate) fn new(state: &'a AgentState) -> Self {
        Self { state, request: OnceCell::new(), memory: OnceCell::new() }
    }
}

impl Scope for RunScope<'_> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        let state = self.state;
        match name {
            "request" => Some(Cow::Borrowed(self.request.get_or_init(|| request(state)))),
            "tenant" => Some(Cow::Owned(json!({ "name": state.request.tenant }))),
            "memory" => Some(Cow::Borrowed(self.memory.get_or_init(|| json!({ "hits": state.recalled })))),
            "user" => Some(Cow::Owned(state.session.user(&state.request.user))),
            "workflow" => Some(Cow::Borrowed(state.session.workflow())),
            "flags" => Some(Cow::Borrowed(state.session.flags())),
            "steps" => Some(Cow::Borrowed(&state.results)),
            "vars" => Some(Cow::Borrowed(&state.vars)),
            _ => None,
        }
    }
}

fn request(state: &AgentState) -> Value {
    let request = &state.request;
    let attachments = request.attachments.iter().map(|attachment| {
        json!({ "name": attachment.name, "media_type": attachment.media_type, "bytes": attachment.bytes })
    });
    let attachments: Value = attachments.collect();
    let mut fields = json!({ "text": request.text, "data": request.data, "attachments": attachments });
    if let Some(handoff) = &request.handoff {
        fields["handoff"] = json!(handoff);
    }
    fields
}

/// The names of a run, and `item` and `index` of a list besides.
pub(crate) struct ItemScope<'a> {
    pub(crate) run: &'a RunScope<'a>,
    pub(crate) item: &'a Value,
    pub(crate) index: usize,
}

impl Scope for ItemScope<'_> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        match name {
            "item" => Some(Cow::Borrowed(self.item)),
            "index" => Some(Cow::Owned(self.index.into())),
            _ => self.run.root(name),
        }
    }
}
