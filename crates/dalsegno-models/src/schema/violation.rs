//! Violations in words that a model can act on.

use dalsegno_core::Violation;
use jsonschema::JsonType;
use jsonschema::error::{TypeKind, ValidationError, ValidationErrorKind as Kind};
use serde_json::Value;

use super::MAX_VIOLATIONS;
use super::coerce::Coercion;

/// Most characters of one message; schemas bring long lists and patterns.
const MAX_MESSAGE_CHARS: usize = 400;

/// Most names in a list of what is allowed.
const MAX_NAMES: usize = 24;

/// Puts validation errors into words, the first [`MAX_VIOLATIONS`] of them.
pub(super) fn explain<'e>(
    document: &Value,
    errors: impl Iterator<Item = ValidationError<'e>>,
) -> Vec<Violation> {
    let mut writer = Writer { document, violations: Vec::new() };
    for error in errors {
        writer.error(&error);
        if writer.violations.len() >= MAX_VIOLATIONS {
            break;
        }
    }
    writer.violations.truncate(MAX_VIOLATIONS);
    writer.violations
}

/// Puts the error of a schema itself into words.
pub(super) fn explain_one(error: &ValidationError<'_>) -> Violation {
    let path = || error.instance_path().as_str().to_owned();
    match error.kind() {
        Kind::Format { format } if format == "regex" => {
            let message = format!(
                "{} is not a pattern that runs in linear time: expected one without look-around and back-references",
                error.instance()
            );
            Violation { path: path(), message: shorten(message) }
        }
        _ => {
            let mut writer = Writer { document: &Value::Null, violations: Vec::new() };
            writer.error(error);
            let unnamed = || Violation { path: path(), message: "is not a JSON Schema".to_owned() };
            writer.violations.into_iter().next().unwrap_or_else(unnamed)
        }
    }
}

/// Cuts a text to the length of a message.
fn shorten(text: String) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

struct Writer<'s> {
    document: &'s Value,
    violations: Vec<Violation>,
}

