//! A document as it is in use, and its earlier versions.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, ETAG, HeaderValue};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use dalsegno_access::Access;
use dalsegno_catalogue::{DocumentId, Version, VersionEntry};
use dalsegno_runtime::{DocumentFailure, ShownDocument};
use dalsegno_wire::schema;
use serde::Serialize;
use utoipa::ToSchema;

use super::target::{Target, no_document};
use super::tell::DocumentAuthor;
use super::{etag, tell};
use crate::cursor::List;
use crate::link;
use crate::listing::{self, Page, Paging};
use crate::params::Params;
use crate::problem::Problem;
use crate::shared::Shared;

/// The text of a document, with its version as `ETag`.
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    Target { access, id, .. }: Target,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let shown = shown(&shared, &access, &id).await?;
    let mut response = match etag::has(&headers, shown.version) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => text(shown.text, tell::media_type(id.kind())),
    };
    response.headers_mut().insert(ETAG, etag::tag(shown.version));
    response.headers_mut().insert(tell::LAYER, HeaderValue::from_static(tell::layer(shown.layer)));
    Ok(response)
}

/// A page of the changes of a document.
#[derive(Serialize, ToSchema)]
pub(crate) struct DocumentVersions {
    /// Those that are kept, the newest first.
    items: Vec<DocumentVersion>,
    /// The cursor of the next page; none on the last one.
    #[schema(required)]
    next: Option<String>,
}

/// A change of a document.
#[derive(Serialize, ToSchema)]
struct DocumentVersion {
    /// The number of the change, from 1.
    number: u64,
    /// The version: the hash of the text; none for a deletion.
    #[schema(required)]
    version: Option<String>,
    /// The length of the text; none for a deletion.
    #[schema(required)]
    bytes: Option<u64>,
    /// When it was made, in UTC.
    #[schema(value_type = schema::Time)]
    changed: String,
    /// The key that made it.
    by: DocumentAuthor,
}

impl DocumentVersion {
    fn of(entry: &VersionEntry) -> Self {
        Self {
            number: entry.number,
            version: entry.version.map(|version| version.to_string()),
            bytes: entry.version.map(|_| entry.bytes),
            changed: tell::time(entry.at),
            by: DocumentAuthor::of(&entry.by),
        }
    }
}

/// The changes of a document that are kept, the newest first.
pub(crate) async fn versions(
    State(shared): State<Arc<Shared>>,
    Target { access, id, .. }: Target,
    uri: Uri,
    Params(paging): Params<Paging>,
) -> Result<Response, Problem> {
    let versions = shared.engine.document_versions(&id).await;
    let versions = versions.map_err(|failure| tell::failure(failure, &access))?;
    if versions.is_empty() {
        // A file has one version, which is shown and not kept.
        shown(&shared, &access, &id).await?;
    }
    let list = List::of("versions", &serde_json::json!([id.kind().as_str(), id.tenant(), id.name()]));
    // The newest first.
    let changes = versions.iter().map(|change| (format!("{:020}", u64::MAX - change.number), change));
    let Page { items, next } = listing::named(&list, &paging, changes)?;
    let page = DocumentVersions { items: items.into_iter().map(DocumentVersion::of).collect(), next };
    Ok(link::page(&uri, &page, page.next.as_deref().map(|next| ("cursor", next))))
}

/// The document in use.
async fn shown(shared: &Arc<Shared>, access: &Access, id: &DocumentId) -> Result<ShownDocument, Problem> {
    in_use(shared, access, id).await?.map_err(|failure| tell::failure(failure, access))
}

/// The document in use, or why it cannot be shown. The work is done to its end when the client gives up, and keeps the turn of its
/// key until then.
pub(crate) async fn in_use(
    shared: &Arc<Shared>,
    access: &Access,
    id: &DocumentId,
) -> Result<Result<ShownDocument, DocumentFailure>, Problem> {
    let turn = shared.turns.of(access).await;
    let (engine, id) = (shared.engine.clone(), id.clone());
    shared
        .whole(async move {
            let _turn = turn;
            Ok(engine.document(&id).await)
        })
        .await
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
