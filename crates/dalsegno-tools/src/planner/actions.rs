//! The actions that need no effect.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use serde_json::Value;

use super::cursor::Branch;
use super::run::{Advance, Notes, Run};
use crate::action::{ActionKind, OnError, ToolAction};
use crate::context::Write;
use crate::effect::{EffectRequest, ToolRequest, absent_arguments};
use crate::limits::MAX_SAID_BYTES;
use crate::outcome::{ErrorCode, HandoffTo, ToolError};

impl Run<'_, '_> {
    /// Performs an action, or says which effect it needs.
    pub(super) fn perform(&mut self, action: &ToolAction, notes: &mut Notes) -> Result<Advance, ToolError> {
        let missing = &mut notes.warnings;
        match &action.kind {
            ActionKind::Set { writes, persist } => {
                // All values before the first write: a map has no order that one of them could rely on.
                let mut values = Vec::with_capacity(writes.len());
                for (_, source) in writes {
                    let value = source.value(&self.names(), missing)?;
                    self.charge(&value)?;
                    values.push(value);
                }
                for ((to, _), value) in writes.iter().zip(values) {
                    self.put(to, value, *persist)?;
                }
                Ok(Advance::Done)
            }
            ActionKind::Get { path, output, default } => {
                let found = self.names().find(path).map(Cow::into_owned);
                let value = match (found, default) {
                    (Some(value), _) => value,
                    (None, Some(default)) => default.value(&self.names(), missing)?,
                    (None, None) => Value::Null,
                };
                if let Some(output) = output {
                    self.write(output, value.clone(), false)?;
                }
                self.keep(action, value)?;
                Ok(Advance::Done)
            }
            ActionKind::Delete { path, persist } => {
                if path.path.root() == "temp" {
                    path.path.delete(&mut self.call.temp);
                } else {
                    self.buffer(Write::Delete { path: path.path.clone() }, *persist)?;
                }
                Ok(Advance::Done)
            }
            ActionKind::Flag { flag, value, persist } => {
                self.buffer(Write::Flag { flag: flag.clone(), value: *value }, *persist)?;
                Ok(Advance::Done)
            }
            ActionKind::Respond { message } => {
                let text = message.text(&self.names(), missing)?;
                self.say(text)?;
                Ok(Advance::Done)
            }
            ActionKind::Handoff { target, message } => {
                if let Some(handoff) = &self.call.handoff {
                    let message = format!("the session goes on with `{}` already", handoff.target_agent);
                    return Err(ToolError::new(ErrorCode::ActionFailed, message));
                }
                let message = match message {
                    Some(message) => Some(message.text(&self.names(), missing)?),
                    None => None,
                };
                if let Some(message) = &message {
                    self.say(message.clone())?;
                }
                self.call.handoff = Some(HandoffTo { target_agent: target.clone(), message });
                Ok(Advance::Stop)
            }
            ActionKind::Conditional { condition, .. } => {
                let holds = condition.is_true(&self.names())?;
                let branch = if holds { Branch::Then } else { Branch::Else };
                notes.details.insert("condition".into(), holds.into());
                Ok(Advance::Enter(branch))
            }
            ActionKind::Validate { rules } => self.validate(rules, notes),
            ActionKind::Transform(transform) => self.transform(action, transform, notes),
            ActionKind::Log { level, message } => {
                let text = message.text(&self.names(), missing)?;
                let text = Value::String(text);
                self.charge(&text)?;
                notes.details.insert("level".into(), level.as_str().into());
                notes.details.insert("message".into(), text);
                Ok(Advance::Done)
            }
            ActionKind::ApiCall(source) => {
                let asked = self.api_call(source, notes);
                self.ask(action, source.on_error, asked.map(EffectRequest::ApiCall))
            }
            ActionKind::Email(source) => {
                let asked = self.email(source, notes);
                self.ask(action, source.on_error, asked.map(EffectRequest::Email))
            }
            ActionKind::Tool(source) => {
                let arguments = source.arguments.value(&self.names(), missing)?;
                self.charge(&arguments)?;
                let absent = absent_arguments(source.arguments.template.source(), &arguments);
                let request = ToolRequest { name: source.name.clone(), arguments, absent };
                self.ask(action, source.on_error, Ok(EffectRequest::Tool(request)))
            }
            ActionKind::Transfer { target, on_error } => {
                let asked = self.transfer(target, notes);
                self.ask(action, *on_error, asked.map(EffectRequest::Transfer))
            }
        }
    }

    /// Asks for an effect; a request that cannot even be made is a failure of the effect like any other.
    fn ask(
        &mut self,
        action: &ToolAction,
        on_error: OnError,
        request: Result<EffectRequest, ToolError>,
    ) -> Result<Advance, ToolError> {
        match request {
            Ok(request) => Ok(Advance::Ask(Box::new(request))),
            Err(error) => self.effect_failed(action, on_error, error),
        }
    }

    fn say(&mut self, text: alloc::string::String) -> Result<(), ToolError> {
        let said: usize = self.call.said.iter().map(alloc::string::String::len).sum();
        if said + text.len() > MAX_SAID_BYTES {
            return Err(ToolError::limit(format!("the call says more than {MAX_SAID_BYTES} bytes")));
        }
        self.call.said.push(text);
        Ok(())
    }
}
