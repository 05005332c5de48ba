//! The tree of a parsed expression.
//!
//! Chains of operators, conditionals and members are flat lists, so that the height of the tree follows
//! the nesting of the source and not its length.

use crate::members::{Function, Method};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

#[derive(Debug)]
pub(crate) enum Expr {
    Literal(Literal),
    /// An index into the roots of the expression.
    Root(usize),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
    Unary(UnaryOp, Box<Self>, Place),
    /// Operators of one level, from left to right.
    Binary(Box<Self>, Vec<(BinaryOp, Place, Self)>),
    Logical(LogicalOp, Vec<Self>),
    /// `a ? b : c ? d : e`: conditions with their values, then the value of last resort.
    Conditional(Vec<(Self, Self)>, Box<Self>),
    Chain(Chain),
    Call(Function, Vec<Self>, Place),
}

/// Where an operator or a call stands in the source, in bytes.
pub(crate) type Place = Range<usize>;

#[derive(Debug)]
pub(crate) enum Literal {
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    /// An integer outside ±2^53, kept exact.
    Integer(i128),
    Text(String),
}

#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) base: Box<Expr>,
    pub(crate) links: Vec<Link>,
    /// Where the base starts in the source, in bytes.
    pub(crate) start: usize,
}

#[derive(Debug)]
pub(crate) struct Link {
    /// Whether it was written with `?.`, which ends the chain at `null` and `undefined`.
    pub(crate) optional: bool,
    pub(crate) kind: LinkKind,
    /// Where the text before this link ends in the source, in bytes.
    pub(crate) subject_end: usize,
    /// Where the link itself ends in the source, in bytes.
    pub(crate) end: usize,
}

#[derive(Debug)]
pub(crate) enum LinkKind {
    Member(String),
    Index(Expr),
    Method(Method, Vec<Expr>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum UnaryOp {
    Not,
    Minus,
    Plus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogicalOp {
    And,
    Or,
    Coalesce,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum BinaryOp {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}
