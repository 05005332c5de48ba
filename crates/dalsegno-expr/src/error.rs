//! What can go wrong when a source is parsed or evaluated.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::ops::Range;

/// Says why a source is not an expression or a template, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseError {
    /// What is wrong, for instance ``unexpected `)` ``.
    pub message: String,
    /// The offending bytes of the source.
    pub span: Range<usize>,
    /// The line where the span starts, counted from 1.
    pub line: usize,
    /// The column where the span starts, in characters, counted from 1.
    pub column: usize,
    /// What was expected, or what to write instead.
    pub help: Option<String>,
}

impl ParseError {
    pub(crate) fn new(source: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        let (line, column) = locate(source, span.start);
        Self { message: message.into(), span, line, column, help: None }
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Moves an error in a part of `source`, which starts at `offset`, to its place in the whole.
    pub(crate) fn moved(mut self, source: &str, offset: usize) -> Self {
        self.span = self.span.start + offset..self.span.end + offset;
        (self.line, self.column) = locate(source, self.span.start);
        self
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at ", self.message)?;
        if self.line > 1 {
            write!(f, "line {}, ", self.line)?;
        }
        write!(f, "column {}", self.column)?;
        match &self.help {
            Some(help) => write!(f, ": {help}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for ParseError {}

/// Says which string of a JSON value is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {error}", at(.pointer))]
#[non_exhaustive]
pub struct ValueTemplateError {
    /// The JSON pointer (RFC 6901) of the string; empty for the value itself.
    pub pointer: String,
    /// What is wrong with it.
    #[source]
    pub error: ParseError,
}

/// Says why an expression has no value, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EvalError {
    /// What is wrong.
    pub kind: EvalErrorKind,
    /// The bytes of the source that failed: an operator, a function with its arguments, a member; the whole where what
    /// the source gives is too large.
    pub span: Range<usize>,
    /// The line where the span starts, counted from 1.
    pub line: usize,
    /// The column where the span starts, in characters, counted from 1.
    pub column: usize,
}

impl EvalError {
    pub(crate) fn new(source: &str, span: Range<usize>, kind: EvalErrorKind) -> Self {
        let (line, column) = locate(source, span.start);
        Self { kind, span, line, column }
    }

    /// Moves an error in a part of `source`, which starts at `offset`, to its place in the whole.
    pub(crate) fn moved(mut self, source: &str, offset: usize) -> Self {
        self.span = self.span.start + offset..self.span.end + offset;
        (self.line, self.column) = locate(source, self.span.start);
        self
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        if self.kind.quotes_source() {
            return Ok(());
        }
        f.write_str(" (at ")?;
        if self.line > 1 {
            write!(f, "line {}, ", self.line)?;
        }
        write!(f, "column {})", self.column)
    }
}

impl core::error::Error for EvalError {}

/// What can be wrong with an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalErrorKind {
    /// A method was called on, or an operator applied to, a value of a type that does not have it.
    #[error("`{operation}` needs {expected}, but {subject} is {found}")]
    Type {
        /// The method, function or operator.
        operation: &'static str,
        /// What it works on.
        expected: &'static str,
        /// The source text of the value in backticks, or its place such as `its argument`.
        subject: String,
        /// The type that the value has.
        found: &'static str,
    },
    /// Two arrays or two objects were compared; JavaScript compares identity, which plain data does not have.
    #[error("two {kind}s cannot be compared: compare their members, or their text with `String(…)`")]
    Identity {
        /// `array` or `object`.
        kind: &'static str,
    },
    /// An integer outside ±2^53 would be rounded.
    #[error("`{value}` is outside ±2^53 and would be rounded: pass it on as it is, or as a string")]
    InexactInteger {
        /// The integer.
        value: i128,
    },
    /// An argument is outside what a member takes.
    #[error("`{operation}` takes {expected}, found {found}")]
    OutOfRange {
        /// The member.
        operation: &'static str,
        /// What it takes.
        expected: &'static str,
        /// The argument, as JavaScript prints it.
        found: String,
    },
    /// A computed name is one of the names that are never read.
    #[error("the name `{name}` is not readable")]
    ForbiddenName {
        /// `__proto__`, `constructor` or `prototype`.
        name: String,
    },
    /// The evaluation is too long, or what it builds is too large.
    #[error("the evaluation took more than {limit} steps: do less in one expression, or work on less data")]
    TooManySteps {
        /// The limit: [`MAX_STEPS`](crate::MAX_STEPS), or [`MAX_RENDER_STEPS`](crate::MAX_RENDER_STEPS) where the
        /// expressions of a template together reach it.
        limit: u32,
    },
    /// A value is nested too deeply to be turned into text, or to be read back as JSON.
    #[error("the value is nested more than {limit} deep")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
}

impl EvalErrorKind {
    /// Tells whether the message holds the text that it is about, and so needs no position.
    fn quotes_source(&self) -> bool {
        matches!(self, Self::Type { subject, .. } if subject.starts_with('`'))
    }
}

fn locate(source: &str, offset: usize) -> (usize, usize) {
    let before = source.get(..offset).unwrap_or(source);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let lines = before.bytes().filter(|byte| *byte == b'\n').count();
    (lines + 1, before[line_start..].chars().count() + 1)
}

fn at(pointer: &str) -> String {
    if pointer.is_empty() { "in the value".to_owned() } else { format!("at `{pointer}`") }
}
