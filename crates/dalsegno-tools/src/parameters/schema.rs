//! Parameters as JSON Schema, draft 2020-12.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::{Kind, Parameter, Shape};

/// Returns the schema of the arguments of a tool, as models read it.
pub(crate) fn schema(parameters: &[Parameter]) -> Value {
    let mut schema = Map::new();
    object(parameters, &mut schema);
    Value::Object(schema)
}

fn object(parameters: &[Parameter], schema: &mut Map<String, Value>) {
    schema.insert("type".into(), "object".into());
    let properties: Map<String, Value> =
        parameters.iter().map(|parameter| (parameter.name.clone(), property(parameter))).collect();
    schema.insert("properties".into(), Value::Object(properties));
    let required: Vec<&str> = parameters
        .iter()
        .filter(|parameter| parameter.must_be_given())
        .map(|parameter| parameter.name.as_str())
        .collect();
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    schema.insert("additionalProperties".into(), false.into());
}

fn property(parameter: &Parameter) -> Value {
    let mut schema = shape(&parameter.shape);
    if let Some(default) = &parameter.default {
        schema.insert("default".into(), default.clone());
    }
    Value::Object(schema)
}

fn shape(shape: &Shape) -> Map<String, Value> {
    let mut schema = Map::new();
    let kind = match shape.kind {
        Kind::String | Kind::Datetime => "string",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
        Kind::Array => "array",
        Kind::Object => "object",
    };
    schema.insert("type".into(), kind.into());
    if shape.kind == Kind::Datetime {
        schema.insert("format".into(), "date-time".into());
    }
    if let Some(description) = &shape.description {
        schema.insert("description".into(), description.as_str().into());
    }
    if let Some(allowed) = &shape.allowed {
        schema.insert("enum".into(), Value::Array(allowed.clone()));
    }
    for (name, bound) in [("minimum", shape.minimum), ("maximum", shape.maximum)] {
        if let Some(bound) = bound {
            schema.insert(name.into(), number(bound));
        }
    }
    let lengths = match shape.kind {
        Kind::Array => ("minItems", "maxItems"),
        _ => ("minLength", "maxLength"),
    };
    for (name, length) in [(lengths.0, shape.min_length), (lengths.1, shape.max_length)] {
        if let Some(length) = length {
            schema.insert(name.into(), length.into());
        }
    }
    if let Some(pattern) = &shape.pattern {
        schema.insert("pattern".into(), pattern.as_str().into());
    }
    if let Some(items) = &shape.items {
        schema.insert("items".into(), Value::Object(self::shape(items)));
    }
    if let Some(properties) = &shape.properties {
        object(properties, &mut schema);
    }
    schema
}

/// A whole bound is printed as a whole number.
fn number(bound: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    // Going there and back is how a float is found to be whole without `std`.
    let whole = bound as i64;
    if bound.abs() <= EXACT && whole as f64 == bound { whole.into() } else { json!(bound) }
}

impl Parameter {
    /// Says whether the model must give it: a parameter with a default is never missing.
    pub(crate) fn must_be_given(&self) -> bool {
        self.required && self.default.is_none() && self.default_from.is_none()
    }
}
