//! Documents are checked, written and deleted.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::{Access, Scope};
use dalsegno_catalogue::{Author, DocumentKind, Limits};
use dalsegno_runtime::{DocumentChange, DocumentChanged};
use serde_json::{Value, json};

use super::target::Target;
use super::{etag, tell};
use crate::body;
use crate::problem::{Code, Problem};
use crate::shared::Shared;

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
    let change = DocumentChange {
        id: id.clone(),
        text: Some(text),
        expected,
        by: author(&access),
        may_set_terms: access.may(Scope::TenantsAdmin),
    };
    let turn = shared.turns.of(&access).await;
    let engine = shared.engine.clone();
    let changed = Shared::whole(async move {
        let _turn = turn;
        Ok(engine.change_document(change).await)
    });
    let changed = changed.await?;
    let changed = changed.map_err(|failure| tell::failure(failure, &access))?;
    let DocumentChanged { is_first, shown: Some(shown), warnings, .. } = changed else {
        return Err(super::target::no_document());
    };
    let mut entry = tell::entry(&id, &shown);
    entry["diagnostics"] = json!(tell::diagnostics(&warnings, &access));
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
) -> Result<Json<Value>, Problem> {
    let expected = etag::expected(&headers)?;
    let change = DocumentChange {
        id: id.clone(),
        text: None,
        expected,
        by: author(&access),
        may_set_terms: access.may(Scope::TenantsAdmin),
    };
    let turn = shared.turns.of(&access).await;
    let engine = shared.engine.clone();
    let changed = Shared::whole(async move {
        let _turn = turn;
        Ok(engine.change_document(change).await)
    });
    let changed = changed.await?;
    let changed = changed.map_err(|failure| tell::failure(failure, &access))?;
    Ok(Json(json!({ "uncovers": changed.shown.map(|shown| tell::entry(&id, &shown)) })))
}

/// Checks a document with everything that it touches, and writes nothing.
pub(crate) async fn check(
    State(shared): State<Arc<Shared>>,
    Target { access, id, .. }: Target,
    request: Request,
) -> Result<Json<Value>, Problem> {
    let text = document(&shared, id.kind(), request).await?;
    let _turn = shared.turns.of(&access).await;
    let checked = shared.engine.check_document(&id, Some(text)).await;
    let checked = checked.map_err(|failure| tell::failure(failure, &access))?;
    let is_good = checked.errors.is_empty() && checked.agents.is_empty();
    let found: Vec<_> = checked.errors.iter().chain(&checked.warnings).cloned().collect();
    Ok(Json(json!({
        "ok": is_good,
        "diagnostics": tell::diagnostics(&found, &access),
        "agents": checked.agents,
        // What may be written, and what more it takes.
        "scopes": if checked.changes_terms { vec![Scope::TenantsAdmin] } else { Vec::new() },
    })))
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
    let most = Limits::default().document;
    let bytes = body::collect(request.into_body(), shared.settings.body.min(most)).await?;
    if body::depth(&bytes) > body::DEPTH {
        let detail = format!("the document is nested deeper than {} levels", body::DEPTH);
        return Err(Problem::new(Code::BadRequest, detail, "send one with fewer levels"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let detail = format!("the document is not UTF-8: byte {at} is not part of a character");
        Problem::new(Code::BadRequest, detail, "send it as UTF-8")
    })
}

fn author(access: &Access) -> Author {
    Author { key: access.key().to_owned(), name: access.name().map(str::to_owned) }
}
