//! How much work and stack a schema can take, known before it is applied.

use std::collections::HashMap;
use std::ptr;

use serde_json::{Map, Value};

use super::SchemaError;

/// Most subschemas on one path from the root of a schema, for a value of the greatest depth.
///
/// Each costs the validator some stack; a thread with 2 MiB holds several times as many.
pub(super) const MAX_CHAIN: usize = 1024;

/// Most subschemas that apply to one and the same value, with every alternative.
///
/// The validator remembers results for arrays and objects, not for scalars, so references that double and double again
/// would cost exponential time.
const MAX_IN_PLACE: u64 = 10_000;

/// What it takes to hold one path of a value, from its root to a leaf, against a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measure {
    /// Subschemas visited along the path, with every alternative.
    pub(super) visits: u64,
    /// Those of them that apply to the root of the path itself.
    in_place: u64,
    /// The longest chain of subschemas that are open at the same time.
    chain: usize,
}

/// Follows the keywords that apply subschemas.
pub(super) struct Meter<'s> {
    references: References<'s>,
    /// By the subschema's address and the levels of the value that remain. `None` while it is being measured.
    known: HashMap<(*const Value, usize), Option<Measure>>,
}

/// A subschema that is being measured.
struct Open<'s> {
    key: (*const Value, usize),
    total: Measure,
    /// What applies to a property, and to an item.
    children: [Measure; 2],
    /// What it applies that is still to be measured: the next one last.
    left: Vec<Applied<'s>>,
    /// How the measure that comes next counts.
    next: Counts,
}

/// A subschema that another one applies.
struct Applied<'s> {
    schema: &'s Value,
    /// The levels of the value that remain.
    below: usize,
    counts: Counts,
}

/// How a subschema counts for the one that applies it. The numbers are indices of [`Open::children`].
#[derive(Clone, Copy)]
enum Counts {
    /// It applies to the same value.
    InPlace,
    /// One of several that apply to a property or an item.
    Either(usize),
    /// It applies to a property or an item in any case.
    Besides(usize),
}

impl<'s> Meter<'s> {
    pub(super) fn new(root: &'s Value) -> Self {
        Self { references: References { root }, known: HashMap::new() }
    }

    /// Measures the schema for values up to `depth`. It keeps what is open in a list: a hostile schema takes no stack.
    pub(super) fn measure(&mut self, depth: usize) -> Result<Measure, SchemaError> {
        let mut open = Vec::new();
        let mut measured = self.begin(self.references.root, depth, &mut open)?;
        while let Some(last) = open.last_mut() {
            if let Some(measure) = measured.take() {
                last.add(measure)?;
            }
            if let Some(applied) = last.left.pop() {
                last.next = applied.counts;
                measured = self.begin(applied.schema, applied.below, &mut open)?;
            } else {
                let total = last.measure();
                self.known.insert(last.key, Some(total));
                open.pop();
                measured = Some(total);
            }
        }
        measured.filter(|measure| measure.chain <= MAX_CHAIN).ok_or(SchemaError::TooComplex)
    }

    /// The measure of a subschema where nothing is left to do for it. Otherwise it is now open.
    fn begin(
        &mut self,
        schema: &'s Value,
        below: usize,
        open: &mut Vec<Open<'s>>,
    ) -> Result<Option<Measure>, SchemaError> {
        let Value::Object(keywords) = schema else {
            return Ok(Some(Measure { visits: 1, in_place: 1, chain: 1 }));
        };
        if open.len() > MAX_CHAIN {
            return Err(SchemaError::TooComplex);
        }
        if !ptr::eq(schema, self.references.root)
            && let Some(Value::String(id)) = keywords.get(self.references.id_keyword())
        {
            return Err(SchemaError::Embedded { id: id.clone() });
        }
        let key = (ptr::from_ref(schema), below);
        match self.known.get(&key) {
            Some(Some(measure)) => return Ok(Some(*measure)),
            Some(None) => return Err(SchemaError::Circular),
            None => self.known.insert(key, None),
        };
        let in_place = self.references.in_place(keywords)?;
        let mut left: Vec<Applied<'s>> =
            in_place.into_iter().map(|schema| Applied { schema, below, counts: Counts::InPlace }).collect();
        // A level deeper there is no end while references recurse, so the value's depth ends it.
        if let Some(below) = below.checked_sub(1) {
            for (counts, names) in [
                (Counts::Either(0), PROPERTY),
                (Counts::Besides(0), NAMED),
                (Counts::Either(1), ITEM),
                (Counts::Besides(1), &["contains"]),
            ] {
                let written = names.iter().filter_map(|name| keywords.get(*name).map(|value| (*name, value)));
                let applied = written.flat_map(|(name, value)| subschemas(name, value));
                left.extend(applied.map(|schema| Applied { schema, below, counts }));
            }
        }
        left.reverse();
        let none = Measure { visits: 0, in_place: 0, chain: 0 };
        let total = Measure { visits: 1, in_place: 1, chain: 0 };
        open.push(Open { key, total, children: [none; 2], left, next: Counts::InPlace });
        Ok(None)
    }
}

