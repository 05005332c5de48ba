//! The evaluation of a tree.

use crate::ast::{BinaryOp, Chain, Expr, LinkKind, Literal, LogicalOp, Place, UnaryOp};
use crate::convert::{self, to_number, to_primitive, to_text};
use crate::error::{EvalError, EvalErrorKind};
use crate::functions;
use crate::json;
use crate::lexer::quoted;
use crate::meter::Meter;
use crate::methods;
use crate::number;
use crate::operand::{List, Operand, Record};
use crate::reference::is_forbidden;
use crate::scope::Scope;
use crate::text;
use alloc::borrow::{Cow, ToOwned};
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::OnceCell;
use core::cmp::Ordering;
use serde_json::Value;

/// What one evaluation needs besides the tree.
pub(crate) struct Evaluation<'s> {
    pub(crate) source: &'s str,
    /// The names behind `Expr::Root`.
    pub(crate) names: &'s [String],
    pub(crate) scope: &'s dyn Scope,
}

impl<'s> Evaluation<'s> {
    pub(crate) fn value(&self, expr: &Expr, meter: &mut Meter) -> Result<Value, EvalError> {
        self.run(expr, meter, |operand, meter| operand.into_json(meter))
    }

    pub(crate) fn truth(&self, expr: &Expr, meter: &mut Meter) -> Result<bool, EvalError> {
        self.run(expr, meter, |operand, _| Ok(operand.is_truthy()))
    }

    pub(crate) fn append_text(
        &self,
        expr: &Expr,
        text: &mut String,
        meter: &mut Meter,
    ) -> Result<(), EvalError> {
        self.run(expr, meter, |operand, meter| {
            match operand {
                Operand::Undefined | Operand::Null => {}
                Operand::Number(number) if !number.is_finite() => {}
                Operand::List(List::Json(items)) => {
                    items.iter().try_for_each(|item| json::measure(item, meter, 1))?;
                    json::append_items(items, text, 0)?;
                }
                Operand::Record(Record::Json(fields)) => {
                    json::measure_fields(fields, meter, 0)?;
                    json::append_fields(fields, text, 0)?;
                }
                Operand::List(List::Built(_)) | Operand::Record(Record::Built(_)) => {
                    json::append(&operand.into_json(meter)?, text, 0)?;
                }
                Operand::Text(_) | Operand::Bool(_) | Operand::Number(_) | Operand::Integer(_) => {
                    let value = to_text(operand, meter)?;
                    meter.text(value.len())?;
                    text.push_str(&value);
                }
            }
            Ok(())
        })
    }

    fn run<T>(
        &self,
        expr: &Expr,
        meter: &mut Meter,
        finish: impl FnOnce(Operand<'_>, &mut Meter) -> Result<T, EvalErrorKind>,
    ) -> Result<T, EvalError> {
        // Nearly every expression reads few roots, and then needs no allocation for them.
        let few = [const { OnceCell::new() }; FEW_ROOTS];
        let many: Vec<OnceCell<_>>;
        let roots = if self.names.len() <= FEW_ROOTS {
            &few[..]
        } else {
            many = self.names.iter().map(|_| OnceCell::new()).collect();
            &many[..]
        };
        let mut evaluator = Evaluator { evaluation: self, roots, meter, failed_at: None };
        let finished = match evaluator.eval(expr) {
            Ok(operand) => finish(operand, evaluator.meter),
            Err(error) => Err(error),
        };
        finished.map_err(|kind| {
            let place = evaluator.failed_at.unwrap_or(0..self.source.len());
            EvalError::new(self.source, place, kind)
        })
    }
}

const FEW_ROOTS: usize = 3;

struct Evaluator<'a, 's, 'm> {
    evaluation: &'a Evaluation<'s>,
    /// What the scope answered, kept here so that operands can borrow from it.
    roots: &'a [OnceCell<Option<Cow<'s, Value>>>],
    meter: &'m mut Meter,
    /// Where the innermost operation that failed stands.
    failed_at: Option<Place>,
}

