//! Values of another type that are taken as what was meant, where nothing is lost.

use alloc::string::ToString;

use serde_json::{Number, Value};

use super::Kind;

/// Returns the value as the type, where that loses nothing.
pub(super) fn coerce(value: &Value, kind: Kind) -> Option<Value> {
    match (kind, value) {
        (Kind::Integer, Value::Number(number)) => integer(number),
        (Kind::Integer | Kind::Number, Value::String(text)) => number(text, kind),
        (Kind::Boolean, Value::String(text)) => match text.as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        (Kind::String, Value::Number(number)) => Some(Value::String(number.to_string())),
        // Models like to print what is nested.
        (Kind::Array | Kind::Object, Value::String(text)) => {
            let value: Value = serde_json::from_str(text).ok()?;
            let fits =
                matches!((kind, &value), (Kind::Array, Value::Array(_)) | (Kind::Object, Value::Object(_)));
            fits.then_some(value)
        }
        _ => None,
    }
}

/// A float that is whole, and small enough that no neighbour is printed the same.
fn integer(number: &Number) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64()?;
    let whole = float as i64;
    (float.abs() < EXACT && whole as f64 == float).then(|| whole.into())
}

/// Text that JSON reads as the same number: `007` and `1e999` are something else, and so is what would be rounded.
fn number(text: &str, kind: Kind) -> Option<Value> {
    const MOST_EXACT_DIGITS: usize = 15;
    let text = match (kind, text.split_once('.')) {
        (Kind::Integer, Some((whole, rest))) if rest.bytes().all(|digit| digit == b'0') => whole,
        _ => text,
    };
    let value: Value = serde_json::from_str(text).ok()?;
    let Value::Number(number) = &value else { return None };
    let is_whole = number.is_i64() || number.is_u64();
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    match kind {
        Kind::Integer => is_whole.then_some(value),
        _ => (is_whole || digits <= MOST_EXACT_DIGITS).then_some(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_loses_nothing_is_coerced() {
        for (value, kind, expected) in [
            (json!("3"), Kind::Integer, Some(json!(3))),
            (json!("3.0"), Kind::Integer, Some(json!(3))),
            (json!(3.0), Kind::Integer, Some(json!(3))),
            (json!(3.5), Kind::Integer, None),
            (json!("3.5"), Kind::Integer, None),
            (json!("007"), Kind::Integer, None),
            (json!(" 3"), Kind::Integer, Some(json!(3))),
            (json!("3.5"), Kind::Number, Some(json!(3.5))),
            (json!("1e999"), Kind::Number, None),
            (json!("0.12345678901234567890"), Kind::Number, None),
            (json!("9007199254740993.0"), Kind::Integer, Some(json!(9_007_199_254_740_993_u64))),
            (json!("1.00000000000000000001"), Kind::Integer, None),
            (json!("18446744073709551615"), Kind::Integer, Some(json!(u64::MAX))),
            (json!("true"), Kind::Boolean, Some(json!(true))),
            (json!("yes"), Kind::Boolean, None),
            (json!(1), Kind::Boolean, None),
            (json!(5), Kind::String, Some(json!("5"))),
            (json!("[1]"), Kind::Array, Some(json!([1]))),
            (json!("{}"), Kind::Array, None),
            (json!("1"), Kind::Array, None),
        ] {
            assert_eq!(coerce(&value, kind), expected, "{value} as {kind:?}");
        }
    }
}
