//! The methods of strings, arrays and numbers.

use crate::convert::{self, to_integer, to_text};
use crate::error::EvalErrorKind;
use crate::literal::is_space;
use crate::members::Method;
use crate::meter::Meter;
use crate::number;
use crate::operand::{List, Operand};
use crate::text;
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Calls a method. `subject` gives the source text of the receiver, for messages.
pub(crate) fn call<'a>(
    method: Method,
    receiver: Operand<'a>,
    arguments: Vec<Operand<'a>>,
    meter: &mut Meter,
    subject: &dyn Fn() -> String,
) -> Result<Operand<'a>, EvalErrorKind> {
    let arguments = Arguments(arguments.into_iter());
    match (receiver, receivers(method)) {
        (Operand::Text(text), Receivers { text: true, .. }) => {
            meter.scan(text.len())?;
            text_method(method, text, arguments, meter)
        }
        (Operand::List(list), Receivers { list: true, .. }) => list_method(method, &list, arguments, meter),
        (Operand::Number(number), Receivers { number: true, .. }) => to_fixed(number, arguments, meter),
        (Operand::Integer(value), Receivers { number: true, .. }) => {
            Err(EvalErrorKind::InexactInteger { value })
        }
        (other, Receivers { expected, .. }) => Err(EvalErrorKind::Type {
            operation: method.name(),
            expected,
            subject: subject(),
            found: other.kind(),
        }),
    }
}

struct Receivers {
    text: bool,
    list: bool,
    number: bool,
    expected: &'static str,
}

fn receivers(method: Method) -> Receivers {
    let (text, list, number, expected) = match method {
        Method::At | Method::Concat | Method::Includes | Method::IndexOf | Method::Slice => {
            (true, true, false, "a string or an array")
        }
        Method::EndsWith
        | Method::PadStart
        | Method::Replace
        | Method::Split
        | Method::StartsWith
        | Method::ToLowerCase
        | Method::ToUpperCase
        | Method::Trim => (true, false, false, "a string"),
        Method::Join => (false, true, false, "an array"),
        Method::ToFixed => (false, false, true, "a number"),
    };
    Receivers { text, list, number, expected }
}

/// The arguments of a call; those that are missing are `undefined`, those left over are ignored.
struct Arguments<'a>(alloc::vec::IntoIter<Operand<'a>>);

impl<'a> Arguments<'a> {
    fn next(&mut self) -> Operand<'a> {
        self.0.next().unwrap_or(Operand::Undefined)
    }

    fn text(&mut self, meter: &mut Meter) -> Result<Cow<'a, str>, EvalErrorKind> {
        let text = to_text(self.next(), meter)?;
        meter.scan(text.len())?;
        Ok(text)
    }

    /// A position that counts from the start, cut off at the length.
    fn position(&mut self, length: usize, default: usize, meter: &mut Meter) -> Result<usize, EvalErrorKind> {
        Ok(match self.next() {
            Operand::Undefined => default,
            // Saturates at both ends.
            position => (to_integer(position, meter)? as usize).min(length),
        })
    }

    /// A position that counts from the end if it is negative.
    fn relative(&mut self, length: usize, default: usize, meter: &mut Meter) -> Result<usize, EvalErrorKind> {
        Ok(match self.next() {
            Operand::Undefined => default,
            position => {
                let position = to_integer(position, meter)?;
                let position = if position < 0.0 { position + length as f64 } else { position };
                (position as usize).min(length)
            }
        })
    }

    /// The position that `at` means, if it is inside.
    fn index(&mut self, length: usize, meter: &mut Meter) -> Result<Option<usize>, EvalErrorKind> {
        let index = to_integer(self.next(), meter)?;
        let index = if index < 0.0 { index + length as f64 } else { index };
        Ok((index >= 0.0 && index < length as f64).then_some(index as usize))
    }
}

