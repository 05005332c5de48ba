//! JavaScript's conversions and comparisons.

use crate::error::EvalErrorKind;
use crate::meter::Meter;
use crate::number;
use crate::operand::{List, Operand};
use crate::text;
use crate::value_template::MAX_VALUE_DEPTH;
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use core::cmp::Ordering;

/// Converts as `String(x)` does.
pub(crate) fn to_text<'a>(operand: Operand<'a>, meter: &mut Meter) -> Result<Cow<'a, str>, EvalErrorKind> {
    text_at(operand, meter, 0)
}

fn text_at<'a>(operand: Operand<'a>, meter: &mut Meter, depth: usize) -> Result<Cow<'a, str>, EvalErrorKind> {
    Ok(match operand {
        Operand::Undefined => "undefined".into(),
        Operand::Null => "null".into(),
        Operand::Bool(bool) => if bool { "true" } else { "false" }.into(),
        Operand::Number(number) => number::to_text(number).into(),
        Operand::Integer(integer) => integer.to_string().into(),
        Operand::Text(text) => text,
        Operand::List(list) => join_at(&list, ",", meter, depth)?.into(),
        Operand::Record(_) => "[object Object]".into(),
    })
}

/// Joins as `list.join(separator)` does: `undefined` and `null` are empty.
pub(crate) fn join(list: &List<'_>, separator: &str, meter: &mut Meter) -> Result<String, EvalErrorKind> {
    join_at(list, separator, meter, 0)
}

fn join_at(
    list: &List<'_>,
    separator: &str,
    meter: &mut Meter,
    depth: usize,
) -> Result<String, EvalErrorKind> {
    if depth > MAX_VALUE_DEPTH {
        return Err(EvalErrorKind::TooDeep { limit: MAX_VALUE_DEPTH });
    }
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        meter.items(1)?;
        if index > 0 {
            meter.text(separator.len())?;
            joined.push_str(separator);
        }
        if !item.is_nullish() {
            let item = text_at(item, meter, depth + 1)?;
            meter.text(item.len())?;
            joined.push_str(&item);
        }
    }
    Ok(joined)
}

/// Converts arrays and objects to text, as operators on mixed types do.
pub(crate) fn to_primitive<'a>(
    operand: Operand<'a>,
    meter: &mut Meter,
) -> Result<Operand<'a>, EvalErrorKind> {
    match operand {
        Operand::List(_) | Operand::Record(_) => Ok(Operand::Text(to_text(operand, meter)?)),
        primitive => Ok(primitive),
    }
}

/// Converts as `Number(x)` does.
///
/// # Errors
/// Fails for an integer that a double cannot hold.
pub(crate) fn to_number(operand: Operand<'_>, meter: &mut Meter) -> Result<f64, EvalErrorKind> {
    match to_numeric(operand, meter)? {
        Numeric::Double(number) => Ok(number),
        Numeric::Integer(value) => Err(EvalErrorKind::InexactInteger { value }),
    }
}

/// Converts an argument that counts or indexes.
pub(crate) fn to_integer(operand: Operand<'_>, meter: &mut Meter) -> Result<f64, EvalErrorKind> {
    Ok(number::to_integer(to_number(operand, meter)?))
}

enum Numeric {
    Double(f64),
    Integer(i128),
}

fn to_numeric(operand: Operand<'_>, meter: &mut Meter) -> Result<Numeric, EvalErrorKind> {
    Ok(Numeric::Double(match to_primitive(operand, meter)? {
        Operand::Null => 0.0,
        Operand::Bool(bool) => f64::from(bool),
        Operand::Number(number) => number,
        Operand::Integer(integer) => return Ok(Numeric::Integer(integer)),
        Operand::Text(text) => {
            meter.scan(text.len())?;
            number::from_text(&text)
        }
        Operand::Undefined | Operand::List(_) | Operand::Record(_) => f64::NAN,
    }))
}

/// Compares as `===` does.
///
/// # Errors
/// Fails for two arrays and for two objects, which JavaScript compares by an identity that data does not have.
pub(crate) fn equal(
    left: &Operand<'_>,
    right: &Operand<'_>,
    meter: &mut Meter,
) -> Result<bool, EvalErrorKind> {
    Ok(match (left, right) {
        (Operand::Undefined, Operand::Undefined) | (Operand::Null, Operand::Null) => true,
        (Operand::Bool(left), Operand::Bool(right)) => left == right,
        (Operand::Number(left), Operand::Number(right)) => left == right,
        (Operand::Integer(left), Operand::Integer(right)) => left == right,
        (Operand::Text(left), Operand::Text(right)) => {
            let is_same_length = left.len() == right.len();
            meter.scan(if is_same_length { left.len() } else { 0 })?;
            left == right
        }
        (Operand::List(_), Operand::List(_)) => return Err(EvalErrorKind::Identity { kind: "array" }),
        (Operand::Record(_), Operand::Record(_)) => return Err(EvalErrorKind::Identity { kind: "object" }),
        // A computed double beyond 2^53 may be the very integer.
        (Operand::Integer(integer), Operand::Number(number))
        | (Operand::Number(number), Operand::Integer(integer)) => {
            number::is_integral(*number) && *number as i128 == *integer
        }
        _ => false,
    })
}

/// Orders as `<` and its kin do; `None` where a side is not a number.
pub(crate) fn compare(
    left: Operand<'_>,
    right: Operand<'_>,
    meter: &mut Meter,
) -> Result<Option<Ordering>, EvalErrorKind> {
    let (left, right) = (to_primitive(left, meter)?, to_primitive(right, meter)?);
    if let (Operand::Text(left), Operand::Text(right)) = (&left, &right) {
        meter.scan(left.len().min(right.len()))?;
        return Ok(Some(text::compare(left, right)));
    }
    Ok(match (to_numeric(left, meter)?, to_numeric(right, meter)?) {
        (Numeric::Double(left), Numeric::Double(right)) => left.partial_cmp(&right),
        (Numeric::Integer(left), Numeric::Integer(right)) => Some(left.cmp(&right)),
        (Numeric::Double(left), Numeric::Integer(right)) => compare_mixed(left, right),
        (Numeric::Integer(left), Numeric::Double(right)) => compare_mixed(right, left).map(Ordering::reverse),
    })
}

/// The integer is outside ±2^53, where a double with a fraction cannot be, so truncating decides nothing.
fn compare_mixed(double: f64, integer: i128) -> Option<Ordering> {
    (!double.is_nan()).then(|| (double as i128).cmp(&integer))
}
