//! Numbers as JavaScript reads and prints them.

use crate::literal::is_space;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use serde_json::{Number, Value};

/// 2^53: up to here every integer is a double.
pub(crate) const MAX_EXACT: i128 = 1 << 53;
const MAX_EXACT_DOUBLE: f64 = 9_007_199_254_740_992.0;

/// Prints a number as `String(x)` does.
pub(crate) fn to_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number == 0.0 {
        return "0".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if number.abs() <= MAX_EXACT_DOUBLE && is_integral(number) {
        return (number as i64).to_string();
    }
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let digits = even_of_two(number.abs(), digits, point);
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}", layout(&digits, point))
}

/// Chooses among the shortest digits that read back as the same double.
///
/// Between two that are equally near the standard takes the even ones: 900719925474099.25 is `900719925474099.2`, and
/// Rust prints `.3`.
fn even_of_two(magnitude: f64, digits: String, point: i32) -> String {
    let Some(odd) = digits.parse::<u64>().ok().filter(|digits| digits % 2 == 1) else { return digits };
    let power = point - digits.len() as i32;
    for (even, halfway) in [(odd - 1, odd * 10 - 5), (odd + 1, odd * 10 + 5)] {
        if is_exactly(magnitude, halfway, power - 1) && format!("{even}e{power}").parse() == Ok(magnitude) {
            return even.to_string();
        }
    }
    digits
}

/// Tells whether a positive double is `decimal × 10^power`, to the last bit.
fn is_exactly(double: f64, decimal: u64, power: i32) -> bool {
    // Beyond, a power of five would have to divide a number that is smaller than it.
    let Some(fives) = 5_u128.checked_pow(power.unsigned_abs()).filter(|_| power.abs() <= 27) else {
        return false;
    };
    let (fraction, exponent) = (double.to_bits() & ((1 << 52) - 1), (double.to_bits() >> 52) as i32);
    let (mantissa, binary_power) =
        if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    let (left, right) = if power < 0 {
        (u128::from(mantissa) * fives, u128::from(decimal))
    } else {
        (u128::from(mantissa), u128::from(decimal) * fives)
    };
    let normal = |number: u128, power: i32| {
        (number >> number.trailing_zeros(), power + number.trailing_zeros() as i32)
    };
    let twos = if power < 0 { (binary_power - power, 0) } else { (binary_power, power) };
    normal(left, twos.0) == normal(right, twos.1)
}

/// Places the decimal point: the value is `0.digits × 10^point`.
fn layout(digits: &str, point: i32) -> String {
    let count = digits.len() as i32;
    if count <= point && point <= 21 {
        return format!("{digits}{}", "0".repeat((point - count) as usize));
    }
    if 0 < point && point <= 21 {
        let (whole, fraction) = digits.split_at(point as usize);
        return format!("{whole}.{fraction}");
    }
    if -6 < point && point <= 0 {
        return format!("0.{}{digits}", "0".repeat(-point as usize));
    }
    let exponent = point - 1;
    let sign = if exponent < 0 { '-' } else { '+' };
    let (first, others) = digits.split_at(1);
    let dot = if others.is_empty() { "" } else { "." };
    format!("{first}{dot}{others}e{sign}{}", exponent.abs())
}

/// Prints a number as `x.toFixed(digits)` does, for at most 100 digits.
pub(crate) fn to_fixed(number: f64, digits: usize) -> String {
    if !number.is_finite() || number.abs() >= 1e21 {
        return to_text(number);
    }
    let sign = if number < 0.0 { "-" } else { "" };
    let magnitude = number.abs();
    // Halfway cases go up in JavaScript and to the even digit in Rust. A double lies halfway only if it has at
    // most `digits + 1` binary places, and then as many decimal places write it exactly.
    if is_integral(libm::ldexp(magnitude, digits as i32 + 1)) {
        let exact = format!("{magnitude:.places$}", places = digits + 1);
        if let Some(kept) = exact.strip_suffix('5') {
            return format!("{sign}{}", increment(kept.strip_suffix('.').unwrap_or(kept)));
        }
    }
    format!("{sign}{magnitude:.digits$}")
}

