//! What a token says.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;

/// The claims of a token. One that is there twice is refused: who reads it first and who reads it last would differ.
#[derive(Debug)]
pub(super) struct Claims(serde_json::Map<String, Value>);

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = BTreeMap<String, Value>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the claims of a token")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut claims = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if claims.insert(name, value).is_some() {
                        return Err(A::Error::custom("a claim is there twice"));
                    }
                }
                Ok(claims)
            }
        }
        Ok(Self(deserializer.deserialize_map(Once)?.into_iter().collect()))
    }
}

impl Claims {
    /// A claim that is a text.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.at(path)?.as_str()
    }

    /// A claim by its name. A name with dots that is none leads into claims that are objects, as in `realm_access.roles`.
    pub(super) fn at(&self, path: &str) -> Option<&Value> {
        below(&self.0, path)
    }

    /// The words of a claim: a list, or words with spaces between.
    pub(super) fn words(&self, path: &str) -> Vec<&str> {
        match self.at(path) {
            Some(Value::String(words)) => words.split(' ').filter(|word| !word.is_empty()).collect(),
            Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

fn below<'v>(object: &'v serde_json::Map<String, Value>, path: &str) -> Option<&'v Value> {
    if let Some(value) = object.get(path) {
        return Some(value);
    }
    path.match_indices('.')
        .find_map(|(dot, _)| below(object.get(&path[..dot])?.as_object()?, &path[dot + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_found_by_its_name_or_by_the_way_to_it() {
        let text = r#"{"scope":"a  b","roles":["c",7,"d"],"https://x.example/org":"e","realm":{"a.b":{"roles":["f"]}},"a":"g"}"#;
        let claims: Claims = serde_json::from_str(text).unwrap();
        for (path, expected) in [
            ("scope", vec!["a", "b"]),
            ("roles", vec!["c", "d"]),
            ("https://x.example/org", vec!["e"]),
            ("realm.a.b.roles", vec!["f"]),
            ("realm.roles", vec![]),
            ("a.b", vec![]),
            ("", vec![]),
            (".", vec![]),
        ] {
            assert_eq!(claims.words(path), expected, "{path}");
        }
    }

    #[test]
    fn a_claim_that_is_there_twice_is_refused() {
        assert!(serde_json::from_str::<Claims>(r#"{"org":"acme","org":"rival"}"#).is_err());
        assert!(serde_json::from_str::<Claims>("[]").is_err());
    }
}
