//! Strings and numbers as they are written in a source.

use crate::error::ParseError;
use crate::lexer::TokenKind;
use crate::number::{self, MAX_EXACT};
use alloc::format;
use alloc::string::String;

/// Tells what JavaScript counts as white space or a line end.
///
/// Not quite the Unicode property: the byte order mark counts, U+0085 does not.
pub(crate) fn is_space(character: char) -> bool {
    character == '\u{feff}' || (character.is_whitespace() && character != '\u{85}')
}

/// Reads a number; returns it with its length in bytes.
pub(crate) fn number(source: &str, position: usize) -> Result<(TokenKind, usize), ParseError> {
    let text = &source[position..];
    let length = number::decimal_length(text);
    let digits = &text[..length];
    if digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit() {
        let span = position..position + length;
        return Err(ParseError::new(source, span, format!("unexpected `{digits}`"))
            .with_help("a number does not start with a zero"));
    }
    let kind = match digits.parse::<i128>() {
        Ok(integer) if integer > MAX_EXACT && integer <= i128::from(u64::MAX) => TokenKind::Integer(integer),
        _ => TokenKind::Number(number::parse_decimal(digits)),
    };
    Ok((kind, length))
}

/// Reads a quoted string; returns its text with its length in bytes, quotes included.
pub(crate) fn string(source: &str, position: usize, quote: char) -> Result<(String, usize), ParseError> {
    let mut text = String::new();
    let mut rest = source[position..].char_indices();
    rest.next();
    while let Some((offset, character)) = rest.next() {
        match character {
            '\\' => {
                let (decoded, length) = escape(source, position + offset)?;
                text.push(decoded);
                // The backslash itself is consumed already.
                let end = offset + length;
                while rest.offset() < end {
                    rest.next();
                }
            }
            '\n' | '\r' => break,
            _ if character == quote => return Ok((text, offset + 1)),
            _ => text.push(character),
        }
    }
    Err(ParseError::new(source, position..source.len(), "this string does not end")
        .with_help(format!("expected a closing {quote}")))
}

/// Decodes the escape at `position`; returns it with its length in bytes.
fn escape(source: &str, position: usize) -> Result<(char, usize), ParseError> {
    let rest = &source[position + 1..];
    let invalid = |length: usize| {
        let mut end = (position + 1 + length).min(source.len());
        while !source.is_char_boundary(end) {
            end += 1;
        }
        ParseError::new(source, position..end, "this escape is not a character")
            .with_help(r"expected for instance `\n`, `\'`, `\x41`, `\u00e9` or `\u{1f600}`")
    };
    let Some(character) = rest.chars().next() else { return Err(invalid(0)) };
    let simple = match character {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '0' if !rest[1..].starts_with(|next: char| next.is_ascii_digit()) => '\0',
        'x' => {
            let code = hexadecimal(&rest[1..], 2).and_then(char::from_u32);
            return code.map(|code| (code, 4)).ok_or_else(|| invalid(3));
        }
        'u' => return unicode_escape(rest).ok_or_else(|| invalid(5)),
        '\n' | '\r' | '\u{2028}' | '\u{2029}' | '0'..='9' => return Err(invalid(character.len_utf8())),
        other => other,
    };
    Ok((simple, 1 + character.len_utf8()))
}

/// Decodes `u0041`, `u{1f600}` or a surrogate pair `ud83d\ude00`; returns it with its length, backslash included.
fn unicode_escape(rest: &str) -> Option<(char, usize)> {
    if let Some(braced) = rest.strip_prefix("u{") {
        let digits = &braced[..braced.find('}')?];
        let code = hexadecimal(digits, digits.len())?;
        return Some((char::from_u32(code)?, digits.len() + 4));
    }
    let first = hexadecimal(rest.get(1..)?, 4)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    let second = hexadecimal(rest.get(5..)?.strip_prefix("\\u")?, 4)?;
    if !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    Some((char::from_u32(code)?, 12))
}

/// Reads `count` hexadecimal digits from the start of a text.
fn hexadecimal(text: &str, count: usize) -> Option<u32> {
    let digits = text.get(..count).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, 16).ok()
}
