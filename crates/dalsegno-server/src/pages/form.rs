//! What a form of a page sends.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;

use super::session;
use crate::body;
use crate::problem::{Code, Problem};
use crate::shared::Shared;

/// The fields of a form, from a page of this server. The last one of a name counts.
pub(super) struct Form(BTreeMap<String, String>);

impl FromRequest<Arc<Shared>> for Form {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Problem> {
        if !session::is_own(request.headers(), Some(&request)) {
            return Err(session::foreign());
        }
        let kind = request.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
        if !kind.is_some_and(|kind| kind.starts_with(b"application/x-www-form-urlencoded")) {
            return Err(Problem::new(
                Code::BadRequest,
                "the request is not a form",
                "send the form of the page",
            ));
        }
        let bytes = body::collect(request.into_body(), shared.settings.body).await?;
        Ok(Self(form_urlencoded::parse(&bytes).into_owned().collect()))
    }
}

impl Form {
    /// A field as it was typed, with line ends as JSON and people write them; empty without one.
    pub(super) fn text(&self, name: &str) -> String {
        self.0.get(name).map(|text| text.replace("\r\n", "\n")).unwrap_or_default()
    }

    /// A field without what surrounds it; none where it is empty.
    pub(super) fn given(&self, name: &str) -> Option<String> {
        let text = self.text(name);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}
