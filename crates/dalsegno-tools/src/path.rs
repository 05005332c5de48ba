//! Paths of a tool's document: `workflow.meals[0]["b.c"]`, and where they lead.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::json;
use crate::limits::MAX_PATH_SEGMENTS;
use crate::name;
use crate::path_error::{PathError, WriteError};

/// A path that begins at a root, for instance `workflow.meals[0]`.
///
/// A first name that is no root means `workflow.<name>`. Parsing is the only way in; a path prints so that it parses
/// again to the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    root: String,
    segments: Vec<Segment>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Segment {
    Name(String),
    Index(usize),
}

/// The names that a path, an expression or a template may begin with.
pub(crate) const ROOTS: [&str; 15] = [
    "params",
    "user",
    "workflow",
    "agents",
    "tenant",
    "config",
    "secrets",
    "call",
    "operation",
    "now",
    "flags",
    "temp",
    "result",
    "context",
    "error",
];

impl Path {
    /// The name that the path begins with.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Changes the names below the root.
    pub(crate) fn rename(&mut self, mut change: impl FnMut(&mut String)) {
        for segment in &mut self.segments {
            if let Segment::Name(name) = segment {
                change(name);
            }
        }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Builds a path of names; the first is taken as a root, whatever it is.
    pub(crate) fn of_names<'n>(root: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        let segments = names.into_iter().map(|name| match name.parse() {
            Ok(index) => Segment::Index(index),
            Err(_) => Segment::Name(name.to_owned()),
        });
        Self { root: root.to_owned(), segments: segments.collect() }
    }

    pub(crate) fn of_segments(root: &str, segments: &[Segment]) -> Self {
        Self { root: root.to_owned(), segments: segments.to_vec() }
    }

    /// Says whether `other` leads to the same place or to one below.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.root == other.root && other.segments.starts_with(&self.segments)
    }

    /// Reads a path, and whether it ends in `[+]`.
    pub(crate) fn parse_write(text: &str) -> Result<(Self, bool), PathError> {
        match text.strip_suffix("[+]") {
            Some(path) => Ok((path.parse()?, true)),
            None => Ok((text.parse()?, false)),
        }
    }

    /// Returns what stands where the segments lead, from the value of the root on. A key that has the rest of the path
    /// for its name is found first.
    pub(crate) fn find<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        find(root, &self.segments, true)
    }

    /// As [`find`](Self::find), without a look at dotted keys: where [`write`](Self::write) writes.
    pub(crate) fn find_written<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        find(root, &self.segments, false)
    }

    /// Returns the part of the path before `length` segments.
    fn prefix(&self, length: usize) -> String {
        Self { root: self.root.clone(), segments: self.segments[..length].to_vec() }.to_text()
    }

    fn to_text(&self) -> String {
        let mut text = self.root.clone();
        for segment in &self.segments {
            match segment {
                Segment::Index(index) => text.push_str(&format!("[{index}]")),
                Segment::Name(name) if is_plain(name) => {
                    text.push('.');
                    text.push_str(name);
                }
                Segment::Name(name) => {
                    text.push_str(&format!("[{}]", json::print(&Value::from(name.as_str()))));
                }
            }
        }
        text
    }

    /// Sets or appends a value below the value of the root; objects on the way are made. On an error nothing changes.
    pub(crate) fn write(&self, root: &mut Value, value: Value, append: bool) -> Result<(), WriteError> {
        self.check_new(root)?;
        self.put(root, value, append)
    }

    /// Refuses an index below what does not exist yet, before anything is made on the way to it.
    fn check_new(&self, root: &Value) -> Result<(), WriteError> {
        let mut place = Some(root);
        for (depth, segment) in self.segments.iter().enumerate() {
            place = match (segment, place.filter(|value| !value.is_null())) {
                (Segment::Index(_), None) => {
                    return Err(WriteError::NotAList { path: self.prefix(depth), found: "missing".into() });
                }
                (Segment::Index(index), Some(Value::Array(items))) => items.get(*index),
                (Segment::Name(name), Some(Value::Object(fields))) => fields.get(name),
                // What is of the wrong type is refused where it is written, and nothing was made before it.
                (Segment::Index(_), Some(_)) => return Ok(()),
                (Segment::Name(_), _) => None,
            };
        }
        Ok(())
    }

    fn put(&self, root: &mut Value, value: Value, append: bool) -> Result<(), WriteError> {
        let mut place = root;
        for (depth, segment) in self.segments.iter().enumerate() {
            place = match segment {
                Segment::Name(name) => {
                    if place.is_null() {
                        *place = Value::Object(Map::new());
                    }
                    let found = json::kind(place);
                    let Value::Object(fields) = place else {
                        return Err(WriteError::NotAnObject {
                            path: self.prefix(depth),
                            found: found.into(),
                        });
                    };
                    fields.entry(name.clone()).or_insert(Value::Null)
                }
                Segment::Index(index) => {
                    let found = json::kind(place);
                    let Value::Array(items) = place else {
                        return Err(WriteError::NotAList { path: self.prefix(depth), found: found.into() });
                    };
                    let path = || self.prefix(depth);
                    items
                        .get_mut(*index)
                        .ok_or_else(|| WriteError::NoSuchItem { path: path(), index: *index })?
                }
            };
        }
        if !append {
            *place = value;
            return Ok(());
        }
        if place.is_null() {
            *place = Value::Array(Vec::new());
        }
        let found = json::kind(place);
        let Value::Array(items) = place else {
            return Err(WriteError::NotAList { path: self.to_text(), found: found.into() });
        };
        items.push(value);
        Ok(())
    }

    /// Removes what stands there, if anything does.
    pub(crate) fn delete(&self, root: &mut Value) {
        let Some((last, before)) = self.segments.split_last() else { return };
        let mut place = root;
        for segment in before {
            let next = match (segment, place) {
                (Segment::Name(name), Value::Object(fields)) => fields.get_mut(name),
                (Segment::Index(index), Value::Array(items)) => items.get_mut(*index),
                _ => None,
            };
            let Some(next) = next else { return };
            place = next;
        }
        match (last, place) {
            (Segment::Name(name), Value::Object(fields)) => {
                fields.remove(name);
            }
            (Segment::Index(index), Value::Array(items)) if *index < items.len() => {
                items.remove(*index);
            }
            _ => {}
        }
    }
}

