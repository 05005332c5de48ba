//! Paths, templates and the JavaScript-like expression subset. Pure.
//!
//! Three types, each parsed once and then evaluated against a [`Scope`], the names that it may read:
//!
//! - [`Expression`]: `steps.score.value > 0.7`, a total and side-effect-free subset of JavaScript;
//! - [`Template`]: text with `{{expression}}` inside; a string that is one whole `{{expression}}` keeps
//!   the JSON type of its value;
//! - [`ValueTemplate`]: a JSON value whose inner strings are templates.
//!
//! ```
//! use dalsegno_expr::{Expression, Template};
//! let scope = serde_json::json!({"user": {"name": "Ada"}, "score": 0.9});
//! let scope = scope.as_object().expect("an object");
//!
//! assert!(Expression::parse("score > 0.7 && user.name !== ''")?.is_true(scope)?);
//! assert_eq!(Template::parse("Hello {{user.name}}!")?.render_text(scope)?, "Hello Ada!");
//! assert_eq!(Template::parse("{{score}}")?.render(scope)?, 0.9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The language
//!
//! Literals (`'x'`, `"x"`, numbers, `true`, `false`, `null`, `undefined`, `NaN`, `Infinity`), array and object
//! literals, paths (`a.b[0]`, `a["b.c"]`, `a?.b`, `a?.[0]`), `=== !== == != < <= > >= && || ?? ! + - * / %`,
//! `in`, the ternary and parentheses, and these members:
//!
//! - of strings and arrays: `length`, `at`, `concat`, `includes`, `indexOf`, `slice`;
//! - of strings: `endsWith`, `padStart`, `replace` (the first occurrence), `split`, `startsWith`, `toLowerCase`,
//!   `toUpperCase`, `trim`; of arrays: `join`; of numbers: `toFixed`;
//! - functions: `Array.isArray`, `Boolean`, `Date.parse`, `Date.toISO`, `encodeURIComponent`, `Math.abs`, `Math.ceil`,
//!   `Math.floor`, `Math.max`, `Math.min`, `Math.round`, `Number`, `Object.keys`, `String`.
//!
//! Each gives JavaScript's own answer (a test compares them with a real engine). Lengths and indexes count UTF-16
//! units, numbers are doubles. The differences are deliberate:
//!
//! - `==` and `!=` behave as `===` and `!==`.
//! - A missing path is `undefined` at any depth, with or without `?.`; calling a method on it is an error.
//! - Values are plain data and have no identity, so comparing two arrays or two objects is an error.
//! - Only own properties exist: `'toString' in {}` is false. `__proto__`, `constructor` and `prototype` are refused.
//! - An integer of the input outside ±2^53 stays exact where it is passed on or compared, and is an error in arithmetic.
//! - Half of a surrogate pair, as `'😀'[0]` yields, becomes U+FFFD, and a string literal cannot hold one.
//! - `Object.keys` gives index-like keys first and the others sorted, whatever order the document had.
//! - `Date.parse` reads the ISO 8601 forms of the language standard; a local time without an offset is `NaN`.
//!   `Date.toISO` is ours: milliseconds since 1970 to RFC 3339, which ends with the year 9999.
//!
//! # Limits
//!
//! [`MAX_SOURCE_CHARS`], [`MAX_DEPTH`] and [`MAX_STEPS`] for an expression, [`MAX_RENDER_STEPS`] for all those of a
//! template, [`MAX_VALUE_DEPTH`] for what they build; past one, a typed error.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod error;
mod expression;
mod reference;
mod scope;
mod template;
mod value_template;

mod ast;
mod grammar;
mod lexer;
mod literal;
mod parser;

mod convert;
mod evaluate;
mod functions;
mod members;
mod meter;
mod methods;
mod operand;

mod date;
mod json;
mod number;
mod text;

pub use error::{EvalError, EvalErrorKind, ParseError, ValueTemplateError};
pub use expression::Expression;
pub use meter::{MAX_RENDER_STEPS, MAX_STEPS, Meter};
pub use parser::{MAX_DEPTH, MAX_SOURCE_CHARS};
pub use reference::Reference;
pub use scope::Scope;
pub use template::{Template, TemplatePart};
pub use value_template::{MAX_VALUE_DEPTH, ValueTemplate};
