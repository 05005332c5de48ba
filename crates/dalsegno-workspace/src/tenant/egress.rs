//! Reads whom a tenant's tools may reach.

use std::collections::BTreeSet;

use url::{Host, Url};

use crate::code::Code;
use crate::section::{Located, Section};

/// Reads a list of origins. One that cannot be read is reported and left out; nothing falls back to something wider.
pub(super) fn read(file: &Section<'_>, key: &str) -> BTreeSet<String> {
    let mut origins = BTreeSet::new();
    for text in file.list::<String>(key) {
        match origin(&text.value) {
            Ok(origin) => {
                if !origins.insert(origin) {
                    file.report.warning(
                        Code::NoEffect,
                        text.span,
                        format!("`{}` is listed twice", text.value),
                    );
                }
            }
            Err(problem) => refuse(file, text, problem),
        }
    }
    origins
}

fn refuse(file: &Section<'_>, text: Located<String>, problem: &str) {
    // A user's name and password are not repeated.
    let shown = if text.value.contains('@') { "…" } else { &text.value };
    if text.value.contains('@') {
        file.report.conceal(text.span.clone(), text.span.clone());
    }
    file.report
        .error(Code::InvalidValue, text.span, format!("`{shown}` is not a destination"))
        .label(problem)
        .help("write scheme, host and, if it is not the default, the port: `https://api.example.com`");
}

/// The origin in its one form: lower case, the host as a name server knows it, no port where it is the usual one.
pub(super) fn origin(text: &str) -> Result<String, &'static str> {
    if text.contains('*') {
        return Err("write each host in full: wildcards are not allowed");
    }
    let url = Url::parse(text).map_err(|_| "expected an address such as `https://api.example.com`")?;
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        return Err("a grant is for a whole host: expected no path");
    }
    if url.scheme() == "smtp" && url.username().is_empty() && url.password().is_none() {
        return mail_server(&url);
    }
    origin_of(&url)
}

/// A mail server: its port is 587 where none is written.
fn mail_server(url: &Url) -> Result<String, &'static str> {
    let host = Host::parse(url.host_str().unwrap_or_default());
    let host = host.map_err(|_| "its host is neither a name nor an address")?;
    match url.port() {
        Some(0) => Err("there is no port 0"),
        Some(587) | None => Ok(format!("smtp://{host}")),
        Some(port) => Ok(format!("smtp://{host}:{port}")),
    }
}

/// The origin of an address.
pub(super) fn origin_of(url: &Url) -> Result<String, &'static str> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err("only `http` and `https` can be reached");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it contains a user name or a password");
    }
    if let Some(Host::Domain(name)) = url.host() {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.len() > 253 || !name.bytes().all(known) || name.split('.').any(str::is_empty) {
            return Err("its host is neither a name nor an address");
        }
    }
    if url.port() == Some(0) {
        return Err("there is no port 0");
    }
    Ok(url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::origin;

    #[test]
    fn an_origin_has_one_form() {
        for (text, expected) in [
            ("https://API.example.com:443/", "https://api.example.com"),
            ("http://api.example.com:8080", "http://api.example.com:8080"),
            ("http://0x7f.1:80", "http://127.0.0.1"),
            ("https://bücher.example", "https://xn--bcher-kva.example"),
            ("http://[::1]:9000", "http://[::1]:9000"),
        ] {
            assert_eq!(origin(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_more_or_less_than_an_origin_is_refused() {
        for text in [
            "api.example.com",
            "ftp://api.example.com",
            "https://api.example.com/v1",
            "https://api.example.com?a",
            "https://user@api.example.com",
            "https://*.example.com",
            "https://a..b",
            "https://a:0",
            "https://",
            "",
            "file:///etc/passwd",
            "data:text/plain,x",
        ] {
            assert!(origin(text).is_err(), "{text}");
        }
    }
}
