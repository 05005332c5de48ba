//! The parameters of a tool: their JSON Schema for the model, and their enforcement before the first action.

mod coerce;
mod datetime;
mod enforce;
mod pattern;
mod schema;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::path::Path;

pub(crate) use datetime::rfc3339;
pub(crate) use enforce::{check_default, enforce};
pub use pattern::Pattern;
pub(crate) use schema::schema;

/// A parameter of a tool, or a property of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Whether the model must give it, unless a default stands in.
    pub required: bool,
    /// The value where the model gives none and `default_from` finds none.
    pub default: Option<Value>,
    /// Where the value is looked for before `default`, such as `config.default_event_duration`.
    pub default_from: Option<Path>,
    /// What it may be.
    pub shape: Shape,
}

/// What a value may be.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// The type.
    pub kind: Kind,
    /// Words for the model.
    pub description: Option<String>,
    /// The values that are allowed; any where absent.
    pub allowed: Option<Vec<Value>>,
    /// Least number.
    pub minimum: Option<f64>,
    /// Greatest number.
    pub maximum: Option<f64>,
    /// Fewest characters or items.
    pub min_length: Option<u64>,
    /// Most characters or items.
    pub max_length: Option<u64>,
    /// A regular expression that is found in the text.
    pub pattern: Option<Pattern>,
    /// What each item may be; anything where absent.
    pub items: Option<Box<Self>>,
    /// The properties of an object; anything where absent.
    pub properties: Option<Vec<Parameter>>,
}

/// The types of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list.
    Array,
    /// An object.
    Object,
    /// A time as RFC 3339 writes it.
    Datetime,
}

impl Kind {
    pub(crate) const ALL: [(&'static str, Self); 7] = [
        ("string", Self::String),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("boolean", Self::Boolean),
        ("array", Self::Array),
        ("object", Self::Object),
        ("datetime", Self::Datetime),
    ];

    fn words(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Boolean => "`true` or `false`",
            Self::Array => "an array",
            Self::Object => "an object",
            Self::Datetime => "a date and time such as `2026-01-31T09:00:00Z`",
        }
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::Number)
    }
}

impl Shape {
    /// A shape without constraints.
    pub(crate) fn of(kind: Kind) -> Self {
        Self {
            kind,
            description: None,
            allowed: None,
            minimum: None,
            maximum: None,
            min_length: None,
            max_length: None,
            pattern: None,
            items: None,
            properties: None,
        }
    }
}

/// Where a value breaks what it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The JSON pointer of the value; empty for the whole.
    pub pointer: String,
    /// What is wrong and what was expected.
    pub message: String,
}

/// An argument that was taken as another type, without loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coercion {
    /// The JSON pointer of the argument.
    pub pointer: String,
    /// The type that it had.
    pub from: String,
    /// The type that it was taken as.
    pub to: String,
}

impl Coercion {
    pub(crate) fn to_note(&self) -> String {
        format!("`{}` was {} and was taken as {}", self.pointer, self.from, self.to)
    }
}
