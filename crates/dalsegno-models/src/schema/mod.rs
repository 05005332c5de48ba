//! One compiled JSON Schema: bounded, offline, with violations in words.

mod coerce;
mod measure;
mod violation;

use std::fmt;

use dalsegno_core::Violation;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use self::coerce::Coercion;
use self::measure::Meter;

/// Deepest nesting of a schema and of a value that is checked against one; a scalar has depth 0.
///
/// Validation recurses, and 64 levels are several times what tools take.
pub const MAX_DEPTH: usize = 64;

/// Most violations that are reported at once: enough to mend the arguments, few enough for a prompt.
pub const MAX_VIOLATIONS: usize = 32;

/// Most bytes of a schema as JSON text.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Most subschemas that one value is held against when violations are collected.
///
/// Whether a value fits is always decided in polynomial time; naming the places is not, when alternatives nest.
const MAX_VISITS: u64 = 1_000_000;

/// Most bytes of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is larger or nested deeper than any schema should be.
    #[error("the schema is too large: at most {MAX_SCHEMA_BYTES} bytes and {MAX_DEPTH} levels are allowed")]
    TooLarge,
    /// It refers to something outside itself, which is never fetched.
    #[error(
        "the schema refers to `{reference}`: only references within the schema, such as `#/$defs/name`, are followed"
    )]
    Reference {
        /// The reference as it is written.
        reference: String,
    },
    /// It embeds another schema document, whose references would mean something else.
    #[error(
        "the schema embeds a document with its own `$id`, `{id}`: merge it into `$defs` without the `$id`"
    )]
    Embedded {
        /// The embedded document's id.
        id: String,
    },
    /// It refers to itself without going into a property or an item, so no value would ever be decided.
    #[error("the schema refers to itself in a circle: remove one of the references")]
    Circular,
    /// Its references form a chain that would take too much stack, or multiply so that it would take too long.
    #[error(
        "the schema is too complex: its references or alternatives apply too many subschemas to one value; simplify it"
    )]
    TooComplex,
    /// It is no JSON Schema, or uses a pattern that cannot run in linear time (look-around, back-references).
    #[error("the schema is not usable{}: {}", at(&.0.path), .0.message)]
    Invalid(Violation),
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" at `{path}`") }
}

/// One compiled JSON Schema.
///
/// The draft is the one that `$schema` names, 2020-12 by default. `format` is an annotation, as that draft has it.
pub struct Schema {
    document: Value,
    validator: Validator,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Fails if it is no JSON Schema, needs something outside itself, or would take too long or too much stack to apply.
    pub fn compile(document: &Value) -> Result<Self, SchemaError> {
        if depth(document) > MAX_DEPTH || document.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(SchemaError::TooLarge);
        }
        Meter::new(document).measure(MAX_DEPTH)?;
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(
                PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES),
            )
            .build(document)
            .map_err(|error| SchemaError::Invalid(violation::explain_one(&error)))?;
        Ok(Self { document: document.clone(), validator })
    }

    /// Says each place at which `value` breaks the schema, at most [`MAX_VIOLATIONS`]; none if it fits.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        if depth(value) > MAX_DEPTH {
            let message = format!("nested more than {MAX_DEPTH} deep");
            return vec![Violation { path: String::new(), message }];
        }
        if self.validator.is_valid(value) { Vec::new() } else { self.explain(value) }
    }

    /// Makes a value fit where that loses nothing, or says where it does not fit.
    ///
    /// A value that fits stays as it is. Otherwise a string becomes what it spells, where the schema demands another
    /// type: `"3"` becomes 3, `"true"` true, and the JSON text of an array or object that array or object.
    ///
    /// # Errors
    /// Fails with the places at which the value breaks the schema.
    pub fn coerce(&self, value: Value) -> Result<Value, Vec<Violation>> {
        if depth(&value) > MAX_DEPTH {
            return Err(self.violations(&value));
        }
        if self.validator.is_valid(&value) {
            return Ok(value);
        }
        let mut coerced = value;
        Coercion::new(&self.document).apply(&mut coerced);
        if self.validator.is_valid(&coerced) { Ok(coerced) } else { Err(self.explain(&coerced)) }
    }

    /// Says what is wrong with a value that does not fit.
    fn explain(&self, value: &Value) -> Vec<Violation> {
        let visits =
            Meter::new(&self.document).measure(depth(value)).map_or(u64::MAX, |measure| measure.visits);
        let mut violations = if visits.saturating_mul(nodes(value)) > MAX_VISITS {
            Vec::new()
        } else {
            violation::explain(&self.document, self.validator.iter_errors(value))
        };
        if violations.is_empty() {
            let message = "does not fit the schema, which is too intricate to say where".to_owned();
            violations.push(Violation { path: String::new(), message });
        }
        violations
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.document).finish()
    }
}

/// The depth of a value; counting stops just past [`MAX_DEPTH`], so that it never overflows the stack.
pub(crate) fn depth(value: &Value) -> usize {
    fn below(value: &Value, level: usize) -> usize {
        if level > MAX_DEPTH {
            return level;
        }
        match value {
            Value::Array(items) => items.iter().map(|item| below(item, level + 1)).max().unwrap_or(level + 1),
            Value::Object(map) => map.values().map(|item| below(item, level + 1)).max().unwrap_or(level + 1),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => level,
        }
    }
    below(value, 0)
}

fn nodes(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(nodes).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(nodes).sum::<u64>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}
