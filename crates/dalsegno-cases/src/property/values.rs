//! Values of JSON Schemas, made of drawn numbers.

use std::cell::Cell;

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value};

use super::draws::Draw;
use super::words::{Words, written};

/// How deep a value may be; what is deeper is as simple as its schema lets it be.
const DEPTH: usize = 6;

/// Of how many parts a value, or a text that matches a pattern, may be made.
const PARTS: u32 = 2_000;

/// Texts at which programs stumble.
const ODD: [&str; 6] = ["a", "Zoë", "<b>&amp;</b>", "line\nline", "'; --", "0"];

/// A value of a schema. It may not fit all of it: the caller looks.
pub(crate) fn value(schema: &Value, words: &Words, draw: &mut Draw<'_>) -> Value {
    Maker { root: schema, words, parts: Cell::new(PARTS) }.value(schema, draw, 0)
}

/// A text of the words.
pub(crate) fn text(words: &Words, draw: &mut Draw<'_>) -> String {
    match draw.below(3) {
        0 => "ok".to_owned(),
        1 => draw.of(&words.texts).cloned().unwrap_or_default(),
        _ => draw.of(&ODD).map(|odd| (*odd).to_owned()).unwrap_or_default(),
    }
}

/// An object with some of the fields that an agent reads.
pub(crate) fn object(words: &Words, draw: &mut Draw<'_>) -> Value {
    let mut fields = Map::new();
    for _ in 0..draw.below(4) {
        let Some(name) = draw.of(&words.fields).cloned() else { break };
        fields.insert(name, scalar(words, draw));
    }
    Value::Object(fields)
}

fn scalar(words: &Words, draw: &mut Draw<'_>) -> Value {
    match draw.below(4) {
        0 => number(&Value::Null, words, draw),
        1 => text(words, draw).into(),
        2 => true.into(),
        _ => Value::Array(Vec::new()),
    }
}

struct Maker<'s> {
    root: &'s Value,
    words: &'s Words,
    /// How many parts the value may still have.
    parts: Cell<u32>,
}

impl Maker<'_> {
    fn value(&self, schema: &Value, draw: &mut Draw<'_>, depth: usize) -> Value {
        if self.parts.get() == 0 {
            return Value::Null;
        }
        self.parts.set(self.parts.get() - 1);
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        if let Some(choices) = schema["enum"].as_array() {
            return draw.of(choices).cloned().unwrap_or_default();
        }
        if let Some(pointer) = schema["$ref"].as_str().and_then(|name| name.strip_prefix('#')) {
            return match self.root.pointer(pointer).filter(|_| depth < DEPTH) {
                Some(meant) => self.value(meant, draw, depth + 1),
                None => Value::Null,
            };
        }
        for key in ["anyOf", "oneOf"] {
            let choices = schema[key].as_array().filter(|_| depth < DEPTH);
            if let Some(choice) = choices.and_then(|choices| draw.of(choices)) {
                return merged(self.typed(schema, draw, depth), self.value(choice, draw, depth + 1));
            }
        }
        let parts = schema["allOf"].as_array().filter(|_| depth < DEPTH);
        let Some(parts) = parts else { return self.typed(schema, draw, depth) };
        let parts = parts.iter().map(|part| self.value(part, draw, depth + 1));
        let all = parts.reduce(merged).unwrap_or_default();
        merged(all, self.fields(schema, draw, depth).into())
    }

    fn typed(&self, schema: &Value, draw: &mut Draw<'_>, depth: usize) -> Value {
        let kind = match &schema["type"] {
            Value::Array(kinds) => draw.of(kinds).and_then(Value::as_str),
            kind => kind.as_str(),
        };
        match kind {
            Some("object") => self.fields(schema, draw, depth).into(),
            Some("array") => self.items(schema, draw, depth),
            Some("string") => self.string(schema, draw).into(),
            Some("integer" | "number") => number(schema, self.words, draw),
            Some("boolean") => (draw.below(2) == 1).into(),
            Some(_) => Value::Null,
            None if schema.get("properties").is_some() => self.fields(schema, draw, depth).into(),
            None if ["anyOf", "oneOf"].iter().any(|key| schema.get(key).is_some()) => Value::Null,
            None => scalar(self.words, draw),
        }
    }

    fn fields(&self, schema: &Value, draw: &mut Draw<'_>, depth: usize) -> Map<String, Value> {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut fields = Map::new();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.contains(&name.as_str());
            // What may be absent is so before a reference could lead too deep.
            if is_required || (depth + 2 < DEPTH && draw.below(2) == 1) {
                fields.insert(name.clone(), self.value(field, draw, depth + 1));
            }
        }
        fields
    }

    fn items(&self, schema: &Value, draw: &mut Draw<'_>, depth: usize) -> Value {
        let bound = |key: &str| schema[key].as_u64().and_then(|bound| usize::try_from(bound).ok());
        let least = bound("minItems").unwrap_or(0).min(64);
        let most = bound("maxItems").unwrap_or(least + 3).clamp(least, least + 3);
        let count = if depth < DEPTH { least + draw.below(most - least + 1) } else { least };
        (0..count).map(|_| self.value(&schema["items"], draw, depth + 1)).collect()
    }

    fn string(&self, schema: &Value, draw: &mut Draw<'_>) -> String {
        if let Some(hir) = schema["pattern"].as_str().and_then(|text| regex_syntax::parse(text).ok()) {
            let (mut text, mut parts) = (String::new(), PARTS);
            matching(&hir, draw, &mut text, &mut parts);
            return text;
        }
        match schema["format"].as_str() {
            Some("date") => return "2026-01-31".to_owned(),
            Some("date-time") => return "2026-01-31T12:00:00Z".to_owned(),
            Some("email") => return "ada@example.com".to_owned(),
            Some("uri") => return "https://example.com/a".to_owned(),
            Some("uuid") => return "6b1f5a0e-3c1d-4d53-9a3c-0f2b8e6d7c10".to_owned(),
            Some(_) | None => {}
        }
        let bound = |key: &str| schema[key].as_u64().and_then(|bound| usize::try_from(bound).ok());
        let least = bound("minLength").unwrap_or(0).min(10_000);
        let mut text = text(self.words, draw);
        let missing = least.saturating_sub(text.chars().count());
        text.extend(std::iter::repeat_n('a', missing));
        match bound("maxLength").and_then(|most| text.char_indices().nth(most)) {
            Some((end, _)) => text[..end].to_owned(),
            None => text,
        }
    }
}

