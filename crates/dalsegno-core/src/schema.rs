//! JSON Schemas as their authors wrote them.
//!
//! A model writes the properties of an answer in the order of its schema, so the order is part of what a model is told. The
//! maps of `serde_json` are sorted in this build; [`OrderedJson`] keeps an order, and a [`JsonSchema`] remembers it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;
use core::str::FromStr;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::canonical::{Canonical, print_json};

/// A JSON Schema that a model is told, with the order of its keys.
///
/// It reads as the [`Value`] that it is; [`ordered`](Self::ordered) has the author's order. One that is made from a `Value` has
/// sorted keys. A clone shares it.
///
/// Stored, a schema whose keys are not sorted is its text, so that the order is part of each digest; all others are stored
/// as the values that they always were.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JsonSchema(Arc<Written>);

#[derive(Debug, Clone, Default, PartialEq)]
struct Written {
    value: Value,
    /// The compact text, where its keys are not sorted.
    text: Option<String>,
}

impl JsonSchema {
    /// The schema without the order of its keys.
    pub fn value(&self) -> &Value {
        &self.0.value
    }

    /// The schema without the order of its keys.
    pub fn into_value(self) -> Value {
        Arc::unwrap_or_clone(self.0).value
    }

    /// The schema with its keys in the author's order.
    pub fn ordered(&self) -> OrderedJson {
        match self.unsorted().map(serde_json::from_str) {
            Some(Ok(ordered)) => ordered,
            // A text is there only where it was printed or read by this type.
            Some(Err(_)) | None => OrderedJson::sorted(self.value()),
        }
    }

    /// Feeds the schema, and the order of its keys where that says something.
    pub(crate) fn feed(&self, canonical: &mut Canonical) {
        canonical.json(self.value());
        if let Some(text) = self.unsorted() {
            canonical.tag(b'k').text(text);
        }
    }

    /// The text of a schema whose keys are not sorted.
    pub(crate) fn unsorted(&self) -> Option<&str> {
        self.0.text.as_deref()
    }
}

impl Deref for JsonSchema {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value()
    }
}

impl PartialEq<Value> for JsonSchema {
    fn eq(&self, other: &Value) -> bool {
        self.value() == other
    }
}

/// Without an order: its keys count as sorted, in any order of the map.
impl From<Value> for JsonSchema {
    fn from(value: Value) -> Self {
        Self(Arc::new(Written { value, text: None }))
    }
}

impl From<OrderedJson> for JsonSchema {
    fn from(ordered: OrderedJson) -> Self {
        let text = (!ordered.is_sorted()).then(|| alloc::format!("{ordered}"));
        Self(Arc::new(Written { value: ordered.into_value(), text }))
    }
}

/// Reads JSON text and keeps the order of its keys.
impl FromStr for JsonSchema {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<OrderedJson>(text).map(Self::from)
    }
}

/// Compact, in the author's order.
impl fmt::Display for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unsorted() {
            Some(text) => f.write_str(text),
            None => f.write_str(&print_json(self.value())),
        }
    }
}

impl Serialize for JsonSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.unsorted() {
            Some(text) => serializer.serialize_str(text),
            None => self.value().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for JsonSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => text.parse().map_err(de::Error::custom),
            value => Ok(value.into()),
        }
    }
}

/// JSON whose objects keep the order of their keys.
#[derive(Debug, Clone, PartialEq)]
pub enum OrderedJson {
    /// A value in which no order matters.
    Value(Value),
    /// A list.
    Array(Vec<Self>),
    /// An object: its members in their order, each name once.
    Object(Vec<(String, Self)>),
}

impl OrderedJson {
    /// A value with sorted keys, in any order of its maps.
    pub fn sorted(value: &Value) -> Self {
        match value {
            Value::Array(items) => Self::Array(items.iter().map(Self::sorted).collect()),
            Value::Object(members) => {
                let mut members: Vec<_> =
                    members.iter().map(|(name, value)| (name.clone(), Self::sorted(value))).collect();
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
                Self::Object(members)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Self::Value(value.clone()),
        }
    }

    /// An object of these members, in their order. Of two with one name, the later takes the place of the earlier.
    pub fn object(members: impl IntoIterator<Item = (String, Self)>) -> Self {
        let mut places = BTreeMap::new();
        let mut kept: Vec<(String, Self)> = Vec::new();
        for (name, value) in members {
            match places.get(&name).and_then(|place: &usize| kept.get_mut(*place)) {
                Some(before) => before.1 = value,
                None => {
                    places.insert(name.clone(), kept.len());
                    kept.push((name, value));
                }
            }
        }
        Self::Object(kept)
    }

    /// The same without an order.
    pub fn into_value(self) -> Value {
        match self {
            Self::Value(value) => value,
            Self::Array(items) => Value::Array(items.into_iter().map(Self::into_value).collect()),
            Self::Object(members) => {
                let members = members.into_iter().map(|(name, value)| (name, value.into_value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    /// The member of an object with this name.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => {
                members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
            }
            Self::Value(_) | Self::Array(_) => None,
        }
    }

    /// Says whether the keys of all objects stand in the order of their names.
    fn is_sorted(&self) -> bool {
        match self {
            Self::Value(_) => true,
            Self::Array(items) => items.iter().all(Self::is_sorted),
            Self::Object(members) => {
                members.is_sorted_by_key(|(name, _)| name)
                    && members.iter().all(|(_, value)| value.is_sorted())
            }
        }
    }
}

impl<T: Into<Value>> From<T> for OrderedJson {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

/// Compact.
impl fmt::Display for OrderedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All keys are texts, and writing into a text cannot fail.
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for OrderedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, value)))
            }
        }
    }
}

