//! The names that a call's expressions read.

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use core::cell::OnceCell;

use dalsegno_expr::Scope;
use serde_json::{Map, Value, json};

use crate::context::{Context, Write};
use crate::name;
use crate::parameters::rfc3339;
use crate::path::{Path, ROOTS, Segment, dotted};
use crate::path_error::WriteError;
use crate::source::ContextReads;
use crate::text::HIDDEN;

/// The parts of the context that a call may change, with what it wrote so far. A part is copied with the first write to
/// it.
#[derive(Debug, Clone)]
pub(crate) struct View<'c> {
    pub(crate) context: &'c Context<'c>,
    user: Cow<'c, Value>,
    tenant: Cow<'c, Value>,
    workflow: Cow<'c, Value>,
    agents: Cow<'c, Value>,
    flags: Cow<'c, Value>,
    /// The agent's name as paths have it.
    pub(crate) agent: String,
}

impl<'c> View<'c> {
    pub(crate) fn new(context: &'c Context<'c>, secrets: &[Path]) -> Self {
        let session = context.session;
        let user = match session.user_writes() {
            [] => Cow::Borrowed(context.user),
            _ => Cow::Owned(session.user(context.user)),
        };
        Self {
            context,
            user: redact("user", user, secrets),
            tenant: redact("tenant", Cow::Borrowed(context.tenant), secrets),
            workflow: Cow::Borrowed(session.workflow()),
            agents: Cow::Borrowed(session.agents()),
            flags: Cow::Borrowed(session.flags()),
            agent: context.agent.replace('-', "_"),
        }
    }

    /// Applies a write. On an error nothing changes.
    pub(crate) fn apply(&mut self, write: &Write) -> Result<(), WriteError> {
        let root = match write.root() {
            "user" => &mut self.user,
            "workflow" => &mut self.workflow,
            "agents" => &mut self.agents,
            "flags" => &mut self.flags,
            root => {
                return Err(WriteError::ReadOnly { path: root.to_owned(), reason: "it is read only".into() });
            }
        };
        write.apply(root.to_mut())
    }
}

/// Puts `[secret]` where a secret stands, whatever is there: values of secrets have no business here.
fn redact<'c>(root: &str, mut value: Cow<'c, Value>, secrets: &[Path]) -> Cow<'c, Value> {
    for path in secrets.iter().filter(|path| path.root() == root) {
        if path.find(&value).is_some() {
            hide(value.to_mut(), path.segments());
        }
    }
    value
}

/// Hides what stands at the segments, under a dotted key as well as under nested ones.
fn hide(value: &mut Value, segments: &[Segment]) {
    let Some((first, rest)) = segments.split_first() else {
        *value = HIDDEN.into();
        return;
    };
    match (first, value) {
        (Segment::Name(name), Value::Object(fields)) => {
            if let Some(whole) = dotted(segments).and_then(|whole| fields.get_mut(&whole)) {
                *whole = HIDDEN.into();
            }
            if let Some(field) = fields.get_mut(name) {
                hide(field, rest);
            }
        }
        (Segment::Index(index), Value::Array(items)) => {
            if let Some(item) = items.get_mut(*index) {
                hide(item, rest);
            }
        }
        _ => {}
    }
}

/// What belongs to the call itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held<'h> {
    pub(crate) params: &'h Value,
    pub(crate) temp: &'h Value,
    pub(crate) result: &'h Value,
    pub(crate) error: Option<&'h Value>,
    /// The key of the next effect.
    pub(crate) key: &'h str,
}

/// What a transform works on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'h> {
    pub(crate) item: &'h Value,
    pub(crate) index: &'h Value,
    pub(crate) acc: Option<&'h Value>,
}

/// Everything that can be read at one place of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'n> {
    pub(crate) view: &'n View<'n>,
    pub(crate) held: Held<'n>,
    pub(crate) item: Option<Item<'n>>,
}

