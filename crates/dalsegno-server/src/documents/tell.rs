//! What a client learns of a document, and of what is wrong with one.

use std::path::Path;

use axum::http::{HeaderName, HeaderValue};
use dalsegno_access::{Access, Scope};
use dalsegno_catalogue::{Author, ChangeError, DocumentId, DocumentKind};
use dalsegno_core::Timestamp;
use dalsegno_runtime::{DocumentCheck, DocumentFailure, ErrorKind, Layer, ShownDocument};
use dalsegno_wire::schema;
use dalsegno_workspace::{Code as FoundCode, Diagnostic as Found, Severity};
use serde::Serialize;
use utoipa::ToSchema;

use super::target::no_document;
use crate::problem::{Code, Problem};

/// The header that says where a document comes from.
pub(super) const LAYER: HeaderName = HeaderName::from_static("dalsegno-layer");

/// Most diagnostics in one answer.
const DIAGNOSTICS_MAX: usize = 200;

pub(super) const fn layer(layer: Layer) -> &'static str {
    match layer {
        Layer::File => "file",
        Layer::Catalogue => "catalogue",
    }
}

/// The media type of a document.
pub(super) const fn media_type(kind: DocumentKind) -> HeaderValue {
    HeaderValue::from_static(match kind {
        DocumentKind::Tool => "application/json",
        DocumentKind::Agent | DocumentKind::Tenant => "application/toml",
    })
}

/// A document as it is in use: all but its text.
#[derive(Serialize, ToSchema)]
pub(crate) struct DocumentEntry {
    /// `agent`, `tool` or `tenant`.
    kind: &'static str,
    /// Its name.
    name: String,
    /// The tenant, for a tool of a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// Where it comes from: `file` or `catalogue`.
    layer: &'static str,
    /// The version: the hash of the text.
    version: String,
    /// The number of the change that wrote it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    /// When it was written, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Time>)]
    changed: Option<String>,
    /// The key that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<DocumentAuthor>,
}

impl DocumentEntry {
    pub(super) fn of(id: &DocumentId, shown: &ShownDocument) -> Self {
        let written = shown.written.as_ref();
        Self {
            kind: id.kind().as_str(),
            name: id.name().to_owned(),
            tenant: id.tenant().map(str::to_owned),
            layer: layer(shown.layer),
            version: shown.version.to_string(),
            number: written.map(|written| written.number),
            changed: written.map(|written| time(written.at)),
            by: written.map(|written| DocumentAuthor::of(&written.by)),
        }
    }
}

/// The key that made a change.
#[derive(Serialize, ToSchema)]
pub(crate) struct DocumentAuthor {
    /// The id of the key.
    key: String,
    /// The name of the key.
    #[schema(required)]
    name: Option<String>,
}

impl DocumentAuthor {
    pub(super) fn of(by: &Author) -> Self {
        Self { key: by.key.clone(), name: by.name.clone() }
    }
}

pub(super) fn time(millis: u64) -> String {
    dalsegno_wire::time::exact(Timestamp::from_millis(millis))
}

/// Something that is wrong with a document. About what is not the tenant's own, a key of a tenant learns the code and the agent.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Diagnostic {
    /// The stable name of the diagnostic; it has a page in the book.
    #[schema(value_type = String)]
    pub(crate) code: FoundCode,
    /// `error`, `warning` or `note`.
    #[schema(value_type = String)]
    pub(crate) severity: Severity,
    /// What is wrong.
    pub(crate) message: String,
    /// The document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    /// What stands at the place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) help: Option<String>,
    #[serde(flatten)]
    #[schema(value_type = Spot)]
    pub(crate) place: Option<Spot>,
}

/// A place in a text. What has no place has none of its keys.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Spot {
    /// The line, from 1.
    #[schema(required = false)]
    pub(crate) line: usize,
    /// The column, from 1.
    #[schema(required = false)]
    pub(crate) column: usize,
    /// The byte at which the place begins.
    #[schema(required = false)]
    pub(crate) offset: usize,
    /// The bytes of the place.
    #[schema(required = false)]
    pub(crate) length: usize,
}

