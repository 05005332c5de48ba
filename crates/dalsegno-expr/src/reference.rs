//! What an expression reads, known without evaluating it.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// A path that a source reads.
///
/// Checks use it to say, for instance, that a condition refers to a step that comes later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The name at the start, which the scope resolves.
    pub root: String,
    /// The names and literal indexes that follow, up to the first computed index or method call.
    ///
    /// `length` is listed like any other name: whether it is a length depends on the value.
    pub segments: Vec<String>,
    /// Where root and segments stand in the source, in bytes.
    pub span: Range<usize>,
}

/// Names that lead from data to the machinery of a JavaScript engine.
///
/// This engine has no such machinery; refusing them keeps documents from relying on what other engines would do.
pub(crate) fn is_forbidden(name: &str) -> bool {
    matches!(name, "__proto__" | "constructor" | "prototype")
}