fn text_method<'a>(
    method: Method,
    text: Cow<'a, str>,
    mut arguments: Arguments<'a>,
    meter: &mut Meter,
) -> Result<Operand<'a>, EvalErrorKind> {
    let length = text::length(&text);
    Ok(match method {
        Method::At => match arguments.index(length, meter)? {
            Some(index) => Operand::Text(text::slice(text, index, index + 1)),
            None => Operand::Undefined,
        },
        Method::Concat => {
            meter.text(text.len())?;
            let mut joined = text.into_owned();
            for argument in arguments.0 {
                let argument = to_text(argument, meter)?;
                meter.text(argument.len())?;
                joined.push_str(&argument);
            }
            Operand::text(joined)
        }
        Method::EndsWith => {
            let needle = arguments.text(meter)?;
            let end = arguments.position(length, length, meter)?;
            Operand::Bool(text::ends_with(&text, &needle, end))
        }
        Method::StartsWith => {
            let needle = arguments.text(meter)?;
            let start = arguments.position(length, 0, meter)?;
            Operand::Bool(text::starts_with(&text, &needle, start))
        }
        Method::Includes => {
            let needle = arguments.text(meter)?;
            Operand::Bool(text::find(&text, &needle, arguments.position(length, 0, meter)?).is_some())
        }
        Method::IndexOf => {
            let needle = arguments.text(meter)?;
            let found = text::find(&text, &needle, arguments.position(length, 0, meter)?);
            Operand::Number(found.map_or(-1.0, |index| index as f64))
        }
        Method::PadStart => pad_start(text, length, arguments, meter)?,
        Method::Replace => replace(text, arguments, meter)?,
        Method::Slice => {
            let start = arguments.relative(length, 0, meter)?;
            let end = arguments.relative(length, length, meter)?;
            Operand::Text(text::slice(text, start, end))
        }
        Method::Split => split(text, arguments, meter)?,
        Method::ToLowerCase => {
            meter.text(text.len())?;
            Operand::text(text.to_lowercase())
        }
        Method::ToUpperCase => {
            meter.text(text.len())?;
            Operand::text(text.to_uppercase())
        }
        Method::Trim => Operand::Text(match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.trim_matches(is_space)),
            Cow::Owned(text) => Cow::Owned(text.trim_matches(is_space).to_string()),
        }),
        // `receivers` lets no other method reach a string.
        Method::Join | Method::ToFixed => Operand::Undefined,
    })
}

fn list_method<'a>(
    method: Method,
    list: &List<'a>,
    mut arguments: Arguments<'a>,
    meter: &mut Meter,
) -> Result<Operand<'a>, EvalErrorKind> {
    let length = list.len();
    Ok(match method {
        Method::At => arguments.index(length, meter)?.map_or(Operand::Undefined, |index| list.get(index)),
        Method::Concat => {
            meter.items(length)?;
            let mut joined: Vec<_> = list.iter().collect();
            for argument in arguments.0 {
                match argument {
                    Operand::List(items) => {
                        meter.items(items.len())?;
                        joined.extend(items.iter());
                    }
                    other => joined.push(other),
                }
            }
            Operand::list(joined)
        }
        Method::Includes => {
            let wanted = arguments.next();
            let is_nan = |item: &Operand<'_>| matches!(item, Operand::Number(number) if number.is_nan());
            let start = arguments.relative(length, 0, meter)?;
            let mut found = false;
            for item in list.iter().skip(start) {
                meter.scan(size_of::<Operand<'_>>())?;
                if convert::equal(&item, &wanted, meter)? || (is_nan(&item) && is_nan(&wanted)) {
                    found = true;
                    break;
                }
            }
            Operand::Bool(found)
        }
        Method::IndexOf => {
            let wanted = arguments.next();
            let start = arguments.relative(length, 0, meter)?;
            let mut found = -1.0;
            for (index, item) in list.iter().enumerate().skip(start) {
                meter.scan(size_of::<Operand<'_>>())?;
                if convert::equal(&item, &wanted, meter)? {
                    found = index as f64;
                    break;
                }
            }
            Operand::Number(found)
        }
        Method::Join => {
            let separator = match arguments.next() {
                Operand::Undefined => Cow::Borrowed(","),
                separator => to_text(separator, meter)?,
            };
            Operand::text(convert::join(list, &separator, meter)?)
        }
        Method::Slice => {
            let start = arguments.relative(length, 0, meter)?;
            let end = arguments.relative(length, length, meter)?.max(start);
            match list {
                List::Json(items) => Operand::List(List::Json(&items[start..end])),
                List::Built(items) => {
                    meter.items(end - start)?;
                    Operand::list(items[start..end].to_vec())
                }
            }
        }
        // `receivers` lets no other method reach an array.
        Method::EndsWith
        | Method::PadStart
        | Method::Replace
        | Method::Split
        | Method::StartsWith
        | Method::ToFixed
        | Method::ToLowerCase
        | Method::ToUpperCase
        | Method::Trim => Operand::Undefined,
    })
}

fn to_fixed<'a>(
    number: f64,
    mut arguments: Arguments<'a>,
    meter: &mut Meter,
) -> Result<Operand<'a>, EvalErrorKind> {
    let digits = to_integer(arguments.next(), meter)?;
    if !(0.0..=100.0).contains(&digits) {
        return Err(EvalErrorKind::OutOfRange {
            operation: Method::ToFixed.name(),
            expected: "0 to 100 digits",
            found: number::to_text(digits),
        });
    }
    Ok(Operand::text(number::to_fixed(number, digits as usize)))
}

