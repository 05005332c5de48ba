//! Arguments against parameters: every violation at once, before the first action.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::coerce::coerce;
use super::datetime::{self, Time};
use super::{Coercion, Kind, Parameter, Shape, Violation};
use crate::json;
use crate::limits::MAX_VIOLATIONS;
use crate::name;
use crate::path::Path;
use crate::problem::{item, member};

/// What came of the arguments.
#[derive(Debug, Default)]
pub(crate) struct Enforced {
    pub(crate) values: Map<String, Value>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) coerced: Vec<Coercion>,
}

/// Checks arguments, coerces what can be without loss, and fills in defaults. `read` finds the value of a path.
pub(crate) fn enforce(
    parameters: &[Parameter],
    arguments: &Map<String, Value>,
    zone: Option<&str>,
    read: &dyn Fn(&Path) -> Option<Value>,
) -> Enforced {
    let mut check = Check { zone, read, found: Enforced::default() };
    let values = check.object(parameters, arguments, "");
    Enforced { values, ..check.found }
}

struct Check<'c> {
    zone: Option<&'c str>,
    read: &'c dyn Fn(&Path) -> Option<Value>,
    found: Enforced,
}

impl Check<'_> {
    fn violation(&mut self, pointer: &str, message: String) {
        if self.found.violations.len() < MAX_VIOLATIONS {
            self.found.violations.push(Violation { pointer: pointer.into(), message });
        }
    }

    fn object(
        &mut self,
        parameters: &[Parameter],
        arguments: &Map<String, Value>,
        pointer: &str,
    ) -> Map<String, Value> {
        let names = || parameters.iter().map(|parameter| parameter.name.as_str());
        for (name, _) in json::sorted(arguments) {
            if !names().any(|known| known == name) {
                let meant = name::nearest(name, names())
                    .map(|nearest| format!(": did you mean `{nearest}`?"))
                    .unwrap_or_default();
                self.violation(&member(pointer, name), format!("there is no such parameter{meant}"));
            }
        }
        let mut values = Map::new();
        for parameter in parameters {
            let pointer = member(pointer, &parameter.name);
            // Models give `null` for what they leave out.
            let given = arguments.get(&parameter.name).filter(|value| !value.is_null());
            let value = match given {
                Some(given) => Some(self.value(given, &parameter.shape, &pointer)),
                None => self.default(parameter, &pointer),
            };
            if let Some(value) = value {
                values.insert(parameter.name.clone(), value);
            } else if parameter.required {
                self.violation(&pointer, format!("it is missing: expected {}", parameter.shape.kind.words()));
            }
        }
        values
    }

    fn default(&mut self, parameter: &Parameter, pointer: &str) -> Option<Value> {
        if let Some(path) = &parameter.default_from
            && let Some(found) = (self.read)(path).filter(|value| !value.is_null())
        {
            return Some(self.value(&found, &parameter.shape, pointer));
        }
        parameter.default.clone()
    }

    /// Checks one value, and returns it as the tool reads it.
    fn value(&mut self, value: &Value, shape: &Shape, pointer: &str) -> Value {
        let value = if shape.kind.is_of(value) {
            value.clone()
        } else if let Some(coerced) = coerce(value, shape.kind) {
            self.found.coerced.push(Coercion {
                pointer: pointer.into(),
                from: json::kind(value).into(),
                to: shape.kind.words().into(),
            });
            coerced
        } else {
            self.violation(pointer, format!("expected {}, found {}", shape.kind.words(), json::kind(value)));
            return Value::Null;
        };
        if let Some(allowed) = &shape.allowed
            && !allowed.iter().any(|allowed| is_same(allowed, &value))
        {
            let allowed: Vec<String> = allowed.iter().map(|value| format!("`{}`", shown(value))).collect();
            self.violation(pointer, format!("expected one of {}", allowed.join(", ")));
        }
        match value {
            Value::Number(number) => {
                self.bounds(number.as_f64().unwrap_or_default(), shape, pointer);
                Value::Number(number)
            }
            Value::String(text) => self.text(text, shape, pointer),
            Value::Array(items) => {
                self.length(items.len() as u64, "items", shape, pointer);
                let Some(inner) = &shape.items else { return Value::Array(items) };
                let checked = items
                    .iter()
                    .enumerate()
                    .map(|(index, value)| self.value(value, inner, &item(pointer, index)))
                    .collect();
                Value::Array(checked)
            }
            Value::Object(fields) => match &shape.properties {
                Some(properties) => Value::Object(self.object(properties, &fields, pointer)),
                None => Value::Object(fields),
            },
            Value::Null | Value::Bool(_) => value,
        }
    }

    fn bounds(&mut self, number: f64, shape: &Shape, pointer: &str) {
        if let Some(minimum) = shape.minimum
            && number < minimum
        {
            self.violation(pointer, format!("expected at least {minimum}"));
        }
        if let Some(maximum) = shape.maximum
            && number > maximum
        {
            self.violation(pointer, format!("expected at most {maximum}"));
        }
    }

    fn length(&mut self, length: u64, what: &str, shape: &Shape, pointer: &str) {
        if let Some(least) = shape.min_length
            && length < least
        {
            self.violation(pointer, format!("expected at least {least} {what}, found {length}"));
        }
        if let Some(most) = shape.max_length
            && length > most
        {
            self.violation(pointer, format!("expected at most {most} {what}, found {length}"));
        }
    }

    fn text(&mut self, text: String, shape: &Shape, pointer: &str) -> Value {
        self.length(text.chars().count() as u64, "characters", shape, pointer);
        if let Some(pattern) = &shape.pattern
            && !pattern.is_match(&text)
        {
            self.violation(pointer, format!("it does not match the pattern `{}`", pattern.as_str()));
        }
        if shape.kind != Kind::Datetime {
            return Value::String(text);
        }
        match datetime::read(&text, self.zone) {
            Time::Exact => Value::String(text),
            Time::Completed(time) => {
                self.found.coerced.push(Coercion {
                    pointer: pointer.into(),
                    from: "a local time".into(),
                    to: format!("`{time}`"),
                });
                Value::String(time)
            }
            Time::NoOffset => {
                self.violation(pointer, "the time needs an offset, such as `Z` or `+02:00`".into());
                Value::Null
            }
            Time::Ambiguous => {
                let message = "the clocks change at this time: it needs an offset, such as `+02:00`";
                self.violation(pointer, message.into());
                Value::Null
            }
            Time::Invalid => {
                self.violation(pointer, format!("expected {}", shape.kind.words()));
                Value::Null
            }
        }
    }
}

/// Numbers are the same whether they are written `3` or `3.0`.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        _ => left == right,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => json::excerpt(text),
        other => json::excerpt(&json::print(other)),
    }
}

impl Kind {
    fn is_of(self, value: &Value) -> bool {
        match (self, value) {
            (Self::String | Self::Datetime, Value::String(_))
            | (Self::Number, Value::Number(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::Array, Value::Array(_))
            | (Self::Object, Value::Object(_)) => true,
            (Self::Integer, Value::Number(number)) => number.is_i64() || number.is_u64(),
            _ => false,
        }
    }
}

/// Says where a value that the document itself gives breaks the shape.
pub(crate) fn check_default(value: &Value, shape: &Shape) -> Option<String> {
    let mut check = Check { zone: Some("UTC"), read: &|_| None, found: Enforced::default() };
    check.value(value, shape, "");
    if let Some(coercion) = check.found.coerced.first()
        && shape.kind != Kind::Datetime
    {
        return Some(format!("expected {}, found {}", coercion.to, coercion.from));
    }
    let violation = check.found.violations.into_iter().next()?;
    Some(match violation.pointer.as_str() {
        "" => violation.message,
        pointer => format!("at `{pointer}`: {}", violation.message),
    })
}
