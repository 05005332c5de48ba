//! The tables of the grammar: operators by precedence, and names with a meaning.

use crate::ast::{BinaryOp, Literal};
use crate::number::MAX_EXACT;

/// Negates an integer literal, which is one itself: only so can it be exact beyond 2^53.
pub(crate) fn negated(integer: i128) -> Literal {
    // Smaller integers than 64 bits hold are doubles, as in the input.
    if -integer >= i128::from(i64::MIN) && integer > MAX_EXACT {
        Literal::Integer(-integer)
    } else {
        Literal::Number(-(integer as f64))
    }
}

/// Returns the literal that a name stands for.
pub(crate) fn named_literal(name: &str) -> Option<Literal> {
    Some(match name {
        "true" => Literal::Bool(true),
        "false" => Literal::Bool(false),
        "null" => Literal::Null,
        "undefined" => Literal::Undefined,
        "NaN" => Literal::Number(f64::NAN),
        "Infinity" => Literal::Number(f64::INFINITY),
        _ => return None,
    })
}

/// From the loosest to the tightest.
pub(crate) const BINARY_LEVELS: &[&[(&str, BinaryOp)]] = &[
    &[
        ("===", BinaryOp::Equal),
        ("==", BinaryOp::Equal),
        ("!==", BinaryOp::NotEqual),
        ("!=", BinaryOp::NotEqual),
    ],
    &[
        ("<", BinaryOp::Less),
        ("<=", BinaryOp::LessOrEqual),
        (">", BinaryOp::Greater),
        (">=", BinaryOp::GreaterOrEqual),
        ("in", BinaryOp::In),
    ],
    &[("+", BinaryOp::Add), ("-", BinaryOp::Subtract)],
    &[("*", BinaryOp::Multiply), ("/", BinaryOp::Divide), ("%", BinaryOp::Remainder)],
];

/// Words that cannot be the start of a path, since JavaScript gives them another meaning.
pub(crate) const RESERVED: &[&str] = &[
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "export",
    "extends",
    "finally",
    "for",
    "function",
    "if",
    "import",
    "in",
    "instanceof",
    "let",
    "new",
    "return",
    "super",
    "switch",
    "this",
    "throw",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
    "yield",
];