impl<'n> Names<'n> {
    /// The scope of one source.
    pub(crate) fn reading<'r>(&'r self, context: &'r ContextReads) -> Reading<'r> {
        Reading { names: self, context, merged: OnceCell::new() }
    }

    /// Returns what stands at a path.
    pub(crate) fn find(&self, path: &Path) -> Option<Cow<'n, Value>> {
        if path.root() == "context" {
            let (first, rest) = path.segments().split_first()?;
            let Segment::Name(member) = first else { return None };
            let found = self.member(member)?;
            let rest = Path::of_segments(member, rest);
            return match found {
                Cow::Borrowed(found) => rest.find(found).map(Cow::Borrowed),
                Cow::Owned(found) => rest.find(&found).cloned().map(Cow::Owned),
            };
        }
        match self.root(path.root())? {
            Cow::Borrowed(root) => path.find(root).map(Cow::Borrowed),
            Cow::Owned(root) => path.find(&root).cloned().map(Cow::Owned),
        }
    }

    fn root(&self, name: &str) -> Option<Cow<'n, Value>> {
        let view = self.view;
        let call = view.context.call;
        Some(Cow::Borrowed(match name {
            "params" => self.held.params,
            "temp" => self.held.temp,
            "result" => self.held.result,
            "error" => self.held.error?,
            "user" => &*view.user,
            "tenant" => &*view.tenant,
            "workflow" => &*view.workflow,
            "agents" => &*view.agents,
            "flags" => &*view.flags,
            "config" => view.context.config,
            "call" => {
                let mut shown = json!({"id": call.id, "session": call.session});
                if let Some(turn) = call.turn {
                    shown["turn"] = turn.into();
                }
                return Some(Cow::Owned(shown));
            }
            "operation" => return Some(Cow::Owned(json!({"key": self.held.key}))),
            "now" => return Some(Cow::Owned(rfc3339(view.context.now_ms).into())),
            "item" if self.item.is_some() => self.item?.item,
            "index" if self.item.is_some() => self.item?.index,
            "acc" if self.item.is_some() => self.item?.acc?,
            "secrets" | "context" => return None,
            other => view.workflow.get(other)?,
        }))
    }

    /// Returns `context.<name>`: a root of this name, else what the workflow, the user or the agent has.
    fn member(&self, name: &str) -> Option<Cow<'n, Value>> {
        if ROOTS.contains(&name) {
            return self.root(name);
        }
        let agent = self.view.agents.get(&self.view.agent);
        let found = self.view.workflow.get(name).or_else(|| self.view.user.get(name));
        found.or_else(|| agent?.get(name)).map(Cow::Borrowed)
    }

    /// Puts `context` together, as far as it is read.
    fn context(&self, reads: &ContextReads) -> Value {
        let mut merged = Map::new();
        if reads.all {
            let agent = self.view.agents.get(&self.view.agent);
            for part in [agent, Some(&*self.view.user), Some(&*self.view.workflow)].into_iter().flatten() {
                if let Value::Object(fields) = part {
                    merged.extend(fields.iter().map(|(name, field)| (name.clone(), field.clone())));
                }
            }
        }
        let roots = ROOTS.iter().filter(|_| reads.all).map(|root| (*root).to_owned());
        for name in roots.chain(reads.members.iter().cloned()) {
            if !name::is_forbidden(&name)
                && let Some(value) = self.member(&name)
            {
                merged.insert(name, value.into_owned());
            }
        }
        Value::Object(merged)
    }
}

/// The scope of one source.
pub(crate) struct Reading<'r> {
    names: &'r Names<'r>,
    context: &'r ContextReads,
    /// `context`, put together once for all expressions of a template.
    merged: OnceCell<Value>,
}

impl Scope for Reading<'_> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        match name {
            "context" => Some(Cow::Borrowed(self.merged.get_or_init(|| self.names.context(self.context)))),
            _ => self.names.root(name),
        }
    }
}

/// The key of an effect.
pub(crate) fn effect_key(operation: &str, ordinal: u32) -> String {
    format!("{operation}{ordinal:04x}")
}
