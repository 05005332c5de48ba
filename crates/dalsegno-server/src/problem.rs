//! Errors as clients read them: RFC 9457.

use std::borrow::Cow;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use dalsegno_access::{Access, Refused, Scope};
use dalsegno_history::{ErrorKind, HistoryError};
use dalsegno_runtime::EngineError;
use dalsegno_store::{CreateError, ReadError};
use serde::Serialize;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::documents::Diagnostic;

/// The stable name of an error. Each one has a page in the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The request is not understood.
    BadRequest,
    /// There is no good key in the request.
    Unauthenticated,
    /// The key does not allow it.
    Forbidden,
    /// There is no such thing, or it belongs to another tenant.
    NotFound,
    /// The run is in a state that does not allow it.
    Conflict,
    /// The idempotency key was used for another request.
    KeyConflict,
    /// The request is understood, and something in it is wrong.
    Invalid,
    /// The request does not say which version it changes.
    PreconditionRequired,
    /// What the request changes is at another version.
    Stale,
    /// The request is larger than is taken.
    TooLarge,
    /// The client sends more than it may.
    TooMany,
    /// The request did not arrive in its time.
    TooSlow,
    /// The content was erased.
    Erased,
    /// The server cannot do it now.
    Unavailable,
    /// What was stored cannot be used, or the server is wrong.
    ServerError,
}

impl Code {
    /// Every code.
    pub const ALL: &[Self] = &[
        Self::BadRequest,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::Conflict,
        Self::KeyConflict,
        Self::Invalid,
        Self::PreconditionRequired,
        Self::Stale,
        Self::TooLarge,
        Self::TooMany,
        Self::TooSlow,
        Self::Erased,
        Self::Unavailable,
        Self::ServerError,
    ];

    /// The code as it is sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::KeyConflict => "key_conflict",
            Self::Invalid => "invalid",
            Self::PreconditionRequired => "precondition_required",
            Self::Stale => "stale",
            Self::TooLarge => "too_large",
            Self::TooMany => "too_many",
            Self::TooSlow => "too_slow",
            Self::Erased => "erased",
            Self::Unavailable => "server_unavailable",
            Self::ServerError => "server_error",
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "The request is not understood",
            Self::Unauthenticated => "A good access key or token is missing",
            Self::Forbidden => "The access key or token does not allow this",
            Self::NotFound => "Not found",
            Self::Conflict => "The state of the run does not allow this",
            Self::KeyConflict => "The idempotency key was used for another request",
            Self::Invalid => "Something in the request is wrong",
            Self::PreconditionRequired => "The request does not name a version",
            Self::Stale => "The document is at another version",
            Self::TooLarge => "The request is too large",
            Self::TooMany => "Too many requests",
            Self::TooSlow => "The request did not arrive in time",
            Self::Erased => "The content was erased",
            Self::Unavailable => "The server cannot do this now",
            Self::ServerError => "The server failed",
        }
    }

    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Conflict | Self::KeyConflict => StatusCode::CONFLICT,
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Self::PreconditionRequired => StatusCode::PRECONDITION_REQUIRED,
            Self::Stale => StatusCode::PRECONDITION_FAILED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Erased => StatusCode::GONE,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// An error that a client gets.
#[derive(Debug)]
pub(crate) struct Problem {
    code: Code,
    status: StatusCode,
    detail: String,
    help: String,
    violations: Vec<Violation>,
    /// What is wrong with documents, each with its place.
    diagnostics: Vec<Diagnostic>,
    retry_after: Option<u64>,
}

/// What a client has shown, in words.
pub(crate) fn shown(access: &Access) -> &'static str {
    if access.token_ends().is_some() { "token" } else { "access key" }
}

/// Something in the request that is wrong.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Violation {
    /// A JSON pointer into the body, or the name of a parameter or header.
    pub(crate) pointer: String,
    /// What is wrong there.
    pub(crate) message: String,
}

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(Self::ALL.iter().map(|code| code.as_str())))
            .description(Some("The stable name of a problem."))
            .into()
    }
}

