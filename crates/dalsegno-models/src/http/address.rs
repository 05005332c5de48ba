//! Where requests go: an address that can be read, holds no secret, and is encrypted or stays on this machine.

use std::net::IpAddr;

use reqwest::Url;

use super::failure::excerpt;
use super::{HttpModelError, HttpModelSettings, Wire, bedrock};

/// The address that requests go to.
pub(super) fn read(settings: &HttpModelSettings) -> Result<Url, HttpModelError> {
    let HttpModelSettings { wire, model, .. } = settings;
    let mut url = below(settings, wire.path(model))?;
    if let Some((name, value)) = wire.query()
        && !url.query_pairs().any(|(other, _)| other == name)
    {
        url.query_pairs_mut().append_pair(name, value);
    }
    if *wire == Wire::Bedrock {
        let path = format!("{}{}", url.path().trim_end_matches('/'), bedrock::path(model));
        url.set_path(&path);
    }
    Ok(url)
}

/// An address below that of the endpoint, whose query it keeps.
pub(super) fn below(settings: &HttpModelSettings, mut path: Vec<String>) -> Result<Url, HttpModelError> {
    let &HttpModelSettings { wire, allow_http, .. } = settings;
    let base = match &settings.base_url {
        Some(base) => base.clone(),
        None if wire == Wire::Bedrock => bedrock::base_url(settings.region.as_deref())?,
        None => wire.default_base_url().to_owned(),
    };
    let base = base.as_str();
    let refused = |message: &str| HttpModelError::BaseUrl { url: shown(base), message: message.to_owned() };
    let mut url = Url::parse(base).map_err(|error| refused(&format!("{error}; expected `https://…`")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("it holds a user's name or password; give the key as a secret instead"));
    }
    if !matches!(url.scheme(), "https" | "http") {
        return Err(refused("expected `https://…`, or `http://…` for a local server"));
    }
    if url.scheme() == "http" && !allow_http && !is_loopback(&url) {
        return Err(HttpModelError::Insecure { url: shown(base) });
    }
    url.set_fragment(None);
    let ends_in_version =
        url.path_segments().and_then(|parts| parts.rev().find(|part| !part.is_empty())) == Some("v1");
    if wire == Wire::Anthropic && ends_in_version {
        path.remove(0);
    }
    match url.path_segments_mut() {
        Ok(mut parts) => parts.pop_if_empty().extend(path),
        Err(()) => return Err(refused("expected an address with a host")),
    };
    Ok(url)
}

/// An address as errors show it: without a user's name, a password and a query.
fn shown(base: &str) -> String {
    match Url::parse(base) {
        Ok(url) if url.has_host() => {
            let port = url.port().map_or(String::new(), |port| format!(":{port}"));
            let host = url.host_str().unwrap_or_default();
            excerpt(&format!("{}://{host}{port}{}", url.scheme(), url.path()))
        }
        // Nobody knows where a password ends in what cannot be read, so all before the last `@` is left out.
        Ok(_) | Err(_) => {
            let base = match base.rsplit_once('@') {
                Some((_, rest)) => format!("…@{rest}"),
                None => base.to_owned(),
            };
            excerpt(base.split(['?', '#']).next().unwrap_or_default())
        }
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
