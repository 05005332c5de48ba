//! A request for which a case gives nothing: what comes nearest, and what to write.

use dalsegno_core::{AgentConfig, Operation, Request};
use dalsegno_workspace::{Asked, CaseResult};
use serde_json::{Map, Value};

use crate::asked::{Kind, Question};
use crate::compare::{lacks, quoted};
use crate::trouble::Missing;
use crate::world::{World, is_of, named};

/// Says what is missing.
pub(crate) fn missing(
    world: &World<'_>,
    question: &Question,
    operation: &Operation,
    config: &AgentConfig,
    step: u64,
) -> Missing {
    let near = nearest(world, question);
    Missing {
        step,
        asked: question.to_string(),
        arguments: quoted(&question.arguments),
        span: near.as_ref().map(|(result, _)| result.span.clone()),
        nearest: near.map(|(_, words)| words),
        write: sketch(question, operation, config),
    }
}

/// The result that comes nearest, with how it differs.
fn nearest<'c>(world: &World<'c>, question: &Question) -> Option<(&'c CaseResult, String)> {
    let of_same = || world.all().filter(|(result, _)| is_of(&result.of, question));
    if let Some((result, difference)) = of_same().filter(|(_, used)| !used).find_map(|(result, _)| {
        lacks(&question.arguments, &result.with).map(|difference| (result, difference))
    }) {
        return Some((result, format!("there is one for other arguments: {difference} by its `with`")));
    }
    if let Some((result, _)) = of_same().last() {
        return Some((
            result,
            "all results of it are used up; `repeat = true` lets one answer further requests".to_owned(),
        ));
    }
    let wanted = question.name.as_str();
    let of_kind = world.all().filter_map(|(result, _)| {
        let ((Asked::Tool(name), Kind::Tool)
        | (Asked::Http(name), Kind::Http)
        | (Asked::Mail(name), Kind::Mail)
        | (Asked::Transfer(name), Kind::Transfer)
        | (Asked::Agent(name), Kind::Agent)
        | (Asked::Memory(name), Kind::Memory)) = (&result.of, question.kind)
        else {
            return None;
        };
        Some((strsim::levenshtein(name, wanted), result))
    });
    let (_, result) = of_kind.min_by_key(|(distance, _)| *distance)?;
    Some((result, format!("the nearest result is one of {}", named(&result.of))))
}

/// What to write into the case.
fn sketch(question: &Question, operation: &Operation, config: &AgentConfig) -> String {
    let name = &question.name;
    let body = match &operation.request {
        Request::ModelCompletion(_) => return "[[cases.replies]]\ntext = \"…\"".to_owned(),
        Request::ToolCall(call) => {
            let tool = config.tools.tools.get(&call.tool_name);
            match tool.and_then(|tool| tool.output_schema.as_ref()) {
                Some(schema) => format!("tool = \"{name}\"\nreturns = {}", toml(&example(schema, 0))),
                None => format!("tool = \"{name}\"\ntext = \"…\""),
            }
        }
        Request::MemorySearch(_) => {
            "memory = \"search\"\nreturns = [{ entity = \"…\", text = \"…\" }]".to_owned()
        }
        Request::MemoryCreate(_) => "memory = \"create\"".to_owned(),
        Request::MemoryTraverse(_) => {
            "memory = \"traverse\"\nreturns = { entities = [], relations = [] }".to_owned()
        }
        Request::ApiCall(_) => format!("http = \"{name}\"\nreturns = {{ }}"),
        Request::Email(_) => format!("mail = \"{name}\""),
        Request::Transfer(_) => format!("transfer = \"{name}\""),
        Request::AgentCall(_) => format!("agent = \"{name}\"\ntext = \"…\""),
        Request::Input(_) | Request::Timer(_) => return String::new(),
    };
    format!("[[cases.results]]\n{body}")
}

/// A value of the kind that a schema describes; not deep.
fn example(schema: &Value, depth: usize) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|words| words.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") if depth < 3 => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let fields =
                required.map(|name| (name.to_owned(), example(&schema["properties"][name], depth + 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Some("object") => Value::Object(Map::new()),
        Some("array") => Value::Array(Vec::new()),
        Some("number" | "integer") => 0.into(),
        Some("boolean") => false.into(),
        _ => "…".into(),
    }
}

/// A value as TOML writes it in one line.
pub(crate) fn toml(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields: Vec<String> =
                fields.map(|(name, value)| format!("{} = {}", key(name), toml(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::String(text) => string(text),
        // TOML has no null. An empty text is what templates make of it.
        Value::Null => "\"\"".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// A key as TOML writes it.
fn key(name: &str) -> String {
    let is_bare =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_bare { name.to_owned() } else { string(name) }
}

/// A text as TOML writes it in one line. The escapes of JSON are among those of TOML, but for the character of code 127.
pub(crate) fn string(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
