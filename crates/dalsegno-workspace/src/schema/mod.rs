//! JSON Schemas of the files of a workspace, for editors. Those of TOML files are made from the tables of keys that the
//! readers use.

mod script;

pub(crate) use self::script::REPLY;

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value, json};

use crate::shape::{Form, Key, Need, Shape, Tagged};
use crate::{agent, case, eval, lock, settings, tenant};

/// A kind of file of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// An agent, `agents/*.toml`.
    Agent,
    /// Cases that test agents, `tests/*.toml`.
    Case,
    /// The settings, `dalsegno.toml`.
    Dalsegno,
    /// A data set through an agent, such as `tests/evals/*.toml`.
    Eval,
    /// What tool servers offer and what models call tools, `dalsegno.lock`.
    Lock,
    /// Replies of a scripted model.
    Script,
    /// A tenant, `tenants/*.toml`.
    Tenant,
    /// A declarative tool or toolkit, `tools/*.json`.
    Tool,
}

impl FileKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Agent,
        Self::Case,
        Self::Dalsegno,
        Self::Eval,
        Self::Lock,
        Self::Script,
        Self::Tenant,
        Self::Tool,
    ];

    /// The kind as text: `agent`, `case`, `dalsegno`, `eval`, `lock`, `script`, `tenant` or `tool`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Case => "case",
            Self::Dalsegno => "dalsegno",
            Self::Eval => "eval",
            Self::Lock => "lock",
            Self::Script => "script",
            Self::Tenant => "tenant",
            Self::Tool => "tool",
        }
    }

    /// Where such files stand in a workspace, as editors take it.
    pub const fn pattern(self) -> &'static str {
        match self {
            Self::Agent => "agents/*.toml",
            Self::Case => "tests/*.toml",
            Self::Dalsegno => "dalsegno.toml",
            Self::Eval => "tests/evals/*.toml",
            Self::Lock => "dalsegno.lock",
            Self::Script => "tests/scripts/*.toml",
            Self::Tenant => "tenants/*.toml",
            Self::Tool => "tools/*.json",
        }
    }

    /// The table of keys of a kind that is TOML.
    fn table(self) -> Option<(&'static str, &'static Shape)> {
        Some(match self {
            Self::Agent => ("An agent of a Dalsegno workspace", &agent::FILE),
            Self::Case => ("Cases that test the agents of a Dalsegno workspace", &case::FILE),
            Self::Dalsegno => ("The settings of a Dalsegno workspace", &settings::FILE),
            Self::Eval => ("An eval of an agent of a Dalsegno workspace", &eval::FILE),
            Self::Lock => ("The lock file of a Dalsegno workspace", &lock::FILE),
            Self::Script => ("The replies of a scripted model", &script::FILE),
            Self::Tenant => ("A tenant of a Dalsegno workspace", &tenant::FILE),
            Self::Tool => return None,
        })
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no kind of file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no kind of file `{0}`: expected `agent`, `case`, `dalsegno`, `eval`, `lock`, `script`, `tenant` or `tool`"
)]
pub struct UnknownFileKind(pub String);

impl FromStr for FileKind {
    type Err = UnknownFileKind;

    fn from_str(text: &str) -> Result<Self, UnknownFileKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownFileKind(text.chars().take(64).collect()))
    }
}

/// The JSON Schema of a kind of file, draft 7: the one that all editors know.
///
/// It knows every key and every type, so an editor completes and underlines. What needs another file, such as whether
/// an agent exists, only [`Workspace::load`](crate::Workspace::load) tells.
pub fn schema(kind: FileKind) -> Value {
    let Some((title, shape)) = kind.table() else {
        return serde_json::from_str(TOOL).expect("a test reads it");
    };
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), "http://json-schema.org/draft-07/schema#".into());
    schema.insert("title".to_owned(), title.into());
    schema.extend(table(shape));
    Value::Object(schema)
}

/// The schema of a declarative tool. Its reader is that of the documents that come over the network; a test holds the two
/// against each other.
const TOOL: &str = include_str!("tool.json");

fn table(shape: &Shape) -> Map<String, Value> {
    let properties: Map<_, _> = shape.keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let required: Vec<_> =
        shape.keys.iter().filter(|key| key.required.is_some()).map(|key| Value::from(key.name)).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("additionalProperties".to_owned(), false.into());
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    if !shape.one_of.is_empty() {
        let choices: Vec<_> = shape.one_of.iter().map(|key| json!({ "required": [key] })).collect();
        schema.insert("oneOf".to_owned(), choices.into());
    }
    if !shape.needs.is_empty() {
        let needs: Vec<_> = shape.needs.iter().map(need).collect();
        schema.insert("allOf".to_owned(), needs.into());
    }
    schema
}

fn need(need: &Need) -> Value {
    let because_of = need.because_of;
    let held = match need.word {
        Some(word) => json!({ because_of: { "const": word } }),
        None => json!({}),
    };
    json!({
        "if": { "properties": held, "required": [because_of] },
        "then": { "required": need.keys },
    })
}

fn property(key: &Key) -> Value {
    let mut schema = form(key.form);
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".to_owned(), key.about.into());
    }
    schema
}

fn form(form: Form) -> Value {
    match form {
        Form::Boolean => json!({ "type": "boolean" }),
        Form::Text | Form::Template | Form::Expression => json!({ "type": "string" }),
        Form::Name(pattern) => json!({ "type": "string", "pattern": pattern }),
        Form::Word(words) => json!({ "type": "string", "enum": words }),
        Form::Integer(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Form::Number(least, most) => json!({ "type": "number", "minimum": least, "maximum": most }),
        Form::Dollars { most, .. } => json!({ "type": "number", "minimum": 0, "maximum": most }),
        Form::Duration => json!({ "type": "string", "pattern": "^[0-9]+ ?(ms|s|m|h|d)$" }),
        Form::Size => json!({ "type": "string", "pattern": "^[0-9]+ ?(B|KiB|MiB|GiB)$" }),
        Form::Any => json!({}),
        Form::Open => json!({ "type": "object" }),
        Form::Table(shape) => Value::Object(table(shape)),
        Form::OpenTable(shape) => {
            let mut schema = table(shape);
            schema.insert("additionalProperties".to_owned(), true.into());
            Value::Object(schema)
        }
        Form::Tagged(choice) => tagged(choice),
        Form::Map(value) => json!({ "type": "object", "additionalProperties": self::form(*value) }),
        Form::List(item) => json!({ "type": "array", "items": self::form(*item) }),
        Form::Either(forms) => {
            let forms: Vec<_> = forms.iter().map(|one| self::form(*one)).collect();
            json!({ "anyOf": forms })
        }
    }
}

/// One schema for each word of the key that decides; `if` and `then` keep the messages of editors to the right one.
fn tagged(choice: &Tagged) -> Value {
    let tag = choice.tag;
    let words: Vec<_> = choice.words().collect();
    let branches: Vec<_> = choice
        .shapes
        .iter()
        .map(|(words, shape)| {
            json!({
                "if": { "properties": { tag: { "enum": words } }, "required": [tag] },
                "then": table(shape),
            })
        })
        .collect();
    json!({
        "type": "object",
        "properties": { tag: { "type": "string", "enum": words } },
        "required": [tag],
        "allOf": branches,
    })
}
