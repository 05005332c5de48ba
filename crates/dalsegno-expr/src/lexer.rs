//! Source text to tokens.

use crate::error::ParseError;
use crate::literal;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    Number(f64),
    /// An integer outside ±2^53 that fits 64 bits.
    Integer(i128),
    Text(String),
    Name(String),
    Symbol(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Range<usize>,
}

/// Longer symbols come before their prefixes.
const SYMBOLS: &[&str] = &[
    "===", "!==", "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "(", ")", "[", "]", "{", "}", ",", ":",
    "?", ".", "!", "<", ">", "+", "-", "*", "/", "%",
];

/// JavaScript that is deliberately absent, with what to write instead. Tried before [`SYMBOLS`].
const ABSENT: &[(&str, &str)] = &[
    ("=>", "there are no functions"),
    ("...", "there is no spread, use `concat`"),
    ("**", "there is no power operator"),
    ("++", "values cannot be changed, use `+ 1`"),
    ("--", "values cannot be changed, use `- 1`"),
    ("<<", "there are no bitwise operators"),
    (">>", "there are no bitwise operators"),
    ("&", "there are no bitwise operators, use `&&` for and"),
    ("|", "there are no bitwise operators, use `||` for or"),
    ("^", "there are no bitwise operators"),
    ("~", "there are no bitwise operators"),
    ("`", "write strings with ' or \" and join them with `+`"),
    (";", "an expression is a single value"),
    ("=", "use `===` to compare; values cannot be changed"),
];

pub(crate) fn tokenize(source: &str) -> Result<Vec<Token>, ParseError> {
    let mut tokens = Vec::new();
    let mut position = 0;
    while let Some(character) = source[position..].chars().next() {
        if literal::is_space(character) {
            position += character.len_utf8();
            continue;
        }
        let (kind, length) = token(source, position, character)?;
        tokens.push(Token { kind, span: position..position + length });
        position += length;
    }
    tokens.push(Token { kind: TokenKind::End, span: source.len()..source.len() });
    Ok(tokens)
}

fn token(source: &str, position: usize, character: char) -> Result<(TokenKind, usize), ParseError> {
    let rest = &source[position..];
    let second_is_digit = rest[character.len_utf8()..].starts_with(|next: char| next.is_ascii_digit());
    if character.is_ascii_digit() || (character == '.' && second_is_digit) {
        return number(source, position);
    }
    if character == '\'' || character == '"' {
        let (text, length) = literal::string(source, position, character)?;
        return Ok((TokenKind::Text(text), length));
    }
    if is_name_start(character) {
        let length = rest.find(|next| !is_name_part(next)).unwrap_or(rest.len());
        return Ok((TokenKind::Name(rest[..length].to_owned()), length));
    }
    symbol(source, position, character)
}

fn symbol(source: &str, position: usize, character: char) -> Result<(TokenKind, usize), ParseError> {
    let rest = &source[position..];
    // `a ?.5 : 1` is a conditional with the number .5, as in JavaScript.
    let is_conditional = rest.starts_with("?.") && rest[2..].starts_with(|next: char| next.is_ascii_digit());
    let known =
        SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol) && !(is_conditional && **symbol == "?."));
    let absent = ABSENT.iter().find(|(symbol, _)| rest.starts_with(symbol));
    match (known, absent) {
        (known, Some((symbol, help))) if known.is_none_or(|known| known.len() < symbol.len()) => {
            let span = position..position + symbol.len();
            Err(ParseError::new(source, span, format!("unexpected {}", quoted(symbol))).with_help(*help))
        }
        (Some(symbol), _) => Ok((TokenKind::Symbol(symbol), symbol.len())),
        (None, _) => {
            let span = position..position + character.len_utf8();
            Err(ParseError::new(
                source,
                span,
                format!("unexpected {}", quoted(&source[span_of(position, character)])),
            ))
        }
    }
}

fn number(source: &str, position: usize) -> Result<(TokenKind, usize), ParseError> {
    let (kind, length) = literal::number(source, position)?;
    if let Some(next) = source[position + length..].chars().next().filter(|next| is_name_part(*next)) {
        let span = position..position + length + next.len_utf8();
        return Err(ParseError::new(source, span.clone(), format!("unexpected {}", quoted(&source[span])))
            .with_help("expected a decimal number such as `12`, `0.5` or `1e3`"));
    }
    Ok((kind, length))
}

fn span_of(position: usize, character: char) -> Range<usize> {
    position..position + character.len_utf8()
}

/// Quotes source text for a message, which stays on one line.
pub(crate) fn quoted(text: &str) -> String {
    if text == "`" {
        return "a backtick".to_owned();
    }
    let mut quoted = String::from("`");
    for character in text.chars() {
        if character.is_control() { quoted.extend(character.escape_debug()) } else { quoted.push(character) }
    }
    quoted.push('`');
    quoted
}

fn is_name_start(character: char) -> bool {
    character == '_' || character == '$' || character.is_alphabetic()
}

fn is_name_part(character: char) -> bool {
    is_name_start(character)
        || character.is_ascii_digit()
        || (!character.is_ascii() && character.is_numeric())
}
