//! Schemas in the form that providers enforce.
//!
//! Providers that make a reply fit a schema take only a part of JSON Schema, and refuse a request with any other. A schema is
//! brought into that part where it can be without losing an answer that fits: objects are closed, keywords that only narrow a
//! value are told in its description, and over OpenAI's wires a property that may be missing may be null instead. The reply is
//! judged by the schema as its author wrote it, where such a null counts as missing.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::OrderedJson;
use serde_json::Value;

/// Whose part of JSON Schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI's, which compatible servers share: every property is required.
    Openai,
    /// That of models tuned at OpenAI: as the other one, but no bounds are enforced.
    Tuned,
    /// Anthropic's: no reference may lead back to itself, and no bounds are enforced.
    Anthropic,
}

impl Dialect {
    /// That of OpenAI for a model, by its name.
    pub(super) fn of_openai(model: &str) -> Self {
        if model.starts_with("ft:") { Self::Tuned } else { Self::Openai }
    }
}

/// The schema of an object in the form that a provider enforces, or nothing if it has none.
pub(super) fn strict(schema: &OrderedJson, dialect: Dialect) -> Option<OrderedJson> {
    if !is_object(schema) || (dialect == Dialect::Anthropic && is_recursive(schema)) {
        return None;
    }
    let mut optional = 0;
    let strict = Form { dialect, optional: &mut optional }.of(schema, 0)?;
    (dialect != Dialect::Anthropic || optional <= MAX_OPTIONAL).then_some(strict)
}

/// Deepest nesting of objects and lists that each provider takes.
const MAX_LEVELS: usize = 10;

/// Most properties that may be missing, of all tools and the answer together at Anthropic.
const MAX_OPTIONAL: usize = 24;

/// Most values of one `enum`.
const MAX_VALUES: usize = 250;

/// Formats of texts that each provider knows.
const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

struct Form<'c> {
    dialect: Dialect,
    /// The properties so far that may be missing.
    optional: &'c mut usize,
}

impl Form<'_> {
    fn of(&mut self, schema: &OrderedJson, level: usize) -> Option<OrderedJson> {
        let OrderedJson::Object(keywords) = schema else { return None };
        if level > MAX_LEVELS {
            return None;
        }
        if let Some(reference) = schema.get("$ref") {
            // Nothing may stand beside a reference; definitions stand at the top, where the root is no reference.
            let alone = text(reference)?.starts_with('#') && level > 0;
            return alone.then(|| OrderedJson::object([("$ref".to_owned(), reference.clone())]));
        }
        let mut strict: Vec<(String, OrderedJson)> = Vec::with_capacity(keywords.len() + 1);
        let mut told: Vec<String> = Vec::new();
        let mut description = None;
        for (name, value) in keywords {
            let kept = match name.as_str() {
                "type" | "title" => value.clone(),
                "enum" => scalars(value)?,
                "const" => scalar(value)?,
                "description" => {
                    description = text(value).map(str::to_owned);
                    continue;
                }
                "properties" => self.properties(schema, value, level)?,
                // Both follow from the properties.
                "required" | "additionalProperties" => continue,
                "items" => self.of(value, level + 1)?,
                "$defs" | "definitions" => self.each(value, level)?,
                "anyOf" | "oneOf" => {
                    strict.push(("anyOf".to_owned(), self.branches(value, level)?));
                    continue;
                }
                "format" if text(value).is_some_and(|format| FORMATS.contains(&format)) => value.clone(),
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
                | "minItems" | "maxItems"
                    if self.dialect == Dialect::Openai =>
                {
                    value.clone()
                }
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
                | "minItems" | "maxItems" | "minLength" | "maxLength" | "pattern" | "format"
                | "uniqueItems" | "default" | "minProperties" | "maxProperties" | "examples"
                | "contentEncoding" | "contentMediaType" => {
                    told.push(format!("{name}: {value}"));
                    continue;
                }
                "$schema" | "$id" | "$comment" | "deprecated" | "readOnly" | "writeOnly" => continue,
                _ => return None,
            };
            strict.push((name.clone(), kept));
        }
        if is_object(schema) {
            if let Some(open) = schema.get("additionalProperties")
                && !matches!(open, OrderedJson::Value(Value::Bool(_)))
            {
                // Any names may come, with values of a form.
                return None;
            }
            // An object of which nothing is said may hold anything, which no provider can enforce.
            let properties = schema.get("properties")?;
            let names = names(properties);
            let required: Vec<OrderedJson> = names
                .into_iter()
                .filter(|name| self.dialect != Dialect::Anthropic || is_required(schema, name))
                .map(OrderedJson::from)
                .collect();
            strict.push(("required".to_owned(), OrderedJson::Array(required)));
            strict.push(("additionalProperties".to_owned(), false.into()));
        }
        if !told.is_empty() {
            let told = format!("{{{}}}", told.join(", "));
            description =
                Some(description.map_or(told.clone(), |description| format!("{description}\n\n{told}")));
        }
        if let Some(description) = description {
            strict.push(("description".to_owned(), description.into()));
        }
        Some(OrderedJson::Object(strict))
    }

    fn properties(
        &mut self,
        schema: &OrderedJson,
        properties: &OrderedJson,
        level: usize,
    ) -> Option<OrderedJson> {
        let OrderedJson::Object(properties) = properties else { return None };
        let mut strict = Vec::with_capacity(properties.len());
        for (name, property) in properties {
            let mut form = self.of(property, level + 1)?;
            if !is_required(schema, name) {
                *self.optional += 1;
                if self.dialect != Dialect::Anthropic && !takes_null(property) {
                    let null = OrderedJson::object([("type".to_owned(), "null".into())]);
                    form = OrderedJson::object([("anyOf".to_owned(), OrderedJson::Array(vec![form, null]))]);
                }
            }
            strict.push((name.clone(), form));
        }
        Some(OrderedJson::Object(strict))
    }

    fn each(&mut self, schemas: &OrderedJson, level: usize) -> Option<OrderedJson> {
        let OrderedJson::Object(schemas) = schemas else { return None };
        let schemas = schemas.iter().map(|(name, schema)| Some((name.clone(), self.of(schema, level + 1)?)));
        schemas.collect::<Option<_>>().map(OrderedJson::Object)
    }

    fn branches(&mut self, schemas: &OrderedJson, level: usize) -> Option<OrderedJson> {
        let OrderedJson::Array(schemas) = schemas else { return None };
        let schemas = schemas.iter().map(|schema| self.of(schema, level + 1));
        schemas.collect::<Option<_>>().map(OrderedJson::Array)
    }
}