/// A number within the bounds of a schema, or near a number that the agent's file has.
fn number(schema: &Value, words: &Words, draw: &mut Draw<'_>) -> Value {
    let bound = |keys: [&str; 2], inside: f64| {
        schema[keys[0]].as_f64().or_else(|| schema[keys[1]].as_f64().map(|bound| bound + inside))
    };
    let is_whole = schema["type"] == "integer";
    let inside = if is_whole { 1.0 } else { 0.001 };
    let least = bound(["minimum", "exclusiveMinimum"], inside);
    let most = bound(["maximum", "exclusiveMaximum"], -inside);
    let simplest = 0.0_f64.max(least.unwrap_or(0.0)).min(most.unwrap_or(f64::MAX));
    let drawn = match draw.below(4) {
        0 => simplest,
        1 => {
            let fits = |number: &&serde_json::Number| {
                let number = number.as_f64().unwrap_or_default();
                least.is_none_or(|least| number >= least)
                    && most.is_none_or(|most| number <= most)
                    && (!is_whole || number.fract() == 0.0)
            };
            let near: Vec<&serde_json::Number> = words.numbers.iter().filter(fits).collect();
            draw.of(&near).and_then(|number| number.as_f64()).unwrap_or(simplest)
        }
        kind => {
            let from = if kind == 2 { simplest } else { least.unwrap_or(-1_000.0) };
            let width = (most.unwrap_or(from + 1_000_000.0) - from).max(0.0);
            let part = draw.below(1_000_001) as f64 / 1_000_000.0;
            from + if is_whole || width > 1_000.0 { (part * width).floor() } else { part * width }
        }
    };
    let drawn = if is_whole { drawn.ceil() } else { drawn };
    written(drawn).map_or(Value::Null, Value::Number)
}

/// Two values in one: of two objects all fields, else the second.
fn merged(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) => {
            one.extend(other);
            Value::Object(one)
        }
        (Value::Object(one), Value::Null) if !one.is_empty() => Value::Object(one),
        (_, other) => other,
    }
}

