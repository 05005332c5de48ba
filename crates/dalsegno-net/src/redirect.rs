//! Where a redirect leads, and what of a request goes along.

use reqwest::header::{
    ACCEPT, ACCEPT_LANGUAGE, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION,
};
use reqwest::{Method, StatusCode};

use crate::error::{DenialReason, EgressDenied, NetError};
use crate::origin::{Origin, Scheme, shown};
use crate::request::Request;

/// Headers that say nothing about who asks.
const PLAIN: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, CONTENT_LANGUAGE, CONTENT_TYPE];

/// Turns a request into the one that a redirect asks for; `false` if the answer is no redirect.
pub(crate) fn follow(
    request: &mut Request,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<bool, NetError> {
    let keeps_method = match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => request.method != Method::POST,
        StatusCode::SEE_OTHER => request.method == Method::HEAD,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        _ => return Ok(false),
    };
    let Some(location) = headers.get(LOCATION) else { return Ok(false) };
    let unreadable = || NetError::Location { url: shown(&request.url) };
    let location = location.to_str().map_err(|_| unreadable())?;
    let mut to = request.url.join(location).map_err(|_| unreadable())?;
    to.set_fragment(None);

    let (here, there) = (Origin::of(&request.url)?, Origin::of(&to)?);
    if here.scheme() == Scheme::Https && there.scheme() == Scheme::Http {
        return Err(EgressDenied { origin: there.to_string(), reason: DenialReason::Downgrade }.into());
    }
    if !keeps_method {
        request.method = Method::GET;
        request.body = None;
        request.headers.remove(CONTENT_TYPE);
    }
    if here != there {
        if request.body.is_some() {
            return Err(NetError::BodyElsewhere { url: shown(&request.url), to: shown(&to) });
        }
        strip(&mut request.headers);
    }
    request.url = to;
    Ok(true)
}

/// Leaves only what says nothing about who asks. A key can be in a header of any name.
fn strip(headers: &mut HeaderMap) {
    let kept = PLAIN.into_iter().filter_map(|name| {
        let value = headers.get(&name).filter(|value| !value.is_sensitive())?;
        Some((name, value.clone()))
    });
    *headers = kept.collect();
}