impl Open<'_> {
    /// Counts a subschema that this one applies.
    fn add(&mut self, measure: Measure) -> Result<(), SchemaError> {
        let into = match self.next {
            Counts::InPlace => &mut self.total,
            Counts::Either(child) | Counts::Besides(child) => &mut self.children[child],
        };
        into.chain = into.chain.max(measure.chain);
        into.visits = match self.next {
            Counts::InPlace | Counts::Besides(_) => into.visits.saturating_add(measure.visits),
            Counts::Either(_) => into.visits.max(measure.visits),
        };
        if let Counts::InPlace = self.next {
            into.in_place = into.in_place.saturating_add(measure.in_place);
        }
        if self.total.in_place > MAX_IN_PLACE { Err(SchemaError::TooComplex) } else { Ok(()) }
    }

    /// The measure of the whole, once nothing is left.
    fn measure(&self) -> Measure {
        let [object, array] = self.children;
        Measure {
            visits: self.total.visits.saturating_add(object.visits.max(array.visits)),
            in_place: self.total.in_place,
            chain: self.total.chain.max(object.chain).max(array.chain) + 1,
        }
    }
}

/// Keywords of which one applies to a property.
const PROPERTY: &[&str] = &["properties", "additionalProperties", "unevaluatedProperties"];
/// Keywords that apply to a property besides.
const NAMED: &[&str] = &["patternProperties", "propertyNames"];
/// Keywords of which one applies to an item.
const ITEM: &[&str] = &["prefixItems", "items", "additionalItems", "unevaluatedItems"];

/// The subschemas in a keyword's value: a map of them, a list, or one.
fn subschemas<'s>(keyword: &str, value: &'s Value) -> Vec<&'s Value> {
    match value {
        Value::Object(map) if matches!(keyword, "properties" | "patternProperties") => map.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => vec![value],
    }
}

/// Finds what a schema's references lead to.
#[derive(Clone, Copy)]
pub(super) struct References<'s> {
    pub(super) root: &'s Value,
}

impl<'s> References<'s> {
    /// The subschemas that apply to the same value as the one with these keywords.
    fn in_place(self, keywords: &'s Map<String, Value>) -> Result<Vec<&'s Value>, SchemaError> {
        let mut found = Vec::new();
        for name in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(Value::String(reference)) = keywords.get(name) {
                let unknown = || SchemaError::Reference { reference: reference.chars().take(200).collect() };
                found.push(self.resolve(reference).ok_or_else(unknown)?);
            }
        }
        for name in ["allOf", "anyOf", "oneOf"] {
            found.extend(keywords.get(name).and_then(Value::as_array).into_iter().flatten());
        }
        found.extend(["not", "if", "then", "else"].iter().filter_map(|name| keywords.get(*name)));
        for name in ["dependentSchemas", "dependencies"] {
            found.extend(keywords.get(name).and_then(Value::as_object).into_iter().flat_map(Map::values));
        }
        Ok(found)
    }

    /// The keyword that begins a document of its own; draft 4 spelled it differently.
    fn id_keyword(self) -> &'static str {
        let draft = self.root.get("$schema").and_then(Value::as_str).unwrap_or("");
        if draft.contains("draft-04") { "id" } else { "$id" }
    }

    /// Finds the subschema that a reference names, if it is within the document.
    pub(super) fn resolve(self, reference: &str) -> Option<&'s Value> {
        let own = self.root.get(self.id_keyword()).and_then(Value::as_str).unwrap_or("");
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if !document.is_empty() && document != own.trim_end_matches('#') {
            return None;
        }
        if fragment.is_empty() || fragment.starts_with('/') {
            self.root.pointer(&percent_decoded(fragment)?)
        } else {
            anchored(self.root, fragment)
        }
    }
}

fn anchored<'s>(value: &'s Value, name: &str) -> Option<&'s Value> {
    match value {
        Value::Object(map) => {
            let named = |keyword| map.get(keyword).and_then(Value::as_str) == Some(name);
            if named("$anchor") || named("$dynamicAnchor") {
                return Some(value);
            }
            map.values().find_map(|inner| anchored(inner, name))
        }
        Value::Array(items) => items.iter().find_map(|inner| anchored(inner, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
