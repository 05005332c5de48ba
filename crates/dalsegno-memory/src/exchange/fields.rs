//! The fields of one JSON line, taken out one by one, so that each problem names its field.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

/// A problem with one field.
#[derive(Debug)]
pub(crate) struct FieldProblem {
    pub(crate) field: String,
    pub(crate) problem: String,
}

/// The fields of an object; a name that stands twice is refused.
#[derive(Debug)]
pub(crate) struct Fields(BTreeMap<String, Value>);

impl Fields {
    pub(crate) fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    /// Takes a string that must be there.
    pub(crate) fn text(&mut self, field: &str) -> Result<String, FieldProblem> {
        self.optional_text(field)?.ok_or_else(|| problem(field, "is missing, expected a string"))
    }

    /// Takes a string.
    pub(crate) fn optional_text(&mut self, field: &str) -> Result<Option<String>, FieldProblem> {
        match self.0.remove(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(unexpected(field, &other, "a string")),
        }
    }

    /// Takes a whole number that can be stored.
    pub(crate) fn optional_number(&mut self, field: &str) -> Result<Option<u64>, FieldProblem> {
        let Some(value) = self.0.remove(field) else { return Ok(None) };
        match value.as_u64() {
            Some(number) if i64::try_from(number).is_ok() => Ok(Some(number)),
            _ => Err(unexpected(field, &value, "a whole number from 0 to 9223372036854775807")),
        }
    }

    /// Takes any number.
    pub(crate) fn optional_float(&mut self, field: &str) -> Result<Option<f64>, FieldProblem> {
        let Some(value) = self.0.remove(field) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| unexpected(field, &value, "a number"))
    }

    /// Takes an object, empty unless it is there.
    pub(crate) fn object(&mut self, field: &str) -> Result<Value, FieldProblem> {
        match self.0.remove(field) {
            None => Ok(Value::Object(Map::new())),
            Some(object @ Value::Object(_)) => Ok(object),
            Some(other) => Err(unexpected(field, &other, "an object")),
        }
    }

    /// Takes a list of strings that must be there.
    pub(crate) fn texts(&mut self, field: &str) -> Result<Vec<String>, FieldProblem> {
        let items = match self.0.remove(field) {
            None => return Err(problem(field, "is missing, expected a list of strings")),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(unexpected(field, &other, "a list of strings")),
        };
        let texts = items.into_iter().enumerate().map(|(index, item)| match item {
            Value::String(text) => Ok(text),
            other => Err(unexpected(&format!("{field}[{index}]"), &other, "a string")),
        });
        texts.collect()
    }

    /// Refuses fields that nobody took.
    pub(crate) fn finish(self, known: &str) -> Result<(), FieldProblem> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(field) => {
                let field: String = field.chars().take(64).collect();
                Err(problem(&field, &format!("is unknown, expected {known}")))
            }
        }
    }
}

/// Says that something else was expected of a field.
pub(crate) fn problem(field: &str, problem: &str) -> FieldProblem {
    FieldProblem { field: field.to_owned(), problem: problem.to_owned() }
}

fn unexpected(field: &str, found: &Value, expected: &str) -> FieldProblem {
    let kind = match found {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    problem(field, &format!("is {kind}, expected {expected}"))
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Fields;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Fields, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some(name) = entries.next_key::<String>()? {
                    if fields.contains_key(&name) {
                        let name: String = name.chars().take(64).collect();
                        return Err(A::Error::custom(format_args!("the field `{name}` stands twice")));
                    }
                    let value = entries.next_value()?;
                    fields.insert(name, value);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}