impl<'de> Deserialize<'de> for OrderedJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyJson)
    }
}

struct AnyJson;

impl<'de> Visitor<'de> for AnyJson {
    type Value = OrderedJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<OrderedJson, E> {
        Ok(Value::Null.into())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<OrderedJson, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<OrderedJson, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<OrderedJson, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<OrderedJson, E> {
        Ok(value.into())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<OrderedJson, E> {
        Ok(value.into())
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<OrderedJson, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OrderedJson, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(OrderedJson::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<OrderedJson, A::Error> {
        let mut list = Vec::new();
        while let Some(member) = members.next_entry::<String, OrderedJson>()? {
            list.push(member);
        }
        Ok(OrderedJson::object(list))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use serde_json::json;

    use super::*;
    use crate::canonical::Digest;

    const WRITTEN: &str = r#"{"type":"object","properties":{"reasoning":{"type":"string"},"answer":{"type":["integer","null"]}}}"#;

    fn digest(schema: &JsonSchema) -> Digest {
        let mut canonical = Canonical::new("test");
        schema.feed(&mut canonical);
        canonical.finish()
    }

    #[test]
    fn a_schema_keeps_the_order_of_its_author_wherever_it_is_stored() {
        let schema: JsonSchema = WRITTEN.parse().unwrap();
        assert_eq!(schema.to_string(), WRITTEN);
        assert_eq!(schema.ordered().to_string(), WRITTEN);
        assert_eq!(schema, serde_json::from_str::<Value>(WRITTEN).unwrap());
        let stored = serde_json::to_value(&schema).unwrap();
        assert_eq!(stored, json!(WRITTEN));
        assert_eq!(serde_json::from_value::<JsonSchema>(stored).unwrap(), schema);
        let packed = rmp_serde::to_vec(&schema).unwrap();
        assert_eq!(rmp_serde::from_slice::<JsonSchema>(&packed).unwrap(), schema);
    }

    #[test]
    fn a_schema_with_sorted_keys_is_stored_and_fed_as_it_always_was() {
        let value: Value = serde_json::from_str(WRITTEN).unwrap();
        let sorted: JsonSchema = print_json(&value).parse().unwrap();
        assert_eq!(sorted, JsonSchema::from(value.clone()));
        assert_eq!(serde_json::to_value(&sorted).unwrap(), value);
        assert_eq!(serde_json::from_value::<JsonSchema>(value.clone()).unwrap(), sorted);
        assert_eq!(digest(&sorted), Canonical::new("test").json(&value).finish());
        assert_eq!(sorted.to_string(), print_json(&value));
    }

    #[test]
    fn another_order_is_another_schema() {
        let written: JsonSchema = WRITTEN.parse().unwrap();
        let sorted = JsonSchema::from(written.value().clone());
        assert_ne!(written, sorted);
        assert_ne!(digest(&written), digest(&sorted));
    }

    #[test]
    fn of_two_members_with_one_name_the_later_counts_at_the_place_of_the_earlier() {
        let text = r#"{"b":1,"a":{"d":[{"z":null,"y":1.5}],"c":-3},"b":true}"#;
        let ordered: OrderedJson = serde_json::from_str(text).unwrap();
        assert_eq!(ordered.to_string(), r#"{"b":true,"a":{"d":[{"z":null,"y":1.5}],"c":-3}}"#);
        assert_eq!(ordered.into_value(), serde_json::from_str::<Value>(text).unwrap());
        for broken in ["", "{", "{}x", r#"{"a":1e999}"#, &"[".repeat(200)] {
            assert!(broken.parse::<JsonSchema>().is_err(), "{broken}");
        }
    }
}
