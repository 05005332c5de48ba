//! Documents are checked, written and deleted.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::{Access, Scope};
use dalsegno_catalogue::{Author, DocumentId, DocumentKind, Limits};
use dalsegno_runtime::{DocumentChange, DocumentChanged, DocumentCheck, DocumentFailure, Expected};
use serde::Serialize;
use utoipa::ToSchema;

use super::target::Target;
use super::tell::{Diagnostic, DocumentEntry};
use super::{etag, tell};
use crate::body;
use crate::problem::{Code, Problem};
use crate::shared::Shared;

/// A document that was written.
#[derive(Serialize, ToSchema)]
pub(crate) struct WrittenDocument {
    #[serde(flatten)]
    entry: DocumentEntry,
    /// What of it works, but probably not as intended.
    diagnostics: Vec<Diagnostic>,
}

/// What is in use after a deletion.
#[derive(Serialize, ToSchema)]
pub(crate) struct Uncovered {
    /// The file that was below it; null if there is none.
    #[schema(required)]
    uncovers: Option<DocumentEntry>,
}

/// What the check of a document found.
#[derive(Serialize, ToSchema)]
pub(crate) struct CheckedDocument {
    /// Whether it can be written.
    ok: bool,
    /// What the check found, each with its place.
    diagnostics: Vec<Diagnostic>,
    /// The agents that would not work with it.
    agents: Vec<String>,
    /// The scopes that writing it takes besides.
    scopes: Vec<String>,
}

/// Writes a document, after it was checked with everything that it touches.
pub(crate) async fn put(
    State(shared): State<Arc<Shared>>,
    Target { access, id, .. }: Target,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    let expected = etag::expected(&headers)?;
    let path = request.uri().path().to_owned();
    let text = document(&shared, id.kind(), request).await?;
    let changed = change(&shared, &access, &id, Some(text), expected).await?;
    let changed = changed.map_err(|failure| tell::failure(failure, &access))?;
    let DocumentChanged { is_first, shown: Some(shown), warnings, .. } = changed else {
        return Err(super::target::no_document());
    };
    let diagnostics = tell::diagnostics(&warnings, &access);
    let entry = WrittenDocument { entry: DocumentEntry::of(&id, &shown), diagnostics };
    let status = if is_first { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = (status, Json(entry)).into_response();
    response.headers_mut().insert(ETAG, etag::tag(shown.version));
    if let (true, Ok(location)) = (is_first, HeaderValue::try_from(path)) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// Deletes a document, so that the file below it is in use again, if there is one.
pub(crate) async fn delete(
    State(shared): State<Arc<Shared>>,
    Target { access, id, .. }: Target,
    headers: HeaderMap,
) -> Result<Json<Uncovered>, Problem> {
    let expected = etag::expected(&headers)?;
    let changed = change(&shared, &access, &id, None, expected).await?;
    let changed = changed.map_err(|failure| tell::failure(failure, &access))?;
    Ok(Json(Uncovered { uncovers: changed.shown.map(|shown| DocumentEntry::of(&id, &shown)) }))
}

/// Checks a document with everything that it touches, and writes nothing.
pub(crate) async fn check(
    State(shared): State<Arc<Shared>>,
    Target { access, id, .. }: Target,
    request: Request,
) -> Result<Json<CheckedDocument>, Problem> {
    let text = document(&shared, id.kind(), request).await?;
    let checked = judge(&shared, &access, &id, text).await?;
    let checked = checked.map_err(|failure| tell::failure(failure, &access))?;
    let is_good = checked.errors.is_empty() && checked.agents.is_empty();
    let found: Vec<_> = checked.errors.iter().chain(&checked.warnings).cloned().collect();
    let scopes: &[&str] = if checked.changes_terms { &[Scope::TenantsAdmin.as_str()] } else { &[] };
    Ok(Json(CheckedDocument {
        ok: is_good,
        diagnostics: tell::diagnostics(&found, &access),
        agents: checked.agents.into_iter().collect(),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
    }))
}

/// Changes a document on behalf of a client; without a text it is deleted.
pub(crate) async fn change(
    shared: &Arc<Shared>,
    access: &Access,
    id: &DocumentId,
    text: Option<String>,
    expected: Expected,
) -> Result<Result<DocumentChanged, DocumentFailure>, Problem> {
    let by = author(access);
    let may_set_terms = access.may(Scope::TenantsAdmin);
    let change = DocumentChange { id: id.clone(), text, expected, by, may_set_terms };
    let turn = shared.turns.of(access).await;
    let engine = shared.engine.clone();
    shared
        .whole(async move {
            let _turn = turn;
            Ok(engine.change_document(change).await)
        })
        .await
}

/// Checks a text in the place of a document. The turn ends with the work, and not when the client gives up.
pub(crate) async fn judge(
    shared: &Arc<Shared>,
    access: &Access,
    id: &DocumentId,
    text: String,
) -> Result<Result<DocumentCheck, DocumentFailure>, Problem> {
    let turn = shared.turns.of(access).await;
    let (engine, id) = (shared.engine.clone(), id.clone());
    shared
        .whole(async move {
            let _turn = turn;
            Ok(engine.check_document(&id, Some(text)).await)
        })
        .await
}

/// Reads the text of a document.
async fn document(shared: &Shared, kind: DocumentKind, request: Request) -> Result<String, Problem> {
    let given = request.headers().get(CONTENT_TYPE).map(|given| given.as_bytes().to_ascii_lowercase());
    let given = given.as_deref().and_then(|given| given.split(|byte| *byte == b';').next());
    let wanted = tell::media_type(kind);
    if given.map(<[u8]>::trim_ascii) != Some(wanted.as_bytes()) {
        let wanted = String::from_utf8_lossy(wanted.as_bytes()).into_owned();
        let problem = Problem::parameter(
            "content-type",
            format!("is not `{wanted}`"),
            format!("send the document itself with `Content-Type: {wanted}`"),
        );
        return Err(problem.with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let bytes = body::collect(request.into_body(), shared.settings.body).await?;
    bounded(kind, &bytes)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let detail = format!("the document is not UTF-8: byte {at} is not part of a character");
        Problem::new(Code::BadRequest, detail, "send it as UTF-8")
    })
}

/// Refuses a document that is too long, or nested too deep.
pub(crate) fn bounded(kind: DocumentKind, bytes: &[u8]) -> Result<(), Problem> {
    let most = Limits::default().document;
    if bytes.len() as u64 > most {
        let detail = format!("the document has {} bytes, and at most {most} are taken", bytes.len());
        return Err(Problem::new(Code::TooLarge, detail, "split it into several documents"));
    }
    // TOML has a limit of its own, in its reader.
    if kind == DocumentKind::Tool && body::depth(bytes) > body::DEPTH {
        let detail = format!("the document is nested deeper than {} levels", body::DEPTH);
        return Err(Problem::new(Code::BadRequest, detail, "send one with fewer levels"));
    }
    Ok(())
}

fn author(access: &Access) -> Author {
    Author { key: access.key().to_owned(), name: access.name().map(str::to_owned) }
}
