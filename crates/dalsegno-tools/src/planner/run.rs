//! The way from one effect to the next.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::cursor::{Branch, Cursor, List};
use super::{Buffered, Call, Stage};
use crate::action::{ToolAction, WritePath};
use crate::context::{Context, Write};
use crate::effect::{Effect, EffectOutcome, EffectRequest};
use crate::json::measure;
use crate::limits::{MAX_CALL_BYTES, MAX_CALL_STEPS, MAX_VALUE_BYTES, MAX_VALUE_DEPTH, MAX_WRITES};
use crate::outcome::{ActionStatus, ActionTrace, ErrorCode, ToolError};
use crate::path::Segment;
use crate::scope::{Names, View, effect_key};
use crate::tool::Tool;

/// What an action leads to.
pub(super) enum Advance {
    /// It did its work.
    Done,
    /// It asks for an effect.
    Ask(Box<EffectRequest>),
    /// It goes on in a branch.
    Enter(Branch),
    /// It ends the list.
    Stop,
    /// It failed, and the list goes on.
    Continue(ToolError),
}

/// What an action noticed.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) warnings: Vec<String>,
    pub(super) details: Map<String, Value>,
}

/// A call on its way.
pub(super) struct Run<'r, 'c> {
    pub(super) call: &'r mut Call,
    pub(super) tool: &'c Tool,
    pub(super) context: &'c Context<'c>,
    pub(super) view: View<'c>,
    /// `error`, in `on_failure`.
    pub(super) error: Option<Value>,
    /// The key of the next effect.
    pub(super) key: String,
}

impl<'r, 'c> Run<'r, 'c> {
    pub(super) fn new(call: &'r mut Call, tool: &'c Tool, context: &'c Context<'c>) -> Self {
        let view = View::new(context, &tool.secret_paths);
        let error = call.error.as_ref().map(ToolError::to_value);
        let key = effect_key(&context.call.operation, call.effects);
        let mut run = Self { call, tool, context, view, error, key };
        run.replay_writes();
        run
    }

    /// Applies the writes so far to a fresh view; one that does not fit any more is dropped.
    fn replay_writes(&mut self) {
        let view = &mut self.view;
        self.call.writes.retain(|buffered| view.apply(&buffered.write).is_ok());
    }

