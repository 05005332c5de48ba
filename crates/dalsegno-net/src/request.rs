//! What is sent, and what may come back.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderMap;
use url::Url;

/// A request with the bounds of its answer.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is asked for.
    pub method: Method,
    /// Where it goes.
    pub url: Url,
    /// Its headers. Across a redirect to another origin only those are kept that carry no credentials.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Option<Vec<u8>>,
    /// The longest from the beginning to the last byte of the answer. Default 30 s, as most services answer or give up
    /// in that time.
    pub timeout: Duration,
    /// The most bytes that are read of the answer's body. Default 1 MiB.
    pub max_bytes: u64,
    /// The most redirects that are followed. Default none: a receiver that is written down is meant.
    pub redirects: u32,
}

impl Request {
    /// A request without headers and body, with the default bounds.
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: None,
            timeout: Duration::from_secs(30),
            max_bytes: 1024 * 1024,
            redirects: 0,
        }
    }

    /// A `GET` request.
    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// A `POST` request with this body.
    pub fn post(url: Url, body: Vec<u8>) -> Self {
        Self { body: Some(body), ..Self::new(Method::POST, url) }
    }
}