impl ToSchema for Code {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("ProblemCode")
    }
}

/// A problem as RFC 9457 describes it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Document {
    /// The page of the code in the book, as a relative reference.
    #[schema(examples("/errors/not_found"))]
    r#type: String,
    /// The code in words.
    title: &'static str,
    /// The status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// The stable name of the problem.
    #[schema(value_type = Code)]
    code: &'static str,
    /// What was wrong with this request.
    detail: String,
    /// What to do next.
    help: String,
    /// Each place that is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violations: Vec<Violation>,
    /// What is wrong with documents, each with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    diagnostics: Vec<Diagnostic>,
}

impl Problem {
    /// What is wrong, and one thing to do.
    pub(crate) fn new(code: Code, detail: impl Into<String>, help: impl Into<String>) -> Self {
        let (detail, help, status) = (detail.into(), help.into(), code.status());
        let (violations, diagnostics) = (Vec::new(), Vec::new());
        Self { code, status, detail, help, violations, diagnostics, retry_after: None }
    }

    /// The answer for a run that is not there, or belongs to another tenant: the same in both cases.
    pub(crate) fn no_run() -> Self {
        Self::new(Code::NotFound, "there is no such run", "list the runs of your tenant with `GET /v1/runs`")
    }

    /// A parameter that cannot be used.
    pub(crate) fn parameter(name: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        let message = message.into();
        let problem = Self::new(Code::BadRequest, format!("`{name}` {message}"), help);
        problem.at(name, message)
    }

    /// The same with the place of what is wrong.
    pub(crate) fn at(mut self, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        self.violations.push(Violation { pointer: pointer.into(), message: message.into() });
        self
    }

    /// The same with what is wrong with documents.
    pub(crate) fn with_diagnostics(self, diagnostics: Vec<Diagnostic>) -> Self {
        Self { diagnostics, ..self }
    }

    /// The same with another status.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// The same with the seconds after which to try again.
    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn forbidden(access: &Access, scope: Scope) -> Self {
        match access.token_ends() {
            None => Self::new(
                Code::Forbidden,
                format!("the access key does not have the scope `{scope}`"),
                format!("use a key that was made with `dalsegno key add --scope {scope}`"),
            ),
            Some(_) => Self::new(
                Code::Forbidden,
                format!("the token does not give the scope `{scope}`"),
                "have a claim of the token name a value that gives it in `[serve.oidc.scopes]` of dalsegno.toml",
            ),
        }
    }

    /// Says whether the server cannot do it now.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.code == Code::Unavailable
    }

    /// Says whether the content is gone.
    pub(crate) fn is_erased(&self) -> bool {
        self.code == Code::Erased
    }

    /// Says whether the request does not fit the state of the run.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code == Code::Conflict
    }

    /// Says whether something in the request is wrong, which can be corrected.
    pub(crate) fn is_invalid(&self) -> bool {
        matches!(self.code, Code::Invalid | Code::BadRequest)
    }

    /// Says whether what the request names is not there.
    pub(crate) fn is_unknown(&self) -> bool {
        self.code == Code::NotFound
    }

    pub(crate) fn stopping() -> Self {
        let help =
            "try again: another process of this workspace answers, or this one when it is started again";
        Self::new(Code::Unavailable, "the server is stopping", help).retry_after(1)
    }

    /// A request whose work ended with a panic.
    pub(crate) fn defect(error: &tokio::task::JoinError) -> Self {
        Self::internal(ErrorKind::Defect, error)
    }

    /// Trouble that is the server's own: a client learns that there is some, and the log says what.
    pub(crate) fn internal(kind: ErrorKind, error: &dyn std::error::Error) -> Self {
        tracing::error!(error = %chain(error), "a request failed");
        match kind {
            ErrorKind::Unavailable => Self::new(
                Code::Unavailable,
                "something that the request needs does not answer",
                "try again later",
            )
            .retry_after(2),
            _ => Self::new(
                Code::ServerError,
                "the request could not be completed; the log of the server says why",
                "ask who operates the server; `dalsegno doctor` examines its journal",
            ),
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words.push_str(": ");
        words.push_str(&cause.to_string());
        source = cause.source();
    }
    words
}

