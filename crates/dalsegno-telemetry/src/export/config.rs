//! Where spans are sent, and in what bounds.

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Where spans are sent, and in what bounds.
///
/// Nothing of it is read from the environment: no network call happens that the caller did not name.
#[derive(Clone)]
pub struct ExportConfig {
    /// The collector's address for OTLP over HTTP, such as `http://127.0.0.1:4318`. Spans go to `/v1/traces` below it,
    /// unless it ends with that already.
    pub endpoint: String,
    /// Headers of each request, such as a collector's key. They are never shown.
    pub headers: Vec<(String, String)>,
    /// What the spans are of: attributes of the resource. `service.name` is `dalsegno` and `service.version` this
    /// release's, unless they are here.
    pub resource: Vec<(String, String)>,
    /// Most finished spans that wait. 8,192 by default: some megabytes, and minutes of a busy worker. What does not fit
    /// is dropped and counted.
    pub queue: usize,
    /// Most spans of one request. 512 by default, as collectors expect.
    pub batch: usize,
    /// Longest time that a span waits for others. One second by default, so that a trace is seen while it is of
    /// interest.
    pub delay: Duration,
    /// Longest time for one request. 10 seconds by default, as OTLP has it.
    pub timeout: Duration,
    /// Longest time that a batch is sent again while the collector is away or overloaded; then it is dropped and
    /// counted. 30 seconds by default: a restart of a collector loses nothing.
    pub retry_for: Duration,
}

impl ExportConfig {
    /// Export to this address, all else by default.
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            headers: Vec::new(),
            resource: Vec::new(),
            queue: 8192,
            batch: 512,
            delay: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            retry_for: Duration::from_secs(30),
        }
    }

    /// The address of requests, checked.
    pub(super) fn url(&self) -> Result<Url, ExportError> {
        let wrong = |reason: String| ExportError::Endpoint { endpoint: shown(&self.endpoint), reason };
        let mut url = Url::parse(&self.endpoint).map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(format!("its scheme is `{}`", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it holds a name or password, which belong in a header".to_owned()));
        }
        let path = url.path().trim_end_matches('/');
        if !path.ends_with(PATH) {
            let path = format!("{path}{PATH}");
            url.set_path(&path);
        }
        Ok(url)
    }

    /// The headers, checked and marked as sensitive.
    pub(super) fn header_map(&self) -> Result<HeaderMap, ExportError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let wrong = || ExportError::Header { name: name.clone() };
            let key: HeaderName = name.parse().map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        Ok(headers)
    }

    /// The attributes of the resource.
    pub(super) fn resource(&self) -> Vec<(String, String)> {
        let own = [("service.name", "dalsegno"), ("service.version", env!("CARGO_PKG_VERSION"))];
        let missing = |name: &str| !self.resource.iter().any(|(given, _)| given == name);
        let own = own.into_iter().filter(|(name, _)| missing(name));
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        own.chain(self.resource.iter().cloned()).collect()
    }
}

const PATH: &str = "/v1/traces";

/// An address without what may be secret in it.
fn shown(endpoint: &str) -> String {
    match Url::parse(endpoint) {
        Ok(url) => format!("{}{}", url.origin().ascii_serialization(), url.path()),
        Err(_) => endpoint.chars().take_while(|char| *char != '?' && *char != '@').take(128).collect(),
    }
}

impl fmt::Debug for ExportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ExportConfig")
            .field("endpoint", &shown(&self.endpoint))
            .field("headers", &names)
            .field("resource", &self.resource)
            .field("queue", &self.queue)
            .field("batch", &self.batch)
            .field("delay", &self.delay)
            .field("timeout", &self.timeout)
            .field("retry_for", &self.retry_for)
            .finish()
    }
}

/// Why spans cannot be exported at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The address is none.
    #[error(
        "`{endpoint}` is no address of a collector: {reason}; expected one such as `http://127.0.0.1:4318`"
    )]
    Endpoint {
        /// The address.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header is none.
    #[error("the header `{name}` for the collector is no HTTP header: check its name and its value")]
    Header {
        /// The header's name.
        name: String,
    },
    /// There is no client.
    #[error("there is no HTTP client for the collector: {source}")]
    Client {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nothing runs the task that sends.
    #[error(
        "telemetry was started outside of a tokio runtime, which sends the spans: start it inside of one"
    )]
    NoRuntime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_go_below_the_address_unless_it_names_their_path() {
        for (endpoint, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example/api/x", "https://otel.example/api/x/v1/traces"),
            ("https://otel.example/v1/traces", "https://otel.example/v1/traces"),
            ("https://otel.example/v1/traces?k=v", "https://otel.example/v1/traces?k=v"),
        ] {
            assert_eq!(ExportConfig::new(endpoint).url().unwrap().as_str(), url);
        }
    }

    #[test]
    fn an_address_that_is_none_is_refused_without_showing_what_may_be_secret() {
        for endpoint in ["", "127.0.0.1:4318", "ftp://h/SECRET?SECRET", "http://u:SECRET@h", "//u:p@SECRET"] {
            let error = ExportConfig::new(endpoint).url().unwrap_err().to_string();
            assert!(!error.contains("SECRET?") && !error.contains(":SECRET"), "{error}");
        }
    }

    #[test]
    fn headers_are_never_shown() {
        let mut config = ExportConfig::new("http://h");
        config.headers = vec![("authorization".into(), "Bearer SECRET".into())];
        assert!(!format!("{config:?}").contains("SECRET"));
        assert!(!format!("{:?}", config.header_map().unwrap()).contains("SECRET"));
        config.headers = vec![("authorization".into(), "SECRET\n".into())];
        assert!(!config.header_map().unwrap_err().to_string().contains("SECRET"));
    }
}
