//! The `transform` action.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use dalsegno_expr::{EvalErrorKind, Meter};
use serde_json::Value;

use super::run::{Advance, Notes, Run};
use crate::action::{ToolAction, Transform, TransformKind};
use crate::json::{self, measure};
use crate::limits::{MAX_TRANSFORM_ITEMS, MAX_TRANSFORM_STEPS, MAX_VALUE_BYTES, MAX_VALUE_DEPTH};
use crate::outcome::{ErrorCode, ToolError};
use crate::scope::{Item, Names};

impl Run<'_, '_> {
    /// Works through a list. All items share one budget of evaluation steps, and all transforms of a call another.
    pub(super) fn transform(
        &mut self,
        action: &ToolAction,
        transform: &Transform,
        notes: &mut Notes,
    ) -> Result<Advance, ToolError> {
        let budget = MAX_TRANSFORM_STEPS.min(self.call.steps_left);
        let mut meter = Meter::new(budget);
        let output = {
            let names = self.names();
            let found = names.find(&transform.input);
            let items = match found.as_deref() {
                Some(Value::Array(items)) => items,
                other => {
                    let found = other.map_or("missing", json::kind);
                    let message = format!("`{}` is {found}, not a list", transform.input);
                    return Err(ToolError::because(ErrorCode::ActionFailed, "not_a_list", message));
                }
            };
            if items.len() > MAX_TRANSFORM_ITEMS {
                let message = format!("the list has more than {MAX_TRANSFORM_ITEMS} items");
                return Err(ToolError::limit(message));
            }
            notes.details.insert("items".into(), items.len().into());
            work(transform, items, names, &mut meter)
        };
        self.call.steps_left = self.call.steps_left.saturating_sub(budget - meter.steps_left().min(budget));
        let output = output?;
        self.write(&transform.output, output.clone(), false)?;
        self.keep(action, output)?;
        Ok(Advance::Done)
    }
}

fn work(
    transform: &Transform,
    items: &[Value],
    names: Names<'_>,
    meter: &mut Meter,
) -> Result<Value, ToolError> {
    let mut bytes = 0;
    match transform.kind {
        TransformKind::Map => {
            let mut mapped = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let value = one(transform, item, index, None, names, meter)?;
                grow(&mut bytes, &value)?;
                mapped.push(value);
            }
            Ok(Value::Array(mapped))
        }
        TransformKind::Filter => {
            let mut kept = Vec::new();
            for (index, item) in items.iter().enumerate() {
                if is_truthy(&one(transform, item, index, None, names, meter)?) {
                    grow(&mut bytes, item)?;
                    kept.push(item.clone());
                }
            }
            Ok(Value::Array(kept))
        }
        TransformKind::Reduce => {
            let mut items = items.iter().enumerate();
            let mut acc = match &transform.initial {
                Some(initial) => Cow::Borrowed(initial),
                // As in JavaScript, the first item stands in for the initial value.
                None => match items.next() {
                    Some((_, first)) => Cow::Borrowed(first),
                    None => {
                        let message = "`reduce` of an empty list needs an `initial` value";
                        return Err(ToolError::new(ErrorCode::ActionFailed, message));
                    }
                },
            };
            for (index, item) in items {
                acc = Cow::Owned(one(transform, item, index, Some(&acc), names, meter)?);
            }
            Ok(acc.into_owned())
        }
    }
}

/// Evaluates the expression for one item.
fn one(
    transform: &Transform,
    item: &Value,
    index: usize,
    acc: Option<&Value>,
    names: Names<'_>,
    meter: &mut Meter,
) -> Result<Value, ToolError> {
    let position = Value::from(index);
    let names = Names { item: Some(Item { item, index: &position, acc }), ..names };
    let source = &transform.expression;
    source.expression.evaluate_within(&names.reading(&source.context), meter).map_err(|error| {
        let is_spent = matches!(error.kind, EvalErrorKind::TooManySteps { .. });
        let error = ToolError::from(error);
        match is_spent {
            true => error.with("item", index),
            false => ToolError { message: format!("item {index}: {}", error.message), ..error },
        }
    })
}

/// Bounds what is gathered, before it is all there.
fn grow(bytes: &mut usize, value: &Value) -> Result<(), ToolError> {
    let size = measure(value, MAX_VALUE_BYTES, MAX_VALUE_DEPTH);
    *bytes = bytes.saturating_add(size.unwrap_or(MAX_VALUE_BYTES + 1));
    if *bytes > MAX_VALUE_BYTES {
        return Err(ToolError::limit(format!("the result has more than {MAX_VALUE_BYTES} bytes")));
    }
    Ok(())
}

/// JavaScript's idea of truth, for a value that was evaluated.
fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}
