//! Where in a plan something happens; every message of a plan begins with it.

use alloc::string::String;
use core::fmt;

use dalsegno_expr::{EvalError, Expression, Scope, Template, ValueTemplate};
use serde_json::Value;

use crate::config::{PlanOperation, PlanStep, StepAction};
use crate::event::{MAX_DEPTH, depth};
use crate::id::StepId;
use crate::phase::Stop;
use crate::response::RunErrorCode;

/// A step, a branch or an item: ``plan step 2 `score` ``, ``plan step 4 `notify`, item 3``. Counted from 1, as people do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    index: usize,
    id: Option<&'a StepId>,
    item: Option<usize>,
}

impl<'a> Place<'a> {
    pub(super) fn step(index: usize) -> Self {
        Self { index, id: None, item: None }
    }

    /// A step as a whole; its name is that of its operation, where it has one alone.
    pub(super) fn whole(index: usize, step: &'a PlanStep) -> Self {
        match &step.action {
            StepAction::Operation(operation) => Self::operation(index, operation),
            StepAction::ForEach(each) => Self::operation(index, &each.operation),
            StepAction::Parallel(_)
            | StepAction::Set(_)
            | StepAction::Respond(_)
            | StepAction::Output(_)
            | StepAction::Handoff(_) => Self::step(index),
        }
    }

    pub(super) fn operation(index: usize, operation: &'a PlanOperation) -> Self {
        Self { index, id: operation.id.as_ref(), item: None }
    }

    pub(super) fn item(self, item: usize) -> Self {
        Self { item: Some(item), ..self }
    }

    pub(super) fn stop(self, code: RunErrorCode, message: fmt::Arguments<'_>, help: &str) -> Stop {
        Stop::failed(code, alloc::format!("{self}: {message}"), help)
    }

    /// The same stop, with the place before its message.
    pub(super) fn name(self, mut stop: Stop) -> Stop {
        stop.error.message = alloc::format!("{self}: {}", stop.error.message);
        stop
    }

    pub(super) fn text(self, template: &Template, scope: &dyn Scope) -> Result<String, Stop> {
        template.render_text(scope).map_err(|error| self.evaluation(&error))
    }

    pub(super) fn value(self, template: &ValueTemplate, scope: &dyn Scope) -> Result<Value, Stop> {
        let value = template.render(scope).map_err(|error| self.evaluation(&error))?;
        self.shallow(value)
    }

    pub(super) fn evaluate(self, expression: &Expression, scope: &dyn Scope) -> Result<Value, Stop> {
        let value = expression.evaluate(scope).map_err(|error| self.evaluation(&error))?;
        self.shallow(value)
    }

    pub(super) fn is_true(self, condition: &Expression, scope: &dyn Scope) -> Result<bool, Stop> {
        condition.is_true(scope).map_err(|error| self.evaluation(&error))
    }

    fn evaluation(self, error: &EvalError) -> Stop {
        Stop::evaluation(&alloc::format!("{self}"), error)
    }

    /// Refuses what a saved state could not be read back with.
    fn shallow(self, value: Value) -> Result<Value, Stop> {
        if depth(&value) <= MAX_DEPTH {
            return Ok(value);
        }
        Err(self.stop(
            RunErrorCode::EvaluationFailed,
            format_args!("the value is nested more than {MAX_DEPTH} deep"),
            "pass on only the part of an earlier result that is needed",
        ))
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plan step {}", self.index + 1)?;
        if let Some(id) = self.id {
            write!(f, " `{id}`")?;
        }
        match self.item {
            Some(item) => write!(f, ", item {}", item.saturating_add(1)),
            None => Ok(()),
        }
    }
}
