//! Reads the address of an endpoint. Keys and whatever is asked go there, so it is encrypted or stays on this machine.

use std::net::IpAddr;

use crate::code::Code;
use crate::section::Section;

/// Reads an address; `None` where it is absent or refused.
pub(super) fn read(section: &Section<'_>, key: &str, allow_http: bool) -> Option<String> {
    let text = section.string(key)?;
    let (scheme, rest) = text.value.split_once("://").unwrap_or(("", &text.value));
    let scheme = scheme.to_ascii_lowercase();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host(authority);
    let problem = if authority.contains('@') {
        "it contains a user name or a password: set the key as `api_key`"
    } else if !["http", "https"].contains(&scheme.as_str()) {
        "expected an address such as `https://api.example.com/v1`"
    } else if text.value.contains("${")
        || text.value.contains(|letter: char| letter.is_whitespace() || letter.is_control())
    {
        "variables are not expanded, and an address cannot contain spaces: write the address itself"
    } else if host.is_none() {
        "expected a host and optionally a port, such as `127.0.0.1:11434`"
    } else {
        ""
    };
    if !problem.is_empty() {
        let shown = if authority.contains('@') { "…" } else { &text.value };
        section
            .report
            .error(Code::InvalidValue, text.span.clone(), format!("`{key}` cannot be `{shown}`"))
            .label(problem);
        if authority.contains('@') {
            section.report.conceal(section.key_span(key)?, text.span);
        }
        return None;
    }
    if scheme == "http" && !allow_http && !host.is_some_and(is_loopback) {
        section
            .report
            .error(Code::InsecureUrl, text.span, format!("`{key}` sends keys and data unencrypted"))
            .label("this `http` address is not on this machine")
            .help("write `https://…`; set `allow_http = true` only in your own network");
        return None;
    }
    Some(text.value)
}

/// Reads a destination in its shortest form: scheme, host and port without anything else; `None` where it is not one.
pub(super) fn origin(text: &str) -> Option<String> {
    let (scheme, authority) = text.split_once("://")?;
    let usual = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => return None,
    };
    let name = host(authority)?;
    // A dot at the end, an empty label: names that others would read differently.
    if authority.ends_with(':') || authority.ends_with(":0") || name.split('.').any(str::is_empty) {
        return None;
    }
    let authority = authority.to_ascii_lowercase();
    Some(format!("{scheme}://{}", authority.strip_suffix(usual).unwrap_or(&authority)))
}

/// Whether nobody on the way reads what is sent to a destination.
pub(super) fn is_private(origin: &str) -> bool {
    match origin.split_once("://") {
        Some(("https", _)) => true,
        Some((_, authority)) => host(authority).is_some_and(is_loopback),
        None => false,
    }
}

/// The host of `host:port`, if both are such.
fn host(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port.strip_prefix(':').or(port.is_empty().then_some("0"))?)
        }
        None => authority.split_once(':').unwrap_or((authority, "0")),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    let is_valid = !host.is_empty() && host.bytes().all(is_name) && port.parse::<u16>().is_ok();
    is_valid.then_some(host)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port() {
        assert_eq!(host("127.0.0.1:11434"), Some("127.0.0.1"));
        assert_eq!(host("api.example.com"), Some("api.example.com"));
        assert_eq!(host("[::1]:8080"), Some("::1"));
        assert_eq!(host("[::1]"), Some("::1"));
        for wrong in ["", ":80", "a:port", "a:99999", "a b", "[::1", "[x]", "[::1]80", "ä.example"] {
            assert_eq!(host(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_destination_is_scheme_host_and_port() {
        for (text, plain) in [
            ("https://crm.example.com", "https://crm.example.com"),
            ("https://CRM.example.com:443", "https://crm.example.com"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:80", "http://[::1]"),
        ] {
            assert_eq!(origin(text).as_deref(), Some(plain), "{text}");
        }
        for wrong in [
            "crm.example.com",
            "ftp://a",
            "https://",
            "https://*.example.com",
            "https://a/",
            "https://a/b",
            "https://user@a",
            "https://a:",
            "https://a:0",
            "https://a:x",
            "https://a.",
            "https://a..b",
            "https://a b",
        ] {
            assert_eq!(origin(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_secret_stays_on_this_machine_or_is_encrypted() {
        for safe in ["https://crm.example.com", "http://localhost:80", "http://127.0.0.1:1", "http://[::1]:1"]
        {
            assert!(is_private(safe), "{safe}");
        }
        for open in ["http://crm.example.com", "http://10.0.0.1", "http://localhost.example.com"] {
            assert!(!is_private(open), "{open}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for near in ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1"] {
            assert!(is_loopback(near), "{near}");
        }
        for far in ["example.com", "10.0.0.1", "localhost.example.com", "127.0.0.1.example.com", "0.0.0.0"] {
            assert!(!is_loopback(far), "{far}");
        }
    }
}