/// Writes a text that a regular expression matches, as far as it has no conditions on what stands around it.
fn matching(hir: &Hir, draw: &mut Draw<'_>, text: &mut String, parts: &mut u32) {
    *parts = parts.saturating_sub(1);
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(Class::Unicode(class)) => {
            // The digits of a schema are those of ASCII, and a text is easier to read in it.
            let ranges: Vec<(u32, u32)> =
                class.ranges().iter().map(|range| (range.start().into(), range.end().into())).collect();
            let ascii: Vec<(u32, u32)> = ranges
                .iter()
                .filter(|(start, _)| *start < 0x7f)
                .map(|(start, end)| (*start, (*end).min(0x7e)))
                .collect();
            let Some((start, end)) = draw.of(if ascii.is_empty() { &ranges } else { &ascii }).copied() else {
                return;
            };
            let drawn = start + u32::try_from(draw.below((end - start) as usize + 1)).unwrap_or_default();
            text.extend(char::from_u32(drawn));
        }
        HirKind::Class(Class::Bytes(class)) => {
            text.extend(class.ranges().first().map(|range| char::from(range.start())));
        }
        HirKind::Repetition(repetition) => {
            let least = repetition.min as usize;
            let most = repetition.max.map_or(least + 2, |most| (most as usize).min(least + 2));
            for _ in 0..least + draw.below(most.saturating_sub(least) + 1) {
                if *parts == 0 {
                    return;
                }
                matching(&repetition.sub, draw, text, parts);
            }
        }
        HirKind::Capture(capture) => matching(&capture.sub, draw, text, parts),
        HirKind::Concat(all) => all.iter().for_each(|part| matching(part, draw, text, parts)),
        HirKind::Alternation(all) => {
            if let Some(part) = draw.of(all) {
                matching(part, draw, text, parts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dalsegno_models::judge_result;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::property::draws::Draws;

    fn schemas() -> Vec<Value> {
        vec![
            json!({ "type": "object", "required": ["a", "b"], "additionalProperties": false, "properties": {
                "a": { "type": "integer", "minimum": 3, "maximum": 9 },
                "b": { "type": "string", "minLength": 2, "maxLength": 5 },
                "c": { "type": "array", "minItems": 1, "items": { "enum": ["x", 1, null] } },
                "d": { "type": ["boolean", "null"] },
                "e": { "type": "number", "exclusiveMinimum": 0, "maximum": 1 },
            } }),
            json!({ "anyOf": [{ "type": "string", "pattern": "^ord_[0-9]{3,}(-[a-f]|x)?$" }, { "const": 7 }] }),
            json!({ "$defs": { "node": { "type": "object", "properties": {
                "next": { "$ref": "#/$defs/node" }, "at": { "type": "string", "format": "date" } } } },
                "$ref": "#/$defs/node" }),
            json!({ "allOf": [
                { "type": "object", "required": ["a"], "properties": { "a": { "type": "boolean" } } },
                { "type": "object", "required": ["b"], "properties": { "b": { "type": "integer" } } },
            ] }),
            json!({ "type": "object", "required": ["k"], "properties": { "k": { "enum": ["p", "q"] } },
                "oneOf": [{ "required": ["k"], "properties": { "n": { "const": 1 } } }] }),
            json!({ "type": "string", "pattern": "^(a+|[^b]|\\d{0,3})$" }),
            json!({}),
        ]
    }

    proptest! {
        #[test]
        fn what_is_made_fits_its_schema(numbers in prop::collection::vec(any::<u64>(), 0..40)) {
            let words = Words {
                numbers: vec![100.into(), 4.into()],
                texts: vec!["paid".to_owned()],
                fields: vec![],
            };
            let numbers = vec![numbers];
            for schema in schemas() {
                let made = value(&schema, &words, &mut Draws::new(&numbers).next());
                prop_assert_eq!(judge_result(&schema, &made), vec![], "{} of {}", made, schema);
            }
        }
    }

    #[test]
    fn the_simplest_values_are_simple() {
        let simplest = |schema: &Value| value(schema, &Words::default(), &mut Draws::new(&[]).next());
        let all: Vec<Value> = schemas().iter().map(simplest).collect();
        assert_eq!(all[0], json!({ "a": 3, "b": "ok" }));
        assert_eq!(all[1], json!("ord_000"));
        assert_eq!(all[2], json!({}));
        assert_eq!(all[3], json!({ "a": false, "b": 0 }));
    }

    #[test]
    fn hostile_schemas_end() {
        let nested = json!({ "$defs": { "a": { "type": "object", "required": ["x", "y"], "properties": {
            "x": { "$ref": "#/$defs/a" }, "y": { "$ref": "#/$defs/a" } } } }, "$ref": "#/$defs/a" });
        let long = json!({ "type": "string", "minLength": u64::MAX });
        let many = json!({ "type": "array", "minItems": u64::MAX, "items": long });
        let deep = json!({ "$defs": { "a": { "type": "array", "minItems": 60, "items": { "$ref": "#/$defs/a" } } },
            "$ref": "#/$defs/a" });
        let pattern = json!({ "type": "string", "pattern": "((a{99}){99}){9}" });
        let empty = json!({ "type": "string", "pattern": "((((){999}){999}){999}){999}" });
        for schema in [nested, long, many, deep, pattern, empty] {
            let _ = value(&schema, &Words::default(), &mut Draws::new(&[]).next());
        }
    }
}
