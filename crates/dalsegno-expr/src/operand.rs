//! Values during an evaluation: borrowed from the input where possible, and richer than JSON.
//!
//! JavaScript tells `undefined` from `null` and has `NaN`; an array that an expression builds may hold them.

use crate::error::EvalErrorKind;
use crate::json;
use crate::meter::Meter;
use crate::number;
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Map, Value};

#[derive(Clone, Debug)]
pub(crate) enum Operand<'a> {
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    /// An integer outside ±2^53.
    Integer(i128),
    Text(Cow<'a, str>),
    List(List<'a>),
    Record(Record<'a>),
}

/// An array: a part of the input, or built by the expression.
#[derive(Clone, Debug)]
pub(crate) enum List<'a> {
    Json(&'a [Value]),
    Built(Rc<[Operand<'a>]>),
}

/// An object: a part of the input, or built by the expression.
#[derive(Clone, Debug)]
pub(crate) enum Record<'a> {
    Json(&'a Map<String, Value>),
    Built(Rc<BTreeMap<&'a str, Operand<'a>>>),
}

impl<'a> Operand<'a> {
    pub(crate) fn from_json(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(bool) => Self::Bool(*bool),
            Value::Number(number) => match number::inexact_integer(number) {
                Some(integer) => Self::Integer(integer),
                None => Self::Number(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Array(items) => Self::List(List::Json(items)),
            Value::Object(fields) => Self::Record(Record::Json(fields)),
        }
    }

    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(List::Built(items.into()))
    }

    pub(crate) fn is_nullish(&self) -> bool {
        matches!(self, Self::Undefined | Self::Null)
    }

    pub(crate) fn is_truthy(&self) -> bool {
        match self {
            Self::Undefined | Self::Null => false,
            Self::Bool(bool) => *bool,
            Self::Number(number) => *number != 0.0 && !number.is_nan(),
            Self::Text(text) => !text.is_empty(),
            Self::Integer(_) | Self::List(_) | Self::Record(_) => true,
        }
    }

    /// Names the type, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Undefined => "undefined",
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) | Self::Integer(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "an array",
            Self::Record(_) => "an object",
        }
    }

    /// Turns the result of an evaluation into JSON, as `JSON.stringify` would.
    ///
    /// # Errors
    /// Fails if what was built is too large or too deep.
    pub(crate) fn into_json(self, meter: &mut Meter) -> Result<Value, EvalErrorKind> {
        self.json_at(meter, 0)
    }

    fn json_at(self, meter: &mut Meter, depth: usize) -> Result<Value, EvalErrorKind> {
        Ok(match self {
            Self::Undefined | Self::Null => Value::Null,
            Self::Bool(bool) => Value::Bool(bool),
            Self::Number(number) => number::to_json(number),
            Self::Integer(integer) => number::integer_to_json(integer),
            Self::Text(text) => Value::String(text.into_owned()),
            Self::List(List::Json(items)) => Value::Array(items.to_vec()),
            Self::Record(Record::Json(fields)) => Value::Object(fields.clone()),
            // What was built can hold the input many times over; what is passed on as a whole cannot.
            Self::List(List::Built(items)) => Value::Array(
                items.iter().map(|item| item.copy_json(meter, depth + 1)).collect::<Result<_, _>>()?,
            ),
            Self::Record(Record::Built(fields)) => {
                let mut object = Map::new();
                for (name, value) in fields.iter().filter(|(_, value)| !matches!(value, Self::Undefined)) {
                    object.insert((*name).into(), value.copy_json(meter, depth + 1)?);
                }
                Value::Object(object)
            }
        })
    }

    fn copy_json(&self, meter: &mut Meter, depth: usize) -> Result<Value, EvalErrorKind> {
        meter.items(1)?;
        match self {
            Self::Text(text) => meter.text(text.len())?,
            Self::List(List::Json(items)) => {
                items.iter().try_for_each(|item| json::measure(item, meter, depth + 1))?;
            }
            Self::Record(Record::Json(fields)) => json::measure_fields(fields, meter, depth)?,
            _ => {}
        }
        self.clone().json_at(meter, depth)
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(items) => items.len(),
            Self::Built(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Operand<'a> {
        match self {
            Self::Json(items) => items.get(index).map_or(Operand::Undefined, Operand::from_json),
            Self::Built(items) => items.get(index).cloned().unwrap_or(Operand::Undefined),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Operand<'a>> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }
}

impl<'a> Record<'a> {
    /// Returns the property, or `None` where the object has none.
    pub(crate) fn get(&self, name: &str) -> Option<Operand<'a>> {
        match self {
            Self::Json(fields) => fields.get(name).map(Operand::from_json),
            Self::Built(fields) => fields.get(name).cloned(),
        }
    }

    pub(crate) fn names(&self) -> Vec<&'a str> {
        match self {
            Self::Json(fields) => fields.keys().map(String::as_str).collect(),
            Self::Built(fields) => fields.keys().copied().collect(),
        }
    }
}
