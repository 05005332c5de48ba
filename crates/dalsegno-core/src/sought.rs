//! Looks for a value in other values and in texts: where could it have been read?

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::iter;
use core::ops::Range;

use serde_json::Value;

/// A value that is looked for.
#[derive(Debug, Clone)]
pub struct Sought<'v>(Kind<'v>);

#[derive(Debug, Clone)]
enum Kind<'v> {
    /// A text, with the same in lower case where that is another one.
    Text(Cow<'v, str>, Option<String>),
    Number(f64),
}

/// A place in a value at which another value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot<'v> {
    /// The path of the leaf, such as `orders[0].id`; empty for a value that is a leaf itself.
    pub path: String,
    /// The text in which it stands, where the leaf is one.
    pub text: Option<&'v str>,
    /// Where in that text it stands, in bytes; empty where the leaf is no text.
    pub range: Range<usize>,
}

impl<'v> Sought<'v> {
    /// None for a value that carries nothing, `null` and blank text, and for one that is no leaf.
    pub fn of(leaf: &'v Value) -> Option<Self> {
        let text = |text: Cow<'v, str>| {
            let lower = text.bytes().any(|byte| byte.is_ascii_uppercase()).then(|| text.to_ascii_lowercase());
            Kind::Text(text, lower)
        };
        Some(Self(match leaf {
            Value::String(words) if words.trim().is_empty() => return None,
            Value::String(words) => text(Cow::Borrowed(words.trim())),
            Value::Number(number) => {
                number.as_f64().map_or_else(|| text(Cow::Owned(number.to_string())), Kind::Number)
            }
            Value::Bool(flag) => text(Cow::Borrowed(if *flag { "true" } else { "false" })),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        }))
    }

    /// Says whether it is one of the values inside this one, or stands in a text among them.
    pub fn is_in(&self, value: &Value) -> bool {
        leaves(value).any(|leaf| self.is_in_leaf(leaf))
    }

    /// Says whether it stands in a text as a whole. Letters of ASCII may have another case there.
    pub fn is_in_text(&self, text: &str) -> bool {
        !self.ranges(text, 1).is_empty()
    }

    /// At most `most` of the places in a value at which it stands, in the order of the value.
    pub fn spots<'o>(&self, value: &'o Value, most: usize) -> Vec<Spot<'o>> {
        let mut spots = Vec::new();
        for (path, leaf) in leaves_with_paths(value) {
            let room = most - spots.len();
            if room == 0 {
                break;
            }
            match leaf {
                Value::String(text) => {
                    let spot = |range| Spot { path: path.clone(), text: Some(text), range };
                    spots.extend(self.ranges(text, room).into_iter().map(spot));
                }
                leaf if self.is_in_leaf(leaf) => spots.push(Spot { path, text: None, range: 0..0 }),
                _ => {}
            }
        }
        spots
    }

    /// At most `most` of the places in a text at which it stands as a whole, in bytes.
    pub fn ranges(&self, text: &str, most: usize) -> Vec<Range<usize>> {
        match &self.0 {
            Kind::Text(sought, lower) => {
                let has_capitals = || text.bytes().any(|byte| byte.is_ascii_uppercase());
                // The letters of ASCII take one byte in either case, so places stay what they are.
                if lower.is_some() || has_capitals() {
                    let sought = lower.as_deref().unwrap_or(sought);
                    standing(&text.to_ascii_lowercase(), sought).take(most).collect()
                } else {
                    standing(text, sought).take(most).collect()
                }
            }
            Kind::Number(sought) => {
                let found = numbers(text).filter(|(_, number)| number == sought);
                found.map(|(range, _)| range).take(most).collect()
            }
        }
    }

    fn is_in_leaf(&self, leaf: &Value) -> bool {
        match leaf {
            Value::String(text) => self.is_in_text(text),
            Value::Number(number) => match &self.0 {
                Kind::Number(sought) => number.as_f64() == Some(*sought),
                Kind::Text(text, _) => **text == number.to_string(),
            },
            Value::Bool(flag) => {
                matches!(&self.0, Kind::Text(text, _) if text == if *flag { "true" } else { "false" })
            }
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        }
    }
}

/// The values inside a value that are no lists and no objects.
pub(crate) fn leaves(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter().flat_map(leaves)),
        Value::Object(members) => Box::new(members.values().flat_map(leaves)),
        leaf => Box::new(iter::once(leaf)),
    }
}

/// The values inside a value that are no lists and no objects, each with its path, such as `orders[0].id`.
pub fn leaves_with_paths(value: &Value) -> Box<dyn Iterator<Item = (String, &Value)> + '_> {
    below(String::new(), value)
}

fn below(path: String, value: &Value) -> Box<dyn Iterator<Item = (String, &Value)> + '_> {
    match value {
        Value::Array(items) => {
            let items = items.iter().enumerate();
            Box::new(items.flat_map(move |(index, item)| below(index_path(&path, index), item)))
        }
        Value::Object(members) => {
            Box::new(members.iter().flat_map(move |(name, member)| below(member_path(&path, name), member)))
        }
        leaf => Box::new(iter::once((path, leaf))),
    }
}

/// The path of an item: `orders[0]`.
pub(crate) fn index_path(path: &str, index: usize) -> String {
    alloc::format!("{path}[{index}]")
}

