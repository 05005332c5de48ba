//! The parameters of a tool.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::actions::transpose;
use super::reader::{Fields, Reader};
use crate::json;
use crate::limits::{MAX_NAME, MAX_PARAMETER_DEPTH, MAX_PARAMETERS};
use crate::name::is_forbidden;
use crate::parameters::{Kind, Parameter, Shape, check_default};
use crate::problem::item;

/// What says what a value may be.
const SHAPE: [&str; 12] = [
    "type",
    "description",
    "enum",
    "minimum",
    "min_value",
    "maximum",
    "max_value",
    "min_length",
    "max_length",
    "pattern",
    "items",
    "properties",
];
/// What a parameter has besides.
const PARAMETER: [&str; 4] = ["name", "required", "default", "default_from"];

impl Reader<'_> {
    /// Reads a list of parameters.
    pub(super) fn parameters(&mut self, value: &Value, pointer: &str, depth: usize) -> Vec<Parameter> {
        let Value::Array(items) = value else {
            self.problem(
                pointer,
                format!("this is {}", json::kind(value)),
                "expected an array of parameters",
            );
            return Vec::new();
        };
        if items.len() > MAX_PARAMETERS {
            self.problem(
                pointer,
                format!("there are {} parameters", items.len()),
                format!("expected at most {MAX_PARAMETERS}"),
            );
            return Vec::new();
        }
        let mut parameters: Vec<Parameter> = Vec::new();
        for (index, value) in items.iter().enumerate() {
            let Some(parameter) = self.parameter(value, &item(pointer, index), depth) else { continue };
            if parameters.iter().any(|known| known.name == parameter.name) {
                self.problem(
                    item(pointer, index),
                    format!("there are two parameters `{}`", parameter.name),
                    "give each its own name",
                );
            }
            parameters.push(parameter);
        }
        parameters
    }

    fn parameter(&mut self, value: &Value, pointer: &str, depth: usize) -> Option<Parameter> {
        let known = [PARAMETER.as_slice(), &SHAPE].concat();
        let fields = self.object(value, pointer, "a parameter", &known)?;
        let name = self
            .required_text(&fields, "name", "the parameter's name")
            .and_then(|text| self.parameter_name(&fields.at("name"), text));
        let required = self.flag(&fields, "required", false);
        let shape = self.shape(&fields, depth);
        let default_from =
            self.text(&fields, "default_from").map(|text| self.read_path(&fields.at("default_from"), text));
        let default = fields.get("default").filter(|default| !default.is_null()).cloned();
        let shape = shape?;
        if let Some(default) = &default
            && let Some(reason) = check_default(default, &shape)
        {
            self.problem(fields.at("default"), "the default breaks the parameter's own rules", reason);
        }
        if required && (default.is_some() || default_from.is_some()) {
            self.warning(
                fields.at("required"),
                "a parameter with a default is never missing",
                "leave out one of them",
            );
        }
        Some(Parameter { name: name?, required, default, default_from: transpose(default_from)?, shape })
    }

    fn parameter_name(&mut self, pointer: &str, text: &str) -> Option<String> {
        let name = text.replace('-', "_");
        let valid = name.len() <= MAX_NAME
            && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !is_forbidden(&name);
        if valid {
            return Some(name);
        }
        self.problem(
            pointer,
            format!("`{}` is not a name for a parameter", json::excerpt(text)),
            format!("expected 1 to {MAX_NAME} letters, digits and `_`, beginning with a letter"),
        );
        None
    }

    fn shape(&mut self, fields: &Fields<'_>, depth: usize) -> Option<Shape> {
        if depth > MAX_PARAMETER_DEPTH {
            self.problem(
                fields.pointer.as_str(),
                "parameters are nested too deeply",
                format!("expected at most {MAX_PARAMETER_DEPTH} levels"),
            );
            return None;
        }
        if fields.get("type").is_none() {
            self.missing(fields, "type", "string, integer, number, boolean, array, object or datetime");
            return None;
        }
        let mut shape = Shape::of(self.choice(fields, "type", &Kind::ALL)?);
        shape.description = self.text(fields, "description").map(Into::into);
        shape.allowed = self.allowed(fields, shape.kind);
        shape.minimum = self.bound(fields, ["minimum", "min_value"], shape.kind);
        shape.maximum = self.bound(fields, ["maximum", "max_value"], shape.kind);
        shape.min_length = self.length(fields, "min_length", shape.kind);
        shape.max_length = self.length(fields, "max_length", shape.kind);
        if let (Some(least), Some(most)) = (shape.minimum, shape.maximum)
            && least > most
        {
            self.problem(fields.pointer.as_str(), "the minimum is greater than the maximum", "exchange them");
        }
        if let (Some(least), Some(most)) = (shape.min_length, shape.max_length)
            && least > most
        {
            self.problem(
                fields.pointer.as_str(),
                "`min_length` is greater than `max_length`",
                "exchange them",
            );
        }
        if let Some(source) = self.text(fields, "pattern") {
            if shape.kind == Kind::String {
                shape.pattern = self.pattern(&fields.at("pattern"), source);
            } else {
                self.misplaced(fields, "pattern", "a string");
            }
        }
        if let Some(items) = fields.get("items") {
            if shape.kind == Kind::Array {
                let pointer = fields.at("items");
                let inner = self.object(items, &pointer, "`items`", &SHAPE)?;
                shape.items = Some(Box::new(self.shape(&inner, depth + 1)?));
            } else {
                self.misplaced(fields, "items", "an array");
            }
        }
        if let Some(properties) = fields.get("properties") {
            if shape.kind == Kind::Object {
                shape.properties = Some(self.parameters(properties, &fields.at("properties"), depth + 1));
            } else {
                self.misplaced(fields, "properties", "an object");
            }
        }
        Some(shape)
    }

    fn misplaced(&mut self, fields: &Fields<'_>, name: &str, kind: &str) {
        self.problem(
            fields.at(name),
            format!("`{name}` belongs to {kind}"),
            "leave it out, or change the `type`",
        );
    }

    fn allowed(&mut self, fields: &Fields<'_>, kind: Kind) -> Option<Vec<Value>> {
        let allowed = self.list(fields, "enum")?;
        if allowed.is_empty() {
            self.problem(fields.at("enum"), "`enum` is empty", "expected the values that are allowed");
        }
        for (index, value) in allowed.iter().enumerate() {
            if let Some(reason) = check_default(value, &Shape::of(kind)) {
                self.problem(
                    item(&fields.at("enum"), index),
                    "this value breaks the parameter's own rules",
                    reason,
                );
            }
        }
        Some(allowed.to_vec())
    }

    fn bound(&mut self, fields: &Fields<'_>, names: [&str; 2], kind: Kind) -> Option<f64> {
        let [name, alias] = names;
        if fields.get(name).is_some() && fields.get(alias).is_some() {
            self.problem(
                fields.at(alias),
                format!("`{alias}` is another name for `{name}`"),
                "give one of them",
            );
        }
        let name = if fields.get(name).is_some() { name } else { alias };
        let bound = self.number(fields, name)?;
        if !kind.is_number() {
            self.misplaced(fields, name, "an integer or a number");
            return None;
        }
        Some(bound)
    }

    fn length(&mut self, fields: &Fields<'_>, name: &str, kind: Kind) -> Option<u64> {
        let length = self.whole(fields, name, u64::from(u32::MAX))?;
        if !matches!(kind, Kind::String | Kind::Array) {
            self.misplaced(fields, name, "a string or an array");
            return None;
        }
        Some(length)
    }
}
