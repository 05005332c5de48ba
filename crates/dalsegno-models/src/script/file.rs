//! The file form of a script, and what becomes of it.

use std::time::Duration;

use dalsegno_core::{ReplyPart, StopReason, TokenDetails};
use dalsegno_expr::{Template, ValueTemplate};
use serde::Deserialize;
use serde_json::{Map, Number, Value};

use super::ScriptError;
use crate::model::ModelErrorKind;

/// Longest time that a script may ask for: longer than any sensible time limit of an attempt.
const MAX_DURATION: Duration = Duration::from_secs(3600);

/// One reply, checked.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) opaque: Vec<ReplyPart>,
    pub(super) text: Option<Template>,
    pub(super) calls: Vec<Call>,
    pub(super) stop: StopReason,
    pub(super) usage: Used,
    pub(super) delay: Option<Duration>,
    pub(super) error: Option<Failure>,
    pub(super) when: Option<String>,
}

/// The tokens of a reply.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) details: TokenDetails,
}

impl Used {
    fn of(file: &UsageFile) -> Self {
        let details = TokenDetails {
            cached_input_tokens: file.cached_input,
            cache_write_tokens: file.cache_write,
            cache_write_1h_tokens: file.cache_write_1h,
            reasoning_tokens: file.reasoning,
            web_searches: file.web_searches,
        };
        Self { input: file.input, output: file.output, details }
    }
}

/// One call of a reply.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Arguments,
}

/// A call's arguments.
#[derive(Debug, Clone)]
pub(super) enum Arguments {
    /// A value with templates.
    Template(ValueTemplate),
    /// Text that is sent as it stands.
    Text(String),
}