/// The path of a member: `to.name`, and `to["first name"]` for a name that is not plain.
pub(crate) fn member_path(path: &str, name: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-');
    if name.is_empty() || !name.chars().all(is_plain) {
        return alloc::format!("{path}[{name:?}]");
    }
    let dot = if path.is_empty() { "" } else { "." };
    alloc::format!("{path}{dot}{name}")
}

/// The places at which a text has another one as a whole: not as a part of a longer word, number or address.
fn standing<'t>(text: &'t str, sought: &'t str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices(sought).filter_map(move |(start, found)| {
        let end = start + found.len();
        let is_whole = !continues(text[..start].chars().rev()) && !continues(text[end..].chars());
        is_whole.then_some(start..end)
    })
}

/// Says whether a word continues with these characters: a letter or digit, or one behind a character that joins.
fn continues(mut characters: impl Iterator<Item = char>) -> bool {
    match characters.next() {
        Some(first) if first.is_alphanumeric() => true,
        Some('.' | '@' | '-' | '_' | '+' | '/' | ':' | '%' | '\'' | ',') => {
            characters.next().is_some_and(char::is_alphanumeric)
        }
        _ => false,
    }
}

/// The numbers in a text with their places: with `,` between thousands or with `.` between them, `1,000.5` and `1.000,5`.
fn numbers(text: &str) -> impl Iterator<Item = (Range<usize>, f64)> {
    let is_part = |character: char| character.is_alphanumeric() || character == '.' || character == ',';
    let mut start = 0;
    let words = text.split_inclusive(move |character: char| !is_part(character)).map(move |word| {
        let begin = start;
        start += word.len();
        (begin, word.trim_end_matches(move |character: char| !is_part(character)))
    });
    words.flat_map(|(begin, word)| {
        let word = word.trim_end_matches(['.', ',']);
        let (english, other) = (word.replace(',', ""), word.replace('.', "").replace(',', "."));
        let is_other = word.contains(',');
        let range = begin..begin + word.len();
        let parsed = [Some(english), Some(other).filter(|_| is_other)];
        parsed
            .into_iter()
            .flatten()
            .filter_map(|number| number.parse().ok())
            .filter(|number: &f64| number.is_finite())
            .map(move |number| (range.clone(), number))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_in(leaf: &Value, text: &str) -> bool {
        Sought::of(leaf).unwrap().is_in_text(text)
    }

    #[test]
    fn a_value_stands_in_a_text_as_a_whole() {
        for (value, text) in [
            (json!("bob@example.com"), "Write to Bob@Example.com."),
            (json!("DE02 1203"), "my account is (DE02 1203), thanks"),
            (json!("Ann"), "Ann, Bob and Cy"),
            (json!("Cy"), "Ann, Bob and Cy"),
            (json!("Zoë"), "an Zoë"),
            (json!(100), "pay 100 dollars"),
            (json!(100.0), "pay 100."),
            (json!(1000.5), "1,000.5"),
            (json!(1000.5), "1.000,50 EUR"),
            (json!(true), "it is true"),
        ] {
            assert!(is_in(&value, text), "{value} in {text}");
        }
        for (value, text) in [
            (json!("bob@example.com"), "bob@example.com.evil.org"),
            (json!("bob@example.com"), "evil+bob@example.com"),
            (json!("bob@example.com"), "evil-bob@example.com"),
            (json!("example.com"), "https://example.com/pay"),
            (json!("Ann"), "Annabel"),
            (json!("ann"), "joann"),
            (json!("é"), "Zoé"),
            (json!(100), "pay 1000"),
            (json!(100), "A100"),
            (json!(100), "100.5"),
            (json!(0.5), "100.5"),
            (json!(true), "untrue"),
        ] {
            assert!(!is_in(&value, text), "{value} in {text}");
        }
    }

    #[test]
    fn what_carries_nothing_needs_no_source() {
        assert!(Sought::of(&json!("  ")).is_none());
        assert!(Sought::of(&json!(null)).is_none());
    }

    #[test]
    fn a_place_is_told_in_the_text_as_it_was_written() {
        let sought = json!("bob@example.com");
        let sought = Sought::of(&sought).unwrap();
        let text = "Zoë writes to Bob@Example.com, then to bob@example.com.";
        let found: Vec<&str> = sought.ranges(text, 9).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["Bob@Example.com", "bob@example.com"]);
        assert_eq!(sought.ranges(text, 1).len(), 1);
        let text = "von 12 auf 1.000,50 EUR";
        let amount = json!(1000.5);
        let found = Sought::of(&amount).unwrap().ranges(text, 9);
        assert_eq!(found.into_iter().map(|range| &text[range]).collect::<Vec<_>>(), ["1.000,50"]);
    }

    #[test]
    fn a_place_in_a_value_has_a_path() {
        let value =
            json!({ "orders": [{ "id": 7 }, { "id": "no 7 here, 8" }], "first name": { "of": [[7.0]] } });
        let sought = json!(7);
        let spots = Sought::of(&sought).unwrap().spots(&value, 9);
        let mut paths: Vec<&str> = spots.iter().map(|spot| spot.path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["[\"first name\"].of[0][0]", "orders[0].id", "orders[1].id"]);
        assert_eq!(Sought::of(&sought).unwrap().spots(&value, 1).len(), 1);
        let spots = Sought::of(&sought).unwrap().spots(&sought, 9);
        assert_eq!(spots, [Spot { path: String::new(), text: None, range: 0..0 }]);
    }
}
