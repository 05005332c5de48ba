//! A document as it is in use, and its earlier versions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, ETAG, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dalsegno_catalogue::Version;
use dalsegno_core::Timestamp;
use serde_json::{Value, json};

use super::target::{Target, no_document};
use super::{etag, tell};
use crate::problem::Problem;
use crate::shared::Shared;

/// The text of a document, with its version as `ETag`.
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    Target { access, id, .. }: Target,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let _turn = shared.turns.of(&access).await;
    let shown = shared.engine.document(&id).await.map_err(|failure| tell::failure(failure, &access))?;
    let mut response = match etag::has(&headers, shown.version) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => text(shown.text, tell::media_type(id.kind())),
    };
    response.headers_mut().insert(ETAG, etag::tag(shown.version));
    response.headers_mut().insert(tell::LAYER, HeaderValue::from_static(tell::layer(shown.layer)));
    Ok(response)
}

/// The changes of a document that are kept, the newest first.
pub(crate) async fn versions(
    State(shared): State<Arc<Shared>>,
    Target { access, id, .. }: Target,
) -> Result<Json<Value>, Problem> {
    let failed = |failure| tell::failure(failure, &access);
    let versions = shared.engine.document_versions(&id).await.map_err(failed)?;
    if versions.is_empty() {
        // A file has one version, which is shown and not kept.
        let _turn = shared.turns.of(&access).await;
        shared.engine.document(&id).await.map_err(failed)?;
    }
    let items: Vec<Value> = versions
        .iter()
        .map(|entry| {
            json!({
                "number": entry.number,
                "version": entry.version.map(|version| version.to_string()),
                "bytes": entry.bytes,
                "changed": dalsegno_wire::time::exact(Timestamp::from_millis(entry.at)),
                "by": tell::author(&entry.by),
            })
        })
        .collect();
    Ok(Json(json!({ "items": items })))
}

/// The text of one version.
pub(crate) async fn version(
    State(shared): State<Arc<Shared>>,
    Target { access, id, version }: Target,
) -> Result<Response, Problem> {
    let version: Version = version.and_then(|version| version.parse().ok()).ok_or_else(no_document)?;
    let found = shared.engine.document_version(&id, version).await;
    let found = found.map_err(|failure| tell::failure(failure, &access))?;
    let mut response = text(found, tell::media_type(id.kind()));
    response.headers_mut().insert(ETAG, etag::tag(version));
    Ok(response)
}

fn text(text: String, media_type: HeaderValue) -> Response {
    let mut response = text.into_response();
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}
