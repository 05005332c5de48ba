//! The validation of a call's arguments.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use dalsegno_core::{Digest, ToolName, Toolbox, Validation, Violation, digest_json};
use serde_json::{Map, Value};

use crate::schema::{MAX_DEPTH, Schema, SchemaError, depth};

/// Most bytes of a call's arguments as JSON text: 1 MiB, as much as a run's own state may hold.
pub const MAX_ARGUMENT_BYTES: usize = 1 << 20;

/// Judges one call as a model wrote it.
///
/// Missing text means `{}`. A call of a tool that is not in `tools` is valid when its text parses, since the core
/// refuses it by name. A `truncated` call is never judged further: it may be the valid beginning of something else.
/// A tool's schema is compiled at its first call in this process.
pub fn judge_call(tools: &Toolbox, name: &str, arguments_text: &str, truncated: bool) -> Validation {
    if truncated {
        return Validation::Truncated;
    }
    let arguments = match parse(arguments_text) {
        Ok(arguments) => arguments,
        Err(message) => return Validation::Malformed { message },
    };
    match tools.find(name) {
        Some((_, tool)) => judge(&compiled(&tool.input_schema), arguments),
        None => Validation::Valid { arguments },
    }
}

/// The compiled argument schemas of a toolbox.
#[derive(Debug, Clone)]
pub struct Schemas {
    tools: BTreeMap<ToolName, CompiledSchema>,
}

type CompiledSchema = Arc<Result<Schema, SchemaError>>;

impl Schemas {
    /// Compiles the argument schemas of `tools`. One that cannot be used makes every call of its tool invalid.
    pub fn compile(tools: &Toolbox) -> Self {
        let tools = tools.tools.iter().map(|(name, tool)| (name.clone(), compiled(&tool.input_schema)));
        Self { tools: tools.collect() }
    }

    /// The tools whose schema cannot be used, and why.
    pub fn problems(&self) -> impl Iterator<Item = (&ToolName, &SchemaError)> {
        self.tools.iter().filter_map(|(name, schema)| Some((name, schema.as_ref().as_ref().err()?)))
    }

    /// Judges arguments that are JSON already: a plan's, rendered, or as a person edited them.
    ///
    /// Those of a tool that is not in the toolbox are valid when they are an object, since the core refuses the call by
    /// name.
    pub fn judge_arguments(&self, tool: &ToolName, arguments: Value) -> Validation {
        if let Err(message) = check_bounds(&arguments) {
            return Validation::Malformed { message };
        }
        match self.tools.get(tool) {
            Some(schema) => judge(schema, arguments),
            None => Validation::Valid { arguments },
        }
    }

    /// Each place at which a plan's rendered arguments break their tool's schema, as they are: a plan that sends
    /// `"3"` for an integer is to be corrected, not coerced.
    pub fn violations(&self, tool: &ToolName, arguments: &Value) -> Vec<Violation> {
        let problem = |message: String| vec![Violation { path: String::new(), message }];
        if let Err(message) = check_bounds(arguments) {
            return problem(message);
        }
        match self.tools.get(tool).map(|schema| &**schema) {
            Some(Ok(schema)) => schema.violations(arguments),
            Some(Err(error)) => problem(unusable(error)),
            None => Vec::new(),
        }
    }
}

fn unusable(error: &SchemaError) -> String {
    format!("the tool cannot be called with any arguments: {error}")
}

/// Judges a value of any type against a schema.
pub(crate) fn judge_any(schema: &Value, value: Value) -> Validation {
    match &*compiled(schema) {
        Ok(schema) => match schema.coerce(value) {
            Ok(arguments) => Validation::Valid { arguments },
            Err(violations) => Validation::Invalid { violations },
        },
        Err(error) => {
            let message = format!("no answer can fit the schema: {error}");
            Validation::Invalid { violations: vec![Violation { path: String::new(), message }] }
        }
    }
}

fn judge(schema: &Result<Schema, SchemaError>, arguments: Value) -> Validation {
    match schema {
        Ok(schema) => match schema.coerce(arguments) {
            Ok(arguments) => Validation::Valid { arguments },
            Err(violations) => Validation::Invalid { violations },
        },
        Err(error) => Validation::Invalid {
            violations: vec![Violation { path: String::new(), message: unusable(error) }],
        },
    }
}

fn parse(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    if text.len() > MAX_ARGUMENT_BYTES {
        return Err(too_large("arguments have", text.len()));
    }
    let arguments =
        serde_json::from_str(text).map_err(|error| format!("the arguments are not JSON: {error}"))?;
    check_shape(&arguments)?;
    Ok(arguments)
}

fn check_bounds(arguments: &Value) -> Result<(), String> {
    check_shape(arguments)?;
    let mut length = Length(0);
    match serde_json::to_writer(&mut length, arguments) {
        Ok(()) if length.0 <= MAX_ARGUMENT_BYTES => Ok(()),
        _ => Err(too_large("arguments have", length.0)),
    }
}

fn check_shape(arguments: &Value) -> Result<(), String> {
    if !arguments.is_object() {
        return Err(format!("the arguments are {}, expected an object", a_type(arguments)));
    }
    if depth(arguments) > MAX_DEPTH {
        return Err(format!("the arguments are nested more than {MAX_DEPTH} deep"));
    }
    Ok(())
}

pub(crate) fn too_large(what: &str, bytes: usize) -> String {
    format!("the {what} {bytes} bytes or more, at most {MAX_ARGUMENT_BYTES} are allowed")
}

fn a_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Counts bytes and stops past the limit, so that a huge value costs no memory.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        if self.0 > MAX_ARGUMENT_BYTES { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Finds a schema's compiled form, or compiles it.
///
/// The cache belongs to the process because the same tools appear in the toolboxes of many agents, and a schema means
/// the same everywhere.
pub(crate) fn compiled(schema: &Value) -> CompiledSchema {
    static CACHE: LazyLock<Mutex<HashMap<Digest, CompiledSchema>>> = LazyLock::new(Mutex::default);
    /// Far more tools than a workspace has. Past it the cache starts anew, which costs one compilation each.
    const CAPACITY: usize = 4096;

    // A schema nested too deeply would overflow the stack while it is hashed, before the compiler can refuse it.
    if depth(schema) > MAX_DEPTH {
        return Arc::new(Schema::compile(schema));
    }
    let digest = digest_json(schema);
    if let Some(found) = CACHE.lock().unwrap_or_else(PoisonError::into_inner).get(&digest) {
        return Arc::clone(found);
    }
    let compiled = Arc::new(Schema::compile(schema));
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if cache.len() >= CAPACITY {
        cache.clear();
    }
    cache.insert(digest, Arc::clone(&compiled));
    compiled
}