/// Adds one in the last place of a decimal number.
fn increment(decimal: &str) -> String {
    let mut reversed = String::with_capacity(decimal.len() + 1);
    let mut carry = true;
    for character in decimal.chars().rev() {
        let (shown, next_carry) = match character {
            '9' if carry => ('0', true),
            '0'..='8' if carry => ((character as u8 + 1) as char, false),
            other => (other, carry),
        };
        reversed.push(shown);
        carry = next_carry;
    }
    if carry {
        reversed.push('1');
    }
    reversed.chars().rev().collect()
}

/// Reads text as `Number(text)` does.
pub(crate) fn from_text(text: &str) -> f64 {
    let text = text.trim_matches(is_space);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if text.is_empty() {
        0.0
    } else if unsigned == "Infinity" {
        if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }
    } else if let Some(magnitude) = radix(text) {
        magnitude
    } else if decimal_length(unsigned) == unsigned.len() {
        let magnitude = parse_decimal(unsigned);
        if text.starts_with('-') { -magnitude } else { magnitude }
    } else {
        f64::NAN
    }
}

/// Reads `0x1f`, `0o17` and `0b11`, which take no sign.
fn radix(text: &str) -> Option<f64> {
    let (base, digits) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &text[2..]),
        [b'0', b'o' | b'O', ..] => (8, &text[2..]),
        [b'0', b'b' | b'B', ..] => (2, &text[2..]),
        _ => return None,
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return Some(f64::NAN);
    }
    // Past 124 bits only whether any is set matters, for rounding: the last one kept says so.
    let (mut kept, mut dropped_bits) = (0_u128, 0_i32);
    for digit in digits.chars().filter_map(|digit| digit.to_digit(base)) {
        let bits = base.ilog2();
        if kept.leading_zeros() > bits {
            kept = kept << bits | u128::from(digit);
        } else {
            kept |= u128::from(digit != 0);
            dropped_bits = dropped_bits.saturating_add(bits as i32);
        }
    }
    Some(libm::ldexp(kept as f64, dropped_bits))
}

/// Measures the unsigned decimal number at the start of a text, in bytes; 0 if there is none.
pub(crate) fn decimal_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits_from = |start: usize| bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits_from(0);
    let mut length = whole;
    if bytes.get(length) == Some(&b'.') {
        let fraction = digits_from(length + 1);
        if whole + fraction == 0 {
            return 0;
        }
        length += 1 + fraction;
    }
    if length > 0 && matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits_from((length + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length
}

/// Reads what [`decimal_length`] measured.
pub(crate) fn parse_decimal(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

/// Tells whether a number has no fraction; infinities and NaN have one.
pub(crate) fn is_integral(number: f64) -> bool {
    number.is_finite() && libm::trunc(number) == number
}

/// Truncates as the standard's `ToIntegerOrInfinity` does.
pub(crate) fn to_integer(number: f64) -> f64 {
    if number.is_nan() { 0.0 } else { libm::trunc(number) }
}

/// Rounds halves up, as `Math.round` does.
pub(crate) fn round(number: f64) -> f64 {
    let floor = libm::floor(number);
    let rounded = if number - floor >= 0.5 { floor + 1.0 } else { floor };
    if rounded == 0.0 { rounded.copysign(number) } else { rounded }
}

/// Turns a double into JSON: without a fraction where it has none, `null` where JSON has no such number.
pub(crate) fn to_json(number: f64) -> Value {
    if number.abs() <= MAX_EXACT_DOUBLE && is_integral(number) {
        return Value::Number(Number::from(number as i64));
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// Returns the value of a JSON number that a double cannot hold exactly.
pub(crate) fn inexact_integer(number: &Number) -> Option<i128> {
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))?;
    (integer.abs() > MAX_EXACT).then_some(integer)
}

/// Turns an integer that came out of [`inexact_integer`] or a literal back into JSON.
pub(crate) fn integer_to_json(integer: i128) -> Value {
    let signed = i64::try_from(integer).map(Number::from);
    signed
        .or_else(|_| u64::try_from(integer).map(Number::from))
        .map_or_else(|_| to_json(integer as f64), Value::Number)
}
