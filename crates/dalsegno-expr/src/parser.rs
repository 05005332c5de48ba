//! Tokens to a tree, by recursive descent with bounded nesting.

use crate::ast::{BinaryOp, Chain, Expr, Link, LinkKind, Literal, LogicalOp, UnaryOp};
use crate::error::ParseError;
use crate::grammar::{BINARY_LEVELS, RESERVED, named_literal, negated};
use crate::lexer::{self, Token, TokenKind, quoted};
use crate::members::{self, Function, Method};
use crate::number;
use crate::reference::{Reference, is_forbidden};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// How many characters an expression may have. What needs more is a tool or an agent step, not a condition.
pub const MAX_SOURCE_CHARS: usize = 1_000;

/// How deep parentheses, brackets, arguments and unary operators may nest.
///
/// Parsing and evaluating use a few stack frames for each level, so this keeps them within the smallest stacks.
pub const MAX_DEPTH: usize = 32;

/// What a source says.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) expr: Expr,
    /// The roots that it reads, each once.
    pub(crate) roots: Vec<String>,
    /// The paths that it reads, in the order of the source.
    pub(crate) references: Vec<Reference>,
}

pub(crate) fn parse(source: &str) -> Result<Parsed, ParseError> {
    // Bytes first: it bounds the count of characters.
    if source.len() > MAX_SOURCE_CHARS && source.chars().count() > MAX_SOURCE_CHARS {
        return Err(ParseError::new(source, 0..source.len(), "this expression is too long")
            .with_help(format!("expected at most {MAX_SOURCE_CHARS} characters")));
    }
    let tokens = lexer::tokenize(source)?;
    let mut parser =
        Parser { source, tokens, position: 0, depth: 0, roots: Vec::new(), references: Vec::new() };
    let expr = parser.expression()?;
    if parser.peek() != &TokenKind::End {
        return Err(parser.unexpected("expected an operator or the end of the expression"));
    }
    Ok(Parsed { expr, roots: parser.roots, references: parser.references })
}

type Result<T, E = ParseError> = core::result::Result<T, E>;

struct Parser<'s> {
    source: &'s str,
    tokens: Vec<Token>,
    position: usize,
    depth: usize,
    roots: Vec<String>,
    references: Vec<Reference>,
}

/// What the base of a chain is, as far as [`Parser::chain`] needs to know.
struct Primary {
    expr: Expr,
    /// The index of the reference that static members extend.
    reference: Option<usize>,
}

