//! The words of an agent: the numbers, texts and names in its file, with which conditions compare.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use dalsegno_core::AgentConfig;
use serde_json::{Number, Value};

/// Most words of each kind.
const MOST: usize = 64;

/// The longest text that is a word.
const LONGEST: usize = 40;

/// The words of an agent.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// Numbers, and the whole ones beside them: conditions change their answers there.
    pub(crate) numbers: Vec<Number>,
    /// Texts in quotes.
    pub(crate) texts: Vec<String>,
    /// Names of fields, such as `id` of `body.id`.
    pub(crate) fields: Vec<String>,
}

impl Words {
    /// Collects the words of a configuration and of further expressions.
    pub(crate) fn of<'e>(config: &AgentConfig, expressions: impl Iterator<Item = &'e str>) -> Self {
        let mut words = Self::default();
        let mut numbers = BTreeSet::new();
        let mut add = |text: &str| words.read(text, &mut numbers);
        expressions.for_each(&mut add);
        // A configuration can always be written as JSON; it is read from JSON.
        visit(&serde_json::to_value(config).unwrap_or_default(), &mut add);
        for digits in numbers.into_iter().take(MOST) {
            let Ok(number) = digits.parse::<f64>() else { continue };
            let near = [number, number + 1.0, number - 1.0].into_iter().filter_map(written);
            near.for_each(|number| push(&mut words.numbers, number));
        }
        // The nearest to 0 are the simplest.
        words.numbers.sort_by(|one, other| order(one).partial_cmp(&order(other)).unwrap_or(Ordering::Equal));
        words
    }

    fn read(&mut self, text: &str, numbers: &mut BTreeSet<String>) {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
        for word in text.split(|letter| !is_part(letter)) {
            let word = word.trim_matches('.');
            if word.starts_with(|letter: char| letter.is_ascii_digit()) {
                numbers.insert(word.to_owned());
            } else if let Some((_, field)) = word.rsplit_once('.').filter(|_| self.fields.len() < MOST) {
                push(&mut self.fields, field.to_owned());
            }
        }
        for quote in ['"', '\'', '`'] {
            let quoted = text.split(quote).skip(1).step_by(2);
            let short = quoted.filter(|word| word.len() <= LONGEST && !word.contains("{{"));
            for word in short.take(MOST.saturating_sub(self.texts.len())) {
                push(&mut self.texts, word.to_owned());
            }
        }
    }
}

fn push<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// What the order of numbers goes by: how far from 0 they are, and of two the positive one first.
fn order(number: &Number) -> (f64, bool) {
    let number = number.as_f64().unwrap_or_default();
    (number.abs(), number < 0.0)
}

/// A number as JSON writes it: whole numbers without a point.
pub(super) fn written(number: f64) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT {
        return Some(Number::from(number as i64));
    }
    Number::from_f64(number)
}

/// Visits the texts in a value.
fn visit(value: &Value, seen: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => seen(text),
        Value::Array(items) => items.iter().for_each(|item| visit(item, seen)),
        Value::Object(fields) => {
            // Values are made of schemas as it is; their own words say nothing.
            let read = fields.iter().filter(|(name, _)| !name.ends_with("schema"));
            read.for_each(|(_, field)| visit(field, seen));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_texts_and_fields_are_found() {
        let mut words = Words::default();
        let mut numbers = BTreeSet::new();
        words.read("args.amount > 100.5 && steps.a.status == 'paid' || 2x", &mut numbers);
        words.read("Say \"yes\" above 0.7, `no` otherwise, and '{{never}}' never.", &mut numbers);
        assert_eq!(numbers.iter().map(String::as_str).collect::<Vec<_>>(), ["0.7", "100.5", "2x"]);
        assert_eq!(words.fields, ["amount", "status"]);
        assert_eq!(words.texts, ["paid", "yes", "no"]);
        assert_eq!(written(3.0).unwrap().to_string(), "3");
        assert_eq!(written(0.5).unwrap().to_string(), "0.5");
        assert!(written(f64::NAN).is_none());
    }
}
