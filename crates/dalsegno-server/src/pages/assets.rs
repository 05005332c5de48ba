//! `GET /assets/{version}/{name}`: the style, the scripts and the icon.

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};

use crate::problem::{Code, Problem};

/// Sends a file of the pages. It needs no session: the files are the same for everybody.
pub(super) async fn asset(Path((version, name)): Path<(String, String)>) -> Result<Response, Problem> {
    let asset = dalsegno_web::assets::find(&name).ok_or_else(|| {
        Problem::new(Code::NotFound, "there is nothing at this address", "load the page again")
    })?;
    // What is asked for under an older version is the file of this one, and is not kept under that name.
    let kept = match version == dalsegno_web::assets::version() {
        true => "public, max-age=31536000, immutable",
        false => "no-store",
    };
    Ok(([(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, kept)], asset.text).into_response())
}