fn pad_start<'a>(
    text: Cow<'a, str>,
    length: usize,
    mut arguments: Arguments<'a>,
    meter: &mut Meter,
) -> Result<Operand<'a>, EvalErrorKind> {
    let wanted = to_integer(arguments.next(), meter)? as usize;
    let fill = match arguments.next() {
        Operand::Undefined => Cow::Borrowed(" "),
        fill => to_text(fill, meter)?,
    };
    meter.scan(fill.len())?;
    if wanted <= length || fill.is_empty() {
        return Ok(Operand::Text(text));
    }
    let missing = wanted - length;
    let fill_length = text::length(&fill);
    let whole_fills = missing / fill_length;
    meter.text(fill.len().saturating_mul(whole_fills.saturating_add(1)).saturating_add(text.len()))?;
    let mut padded = fill.repeat(whole_fills);
    padded.push_str(&text::slice(fill, 0, missing % fill_length));
    padded.push_str(&text);
    Ok(Operand::text(padded))
}

/// Replaces the first occurrence. `$$`, `$&`, `` $` `` and `$'` in the replacement mean what they do in JavaScript.
fn replace<'a>(
    text: Cow<'a, str>,
    mut arguments: Arguments<'a>,
    meter: &mut Meter,
) -> Result<Operand<'a>, EvalErrorKind> {
    let needle = arguments.text(meter)?;
    let replacement = arguments.text(meter)?;
    let Some(start) = text.find(&*needle) else { return Ok(Operand::Text(text)) };
    let (before, after) = (&text[..start], &text[start + needle.len()..]);
    meter.text(before.len() + after.len())?;
    let mut replaced = before.to_string();
    let mut rest = &*replacement;
    while let Some(dollar) = rest.find('$') {
        let (inserted, length) = match rest.as_bytes().get(dollar + 1) {
            Some(b'$') => ("$", 2),
            Some(b'&') => (&*needle, 2),
            Some(b'`') => (before, 2),
            Some(b'\'') => (after, 2),
            _ => ("$", 1),
        };
        meter.text(dollar + inserted.len())?;
        replaced.push_str(&rest[..dollar]);
        replaced.push_str(inserted);
        rest = &rest[dollar + length..];
    }
    meter.text(rest.len())?;
    replaced.push_str(rest);
    replaced.push_str(after);
    Ok(Operand::text(replaced))
}

fn split<'a>(
    text: Cow<'a, str>,
    mut arguments: Arguments<'a>,
    meter: &mut Meter,
) -> Result<Operand<'a>, EvalErrorKind> {
    let separator = arguments.next();
    let limit = match arguments.next() {
        Operand::Undefined => usize::MAX,
        // The standard's `ToUint32`: -1 is the largest.
        limit => (to_integer(limit, meter)? % 4_294_967_296.0) as i64 as u32 as usize,
    };
    let separator = match separator {
        _ if limit == 0 => return Ok(Operand::list(Vec::new())),
        Operand::Undefined => return Ok(Operand::list([Operand::Text(text)].into())),
        separator => to_text(separator, meter)?,
    };
    meter.scan(separator.len())?;
    let mut parts = Vec::new();
    let mut push = |part: Cow<'a, str>| {
        meter.items(1)?;
        if matches!(part, Cow::Owned(_)) {
            meter.text(part.len())?;
        }
        parts.push(Operand::Text(part));
        Ok(())
    };
    match text {
        text if separator.is_empty() => {
            let mut units = [0; 2];
            let halves = text.chars().flat_map(|character| {
                let count = character.encode_utf16(&mut units).len();
                let shown = if count == 1 { character } else { char::REPLACEMENT_CHARACTER };
                core::iter::repeat_n(shown, count)
            });
            halves.take(limit).try_for_each(|unit| push(Cow::Owned(unit.to_string())))?;
        }
        Cow::Borrowed(text) => {
            text.split(&*separator).take(limit).try_for_each(|part| push(Cow::Borrowed(part)))?;
        }
        Cow::Owned(text) => {
            text.split(&*separator).take(limit).try_for_each(|part| push(Cow::Owned(part.to_string())))?;
        }
    }
    Ok(Operand::list(parts))
}
