//! JSON values whose inner strings are templates.

use crate::error::{EvalError, ParseError, ValueTemplateError};
use crate::json;
use crate::meter::Meter;
use crate::reference::Reference;
use crate::scope::Scope;
use crate::template::Template;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// How deep a value may be nested to be a template, to be printed, or to be built: as deep as `serde_json` reads.
pub const MAX_VALUE_DEPTH: usize = 127;

/// A JSON value whose inner strings are templates, for instance `{"to": "{{user.email}}"}`.
///
/// Keys are literal. Two are equal if their sources are. Clones share the parsed parts. It is serialized as the
/// value that it was parsed from.
#[derive(Clone)]
pub struct ValueTemplate(Arc<Inner>);

struct Inner {
    source: Value,
    node: Node,
}

enum Node {
    /// A part without templates.
    Literal(Value),
    Template(Template),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl ValueTemplate {
    /// Parses the strings of a value.
    ///
    /// # Errors
    /// Fails with the JSON pointer of the first string that is not a template, or that is too deep.
    pub fn parse(value: &Value) -> Result<Self, ValueTemplateError> {
        let node = parse_node(value, &mut String::new(), 0)?;
        Ok(Self(Arc::new(Inner { source: value.clone(), node })))
    }

    /// Returns the value as it was written.
    pub fn source(&self) -> &Value {
        &self.0.source
    }

    /// Renders each template; see [`Template::render`].
    ///
    /// # Errors
    /// As [`Template::render`], and if a part would be nested more than [`MAX_VALUE_DEPTH`] deep.
    pub fn render(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        render_node(&self.0.node, scope, &mut Meter::for_rendering(), 0)
    }

    /// Returns every path that the templates read; spans are those in the string that holds the template.
    pub fn paths(&self) -> Vec<Reference> {
        self.located_paths().into_iter().map(|(_, reference)| reference).collect()
    }

    /// Returns every path that the templates read, each with the JSON pointer of its string.
    pub fn located_paths(&self) -> Vec<(String, Reference)> {
        let mut paths = Vec::new();
        collect_paths(&self.0.node, &mut String::new(), &mut paths);
        paths
    }
}

fn parse_node(value: &Value, pointer: &mut String, depth: usize) -> Result<Node, ValueTemplateError> {
    if depth > MAX_VALUE_DEPTH {
        let error = ParseError::new("", 0..0, "this value is nested too deeply")
            .with_help(format!("expected at most {MAX_VALUE_DEPTH} levels"));
        return Err(ValueTemplateError { pointer: pointer.clone(), error });
    }
    Ok(match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Node::Literal(value.clone()),
        Value::String(source) if !source.contains("{{") => Node::Literal(value.clone()),
        Value::String(source) => Node::Template(
            Template::parse(source)
                .map_err(|error| ValueTemplateError { pointer: pointer.clone(), error })?,
        ),
        Value::Array(items) => {
            let mut nodes = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                nodes.push(within(pointer, &format!("{index}"), |pointer| {
                    parse_node(item, pointer, depth + 1)
                })?);
            }
            if nodes.iter().all(Node::is_literal) { Node::Literal(value.clone()) } else { Node::Array(nodes) }
        }
        Value::Object(fields) => {
            let mut nodes = Vec::with_capacity(fields.len());
            for (name, field) in fields {
                let node = within(pointer, name, |pointer| parse_node(field, pointer, depth + 1))?;
                nodes.push((name.clone(), node));
            }
            let is_literal = nodes.iter().all(|(_, node)| node.is_literal());
            if is_literal { Node::Literal(value.clone()) } else { Node::Object(nodes) }
        }
    })
}

fn render_node(node: &Node, scope: &dyn Scope, meter: &mut Meter, depth: usize) -> Result<Value, EvalError> {
    Ok(match node {
        Node::Literal(value) => value.clone(),
        Node::Template(template) => {
            let value = template.value(scope, meter)?;
            // A document that is passed on as a whole costs nothing, but a value can hold it many times over.
            if depth > 0 {
                json::measure(&value, meter, depth)
                    .map_err(|kind| EvalError::new(template.source(), 0..template.source().len(), kind))?;
            }
            value
        }
        Node::Array(nodes) => Value::Array(
            nodes.iter().map(|node| render_node(node, scope, meter, depth + 1)).collect::<Result<_, _>>()?,
        ),
        Node::Object(nodes) => Value::Object(
            nodes
                .iter()
                .map(|(name, node)| Ok((name.clone(), render_node(node, scope, meter, depth + 1)?)))
                .collect::<Result<_, EvalError>>()?,
        ),
    })
}

fn collect_paths(node: &Node, pointer: &mut String, paths: &mut Vec<(String, Reference)>) {
    match node {
        Node::Literal(_) => {}
        Node::Template(template) => {
            paths.extend(template.paths().into_iter().map(|reference| (pointer.clone(), reference)));
        }
        Node::Array(nodes) => {
            for (index, node) in nodes.iter().enumerate() {
                within(pointer, &format!("{index}"), |pointer| collect_paths(node, pointer, paths));
            }
        }
        Node::Object(nodes) => {
            for (name, node) in nodes {
                within(pointer, name, |pointer| collect_paths(node, pointer, paths));
            }
        }
    }
}

/// Runs `visit` with the pointer one step deeper.
fn within<T>(pointer: &mut String, step: &str, visit: impl FnOnce(&mut String) -> T) -> T {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
    let visited = visit(pointer);
    pointer.truncate(length);
    visited
}

impl Node {
    fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }
}

impl PartialEq for ValueTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for ValueTemplate {}

impl fmt::Debug for ValueTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ValueTemplate").field(self.source()).finish()
    }
}

impl Serialize for ValueTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ValueTemplate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::parse(&value).map_err(serde::de::Error::custom)
    }
}
