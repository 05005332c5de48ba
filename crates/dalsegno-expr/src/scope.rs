//! Where an expression finds the names it starts from.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use serde_json::{Map, Value};

/// Resolves the root of a path.
///
/// An expression asks at most once for each root, and only for those whose value it needs.
pub trait Scope {
    /// Returns the value of a root, or `None` where there is none: its paths are then `undefined`.
    fn root(&self, name: &str) -> Option<Cow<'_, Value>>;
}

impl Scope for Map<String, Value> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.get(name).map(Cow::Borrowed)
    }
}

impl Scope for BTreeMap<String, Value> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.get(name).map(Cow::Borrowed)
    }
}
