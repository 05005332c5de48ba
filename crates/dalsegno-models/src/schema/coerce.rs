//! Lossless coercion: a string becomes what it spells, where the schema takes no string.

use serde_json::{Map, Number, Value};

use super::measure::References;
use super::{MAX_DEPTH, depth};

/// A set of JSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    const NULL: Self = Self(1);
    const BOOLEAN: Self = Self(1 << 1);
    const INTEGER: Self = Self(1 << 2);
    /// Any number, so with `INTEGER`.
    const NUMBER: Self = Self(1 << 2 | 1 << 3);
    const STRING: Self = Self(1 << 4);
    const ARRAY: Self = Self(1 << 5);
    const OBJECT: Self = Self(1 << 6);
    const ALL: Self = Self((1 << 7) - 1);

    fn named(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self(0),
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) if number.is_f64() => Self::NUMBER,
            Value::Number(_) => Self::INTEGER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The names, as in `integer or null`; nothing for all types.
    pub(super) fn words(self) -> Option<String> {
        if self == Self::ALL || self.0 == 0 {
            return None;
        }
        let integer_or_number =
            if self.has(Self::NUMBER) { ("number", Self::NUMBER) } else { ("integer", Self::INTEGER) };
        let names = [
            ("string", Self::STRING),
            integer_or_number,
            ("boolean", Self::BOOLEAN),
            ("array", Self::ARRAY),
            ("object", Self::OBJECT),
            ("null", Self::NULL),
        ];
        let names: Vec<&str> =
            names.iter().filter(|(_, types)| self.has(*types)).map(|(name, _)| *name).collect();
        Some(names.join(" or "))
    }
}

/// Most subschemas that one coercion looks at. Past it strings stay strings, and the schema refuses them.
const FUEL: u32 = 100_000;

/// One walk through a value and the schema side by side.
///
/// It looks only at keywords that hold together with whatever stands beside them, so a string that it changes could
/// never have fitted.
pub(super) struct Coercion<'s> {
    references: References<'s>,
    fuel: u32,
}

impl<'s> Coercion<'s> {
    pub(super) fn new(root: &'s Value) -> Self {
        Self { references: References { root }, fuel: FUEL }
    }

    /// Coerces a whole value.
    pub(super) fn apply(&mut self, value: &mut Value) {
        let root = self.references.root;
        self.place(&[root], value, 0);
    }

