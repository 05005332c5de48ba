//! Text with `{{expression}}` inside.

use crate::error::{EvalError, ParseError};
use crate::expression::Expression;
use crate::meter::Meter;
use crate::reference::Reference;
use crate::scope::Scope;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A parsed template, for instance `Hello {{user.name}}!`.
///
/// `\{{` stands for a literal `{{`; a backslash anywhere else is a backslash. Two templates are equal if their
/// sources are. Clones share the parsed parts. It is serialized as its source.
#[derive(Clone)]
pub struct Template(Arc<Inner>);

struct Inner {
    source: String,
    parts: Vec<Piece>,
}

/// A part of a template, in the order of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplatePart<'t> {
    /// Text that stands as it is; `\{{` is a `{{` here.
    Text(&'t str),
    /// What stands between `{{` and `}}`.
    Expression(&'t Expression),
}

enum Piece {
    Text(String),
    /// An expression, with where it starts in the source of the template, in bytes.
    Expression(Expression, usize),
}

impl Template {
    /// Parses a source.
    ///
    /// # Errors
    /// Fails if a `{{` is not closed, or if what it holds is not an expression.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        Ok(Self(Arc::new(Inner { source: source.to_owned(), parts: parse_parts(source)? })))
    }

    /// Returns the source as it was written.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Renders to JSON: the value itself where the whole source is one `{{expression}}`, else a string.
    ///
    /// # Errors
    /// Fails if one of the expressions does, or at [`MAX_RENDER_STEPS`](crate::MAX_RENDER_STEPS).
    pub fn render(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        self.value(scope, &mut Meter::for_rendering())
    }

    /// As [`render`](Self::render), within a budget.
    pub(crate) fn value(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<Value, EvalError> {
        match self.0.parts.as_slice() {
            [Piece::Expression(expression, offset)] => meter
                .lend(|meter| expression.value(scope, meter))
                .map_err(|error| error.moved(self.source(), *offset)),
            _ => self.text(scope, meter).map(Value::String),
        }
    }

    /// Renders to text.
    ///
    /// Strings stand as they are, `null` and what is missing as nothing, numbers as JavaScript prints them,
    /// arrays and objects as compact JSON with sorted keys.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_text(&self, scope: &dyn Scope) -> Result<String, EvalError> {
        self.text(scope, &mut Meter::for_rendering())
    }

    fn text(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<String, EvalError> {
        let mut text = String::new();
        for part in &self.0.parts {
            match part {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Expression(expression, offset) => meter
                    .lend(|meter| expression.append_text(scope, &mut text, meter))
                    .map_err(|error| error.moved(self.source(), *offset))?,
            }
        }
        Ok(text)
    }

    /// Returns the parts, for those who treat what is inserted differently from what is written.
    pub fn parts(&self) -> impl Iterator<Item = TemplatePart<'_>> {
        self.0.parts.iter().map(|part| match part {
            Piece::Text(text) => TemplatePart::Text(text),
            Piece::Expression(expression, _) => TemplatePart::Expression(expression),
        })
    }

    /// Returns every path that the source reads, in its order; spans are those in the source of the template.
    pub fn paths(&self) -> Vec<Reference> {
        let mut paths = Vec::new();
        for part in &self.0.parts {
            let Piece::Expression(expression, offset) = part else { continue };
            paths.extend(expression.references().iter().cloned().map(|mut reference| {
                reference.span = reference.span.start + offset..reference.span.end + offset;
                reference
            }));
        }
        paths
    }
}

fn parse_parts(source: &str) -> Result<Vec<Piece>, ParseError> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut position = 0;
    while let Some(offset) = source[position..].find("{{") {
        let open = position + offset;
        if let Some(before) = source[position..open].strip_suffix('\\') {
            text.push_str(before);
            text.push_str("{{");
            position = open + 2;
            continue;
        }
        text.push_str(&source[position..open]);
        if !text.is_empty() {
            parts.push(Piece::Text(core::mem::take(&mut text)));
        }
        let start = open + 2;
        let end = expression_end(source, open)?;
        let expression =
            Expression::parse(&source[start..end]).map_err(|error| error.moved(source, start))?;
        parts.push(Piece::Expression(expression, start));
        position = end + 2;
    }
    text.push_str(&source[position..]);
    if !text.is_empty() {
        parts.push(Piece::Text(text));
    }
    Ok(parts)
}

/// Finds the `}}` that closes the `{{` at `open`: the first one outside strings and objects.
fn expression_end(source: &str, open: usize) -> Result<usize, ParseError> {
    let start = open + 2;
    let mut depth = 0_usize;
    let mut quote = None;
    let mut is_escaped = false;
    for (offset, byte) in source.as_bytes()[start..].iter().enumerate() {
        match (quote, *byte) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), b'\\') => is_escaped = true,
            // A string does not reach past its line; the parser says so.
            (Some((open_quote, _)), byte) if byte == open_quote || byte == b'\n' => quote = None,
            (Some(_), _) => {}
            (None, byte @ (b'\'' | b'"')) => quote = Some((byte, start + offset)),
            (None, b'{') => depth += 1,
            (None, b'}') if depth > 0 => depth -= 1,
            (None, b'}') if source[start + offset..].starts_with("}}") => return Ok(start + offset),
            _ => {}
        }
    }
    if let Some((_, quoted)) = quote {
        return Err(ParseError::new(source, quoted..source.len(), "this string does not end")
            .with_help("expected a closing quote and then `}}`"));
    }
    Err(ParseError::new(source, open..source.len(), "this `{{` is not closed")
        .with_help(r"expected `}}` after the expression; a literal `{{` is written `\{{`"))
}

impl FromStr for Template {
    type Err = ParseError;

    fn from_str(source: &str) -> Result<Self, ParseError> {
        Self::parse(source)
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Template {}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.source()).finish()
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source())
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.source())
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = String::deserialize(deserializer)?;
        Self::parse(&source).map_err(serde::de::Error::custom)
    }
}