impl Parser<'_> {
    fn expression(&mut self) -> Result<Expr> {
        let mut condition = self.either()?;
        let mut branches = Vec::new();
        while self.eat("?") {
            let value = self.nested(Self::expression)?;
            self.expect(":", "expected `:` and the value for the other case")?;
            branches.push((condition, value));
            condition = self.either()?;
        }
        Ok(if branches.is_empty() { condition } else { Expr::Conditional(branches, Box::new(condition)) })
    }

    /// `||` and `??`, which JavaScript does not let meet without parentheses.
    fn either(&mut self) -> Result<Expr> {
        let (first, first_is_and) = self.all()?;
        let (symbol, op) = match self.peek() {
            TokenKind::Symbol("||") => ("||", LogicalOp::Or),
            TokenKind::Symbol("??") => ("??", LogicalOp::Coalesce),
            _ => return Ok(first),
        };
        let mut operands = vec![first];
        let mut has_and = first_is_and;
        while self.eat(symbol) {
            let (operand, is_and) = self.all()?;
            has_and |= is_and;
            operands.push(operand);
        }
        let is_mixed = match op {
            LogicalOp::Coalesce => has_and || self.peek() == &TokenKind::Symbol("||"),
            LogicalOp::And | LogicalOp::Or => self.peek() == &TokenKind::Symbol("??"),
        };
        if is_mixed {
            return Err(self
                .error(self.span(), "`??` is mixed with `&&` or `||`")
                .with_help("expected parentheses that say which comes first"));
        }
        Ok(Expr::Logical(op, operands))
    }

    /// `&&`; says whether there was one.
    fn all(&mut self) -> Result<(Expr, bool)> {
        let first = self.binary(0)?;
        if self.peek() != &TokenKind::Symbol("&&") {
            return Ok((first, false));
        }
        let mut operands = vec![first];
        while self.eat("&&") {
            operands.push(self.binary(0)?);
        }
        Ok((Expr::Logical(LogicalOp::And, operands), true))
    }

    /// The operators that take both values, `level` 0 being the loosest.
    fn binary(&mut self, level: usize) -> Result<Expr> {
        let Some(operators) = BINARY_LEVELS.get(level) else { return self.unary() };
        let first = self.binary(level + 1)?;
        let mut rest = Vec::new();
        while let Some(op) = self.binary_operator(operators) {
            let place = self.span();
            self.position += 1;
            rest.push((op, place, self.binary(level + 1)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Binary(Box::new(first), rest) })
    }

    fn binary_operator(&self, operators: &[(&str, BinaryOp)]) -> Option<BinaryOp> {
        let found = match self.peek() {
            TokenKind::Symbol(symbol) => *symbol,
            TokenKind::Name(name) if name == "in" => "in",
            _ => return None,
        };
        operators.iter().find(|(symbol, _)| *symbol == found).map(|(_, op)| *op)
    }

    fn unary(&mut self) -> Result<Expr> {
        let op = match self.peek() {
            TokenKind::Symbol("!") => UnaryOp::Not,
            TokenKind::Symbol("-") => UnaryOp::Minus,
            TokenKind::Symbol("+") => UnaryOp::Plus,
            _ => return self.chain(),
        };
        let start = self.span().start;
        self.position += 1;
        let operand = self.nested(Self::unary)?;
        Ok(match (op, operand) {
            (UnaryOp::Minus, Expr::Literal(Literal::Number(number))) => {
                Expr::Literal(Literal::Number(-number))
            }
            (UnaryOp::Minus, Expr::Literal(Literal::Integer(integer))) => Expr::Literal(negated(integer)),
            (op, operand) => Expr::Unary(op, Box::new(operand), start..self.last_end()),
        })
    }

    fn chain(&mut self) -> Result<Expr> {
        let start = self.span().start;
        let Primary { expr: base, mut reference } = self.primary()?;
        let mut links = Vec::new();
        loop {
            let subject_end = self.last_end();
            let optional = self.eat("?.");
            let is_index = self.eat("[");
            let kind = if is_index {
                self.index()?
            } else if optional || self.eat(".") {
                self.member()?
            } else if self.peek() == &TokenKind::Symbol("(") {
                return Err(self.not_callable(start..subject_end));
            } else {
                break;
            };
            match (&kind, reference) {
                (LinkKind::Member(name), Some(index)) => {
                    let end = self.last_end();
                    self.references[index].segments.push(name.clone());
                    self.references[index].span.end = end;
                }
                _ => reference = None,
            }
            links.push(Link { optional, kind, subject_end, end: self.last_end() });
        }
        Ok(if links.is_empty() { base } else { Expr::Chain(Chain { base: Box::new(base), links, start }) })
    }

    /// What follows `[`. A literal index is a member like any other.
    fn index(&mut self) -> Result<LinkKind> {
        let span = self.span();
        let index = self.nested(Self::expression)?;
        self.expect("]", "expected `]`")?;
        let name = match index {
            Expr::Literal(Literal::Text(name)) => name,
            Expr::Literal(Literal::Number(number)) => number::to_text(number),
            index => return Ok(LinkKind::Index(index)),
        };
        self.readable(&name, span)?;
        Ok(LinkKind::Member(name))
    }

    /// What follows `.` or `?.`.
    fn member(&mut self) -> Result<LinkKind> {
        let span = self.span();
        let TokenKind::Name(name) = self.peek().clone() else {
            return Err(self.unexpected("expected the name of a member"));
        };
        self.position += 1;
        self.readable(&name, span.clone())?;
        if !self.eat("(") {
            return Ok(LinkKind::Member(name));
        }
        let Some(method) = Method::from_name(&name) else {
            return Err(self
                .error(span, format!("unknown method `{name}`"))
                .with_help(format!("the methods are {}", members::listing(Method::ALL, ""))));
        };
        Ok(LinkKind::Method(method, self.list(")", Self::expression)?))
    }

    fn primary(&mut self) -> Result<Primary> {
        let Token { kind, span } = self.tokens[self.position].clone();
        let plain = |expr| Ok(Primary { expr, reference: None });
        let name = match kind {
            TokenKind::Name(name) => name,
            TokenKind::Symbol(symbol @ ("(" | "[" | "{")) => {
                self.position += 1;
                return plain(match symbol {
                    "(" => {
                        let expr = self.nested(Self::expression)?;
                        self.expect(")", "expected `)`")?;
                        expr
                    }
                    "[" => Expr::Array(self.list("]", Self::expression)?),
                    _ => Expr::Object(self.list("}", Self::property)?),
                });
            }
            TokenKind::Number(_) | TokenKind::Integer(_) | TokenKind::Text(_) => {
                self.position += 1;
                return plain(Expr::Literal(match kind {
                    TokenKind::Number(number) => Literal::Number(number),
                    TokenKind::Integer(integer) => Literal::Integer(integer),
                    TokenKind::Text(text) => Literal::Text(text),
                    TokenKind::Name(_) | TokenKind::Symbol(_) | TokenKind::End => Literal::Undefined,
                }));
            }
            TokenKind::Symbol(_) | TokenKind::End => return Err(self.unexpected("expected a value")),
        };
        self.position += 1;
        match named_literal(&name) {
            Some(literal) => plain(Expr::Literal(literal)),
            None if members::is_namespace(&name) || Function::from_name(&name).is_some() => {
                plain(self.call(name, span)?)
            }
            None => self.root(name, span),
        }
    }

    /// A function, whose first name has been read.
    fn call(&mut self, first: String, span: Range<usize>) -> Result<Expr> {
        let mut name = first;
        if members::is_namespace(&name) {
            name.push('.');
            if let (TokenKind::Symbol("."), Some(TokenKind::Name(member))) =
                (self.peek(), self.tokens.get(self.position + 1).map(|token| &token.kind))
            {
                name.push_str(member);
                self.position += 2;
            }
        }
        let Some(function) = Function::from_name(&name) else {
            let prefix = &name[..=name.find('.').unwrap_or(name.len() - 1)];
            return Err(self
                .error(
                    span.start..self.last_end(),
                    format!("unknown function `{}`", name.trim_end_matches('.')),
                )
                .with_help(format!("expected one of {}", members::listing(Function::ALL, prefix))));
        };
        self.expect("(", "expected `(` and the arguments")?;
        let arguments = self.list(")", Self::expression)?;
        Ok(Expr::Call(function, arguments, span.start..self.last_end()))
    }

    fn root(&mut self, name: String, span: Range<usize>) -> Result<Primary> {
        self.readable(&name, span.clone())?;
        if RESERVED.contains(&name.as_str()) {
            return Err(self
                .error(span, format!("unexpected `{name}`"))
                .with_help("this word of JavaScript is not part of the expression language"));
        }
        if self.peek() == &TokenKind::Symbol("(") {
            return Err(self.not_callable(span));
        }
        let index = self.roots.iter().position(|known| *known == name).unwrap_or(self.roots.len());
        if index == self.roots.len() {
            self.roots.push(name.clone());
        }
        self.references.push(Reference { root: name, segments: Vec::new(), span });
        Ok(Primary { expr: Expr::Root(index), reference: Some(self.references.len() - 1) })
    }

    /// One `key: value` of an object, or `name` for `name: name`.
    fn property(&mut self) -> Result<(String, Expr)> {
        let Token { kind, span } = self.tokens[self.position].clone();
        let (key, is_name) = match kind {
            TokenKind::Name(name) => (name, true),
            TokenKind::Text(text) => (text, false),
            TokenKind::Number(number) => (number::to_text(number), false),
            TokenKind::Integer(_) | TokenKind::Symbol(_) | TokenKind::End => {
                return Err(self.unexpected("expected a key or `}`"));
            }
        };
        self.readable(&key, span)?;
        let is_shorthand = is_name
            && matches!(
                self.tokens.get(self.position + 1).map(|token| &token.kind),
                Some(TokenKind::Symbol("," | "}"))
            );
        if is_shorthand {
            if matches!(key.as_str(), "true" | "false" | "null") {
                return Err(self.unexpected("expected a key and `:`, since this word is a value"));
            }
            return Ok((key, self.chain()?));
        }
        self.position += 1;
        self.expect(":", "expected `:` and the value of this key")?;
        Ok((key, self.expression()?))
    }

    /// Elements up to `close`, separated by commas, the last of which may have one too.
    fn list<T>(
        &mut self,
        close: &'static str,
        mut element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut elements = Vec::new();
        while !self.eat(close) {
            elements.push(self.nested(&mut element)?);
            if !self.eat(",") && self.peek() != &TokenKind::Symbol(close) {
                return Err(self.unexpected(&format!("expected `,` or `{close}`")));
            }
        }
        Ok(elements)
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return Err(self
                .error(self.span(), "this expression is nested too deeply")
                .with_help(format!("expected at most {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn peek(&self) -> &TokenKind {
        &self.tokens[self.position].kind
    }

    fn span(&self) -> Range<usize> {
        self.tokens[self.position].span.clone()
    }

    /// Where the token before this one ends.
    fn last_end(&self) -> usize {
        self.position.checked_sub(1).map_or(0, |last| self.tokens[last].span.end)
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), TokenKind::Symbol(found) if *found == symbol);
        self.position += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str, help: &str) -> Result<()> {
        if self.eat(symbol) { Ok(()) } else { Err(self.unexpected(help)) }
    }

    fn readable(&self, name: &str, span: Range<usize>) -> Result<()> {
        if is_forbidden(name) {
            return Err(self.error(span, format!("the name `{name}` is not readable")));
        }
        Ok(())
    }

    fn unexpected(&self, help: &str) -> ParseError {
        let span = self.span();
        let message = match self.peek() {
            TokenKind::End => "unexpected end".to_owned(),
            _ => format!("unexpected {}", quoted(&self.source[span.clone()])),
        };
        self.error(span, message).with_help(help)
    }

    fn not_callable(&self, span: Range<usize>) -> ParseError {
        let message = format!("{} cannot be called", quoted(&self.source[span.clone()]));
        self.error(span, message)
            .with_help(format!("the functions are {}", members::listing(Function::ALL, "")))
    }

    fn error(&self, span: Range<usize>, message: impl Into<String>) -> ParseError {
        ParseError::new(self.source, span, message)
    }
}