fn find<'v>(value: &'v Value, segments: &[Segment], dotted_keys: bool) -> Option<&'v Value> {
    let Some((first, rest)) = segments.split_first() else { return Some(value) };
    match (first, value) {
        (Segment::Name(name), Value::Object(fields)) => {
            if dotted_keys
                && !rest.is_empty()
                && let Some(whole) = dotted(segments)
                && let Some(found) = fields.get(&whole)
            {
                return Some(found);
            }
            find(fields.get(name)?, rest, dotted_keys)
        }
        (Segment::Index(index), Value::Array(items)) => find(items.get(*index)?, rest, dotted_keys),
        _ => None,
    }
}

/// Joins segments to the dotted key that they may stand for.
pub(crate) fn dotted(segments: &[Segment]) -> Option<String> {
    let mut whole = String::new();
    for segment in segments {
        let Segment::Name(name) = segment else { return None };
        if !whole.is_empty() {
            whole.push('.');
        }
        whole.push_str(name);
    }
    Some(whole)
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let fail = |reason: &str| PathError { path: json::excerpt(text), reason: reason.to_owned() };
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(fail("it is empty; expected names such as `workflow.total`"));
        }
        let mut segments = Vec::new();
        let mut is_first = true;
        while !rest.is_empty() {
            if segments.len() > MAX_PATH_SEGMENTS {
                return Err(fail(&format!("it has more than {MAX_PATH_SEGMENTS} parts")));
            }
            if let Some(inner) = rest.strip_prefix('[') {
                if is_first {
                    return Err(fail("expected a name first"));
                }
                let (segment, after) = bracket(inner).ok_or_else(|| {
                    fail("expected an index or a quoted name in `[…]`; `[+]` stands only at the end of a path that is written")
                })?;
                segments.push(segment);
                rest = after;
            } else {
                if !is_first {
                    rest = rest.strip_prefix('.').ok_or_else(|| fail("expected `.` or `[` after a name"))?;
                }
                let end = rest
                    .find(|char: char| !(char.is_ascii_alphanumeric() || matches!(char, '_' | '-')))
                    .unwrap_or(rest.len());
                let name = rest[..end].replace('-', "_");
                if !is_plain(&name) {
                    return Err(fail(
                        "expected names of letters, digits and `_`; another key is written `[\"…\"]`",
                    ));
                }
                segments.push(Segment::Name(name));
                rest = &rest[end..];
            }
            is_first = false;
        }
        for segment in &segments {
            if let Segment::Name(name) = segment
                && name::is_forbidden(name)
            {
                return Err(fail(&format!("the name `{name}` is not allowed")));
            }
        }
        let mut segments = segments.into_iter();
        let Some(Segment::Name(first)) = segments.next() else {
            return Err(fail("expected a name first"));
        };
        if ROOTS.contains(&first.as_str()) {
            return Ok(Self { root: first, segments: segments.collect() });
        }
        let segments = core::iter::once(Segment::Name(first)).chain(segments).collect();
        Ok(Self { root: "workflow".to_owned(), segments })
    }
}

