//! What a client learns of a document, and of what is wrong with one.

use std::path::Path;

use axum::http::{HeaderName, HeaderValue};
use dalsegno_access::{Access, Scope};
use dalsegno_catalogue::{Author, ChangeError, DocumentId, DocumentKind};
use dalsegno_core::Timestamp;
use dalsegno_runtime::{DocumentCheck, DocumentFailure, ErrorKind, Layer, ShownDocument};
use dalsegno_workspace::Diagnostic;
use serde_json::{Value, json};

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

/// A document in an answer to a change: all but its text.
pub(super) fn entry(id: &DocumentId, shown: &ShownDocument) -> Value {
    let mut entry = json!({
        "kind": id.kind().as_str(),
        "name": id.name(),
        "layer": layer(shown.layer),
        "version": shown.version.to_string(),
    });
    if let Some(tenant) = id.tenant() {
        entry["tenant"] = json!(tenant);
    }
    if let Some(written) = &shown.written {
        entry["number"] = json!(written.number);
        entry["changed"] = json!(dalsegno_wire::time::exact(Timestamp::from_millis(written.at)));
        entry["by"] = author(&written.by);
    }
    entry
}

pub(super) fn author(by: &Author) -> Value {
    json!({ "key": by.key, "name": by.name })
}

/// Problems of documents, as far as the client may read of them. With the key of a tenant those of its own documents are told in
/// full; of others no more than which agent it is, since their words may quote what is not the tenant's.
pub(super) fn diagnostics(found: &[Diagnostic], access: &Access) -> Vec<Value> {
    found.iter().take(DIAGNOSTICS_MAX).map(|found| diagnostic(found, access)).collect()
}

fn diagnostic(found: &Diagnostic, access: &Access) -> Value {
    let Diagnostic { code, severity, message, file, label, help, span, start } = found;
    let mut told = json!({ "code": code, "severity": severity });
    if !access.tenant().is_none_or(|tenant| is_of(file, tenant)) {
        let agent = file.file_stem().filter(|_| file.iter().any(|part| part == "agents"));
        told["message"] = json!(match agent {
            Some(agent) =>
                format!("the agent `{}` cannot be used with this document", agent.to_string_lossy()),
            None => "another part of the workspace cannot be used with this document".to_owned(),
        });
        return told;
    }
    told["file"] = json!(slashes(file));
    told["message"] = json!(message);
    told["label"] = json!(label);
    told["help"] = json!(help);
    if let (Some(span), Some(start)) = (span, start) {
        told["line"] = json!(start.line);
        told["column"] = json!(start.column);
        told["offset"] = json!(span.start);
        told["length"] = json!(span.len());
    }
    told
}

/// Says whether a file or document belongs to a tenant.
fn is_of(file: &Path, tenant: &str) -> bool {
    let file = file.strip_prefix("catalogue").unwrap_or(file);
    let tenants = Path::new("tenants");
    file == tenants.join(format!("{tenant}.toml")) || file.starts_with(tenants.join(tenant))
}

fn slashes(file: &Path) -> String {
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
pub(super) fn failure(failure: DocumentFailure, access: &Access) -> Problem {
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
        DocumentFailure::Terms => Problem::forbidden(Scope::TenantsAdmin),
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
