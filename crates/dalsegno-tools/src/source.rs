//! Templates, expressions and values of a document, parsed once, with what they read.

use alloc::string::String;
use alloc::vec::Vec;

use dalsegno_expr::{EvalError, Expression, Reference, Template, ValueTemplate};
use serde_json::{Map, Value};

use crate::json::measure;
use crate::limits::MAX_VALUE_BYTES;
use crate::outcome::ToolError;
use crate::path::Path;
use crate::scope::Names;
use crate::text::{Encoding, Text};

/// Which members of `context` a source reads, so that only those are put together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ContextReads {
    pub(crate) members: Vec<String>,
    /// Whether it reads `context` as a whole, or a member that it computes.
    pub(crate) all: bool,
}

impl ContextReads {
    pub(crate) fn of(references: &[Reference]) -> Self {
        let mut reads = Self::default();
        for reference in references.iter().filter(|reference| reference.root == "context") {
            match reference.segments.first() {
                Some(member) => reads.members.push(member.clone()),
                None => reads.all = true,
            }
        }
        reads
    }
}

/// An expression of a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expr {
    pub(crate) expression: Expression,
    pub(crate) context: ContextReads,
}

/// A template of a document, without secrets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Words {
    pub(crate) template: Template,
    pub(crate) context: ContextReads,
    /// The paths that are inserted as they are; one that leads nowhere is worth a warning.
    pub(crate) bare: Vec<Path>,
}

/// A template some of whose parts may be secrets.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Parts(pub(crate) Vec<Piece>);

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Words {
        /// A template of this one expression.
        words: Words,
        /// Whether it reads tenant settings and config alone, and so may say where a request goes.
        trusted: bool,
    },
    Secret(Path),
}

/// A JSON value with templates, some of whose strings may hold secrets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonSource {
    /// `null` stands where a string holds secrets.
    pub(crate) template: ValueTemplate,
    pub(crate) context: ContextReads,
    pub(crate) bare: Vec<Path>,
    /// The strings that hold secrets, by JSON pointer.
    pub(crate) secrets: Vec<(String, Parts)>,
}

/// A value of `context.set`: strings are expressions, or templates where they hold `{{`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ValueSource {
    Literal(Value),
    Expr(Expr),
    Words(Words),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Expr {
    pub(crate) fn evaluate(&self, names: &Names<'_>) -> Result<Value, EvalError> {
        self.expression.evaluate(&names.reading(&self.context))
    }

    pub(crate) fn is_true(&self, names: &Names<'_>) -> Result<bool, EvalError> {
        self.expression.is_true(&names.reading(&self.context))
    }
}

impl Words {
    /// Renders to text, and notes what is missing.
    pub(crate) fn text(&self, names: &Names<'_>, missing: &mut Vec<String>) -> Result<String, EvalError> {
        note_missing(&self.bare, names, missing);
        self.template.render_text(&names.reading(&self.context))
    }

    /// Renders to JSON, and notes what is missing.
    pub(crate) fn value(&self, names: &Names<'_>, missing: &mut Vec<String>) -> Result<Value, EvalError> {
        note_missing(&self.bare, names, missing);
        self.template.render(&names.reading(&self.context))
    }
}

impl Parts {
    /// Renders to text in which secrets are references.
    ///
    /// The limit holds after each part: many small templates can repeat one large value.
    pub(crate) fn text(&self, names: &Names<'_>, missing: &mut Vec<String>) -> Result<Text, ToolError> {
        let mut text = Text::default();
        for part in &self.0 {
            if text.len() > MAX_VALUE_BYTES {
                return Err(too_large());
            }
            match part {
                Piece::Text(literal) => text.push_literal(literal),
                Piece::Words { words, .. } => text.push_literal(&words.text(names, missing)?),
                Piece::Secret(path) => text.push_secret(path.clone(), Encoding::Plain),
            }
        }
        Ok(text)
    }

    /// Returns the one expression that the whole is, if it is one.
    pub(crate) fn as_whole(&self) -> Option<&Words> {
        match self.0.as_slice() {
            [Piece::Words { words, .. }] => Some(words),
            _ => None,
        }
    }

    pub(crate) fn secrets(&self) -> usize {
        self.0.iter().filter(|part| matches!(part, Piece::Secret(_))).count()
    }
}

impl JsonSource {
    pub(crate) fn value(&self, names: &Names<'_>, missing: &mut Vec<String>) -> Result<Value, EvalError> {
        note_missing(&self.bare, names, missing);
        self.template.render(&names.reading(&self.context))
    }
}

impl ValueSource {
    pub(crate) fn value(&self, names: &Names<'_>, missing: &mut Vec<String>) -> Result<Value, ToolError> {
        let mut left = MAX_VALUE_BYTES;
        self.build(names, missing, &mut left)
    }

    /// Evaluates part by part, and stops where they are too large together.
    fn build(
        &self,
        names: &Names<'_>,
        missing: &mut Vec<String>,
        left: &mut usize,
    ) -> Result<Value, ToolError> {
        let value = match self {
            Self::Literal(value) => value.clone(),
            Self::Expr(expr) => expr.evaluate(names)?,
            Self::Words(words) => words.value(names, missing)?,
            Self::Array(items) => {
                let items = items.iter().map(|item| item.build(names, missing, left));
                return Ok(Value::Array(items.collect::<Result<_, _>>()?));
            }
            Self::Object(fields) => {
                let mut map = Map::new();
                for (name, field) in fields {
                    map.insert(name.clone(), field.build(names, missing, left)?);
                }
                return Ok(Value::Object(map));
            }
        };
        let size = measure(&value, *left, dalsegno_expr::MAX_VALUE_DEPTH).ok_or_else(too_large)?;
        *left -= size;
        Ok(value)
    }
}

fn too_large() -> ToolError {
    ToolError::limit(alloc::format!("a value has more than {MAX_VALUE_BYTES} bytes"))
}

fn note_missing(bare: &[Path], names: &Names<'_>, missing: &mut Vec<String>) {
    const MOST: usize = 20;
    for path in bare {
        if missing.len() < MOST && names.find(path).is_none() {
            let warning = alloc::format!("`{path}` is missing");
            if !missing.contains(&warning) {
                missing.push(warning);
            }
        }
    }
}