impl<'a> Evaluator<'a, '_, '_> {
    fn eval(&mut self, expr: &'a Expr) -> Result<Operand<'a>, EvalErrorKind> {
        self.meter.step()?;
        match expr {
            Expr::Literal(literal) => Ok(literal_operand(literal)),
            Expr::Root(index) => Ok(self.root(*index)),
            Expr::Array(items) => {
                self.meter.items(items.len())?;
                Ok(Operand::list(self.all(items)?))
            }
            Expr::Object(fields) => {
                self.meter.items(fields.len())?;
                let fields = fields.iter().map(|(name, value)| Ok((name.as_str(), self.eval(value)?)));
                Ok(Operand::Record(Record::Built(Rc::new(fields.collect::<Result<_, _>>()?))))
            }
            Expr::Unary(op, operand, place) => {
                let operand = self.eval(operand)?;
                if let UnaryOp::Not = op {
                    return Ok(Operand::Bool(!operand.is_truthy()));
                }
                let number = to_number(operand, self.meter);
                let number = self.at(place, number)?;
                Ok(Operand::Number(if let UnaryOp::Minus = op { -number } else { number }))
            }
            Expr::Binary(first, rest) => {
                let mut left = self.eval(first)?;
                for (op, place, right) in rest {
                    let right = self.eval(right)?;
                    let combined = self.binary(*op, left, right);
                    left = self.at(place, combined)?;
                }
                Ok(left)
            }
            Expr::Logical(op, operands) => self.logical(*op, operands),
            Expr::Conditional(branches, otherwise) => {
                for (condition, value) in branches {
                    if self.eval(condition)?.is_truthy() {
                        return self.eval(value);
                    }
                }
                self.eval(otherwise)
            }
            Expr::Chain(chain) => self.chain(chain),
            Expr::Call(function, arguments, place) => {
                let arguments = self.all(arguments)?;
                let answer = functions::call(*function, arguments, self.meter);
                self.at(place, answer)
            }
        }
    }

    /// Notes where an operation stands, if it failed and none inside it did.
    fn at<T>(&mut self, place: &Place, outcome: Result<T, EvalErrorKind>) -> Result<T, EvalErrorKind> {
        if outcome.is_err() {
            self.failed_at.get_or_insert_with(|| place.clone());
        }
        outcome
    }

    fn all(&mut self, exprs: &'a [Expr]) -> Result<Vec<Operand<'a>>, EvalErrorKind> {
        exprs.iter().map(|expr| self.eval(expr)).collect()
    }

    fn root(&self, index: usize) -> Operand<'a> {
        let evaluation = self.evaluation;
        let (Some(cell), Some(name)) = (self.roots.get(index), evaluation.names.get(index)) else {
            return Operand::Undefined;
        };
        match cell.get_or_init(|| evaluation.scope.root(name)) {
            Some(value) => Operand::from_json(value),
            None => Operand::Undefined,
        }
    }

    fn logical(&mut self, op: LogicalOp, operands: &'a [Expr]) -> Result<Operand<'a>, EvalErrorKind> {
        let mut last = Operand::Undefined;
        for operand in operands {
            last = self.eval(operand)?;
            let is_decided = match op {
                LogicalOp::And => !last.is_truthy(),
                LogicalOp::Or => last.is_truthy(),
                LogicalOp::Coalesce => !last.is_nullish(),
            };
            if is_decided {
                break;
            }
        }
        Ok(last)
    }

    fn chain(&mut self, chain: &'a Chain) -> Result<Operand<'a>, EvalErrorKind> {
        let mut value = self.eval(&chain.base)?;
        for link in &chain.links {
            self.meter.step()?;
            if link.optional && value.is_nullish() {
                return Ok(Operand::Undefined);
            }
            let next = match &link.kind {
                LinkKind::Member(name) => self.member(value, name),
                LinkKind::Index(index) => {
                    let index = self.eval(index)?;
                    self.element(value, index)
                }
                LinkKind::Method(method, arguments) => {
                    let arguments = self.all(arguments)?;
                    let subject = || {
                        quoted(self.evaluation.source.get(chain.start..link.subject_end).unwrap_or_default())
                    };
                    methods::call(*method, value, arguments, self.meter, &subject)
                }
            };
            value = self.at(&(link.subject_end..link.end), next)?;
        }
        Ok(value)
    }

    fn element(&mut self, value: Operand<'a>, index: Operand<'a>) -> Result<Operand<'a>, EvalErrorKind> {
        if let (Operand::List(list), Operand::Number(number)) = (&value, &index) {
            let is_position = *number >= 0.0 && number::is_integral(*number);
            return Ok(if is_position { list.get(*number as usize) } else { Operand::Undefined });
        }
        let name = to_text(index, self.meter)?;
        if is_forbidden(&name) {
            return Err(EvalErrorKind::ForbiddenName { name: name.into_owned() });
        }
        self.member(value, &name)
    }

    fn member(&mut self, value: Operand<'a>, name: &str) -> Result<Operand<'a>, EvalErrorKind> {
        Ok(match value {
            Operand::Record(record) => record.get(name).unwrap_or(Operand::Undefined),
            Operand::List(list) if name == "length" => Operand::Number(list.len() as f64),
            Operand::List(list) => position(name).map_or(Operand::Undefined, |index| list.get(index)),
            Operand::Text(text) => {
                self.meter.scan(text.len())?;
                if name == "length" {
                    return Ok(Operand::Number(text::length(&text) as f64));
                }
                match position(name) {
                    Some(index) if index < text::length(&text) => {
                        Operand::Text(text::slice(text, index, index + 1))
                    }
                    _ => Operand::Undefined,
                }
            }
            Operand::Undefined
            | Operand::Null
            | Operand::Bool(_)
            | Operand::Number(_)
            | Operand::Integer(_) => Operand::Undefined,
        })
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        left: Operand<'a>,
        right: Operand<'a>,
    ) -> Result<Operand<'a>, EvalErrorKind> {
        let is_ordered = |ordering: Option<Ordering>, accepted: &[Ordering]| {
            Operand::Bool(ordering.is_some_and(|ordering| accepted.contains(&ordering)))
        };
        let meter = &mut *self.meter;
        Ok(match op {
            BinaryOp::Equal => Operand::Bool(convert::equal(&left, &right, meter)?),
            BinaryOp::NotEqual => Operand::Bool(!convert::equal(&left, &right, meter)?),
            BinaryOp::Less => is_ordered(convert::compare(left, right, meter)?, &[Ordering::Less]),
            BinaryOp::LessOrEqual => {
                is_ordered(convert::compare(left, right, meter)?, &[Ordering::Less, Ordering::Equal])
            }
            BinaryOp::Greater => is_ordered(convert::compare(left, right, meter)?, &[Ordering::Greater]),
            BinaryOp::GreaterOrEqual => {
                is_ordered(convert::compare(left, right, meter)?, &[Ordering::Greater, Ordering::Equal])
            }
            BinaryOp::In => Operand::Bool(contains(left, &right, meter)?),
            BinaryOp::Add => add(left, right, meter)?,
            BinaryOp::Subtract => Operand::Number(to_number(left, meter)? - to_number(right, meter)?),
            BinaryOp::Multiply => Operand::Number(to_number(left, meter)? * to_number(right, meter)?),
            BinaryOp::Divide => Operand::Number(to_number(left, meter)? / to_number(right, meter)?),
            BinaryOp::Remainder => Operand::Number(to_number(left, meter)? % to_number(right, meter)?),
        })
    }
}

fn literal_operand(literal: &Literal) -> Operand<'_> {
    match literal {
        Literal::Undefined => Operand::Undefined,
        Literal::Null => Operand::Null,
        Literal::Bool(bool) => Operand::Bool(*bool),
        Literal::Number(number) => Operand::Number(*number),
        Literal::Integer(integer) => Operand::Integer(*integer),
        Literal::Text(text) => Operand::text(text.as_str()),
    }
}

fn add<'a>(left: Operand<'a>, right: Operand<'a>, meter: &mut Meter) -> Result<Operand<'a>, EvalErrorKind> {
    let (left, right) = (to_primitive(left, meter)?, to_primitive(right, meter)?);
    if !matches!(left, Operand::Text(_)) && !matches!(right, Operand::Text(_)) {
        return Ok(Operand::Number(to_number(left, meter)? + to_number(right, meter)?));
    }
    let (left, right) = (to_text(left, meter)?, to_text(right, meter)?);
    meter.text(left.len() + right.len())?;
    let mut sum = left.into_owned();
    sum.push_str(&right);
    Ok(Operand::text(sum))
}

/// `name in container`, for own properties.
fn contains(name: Operand<'_>, container: &Operand<'_>, meter: &mut Meter) -> Result<bool, EvalErrorKind> {
    let name = to_text(name, meter)?;
    if is_forbidden(&name) {
        return Err(EvalErrorKind::ForbiddenName { name: name.into_owned() });
    }
    match container {
        Operand::Record(record) => Ok(record.get(&name).is_some()),
        Operand::List(list) => {
            Ok(name == "length" || position(&name).is_some_and(|index| index < list.len()))
        }
        other => Err(EvalErrorKind::Type {
            operation: "in",
            expected: "an object or an array",
            subject: "its right side".to_owned(),
            found: other.kind(),
        }),
    }
}

/// Reads a name that is an index, as `0` and `12` are, and `01` is not.
fn position(name: &str) -> Option<usize> {
    let is_canonical =
        name == "0" || (!name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit()));
    if is_canonical { name.parse().ok() } else { None }
}
