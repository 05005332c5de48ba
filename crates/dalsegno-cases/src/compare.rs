//! Compares values: whether one holds another, and where they first differ.

use serde_json::Value;

/// The most characters of a value that a message quotes.
const QUOTED: usize = 160;

/// Says where `found` does not hold what `wanted` says, as the first such place; none where it holds all of it. An object may have
/// more fields, and everything holds null.
pub(crate) fn lacks(found: &Value, wanted: &Value) -> Option<String> {
    difference(found, wanted, &mut String::new(), Fit::Part)
}

/// Says where two values first differ; none where they are equal.
pub(crate) fn differs(found: &Value, wanted: &Value) -> Option<String> {
    difference(found, wanted, &mut String::new(), Fit::Whole)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// More fields may be there.
    Part,
    /// Nothing else may be there.
    Whole,
}

fn difference(found: &Value, wanted: &Value, path: &mut String, fit: Fit) -> Option<String> {
    match (found, wanted) {
        (_, Value::Null) if fit == Fit::Part => None,
        (Value::Object(found), Value::Object(wanted)) => {
            for (name, wanted) in wanted {
                let Some(found) = found.get(name) else {
                    return Some(format!("{} is missing, expected {}", place(path, name), quoted(wanted)));
                };
                let length = path.len();
                path.push_str(if length == 0 { "" } else { "." });
                path.push_str(name);
                let differs = difference(found, wanted, path, fit);
                path.truncate(length);
                if differs.is_some() {
                    return differs;
                }
            }
            let more = found.iter().find(|(name, _)| fit == Fit::Whole && !wanted.contains_key(*name))?;
            Some(format!("{} is {}, expected nothing there", place(path, more.0), quoted(more.1)))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            if found.len() != wanted.len() {
                let what = if path.is_empty() { "the list".to_owned() } else { format!("`{path}`") };
                return Some(format!("{what} has {} items, expected {}", found.len(), wanted.len()));
            }
            found.iter().zip(wanted).enumerate().find_map(|(index, (found, wanted))| {
                let length = path.len();
                path.push_str(&format!("[{index}]"));
                let differs = difference(found, wanted, path, fit);
                path.truncate(length);
                differs
            })
        }
        (Value::Number(found), Value::Number(wanted)) if found.as_f64() == wanted.as_f64() => None,
        (found, wanted) if found == wanted => None,
        (found, wanted) => {
            let what = if path.is_empty() { "it".to_owned() } else { format!("`{path}`") };
            Some(format!("{what} is {}, expected {}", quoted(found), quoted(wanted)))
        }
    }
}

fn place(path: &str, name: &str) -> String {
    if path.is_empty() { format!("`{name}`") } else { format!("`{path}.{name}`") }
}

/// A value as messages quote it.
pub(crate) fn quoted(value: &Value) -> String {
    shortened(&value.to_string())
}

/// A text as messages quote it: not longer than a reader wants it.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_may_hold_more_than_is_wanted() {
        let found = json!({ "a": 1, "b": { "c": [1, { "d": 2, "e": 3 }] } });
        assert_eq!(lacks(&found, &json!({})), None);
        assert_eq!(lacks(&found, &json!({ "b": { "c": [1.0, { "d": 2 }] } })), None);
        assert_eq!(lacks(&found, &json!({ "b": null })), None);
    }

    #[test]
    fn the_first_difference_is_named_with_its_place() {
        let found = json!({ "a": 1, "b": { "c": [1, { "d": 2 }] } });
        let lacks = |wanted: Value| lacks(&found, &wanted).unwrap_or_default();
        assert_eq!(lacks(json!({ "b": { "c": [1, { "d": 3 }] } })), "`b.c[1].d` is 2, expected 3");
        assert_eq!(lacks(json!({ "b": { "c": [1] } })), "`b.c` has 2 items, expected 1");
        assert_eq!(lacks(json!({ "b": { "x": "y" } })), "`b.x` is missing, expected \"y\"");
        assert_eq!(
            differs(&json!({ "a": 1 }), &json!({})).unwrap_or_default(),
            "`a` is 1, expected nothing there"
        );
        assert_eq!(differs(&json!(1), &json!("1")).unwrap_or_default(), "it is 1, expected \"1\"");
    }
}
