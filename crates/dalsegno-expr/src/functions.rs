//! The functions that are called by their own name.

use crate::convert::{to_number, to_text};
use crate::date;
use crate::error::EvalErrorKind;
use crate::members::Function;
use crate::meter::Meter;
use crate::number;
use crate::operand::{Operand, Record};
use crate::text;
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(crate) fn call<'a>(
    function: Function,
    arguments: Vec<Operand<'a>>,
    meter: &mut Meter,
) -> Result<Operand<'a>, EvalErrorKind> {
    let count = arguments.len();
    let mut arguments = arguments.into_iter();
    let mut next = || arguments.next().unwrap_or(Operand::Undefined);
    Ok(match function {
        Function::ArrayIsArray => Operand::Bool(matches!(next(), Operand::List(_))),
        Function::Boolean => Operand::Bool(next().is_truthy()),
        Function::DateParse => {
            let text = to_text(next(), meter)?;
            meter.scan(text.len())?;
            Operand::Number(date::parse(&text).unwrap_or(f64::NAN))
        }
        Function::DateToIso => {
            let milliseconds = to_number(next(), meter)?;
            Operand::text(date::to_iso(milliseconds).ok_or_else(|| EvalErrorKind::OutOfRange {
                operation: function.name(),
                expected: "milliseconds from the year 0 to the year 9999",
                found: number::to_text(milliseconds),
            })?)
        }
        Function::EncodeUriComponent => Operand::text(encode_uri_component(&to_text(next(), meter)?, meter)?),
        Function::MathAbs => Operand::Number(to_number(next(), meter)?.abs()),
        Function::MathCeil => Operand::Number(libm::ceil(to_number(next(), meter)?)),
        Function::MathFloor => Operand::Number(libm::floor(to_number(next(), meter)?)),
        Function::MathRound => Operand::Number(number::round(to_number(next(), meter)?)),
        Function::MathMax => extreme(arguments, f64::NEG_INFINITY, |new, old| new > old, meter)?,
        Function::MathMin => extreme(arguments, f64::INFINITY, |new, old| new < old, meter)?,
        Function::Number if count == 0 => Operand::Number(0.0),
        Function::Number => match next() {
            // Passed on exactly, as everywhere else.
            Operand::Integer(integer) => Operand::Integer(integer),
            other => Operand::Number(to_number(other, meter)?),
        },
        Function::ObjectKeys => keys(&next(), meter)?,
        Function::String if count == 0 => Operand::text(""),
        Function::String => Operand::Text(to_text(next(), meter)?),
    })
}

/// `Math.max` and `Math.min`, where one NaN makes the answer NaN.
fn extreme<'a>(
    arguments: impl Iterator<Item = Operand<'a>>,
    start: f64,
    is_better: fn(f64, f64) -> bool,
    meter: &mut Meter,
) -> Result<Operand<'a>, EvalErrorKind> {
    let mut extreme = start;
    for argument in arguments {
        let number = to_number(argument, meter)?;
        // Zeros of both signs are equal but not the same: 0 is larger than -0.
        let is_better_zero = number == 0.0 && extreme == 0.0 && is_better(1.0_f64.copysign(number), 0.0);
        if number.is_nan() || (!extreme.is_nan() && (is_better(number, extreme) || is_better_zero)) {
            extreme = number;
        }
    }
    Ok(Operand::Number(extreme))
}

fn keys<'a>(operand: &Operand<'a>, meter: &mut Meter) -> Result<Operand<'a>, EvalErrorKind> {
    let count = match operand {
        Operand::Record(record) => return own_keys(record, meter),
        Operand::List(list) => list.len(),
        Operand::Text(text) => text::length(text),
        Operand::Bool(_) | Operand::Number(_) | Operand::Integer(_) => 0,
        Operand::Undefined | Operand::Null => {
            return Err(EvalErrorKind::Type {
                operation: Function::ObjectKeys.name(),
                expected: "an object",
                subject: "its argument".to_owned(),
                found: operand.kind(),
            });
        }
    };
    meter.items(count)?;
    meter.text(count)?;
    Ok(Operand::list((0..count).map(|index| Operand::text(index.to_string())).collect()))
}

/// Index-like names come first in their own order, as in JavaScript; the others are sorted.
fn own_keys<'a>(record: &Record<'a>, meter: &mut Meter) -> Result<Operand<'a>, EvalErrorKind> {
    let mut names = record.names();
    meter.items(names.len())?;
    names.sort_unstable_by_key(|name| {
        let is_index = *name == "0" || !name.starts_with('0');
        // The largest index of the standard is 2^32 - 2.
        let index = name.parse::<u32>().ok().filter(|index| is_index && *index < u32::MAX);
        let is_index = index.filter(|_| name.bytes().all(|byte| byte.is_ascii_digit()));
        (is_index.is_none(), is_index, *name)
    });
    Ok(Operand::list(names.into_iter().map(Operand::text).collect()))
}

fn encode_uri_component(text: &str, meter: &mut Meter) -> Result<String, EvalErrorKind> {
    const HEXADECIMAL: &[u8; 16] = b"0123456789ABCDEF";
    meter.text(text.len().saturating_mul(3))?;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z'
            | b'a'..=b'z'
            | b'0'..=b'9'
            | b'-'
            | b'_'
            | b'.'
            | b'!'
            | b'~'
            | b'*'
            | b'\''
            | b'('
            | b')' => {
                encoded.push(char::from(byte));
            }
            _ => {
                encoded.push('%');
                encoded.push(char::from(HEXADECIMAL[usize::from(byte >> 4)]));
                encoded.push(char::from(HEXADECIMAL[usize::from(byte & 15)]));
            }
        }
    }
    Ok(encoded)
}