fn is_object(schema: &OrderedJson) -> bool {
    let kind = schema.get("type").map(|kind| kind.clone().into_value());
    match kind {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) | None => schema.get("properties").is_some(),
    }
}

fn is_required(schema: &OrderedJson, name: &str) -> bool {
    let Some(OrderedJson::Array(required)) = schema.get("required") else { return false };
    required.iter().any(|required| text(required) == Some(name))
}

/// Says whether a property says by itself that it may be null.
fn takes_null(schema: &OrderedJson) -> bool {
    let of = |name: &str| schema.get(name).map(|value| value.clone().into_value()).unwrap_or_default();
    let branches = of("anyOf");
    of("type") == "null"
        || of("type").as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "null"))
        || branches.as_array().is_some_and(|branches| branches.iter().any(|branch| branch["type"] == "null"))
}

fn names(properties: &OrderedJson) -> Vec<&str> {
    match properties {
        OrderedJson::Object(properties) => properties.iter().map(|(name, _)| name.as_str()).collect(),
        OrderedJson::Value(_) | OrderedJson::Array(_) => Vec::new(),
    }
}

fn text(json: &OrderedJson) -> Option<&str> {
    match json {
        OrderedJson::Value(value) => value.as_str(),
        OrderedJson::Array(_) | OrderedJson::Object(_) => None,
    }
}

fn scalar(json: &OrderedJson) -> Option<OrderedJson> {
    matches!(json, OrderedJson::Value(_)).then(|| json.clone())
}

fn scalars(json: &OrderedJson) -> Option<OrderedJson> {
    let OrderedJson::Array(values) = json else { return None };
    let are_scalars = values.len() <= MAX_VALUES && values.iter().all(|value| scalar(value).is_some());
    are_scalars.then(|| json.clone())
}