impl Problem {
    /// The problem as JSON.
    pub(crate) fn document(&self) -> serde_json::Value {
        let document = Document {
            r#type: format!("/errors/{}", self.code.as_str()),
            title: self.code.title(),
            status: self.status.as_u16(),
            code: self.code.as_str(),
            detail: self.detail.clone(),
            help: self.help.clone(),
            violations: self.violations.clone(),
            diagnostics: self.diagnostics.clone(),
        };
        // It is texts and a number, which always have a JSON form.
        serde_json::to_value(document).unwrap_or_default()
    }
}

/// A problem as JSON, beside the answer that has it as its body.
#[derive(Debug, Clone)]
pub(crate) struct Told(pub(crate) serde_json::Value);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, retry_after, .. } = self;
        let mut response = (status, self.document().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // The pages say the same in another form.
        response.extensions_mut().insert(Told(self.document()));
        response
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match &refused {
            Refused::Unavailable(error) => Self::internal(ErrorKind::Unavailable, error),
            // The log has said why.
            Refused::Issuer => {
                Self::new(Code::Unavailable, refused.to_string(), "try again later").retry_after(10)
            }
            Refused::Token | Refused::TokenExpired => Self::new(
                Code::Unauthenticated,
                refused.to_string(),
                "get another token from the identity provider; the log of the server says why one is not accepted",
            ),
            _ => Self::new(
                Code::Unauthenticated,
                refused.to_string(),
                "send `Authorization: Bearer KEY` with a key that `dalsegno key add` made",
            ),
        }
    }
}

impl From<HistoryError> for Problem {
    fn from(error: HistoryError) -> Self {
        match (&error, error.kind()) {
            (HistoryError::Read(ReadError::Erased { .. }), _) => erased(),
            (HistoryError::Read(ReadError::UnknownRun { .. }), _) => Self::no_run(),
            // It depends on the run: it has no such step or operation.
            (HistoryError::Fork { .. }, _) => {
                Self::new(Code::Conflict, error.to_string(), "see the steps in `GET /v1/runs/{id}/events`")
            }
            (_, ErrorKind::Invalid) => {
                Self::new(Code::Invalid, error.to_string(), "correct the request, and send it again")
            }
            (_, ErrorKind::Conflict) => {
                Self::new(Code::Conflict, error.to_string(), "look at the run with `GET /v1/runs/{id}`")
            }
            (_, kind) => Self::internal(kind, &error),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        HistoryError::from(error).into()
    }
}

fn erased() -> Problem {
    Problem::new(
        Code::Erased,
        "content of this run was erased for ever",
        "see what is kept of it with `GET /v1/runs`",
    )
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::History(error) => error.into(),
            EngineError::Create(CreateError::KeyConflict { .. }) => Self::new(
                Code::KeyConflict,
                "the idempotency key was used for a request with another body",
                "send the same body again, or use another key",
            ),
            // A tenant learns nothing of others.
            EngineError::Tenant(_) => Self::new(
                Code::NotFound,
                "there is no tenant of this name that can be used",
                "check its name and its file with `dalsegno check`",
            ),
            error => match error.kind() {
                ErrorKind::Invalid => {
                    Self::new(Code::Invalid, error.to_string(), "correct the request, and send it again")
                }
                ErrorKind::NotFound => {
                    Self::new(Code::NotFound, error.to_string(), "see `GET /v1/agents` and `GET /v1/runs`")
                }
                ErrorKind::Conflict | ErrorKind::Suspended | ErrorKind::Interrupted => {
                    Self::new(Code::Conflict, error.to_string(), "look at the run with `GET /v1/runs/{id}`")
                }
                kind => Self::internal(kind, &error),
            },
        }
    }
}