    pub(super) fn names(&self) -> Names<'_> {
        Names { view: &self.view, held: self.call.held(self.error.as_ref(), &self.key), item: None }
    }

    /// Goes on to the next effect; `None` at the end.
    pub(super) fn go(&mut self) -> Option<Box<Effect>> {
        loop {
            match core::mem::replace(&mut self.call.stage, Stage::Ended) {
                Stage::Running(cursor) => {
                    let Some(action) = cursor.action(self.tool) else {
                        self.end_of(cursor);
                        continue;
                    };
                    let mut notes = Notes::default();
                    let step = self.perform(action, &mut notes);
                    if let Some(effect) = self.after(cursor, action, step, notes) {
                        return Some(effect);
                    }
                }
                Stage::Settled { cursor, effect, warnings, outcome } => {
                    let Some(action) = cursor.action(self.tool) else {
                        self.end_of(cursor);
                        continue;
                    };
                    let mut notes = Notes { warnings, details: Map::new() };
                    let step = self.settle(action, &effect, *outcome, &mut notes);
                    if let Some(effect) = self.after(cursor, action, step, notes) {
                        return Some(effect);
                    }
                }
                Stage::Waiting { cursor, effect, warnings } => {
                    let again = effect.clone();
                    self.call.stage = Stage::Waiting { cursor, effect, warnings };
                    return Some(again);
                }
                Stage::Ended => return None,
            }
        }
    }

    /// Writes down what an action did, and goes where it leads.
    fn after(
        &mut self,
        mut cursor: Cursor,
        action: &ToolAction,
        step: Result<Advance, ToolError>,
        notes: Notes,
    ) -> Option<Box<Effect>> {
        let (place, Notes { warnings, details }) = (cursor.place(action), notes);
        let mut trace = ActionTrace { place, status: ActionStatus::Ok, error: None, warnings, details };
        match step {
            Ok(Advance::Ask(request)) => {
                let ordinal = self.call.effects;
                self.call.effects = ordinal.saturating_add(1);
                let next = effect_key(&self.context.call.operation, self.call.effects);
                let key = core::mem::replace(&mut self.key, next);
                let effect = Box::new(Effect { ordinal, place: trace.place, key, request: *request });
                let (warnings, again) = (trace.warnings, effect.clone());
                self.call.stage = Stage::Waiting { cursor, effect, warnings };
                return Some(again);
            }
            Ok(Advance::Done) => {
                self.call.trace.push(trace);
                cursor.next();
                self.call.stage = Stage::Running(cursor);
            }
            Ok(Advance::Enter(branch)) => {
                self.call.trace.push(trace);
                cursor.enter(branch);
                self.call.stage = Stage::Running(cursor);
            }
            Ok(Advance::Continue(mut error)) => {
                error.action = Some(Box::new(trace.place.clone()));
                (trace.status, trace.error) = (ActionStatus::Continued, Some(error));
                self.call.trace.push(trace);
                cursor.next();
                self.call.stage = Stage::Running(cursor);
            }
            Ok(Advance::Stop) => {
                self.call.trace.push(trace);
                let list = cursor.list;
                self.skip(cursor);
                self.end_of(Cursor::end(list));
            }
            Err(mut error) => {
                error.action = Some(Box::new(trace.place.clone()));
                (trace.status, trace.error) = (ActionStatus::Failed, Some(error.clone()));
                self.call.trace.push(trace);
                let list = cursor.list;
                self.skip(cursor);
                self.failed(list, error);
            }
        }
        None
    }

    /// Reports the actions that are not reached.
    fn skip(&mut self, cursor: Cursor) {
        let skipped = cursor.abandon(self.tool).into_iter().map(|place| ActionTrace {
            place,
            status: ActionStatus::Skipped,
            error: None,
            warnings: Vec::new(),
            details: Map::new(),
        });
        self.call.trace.extend(skipped);
    }

    /// Goes on behind a list or a branch that came to its end.
    fn end_of(&mut self, mut cursor: Cursor) {
        if cursor.leave() {
            self.call.stage = Stage::Running(cursor);
            return;
        }
        match cursor.list {
            List::Actions => match self.output() {
                Ok(output) => {
                    self.call.output = output;
                    self.call.stage = Stage::Running(Cursor::start(List::OnSuccess));
                }
                Err(error) => self.failed(List::Actions, error),
            },
            List::OnSuccess | List::OnFailure => self.call.stage = Stage::Ended,
        }
    }

    /// What the tool gives back: its `output`, else what its last action gave.
    fn output(&mut self) -> Result<Value, ToolError> {
        let output = match &self.tool.output {
            Some(source) => source.value(&self.names(), &mut Vec::new())?,
            None => self.call.result.get("last").cloned().unwrap_or(Value::Null),
        };
        self.charge(&output)?;
        Ok(output)
    }

    /// Ends a list that failed. A failure of `on_success` or `on_failure` is recorded and changes nothing.
    fn failed(&mut self, list: List, error: ToolError) {
        if list != List::Actions {
            self.call.stage = Stage::Ended;
            return;
        }
        self.call.writes.retain(|buffered| buffered.persist);
        // Whom the list handed over to is nobody any more.
        self.call.handoff = None;
        self.view = View::new(self.context, &self.tool.secret_paths);
        self.replay_writes();
        self.error = Some(error.to_value());
        // Who cancels wants nothing more to happen.
        let is_over = error.code == ErrorCode::Cancelled;
        self.call.error = Some(error);
        self.call.stage = if is_over { Stage::Ended } else { Stage::Running(Cursor::start(List::OnFailure)) };
    }

    /// Counts a value that the call takes in, and refuses what is too much.
    pub(super) fn charge(&mut self, value: &Value) -> Result<(), ToolError> {
        let Some(size) = measure(value, MAX_VALUE_BYTES, MAX_VALUE_DEPTH) else {
            return Err(ToolError::limit(format!(
                "a value has more than {MAX_VALUE_BYTES} bytes or {MAX_VALUE_DEPTH} levels"
            )));
        };
        self.call.bytes = self.call.bytes.saturating_add(size as u64);
        if self.call.bytes > MAX_CALL_BYTES as u64 {
            return Err(ToolError::limit(format!("the call took in more than {MAX_CALL_BYTES} bytes")));
        }
        Ok(())
    }

    /// Counts evaluation steps that are not an expression's.
    pub(super) fn spend(&mut self, steps: u32) -> Result<(), ToolError> {
        self.call.steps_left = self
            .call
            .steps_left
            .checked_sub(steps)
            .ok_or_else(|| ToolError::limit(format!("the call took more than {MAX_CALL_STEPS} steps")))?;
        Ok(())
    }

    /// Keeps what an action gave, as `result.last` and under its id.
    pub(super) fn keep(&mut self, action: &ToolAction, value: Value) -> Result<(), ToolError> {
        self.charge(&value)?;
        if let Value::Object(result) = &mut self.call.result {
            if let Some(id) = &action.id {
                result.insert(id.clone(), value.clone());
            }
            result.insert("last".into(), value);
        }
        Ok(())
    }

    /// Writes a value where a path leads: at once into `temp`, else buffered and visible from here on.
    pub(super) fn write(&mut self, to: &WritePath, value: Value, persist: bool) -> Result<(), ToolError> {
        self.charge(&value)?;
        self.put(to, value, persist)
    }

    /// Writes a value that was counted.
    pub(super) fn put(&mut self, to: &WritePath, value: Value, persist: bool) -> Result<(), ToolError> {
        if to.path.root() == "temp" {
            to.path.write(&mut self.call.temp, value, to.append)?;
            return Ok(());
        }
        let path = to.path.clone();
        let write = if to.append { Write::Append { path, value } } else { Write::Set { path, value } };
        self.buffer(write, persist)
    }

    /// Buffers a write.
    pub(super) fn buffer(&mut self, write: Write, persist: bool) -> Result<(), ToolError> {
        if self.call.writes.len() >= MAX_WRITES {
            return Err(ToolError::limit(format!("the call writes more than {MAX_WRITES} times")));
        }
        if let Some(path) = write.path()
            && path.root() == "agents"
            && path.segments().first() != Some(&Segment::Name(self.view.agent.clone()))
        {
            let message = format!("`{path}` belongs to another agent than `{}`", self.context.agent);
            return Err(ToolError::because(ErrorCode::NotPermitted, "read_only", message));
        }
        self.view.apply(&write)?;
        self.call.writes.push(Buffered { write, persist });
        Ok(())
    }

    /// Settles an effect.
    fn settle(
        &mut self,
        action: &ToolAction,
        effect: &Effect,
        outcome: EffectOutcome,
        notes: &mut Notes,
    ) -> Result<Advance, ToolError> {
        notes.details.insert("effect".into(), effect.ordinal.into());
        self.settled(action, &effect.request, outcome, notes)
    }
}
