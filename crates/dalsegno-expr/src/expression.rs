//! The parsed expression.

use crate::ast::{Expr, Link, LinkKind};
use crate::error::{EvalError, ParseError};
use crate::evaluate::Evaluation;
use crate::meter::Meter;
use crate::parser::{self, Parsed};
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

/// A parsed expression, for instance `steps.score.value > 0.7`.
///
/// Two expressions are equal if their sources are. Clones share the parsed tree. It is serialized as its source.
#[derive(Clone)]
pub struct Expression(Arc<Inner>);

struct Inner {
    source: String,
    parsed: Parsed,
}

impl Expression {
    /// Parses a source.
    ///
    /// # Errors
    /// Fails if the source is not an expression of the subset, or is longer or deeper than the limits allow.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        Ok(Self(Arc::new(Inner { source: source.to_owned(), parsed: parser::parse(source)? })))
    }

    /// Returns the source as it was written.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Evaluates to a JSON value; `undefined`, `NaN` and the infinities become `null`.
    ///
    /// # Errors
    /// Fails if JavaScript would throw, if the answer would be inexact, or at a limit; see [`EvalError`].
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        self.value(scope, &mut Meter::for_expression())
    }

    /// Evaluates to a JSON value and takes what it costs from a budget that it shares with others.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate), and if the budget is used up.
    pub fn evaluate_within(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<Value, EvalError> {
        meter.lend(|meter| self.value(scope, meter))
    }

    /// Evaluates to JavaScript's idea of truth: all but `false`, `null`, `undefined`, `0`, `NaN` and `""` is true.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate).
    pub fn is_true(&self, scope: &dyn Scope) -> Result<bool, EvalError> {
        self.evaluation(scope).truth(&self.0.parsed.expr, &mut Meter::for_expression())
    }

    /// Returns every path that the source reads, in its order.
    pub fn paths(&self) -> Vec<Reference> {
        self.references().to_vec()
    }

    /// Returns the name of which the value is a part, if the source is a path and nothing else: `config` for
    /// `config.targets[params.id]`. What stands in brackets chooses a part, and supplies none.
    pub fn part_of(&self) -> Option<&str> {
        let parsed = &self.0.parsed;
        let root = match &parsed.expr {
            Expr::Root(root) => *root,
            Expr::Chain(chain) => {
                let is_part = |link: &Link| matches!(link.kind, LinkKind::Member(_) | LinkKind::Index(_));
                match &*chain.base {
                    Expr::Root(root) if chain.links.iter().all(is_part) => *root,
                    _ => return None,
                }
            }
            _ => return None,
        };
        parsed.roots.get(root).map(String::as_str)
    }

    pub(crate) fn references(&self) -> &[Reference] {
        &self.0.parsed.references
    }

    /// As [`evaluate`](Self::evaluate), within a budget.
    pub(crate) fn value(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<Value, EvalError> {
        self.evaluation(scope).value(&self.0.parsed.expr, meter)
    }

    /// Appends the value as a template shows it: strings as they are, `null` as nothing, the rest as JSON.
    pub(crate) fn append_text(
        &self,
        scope: &dyn Scope,
        text: &mut String,
        meter: &mut Meter,
    ) -> Result<(), EvalError> {
        self.evaluation(scope).append_text(&self.0.parsed.expr, text, meter)
    }

    fn evaluation<'s>(&'s self, scope: &'s dyn Scope) -> Evaluation<'s> {
        Evaluation { source: &self.0.source, names: &self.0.parsed.roots, scope }
    }
}

impl FromStr for Expression {
    type Err = ParseError;

    fn from_str(source: &str) -> Result<Self, ParseError> {
        Self::parse(source)
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Expression {}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.source()).finish()
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source())
    }
}

impl Serialize for Expression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.source())
    }
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = String::deserialize(deserializer)?;
        Self::parse(&source).map_err(serde::de::Error::custom)
    }
}