impl Writer<'_> {
    fn add(&mut self, path: String, message: String) {
        let violation = Violation { path, message: shorten(message) };
        if !self.violations.contains(&violation) {
            self.violations.push(violation);
        }
    }

    fn error(&mut self, error: &ValidationError<'_>) {
        let path = error.instance_path().as_str().to_owned();
        let message = match error.kind() {
            Kind::Type { kind } => {
                format!("expected {}, found {}", types(kind).join(" or "), type_name(error.instance()))
            }
            Kind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let expected =
                    self.expected(error, name).map_or(String::new(), |types| format!(": expected {types}"));
                return self.add(below(&path, name), format!("required, but missing{expected}"));
            }
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                let known = self.known(error);
                for name in unexpected.iter().take(MAX_VIOLATIONS) {
                    self.add(below(&path, name), format!("no such property: {known}"));
                }
                return;
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                return self.alternatives(error, context);
            }
            Kind::OneOfMultipleValid { .. } => {
                "fits more than one alternative, expected exactly one".to_owned()
            }
            Kind::Enum { options } => {
                format!("expected one of {}", list(options.as_array().into_iter().flatten()))
            }
            Kind::Constant { expected_value } => format!("expected {expected_value}"),
            Kind::Minimum { limit } => format!("expected at least {limit}, found {}", error.instance()),
            Kind::Maximum { limit } => format!("expected at most {limit}, found {}", error.instance()),
            Kind::ExclusiveMinimum { limit } => {
                format!("expected more than {limit}, found {}", error.instance())
            }
            Kind::ExclusiveMaximum { limit } => {
                format!("expected less than {limit}, found {}", error.instance())
            }
            Kind::MultipleOf { multiple_of } => {
                format!("expected a multiple of {multiple_of}, found {}", error.instance())
            }
            Kind::MinLength { limit } => {
                format!("expected at least {limit} characters, found {}", size(error))
            }
            Kind::MaxLength { limit } => {
                format!("expected at most {limit} characters, found {}", size(error))
            }
            Kind::MinItems { limit } => format!("expected at least {limit} items, found {}", size(error)),
            Kind::MaxItems { limit } => format!("expected at most {limit} items, found {}", size(error)),
            Kind::MinProperties { limit } => {
                format!("expected at least {limit} properties, found {}", size(error))
            }
            Kind::MaxProperties { limit } => {
                format!("expected at most {limit} properties, found {}", size(error))
            }
            Kind::AdditionalItems { limit } => {
                format!("expected at most {limit} items, found {}", size(error))
            }
            Kind::UnevaluatedItems { unexpected } => {
                format!("{} items are not expected here", unexpected.len())
            }
            Kind::Pattern { pattern } => format!("expected text that matches the pattern `{pattern}`"),
            Kind::Format { format } => format!("expected text in the format `{format}`"),
            Kind::UniqueItems => "expected items that all differ".to_owned(),
            Kind::Contains => "expected an item that fits what `contains` demands".to_owned(),
            Kind::Not { .. } => "is of a form that is excluded here".to_owned(),
            Kind::FalseSchema => "is not allowed here".to_owned(),
            Kind::PropertyNames { error } => format!("has a property name that is not allowed: {error}"),
            Kind::ContentEncoding { content_encoding } => {
                format!("expected content encoded as `{content_encoding}`")
            }
            Kind::ContentMediaType { content_media_type } => {
                format!("expected content of the type `{content_media_type}`")
            }
            Kind::BacktrackLimitExceeded { .. }
            | Kind::RegexEngineFailure { .. }
            | Kind::Custom { .. }
            | Kind::FromUtf8 { .. }
            | Kind::Referencing(_) => error.to_string(),
        };
        self.add(path, message);
    }

    /// Explains why none of several alternatives fits, as if there were one where that is plain.
    fn alternatives(&mut self, error: &ValidationError<'_>, branches: &[Vec<ValidationError<'_>>]) {
        let here = |inner: &&ValidationError<'_>| inner.instance_path() == error.instance_path();
        let mut names: Vec<&'static str> = Vec::new();
        let mut constants = Vec::new();
        let mut others = Vec::new();
        for branch in branches {
            let wrong_type = branch.iter().filter(here).find_map(|inner| match inner.kind() {
                Kind::Type { kind } => Some(types(kind)),
                _ => None,
            });
            match (wrong_type, branch.as_slice()) {
                (Some(types), _) => names.extend(types),
                (None, [inner]) if here(&inner) && matches!(inner.kind(), Kind::Constant { .. }) => {
                    if let Kind::Constant { expected_value } = inner.kind() {
                        constants.push(&**expected_value);
                    }
                }
                (None, _) => others.push(branch),
            }
        }
        match (others.as_slice(), constants.is_empty()) {
            ([], true) if !names.is_empty() => {
                let mut seen = Vec::new();
                names.retain(|name| {
                    !seen.contains(name) && {
                        seen.push(*name);
                        true
                    }
                });
                let message =
                    format!("expected {}, found {}", names.join(" or "), type_name(error.instance()));
                self.add(error.instance_path().as_str().to_owned(), message);
            }
            ([], false) => {
                let message = format!("expected one of {}", list(constants.into_iter()));
                self.add(error.instance_path().as_str().to_owned(), message);
            }
            ([only], true) => only.iter().for_each(|inner| self.error(inner)),
            _ => {
                let message = format!("fits none of the {} alternatives", branches.len());
                self.add(error.instance_path().as_str().to_owned(), message);
            }
        }
    }

    /// The subschema whose keyword an error is about.
    fn subschema(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let (parent, _keyword) = error.schema_path().as_str().rsplit_once('/')?;
        self.document.pointer(parent)
    }

    /// The types that a property may have, in words.
    fn expected(&self, error: &ValidationError<'_>, name: &str) -> Option<String> {
        let schema = self.subschema(error)?.get("properties")?.get(name)?;
        Coercion::new(self.document).accepted(schema).words()
    }

    /// The properties that an object may have, in words.
    fn known(&self, error: &ValidationError<'_>) -> String {
        let properties = self.subschema(error).and_then(|schema| schema.get("properties")?.as_object());
        match properties {
            Some(properties) if !properties.is_empty() => {
                let names: Vec<String> =
                    properties.keys().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
                let more = if properties.len() > MAX_NAMES { ", …" } else { "" };
                format!("expected only {}{more}", names.join(", "))
            }
            _ => "none is expected here".to_owned(),
        }
    }
}

fn types(kind: &TypeKind) -> Vec<&'static str> {
    match kind {
        TypeKind::Single(one) => vec![one.as_str()],
        TypeKind::Multiple(set) => set.iter().map(JsonType::as_str).collect(),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn size(error: &ValidationError<'_>) -> usize {
    match &**error.instance() {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn list<'v>(values: impl Iterator<Item = &'v Value>) -> String {
    let mut words: Vec<String> = values.take(MAX_NAMES + 1).map(Value::to_string).collect();
    if words.len() > MAX_NAMES {
        words.truncate(MAX_NAMES);
        words.push("…".to_owned());
    }
    words.join(", ")
}

/// The JSON Pointer of a property.
fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}