/// Problems of documents, as far as the client may read of them. With the key of a tenant those of its own documents are told in
/// full; of others no more than which agent it is, since their words may quote what is not the tenant's.
pub(crate) fn diagnostics(found: &[Found], access: &Access) -> Vec<Diagnostic> {
    found.iter().take(DIAGNOSTICS_MAX).map(|found| diagnostic(found, access)).collect()
}

fn diagnostic(found: &Found, access: &Access) -> Diagnostic {
    let Found { code, severity, message, file, label, help, span, start } = found;
    let (code, severity) = (*code, *severity);
    if !access.tenant().is_none_or(|tenant| is_of(file, tenant)) {
        let agent = below_catalogue(file).strip_prefix("agents").ok().and_then(Path::file_stem);
        let message = match agent {
            Some(agent) => {
                format!("the agent `{}` cannot be used with this document", agent.to_string_lossy())
            }
            None => "another part of the workspace cannot be used with this document".to_owned(),
        };
        return Diagnostic { code, severity, message, file: None, label: None, help: None, place: None };
    }
    let place = span.as_ref().zip(start.as_ref()).map(|(span, start)| Spot {
        line: start.line,
        column: start.column,
        offset: span.start,
        length: span.len(),
    });
    let (message, file) = (message.clone(), Some(slashes(file)));
    Diagnostic { code, severity, message, file, label: label.clone(), help: help.clone(), place }
}

/// A document or file as the workspace's folder would have it.
fn below_catalogue(file: &Path) -> &Path {
    file.strip_prefix("catalogue").unwrap_or(file)
}

/// Says whether a file or document belongs to a tenant.
fn is_of(file: &Path, tenant: &str) -> bool {
    let file = below_catalogue(file);
    let tenants = Path::new("tenants");
    file == tenants.join(format!("{tenant}.toml")) || file.starts_with(tenants.join(tenant))
}

pub(crate) fn slashes(file: &Path) -> String {
    file.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// The answer to a document with errors.
pub(super) fn invalid(check: &DocumentCheck, access: &Access) -> Problem {
    let agents: Vec<&str> = check.agents.iter().map(String::as_str).collect();
    let detail = match agents[..] {
        [] => "the document has errors".to_owned(),
        [one] => format!("the agent `{one}` would not work with this document"),
        _ => format!("the agents {} would not work with this document", quoted(&agents)),
    };
    Problem::new(Code::Invalid, detail, "correct what `diagnostics` says, and send it again")
        .with_diagnostics(diagnostics(&check.errors, access))
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The answer to a request that failed.
pub(crate) fn failure(failure: DocumentFailure, access: &Access) -> Problem {
    match failure {
        DocumentFailure::Unknown => no_document(),
        DocumentFailure::Invalid(check) => invalid(&check, access),
        DocumentFailure::Stale { found } => {
            let detail = match found {
                Some(found) => format!("the document is at the version `{found}`"),
                None => "there is no such document".to_owned(),
            };
            Problem::new(
                Code::Stale,
                detail,
                "read it again with `GET`, and make your change in what you get",
            )
        }
        DocumentFailure::IsFile => Problem::new(
            Code::Conflict,
            failure.to_string(),
            "remove the file in the workspace's folder, or let a document stand in for it with `PUT`",
        ),
        DocumentFailure::Terms => Problem::forbidden(access, Scope::TenantsAdmin),
        DocumentFailure::Limit(ref limit) => {
            let code =
                if matches!(limit, ChangeError::TooLarge { .. }) { Code::TooLarge } else { Code::Conflict };
            Problem::new(
                code,
                limit.to_string(),
                "see the limits in the book, at \"Change documents by API\"",
            )
        }
        DocumentFailure::Busy => {
            Problem::new(Code::Unavailable, failure.to_string(), "try again").retry_after(1)
        }
        // Which part it is concerns the operator.
        DocumentFailure::Workspace { ref diagnostics } => {
            let first = diagnostics.first().map(ToString::to_string).unwrap_or_default();
            tracing::error!(
                problem = first,
                "a document was not changed, since the workspace cannot be used"
            );
            Problem::new(Code::Conflict, failure.to_string(), "ask who operates the server")
        }
        DocumentFailure::Off => {
            Problem::new(Code::Conflict, failure.to_string(), "change the files of the workspace instead")
        }
        DocumentFailure::Engine(error) => (*error).into(),
        error => Problem::internal(ErrorKind::Unavailable, &error),
    }
}