/// Says whether a reference of the schema can lead back to itself.
fn is_recursive(schema: &OrderedJson) -> bool {
    let mut definitions = BTreeMap::new();
    for place in ["$defs", "definitions"] {
        let Some(OrderedJson::Object(members)) = schema.get(place) else { continue };
        for (name, definition) in members {
            let mut references = BTreeSet::new();
            gather(definition, &mut references);
            definitions.insert(format!("#/{place}/{name}"), references);
        }
    }
    let mut all = BTreeSet::new();
    gather(schema, &mut all);
    if all.iter().any(|reference| !definitions.contains_key(reference)) {
        // To the root, or into the midst of a schema.
        return true;
    }
    // What only leads to what leads nowhere is taken away; what is left goes round.
    loop {
        let before = definitions.len();
        let left: BTreeSet<String> = definitions.keys().cloned().collect();
        definitions.retain(|_, references| references.iter().any(|reference| left.contains(reference)));
        if definitions.len() == before {
            return before > 0;
        }
    }
}

fn gather(schema: &OrderedJson, references: &mut BTreeSet<String>) {
    match schema {
        OrderedJson::Object(members) => {
            for (name, value) in members {
                match text(value) {
                    Some(reference) if name == "$ref" => {
                        references.insert(reference.to_owned());
                    }
                    _ => gather(value, references),
                }
            }
        }
        OrderedJson::Array(items) => items.iter().for_each(|item| gather(item, references)),
        OrderedJson::Value(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(schema: &str, dialect: Dialect) -> Option<String> {
        strict(&serde_json::from_str(schema).unwrap(), dialect).map(|strict| strict.to_string())
    }

    const CLOSED: &str = r##"{"type":"object","properties":{"why":{"type":"string"},"causes":{"type":"array","items":{"$ref":"#/$defs/cause"}}},"$defs":{"cause":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["why","causes"],"additionalProperties":false}"##;

    #[test]
    fn a_schema_in_the_form_stays_as_it_is() {
        for dialect in [Dialect::Openai, Dialect::Anthropic] {
            assert_eq!(form(CLOSED, dialect).as_deref(), Some(CLOSED));
        }
    }

    #[test]
    fn what_narrows_a_value_is_told_and_what_may_be_missing_may_be_null() {
        let schema = r#"{"type":"object","properties":{"z":{"type":"number","minimum":0,"description":"Risk."},"a":{"type":"string","format":"date","default":"x"},"n":{"type":["integer","null"]}},"required":["z"]}"#;
        assert_eq!(
            form(schema, Dialect::Openai).unwrap(),
            r#"{"type":"object","properties":{"z":{"type":"number","minimum":0,"description":"Risk."},"a":{"anyOf":[{"type":"string","format":"date","description":"{default: \"x\"}"},{"type":"null"}]},"n":{"type":["integer","null"]}},"required":["z","a","n"],"additionalProperties":false}"#
        );
        assert_eq!(
            form(schema, Dialect::Anthropic).unwrap(),
            r#"{"type":"object","properties":{"z":{"type":"number","description":"Risk.\n\n{minimum: 0}"},"a":{"type":"string","format":"date","description":"{default: \"x\"}"},"n":{"type":["integer","null"]}},"required":["z"],"additionalProperties":false}"#
        );
    }

    #[test]
    fn what_no_provider_enforces_has_no_form() {
        for schema in [
            r#"{"type":"string"}"#,
            "true",
            r#"{"type":"object"}"#,
            r#"{"type":"object","properties":{"a":{"type":"object"}}}"#,
            r#"{"type":"object","properties":{},"additionalProperties":{"type":"string"}}"#,
            r#"{"type":"object","properties":{"a":{"not":{}}}}"#,
            r#"{"type":"object","properties":{"a":{"enum":[{"b":1}]}}}"#,
            r##"{"$ref":"#/$defs/a","type":"object","$defs":{"a":{}}}"##,
        ] {
            assert_eq!(form(schema, Dialect::Openai), None, "{schema}");
        }
        let deep =
            format!("{}{{\"type\":\"string\"}}{}", r#"{"type":"array","items":"#.repeat(12), "}".repeat(12));
        assert_eq!(
            form(&format!(r#"{{"type":"object","properties":{{"a":{deep}}}}}"#), Dialect::Openai),
            None
        );
    }

    #[test]
    fn a_reference_that_leads_back_has_a_form_for_one_provider_only() {
        let tree = r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/node"}},"required":["a"],"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/other"}}},"other":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}}}"##;
        assert!(form(tree, Dialect::Openai).is_some());
        assert_eq!(form(tree, Dialect::Anthropic), None);
        let root = r##"{"type":"object","properties":{"a":{"$ref":"#"}}}"##;
        assert!(form(root, Dialect::Openai).is_some());
        assert_eq!(form(root, Dialect::Anthropic), None);
    }
}
