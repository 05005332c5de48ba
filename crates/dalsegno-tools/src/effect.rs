//! What a call asks its shell to do, and what came of it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::measure;
use crate::limits::{MAX_VALUE_BYTES, MAX_VALUE_DEPTH};
use crate::outcome::{ActionPlace, ErrorCode, ToolError};
use crate::parameters::Violation;
use crate::text::{Payload, Text};

/// One thing that a call asks its shell to do. At most one is outstanding for each call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The effect's number within the call, from 0.
    pub ordinal: u32,
    /// The action that asks.
    pub place: ActionPlace,
    /// `operation.key`: unlike for every effect, and the same for every attempt at this one. It is the call's own operation
    /// id followed by the ordinal.
    pub key: String,
    /// What to do.
    pub request: EffectRequest,
}

/// What an effect does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectRequest {
    /// Calls an HTTP endpoint; answered by [`EffectOutcome::Response`].
    ApiCall(ApiCall),
    /// Sends a mail; answered by [`EffectOutcome::Sent`].
    Email(Email),
    /// Calls another tool, under the same permissions; answered by [`EffectOutcome::Returned`].
    Tool(ToolRequest),
    /// Has the telephone call that the run is transferred; answered by [`EffectOutcome::Requested`].
    Transfer(Transfer),
}

/// A call of an HTTP endpoint.
///
/// The shell resolves the secrets, checks where the URL leads, sends `idempotency_key` as `Idempotency-Key` unless
/// `headers` have one, and alone decides on attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApiCall {
    /// The method.
    pub method: Method,
    /// The URL, with everything that came from values percent-encoded; without `query`.
    pub url: Text,
    /// Names in lower case, in the order of the names.
    pub headers: Vec<(String, Text)>,
    /// Pairs that the shell encodes and appends to the URL's own query.
    pub query: Vec<(String, Text)>,
    /// The body; none where absent. It is JSON, unless it is a string and a `content-type` that is not JSON is given: then it
    /// is the string's text.
    pub body: Option<Payload>,
    /// Longest time of one attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Attempts after the first, where the class allows them.
    pub retries: u32,
    /// The first delay between attempts, in milliseconds; it doubles each time.
    pub retry_delay_ms: u64,
    /// Longest time over all attempts, in milliseconds.
    pub max_elapsed_ms: u64,
    /// What may repeat.
    pub class: EffectClass,
    /// Whether the document gives `retry_count` for an unsafe call: its author's word that the receiver tolerates repeats.
    pub repeats_tolerated: bool,
    /// The key that stays the same across attempts, restarts and resumes.
    pub idempotency_key: String,
    /// Largest response, in bytes; past it the outcome is a failure with the reason `response_too_large`.
    pub max_response_bytes: u64,
    /// JSON Schema of the response; what breaks it comes back as violations.
    pub response_schema: Option<Value>,
    /// What statuses say of the effect, by the word of the document's author. The others say what HTTP says of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statuses: BTreeMap<u16, StatusMeaning>,
}

impl ApiCall {
    /// Says whether an answer with this status is one of a receiver that did what it was asked to do: 2xx, unless the
    /// document says otherwise.
    pub fn is_performed(&self, status: u16) -> bool {
        match self.statuses.get(&status) {
            Some(meaning) => *meaning == StatusMeaning::Performed,
            None => (200..300).contains(&status),
        }
    }
}

/// Says whether a call can hold the body of an answer.
pub fn can_hold(body: &Value) -> bool {
    measure(body, MAX_VALUE_BYTES, MAX_VALUE_DEPTH).is_some()
}

/// What a status says of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusMeaning {
    /// It took place: the answer is a success, whatever its status.
    Performed,
    /// It did not take place.
    NotPerformed,
}

