//! What a call reads, and what it writes into its session.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json;
use crate::limits::{MAX_LENT_WRITES, MAX_SESSION_BYTES, MAX_VALUE_DEPTH, MAX_WRITES};
use crate::path::{Path, Segment};
use crate::path_error::WriteError;

/// What a call reads, as it was when its step requested it. Without secret values: where one would stand, the planner
/// reads `[secret]`, whatever is there.
///
/// The same call must be given the same context each time it is advanced.
#[derive(Debug, Clone, Copy)]
pub struct Context<'c> {
    /// The caller's context, an object; the session's writes to it are laid over.
    pub user: &'c Value,
    /// The tenant, an object with `settings`.
    pub tenant: &'c Value,
    /// The toolkit's public configuration, with defaults; see [`Toolkit::config_with`](crate::Toolkit::config_with).
    pub config: &'c Value,
    /// What the agents of the session share and keep.
    pub session: &'c SessionContext,
    /// The name of the agent that calls.
    pub agent: &'c str,
    /// Which call this is.
    pub call: &'c CallInfo,
    /// The recorded time, in milliseconds since 1970.
    pub now_ms: u64,
    /// The tenant's time zone, such as `Europe/Paris`; without one a time needs an offset.
    pub zone: Option<&'c str>,
    /// The rules of runs that began long ago: a text of a mail's `to`, `cc` or `bcc` is a list, divided at its commas.
    pub first_rules: bool,
}

/// Which call this is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallInfo {
    /// The model's id of the call (`call.id`).
    pub id: String,
    /// The session (`call.session`).
    pub session: String,
    /// The id of the operation that the call is, as text; the keys of its effects begin with it.
    pub operation: String,
    /// How many messages of the caller the session had before the one that is being answered (`call.turn`). The same in a run that
    /// another one called or handed over to. None under rules that did not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
}

/// What the agents of a session share and keep: state of the workflow, state of each agent, flags, and what was written
/// over the caller's context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionContext {
    /// State that all agents share, an object.
    workflow: Value,
    /// State of each agent by its name (with `_` for `-`), an object of objects.
    agents: Value,
    /// Flags, an object of booleans.
    flags: Value,
    /// Writes to `user`, by path, in order; never to `user.id` or a secret.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    user: Vec<Write>,
    /// What was written since the session was lent, in order; none if it was not lent.
    #[serde(skip_serializing_if = "Option::is_none")]
    lent: Option<Vec<Write>>,
    /// How many messages of the caller came before the one that is being answered.
    #[serde(skip_serializing_if = "is_zero")]
    turn: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Default for SessionContext {
    fn default() -> Self {
        let empty = || Value::Object(Map::new());
        Self { workflow: empty(), agents: empty(), flags: empty(), user: Vec::new(), lent: None, turn: 0 }
    }
}

/// A write into a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Write {
    /// Puts a value.
    Set {
        /// Where: below `workflow`, `agents.<name>` or `user`.
        path: Path,
        /// The value.
        value: Value,
    },
    /// Appends to a list, which is made where there is none.
    Append {
        /// The list.
        path: Path,
        /// The item.
        value: Value,
    },
    /// Removes a value; what is not there stays so.
    Delete {
        /// Which.
        path: Path,
    },
    /// Sets or clears a flag.
    Flag {
        /// Its name.
        flag: String,
        /// Whether it is set.
        value: bool,
    },
}

impl Write {
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Set { path, .. } | Self::Append { path, .. } | Self::Delete { path } => Some(path),
            Self::Flag { .. } => None,
        }
    }

    pub(crate) fn root(&self) -> &str {
        self.path().map_or("flags", Path::root)
    }

    /// Applies the write below the value of its root. On an error nothing changes.
    pub(crate) fn apply(&self, root: &mut Value) -> Result<(), WriteError> {
        match self {
            Self::Set { path, value } => path.write(root, value.clone(), false),
            Self::Append { path, value } => path.write(root, value.clone(), true),
            Self::Delete { path } => {
                path.delete(root);
                Ok(())
            }
            Self::Flag { flag, value } => {
                if !root.is_object() {
                    *root = Value::Object(Map::new());
                }
                if let Value::Object(flags) = root {
                    if *value {
                        flags.insert(flag.clone(), Value::Bool(true));
                    } else {
                        flags.remove(flag);
                    }
                }
                Ok(())
            }
        }
    }

    /// The value that is written, if it is one.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Self::Set { value, .. } | Self::Append { value, .. } => Some(value),
            Self::Delete { .. } | Self::Flag { .. } => None,
        }
    }

    /// The same, to be changed.
    pub fn value_mut(&mut self) -> Option<&mut Value> {
        match self {
            Self::Set { value, .. } | Self::Append { value, .. } => Some(value),
            Self::Delete { .. } | Self::Flag { .. } => None,
        }
    }

    /// Changes the names that the write goes by: those of its path below the root, or that of its flag.
    pub fn rename(&mut self, change: impl FnMut(&mut String)) {
        match self {
            Self::Set { path, .. } | Self::Append { path, .. } | Self::Delete { path } => path.rename(change),
            Self::Flag { flag, .. } => core::iter::once(flag).for_each(change),
        }
    }

    /// About how many bytes the write holds.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Set { value, .. } | Self::Append { value, .. } => {
                json::measure(value, usize::MAX, MAX_VALUE_DEPTH).unwrap_or(usize::MAX / 4) + 32
            }
            Self::Delete { .. } | Self::Flag { .. } => 32,
        }
    }
}