/// Reads what stands between `[` and `]`, and returns what follows.
fn bracket(inner: &str) -> Option<(Segment, &str)> {
    if let Some(quote) = inner.chars().next().filter(|char| matches!(char, '"' | '\'')) {
        let mut is_escaped = false;
        for (index, char) in inner.char_indices().skip(1) {
            if is_escaped {
                is_escaped = false;
            } else if char == '\\' {
                is_escaped = true;
            } else if char == quote {
                let name = &inner[1..index];
                let name = if quote == '"' {
                    serde_json::from_str(&inner[..=index]).ok()?
                } else {
                    name.replace("\\'", "'").replace("\\\\", "\\")
                };
                return Some((Segment::Name(name), inner[index + 1..].strip_prefix(']')?));
            }
        }
        return None;
    }
    let (index, after) = inner.split_once(']')?;
    let is_number = !index.is_empty() && index.len() <= 9 && index.bytes().all(|byte| byte.is_ascii_digit());
    Some((Segment::Index(is_number.then(|| index.parse().ok()).flatten()?), after))
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use serde_json::json;

    use super::*;

    fn path(text: &str) -> Path {
        text.parse().unwrap()
    }

    #[test]
    fn a_path_prints_so_that_it_parses_again() {
        for (text, printed) in [
            ("logged_meals", "workflow.logged_meals"),
            ("user.preferences.theme", "user.preferences.theme"),
            ("temp.a[0].b", "temp.a[0].b"),
            (r#"a["b.c"]['d e']"#, r#"workflow.a["b.c"]["d e"]"#),
            ("agents.on-call.last", "agents.on_call.last"),
            (r#"a["q\"uote"]"#, r#"workflow.a["q\"uote"]"#),
        ] {
            assert_eq!(path(text).to_string(), printed);
            assert_eq!(path(printed), path(text));
        }
    }

    #[test]
    fn what_is_no_path_is_refused_with_a_reason() {
        for text in [
            "",
            ".",
            "a..b",
            "a[",
            "a[+].b",
            "a[-1]",
            "[0]",
            "a.__proto__",
            r#"a["constructor"]"#,
            "a b",
            "2a",
        ] {
            assert!(text.parse::<Path>().is_err(), "{text}");
        }
        assert!(alloc::vec!["a"; 40].join(".").parse::<Path>().is_err());
    }

    #[test]
    fn writes_make_objects_on_the_way_and_lists_at_the_end() {
        let mut root = json!({});
        path("a.b").write(&mut root, json!(1), false).unwrap();
        path("a.list").write(&mut root, json!(1), true).unwrap();
        path("a.list").write(&mut root, json!(2), true).unwrap();
        path("a.list[0]").write(&mut root, json!(0), false).unwrap();
        assert_eq!(root, json!({"a": {"b": 1, "list": [0, 2]}}));
        let error = path("a.b").write(&mut root, json!(1), true).unwrap_err();
        assert_eq!(error.reason(), "not_a_list");
        assert_eq!(path("a.b.c").write(&mut root, json!(1), false).unwrap_err().reason(), "not_an_object");
        assert_eq!(path("a.list[9]").write(&mut root, json!(1), false).unwrap_err().reason(), "no_such_item");
        path("a.list[0]").delete(&mut root);
        path("a.gone.deeper").delete(&mut root);
        assert_eq!(root, json!({"a": {"b": 1, "list": [2]}}));
    }

    #[test]
    fn a_dotted_key_is_found_before_a_nested_one() {
        let root = json!({"endpoints": {"meal": {"log": "nested"}, "meal.log": "whole"}});
        assert_eq!(path("endpoints.meal.log").find(&root), Some(&json!("whole")));
        assert_eq!(path("endpoints.meal").find(&root), Some(&json!({"log": "nested"})));
    }
}