impl StatusMeaning {
    /// The meaning as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Performed => "performed",
            Self::NotPerformed => "not_performed",
        }
    }

    pub(crate) const ALL: [(&'static str, Self); 2] =
        [("performed", Self::Performed), ("not_performed", Self::NotPerformed)];
}

/// The method of an HTTP request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// `GET`
    Get,
    /// `POST`, the default: tools mostly change something.
    #[default]
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

impl Method {
    pub(crate) const ALL: [(&'static str, Self); 5] = [
        ("GET", Self::Get),
        ("POST", Self::Post),
        ("PUT", Self::Put),
        ("PATCH", Self::Patch),
        ("DELETE", Self::Delete),
    ];

    /// The method's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// The class of a call whose document gives none.
    pub fn class(self) -> EffectClass {
        match self {
            Self::Get => EffectClass::Read,
            Self::Put | Self::Delete => EffectClass::Idempotent,
            Self::Post | Self::Patch => EffectClass::Unsafe,
        }
    }

    /// Says whether a call without a `body` sends `{}`.
    pub(crate) fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// What may repeat when nobody knows whether an effect took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Changes nothing: again.
    Read,
    /// Twice is the same as once: again.
    Idempotent,
    /// The receiver knows the key: again with the same one.
    Keyed,
    /// Twice is wrong.
    Unsafe,
}

impl EffectClass {
    pub(crate) const ALL: [(&'static str, Self); 4] = [
        ("read", Self::Read),
        ("idempotent", Self::Idempotent),
        ("keyed", Self::Keyed),
        ("unsafe", Self::Unsafe),
    ];
}

/// A mail. Its class is [`EffectClass::Unsafe`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Email {
    /// The server's host, from literals, tenant settings and config alone.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// How the connection is protected.
    pub security: Security,
    /// The name to log in with; no login where absent.
    pub username: Option<Text>,
    /// The password.
    pub password: Option<Text>,
    /// The sender's address.
    pub from: String,
    /// The recipients.
    pub to: Vec<String>,
    /// Recipients of copies.
    pub cc: Vec<String>,
    /// Recipients of copies that the others do not see.
    pub bcc: Vec<String>,
    /// Where answers go.
    pub reply_to: Option<String>,
    /// The subject.
    pub subject: String,
    /// The plain text.
    pub body: String,
    /// The same as HTML.
    pub html: Option<String>,
    /// Longest time, in milliseconds.
    pub timeout_ms: u64,
}

/// How a connection to a mail server is protected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Security {
    /// Upgraded before anything is sent, or refused.
    #[default]
    Starttls,
    /// TLS from the first byte.
    Tls,
    /// Not at all.
    None,
}

impl Security {
    pub(crate) const ALL: [(&'static str, Self); 3] =
        [("starttls", Self::Starttls), ("tls", Self::Tls), ("none", Self::None)];
}

/// A call of another tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolRequest {
    /// The tool's internal name, such as `google_calendar.list_events`.
    pub name: String,
    /// Its arguments, an object.
    pub arguments: Value,
    /// The arguments that the document writes as a template and that came to nothing: they are null in `arguments`, and can be
    /// left out where the tool does not require them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// A transfer of the telephone call that the run is. Its class is [`EffectClass::Unsafe`].
///
/// That it was asked for says nothing of whether the call is taken where it goes: if the call then ends, it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Where the call goes: a `sip:`, `sips:` or `tel:` address of at most 256 bytes.
    pub target: String,
}

impl Transfer {
    /// Most bytes of an address.
    pub const TARGET_BYTES_MAX: usize = 256;

    /// A transfer to an address as people write it: a bare number becomes a `tel:` address without its blanks. `None` where the
    /// text is no address, or one with headers (`?`), which would say more than where the call goes.
    pub fn to(address: &str) -> Option<Self> {
        let address = address.trim();
        let is_number = address.bytes().any(|byte| byte.is_ascii_digit())
            && address
                .strip_prefix('+')
                .unwrap_or(address)
                .bytes()
                .all(|byte| byte.is_ascii_digit() || b" -.".contains(&byte));
        let target = match is_number {
            true => {
                let digits = address.chars().filter(|one| one.is_ascii_digit() || *one == '+');
                core::iter::once("tel:").flat_map(str::chars).chain(digits).collect()
            }
            false => String::from(address),
        };
        let rest = ["sip:", "sips:", "tel:"].iter().find_map(|scheme| {
            let start = target.get(..scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then(|| &target[scheme.len()..])
        })?;
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"<>\"?#".contains(&byte);
        let is_tel = target.as_bytes()[0].eq_ignore_ascii_case(&b't');
        let digits = rest.split(';').next().unwrap_or_default();
        let digits = digits.strip_prefix('+').unwrap_or(digits);
        let is_dialled = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let fits = !rest.is_empty()
            && target.len() <= Self::TARGET_BYTES_MAX
            && rest.bytes().all(is_plain)
            && (is_dialled || !is_tel);
        fits.then_some(Self { target })
    }
}

/// What came of an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectOutcome {
    /// The endpoint answered, with whatever status.
    Response(ApiResponse),
    /// The mail was accepted.
    Sent {
        /// What the server calls it.
        message_id: Option<String>,
    },
    /// The tool ended well.
    Returned {
        /// Its output.
        output: Value,
    },
    /// The transfer was asked for, or may have been: the end of the call shows whether it was made.
    Requested,
    /// There is no answer, or a refusal. For a tool, also that it failed.
    Failed(EffectFailure),
}

/// The answer of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApiResponse {
    /// The status of the last attempt.
    pub status: u16,
    /// The headers that the shell keeps, names in lower case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// JSON by content type, else text.
    #[serde(default)]
    pub body: Value,
    /// How many attempts there were.
    #[serde(default)]
    pub attempts: u32,
    /// Where the body breaks `response_schema`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EffectFailure {
    /// The code that the call reports.
    pub code: ErrorCode,
    /// Why, for people.
    pub message: String,
    /// More than the code, in one word, such as `response_too_large`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many attempts there were.
    #[serde(default)]
    pub attempts: u32,
    /// The list ends with it, whatever `on_error` says: the effect may have taken place, or a person said no.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub ends: bool,
    /// What a tool that was called says of its failure besides, such as `status` and `violations`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

impl EffectFailure {
    /// A failure without further details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), reason: None, attempts: 0, ends: false, details: Map::new() }
    }
}

impl From<ToolError> for EffectFailure {
    /// The failure of a tool that another one called, in its own words.
    fn from(error: ToolError) -> Self {
        let ToolError { code, message, mut details, action: _ } = error;
        let reason = details.remove("reason").and_then(|reason| reason.as_str().map(String::from));
        Self { reason, details, ..Self::new(code, message) }
    }
}

impl ToolRequest {
    /// Leaves out the arguments that came to nothing, but for those that the tool requires.
    pub fn leave_out(&mut self, is_required: impl Fn(&str) -> bool) {
        if let Value::Object(arguments) = &mut self.arguments {
            for name in self.absent.drain(..).filter(|name| !is_required(name)) {
                arguments.remove(&name);
            }
        }
    }
}

/// The arguments that are written as templates and came to nothing, in the order of their names. A `null` that is written as
/// such is meant.
pub fn absent_arguments(written: &Value, arguments: &Value) -> Vec<String> {
    let Value::Object(arguments) = arguments else { return Vec::new() };
    let is_template = |name: &str| written.get(name).is_some_and(Value::is_string);
    let absent = arguments.iter().filter(|(name, value)| value.is_null() && is_template(name));
    let mut names: Vec<String> = absent.map(|(name, _)| name.clone()).collect();
    names.sort_unstable();
    names
}

impl EffectRequest {
    /// The request's kind and object in a few words, without secrets.
    pub fn label(&self) -> String {
        match self {
            Self::ApiCall(call) => alloc::format!("{} {}", call.method.as_str(), call.url),
            Self::Email(mail) => alloc::format!("mail to {}", mail.to.join(", ")),
            Self::Tool(tool) => alloc::format!("tool `{}`", tool.name),
            Self::Transfer(transfer) => alloc::format!("transfer to {}", transfer.target),
        }
    }

    /// What may repeat; another tool has classes of its own.
    pub fn class(&self) -> Option<EffectClass> {
        match self {
            Self::ApiCall(call) => Some(call.class),
            Self::Email(_) | Self::Transfer(_) => Some(EffectClass::Unsafe),
            Self::Tool(_) => None,
        }
    }

    /// Says whether `outcome` is an answer to this kind of request; a failure answers all.
    pub(crate) fn accepts(&self, outcome: &EffectOutcome) -> bool {
        match outcome {
            EffectOutcome::Response(_) => matches!(self, Self::ApiCall(_)),
            EffectOutcome::Sent { .. } => matches!(self, Self::Email(_)),
            EffectOutcome::Returned { .. } => matches!(self, Self::Tool(_)),
            EffectOutcome::Requested => matches!(self, Self::Transfer(_)),
            EffectOutcome::Failed(_) => true,
        }
    }
}