impl SessionContext {
    /// Begins with the state of a workflow, for instance that of a session that this one goes on from.
    pub fn with_workflow(workflow: Map<String, Value>) -> Self {
        Self { workflow: Value::Object(workflow), ..Self::default() }
    }

    /// The same session for a run that works in it on behalf of the one it belongs to: from here on it tells by
    /// [`writes`](Self::writes) what was written, so that the owner can do the same to its own.
    #[must_use]
    pub fn lend(&self) -> Self {
        Self { lent: Some(Vec::new()), ..self.clone() }
    }

    /// The same session for a run that owns it.
    #[must_use]
    pub fn own(self) -> Self {
        Self { lent: None, ..self }
    }

    /// The same session with another message of the caller.
    #[must_use]
    pub fn next_turn(self) -> Self {
        Self { turn: self.turn.saturating_add(1), ..self }
    }

    /// How many messages of the caller came before the one that is being answered.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// What was written since the session was lent, in order and without what was replaced since; nothing if it was not
    /// lent.
    pub fn writes(&self) -> &[Write] {
        self.lent.as_deref().unwrap_or_default()
    }

    /// State that all agents share.
    pub fn workflow(&self) -> &Value {
        &self.workflow
    }

    /// State of each agent, by its name with `_` for `-`.
    pub fn agents(&self) -> &Value {
        &self.agents
    }

    /// The flags that are set.
    pub fn flags(&self) -> &Value {
        &self.flags
    }

    /// What was written over the caller's context.
    pub fn user_writes(&self) -> &[Write] {
        &self.user
    }

    /// Says whether nothing was written yet, in the first turn.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the caller's context with what the session wrote over it.
    pub fn user(&self, user: &Value) -> Value {
        let mut user = user.clone();
        for write in &self.user {
            // What the caller gives may have changed since the write; then it wins.
            let _ = write.apply(&mut user);
        }
        user
    }

    /// Applies all writes of a call, or none of them.
    ///
    /// `user` is what the caller gave, without the session's writes.
    ///
    /// # Errors
    /// Fails if one of them does not fit what is there (another call may have written meanwhile), or if the session would
    /// be larger than [`MAX_SESSION_BYTES`], or would have more than that to tell its owner; nothing is changed then.
    pub fn apply(&mut self, user: &Value, writes: &[Write]) -> Result<(), WriteError> {
        if writes.is_empty() {
            return Ok(());
        }
        let mut next = self.clone();
        let mut shown: Option<Value> = None;
        for write in writes {
            match write.root() {
                "workflow" => write.apply(&mut next.workflow)?,
                "agents" => write.apply(&mut next.agents)?,
                "flags" => write.apply(&mut next.flags)?,
                "user" => {
                    let shown = shown.get_or_insert_with(|| next.user(user));
                    write.apply(shown)?;
                    next.remember(write, shown);
                }
                root => {
                    return Err(WriteError::ReadOnly {
                        path: root.into(),
                        reason: "it is no part of a session".into(),
                    });
                }
            }
            if let Some(lent) = &mut next.lent {
                tell(lent, write);
            }
        }
        if next.user.len() > MAX_WRITES || next.bytes().is_none() || !next.can_be_told() {
            return Err(WriteError::TooLarge { limit: MAX_SESSION_BYTES });
        }
        *self = next;
        Ok(())
    }

