//! Where the next page is, as RFC 8288 has it.

use axum::Json;
use axum::http::header::LINK;
use axum::http::{HeaderValue, Uri};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

/// A page as an answer, with the address of the next one: that of this one with another value of a parameter.
pub(crate) fn page(uri: &Uri, page: &impl Serialize, next: Option<(&str, &str)>) -> Response {
    let mut response = Json(page).into_response();
    if let Some((name, value)) = next
        && let Ok(link) = HeaderValue::from_str(&format!("<{}>; rel=\"next\"", address(uri, name, value)))
    {
        response.headers_mut().insert(LINK, link);
    }
    response
}

fn address(uri: &Uri, name: &str, value: &str) -> String {
    let pairs = uri.query().unwrap_or_default().split('&');
    let kept = pairs.filter(|pair| !pair.is_empty() && pair.split('=').next() != Some(name));
    let mut query: Vec<String> = kept.map(str::to_owned).collect();
    query.push(format!("{name}={value}"));
    // These end the address, and stand for themselves nowhere in one.
    format!("{}?{}", uri.path(), query.join("&")).replace('<', "%3C").replace('>', "%3E")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_address_differs_in_one_parameter() {
        for (uri, expected) in [
            ("/v1/runs", "/v1/runs?cursor=x"),
            ("/v1/runs?limit=3&cursor=w", "/v1/runs?limit=3&cursor=x"),
            ("/v1/runs?cursor=w&agent=a%26b", "/v1/runs?agent=a%26b&cursor=x"),
            ("/v1/runs?cursors=w", "/v1/runs?cursors=w&cursor=x"),
        ] {
            assert_eq!(address(&uri.parse().unwrap(), "cursor", "x"), expected);
        }
    }
}
