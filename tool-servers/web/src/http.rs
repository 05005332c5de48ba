//! One GET request through `wasi:http`, waited for.

use std::collections::BTreeMap;
use std::fmt;

use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, IncomingResponse, Method, OutgoingRequest, Scheme};
use wasip2::io::streams::StreamError;

/// An address, in the parts that a request is made of.
#[derive(Clone)]
pub(crate) struct Address {
    encrypted: bool,
    authority: String,
    path: String,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| not_one(text))?;
        let encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(not_one(text)),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.is_empty() {
            return Err(not_one(text));
        }
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { encrypted, authority: authority.to_owned(), path })
    }

    /// Where a redirect leads.
    pub(crate) fn join(&self, location: &str) -> Result<Self, String> {
        if location.contains("://") {
            return Self::parse(location);
        }
        if let Some(rest) = location.strip_prefix("//") {
            return Self::parse(&format!("{}://{rest}", self.scheme()));
        }
        let folder = match location.strip_prefix('/') {
            Some(_) => "",
            None => self.path.rsplit_once('/').map_or("/", |(folder, _)| folder),
        };
        let slash = if location.starts_with('/') { "" } else { "/" };
        Self::parse(&format!("{}://{}{folder}{slash}{location}", self.scheme(), self.authority))
    }

    fn scheme(&self) -> &'static str {
        if self.encrypted { "https" } else { "http" }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}{}", self.scheme(), self.authority, self.path)
    }
}

/// A response whose body was not read yet.
pub(crate) struct Response(IncomingResponse);

/// Sends a request and waits for the head of its response.
pub(crate) fn get(address: &Address, headers: &BTreeMap<String, String>) -> Result<Response, String> {
    let fields = Fields::new();
    for (name, value) in headers {
        fields
            .append(name, value.as_bytes())
            .map_err(|error| format!("the header `{name}` cannot be set: {error}"))?;
    }
    let request = OutgoingRequest::new(fields);
    let scheme = if address.encrypted { Scheme::Https } else { Scheme::Http };
    let unfit = |()| format!("`{address}` cannot be asked for");
    request.set_method(&Method::Get).map_err(unfit)?;
    request.set_scheme(Some(&scheme)).map_err(unfit)?;
    request.set_authority(Some(&address.authority)).map_err(unfit)?;
    request.set_path_with_query(Some(&address.path)).map_err(unfit)?;

    let failed = |error| format!("`{address}` gave no answer: {error:?}");
    let response = outgoing_handler::handle(request, None).map_err(failed)?;
    response.subscribe().block();
    match response.get() {
        Some(Ok(Ok(response))) => Ok(Response(response)),
        Some(Ok(Err(error))) => Err(failed(error)),
        Some(Err(())) | None => Err(format!("`{address}` gave no answer")),
    }
}

impl Response {
    pub(crate) fn status(&self) -> u16 {
        self.0.status()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let value = self.0.headers().get(name).into_iter().next()?;
        String::from_utf8(value).ok()
    }

    /// Reads the body, at most so many bytes, and says whether there was more.
    pub(crate) fn read(self, limit: usize) -> Result<(Vec<u8>, bool), String> {
        let body = self.0.consume().map_err(|()| "the body was read already".to_owned())?;
        let stream = body.stream().map_err(|()| "the body was read already".to_owned())?;
        let mut bytes = Vec::new();
        loop {
            match stream.blocking_read(READ_BYTES) {
                Ok(chunk) => bytes.extend_from_slice(&chunk),
                Err(StreamError::Closed) => return Ok((bytes, false)),
                Err(StreamError::LastOperationFailed(error)) => {
                    let code = wasip2::http::types::http_error_code(&error);
                    let why = code.map_or_else(|| error.to_debug_string(), |code| format!("{code:?}"));
                    return Err(format!("the body broke off: {why}"));
                }
            }
            if bytes.len() > limit {
                bytes.truncate(limit);
                return Ok((bytes, true));
            }
        }
    }
}

fn not_one(text: &str) -> String {
    format!("`{text}` is not an address, expected one such as `https://example.com/page`")
}

const READ_BYTES: u64 = 16 * 1024;