    /// Keeps a write to `user`. A list that grew is kept whole, so that it is kept once; what the write replaces goes.
    fn remember(&mut self, write: &Write, shown: &Value) {
        let write = match write {
            Write::Append { path, .. } => Write::Set {
                path: path.clone(),
                value: path.find_written(shown).cloned().unwrap_or(Value::Array(Vec::new())),
            },
            Write::Set { .. } | Write::Delete { .. } | Write::Flag { .. } => write.clone(),
        };
        if let Some(path) = write.path()
            && !moves(&write)
        {
            let by_names = path.segments().iter().all(|segment| matches!(segment, Segment::Name(_)));
            // Past an item that was deleted an index leads elsewhere.
            let first = if by_names { 0 } else { self.user.iter().rposition(moves).map_or(0, |at| at + 1) };
            let later = self.user.split_off(first);
            let replaced = |earlier: &Write| earlier.path().is_some_and(|earlier| path.covers(earlier));
            self.user.extend(later.into_iter().filter(|earlier| !replaced(earlier)));
        }
        self.user.push(write);
    }

    /// The bytes of the session; `None` past the limit.
    fn bytes(&self) -> Option<usize> {
        let mut bytes = 0_usize;
        for root in [&self.workflow, &self.agents, &self.flags] {
            bytes += json::measure(root, MAX_SESSION_BYTES, MAX_VALUE_DEPTH)?;
        }
        let user: usize = self.user.iter().map(Write::bytes).fold(0, usize::saturating_add);
        let bytes = bytes.saturating_add(user);
        (bytes <= MAX_SESSION_BYTES).then_some(bytes)
    }

    /// Says whether the owner can be told all that was written.
    fn can_be_told(&self) -> bool {
        let writes = self.writes();
        let bytes = writes.iter().map(Write::bytes).fold(0, usize::saturating_add);
        writes.len() <= MAX_LENT_WRITES && bytes <= MAX_SESSION_BYTES
    }

    /// The state of every agent, by name; for people.
    pub fn agent_states(&self) -> BTreeMap<&str, &Value> {
        self.agents
            .as_object()
            .map(|agents| agents.iter().map(|(name, state)| (name.as_str(), state)).collect())
            .unwrap_or_default()
    }
}

/// Keeps a write for the owner of a session. What is set anew, or a flag, replaces what was written there before; all else
/// depends on what the owner's session holds by then.
fn tell(told: &mut Vec<Write>, write: &Write) {
    match write {
        Write::Set { path, .. } if path.segments().iter().all(|part| matches!(part, Segment::Name(_))) => {
            told.retain(|earlier| !earlier.path().is_some_and(|earlier| path.covers(earlier)));
        }
        Write::Flag { flag, .. } => {
            told.retain(|earlier| !matches!(earlier, Write::Flag { flag: known, .. } if known == flag));
        }
        Write::Set { .. } | Write::Append { .. } | Write::Delete { .. } => {}
    }
    told.push(write.clone());
}