    /// Coerces the value at one place, where all of `schemas` must hold.
    fn place(&mut self, schemas: &[&'s Value], value: &mut Value, level: usize) {
        if let Value::String(text) = value {
            let accepted =
                schemas.iter().fold(Types::ALL, |all, schema| Types(all.0 & self.accepted(schema).0));
            if !accepted.has(Types::STRING)
                && let Some(spelled) = spelled(text, accepted)
                && level + depth(&spelled) <= MAX_DEPTH
            {
                *value = spelled;
            }
        }
        match value {
            Value::Object(map) => {
                let views = self.views(schemas, Types::OBJECT);
                self.omit_nulls(&views, map);
                for (name, value) in map.iter_mut() {
                    let children: Vec<&Value> =
                        views.iter().filter_map(|view| property(view, name)).collect();
                    if !children.is_empty() {
                        self.place(&children, value, level + 1);
                    }
                }
            }
            Value::Array(items) => {
                let views = self.views(schemas, Types::ARRAY);
                for (index, value) in items.iter_mut().enumerate() {
                    let children: Vec<&Value> = views.iter().filter_map(|view| item(view, index)).collect();
                    if !children.is_empty() {
                        self.place(&children, value, level + 1);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Takes out each null that stands for a property which may be missing and is never null: providers that make every
    /// property come have models write one.
    fn omit_nulls(&mut self, views: &[&'s Map<String, Value>], map: &mut Map<String, Value>) {
        map.retain(|name, value| {
            let is_required = |view: &&Map<String, Value>| {
                let required = view.get("required").and_then(Value::as_array);
                required.is_some_and(|names| names.iter().any(|required| required == name))
            };
            let named = |view: &&'s Map<String, Value>| view.get("properties")?.get(name);
            let may_be_missing = value.is_null() && !views.iter().any(is_required);
            !may_be_missing
                || !views.iter().filter_map(named).any(|schema| !self.accepted(schema).has(Types::NULL))
        });
    }

    /// The types that a schema leaves possible, as far as its keywords say.
    pub(super) fn accepted(&mut self, schema: &'s Value) -> Types {
        let Value::Object(keywords) = schema else { return Types::ALL };
        if !self.burn() {
            return Types::ALL;
        }
        let mut accepted = match keywords.get("type") {
            Some(Value::String(name)) => Types::named(name),
            Some(Value::Array(names)) => union(names.iter().filter_map(Value::as_str).map(Types::named)),
            _ => Types::ALL,
        };
        if let Some(Value::Array(options)) = keywords.get("enum") {
            accepted = Types(accepted.0 & union(options.iter().map(Types::of)).0);
        }
        if let Some(value) = keywords.get("const") {
            accepted = Types(accepted.0 & Types::of(value).0);
        }
        for schema in self.together(keywords) {
            accepted = Types(accepted.0 & self.accepted(schema).0);
        }
        for name in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = keywords.get(name) {
                let mut any = Types(0);
                for branch in branches {
                    any = Types(any.0 | self.accepted(branch).0);
                }
                accepted = Types(accepted.0 & any.0);
            }
        }
        accepted
    }

    /// The schemas that hold for a value of type `found`, with references and alternatives followed where only one is
    /// possible.
    fn views(&mut self, schemas: &[&'s Value], found: Types) -> Vec<&'s Map<String, Value>> {
        let mut views = Vec::new();
        let mut open: Vec<&'s Value> = schemas.to_vec();
        while let Some(schema) = open.pop() {
            let Value::Object(keywords) = schema else { continue };
            if !self.burn() {
                break;
            }
            views.push(keywords);
            open.extend(self.together(keywords));
            for name in ["anyOf", "oneOf"] {
                let Some(Value::Array(branches)) = keywords.get(name) else { continue };
                let mut possible = branches.iter().filter(|branch| self.accepted(branch).overlaps(found));
                if let (Some(only), None) = (possible.next(), possible.next()) {
                    open.push(only);
                }
            }
        }
        views
    }

    /// The subschemas that must hold together with a schema's own keywords.
    fn together(&self, keywords: &'s Map<String, Value>) -> Vec<&'s Value> {
        let reference = keywords.get("$ref").and_then(Value::as_str);
        let mut found: Vec<&Value> =
            reference.and_then(|text| self.references.resolve(text)).into_iter().collect();
        found.extend(keywords.get("allOf").and_then(Value::as_array).into_iter().flatten());
        found
    }

    fn burn(&mut self) -> bool {
        self.fuel = self.fuel.saturating_sub(1);
        self.fuel > 0
    }
}

fn union(types: impl Iterator<Item = Types>) -> Types {
    types.fold(Types(0), |all, one| Types(all.0 | one.0))
}

fn property<'s>(keywords: &'s Map<String, Value>, name: &str) -> Option<&'s Value> {
    let named = keywords.get("properties").and_then(|properties| properties.get(name));
    // A pattern might claim the property; then `additionalProperties` does not.
    named.or_else(|| {
        keywords.get("additionalProperties").filter(|_| !keywords.contains_key("patternProperties"))
    })
}

fn item(keywords: &Map<String, Value>, index: usize) -> Option<&Value> {
    match keywords.get("prefixItems").or_else(|| keywords.get("items").filter(|items| items.is_array())) {
        Some(prefix) if prefix.get(index).is_some() => prefix.get(index),
        _ => keywords.get("items").filter(|items| !items.is_array()),
    }
}

/// The value of one of the accepted types that a text spells without loss.
fn spelled(text: &str, accepted: Types) -> Option<Value> {
    match text.as_bytes().first()? {
        b't' if text == "true" && accepted.has(Types::BOOLEAN) => Some(Value::Bool(true)),
        b'f' if text == "false" && accepted.has(Types::BOOLEAN) => Some(Value::Bool(false)),
        b'{' if accepted.has(Types::OBJECT) => serde_json::from_str(text).ok(),
        b'[' if accepted.has(Types::ARRAY) => serde_json::from_str(text).ok(),
        b'-' | b'0'..=b'9' if accepted.has(Types::INTEGER) => number(text, accepted.has(Types::NUMBER)),
        _ => None,
    }
}

/// The number that a text spells in JSON's grammar, if a 64-bit number holds every digit of it.
fn number(text: &str, fractions: bool) -> Option<Value> {
    let number: Number = serde_json::from_str(text).ok()?;
    if !number.is_f64() {
        // A canonical spelling only: `-0` is no integer of its own.
        return (number.to_string() == text).then_some(Value::Number(number));
    }
    (fractions && decimal(text)? == decimal(&number.to_string())?).then_some(Value::Number(number))
}

/// A decimal number as sign, digits without zeros at either end, and the exponent of the last digit.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let negative = text.starts_with('-');
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let mut exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) =
        mantissa.trim_start_matches('-').split_once('.').unwrap_or((mantissa.trim_start_matches('-'), ""));
    let digits = format!("{whole}{fraction}");
    exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let significant = digits.trim_end_matches('0');
    exponent = exponent.checked_add(i64::try_from(digits.len() - significant.len()).ok()?)?;
    let significant = significant.trim_start_matches('0');
    Some((negative, significant.to_owned(), if significant.is_empty() { 0 } else { exponent }))
}