/// A failure that comes before, or instead of, a reply.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) kind: ModelErrorKind,
    pub(super) message: String,
    pub(super) attempts: u32,
    pub(super) retry_after: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    /// After the last reply comes the first one again.
    #[serde(default)]
    repeat: bool,
    #[serde(default)]
    replies: Vec<ReplyFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyFile {
    text: Option<String>,
    #[serde(default)]
    calls: Vec<CallFile>,
    #[serde(default)]
    opaque: Vec<OpaqueFile>,
    stop: Option<StopReason>,
    usage: Option<UsageFile>,
    delay: Option<String>,
    error: Option<ErrorFile>,
    when: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFile {
    name: String,
    arguments: Option<toml::Value>,
    arguments_text: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OpaqueFile {
    provider: String,
    data: toml::Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsageFile {
    #[serde(default)]
    input: u64,
    #[serde(default)]
    output: u64,
    #[serde(default)]
    cached_input: u64,
    #[serde(default)]
    cache_write: u64,
    #[serde(default)]
    cache_write_1h: u64,
    #[serde(default)]
    reasoning: u64,
    #[serde(default)]
    web_searches: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorFile {
    kind: ErrorKindFile,
    message: String,
    attempts: Option<u32>,
    retry_after: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ErrorKindFile {
    Unavailable,
    RateLimited,
    Refused,
    Protocol,
    LimitExceeded,
}

/// Reads a script's replies.
pub(super) fn parse(script: &str, text: &str) -> Result<(Vec<Reply>, bool), ScriptError> {
    let file: ScriptFile = toml::from_str(text).map_err(|error| {
        let message = error.to_string().trim_end().to_owned();
        ScriptError::Syntax { script: script.to_owned(), message }
    })?;
    if file.replies.is_empty() {
        return Err(ScriptError::Empty { script: script.to_owned() });
    }
    let replies = file.replies.into_iter().enumerate().map(|(number, reply)| {
        check(reply).map_err(|message| ScriptError::Reply {
            script: script.to_owned(),
            reply: number,
            message,
        })
    });
    Ok((replies.collect::<Result<_, _>>()?, file.repeat))
}

/// Reads one reply that is JSON.
pub(super) fn reply(reply: &Value) -> Result<Reply, String> {
    ReplyFile::deserialize(reply).map_err(|error| error.to_string()).and_then(check)
}

fn check(file: ReplyFile) -> Result<Reply, String> {
    if file.text.is_none() && file.calls.is_empty() && file.opaque.is_empty() && file.error.is_none() {
        return Err("it is empty: expected `text`, `calls`, `opaque` or `error`".to_owned());
    }
    let text = file.text.map(|text| Template::parse(&text).map_err(|error| format!("`text`: {error}")));
    let calls: Vec<Call> = file.calls.into_iter().map(check_call).collect::<Result<_, _>>()?;
    let opaque = file.opaque.into_iter().map(|part| {
        let data = json(part.data).map_err(|error| format!("`opaque.data`: {error}"))?;
        Ok(ReplyPart::Opaque { provider: part.provider, data })
    });
    let usual = if calls.is_empty() { StopReason::End } else { StopReason::ToolCalls };
    Ok(Reply {
        opaque: opaque.collect::<Result<_, String>>()?,
        text: text.transpose()?,
        calls,
        stop: file.stop.unwrap_or(usual),
        usage: file.usage.as_ref().map(Used::of).unwrap_or_default(),
        delay: file.delay.map(|text| duration("delay", &text)).transpose()?,
        error: file.error.map(check_error).transpose()?,
        when: file.when,
    })
}

fn check_call(file: CallFile) -> Result<Call, String> {
    let name = file.name;
    let arguments = match (file.arguments, file.arguments_text) {
        (Some(_), Some(_)) => {
            return Err(format!("the call of `{name}` has both `arguments` and `arguments_text`: keep one"));
        }
        (None, text) => Arguments::Text(text.unwrap_or_default()),
        (Some(value), None) => {
            let value = json(value).map_err(|error| format!("the arguments of `{name}`: {error}"))?;
            let template = ValueTemplate::parse(&value);
            Arguments::Template(template.map_err(|error| format!("the arguments of `{name}`: {error}"))?)
        }
    };
    Ok(Call { name, arguments })
}

fn check_error(file: ErrorFile) -> Result<Failure, String> {
    let kind = match file.kind {
        ErrorKindFile::Unavailable => ModelErrorKind::Unavailable,
        ErrorKindFile::RateLimited => ModelErrorKind::RateLimited,
        ErrorKindFile::Refused => ModelErrorKind::Refused,
        ErrorKindFile::Protocol => ModelErrorKind::Protocol,
        ErrorKindFile::LimitExceeded => ModelErrorKind::LimitExceeded,
    };
    Ok(Failure {
        kind,
        message: file.message,
        attempts: file.attempts.unwrap_or(u32::MAX),
        retry_after: file.retry_after.map(|text| duration("retry_after", &text)).transpose()?,
    })
}

/// Reads a whole number with one of the units `ms`, `s`, `m`, `h` and `d`, as the files of a workspace have them.
fn duration(key: &str, text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at(end);
    let unit_ms: u64 = match unit.strip_prefix(' ').unwrap_or(unit) {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 0,
    };
    let millis =
        count.parse::<u64>().ok().and_then(|count| count.checked_mul(unit_ms)).filter(|_| unit_ms > 0);
    match millis.map(Duration::from_millis) {
        Some(found) if found <= MAX_DURATION => Ok(found),
        _ => Err(format!("`{key}` is `{text}`: expected a time such as `50ms`, `2s` or `1m`, at most `60m`")),
    }
}

/// The JSON form of a TOML value; a date becomes its text.
fn json(value: toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => {
            Value::Number(Number::from_f64(number).ok_or_else(|| format!("`{number}` has no JSON form"))?)
        }
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(date) => Value::String(date.to_string()),
        toml::Value::Array(items) => Value::Array(items.into_iter().map(json).collect::<Result<_, _>>()?),
        toml::Value::Table(table) => {
            let members = table.into_iter().map(|(name, value)| Ok((name, json(value)?)));
            Value::Object(members.collect::<Result<Map<_, _>, String>>()?)
        }
    })
}