/// Says whether a write deletes an item, which moves those behind it: what was written to them must come before it.
fn moves(write: &Write) -> bool {
    matches!(write, Write::Delete { path } if matches!(path.segments().last(), Some(Segment::Index(_))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(path: &str, value: Value) -> Write {
        Write::Set { path: path.parse().unwrap(), value }
    }

    fn append(path: &str, value: Value) -> Write {
        Write::Append { path: path.parse().unwrap(), value }
    }

    #[test]
    fn writes_are_applied_whole_or_not_at_all() {
        let mut session = SessionContext::default();
        session.apply(&json!({}), &[set("total", json!(3)), append("list", json!(1))]).unwrap();
        let before = session.clone();
        let error =
            session.apply(&json!({}), &[set("total", json!(4)), append("total", json!(1))]).unwrap_err();
        assert_eq!(error.reason(), "not_a_list");
        assert_eq!(session, before);
        assert_eq!(session.workflow(), &json!({"total": 3, "list": [1]}));
    }

    #[test]
    fn writes_to_the_user_lie_over_what_the_caller_gives_each_time() {
        let mut session = SessionContext::default();
        let user = json!({"id": "u1", "preferences": {"theme": "light", "language": "en"}, "log": ["a"]});
        let writes = [
            set("user.preferences.theme", json!("dark")),
            append("user.log", json!("b")),
            append("user.log", json!("c")),
        ];
        session.apply(&user, &writes).unwrap();
        assert_eq!(session.user_writes().len(), 2, "a list that grew twice is kept once");
        let later = json!({"id": "u1", "preferences": {"theme": "light", "language": "fr"}});
        assert_eq!(
            session.user(&later),
            json!({"id": "u1", "preferences": {"theme": "dark", "language": "fr"}, "log": ["a", "b", "c"]})
        );
        let restored: SessionContext =
            serde_json::from_str(&serde_json::to_string(&session).unwrap()).unwrap();
        assert_eq!(restored, session);
    }

    #[test]
    fn an_item_that_was_deleted_stays_deleted_whatever_is_written_to_its_place() {
        let mut session = SessionContext::default();
        let user = json!({"log": ["a", "b", "c"]});
        let delete = |path: &str| Write::Delete { path: path.parse().unwrap() };
        session.apply(&user, &[set("user.log[0]", json!("A")), delete("user.log[0]")]).unwrap();
        for text in ["B", "BB"] {
            session.apply(&user, &[set("user.log[0]", json!(text))]).unwrap();
            assert_eq!(session.user(&user), json!({"log": [text, "c"]}));
        }
        assert_eq!(session.user_writes().len(), 3, "what was set twice behind it is kept once");
        session.apply(&user, &[set("user.log", json!([]))]).unwrap();
        assert_eq!((session.user(&user), session.user_writes().len()), (json!({"log": []}), 1));
    }

    #[test]
    fn a_session_that_grows_past_its_limit_is_refused_whole() {
        let mut session = SessionContext::default();
        let large = json!("x".repeat(MAX_SESSION_BYTES));
        let error = session.apply(&json!({}), &[set("a", json!(1)), set("b", large)]).unwrap_err();
        assert_eq!(error.reason(), "too_large");
        assert!(session.is_empty());
    }

    #[test]
    fn what_is_written_into_a_lent_session_makes_the_same_of_its_owners() {
        let user = json!({"id": "u1"});
        let flag = |value| Write::Flag { flag: "done".into(), value };
        let delete = |path: &str| Write::Delete { path: path.parse().unwrap() };
        let mut owned = SessionContext::default();
        owned.apply(&user, &[append("workflow.log", json!(0)), flag(true)]).unwrap();
        let mut lent = owned.lend();
        assert!(lent.writes().is_empty());
        for writes in [
            alloc::vec![append("workflow.log", json!(1)), set("workflow.draft.text", json!("x"))],
            alloc::vec![set("agents.clerk.seen", json!(1)), set("user.mood", json!("calm"))],
            alloc::vec![set("agents.clerk.seen", json!(2)), delete("workflow.draft.text"), flag(false)],
            alloc::vec![set("workflow.list", json!([1, 2])), delete("workflow.list[0]"), flag(true)],
        ] {
            lent.apply(&user, &writes).unwrap();
        }
        let told = lent.writes().to_vec();
        assert_eq!(told.len(), 8, "what was replaced is not told: {told:?}");
        owned.apply(&user, &told).unwrap();
        assert_eq!(owned, lent.own());
    }

    #[test]
    fn a_sibling_that_wrote_meanwhile_keeps_what_it_appended() {
        let mut owned = SessionContext::default();
        let lent = [1, 2].map(|item| {
            let mut lent = owned.lend();
            lent.apply(&json!({}), &[append("workflow.found", json!(item))]).unwrap();
            lent
        });
        lent.iter().for_each(|lent| owned.apply(&json!({}), lent.writes()).unwrap());
        assert_eq!(owned.workflow(), &json!({"found": [1, 2]}));
    }

    #[test]
    fn what_an_owner_cannot_be_told_is_not_written() {
        let mut lent = SessionContext::default().lend();
        let delete = Write::Delete { path: "workflow.list[0]".parse().unwrap() };
        let item = append("workflow.list", json!("x".repeat(MAX_SESSION_BYTES / 3)));
        for _ in 0..2 {
            lent.apply(&json!({}), &[item.clone(), delete.clone()]).unwrap();
        }
        let before = lent.clone();
        let error = lent.apply(&json!({}), &[item, delete]).unwrap_err();
        assert_eq!((error.reason(), lent), ("too_large", before));
    }

    #[test]
    fn a_flag_is_there_or_not() {
        let mut session = SessionContext::default();
        let flag = |value| Write::Flag { flag: "done".into(), value };
        session.apply(&json!({}), &[flag(true)]).unwrap();
        assert_eq!(session.flags(), &json!({"done": true}));
        session.apply(&json!({}), &[flag(false)]).unwrap();
        assert_eq!(session.flags(), &json!({}));
    }
}
